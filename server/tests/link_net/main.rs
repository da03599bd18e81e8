//! Links between processes, over TCP and over memory: order, bounds, handshake, silence, ends.
#![allow(clippy::expect_used, clippy::disallowed_methods, reason = "a test")]

mod alive;
mod ends;
mod flood;
mod garbage;
mod handshake;
mod order;
mod peers;
mod raw;
mod support;
