//! What the bots count. Each thread of bots has its own [`Shard`]; the collector reads them once a second.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;

/// Largest value that a histogram holds, µs: ten minutes.
const LARGEST_US: u64 = 600_000_000;
/// Most different causes of drops that are told apart; further ones count as `other`.
const CAUSES: usize = 64;

/// One thread's counts.
#[derive(Debug, Default)]
pub(crate) struct Shard(Mutex<Stats>);

impl Shard {
    /// Locks the counts for a moment. A bot that panicked while counting leaves them usable.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Stats> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Times as HDR histogram of µs.
#[derive(Clone, Debug)]
pub(crate) struct Times(Histogram<u64>);

impl Default for Times {
    #[allow(clippy::expect_used, reason = "the bounds are constants that the library accepts; every test makes one")]
    fn default() -> Self {
        Self(Histogram::new_with_bounds(1, LARGEST_US, 3).expect("valid bounds"))
    }
}

impl Times {
    pub(crate) fn record(&mut self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(LARGEST_US);
        self.0.saturating_record(us.clamp(1, LARGEST_US));
    }

    pub(crate) fn add(&mut self, other: &Times) {
        // Both have the same bounds, so nothing can be out of range.
        let added = self.0.add(&other.0);
        debug_assert!(added.is_ok(), "histograms of different bounds");
    }

