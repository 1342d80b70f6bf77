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
///
/// One look at every byte says which of the delimiters there are, and most references have few.
fn parse(text: &str) -> Option<bool> {
    let text = text.as_bytes();
    let seen = text.iter().fold(0, |seen, &b| seen | class(b));
    if seen & OTHER != 0 {
        return None;
    }
    let has = |class: u8| seen & class != 0;
    let (rest, fragment) = match has(HASH) {
        true => split_once(text, b'#'),
        false => (text, None),
    };
    if fragment.is_some_and(|fragment| fragment.contains(&b'#')) {
        return None;
    }
    let (rest, query) = match has(QUESTION) {
        true => split_once(rest, b'?'),
        false => (rest, None),
    };
    let (rest, scheme) = match has(COLON) {
        true => split_scheme(rest)?,
        false => (rest, false),
    };
    let path = match rest.strip_prefix(b"//") {
        Some(after) => {
            let end = after.iter().position(|&b| b == b'/');
            let (authority, path) = after.split_at(end.unwrap_or(after.len()));
            check_authority(authority, seen)?;
            path
        }
        None => rest,
    };
    if has(BRACKET | PERCENT) {
        for part in [Some(path), query, fragment].into_iter().flatten() {
            check(part, |b| class(b) & BRACKET == 0)?;
        }
    }
    Some(scheme)
}

/// What follows the scheme, and whether there is one.
fn split_scheme(text: &[u8]) -> Option<(&[u8], bool)> {
    match text.iter().position(|b| matches!(b, b':' | b'/')) {
        Some(at) if text.get(at) == Some(&b':') => {
            let (scheme, after) = text.split_at(at);
            is_scheme(scheme).then_some(())?;
            Some((after.get(1..)?, true))
        }
        _ => Some((text, false)),
    }
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

/// `seen` are the classes of the whole reference, which spares looking for what is not there.
fn check_authority(authority: &[u8], seen: u8) -> Option<()> {
    let at = match seen & AT != 0 {
        true => authority.iter().rposition(|&b| b == b'@'),
        false => None,
    };
    let host_and_port = match at {
        Some(at) => {
            let (user, host) = authority.split_at(at);
            check(user, |b| class(b) & (AT | BRACKET) == 0)?;
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
        let (host, port) = match seen & COLON != 0 {
            true => split_once(host_and_port, b':'),
            false => (host_and_port, None),
        };
        if seen & (AT | BRACKET | PERCENT) != 0 {
            check(host, |b| class(b) & (AT | BRACKET) == 0)?;
        }
        port.unwrap_or_default()
    };
    port.iter().all(u8::is_ascii_digit).then_some(())
}

fn check_ip_literal(literal: &[u8]) -> Option<()> {
    let text = std::str::from_utf8(literal).ok()?;
    if let Some(future) = text.strip_prefix(['v', 'V']) {
        let (version, address) = future.split_once('.')?;
        let hex = !version.is_empty() && version.bytes().all(|b| b.is_ascii_hexdigit());
        let plain = |b: u8| class(b) & !COLON == 0;
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

/// The delimiters that make parts of a reference; 0 is a byte that may be in any part.
const COLON: u8 = 1;
const QUESTION: u8 = 2;
const HASH: u8 = 4;
const AT: u8 = 8;
const BRACKET: u8 = 16;
const PERCENT: u8 = 32;
const SLASH: u8 = 64;
/// A byte that no reference has.
const OTHER: u8 = 128;

static CLASSES: [u8; 256] = {
    let mut classes = [OTHER; 256];
    let mut b = 0_u8;
    while b < 128 {
        #[expect(clippy::indexing_slicing, reason = "evaluated by the compiler")]
        let slot = &mut classes[b as usize];
        *slot = match b {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => 0,
            b'-' | b'.' | b'_' | b'~' => 0,
            b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=' => 0,
            b':' => COLON,
            b'?' => QUESTION,
            b'#' => HASH,
            b'@' => AT,
            b'[' | b']' => BRACKET,
            b'%' => PERCENT,
            b'/' => SLASH,
            _ => OTHER,
        };
        b += 1;
    }
    classes
};

#[inline]
fn class(b: u8) -> u8 {
    CLASSES.get(usize::from(b)).copied().unwrap_or(OTHER)
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
