//! Delayed records in memory.
