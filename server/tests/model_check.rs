//! The model check: every interleaving of small clusters over the real pure state machines, and every rule broken once on purpose.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::print_stderr,
    unreachable_pub,
    missing_docs,
    reason = "helpers of tests may fail a test and say what they saw"
)]

mod model;
