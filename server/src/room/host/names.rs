//! Metrics of the room host. Labels are of bounded number: the kind of a room, an outcome; never a room, player or item (C63).

use std::time::Duration;

fn kind(kind: &str) -> String {
    kind.to_owned()
}

/// The metrics of every tick, looked up once per room and not once per tick.
pub(super) struct TickMeters {
    ticks: metrics::Counter,
    seconds: metrics::Histogram,
    late: metrics::Histogram,
    overruns: metrics::Counter,
    dropped: metrics::Counter,
}

impl TickMeters {
    pub(super) fn of(of: &str) -> Self {
        Self {
            ticks: metrics::counter!("tenure_room_ticks_total", "kind" => kind(of)),
            seconds: metrics::histogram!("tenure_room_tick_seconds", "kind" => kind(of)),
            late: metrics::histogram!("tenure_room_tick_late_seconds", "kind" => kind(of)),
            overruns: metrics::counter!("tenure_room_tick_overruns_total", "kind" => kind(of)),
            dropped: metrics::counter!("tenure_room_ticks_dropped_total", "kind" => kind(of)),
        }
    }

    /// A tick ran.
    pub(super) fn ticked(&self, took: Duration, overran: bool) {
        self.ticks.increment(1);
        self.seconds.record(took.as_secs_f64());
        if overran {
            self.overruns.increment(1);
        }
    }

    /// How late a tick began.
    pub(super) fn late(&self, late: Duration) {
        self.late.record(late.as_secs_f64());
    }

    /// Ticks that were given up after a stall.
    pub(super) fn dropped(&self, ticks: u64) {
        if ticks > 0 {
            self.dropped.increment(ticks);
        }
    }
}

/// A room failed.
pub(super) fn fault(of: &str) {
    metrics::counter!("tenure_room_faults_total", "kind" => kind(of)).increment(1);
}

/// A room was parked.
pub(super) fn parked(of: &str) {
    metrics::counter!("tenure_rooms_parked_total", "kind" => kind(of)).increment(1);
}

/// A checkpoint was made.
pub(super) fn checkpoint(of: &str, bytes: usize) {
    metrics::histogram!("tenure_room_checkpoint_bytes", "kind" => kind(of)).record(bytes as f64);
}

/// A checkpoint was made that is larger than four fifths of the largest that can be stored.
pub(super) fn checkpoint_large(of: &str) {
    metrics::counter!("tenure_room_checkpoints_large_total", "kind" => kind(of)).increment(1);
}

/// A commit ended: `ok`, `retried`, `refused`, `fenced`.
pub(super) fn commit(outcome: &'static str, took: Duration) {
    metrics::counter!("tenure_commits_total", "outcome" => outcome).increment(1);
    if outcome == "ok" {
        metrics::histogram!("tenure_commit_seconds").record(took.as_secs_f64());
    }
}

/// A work item was `completed`, `failed`, `parked` or `handed`; `refused` to a game that has too many, `ignored` when its
/// key was done already, or is parked.
pub(super) fn work(of: &str, outcome: &'static str) {
    metrics::counter!("tenure_work_total", "kind" => kind(of), "outcome" => outcome).increment(1);
}

/// How long after its due time an item was handed to its room.
pub(super) fn work_late(of: &str, late: Duration) {
    metrics::histogram!("tenure_work_late_seconds", "kind" => kind(of)).record(late.as_secs_f64());
}

/// A ledger answered: `given`, `already`, `insufficient`, `refused`; `put_off`: with something that is no answer.
pub(super) fn grant(outcome: &'static str) {
    metrics::counter!("tenure_grants_total", "outcome" => outcome).increment(1);
}

/// Occurrences that were missed and are not run.
pub(super) fn occurrences_dropped(count: u64) {
    metrics::counter!("tenure_occurrences_dropped_total").increment(count);
}

/// A tick does not return.
pub(super) fn stalled() {
    metrics::counter!("tenure_room_stalls_total").increment(1);
}

/// Rooms loaded now.
pub(super) fn loaded(rooms: usize) {
    metrics::gauge!("tenure_rooms_loaded").set(rooms as f64);
}
