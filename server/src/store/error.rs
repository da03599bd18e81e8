//! What can go wrong with a verb: whose fault it is, and whether it may be tried again.

use tenure_shared::Term;

use super::Key;

/// A verb was refused or failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The fence is not the claim's: another owner, or another term (H1, H3). Never to be repeated.
    #[error("fenced off: {key} is held by {holder} for term {term}")]
    Fenced {
        /// The key.
        key: Key,
        /// Who holds it now; `nobody` if it is free.
        holder: String,
        /// For which term.
        term: Term,
    },
    /// The claim is not as the caller had seen it, or its holder lives.
    #[error("{key} cannot be acquired: held by {holder} for term {term}")]
    Held {
        /// The key.
        key: Key,
        /// Who holds it now.
        holder: String,
        /// For which term.
        term: Term,
    },
    /// The incarnation has a tombstone, or no record: it must register anew.
    #[error("incarnation {0} is gone: it must register anew")]
    Tombstoned(String),
    /// A constant of the cluster has another value.
    #[error("the cluster has agreed on {name} = {agreed}; this node has {proposed}")]
    Disagreement {
        /// The constant.
        name: String,
        /// The value of the cluster.
        agreed: String,
        /// The value of this node.
        proposed: String,
    },
    /// A commit with a lower number than one already applied, or other refusals of order.
    #[error("commit {number} of {key} came after {last}")]
    OutOfOrder {
        /// The key.
        key: Key,
        /// The number that came.
        number: u64,
        /// The last one applied.
        last: u64,
    },
    /// The verb breaks a named limit or a rule of form; the text says which.
    #[error("invalid: {0}")]
    Invalid(String),
    /// Something that was expected is not there, or has changed since it was read.
    #[error("conflict: {0}")]
    Conflict(String),
    /// A bound of the store is reached for now: nothing was changed. It goes through when there is room again.
    #[error("full: {0}")]
    Full(String),
    /// A passing fault: the verb may or may not have been applied; it is idempotent and may be repeated.
    #[error("the store is not reachable: {0}")]
    Unavailable(String),
    /// The store is damaged; the text is for the operator.
    #[error("the store failed: {0}")]
    Broken(String),
}

impl Error {
    /// Whether the same verb may succeed when it is sent again.
    pub fn may_retry(&self) -> bool {
        matches!(self, Error::Unavailable(_))
    }
}
