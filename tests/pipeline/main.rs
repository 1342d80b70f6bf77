//! The worker of a partition and what it decides, without a broker and on paused time.

mod state;
