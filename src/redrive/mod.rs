//! The way back from a dead-letter topic.
//!
//! A [`Redrive`] reads the dead letters of one topic, in whatever [dialect](crate::dead_letter::Dialect)
//! they are, up to where the topic ends when it starts, and writes those that its [`Filter`] takes as
//! the records they were: key, value, own headers and timestamp as consumed, to the topic of retries of
//! the group that gave them up, or to the topic and the partition they came from.
//!
//! - **Once.** Each batch is one transaction of records and offsets under the name of a job, the
//!   group `<topic>.redrive.<job>`. A job that is run again goes on where it was, whether it ended or
//!   was killed, and repeats nothing for `read_committed` consumers. The filter is kept with the
//!   offsets: another under the same name is refused. Kafka forgets the offsets of a job that was not
//!   run for `offsets.retention.minutes` (a week unless set).
//! - **Not anywhere.** Headers are anybody's, so a target must match `redrive.allow`.
//! - **Not for ever.** A record counts its redrives in the header [`REDRIVES`]; one with too many goes
//!   to a parking topic, as the dead letter it is.
//! - **Never as null.** A value that was left out of its dead letter, and a share group's pointer, is
//!   fetched from its origin. If it is no longer there the dead letter stays where it is, as everything
//!   else does that cannot be redriven: the [`Summary`] says how many there are, and which and why.
//!
//! Nothing is deleted: what was redriven stays in the dead-letter topic until its retention ends.
//!
//! ```no_run
//! use kafka_chain::redrive::{Filter, Redrive};
//! use kafka_chain::transport::Settings;
//!
//! # async fn run() -> kafka_chain::Result<()> {
//! let settings: Settings = [("bootstrap.servers", "localhost:9092")].into_iter().collect();
//! let redrive = Redrive::builder(&settings, "orders.dead-letter", "lost-key-of-june")
//!     .filter(Filter::new().kind("decrypt"))
//!     .build()?;
//! println!("{}", redrive.dry_run().await?);
//! println!("{}", redrive.run().await?);
//! # Ok(())
//! # }
//! ```

mod allow;
mod batch;
mod builder;
mod filter;
mod job;
mod letter;
mod origins;
mod pace;
mod problem;
mod restore;
mod route;
mod run;
mod summary;

pub use builder::{Redrive, RedriveBuilder};
pub use filter::Filter;
pub use letter::REDRIVES;
pub use problem::Problem;
pub use route::To;
pub use summary::{Row, Stayed, Summary};
