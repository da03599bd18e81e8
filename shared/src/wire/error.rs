//! Why a message of the client protocol was refused, and where in it.

use crate::{ids::IdError, msgpack};

/// A message that cannot be read. It is the sender's fault; reading the same bytes again fails again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {at}, {message}.{field}: {fault}")]
pub struct Error {
    /// Offset in the WebSocket message, bytes.
    pub at: usize,
    /// Name of the message kind; `message` while the kind is not known yet.
    pub message: &'static str,
    /// Name of the field.
    pub field: &'static str,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What is wrong with a field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Not the MessagePack that should stand here.
    #[error(transparent)]
    Form(#[from] msgpack::Fault),
    /// No message has this kind.
    #[error("{0} is no kind of message")]
    Kind(u32),
    /// Another number of fields.
    #[error("{found} elements, expected {expected}")]
    Fields {
        /// Elements of the array.
        found: usize,
        /// Elements that this kind has.
        expected: usize,
    },
    /// A text that is not an id.
    #[error(transparent)]
    Id(#[from] IdError),
    /// A value that this field cannot have.
    #[error("expected {0}")]
    Value(&'static str),
}
