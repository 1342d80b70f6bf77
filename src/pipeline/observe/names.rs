//! The metrics of a pipeline. Their names and labels stay as they are; `docs/metrics.md` lists them.

use crate::metric::MetricSpec;

const PARTITION: &[&str] = &["topic", "partition"];

/// Records taken.
pub const RECORDS_IN: MetricSpec = MetricSpec::counter(
    "kafka_chain_records_in_total",
    "records",
    "Records taken from their partitions.",
);

/// Records finished, by how.
pub const RECORDS_OUT: MetricSpec = MetricSpec::counter(
    "kafka_chain_records_out_total",
    "records",
    "Records finished: `handled`, `ignored` by the policy, `dead-letter` or `delayed` once that is \
     written.",
)
.by(&["outcome"]);

/// Records that came twice.
pub const RECORDS_REPEATED: MetricSpec = MetricSpec::counter(
    "kafka_chain_records_repeated_total",
    "records",
    "Records that the client delivered again in the same ownership, as after a pause: dropped.",
);

/// Records given up at an end.
pub const RECORDS_ABANDONED: MetricSpec = MetricSpec::counter(
    "kafka_chain_records_abandoned_total",
    "records",
    "Records in flight that were given up when the time to give a partition back was over: they \
     come again.",
);

/// Records that failed.
pub const FAILURES: MetricSpec = MetricSpec::counter(
    "kafka_chain_failures_total",
    "records",
    "Failed records by where (`key`, `value`: their chains; `handler`) and by what is done: `done`, \
     `dead-letter`, `delay`, `pause`, `stop`. A held record counts again with each failed probe.",
)
.by(&["origin", "verdict"]);

/// Retries.
pub const RETRIES: MetricSpec = MetricSpec::counter(
    "kafka_chain_retries_total",
    "calls",
    "Calls of the handler after the first one for the same record.",
);

/// Probes.
pub const PROBES: MetricSpec = MetricSpec::counter(
    "kafka_chain_probes_total",
    "records",
    "Tries of the record that a paused partition waits for.",
);

/// Dead letters written.
pub const DEAD_LETTERS: MetricSpec = MetricSpec::counter(
    "kafka_chain_dead_letters_total",
    "records",
    "Dead letters that are written, by the kind of the error and the innermost stage it names.",
)
.by(&["kind", "stage"]);

/// Writes that failed.
pub const WRITE_FAILURES: MetricSpec = MetricSpec::counter(
    "kafka_chain_write_failures_total",
    "records",
    "Writes of a record that failed, its partition holding it: to the `dead-letter` topic, `delayed` \
     to come again, `output` of a handler; with exactly_once the `transaction`.",
)
.by(&["to"]);

/// Commits.
pub const COMMITS: MetricSpec = MetricSpec::counter(
    "kafka_chain_commits_total",
    "offsets",
    "Offsets that were to be committed: `ok`, or why not.",
)
.by(&["result"]);

/// Pauses.
pub const PAUSES: MetricSpec = MetricSpec::counter(
    "kafka_chain_pauses_total",
    "pauses",
    "Pauses of a partition by reason: `temporary`, `exhausted`, `flood` (the breaker), `unwritten`.",
)
.by(&["reason"]);

/// Stalls.
pub const STALLS: MetricSpec = MetricSpec::counter(
    "kafka_chain_stalls_total",
    "stalls",
    "How often the oldest record in flight of a partition was older than `stall.warn.ms`.",
);

/// Partitions that came and went.
pub const REBALANCED: MetricSpec = MetricSpec::counter(
    "kafka_chain_rebalanced_total",
    "partitions",
    "Partitions `assigned`, `revoked` in order, and `lost`.",
)
.by(&["change"]);

/// Positions lost.
pub const OFFSET_RESETS: MetricSpec = MetricSpec::counter(
    "kafka_chain_offset_resets_total",
    "resets",
    "Positions that were no longer to be had, so that `auto.offset.reset` took their place.",
);

