//! Moves as the bots saw them: one line per room and term.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tenure_shared::RoomId;

use crate::{
    args::RunArgs,
    owners::Owners,
    stats::{Switch, Times},
};

/// Something that was done to the cluster beside the deploy: moves within its time are judged apart.
#[derive(Clone, Debug)]
pub(super) struct Disturbance {
    pub(super) what: String,
    pub(super) from: Instant,
    pub(super) until: Instant,
}

/// What kind of a change of the owner it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// In a deploy, and nothing else happened.
    Planned,
    /// While something was done to the cluster, or shortly after, and nothing was rolled back.
    Disturbed,
    /// A takeover: a rollback was announced.
    Takeover,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::Planned => "planned",
            Kind::Disturbed => "disturbed",
            Kind::Takeover => "takeover",
        }
    }
}

/// One room, one new owner.
#[derive(Clone, Debug)]
pub(super) struct Move {
    pub(super) room: u32,
    pub(super) term: u64,
    /// First frame that anybody saw.
    pub(super) at: Instant,
    pub(super) kind: Kind,
    /// What each of its bots saw, beyond a tick.
    pub(super) beyond: Vec<Duration>,
}

impl Move {
    fn worst(&self) -> Duration {
        self.beyond.iter().max().copied().unwrap_or_default()
    }
}

/// All of a run.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    pub(super) moves: Vec<Move>,
}

impl Timeline {
    /// Sorts what the bots saw by room and term.
    pub(super) fn new(seen: &[Switch], rollbacks: &BTreeSet<(u32, u64)>, disturbances: &[Disturbance]) -> Self {
        let mut moves: BTreeMap<(u32, u64), Move> = BTreeMap::new();
        for switch in seen {
            let (room, term, at) = (switch.room, switch.term, switch.at);
            let one = moves.entry((room, term)).or_insert(Move { room, term, at, kind: Kind::Planned, beyond: vec![] });
            one.at = one.at.min(at);
            one.beyond.push(switch.beyond);
        }
        for one in moves.values_mut() {
            // The pause began before the frame that ended it came.
            let (begin, end) = (one.at.checked_sub(one.worst()).unwrap_or(one.at), one.at);
            let disturbed = disturbances.iter().any(|d| begin <= d.until && d.from <= end);
            one.kind = match (rollbacks.contains(&(one.room, one.term)), disturbed) {
                (true, _) => Kind::Takeover,
                (false, true) => Kind::Disturbed,
                (false, false) => Kind::Planned,
            };
        }
        let mut moves: Vec<_> = moves.into_values().collect();
        moves.sort_by_key(|one| one.at);
        Self { moves }
    }

    fn of(&self, kind: Kind) -> impl Iterator<Item = &Move> {
        self.moves.iter().filter(move |one| one.kind == kind)
    }

    pub(super) fn count(&self, kind: Kind) -> usize {
        self.of(kind).count()
    }

    /// Pauses beyond a tick: what each bot saw.
    pub(super) fn pauses(&self, kind: Kind) -> Times {
        let mut times = Times::default();
        self.of(kind).flat_map(|one| &one.beyond).for_each(|time| times.record(*time));
        times
    }

    /// Pauses beyond a tick: per room and move what the bot saw that waited longest.
    pub(super) fn worst(&self, kind: Kind) -> Times {
        let mut times = Times::default();
        self.of(kind).for_each(|one| times.record(one.worst()));
        times
    }

    /// Every move, for programs and pages; times since `start`.
    pub(super) fn json(&self, args: &RunArgs, owners: &Owners, start: Instant) -> Value {
        let shards = owners.shards();
        let row = |one: &Move| {
            let id = RoomId::new(&format!("{}/{}/load-{}", args.kind, args.region, one.room)).ok();
            let shard = id.filter(|_| shards > 0).map(|id| id.shard(shards).0);
            let (to, from) = shard.map_or((None, None), |shard| owners.of(shard, one.term));
            let mut seen = Times::default();
            one.beyond.iter().for_each(|time| seen.record(*time));
            json!({
                "at_s": millis(one.at.saturating_duration_since(start)) / 1000.0, "room": format!("load-{}", one.room), "shard": shard,
                "term": one.term, "from": from, "to": to, "kind": one.kind.word(), "seen_by": one.beyond.len(),
                "pause_p50_ms": seen.quantile_ms(0.5), "pause_max_ms": millis(one.worst()),
            })
        };
        self.moves.iter().map(row).collect()
    }
}

/// ms, to the tenth.
fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 10_000.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_are_told_apart_by_what_was_done_and_announced() {
        let start = Instant::now() + Duration::from_secs(100);
        let at = |ms| start + Duration::from_millis(ms);
        let seen = |room, term, ms, beyond| Switch { room, term, at: at(ms), beyond: Duration::from_millis(beyond) };
        let all = [seen(1, 5, 110, 40), seen(1, 5, 100, 60), seen(2, 5, 2_000, 900), seen(3, 9, 2_100, 1)];
        let killed = Disturbance { what: "kill".into(), from: at(1_000), until: at(1_200) };
        let timeline = Timeline::new(&all, &BTreeSet::from([(3, 9)]), &[killed]);
        let kinds: Vec<_> = timeline.moves.iter().map(|one| (one.room, one.kind, one.beyond.len())).collect();
        assert_eq!(kinds, [(1, Kind::Planned, 2), (2, Kind::Disturbed, 1), (3, Kind::Takeover, 1)]);
        assert_eq!((timeline.moves[0].at, timeline.moves[0].worst()), (at(100), Duration::from_millis(60)));
        assert_eq!((timeline.pauses(Kind::Planned).count(), timeline.worst(Kind::Planned).count()), (2, 1));
    }
}
