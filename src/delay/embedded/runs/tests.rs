use super::*;
use proptest::prelude::*;
use std::path::PathBuf;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("kafka-chain-runs-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        Folder(path)
    }

    async fn open(&self, owner: &str) -> Result<RunIndex> {
        RunIndex::open(RunIndexOptions {
            folder: &self.0,
            cache_bytes: 1 << 20,
            interval: Duration::from_millis(10),
            owner: owner.to_owned(),
        })
        .await
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn key(at: i64, first: i64, last: i64) -> RunKey {
    RunKey { at, first, last }
}

fn put(key: RunKey) -> Change {
    Change::Put(key, Bytes::from_static(b"run"))
}

fn cursor(changelog: i64) -> IndexCursor {
    IndexCursor {
        changelog,
        source: 2,
        committed: 1,
        written: 3,
    }
}

const ALL: Look = Look {
    now: i64::MAX,
    records: 1_000,
    bytes: 1_000,
};

#[tokio::test]
async fn runs_and_cursors_go_together_and_partitions_apart() {
    let folder = Folder::new("together");
    let index = folder.open("a").await.unwrap();
    let (opening, known) = index.known(0).await.unwrap();
    assert_eq!(known, None);
    let changes = vec![put(key(20, 5, 9)), put(key(10, 0, 4)), put(key(10, 0, 4))];
    let known = index
        .apply((opening, false), 0, changes, cursor(7))
        .await
        .unwrap();
    assert_eq!((known.runs, known.records), (2, 10));
    let changes = vec![put(key(15, 0, 0))];
    index
        .apply((opening, false), 1, changes, cursor(1))
        .await
        .unwrap();

    let due = index
        .due(opening, 0, Look { now: 15, ..ALL })
        .await
        .unwrap();
    assert_eq!(due.runs, [(key(10, 0, 4), Bytes::from_static(b"run"))]);
    assert_eq!(due.next, Some(20));
    let one = index
        .due(opening, 0, Look { records: 1, ..ALL })
        .await
        .unwrap();
    assert_eq!((one.runs.len(), one.next), (1, Some(20)));
    let one = index
        .due(opening, 0, Look { bytes: 1, ..ALL })
        .await
        .unwrap();
    assert_eq!((one.runs.len(), one.next), (1, Some(20)));

    let changes = vec![
        Change::Remove(key(10, 0, 4)),
        Change::Remove(key(10, 0, 4)),
        Change::Remove(key(99, 0, 4)),
    ];
    let known = index
        .apply((opening, true), 0, changes, cursor(8))
        .await
        .unwrap();
    assert_eq!((known.runs, known.records), (1, 5));
    index.close().await;

    let index = folder.open("a").await.unwrap();
    let (again, known) = index.known(0).await.unwrap();
    let known = known.unwrap();
    assert_eq!((known.cursor, known.runs), (cursor(8), 1));
    let late = index
        .apply((opening, false), 0, Vec::new(), cursor(9))
        .await;
    assert!(late.unwrap_err().message().contains("opened anew"));
    assert_ne!(again, opening);
    index.forget(0).await.unwrap();
    assert_eq!(index.known(0).await.unwrap(), (again, None));
    assert_eq!(index.due(again, 0, ALL).await.unwrap(), DueRuns::default());
    assert_eq!(index.due(again, 1, ALL).await.unwrap().runs.len(), 1);
    index.close().await;

    let error = folder.open("b").await.unwrap_err();
    assert!(error.message().contains("index of a, not of b"), "{error}");
}

proptest! {
    #[test]
    fn rows_sort_as_their_times_do(a in any::<[i64; 3]>(), b in any::<[i64; 3]>(), p in any::<u32>()) {
        let [a, b] = [a, b].map(|[at, first, last]| key(at, first, last));
        prop_assert_eq!(row(p, a).cmp(&row(p, b)), a.cmp(&b));
        prop_assert_eq!(read_row(p, &row(p, a)), Some(a));
        prop_assert!(bound(p, a.at) <= row(p, a));
        if let Some(next) = p.checked_add(1) {
            prop_assert!(row(p, a) < bound(next, i64::MIN));
            prop_assert_eq!(read_row(next, &row(p, a)), None);
        }
    }
}
