//! The lock of a data folder: one process at a time (docs/invariants.md C39). It is the kernel's: it ends
//! with its process, however that ends.

use std::{
    fs::{File, OpenOptions},
    io::{Read as _, Seek as _, Write as _},
    path::Path,
    time::Duration,
};

use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

use super::OpenError;
use crate::runtime::Wall;

/// How often a waiting process tries again.
const RETRY: Duration = Duration::from_millis(50);
/// Longest text about the holder that is read.
const HOLDER_BYTES: u64 = 256;

/// Held as long as it lives. The file stays: deleting it would let two processes lock two files of one name.
#[derive(Debug)]
pub(super) struct DataLock {
    _file: File,
}

impl DataLock {
    /// Takes the lock of `folder`, waiting for a former holder to end for at most `wait`. Blocks the thread.
    pub(super) fn take(folder: &Path, wait: Duration, now: Wall) -> Result<Self, OpenError> {
        let path = folder.join("lock");
        let fault = |error: std::io::Error| OpenError::Io { path: path.clone(), text: error.to_string() };
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(fault)?;
        let mut waited = Duration::ZERO;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(Errno::WOULDBLOCK) if waited < wait => {
                    std::thread::sleep(RETRY);
                    waited += RETRY;
                }
                Err(Errno::WOULDBLOCK) => {
                    let mut holder = String::new();
                    // The text is for people; without it the refusal stands all the same.
                    let read = (&mut file).take(HOLDER_BYTES).read_to_string(&mut holder);
                    let known = read.is_ok_and(|bytes| bytes > 0);
                    let holder = if known { holder.trim().to_owned() } else { "another process".to_owned() };
                    return Err(OpenError::InUse { path: folder.to_owned(), holder });
                }
                Err(error) => return Err(fault(error.into())),
            }
        }
        let started = i64::try_from(now.0).ok().and_then(|at| jiff::Timestamp::from_microsecond(at).ok());
        let started = started.map_or_else(String::new, |at| format!(", started {at:.0}"));
        file.set_len(0).map_err(fault)?;
        file.rewind().map_err(fault)?;
        writeln!(file, "process {}{started}", std::process::id()).map_err(fault)?;
        Ok(Self { _file: file })
    }
}
