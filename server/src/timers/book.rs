//! All schedules of a file, and what changed between two files.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tenure_shared::RoomId;

use super::{read, schedule::Schedule};
use crate::config::Diagnostic;

/// Bounds and defaults that schedules take from the server's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `catch_up_limit` of schedules that have none.
    pub catch_up_limit: usize,
    /// `catch_up_max_age` of schedules that have none.
    pub catch_up_max_age: Duration,
    /// How long the ledger knows what was paid; no `catch_up_max_age` may reach it.
    pub keep_identities: Duration,
    /// Most grants of one step of a decision.
    pub max_grants_per_step: usize,
    /// Most players that `all-known` remembers.
    pub max_known: usize,
}

impl Default for Limits {
    fn default() -> Self {
        const DAY: u64 = 86_400;
        Self {
            catch_up_limit: 10,
            catch_up_max_age: Duration::from_secs(30 * DAY),
            keep_identities: Duration::from_secs(45 * DAY),
            max_grants_per_step: 500,
            max_known: 1_000,
        }
    }
}

/// The schedules of one `rewards.toml`. It never changes; a reload makes another one.
#[derive(Clone, Debug, Default)]
pub struct RewardBook {
    schedules: BTreeMap<Arc<str>, Arc<Schedule>>,
    warnings: Vec<String>,
    hash: u64,
}

/// What a reload does to each id. A schedule that is switched off counts as not there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BookDiff {
    /// Untouched: pending occurrences stay.
    pub unchanged: Vec<Arc<str>>,
    /// The pending occurrence is replaced by the first one of the new text, unless it is due already.
    pub changed: Vec<Arc<str>>,
    /// New.
    pub added: Vec<Arc<str>>,
    /// The pending occurrence is cancelled.
    pub removed: Vec<Arc<str>>,
}

impl RewardBook {
    /// No schedules.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Reads a file with the default limits.
    ///
    /// # Errors
    /// With every mistake of the file, in the order of its lines.
    pub fn parse(file: &str, text: &str) -> Result<Self, Vec<Diagnostic>> {
        Self::parse_with(file, text, &Limits::default())
    }

    /// Reads a file. `file` is only repeated in messages: the text is given.
    ///
    /// # Errors
    /// As [`RewardBook::parse`].
    pub fn parse_with(file: &str, text: &str, limits: &Limits) -> Result<Self, Vec<Diagnostic>> {
        let (schedules, warnings) = read::file(file, text, limits)?;
        let schedules = schedules.into_iter().map(|schedule| (schedule.id.clone(), Arc::new(schedule))).collect();
        Ok(Self { schedules, warnings, hash: xxhash_rust::xxh3::xxh3_64(text.as_bytes()) })
    }

    /// The schedules that are for a room and not switched off, in the order of their ids.
    pub fn for_room(&self, room: &RoomId) -> impl Iterator<Item = &Arc<Schedule>> {
        self.live().filter(move |schedule| schedule.is_for(room))
    }

    /// The schedule of an id, switched off or not.
    pub fn get(&self, id: &str) -> Option<&Arc<Schedule>> {
        self.schedules.get(id)
    }

    /// All ids, switched off or not.
    pub fn ids(&self) -> impl Iterator<Item = &Arc<str>> {
        self.schedules.keys()
    }

    /// All schedules that are not switched off.
    pub fn live(&self) -> impl Iterator<Item = &Arc<Schedule>> {
        self.schedules.values().filter(|schedule| !schedule.disabled)
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.schedules.is_empty()
    }

    /// What is valid and yet often not meant: one line each, with file, line and key.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Of the text that was read: nodes with the same one run the same file. 0 without a text.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// What changes when this book is replaced by `next`.
    pub fn diff(&self, next: &RewardBook) -> BookDiff {
        let mut diff = BookDiff::default();
        for schedule in next.live() {
            let list = match self.schedules.get(&schedule.id).filter(|old| !old.disabled) {
                None => &mut diff.added,
                Some(old) if old == schedule => &mut diff.unchanged,
                Some(_) => &mut diff.changed,
            };
            list.push(schedule.id.clone());
        }
        let gone = |old: &&Arc<Schedule>| next.schedules.get(&old.id).is_none_or(|new| new.disabled);
        diff.removed = self.live().filter(gone).map(|old| old.id.clone()).collect();
        diff
    }
}

impl BookDiff {
    /// Whether every schedule stays as it is.
    pub fn is_nothing(&self) -> bool {
        self.changed.is_empty() && self.added.is_empty() && self.removed.is_empty()
    }
}
