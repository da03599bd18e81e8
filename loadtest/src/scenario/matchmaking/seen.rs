//! What players and lists saw, and how it is judged.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tenure_shared::RoomId;

use super::lobby::Listed;
use crate::{
    report,
    stats::{Times, count},
    verdict::Verdict,
};

/// What all of them saw.
#[derive(Default)]
pub(super) struct Seen(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    joins: Vec<Join>,
    refusals: BTreeMap<String, u64>,
    unanswered: u64,
    drops: BTreeMap<String, u64>,
    cut: u64,
    lists_failed: BTreeMap<String, u64>,
    /// Sockets with a seat, now and at most, by room.
    sockets: BTreeMap<RoomId, (u32, u32)>,
    /// Seats, at most, and seats that there are, as rooms say.
    rooms: BTreeMap<RoomId, (u32, u32)>,
    answered: BTreeSet<RoomId>,
    twice: u64,
    moves: Vec<(Instant, Instant)>,
}

struct Join {
    asked: Instant,
    took: Duration,
}

impl Seen {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A player has a seat.
    pub(super) fn joined(&self, room: &RoomId, asked: Instant, took: Duration) {
        let mut inner = self.lock();
        inner.joins.push(Join { asked, took });
        inner.answered.insert(room.clone());
        let sockets = inner.sockets.entry(room.clone()).or_default();
        sockets.0 += 1;
        sockets.1 = sockets.1.max(sockets.0);
    }

    /// His socket is gone, or he has left.
    pub(super) fn left(&self, room: &RoomId) {
        if let Some(sockets) = self.lock().sockets.get_mut(room) {
            sockets.0 = sockets.0.saturating_sub(1);
        }
    }

    /// The same request, tried again after a passing fault, was given two rooms.
    pub(super) fn twice(&self) {
        self.lock().twice += 1;
    }

    /// A join was refused.
    pub(super) fn refused(&self, code: &str) {
        count(&mut self.lock().refusals, code);
    }

    /// A join had no answer in time.
    pub(super) fn unanswered(&self) {
        self.lock().unanswered += 1;
    }

    /// A player cut his socket while he waited.
    pub(super) fn cut(&self) {
        self.lock().cut += 1;
    }

    /// A socket was lost.
    pub(super) fn dropped(&self, why: &str) {
        count(&mut self.lock().drops, why);
    }

    pub(super) fn list_failed(&self, error: &anyhow::Error) {
        count(&mut self.lock().lists_failed, &error.to_string());
    }

    /// What a room says of itself.
    pub(super) fn listed(&self, room: &Listed) {
        let mut inner = self.lock();
        let known = inner.rooms.entry(room.room.clone()).or_default();
        *known = (known.0.max(room.seats), room.max_seats);
    }

    /// Rooms moved between these moments.
    pub(super) fn moved(&self, from: Instant, until: Instant) {
        self.lock().moves.push((from, until));
    }

    /// Adds the checks.
    pub(super) fn judge(&self, max_p99: Option<f64>, verdict: &mut Verdict) -> Told {
        let inner = self.lock();
        let in_move =
            |at: Instant, took: Duration| inner.moves.iter().any(|(from, until)| at <= *until && at + took >= *from);
        let (mut quiet, mut moving) = (Times::default(), Times::default());
        for join in &inner.joins {
            if in_move(join.asked, join.took) { moving.record(join.took) } else { quiet.record(join.took) }
        }
        let over = inner.rooms.values().filter(|(seats, most)| seats > most).count();
        verdict.check("rooms that said of more seats than they have", over == 0, over, 0);
        let over = inner
            .sockets
            .iter()
            .filter(|(room, (_, at_most))| inner.rooms.get(*room).is_some_and(|(_, most)| at_most > most));
        let over = over.count();
        verdict.check("rooms with more players than seats", over == 0, over, 0);
        verdict.check("joins without an answer", inner.unanswered == 0, inner.unanswered, 0);
        verdict.check("requests that were given two rooms", inner.twice == 0, inner.twice, 0);
        // Whoever cut his socket may have had a room made for him.
        let strange = inner.rooms.keys().filter(|room| !inner.answered.contains(*room)).count() as u64;
        verdict.check(
            "rooms that nobody was sent to",
            strange <= inner.cut,
            strange,
            format!("at most {} (cut)", inner.cut),
        );
        let passing = inner.refusals.get("may_retry").copied().unwrap_or(0);
        let others: u64 = inner.refusals.values().sum::<u64>() - passing;
        verdict.check("joins refused for good", others == 0, format!("{others} of {:?}", inner.refusals), 0);
        let may = if inner.moves.is_empty() { 0 } else { inner.joins.len() as u64 / 20 };
        verdict.check("joins to be tried again", passing <= may, passing, format!("at most {may}"));
        let lost: u64 = inner.drops.values().sum();
        verdict.check("sockets lost", lost == 0, format!("{:?}", inner.drops), "none");
        if let Some(bound) = max_p99 {
            verdict.check_time("p99 of a join outside of moves", quiet.quantile_ms(0.99), bound);
        }
        Told {
            joins: inner.joins.len(),
            cut: inner.cut,
            rooms: inner.rooms.len(),
            again: passing,
            lists_failed: inner.lists_failed.clone(),
            quiet,
            moving,
        }
    }
}

/// Figures of a run.
pub(super) struct Told {
    joins: usize,
    cut: u64,
    rooms: usize,
    again: u64,
    lists_failed: BTreeMap<String, u64>,
    quiet: Times,
    moving: Times,
}

impl Told {
    pub(super) fn json(&self) -> Value {
        json!({
            "joins": self.joins, "cut": self.cut, "rooms": self.rooms, "tried_again": self.again, "lists_failed": self.lists_failed,
            "join_ms": report::times(&self.quiet), "join_while_moving_ms": report::times(&self.moving),
        })
    }

    pub(super) fn text(&self) -> String {
        let spread = |t: &Times| {
            format!(
                "p50 {:.1}  p95 {:.1}  p99 {:.1}  max {:.1} ms  ({} joins)",
                t.quantile_ms(0.5),
                t.quantile_ms(0.95),
                t.quantile_ms(0.99),
                t.max_ms(),
                t.count()
            )
        };
        format!(
            "  join               {}\n  join while moving  {}\n  cut while waiting  {}, lists that failed {:?}",
            spread(&self.quiet),
            spread(&self.moving),
            self.cut,
            self.lists_failed
        )
    }

    pub(super) fn summary(&self) -> String {
        format!(
            "{} joins into {} rooms, p50 {:.1} ms, p99 {:.1} ms, while rooms moved p99 {:.0} ms, {} tried again",
            self.joins,
            self.rooms,
            self.quiet.quantile_ms(0.5),
            self.quiet.quantile_ms(0.99),
            self.moving.quantile_ms(0.99),
            self.again
        )
    }
}
