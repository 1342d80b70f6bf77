//! Dead letters: a [`Failure`](crate::Failure) becomes the record that goes to a dead-letter topic, and its headers
//! are read back.
//!
//! Key, value and headers are those that were consumed, byte for byte, nulls and repeats included:
//! what came encrypted goes there encrypted. Headers that tell what happened follow, in one or
//! several [dialects](Dialect); each of their names occurs once. When a dead letter fails again,
//! they are the last failure's, but the coordinates stay those of the first.
//!
//! ```
//! use kafka_chain::dead_letter::{self, DeadLetters, Dialect};
//! use kafka_chain::{Error, Failure, Part, Record};
//!
//! # fn main() -> kafka_chain::Result<()> {
//! let record = Record { topic: "orders", offset: 42, ..Record::of_value(Some(b"{")) };
//! let error = Error::malformed("the JSON ends too early").at("json");
//! let failure = Failure::new(error, &record.context(Part::Value));
//!
//! let letters = DeadLetters::new().dialects([Dialect::KafkaChain, Dialect::Spring]).group("shop");
//! let letter = letters.full(&failure, 1_700_000_000_000)?;
//! assert_eq!(letter.topic, "orders.dead-letter");
//! assert_eq!(letter.value.as_deref(), Some(&b"{"[..]));
//!
//! let (dialect, info) = dead_letter::read(letter.headers.view()).unwrap();
//! assert_eq!((dialect, info.topic(), info.offset()), (Dialect::KafkaChain, Some("orders"), Some(42)));
//! # Ok(())
//! # }
//! ```

mod dialects;
mod event;
mod fact;
mod info;
mod original;
mod read;
mod retried;
mod router;
mod text;
mod translate;
mod write;

pub use dialects::Dialect;
pub use fact::{Encoding, Fact, Field, Header, READ_LIMIT, Role};
pub use info::{DeadLetterInfo, GivenUp};
pub use original::Original;
pub use read::{read, read_as};
pub use retried::{RETRY_HEADERS, Retried, SPRING_RETRY_HEADERS, is_retry_topic, retry_topic};
pub use router::{DEFAULT_DESTINATION, check_destination, destination, partition};
pub use text::{CAUSES_LIMIT, MESSAGE_LIMIT, NAME_LIMIT, SHORT_LIMIT, TRACE_LIMIT, fingerprint};
pub use write::{DeadLetters, Originals, Rung, TimestampPolicy};
