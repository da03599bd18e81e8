//! What a reload of the schedules came to.

use serde::{Deserialize, Serialize};

use crate::timers::{BookDiff, RewardBook};

/// A reload that was done: ids by what became of them. Loaded rooms follow within a few seconds, the others when something is due in them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadReport {
    /// The file that was read.
    pub file: String,
    /// Of its text: nodes with the same one run the same file.
    pub hash: String,
    /// How many are untouched.
    pub unchanged: usize,
    /// Their pending occurrence is replaced by what the new text wants.
    pub changed: Vec<String>,
    /// New.
    pub added: Vec<String>,
    /// Their pending occurrence is cancelled: gone from the file, or switched off.
    pub removed: Vec<String>,
    /// What is valid and yet often not meant.
    pub warnings: Vec<String>,
}

/// Why the schedules stay as they are.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReloadError {
    /// The configuration names no file.
    #[error("rewards.file is not set: there is no file to read again")]
    NoFile,
    /// Every mistake of the file, a line each.
    #[error("{0}\nthe running schedules are kept")]
    Mistakes(String),
    /// The node ends.
    #[error("the node is stopping")]
    Stopping,
}

/// A book's hash, for people.
pub fn hash_text(book: &RewardBook) -> String {
    format!("{:016x}", book.hash())
}

impl ReloadReport {
    /// Of the book that runs now.
    pub fn new(file: String, book: &RewardBook, diff: &BookDiff) -> Self {
        let ids = |ids: &[std::sync::Arc<str>]| ids.iter().map(ToString::to_string).collect();
        Self {
            file,
            hash: hash_text(book),
            unchanged: diff.unchanged.len(),
            changed: ids(&diff.changed),
            added: ids(&diff.added),
            removed: ids(&diff.removed),
            warnings: book.warnings().to_vec(),
        }
    }
}
