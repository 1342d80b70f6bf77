//! What a redrive did.

use super::problem::Problem;
use std::collections::BTreeMap;
use std::fmt;

/// The most rows, and the most targets, that are kept apart: names come from headers.
const ROWS: usize = 1_000;

/// The most problems that are kept with their place; all are counted.
const PROBLEMS: usize = 100;

/// What stands for the rows beyond [`ROWS`].
const OTHERS: &str = "(others)";

/// What a row's records have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Row {
    /// The kind of their error, or the class of another framework's exception; `-` where unknown.
    pub kind: String,
    /// The stages their error passed; `-` where unknown.
    pub stage: String,
    /// The topic they went to, or what became of them in brackets.
    pub target: String,
}

/// A dead letter that was not redriven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stayed {
    /// Its partition in the dead-letter topic.
    pub partition: i32,
    /// Its offset there.
    pub offset: i64,
    /// Why.
    pub problem: Problem,
}

/// What a redrive did, or in a dry run what it would do.
///
/// `read` is `skipped` and `matched`; `matched` is `redriven`, `parked`, `refused` and
/// `unresolvable`. `Display` is a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Dead letters read.
    pub read: u64,
    /// Of those, how many the filter took.
    pub matched: u64,
    /// And how many it did not.
    pub skipped: u64,
    /// How many went to a topic of retries or back to their source.
    pub redriven: u64,
    /// How many had been redriven too often and went to the parking topic.
    pub parked: u64,
    /// How many would have gone to a topic that is not allowed.
    pub refused: u64,
    /// How many could not be redriven.
    pub unresolvable: u64,
    /// Offsets that were deleted before this job came to them.
    pub expired: u64,
    /// How many were redriven to each topic.
    pub targets: BTreeMap<String, u64>,
    /// How many have the same kind, stage and target.
    pub rows: BTreeMap<Row, u64>,
    /// The first dead letters that stayed, and why.
    pub stayed: Vec<Stayed>,
}

impl Summary {
    pub(super) fn redrove(&mut self, row: Row) {
        self.redriven += 1;
        add(&mut self.targets, row.target.clone(), 1, || {
            OTHERS.to_owned()
        });
        self.row(row);
    }

    pub(super) fn parked(&mut self, mut row: Row) {
        self.parked += 1;
        row.target = "(parked)".to_owned();
        self.row(row);
    }

    pub(super) fn stays(&mut self, mut row: Row, stayed: Stayed) {
        let (count, fate) = match stayed.problem.is_refusal() {
            true => (&mut self.refused, "(refused)"),
            false => (&mut self.unresolvable, "(unresolvable)"),
        };
        *count += 1;
        row.target = fate.to_owned();
        self.row(row);
        if self.stayed.len() < PROBLEMS {
            self.stayed.push(stayed);
        }
    }

    fn row(&mut self, row: Row) {
        self.matched += 1;
        add(&mut self.rows, row, 1, others);
    }

    /// Adds what a batch did.
    pub(super) fn add(&mut self, batch: Summary) {
        self.read += batch.read;
        self.matched += batch.matched;
        self.skipped += batch.skipped;
        self.redriven += batch.redriven;
        self.parked += batch.parked;
        self.refused += batch.refused;
        self.unresolvable += batch.unresolvable;
        self.expired += batch.expired;
        for (target, count) in batch.targets {
            add(&mut self.targets, target, count, || OTHERS.to_owned());
        }
        for (row, count) in batch.rows {
            add(&mut self.rows, row, count, others);
        }
        let room = PROBLEMS.saturating_sub(self.stayed.len());
        self.stayed.extend(batch.stayed.into_iter().take(room));
    }
}

fn others() -> Row {
    Row {
        kind: OTHERS.to_owned(),
        stage: OTHERS.to_owned(),
        target: OTHERS.to_owned(),
    }
}

