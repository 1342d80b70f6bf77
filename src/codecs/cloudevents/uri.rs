//! The syntax of URIs and URI-references, RFC 3986: checked, never rewritten.

/// Whether `text` is a URI-reference (RFC 3986 section 4.1).
pub(super) fn is_reference(text: &str) -> bool {
    parse(text).is_some()
}

/// Whether `text` is a URI: a reference with a scheme.
///
/// A fragment is let through, although RFC 3986 section 4.3, which the CloudEvents type system
/// cites, has none: schema locations use them.
pub(super) fn is_absolute(text: &str) -> bool {
    parse(text).is_some_and(|scheme| scheme)
}

/// Whether there is a scheme; `None` if it is not a reference at all.
fn parse(text: &str) -> Option<bool> {
    let (rest, fragment) = split_once(text.as_bytes(), b'#');
    let (rest, query) = split_once(rest, b'?');
    for part in [query, fragment].into_iter().flatten() {
        check(part, |b| is_pchar(b) || matches!(b, b'/' | b'?'))?;
    }
    let (rest, scheme) = match rest.iter().position(|b| matches!(b, b':' | b'/')) {
        Some(at) if rest.get(at) == Some(&b':') => {
            let (scheme, after) = rest.split_at(at);
            if !is_scheme(scheme) {
                return None;
            }
            (after.get(1..)?, true)
        }
        _ => (rest, false),
    };
    let path = match rest.strip_prefix(b"//") {
        Some(after) => {
            let end = after.iter().position(|&b| b == b'/').unwrap_or(after.len());
            let (authority, path) = after.split_at(end);
            check_authority(authority)?;
            path
        }
        None => rest,
    };
    check(path, |b| is_pchar(b) || b == b'/')?;
    Some(scheme)
}

fn split_once(bytes: &[u8], at: u8) -> (&[u8], Option<&[u8]>) {
    match bytes.iter().position(|&b| b == at) {
        Some(index) => {
            let (before, after) = bytes.split_at(index);
            (before, after.get(1..))
        }
        None => (bytes, None),
    }
}

fn is_scheme(scheme: &[u8]) -> bool {
    scheme.first().is_some_and(u8::is_ascii_alphabetic)
        && scheme
            .iter()
            .all(|&b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
}

fn check_authority(authority: &[u8]) -> Option<()> {
    let host_and_port = match authority.iter().rposition(|&b| b == b'@') {
        Some(at) => {
            let (user, host) = authority.split_at(at);
            check(user, |b| is_pchar(b) && b != b'@')?;
            host.get(1..)?
        }
        None => authority,
    };
    let port = if let Some(literal) = host_and_port.strip_prefix(b"[") {
        let (literal, port) = split_once(literal, b']');
        check_ip_literal(literal)?;
        match port? {
            [] => return Some(()),
            [b':', port @ ..] => port,
            _ => return None,
        }
    } else {
        let (host, port) = split_once(host_and_port, b':');
        check(host, |b| is_pchar(b) && !matches!(b, b':' | b'@'))?;
        port.unwrap_or_default()
    };
    port.iter().all(u8::is_ascii_digit).then_some(())
}

fn check_ip_literal(literal: &[u8]) -> Option<()> {
    let text = std::str::from_utf8(literal).ok()?;
    if let Some(future) = text.strip_prefix(['v', 'V']) {
        let (version, address) = future.split_once('.')?;
        let hex = !version.is_empty() && version.bytes().all(|b| b.is_ascii_hexdigit());
        let plain = |b: u8| is_pchar(b) && !matches!(b, b'%' | b'@');
        return (hex && !address.is_empty() && address.bytes().all(plain)).then_some(());
    }
    text.parse::<std::net::Ipv6Addr>().ok().map(drop)
}

/// Every byte passes `allowed`, and every `%` starts two hex digits.
fn check(bytes: &[u8], allowed: impl Fn(u8) -> bool) -> Option<()> {
    let mut rest = bytes.iter();
    while let Some(&b) = rest.next() {
        if !allowed(b) {
            return None;
        }
        if b == b'%' && !(is_hex(rest.next()) && is_hex(rest.next())) {
            return None;
        }
    }
    Some(())
}

fn is_hex(byte: Option<&u8>) -> bool {
    byte.is_some_and(u8::is_ascii_hexdigit)
}

/// `pchar` of RFC 3986 section 3.3, the `%` of an escape included.
#[inline]
fn is_pchar(b: u8) -> bool {
    b.is_ascii_alphanumeric()
        || matches!(
            b,
            b'-' | b'.'
                | b'_'
                | b'~'
                | b'%'
                | b'!'
                | b'$'
                | b'&'
                | b'\''
                | b'('
                | b')'
                | b'*'
                | b'+'
                | b','
                | b';'
                | b'='
                | b':'
                | b'@'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_of_rfc_3986_are_told_from_other_text() {
        for good in [
            "",
            "a",
            "/s",
            "../x",
            "?q=1",
            "#f",
            "//authority/path",
            "urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66",
            "http://[::1]:80/a",
            "http://[v1.a:b]/",
            "http://u:p@h:8080/p?q/?#f/?",
            "/a%20b",
            "./1:2",
            "mailto:a@b",
            "http:",
            "//host:/",
        ] {
            assert!(is_reference(good), "{good}");
        }
        for bad in [
            "1:2",
            ":a",
            "/a b",
            " /s",
            "/a|b",
            "/a^b",
            "\"/s\"",
            "/a%zz",
            "/a%2",
            "http://host/£",
            "#a#b",
            "http://[::1/",
            "http://[::1]x/",
            "http://[zz]/",
            "http://h:8a/",
            "http://a@b@c/",
            "/[a]",
            "a\\b",
            "<x>",
        ] {
            assert!(!is_reference(bad), "{bad}");
        }
    }

    #[test]
    fn an_absolute_uri_has_a_scheme() {
        for good in [
            "http://h/a",
            "HTTP://Host/a/../b",
            "urn:x",
            "https://h/s#/d",
        ] {
            assert!(is_absolute(good), "{good}");
        }
        for bad in ["#", "/a", "//h/a", "a", "", "1:2"] {
            assert!(!is_absolute(bad), "{bad}");
        }
    }
}
