//! The limit of open files: a socket each, and a few for everything else.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that a node needs beside its sockets.
const OTHERS: u64 = 256;

/// Open files that this many sockets need.
pub fn open_files_wanted(sockets: usize) -> u64 {
    u64::try_from(sockets).unwrap_or(u64::MAX).saturating_add(OTHERS)
}

/// Raises the soft limit as far as is needed and allowed, and says so when it is not enough.
pub(super) fn raise_limit(sockets: usize) {
    let wanted = open_files_wanted(sockets);
    let now = getrlimit(Resource::Nofile);
    let allowed = now.maximum.unwrap_or(u64::MAX);
    if now.current.is_some_and(|current| current < wanted) {
        let raised = Rlimit { current: Some(wanted.min(allowed)), maximum: now.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::warn!(%error, "the limit of open files could not be raised");
        }
    }
    let current = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    // A limit that is a little short of a bound that nobody reaches is no news.
    if current < wanted - wanted / 10 {
        let sockets = current.saturating_sub(OTHERS);
        tracing::warn!(
            current,
            wanted,
            "open files bound this node to about {sockets} sockets: raise the limit (ulimit -n)"
        );
    }
}