    pub(crate) fn clear(&mut self) {
        self.0.reset();
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    /// The value below which `share` (0 to 1) of the samples lie, ms; 0 without samples.
    pub(crate) fn quantile_ms(&self, share: f64) -> f64 {
        if self.0.is_empty() { 0.0 } else { self.0.value_at_quantile(share) as f64 / 1000.0 }
    }

    pub(crate) fn max_ms(&self) -> f64 {
        self.0.max() as f64 / 1000.0
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts since the start.
        #[derive(Clone, Debug, Default)]
        pub(crate) struct Counters {
            $($(#[$doc])* pub(crate) $name: u64,)*
        }
        impl Counters {
            pub(crate) fn add(&mut self, other: &Counters) {
                $(self.$name += other.$name;)*
            }
            /// What was counted since `earlier`.
            pub(crate) fn since(&self, earlier: &Counters) -> Counters {
                Counters { $($name: self.$name.saturating_sub(earlier.$name),)* }
            }
            pub(crate) fn json(&self) -> serde_json::Value {
                let all = [$((stringify!($name), self.$name),)*];
                all.into_iter().map(|(name, n)| (name.to_owned(), n.into())).collect::<serde_json::Map<_, _>>().into()
            }
        }
    };
}

counters! {
    /// Connections opened.
    connects,
    /// Rooms joined for the first time.
    joins,
    /// Seats resumed after a drop.
    resumes,
    /// Connections moved because the server asked for it, the new one before the old one closed.
    moves,
    /// Of connections that were to be moved, those that ended before the next one had the seat.
    closed_early,
    /// Bots that gave up for good.
    gave_up,
    /// WebSocket messages received.
    messages,
    /// Their bytes.
    bytes,
    /// Ticks received: frames and heartbeat frames.
    frames,
    /// Tick numbers left out between two frames of one term.
    missed_ticks,
    /// Snapshots received, and their bytes.
    snapshots,
    snapshot_bytes,
    /// Frames that were older than one shown before (H7).
    went_back,
    /// Frames that another bot of the room was sent otherwise, with the same term and tick (H2).
    frames_differ,
    /// Takeovers announced.
    rolled_back,
    /// Announced a second time for one term.
    rolled_back_again,
    /// Terms that began while a seat was shown frames.
    terms_begun,
    /// Inputs whose send time came.
    planned,
    /// Inputs sent for the first time.
    sent,
    /// Of these, more than 10 ms after the planned time.
    sent_late,
    /// Inputs sent again because they were not saved.
    sent_again,
    /// Inputs planned while too many were unsaved, never sent.
    withheld,
    /// Inputs shown as applied.
    applied,
    /// Inputs not shown as applied by the end.
    unanswered,
    /// Inputs that the server refused.
    refused,
    /// Grants received.
    grants,
    /// Requests answered with an error.
    errors,
    /// Messages of the server that could not be read, or operations that could not be applied.
    malformed,
    /// The server wanted an input that it had said was saved (H4).
    wanted_saved,
    /// A seat was gone after a reconnect.
    seats_lost,
    /// Fires of a room's local timer that were shown.
    beats,
    /// Of these, shown before, and no rollback was announced in between.
    beats_again,
    /// Numbers of fires left out between two that were shown.
    beats_unseen,
    /// Fires at a wrong tick, by the room's own count.
    beats_wrong,
    /// Changes of owners that were not kept one by one.
    switches_left_out,
}

/// The first frame of another owner, as one bot saw it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Switch {
    /// Number of the room.
    pub(crate) room: u32,
    pub(crate) term: u64,
    pub(crate) at: Instant,
    /// How much later than a tick after the last frame of the owner before.
    pub(crate) beyond: Duration,
}

/// Everything one thread's bots count.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    pub(crate) counters: Counters,
    /// Times are recorded only while this is set.
    pub(crate) measuring: bool,
    /// Ticks per second of the rooms, as they say themselves; the fastest if they differ.
    pub(crate) tick_rate: u32,
    /// Bots in a room now.
    pub(crate) playing: u64,
    /// From an input's planned send time to the frame that shows it.
    pub(crate) latency: Times,
    /// The same, since the collector last looked.
    pub(crate) recent: Times,
    /// Longer than the tick period between two frames.
    pub(crate) lateness: Times,
    /// Between two frames, whatever their ticks.
    pub(crate) pauses: Times,
    /// Between the last frame of a term and the first of the next one, on one connection.
    pub(crate) terms: Times,
    /// From the last frame on one connection to the first on that which the server asked for, beyond a tick.
    pub(crate) moved: Times,
    /// Each first frame of another owner. Not added up with other threads' (see `Counts`).
    pub(crate) switches: Vec<Switch>,
    /// Rooms and terms whose takeover was announced. Not added up either.
    pub(crate) rollbacks: BTreeSet<(u32, u64)>,
    /// From opening the connection to the seat.
    pub(crate) join_time: Times,
    /// From a drop to the seat again.
    pub(crate) resume_time: Times,
    /// How late this thread itself was, and the same since somebody last looked.
    pub(crate) own_lag: Times,
    pub(crate) recent_lag: Times,
    /// Connections lost by cause.
    pub(crate) drops: BTreeMap<String, u64>,
    /// Failures of this machine by cause.
    pub(crate) own_failures: BTreeMap<String, u64>,
    /// Requests refused by code.
    pub(crate) refusals: BTreeMap<String, u64>,
}

/// By how many percent the median of the last `ends` samples is above that of the first; `None` with too few of them to say.
pub(crate) fn growth(samples: &[impl AsRef<[f64]>], ends: usize) -> Option<f64> {
    let median = |some: &[_]| {
        let mut all: Vec<f64> = some.iter().flat_map(AsRef::as_ref).copied().collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied()
    };
    let behind = samples.len().checked_sub(ends).filter(|behind| *behind >= ends)?;
    let (first, last) = (median(samples.get(..ends)?)?, median(samples.get(behind..)?)?);
    Some((last / first - 1.0) * 100.0)
}

/// Counts `cause`, keeping the number of different causes bounded.
pub(crate) fn count(causes: &mut BTreeMap<String, u64>, cause: &str) {
    let known = causes.contains_key(cause) || causes.len() < CAUSES;
    let cause = if known { cause } else { "other" };
    *causes.entry(cause.to_owned()).or_default() += 1;
}

impl Stats {
    /// Adds another thread's counts.
    pub(crate) fn add(&mut self, other: &Stats) {
        self.counters.add(&other.counters);
        self.playing += other.playing;
        self.tick_rate = self.tick_rate.max(other.tick_rate);
        self.latency.add(&other.latency);
        self.recent.add(&other.recent);
        self.lateness.add(&other.lateness);
        self.pauses.add(&other.pauses);
        self.terms.add(&other.terms);
        self.moved.add(&other.moved);
        self.join_time.add(&other.join_time);
        self.resume_time.add(&other.resume_time);
        self.own_lag.add(&other.own_lag);
        for (mine, theirs) in [
            (&mut self.drops, &other.drops),
            (&mut self.own_failures, &other.own_failures),
            (&mut self.refusals, &other.refusals),
        ] {
            theirs.iter().for_each(|(cause, n)| *mine.entry(cause.clone()).or_default() += n);
        }
    }

    /// Connections lost that the server or the network is to blame for.
    pub(crate) fn drop_count(&self) -> u64 {
        self.drops.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_up_to_ten_minutes() {
        let mut times = Times::default();
        for ms in 1..=1000 {
            times.record(Duration::from_millis(ms));
        }
        times.record(Duration::from_secs(10_000));
        let near = |a: f64, b: f64| (a - b).abs() / b < 0.002;
        assert!(near(times.quantile_ms(0.5), 501.0), "{}", times.quantile_ms(0.5));
        assert!(near(times.max_ms(), 600_000.0), "{}", times.max_ms());
        let mut sum = Times::default();
        sum.add(&times);
        assert_eq!(sum.count(), 1001);
    }

    #[test]
    fn the_number_of_causes_is_bounded() {
        let mut causes = BTreeMap::new();
        (0..1000).for_each(|n| count(&mut causes, &format!("cause {n}")));
        assert_eq!(causes.len(), CAUSES + 1);
        assert_eq!(causes["other"], 1000 - CAUSES as u64);
    }
}
