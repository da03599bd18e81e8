//! The embedded store: one file `store.redb` in a data folder, one process, durable at every answer.
//!
//! One thread owns the file. It takes all waiting commands (at most `GROUP`), carries them out in one transaction, makes it durable
//! with one fsync and only then answers: so an answered write survives kill -9, and a hundred writers share an fsync. A fault (full
//! disk, I/O error, panic) refuses its group, closes the file, and the next group opens it anew.
//!
//! Opening takes the lock of the folder and writes the tombstone of every member found in the file: whoever holds the lock knows that
//! their processes are gone, so their claims can be taken at once. Several nodes of one process share one opened store.

mod lock;
mod queue;
mod rows;
mod writer;

#[cfg(test)]
mod tests;

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

use lock::DataLock;
use queue::{Job, LANE, Queue};
use redb::Database;
use tokio::sync::oneshot;
use writer::{Open, Writer};

use super::{Backend, BoxFuture, Command, Error, Stamped, Store, model::Rules};
use crate::runtime::{Clock, Wall};

/// Name of the file in the data folder.
const FILE: &str = "store.redb";

/// How the embedded store is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// The rules' settings.
    pub rules: Rules,
    /// How long to wait for a former process to let the data folder go.
    pub lock_wait: Duration,
    /// Memory for pages of the file, bytes.
    pub cache: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { rules: Rules::default(), lock_wait: Duration::from_secs(10), cache: 64 * 1024 * 1024 }
    }
}

/// Why a data folder could not be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Another process holds it.
    #[error(
        "the data folder {} is in use by {holder}: stop that process, or give this one a folder of its own",
        path.display()
    )]
    InUse {
        /// The folder.
        path: PathBuf,
        /// What the holder wrote about itself: process id and start.
        holder: String,
    },
    /// The operating system refuses.
    #[error("{}: {text}", path.display())]
    Io {
        /// What was opened.
        path: PathBuf,
        /// Its words.
        text: String,
    },
    /// The file is damaged, or was written by a newer build.
    #[error("{}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: Error,
    },
}

/// The backend of [`embedded`]. Dropping it works off what waits and closes the file.
#[derive(Debug)]
pub struct Embedded {
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

impl Embedded {
    /// Opens (or makes) the store in `folder`. Blocks: it may wait for the lock and repair the file after a crash.
    ///
    /// # Errors
    /// When the folder is held by another process, or cannot be written or read.
    pub fn open(folder: &Path, clock: Clock, options: Options) -> Result<Self, OpenError> {
        let fault = |error: std::io::Error| OpenError::Io { path: folder.to_owned(), text: error.to_string() };
        fs::create_dir_all(folder).map_err(fault)?;
        let lock = DataLock::take(folder, options.lock_wait, clock.wall())?;
        let path = folder.join(FILE);
        let file = path.clone();
        let open: Open =
            Box::new(move || Database::builder().set_cache_size(options.cache).create(&file).map_err(rows::fault));
        let this = Self::start(open, options.rules, clock, Some(lock));
        let this = this.map_err(|error| OpenError::Unreadable { path, error })?;
        // A new file is there only when its folder says so on disk.
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(fault)?;
        Ok(this)
    }

    fn start(open: Open, rules: Rules, clock: Clock, lock: Option<DataLock>) -> Result<Self, Error> {
        let writer = Writer::new(open, rules, clock)?;
        let queue = Arc::new(Queue::default());
        let jobs = queue.clone();
        let work = move || {
            writer.run(&jobs);
            // Only after the file is closed.
            drop(lock);
        };
        let thread = std::thread::Builder::new().name("tenure-store".to_owned()).spawn(work);
        let thread = thread.map_err(|error| Error::Unavailable(format!("no thread for the store: {error}")))?;
        Ok(Self { queue, thread: Some(thread) })
    }
}

impl Backend for Embedded {
    fn execute(&self, command: Command) -> BoxFuture<'_, Stamped> {
        let (answer, answered) = oneshot::channel();
        let taken = self.queue.push(Job { command, answer });
        Box::pin(async move {
            // No store time: the store has not seen it.
            let refused = |text: String| Stamped { at: Wall(0), reply: Err(Error::Unavailable(text)) };
            if !taken {
                metrics::counter!("tenure_mailbox_full_total", "mailbox" => "store").increment(1);
                return refused(format!("{LANE} commands wait already"));
            }
            answered.await.unwrap_or_else(|_| refused("the store's thread has ended".to_owned()))
        })
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.queue.close();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the store's thread panicked");
        }
    }
}

/// Opens (or makes) the store in `folder`: [`Embedded::open`] with a handle around it. Blocks.
///
/// # Errors
/// As [`Embedded::open`].
pub fn embedded(folder: &Path, clock: Clock, options: Options) -> Result<Store, OpenError> {
    Ok(Store::new(Embedded::open(folder, clock.clone(), options)?, clock))
}
