//! The room host through its public interface: real threads, the real store rules in memory, nodes that stop and crash.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests may fail a test")]

mod crash;
mod faults;
mod harness;
mod lab;
mod lifecycle;
mod lobby;
mod rewards;
mod stopping;
