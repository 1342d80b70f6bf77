//! The keys of a pipeline.

use crate::config::KeySpec;
use crate::dead_letter::DEFAULT_DESTINATION;

pub(super) const KEYS: &[KeySpec] = &[
    KeySpec::new(
        "topics",
        "names",
        "The topics to consume, separated by commas; one that begins with `^` is a pattern, which \
         never matches topics of dead letters, retries or delays.",
    ),
    KeySpec::new(
        "topics.check",
        "`refuse`, `warn` or `off`",
        "Whether a pipeline starts whose dead-letter and retry topics are missing or do not fit.",
    )
    .or("warn"),
    KeySpec::new(
        "topics.create",
        "`never` or `missing`",
        "Whether dead-letter and retry topics that are missing are created at the start.",
    )
    .or("never"),
    KeySpec::new(
        "processing.order",
        "`partition`, `key` or `unordered`",
        "Which records wait for one another.",
    )
    .or("partition"),
    KeySpec::new(
        "processing.guarantee",
        "`at_least_once` or `exactly_once`",
        "Whether what is written becomes visible together with the offsets, by transactions.",
    )
    .or("at_least_once"),
    KeySpec::new(
        "processing.instance",
        "name",
        "Who of the group this is, for the transactional id of exactly_once, unless `group.instance.id` \
         says it; without either chance does. No two that run may have the same.",
    ),
    KeySpec::new(
        "max.in.flight",
        "whole number",
        "How many records of a partition are handled at once; 1 in the order of the partition.",
    )
    .or("100"),
    KeySpec::new(
        "max.uncommitted",
        "whole number",
        "How many records of a partition may be taken and lie at or beyond the mark.",
    )
    .or("10000"),
    KeySpec::new(
        "max.in.flight.bytes",
        "bytes",
        "How many bytes of a partition may be taken and unfinished; and as many of what handlers sent, unwritten.",
    )
    .or("16777216"),
    KeySpec::new(
        "commit.interval.ms",
        "milliseconds",
        "How often marks are committed; 100 unless set with exactly_once.",
    )
    .or("1000"),
    KeySpec::new(
        "drain.timeout.ms",
        "milliseconds",
        "How long work in flight may take when partitions are given back.",
    )
    .or("5000"),
    KeySpec::new(
        "stop.timeout.ms",
        "milliseconds",
        "How long work in flight may take when the pipeline stops.",
    )
    .or("30000"),
    KeySpec::new(
        "handler.attempts",
        "whole number",
        "How often the handler is called for one record, at most.",
    )
    .or("5"),
    KeySpec::new(
        "handler.backoff",
        KeySpec::BACKOFF,
        "The waits between two calls; one that ends ends the attempts. Without it 1, 2, 4 … seconds.",
    ),
    KeySpec::new(
        "handler.timeout.ms",
        "milliseconds",
        "Ends a call of the handler that takes longer; one that blocks cannot be ended, and goes on.",
    ),
    KeySpec::new(
        "on.exhausted",
        "`dead-letter`, `pause` or `stop`",
        "What becomes of a record whose retries gave up.",
    )
    .or("dead-letter"),
    KeySpec::new(
        "ignore",
        "matcher",
        "Errors whose records count as finished: they are dropped.",
    ),
    KeySpec::new(
        "dead.letter.topic",
        "template",
        "Where records go that failed; `${topic}` and `${group}` stand for their names.",
    )
    .or(DEFAULT_DESTINATION),
    KeySpec::new(
        "dead.letter.dialects",
        "names",
        "Which headers tell what happened, separated by commas: `kafka-chain`, `spring`, `connect`, \
         `streams`, `smallrye`, `share-group`, `cloudevents`.",
    )
    .or("kafka-chain"),
    KeySpec::new(
        "dead.letter.timestamp",
        "`publish` or `source`",
        "The timestamp of a dead letter: when it is written, or the record's own. Without it \
         `publish`, but `source` where all dialects are `connect` and `streams`.",
    ),
    KeySpec::new(
        "dead.letter.too.large",
        "`pause` or `stop`",
        "What becomes of a record whose dead letter is too large for its topic even without its value.",
    )
    .or("pause"),
    KeySpec::new(
        "dead.letter.limit.exhausted",
        "whole number",
        "How many Exhausted records of a partition in a row are dead-lettered before it pauses; 0 is no limit.",
    )
    .or("3"),
    KeySpec::new(
        "dead.letter.limit.consecutive",
        "whole number",
        "How many records of a partition in a row are dead-lettered before it pauses; 0 is no limit.",
    )
    .or("1000"),
    KeySpec::new(
        "dead.letter.limit.ratio",
        "share between 0 and 1",
        "Which share of the latest records of a partition may be dead-lettered before it pauses.",
    ),
    KeySpec::new(
        "dead.letter.limit.ratio.window",
        "whole number",
        "How many records the latest are, for the ratio.",
    )
    .or("100"),
    KeySpec::new(
        "retry.topics",
        "delays",
        "Puts a record that its handler could not handle aside, in a topic for each of these delays in \
         turn, such as `5s,1m,10m`: `${topic}.${group}.retry.5s`. The pipeline consumes them itself, \
         and handles each record when it is due.",
    ),
    KeySpec::new(
        "retry.delay",
        KeySpec::BACKOFF,
        "The same with the waits of a backoff and a delay sink of the application's; it comes back through \
         `${topic}.${group}.retry`.",
    ),
    KeySpec::new(
        "retry.order",
        "`strict` or `relaxed`",
        "A record that is put aside comes after later ones: with the order of the partition or of \
         keys that must be admitted by `relaxed`.",
    )
    .or("strict"),
    KeySpec::new(
        "stall.warn.ms",
        "milliseconds",
        "A record in flight for longer is told of as a stall.",
    )
    .or("60000"),
    KeySpec::new(
        "metrics.timing",
        "`true` or `false`",
        "Whether the seconds of chains and handlers are measured, for some 100 ns a record.",
    )
    .or("false"),
];
