//! Shared by the end-to-end tests: the demo as a child process, and a client that speaks the wire.

pub(crate) mod client;
pub(crate) mod process;
