//! The room host through its public interface: real threads, the real store rules in memory, nodes that stop and crash.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    elided_lifetimes_in_paths,
    unreachable_pub,
    missing_docs,
    reason = "helpers of tests may fail a test, and a game reads better without lifetimes"
)]

mod builds;
mod crash;
mod faults;
mod frozen;
mod handoffs;
mod handover;
mod harness;
mod lab;
mod lifecycle;
mod links;
mod listed;
mod lobby;
mod moves;
mod net;
mod owed;
mod player;
mod refusals;
mod rewards;
mod stays;
mod stopping;
mod takeovers;
mod weather;
