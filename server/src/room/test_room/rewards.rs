//! What a test does to rewards, grants and work.

use std::{collections::BTreeMap, sync::Arc};

use super::{Fate, TestRoom};
use crate::{
    plugin::{Audience, Reward},
    runtime::Wall,
};

impl TestRoom {
    /// An occurrence of a schedule is due at the next tick, for connected seats.
    pub fn reward(&mut self, schedule: &str, amounts: &[(&str, i64)]) {
        self.reward_for(schedule, amounts, Audience::Present);
    }

    /// The same for another audience.
    pub fn reward_for(&mut self, schedule: &str, amounts: &[(&str, i64)], audience: Audience) {
        let amounts: BTreeMap<Arc<str>, i64> = amounts.iter().map(|(c, n)| (Arc::from(*c), *n)).collect();
        self.reward_as(Reward {
            id: schedule.into(),
            scheduled_for: self.wall,
            audience,
            amounts,
            cap: None,
            max_grants_per_step: self.settings.max_grants_per_step,
            max_known: self.settings.max_known,
        });
    }

    /// The same, with a cap or whatever else a schedule may say. Each occurrence of a schedule has a `scheduled_for` of its own.
    pub fn reward_as(&mut self, reward: Reward) {
        self.durable.reward(self.wall, reward);
    }

    /// When the schedule is due next, as the room is told.
    pub fn schedule(&mut self, schedule: &str, next: Option<Wall>) {
        self.schedules.push((schedule.into(), next));
    }

    /// What becomes of grants and tasks from now on: for tests of what a crash leaves half done.
    pub fn fate(&mut self, fate: Fate) {
        self.durable.fate = fate;
    }

    /// Work that failed too often and waits for a person: job, key, the last reason.
    pub fn parked(&mut self) -> Vec<(String, String, String)> {
        self.durable.parked(self.wall)
    }

    /// A person makes such work due again, as by `work retry`.
    ///
    /// # Panics
    /// When there is no such item.
    pub fn retry(&mut self, job: &str, key: &str) {
        self.durable.retry(self.wall, job, key);
    }
}
