//! What holds for any input.

use kafka_chain::properties::{Charset, Properties, redacted};
use proptest::prelude::*;

use super::pairs;

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Properties::parse(&bytes, Charset::Utf8, "a.properties");
        let latin = Properties::parse(&bytes, Charset::Iso8859_1, "a.properties");
        if let Ok(properties) = latin {
            let _ = format!("{properties:?} {:?}", properties.warnings());
            let _ = properties.resolve_with(&|_| None);
        }
    }

    #[test]
    fn random_lines_never_panic_and_keep_their_lines(
        text in r"([ab=: \t#!\r\n\x0c]|\\|\\u00(4|g)1|\\uD83D|\\uDE00|é|\$\{env:A\}|\$\{|\}){0,60}",
    ) {
        let lines = text.replace("\r\n", "\n").matches(['\r', '\n']).count() as u32 + 1;
        match Properties::parse(text.as_bytes(), Charset::Utf8, "a.properties") {
            Ok(properties) => for property in properties.iter() {
                prop_assert!((1..=lines).contains(&property.origin.line.unwrap()));
            },
            Err(report) => for problem in report.iter() {
                prop_assert!((1..=lines).contains(&problem.origin.clone().unwrap().line.unwrap()));
                prop_assert!(!problem.to_string().contains(['\r', '\n']));
            },
        }
    }

    #[test]
    fn what_is_written_reads_the_same(
        map in prop::collection::hash_map(
            prop_oneof![any::<String>(), "[ ab=:#!\\\\\t\r\n\x0cu0$é😀]{0,8}"],
            prop_oneof![any::<String>(), "[ ab=:#!\\\\\t\r\n\x0cu0$é😀]{0,8}"],
            0..12,
        ),
    ) {
        let written = Properties::from_iter(map);
        let text = written.to_java_string();
        for charset in [Charset::Utf8, Charset::Iso8859_1] {
            let read = Properties::parse(text.as_bytes(), charset, "a.properties").unwrap();
            prop_assert_eq!(pairs(&read), pairs(&written));
            prop_assert!(read.iter().zip(1..).all(|(p, line)| p.origin.line == Some(line)));
        }
    }

    #[test]
    fn what_may_be_printed_never_panics(key in any::<String>(), value in any::<String>()) {
        let _ = redacted(&key, &value);
    }
}
