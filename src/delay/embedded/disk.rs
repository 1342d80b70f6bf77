//! The file: opened by one process at a time, with one transaction under way.

use super::engine::State;
use crate::error::{Error, Result};
use redb::{Database, ReadableTable, TableDefinition, WriteTransaction};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// How long the process that had the file before may take to let it go.
const HANDOVER: Duration = Duration::from_secs(1);

/// A file from this size on is made smaller when it is opened, if most of it is free.
const WORTH_COMPACTING: u64 = 64 << 20;

const FORMAT: TableDefinition<&str, u64> = TableDefinition::new("format");

/// What went wrong with the file.
#[derive(Debug)]
pub(super) struct Fault(Box<redb::Error>);

impl<E: Into<redb::Error>> From<E> for Fault {
    fn from(error: E) -> Self {
        Fault(Box::new(error.into()))
    }
}

impl Fault {
    fn at(self, file: &Path) -> Error {
        let file = file.display();
        match *self.0 {
            redb::Error::DatabaseAlreadyOpen => Error::config(format!(
                "{file} is open in another process: a folder of delayed records has one owner"
            )),
            cause @ (redb::Error::Corrupted(_)
            | redb::Error::UpgradeRequired(_)
            | redb::Error::RepairAborted) => Error::malformed(format!(
                "{file} is damaged or no file of delayed records: {cause}"
            )),
            // How redb answers a file that does not begin as its own.
            redb::Error::Io(cause) if cause.kind() == std::io::ErrorKind::InvalidData => {
                Error::malformed(format!(
                    "{file} is damaged or no file of delayed records: {cause}"
                ))
            }
            cause => {
                Error::unavailable(format!("{file} cannot be read or written")).with_source(cause)
            }
        }
    }
}

pub(super) struct Disk<S> {
    file: PathBuf,
    // Before the database, which must outlive it.
    transaction: Option<WriteTransaction>,
    state: S,
    database: Database,
}

impl<S: State> Disk<S> {
    pub(super) fn open(file: &Path, cache_bytes: usize) -> Result<Self> {
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).map_err(|cause| {
                let folder = folder.display();
                Error::config(format!("could not create the folder {folder}")).with_source(cause)
            })?;
        }
        let is_new = !file.exists();
        let mut database = open_database(file, cache_bytes).map_err(|fault| fault.at(file))?;
        if is_new {
            sync_folder(file);
        }
        let state = load::<S>(&mut database, file)?;
        Ok(Disk {
            file: file.to_owned(),
            transaction: None,
            state,
            database,
        })
    }

    pub(super) fn with<T>(
        &mut self,
        work: impl FnOnce(&mut S, &WriteTransaction) -> Result<T, Fault>,
    ) -> Result<T> {
        let transaction = match self.transaction.take() {
            Some(transaction) => transaction,
            None => {
                let begun = self.database.begin_write();
                begun.map_err(|error| Fault::from(error).at(&self.file))?
            }
        };
        let transaction = self.transaction.insert(transaction);
        work(&mut self.state, transaction).map_err(|fault| fault.at(&self.file))
    }

    pub(super) fn is_dirty(&self) -> bool {
        self.state.is_dirty()
    }

    pub(super) fn commit(&mut self) -> Result<()> {
        let Some(transaction) = self.transaction.take() else {
            return Ok(());
        };
        let committed = self.state.save(&transaction).and_then(|changed| {
            match changed {
                true => transaction.commit()?,
                false => transaction.abort()?,
            }
            Ok(())
        });
        committed.map_err(|fault| fault.at(&self.file))
    }
}

fn open_database(file: &Path, cache_bytes: usize) -> Result<Database, Fault> {
    let until = Instant::now() + HANDOVER;
    loop {
        match Database::builder().set_cache_size(cache_bytes).create(file) {
            Ok(database) => return Ok(database),
            Err(redb::DatabaseError::DatabaseAlreadyOpen) if Instant::now() < until => {
                thread::sleep(Duration::from_millis(20));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// A new file is not there after a crash unless its folder is written, too.
fn sync_folder(file: &Path) {
    // Not every system lets folders be opened; those that do not need no sync.
    if let Some(Ok(folder)) = file.parent().map(File::open) {
        let _ = folder.sync_all();
    }
}

fn load<S: State>(database: &mut Database, file: &Path) -> Result<S> {
    let prepared = prepare::<S>(database).map_err(|fault| fault.at(file))?;
    let state = prepared.map_err(|format| {
        let (file, own) = (file.display(), S::FORMAT);
        Error::config(format!(
            "{file} is of format {format}, this version reads format {own}"
        ))
    })?;
    compact(database, file).map_err(|fault| fault.at(file))?;
    Ok(state)
}

/// The state, or the format that is not this one.
fn prepare<S: State>(database: &Database) -> Result<std::result::Result<S, u64>, Fault> {
    let transaction = database.begin_write()?;
    {
        let mut formats = transaction.open_table(FORMAT)?;
        let format = formats.get("format")?.map(|format| format.value());
        match format {
            None => drop(formats.insert("format", S::FORMAT)?),
            Some(format) if format == S::FORMAT => {}
            Some(format) => return Ok(Err(format)),
        }
    }
    let state = S::load(&transaction)?;
    transaction.commit()?;
    Ok(Ok(state))
}

fn compact(database: &mut Database, file: &Path) -> Result<(), Fault> {
    let size = fs::metadata(file).map_or(0, |file| file.len());
    if size < WORTH_COMPACTING {
        return Ok(());
    }
    let transaction = database.begin_write()?;
    let stats = transaction.stats()?;
    transaction.abort()?;
    let used = (stats.allocated_pages()).saturating_mul(stats.page_size() as u64);
    if used < size / 2 {
        database.compact()?;
    }
    Ok(())
}