fn add<K: Ord>(counts: &mut BTreeMap<K, u64>, key: K, count: u64, others: impl Fn() -> K) {
    let known = counts.len() < ROWS || counts.contains_key(&key);
    let key = if known { key } else { others() };
    *counts.entry(key).or_default() += count;
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows = vec![["kind", "stage", "target", "records"].map(str::to_owned)];
        rows.extend(self.rows.iter().map(|(row, count)| {
            let Row {
                kind,
                stage,
                target,
            } = row;
            [shown(kind), shown(stage), target.clone(), count.to_string()]
        }));
        let mut widths = [0_usize; 4];
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let [kind, stage, target, count] = widths;
        // Without records there is no table.
        for [a, b, c, d] in rows.iter().filter(|_| !self.rows.is_empty()) {
            writeln!(f, "  {a:kind$}  {b:stage$}  {c:target$}  {d:>count$}")?;
        }
        write!(
            f,
            "read={} matched={} redriven={} parked={} refused={} unresolvable={} skipped={}",
            self.read,
            self.matched,
            self.redriven,
            self.parked,
            self.refused,
            self.unresolvable,
            self.skipped
        )?;
        match self.expired {
            0 => Ok(()),
            expired => write!(f, " expired={expired}"),
        }
    }
}

/// The end of a long text: classes and stage paths say there what they are.
fn shown(text: &str) -> String {
    const WIDTH: usize = 48;
    let skip = text.chars().count().saturating_sub(WIDTH);
    match skip {
        0 => text.to_owned(),
        skip => std::iter::once('…')
            .chain(text.chars().skip(skip + 1))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kind: &str, target: &str) -> Row {
        Row {
            kind: kind.to_owned(),
            stage: "json".to_owned(),
            target: target.to_owned(),
        }
    }

    #[test]
    fn what_matched_is_the_sum_of_what_became_of_it() {
        let mut batch = Summary {
            read: 5,
            skipped: 1,
            ..Summary::default()
        };
        batch.redrove(row("decrypt", "orders"));
        batch.redrove(row("decrypt", "orders"));
        batch.parked(row("decrypt", "orders.dead-letter.parking"));
        let stayed = |problem| Stayed {
            partition: 0,
            offset: 3,
            problem,
        };
        batch.stays(row("-", ""), stayed(Problem::NotAllowed("payments".into())));
        let mut all = Summary::default();
        assert_eq!(all.to_string().lines().count(), 1);
        all.add(batch.clone());
        all.add(batch);
        assert_eq!((all.read, all.matched, all.skipped), (10, 8, 2));
        assert_eq!((all.redriven, all.parked, all.refused), (4, 2, 2));
        assert_eq!(all.targets, BTreeMap::from([("orders".to_owned(), 4)]));
        let text = all.to_string();
        assert!(
            text.ends_with(
                "read=10 matched=8 redriven=4 parked=2 refused=2 unresolvable=0 skipped=2"
            )
        );
        assert!(
            text.contains("  decrypt  json   orders           4\n"),
            "{text}"
        );
        assert_eq!(all.stayed.len(), 2);
    }

    #[test]
    fn names_from_headers_are_bounded_in_number_and_in_width() {
        let mut all = Summary::default();
        for index in 0..3_000_u64 {
            let (kind, target) = (
                format!("{}.k{index}", "long".repeat(50)),
                format!("t{index}"),
            );
            all.redrove(row(&kind, &target));
            let stayed = Stayed {
                partition: 0,
                offset: 0,
                problem: Problem::NoOrigin,
            };
            all.stays(row("-", ""), stayed);
        }
        assert!(all.rows.len() <= ROWS + 1 && all.targets.len() <= ROWS + 1);
        assert_eq!(all.rows.values().sum::<u64>(), 6_000);
        assert_eq!(all.targets.values().sum::<u64>(), 3_000);
        assert_eq!((all.stayed.len(), all.unresolvable), (PROBLEMS, 3_000));
        assert!(
            all.to_string()
                .lines()
                .all(|line| line.chars().count() < 140)
        );
    }
}
