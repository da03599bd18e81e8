//! Shared by the end-to-end tests: the demo as a child process, and a client that speaks the wire.

#![allow(dead_code, reason = "each test uses a part of it")]

pub(crate) mod client;
pub(crate) mod process;
