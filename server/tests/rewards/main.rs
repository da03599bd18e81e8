//! Reward schedules through the public API: the text goes in as people write it.

#![allow(
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::let_underscore_must_use,
    reason = "helpers of tests may fail a test; the cost of a search is measured in real time"
)]

mod catch_up;
mod clock;
mod cron;
mod docs;
mod language;
mod preview;
mod properties;
#[path = "../support/room_tasks.rs"]
mod room_tasks;
mod schedule;

use std::sync::Arc;

use tenure::{
    runtime::Wall,
    timers::{RewardBook, Schedule, preview::utc_text},
};

/// A moment such as `2026-03-08T07:00:00Z`.
fn wall(text: &str) -> Wall {
    let timestamp: jiff::Timestamp = text.parse().expect("a timestamp");
    Wall(u64::try_from(timestamp.as_microsecond()).expect("after 1970"))
}

/// The file with one schedule that has these keys beside the required ones.
fn file(keys: &str) -> String {
    format!(
        "[[schedule]]\nid = \"test\"\nrooms = \"arena/*/*\"\naudience = \"present\"\ngrant = {{ gold = 25 }}\n{keys}\n"
    )
}

/// One schedule that has these keys beside the required ones.
fn schedule(keys: &str) -> Arc<Schedule> {
    let book = RewardBook::parse("rewards.toml", &file(keys)).unwrap_or_else(|errors| panic!("{keys}: {errors:?}"));
    book.get("test").expect("it is there").clone()
}

/// The messages for a schedule with these keys.
fn errors(keys: &str) -> Vec<String> {
    messages(&file(keys))
}

/// The messages for a file.
fn messages(text: &str) -> Vec<String> {
    let errors = RewardBook::parse("rewards.toml", text).expect_err(text);
    errors.iter().map(ToString::to_string).collect()
}

/// The first occurrences after a moment, each fed back as the next "after".
fn runs(schedule: &Schedule, after: &str, count: usize) -> Vec<String> {
    let mut at = wall(after);
    let mut runs = Vec::new();
    while let Some(next) = schedule.next_after(at).filter(|_| runs.len() < count) {
        assert!(next > at, "{next:?} is not after {at:?}");
        runs.push(utc_text(next));
        at = next;
    }
    runs
}
