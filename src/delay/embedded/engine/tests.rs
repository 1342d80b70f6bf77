use super::*;
use crate::status::Status;
use redb::{ReadableTable, TableDefinition};

const ROWS: TableDefinition<u64, u64> = TableDefinition::new("rows");

/// Counts how often the file was opened.
struct Counting {
    rows: u64,
    dirty: bool,
}

impl State for Counting {
    const FORMAT: u64 = 7;

    fn load(transaction: &WriteTransaction) -> Result<Self, Fault> {
        let rows = transaction.open_table(ROWS)?;
        Ok(Counting {
            rows: rows.iter()?.count() as u64,
            dirty: false,
        })
    }

    fn save(&mut self, _: &WriteTransaction) -> Result<bool, Fault> {
        Ok(std::mem::take(&mut self.dirty))
    }

    fn is_dirty(&self) -> bool {
        self.dirty
    }
}

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn open(name: &str, interval: Duration) -> (Folder, Engine<Counting>) {
    let name = format!("kafka-chain-engine-{name}-{}", std::process::id());
    let folder = Folder(std::env::temp_dir().join(name));
    let _ = std::fs::remove_dir_all(&folder.0);
    let options = EngineOptions {
        file: folder.0.join("file"),
        cache_bytes: 1 << 20,
        interval,
    };
    let engine = Engine::open(options).await.unwrap();
    (folder, engine)
}

fn put(
    row: u64,
) -> impl FnOnce(&mut Counting, &WriteTransaction) -> Result<u64, Fault> + Send + 'static {
    move |counting, transaction| {
        transaction.open_table(ROWS)?.insert(row, row)?;
        counting.rows += 1;
        counting.dirty = true;
        Ok(counting.rows)
    }
}

fn failing(_: &mut Counting, _: &WriteTransaction) -> Result<u64, Fault> {
    Err(redb::Error::Corrupted("a page".to_owned()).into())
}

#[tokio::test]
async fn work_that_fails_takes_back_what_is_not_durable_and_nothing_else() {
    let hour = Duration::from_secs(3_600);
    let (_folder, engine) = open("fails", hour).await;
    assert_eq!(engine.call(Answer::Durable, 1, put(1)).await.unwrap(), 1);
    let lazy = engine.call(Answer::AtOnce, 1, put(2)).await;
    assert_eq!(lazy.unwrap(), 2, "answered before it is durable");
    let failed = engine.call(Answer::AtOnce, 1, failing).await.unwrap_err();
    assert_eq!(failed.status(), Status::Permanent);
    assert!(failed.message().contains("damaged"), "{failed}");
    // Opened anew: the second row is gone.
    let rows = |counting: &mut Counting, _: &WriteTransaction| Ok(counting.rows);
    assert_eq!(engine.call(Answer::AtOnce, 1, rows).await.unwrap(), 1);
    let panics = |_: &mut Counting, _: &WriteTransaction| -> Result<u64, Fault> {
        panic!("as a damaged file makes redb do")
    };
    let error = engine.call(Answer::AtOnce, 1, panics).await.unwrap_err();
    assert!(error.message().contains("damaged"), "{error}");
    assert_eq!(engine.call(Answer::AtOnce, 1, rows).await.unwrap(), 1);
    engine.close().await;
}

#[tokio::test]
async fn those_who_wait_in_a_group_that_fails_are_told() {
    let (_folder, engine) = open("group", Duration::from_secs(3_600)).await;
    // Held, so that all that follow are of one group.
    let (go, gone) = std::sync::mpsc::channel::<()>();
    let hold = engine.submit(Answer::AtOnce, 1, move |_, _| {
        let _ = gone.recv();
        Ok(())
    });
    let hold = hold.await;
    let first = engine.submit(Answer::Durable, 1, put(1)).await;
    let broken = engine.submit(Answer::Durable, 1, failing).await;
    let last = engine.submit(Answer::Durable, 1, put(3)).await;
    go.send(()).unwrap();
    answered(hold).await.unwrap();
    let error = answered(first).await.unwrap_err();
    assert_eq!(error.status(), Status::Temporary, "to be tried again");
    answered(broken).await.unwrap_err();
    assert_eq!(answered(last).await.unwrap(), 1, "on the file as it was");
    engine.close().await;
}

#[tokio::test]
async fn what_was_answered_at_once_is_durable_after_the_interval_and_at_the_end() {
    let (folder, engine) = open("lazy", Duration::from_millis(20)).await;
    engine.call(Answer::AtOnce, 1, put(1)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    // Takes back what is not durable, which the first row is by now.
    engine.call(Answer::AtOnce, 1, failing).await.unwrap_err();
    assert_eq!(engine.call(Answer::AtOnce, 1, put(2)).await.unwrap(), 2);
    engine.close().await;
    let options = EngineOptions {
        file: folder.0.join("file"),
        cache_bytes: 1 << 20,
        interval: Duration::ZERO,
    };
    let engine: Engine<Counting> = Engine::open(options).await.unwrap();
    assert_eq!(engine.call(Answer::Durable, 1, put(3)).await.unwrap(), 3);
}
