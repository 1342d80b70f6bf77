//! Placeholders of the environment and of files.

use kafka_chain::properties::{Origin, Problem, ProblemKind, Properties};

use super::{TempFile, pairs, parse};

#[test]
fn placeholders_are_replaced_as_kafka_replaces_them() {
    let secrets = TempFile::new("secrets", "pw=hünter2 ${env:A}\na\\:b=c\n".as_bytes());
    let path = secrets.path();
    let mut properties = parse("plain=x\na=${env:A}\n");
    for (key, value) in [
        ("two", "<${env:A}|${env::A}>".to_owned()),
        ("file", format!("${{file:{path}:pw}}")),
        ("file.colon", format!("${{file:{path}:a:b}}")),
        ("template", "${topic}.${ $ {env:A} ${open:".to_owned()),
        ("mixed", "${topic}-${env:A}".to_owned()),
    ] {
        properties.set(key, value);
    }
    let resolved = properties
        .resolve_with(&|name| (name == "A").then(|| "${env:B}".to_owned()))
        .unwrap();
    assert_eq!(
        pairs(&resolved),
        [
            ("plain", "x"),
            ("a", "${env:B}"),
            ("two", "<${env:B}|${env:B}>"),
            ("file", "hünter2 ${env:A}"),
            ("file.colon", "c"),
            ("template", "${topic}.${ $ {env:A} ${open:"),
            ("mixed", "${topic}-${env:B}"),
        ]
    );
    let secret: Vec<bool> = resolved.iter().map(|p| p.secret).collect();
    assert_eq!(secret, [false, true, true, true, true, false, true]);
    assert!(!format!("{resolved:?}").contains("ünter2"));
    assert_eq!(
        resolved.get("a").unwrap().origin,
        Origin::line("a.properties", 2)
    );
}

#[test]
fn all_placeholders_that_cannot_be_replaced_are_reported() {
    let secrets = TempFile::new("other-secrets", b"other=hunter2\n");
    let broken = TempFile::new("broken-secrets", b"pw=hunter2\\u1\n");
    let (path, broken_path) = (secrets.path(), broken.path());
    let text = format!(
        "a=${{env:NO}} ${{env:YES}}\nb=${{file:{path}:pw}}\nc=${{file:/no/such:pw}}\n\
         d=${{vault:a:b}}\ne=${{file:pw}}\nf=${{env:x:NO}}\ng=${{file:{broken_path}:pw}}\n\
         sasl.password=hun${{ter2:}}\n"
    );
    let report = parse(&text)
        .resolve_with(&|name| (name == "YES").then(|| "hunter2".to_owned()))
        .unwrap_err();
    let known = "the known ones are env (${env:NAME}) and file (${file:/path:key})";
    let of_config: Vec<_> = report
        .iter()
        .filter(|p| p.kind == ProblemKind::Placeholder)
        .map(Problem::to_string)
        .collect();
    assert_eq!(
        of_config,
        [
            "a.properties:1: a: environment variable NO is not set, or not Unicode".to_owned(),
            format!("a.properties:2: b: file {path} has no key pw"),
            "a.properties:3: c: file /no/such cannot be used".to_owned(),
            format!("a.properties:4: d: no provider \"vault\"; {known}"),
            "a.properties:5: e: ${file:/path:key} needs a path".to_owned(),
            "a.properties:6: f: ${env:NAME} takes no path".to_owned(),
            format!("a.properties:7: g: file {broken_path} cannot be used"),
            format!("a.properties:8: sasl.password: a placeholder of an unknown provider; {known}"),
        ]
    );
    let all = report.to_string();
    assert!(all.contains("\n  /no/such: cannot be read: "), "{all}");
    assert!(
        all.contains(&format!("\n  {broken_path}:1: pw: malformed \\u escape")),
        "{all}"
    );
    assert!(!all.contains("hunter2") && !all.contains("ter2"), "{all}");
}

#[test]
fn placeholders_cannot_put_in_without_end() {
    let properties = Properties::from_iter([("a", "${env:A}".repeat(20))]);
    let report = properties
        .resolve_with(&|_| Some("x".repeat(1 << 20)))
        .unwrap_err();
    assert_eq!(report.len(), 1);
    assert!(
        report.to_string().contains("more than 16777216 bytes"),
        "{report}"
    );
}
