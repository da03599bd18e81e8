//! A schedule: when a reward is due, for which rooms, for whom, and how much. Pure: the time is always given.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tenure_shared::RoomId;

use super::{
    cron::{Cron, DstRule},
    pattern::RoomPattern,
    window::{self, Window},
    zone::{LAST_SECOND, Zone},
};
use crate::{
    plugin::{Audience, Reward},
    runtime::Wall,
};

/// Start of the grid of `every` when the schedule has no `starts`: 2024-01-01T00:00:00Z, a Monday.
pub const GRID_ANCHOR: i64 = 1_704_067_200;

/// Occurrences outside the window that one search passes over before it says "never": one for each week of the horizon.
const MAX_CLOSED: usize = 2_200;

/// How far a search looks ahead, seconds: the same as the calendar search of cron.
const HORIZON: i64 = 41 * 366 * 86_400;

/// What makes a schedule due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// Times on the wall clock.
    Cron(Cron),
    /// A fixed period, whole seconds, on a grid that no restart shifts (docs/invariants.md C20).
    Every {
        /// Seconds between two occurrences, at least 1.
        period: i64,
        /// An instant of the grid.
        anchor: i64,
    },
    /// Single instants, rising.
    At(Vec<i64>),
}

/// What to do about occurrences that were missed while nobody served the room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CatchUpPolicy {
    /// None of them.
    Skip,
    /// The newest one.
    #[default]
    Latest,
    /// All of them, oldest first, up to the limit.
    All,
}

/// At most so much per player and day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DailyCap {
    pub(crate) limits: BTreeMap<Arc<str>, i64>,
    /// Second of the day, on the wall clock of the schedule's zone.
    pub(crate) starts_at: i64,
}

/// One schedule of `config/rewards.toml`. Two that are equal behave alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    pub(crate) id: Arc<str>,
    pub(crate) trigger: Trigger,
    pub(crate) zone: Zone,
    pub(crate) dst: DstRule,
    /// First second at which it may be due.
    pub(crate) starts: Option<i64>,
    /// First second at which it is not due any more.
    pub(crate) ends: Option<i64>,
    pub(crate) window: Option<Window>,
    pub(crate) rooms: Vec<RoomPattern>,
    pub(crate) audience: Audience,
    pub(crate) amounts: BTreeMap<Arc<str>, i64>,
    pub(crate) cap: Option<DailyCap>,
    pub(crate) catch_up: CatchUpPolicy,
    pub(crate) catch_up_limit: usize,
    pub(crate) catch_up_max_age: Duration,
    pub(crate) jitter: Duration,
    pub(crate) disabled: bool,
    pub(crate) max_grants_per_step: usize,
    pub(crate) max_known: usize,
}

impl Schedule {
    /// Its id: part of every identity that it pays under.
    pub fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// What makes it due.
    pub fn trigger(&self) -> &Trigger {
        &self.trigger
    }

    /// Its zone.
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// Who gets it.
    pub fn audience(&self) -> Audience {
        self.audience
    }

    /// Whether it is switched off.
    pub fn disabled(&self) -> bool {
        self.disabled
    }

    /// Its patterns of rooms, for people.
    pub fn rooms_text(&self) -> String {
        let patterns: Vec<String> = self.rooms.iter().map(ToString::to_string).collect();
        patterns.join(", ")
    }

    /// Its rule, for people.
    pub fn rule(&self) -> String {
        match &self.trigger {
            Trigger::Cron(cron) => format!("{} ({})", cron.text(), self.zone.name()),
            Trigger::Every { period, .. } => format!("every {period} s"),
            Trigger::At(instants) => format!("at {} instants", instants.len()),
        }
    }

    /// Whether it is for a room.
    pub fn is_for(&self, room: &RoomId) -> bool {
        self.rooms.iter().any(|pattern| pattern.matches(room))
    }

    /// The first occurrence strictly after a moment; `None` when there is none within about forty years. It never
    /// goes back: a later `after` has the same or a later answer. The `disabled` switch does not count here.
    pub fn next_after(&self, after: Wall) -> Option<Wall> {
        let mut after = i64::try_from(after.0 / 1_000_000).ok()?;
        if let Some(starts) = self.starts {
            after = after.max(starts - 1);
        }
        let horizon = after.saturating_add(HORIZON).min(LAST_SECOND);
        for _ in 0..MAX_CLOSED {
            let at = self.trigger_after(after).filter(|at| *at <= horizon || matches!(self.trigger, Trigger::At(_)))?;
            if self.ends.is_some_and(|ends| at >= ends) || at > LAST_SECOND {
                return None;
            }
            match &self.window {
                Some(window) if !window.contains(&self.zone, at) => {
                    after = window.next_opening(&self.zone, at)?.max(at + 1) - 1;
                }
                _ => return u64::try_from(at).ok().map(|second| Wall(second * 1_000_000)),
            }
        }
        None
    }

    /// What the room decides about when an occurrence is due.
    pub fn reward(&self, scheduled_for: Wall) -> Reward {
        let cap = self.cap.as_ref().map(|cap| {
            let at = i64::try_from(scheduled_for.0 / 1_000_000).unwrap_or(LAST_SECOND);
            let since = window::day_start(&self.zone, cap.starts_at, at);
            (Wall(u64::try_from(since).unwrap_or(0) * 1_000_000), cap.limits.clone())
        });
        Reward {
            id: self.id.clone(),
            scheduled_for,
            audience: self.audience,
            amounts: self.amounts.clone(),
            cap,
            max_grants_per_step: self.max_grants_per_step,
            max_known: self.max_known,
        }
    }

    /// When a room starts with an occurrence: `scheduled_for`, later by up to `jitter`. The delay of a room is fixed,
    /// so that a move or restart does not change it; the identity stays `scheduled_for`.
    pub fn due(&self, scheduled_for: Wall, room: &RoomId) -> Wall {
        Wall(scheduled_for.0.saturating_add(self.delay(room)))
    }

    /// The moment whose occurrences are due in a room at `now`: earlier by the room's delay. Give it to `catch_up`
    /// as its `now`, or an occurrence that still waits for its delay counts as missed.
    pub fn undelayed(&self, now: Wall, room: &RoomId) -> Wall {
        Wall(now.0.saturating_sub(self.delay(room)))
    }

    /// The job name of its work items: `schedule/<id>`.
    pub fn job(&self) -> String {
        format!("schedule/{}", self.id)
    }

    /// Microseconds that a room is behind the due instant.
    fn delay(&self, room: &RoomId) -> u64 {
        match u64::try_from(self.jitter.as_micros()).unwrap_or(u64::MAX) {
            0 => 0,
            most => xxhash_rust::xxh3::xxh3_64_with_seed(room.as_str().as_bytes(), JITTER_SEED) % most,
        }
    }

    /// The next instant of the trigger alone, without `ends` and window.
    fn trigger_after(&self, after: i64) -> Option<i64> {
        match &self.trigger {
            Trigger::Cron(cron) => cron.next(&self.zone, self.dst, after),
            Trigger::Every { period, anchor } => {
                let steps = (after - anchor).div_euclid(*period) + 1;
                anchor.checked_add(steps.checked_mul(*period)?)
            }
            Trigger::At(instants) => instants.get(instants.partition_point(|at| *at <= after)).copied(),
        }
    }
}

/// Another function of the room id than the one that chooses shards, or all rooms of a shard would be due together.
const JITTER_SEED: u64 = 0x6a69_7474;
