//! Messages for daemons, and why one is refused.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

/// Largest message and largest answer, bytes.
pub const MESSAGE_BYTES: usize = 64 * 1024;

/// Why a message was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refused {
    /// There is no such set, or no such index in it now.
    #[error("there is no daemon {0}/{1}")]
    Unknown(String, u32),
    /// Its mailbox is full, or too many wait for daemons on this node. It may be tried again.
    #[error("too many messages wait")]
    Busy,
    /// Nobody ran it within the deadline: it moves, or is being started again. It may be tried again.
    #[error("the daemon is not running anywhere now")]
    Moving,
    /// It failed too often and is not started any more.
    #[error("the daemon is parked: {0}")]
    Parked(String),
    /// The whole set is stopped.
    #[error("the daemons are stopped")]
    Stopped,
    /// It was on its way or being handled when its daemon or the link ended, or the deadline passed: it may have been handled.
    #[error("no answer came: the message may have been handled")]
    Unanswered,
    /// It is not what this daemon reads.
    #[error("the daemon cannot read the message: {0}")]
    Unreadable(String),
    /// The handler failed on it.
    #[error("the daemon failed: {0}")]
    Failed(String),
    /// Above [`MESSAGE_BYTES`].
    #[error("a message or answer of {0} bytes; at most {MESSAGE_BYTES}")]
    TooLarge(usize),
}

impl Refused {
    /// Whether the daemon surely did not take it, so that the same message may be sent again without doing anything twice.
    pub fn may_retry(&self) -> bool {
        matches!(self, Refused::Busy | Refused::Moving)
    }
}

/// A message in a mailbox.
pub(super) struct Letter {
    pub(super) body: Bytes,
    /// Told when the daemon takes it; nobody listens any more: it is not to be taken.
    pub(super) taken: oneshot::Sender<()>,
    pub(super) answer: oneshot::Sender<Result<Bytes, Refused>>,
}

/// The sender's end of a letter.
pub(super) struct Sent {
    pub(super) taken: oneshot::Receiver<()>,
    pub(super) answer: oneshot::Receiver<Result<Bytes, Refused>>,
}

impl Letter {
    pub(super) fn new(body: Bytes) -> (Self, Sent) {
        let ((taken, is_taken), (answer, is_answered)) = (oneshot::channel(), oneshot::channel());
        (Self { body, taken, answer }, Sent { taken: is_taken, answer: is_answered })
    }
}
