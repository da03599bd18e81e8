//! How game code answers: yes, no with a reason, or later.

use serde::{Deserialize, Serialize};
use tenure_shared::codes::ErrorCode;

/// A refusal with a reason for people, and perhaps a word for programs. Made from a text: `Err("the shop is closed".into())`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refuse {
    reason: String,
    code: Option<Box<str>>,
}

/// Longest word of a refusal, bytes.
const CODE_BYTES: usize = 32;

impl Refuse {
    /// A refusal with a word that clients can compare, in the place of `request_failed` or, of a join, of `refused`:
    /// `Refuse::code("not_enough", "not enough gold")`. It has 1 to 32 characters of `[a-z0-9_]`, begins with a letter and is none of the
    /// framework's own (docs/wire.md); any other is reported with the tick and left out. Of a kick only the reason travels.
    pub fn code(code: &str, reason: impl Into<String>) -> Self {
        // One that is too long stays so, and is found out when it is used.
        let code = code.chars().take(CODE_BYTES + 1).collect::<String>();
        Self { code: Some(code.into()), ..Self::new(reason) }
    }

    /// The word for programs, if it has one.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn word(&self) -> Result<Option<&str>, String> {
        let Some(code) = self.code.as_deref() else { return Ok(None) };
        let alphabet = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_';
        let begins = code.starts_with(|c: char| c.is_ascii_lowercase());
        if code.len() > CODE_BYTES || !begins || !code.bytes().all(alphabet) {
            return Err(format!(
                "the refusal's code {code:?} is not 1 to {CODE_BYTES} of [a-z0-9_], the first a letter"
            ));
        }
        if ErrorCode::from_word(code).is_some() {
            return Err(format!("the refusal's code {code:?} is a word of the framework"));
        }
        Ok(Some(code))
    }

    /// A refusal for this reason; cut to the longest reason that travels.
    pub fn new(reason: impl Into<String>) -> Self {
        let mut reason: String = reason.into();
        let mut end = reason.len().min(tenure_shared::limits::REASON_BYTES);
        while !reason.is_char_boundary(end) {
            end -= 1;
        }
        reason.truncate(end);
        Self { reason, code: None }
    }

    /// The reason.
    pub fn reason(&self) -> &str {
        &self.reason
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
        f.write_str(&self.reason)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_checked_when_it_is_used() {
        assert_eq!(Refuse::from("no").word(), Ok(None));
        for good in ["not_enough", "e404", &"a".repeat(32)] {
            assert_eq!(Refuse::code(good, "no").word(), Ok(Some(good)));
        }
        for bad in ["", "Not", "4", "_a", "not-enough", "é", &"a".repeat(33), &"a".repeat(9_999), "limit", "may_retry"]
        {
            assert!(Refuse::code(bad, "no").word().is_err(), "{bad:?} was taken");
        }
        assert_eq!(Refuse::code("a", "no").reason(), "no");
    }
}