/// How far behind.
pub const LAG: MetricSpec = MetricSpec::gauge(
    "kafka_chain_lag",
    "records",
    "Offsets between what was taken and the end of what can be read, by the latest statistics \
     (`statistics.interval.ms`), and the records taken that lie at or beyond the mark; 0 when only \
     transaction markers are left.",
)
.by(PARTITION);

/// Records in flight.
pub const IN_FLIGHT: MetricSpec = MetricSpec::gauge(
    "kafka_chain_in_flight",
    "records",
    "Records that are being handled or written.",
)
.by(PARTITION);

/// Bytes in flight.
pub const IN_FLIGHT_BYTES: MetricSpec = MetricSpec::gauge(
    "kafka_chain_in_flight_bytes",
    "bytes",
    "Keys and values, and 128 bytes each, of the records that are taken and not finished.",
)
.by(PARTITION);

/// Records beyond the mark.
pub const UNCOMMITTED: MetricSpec = MetricSpec::gauge(
    "kafka_chain_uncommitted",
    "records",
    "Records taken that lie at or beyond the mark: what comes again after a crash, and what was not \
     committed yet.",
)
.by(PARTITION);

/// How old the oldest record in flight is.
pub const OLDEST_AGE: MetricSpec = MetricSpec::gauge(
    "kafka_chain_oldest_in_flight_age_seconds",
    "seconds",
    "For how long the oldest record in flight has been the oldest; 0 when there is none.",
)
.by(PARTITION);

/// How long a mark waits.
pub const COMMIT_AGE: MetricSpec = MetricSpec::gauge(
    "kafka_chain_commit_age_seconds",
    "seconds",
    "For how long something finished has waited to be committed; 0 when nothing does.",
)
.by(PARTITION);

/// Whether a partition pauses.
pub const PAUSED: MetricSpec = MetricSpec::gauge(
    "kafka_chain_paused",
    "partitions",
    "1 while the partition pauses for this reason, 0 otherwise: `temporary`, `exhausted`, `flood` \
     (the breaker is open), `unwritten`, `user`.",
)
.by(&["topic", "partition", "reason"]);

/// Partitions owned.
pub const PARTITIONS: MetricSpec = MetricSpec::gauge(
    "kafka_chain_partitions",
    "partitions",
    "Partitions that are ours.",
);

/// When librdkafka was polled.
pub const LAST_POLL_AGE: MetricSpec = MetricSpec::gauge(
    "kafka_chain_last_poll_age_seconds",
    "seconds",
    "How long ago the polling thread polled; more than a second means that it gets no time.",
);

/// How long chains take.
pub const CHAIN_SECONDS: MetricSpec = MetricSpec::histogram(
    "kafka_chain_chain_seconds",
    "seconds",
    "How long reading a record took, the retries of its chains included; only with \
     `metrics.timing=true`.",
);

/// How long handlers take.
pub const HANDLER_SECONDS: MetricSpec = MetricSpec::histogram(
    "kafka_chain_handler_seconds",
    "seconds",
    "How long a call of the handler took; only with `metrics.timing=true`.",
);

/// All of them.
pub const METRICS: &[MetricSpec] = &[
    RECORDS_IN,
    RECORDS_OUT,
    RECORDS_REPEATED,
    RECORDS_ABANDONED,
    FAILURES,
    RETRIES,
    PROBES,
    DEAD_LETTERS,
    WRITE_FAILURES,
    COMMITS,
    PAUSES,
    STALLS,
    REBALANCED,
    OFFSET_RESETS,
    LAG,
    IN_FLIGHT,
    IN_FLIGHT_BYTES,
    UNCOMMITTED,
    OLDEST_AGE,
    COMMIT_AGE,
    PAUSED,
    PARTITIONS,
    LAST_POLL_AGE,
    CHAIN_SECONDS,
    HANDLER_SECONDS,
];
