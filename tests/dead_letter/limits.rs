//! How large a dead letter may get.

use super::{NOW, all_dialects, bytes_of, consumed, failed, failed_with, record, text};
use bytes::Bytes;
use kafka_chain::dead_letter::{
    CAUSES_LIMIT, DeadLetters, Dialect, MESSAGE_LIMIT, SHORT_LIMIT, TRACE_LIMIT, read, read_as,
};
use kafka_chain::{Error, OwnedRecord};
use std::fmt;

/// A cause, that many links above the last.
#[derive(Debug)]
struct Link(Option<Box<Link>>);

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "link {}", "é".repeat(100_000))
    }
}

impl std::error::Error for Link {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.as_deref().map(|link| link as _)
    }
}

fn long_error() -> Error {
    let chain = (0..40).fold(Link(None), |link, _| Link(Some(Box::new(link))));
    let mut error = Error::malformed("é".repeat(100_000)).with_source(chain);
    for index in 0..40 {
        error = error.at(format!("stage-{index}-{}", "s".repeat(10_000)));
    }
    error
}

/// FC-019.
#[test]
fn error_texts_are_cut_to_their_limits_between_characters() {
    let failure = failed_with(&record(), long_error());
    let full = all_dialects().full(&failure, NOW).unwrap();
    for (name, value) in full.headers.iter() {
        let text = std::str::from_utf8(value.unwrap());
        // Spring's numbers are bytes; Spring's message has the root's behind it.
        if let Ok(text) = text {
            assert!(text.len() <= MESSAGE_LIMIT + 2 + CAUSES_LIMIT, "{name:?}");
        }
    }
    let message = text(&full, "kafka-chain-message").unwrap();
    assert_eq!(
        message.len(),
        MESSAGE_LIMIT - 1,
        "two bytes a character, three the ellipsis"
    );
    assert!(message.starts_with("éé") && message.ends_with("é…"));
    assert!(text(&full, "kafka-chain-causes").unwrap().len() <= CAUSES_LIMIT);
    let trace = text(&full, "__connect.errors.exception.stacktrace").unwrap();
    assert!(
        trace.len() <= TRACE_LIMIT && trace.ends_with('…'),
        "{}",
        trace.len()
    );

    let one = DeadLetters::new()
        .group("shop")
        .full(&failure, NOW)
        .unwrap();
    assert!(
        bytes_of(&one.headers) <= 6 * 1024,
        "{}",
        bytes_of(&one.headers)
    );
    let short = DeadLetters::new()
        .group("shop")
        .shortened(&failure, NOW)
        .unwrap();
    assert!(
        bytes_of(&short.headers) <= 1280,
        "{}",
        bytes_of(&short.headers)
    );
    for dialect in Dialect::ALL {
        let letters = DeadLetters::new().dialects([dialect]);
        assert!(bytes_of(&letters.full(&failure, NOW).unwrap().headers) <= 10 * 1024);
        let short = letters.shortened(&failure, NOW).unwrap();
        assert!(
            bytes_of(&short.headers) <= 1536,
            "{dialect} {}",
            bytes_of(&short.headers)
        );
        let info = read_as(dialect, short.headers.view()).unwrap();
        assert_eq!(
            (info.topic(), info.offset()),
            (Some("orders"), Some(4_294_967_296))
        );
        assert!(info.message().unwrap().len() <= SHORT_LIMIT);
    }
    // Shortened or not, it is the same failure.
    assert_eq!(
        text(&short, "kafka-chain-fingerprint"),
        text(&one, "kafka-chain-fingerprint")
    );
}

#[test]
fn a_value_that_is_too_large_is_left_out_with_its_size_and_stays_so() {
    let record = OwnedRecord {
        value: Some(vec![b'v'; 1_048_576].into()),
        ..record()
    };
    for dialect in Dialect::ALL {
        let letters = DeadLetters::new().dialects([dialect]);
        let letter = letters.without_value(&failed(&record), NOW).unwrap();
        assert_eq!(
            (&letter.key, letter.value.as_deref()),
            (&record.key, Some(&b""[..]))
        );
        let info = read_as(dialect, letter.headers.view()).unwrap();
        assert_eq!(info.value_left_out(), Some(1_048_576));
        assert_eq!((info.topic(), info.partition()), (Some("orders"), Some(5)));

        let again = letters
            .without_value(&failed(&consumed(letter, "orders", 1)), NOW)
            .unwrap();
        let again = letters
            .full(&failed(&consumed(again, "orders", 1)), NOW)
            .unwrap();
        let info = read_as(dialect, again.headers.view()).unwrap();
        assert_eq!(info.value_left_out(), Some(1_048_576));

        // Somebody put a value back: nothing is left out any more.
        let repaired = OwnedRecord {
            value: record.value.clone(),
            ..consumed(again, "orders", 2)
        };
        let letter = letters.full(&failed(&repaired), NOW).unwrap();
        assert_eq!(
            read_as(dialect, letter.headers.view())
                .unwrap()
                .value_left_out(),
            None
        );
    }
    for value in [None, Some(Bytes::new())] {
        let record = OwnedRecord {
            value: value.clone(),
            ..record.clone()
        };
        let letter = DeadLetters::new()
            .without_value(&failed(&record), NOW)
            .unwrap();
        assert_eq!(letter.value, value);
        assert_eq!(
            read(letter.headers.view()).unwrap().1.value_left_out(),
            None
        );
    }
}
