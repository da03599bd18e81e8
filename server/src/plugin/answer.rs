//! How game code answers: yes, no with a reason, or later.

use serde::{Deserialize, Serialize};

/// A refusal with a reason for people. Made from a text: `Err("the shop is closed".into())`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refuse(String);

impl Refuse {
    /// A refusal for this reason; cut to the longest reason that travels.
    pub fn new(reason: impl Into<String>) -> Self {
        let mut reason: String = reason.into();
        let mut end = reason.len().min(tenure_shared::limits::REASON_BYTES);
        while !reason.is_char_boundary(end) {
            end -= 1;
        }
        reason.truncate(end);
        Self(reason)
    }

    /// The reason.
    pub fn reason(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Refuse {
    fn from(reason: &str) -> Self {
        Self::new(reason)
    }
}
impl From<String> for Refuse {
    fn from(reason: String) -> Self {
        Self::new(reason)
    }
}
impl std::fmt::Display for Refuse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a request handler says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer<T> {
    /// The answer.
    Now(T),
    /// [`Replies`](super::params::Replies) will answer, by the request's [`ReplyTo`].
    Later,
}

impl<T> From<T> for Answer<T> {
    fn from(answer: T) -> Self {
        Answer::Now(answer)
    }
}

/// Names a request that waits for its answer. Plain data: it may travel in the payload of a charge, a task's key or a component, and
/// it survives a move. A request whose player is gone is answered into the void.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ReplyTo(pub(crate) u64);
