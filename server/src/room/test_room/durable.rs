//! The store, outbox and ledger of a test room: the rules of docs/ARCHITECTURE.md and docs/rewards.md in small.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use tenure_shared::{PlayerId, RoomId};

use crate::{
    plugin::{Reward, TaskEnd, TaskFuture, TaskResult},
    room::world::{DueWork, Effects, GrantResult, MissedGrants, TickInput},
    runtime::Wall,
    store::{Applied, Checkpoint, Grant, GrantId, LedgerEntry, WorkId, WorkItem},
};

/// What becomes of grants and tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fate {
    /// Grants reach the ledger and their results the room; tasks run to their end at once.
    #[default]
    Normal,
    /// Grants stay in the outbox, tasks do not end.
    Held,
    /// Grants reach the ledger, but their results never reach the room: as when the owner is lost in between.
    Unheard,
}

#[derive(Default)]
pub(super) struct Durable {
    pub(super) fate: Fate,
    stored: Option<Checkpoint>,
    items: BTreeMap<WorkId, WorkItem>,
    rewards: BTreeMap<WorkId, Reward>,
    done: BTreeSet<WorkId>,
    outbox: BTreeMap<GrantId, Grant>,
    /// Results that the running world has been given.
    told: BTreeSet<GrantId>,
    ledger: BTreeMap<PlayerId, BTreeMap<Arc<str>, i64>>,
    recorded: BTreeMap<GrantId, Applied>,
    lines: BTreeMap<PlayerId, Vec<LedgerEntry>>,
    balances: Vec<PlayerId>,
    missed: Vec<(PlayerId, Wall)>,
    tasks: Vec<(u64, TaskResult)>,
}

impl Durable {
    pub(super) fn fill(&mut self, wall: Wall, input: &mut TickInput) {
        let due = self.items.values().filter(|item| item.due <= wall && item.parked.is_none());
        input.due =
            due.map(|item| DueWork { item: item.clone(), reward: self.rewards.get(&item.id).cloned() }).collect();
        if self.fate != Fate::Held {
            let waiting: Vec<_> = self.outbox.values().filter(|g| !self.told.contains(&g.id)).cloned().collect();
            for grant in waiting {
                let applied = self.apply(&grant, wall);
                let balances = self.balances(&grant.player);
                if self.fate == Fate::Normal {
                    self.told.insert(grant.id.clone());
                    input.results.push(GrantResult { grant, applied, balances });
                }
            }
        }
        for player in std::mem::take(&mut self.balances) {
            let balances = self.balances(&player);
            input.balances.push((player, balances));
        }
        for (player, since) in std::mem::take(&mut self.missed) {
            let (lines, balances) = (self.lines.get(&player).cloned().unwrap_or_default(), self.balances(&player));
            input.missed.push(MissedGrants { player, since, lines, balances });
        }
        input.tasks = std::mem::take(&mut self.tasks);
    }

    fn apply(&mut self, grant: &Grant, at: Wall) -> Applied {
        if let Some(before) = self.recorded.get(&grant.id) {
            return match before {
                Applied::Given(given) | Applied::Already(given) => Applied::Already(given.clone()),
                Applied::Insufficient => Applied::Insufficient,
            };
        }
        let of = self.ledger.entry(grant.player.clone()).or_default();
        let short = grant.amounts.iter().any(|(c, n)| *n < 0 && of.get(c).copied().unwrap_or(0) + n < 0);
        let applied = if short {
            Applied::Insufficient
        } else {
            grant.amounts.iter().for_each(|(c, n)| *of.entry(c.clone()).or_default() += n);
            Applied::Given(grant.amounts.clone())
        };
        self.recorded.insert(grant.id.clone(), applied.clone());
        let (id, source, scheduled_for) = (grant.id.clone(), grant.source.clone(), grant.scheduled_for);
        let given = if short { BTreeMap::new() } else { grant.amounts.clone() };
        let line = LedgerEntry { id, source, scheduled_for, given, insufficient: short, at };
        self.lines.entry(grant.player.clone()).or_default().push(line);
        applied
    }

    fn balances(&self, player: &PlayerId) -> Vec<(String, i64)> {
        let of = self.ledger.get(player).into_iter().flatten();
        of.map(|(currency, amount)| (currency.to_string(), *amount)).collect()
    }

    /// One atomic step, as `store::Batch` is.
    pub(super) fn commit(&mut self, checkpoint: Checkpoint, effects: Effects, wall: Wall) {
        self.stored = Some(checkpoint);
        for item in effects.scheduled {
            if !self.done.contains(&item.id) {
                self.items.insert(item.id.clone(), item);
            }
        }
        for id in effects.completed {
            assert!(self.items.remove(&id).is_some(), "{id:?} was completed, but is not pending (H6)");
            self.done.insert(id);
        }
        for (id, payload) in effects.advanced {
            self.items.entry(id).and_modify(|item| item.payload = payload);
        }
        for (id, _) in effects.failed {
            self.items.entry(id).and_modify(|item| {
                item.attempt += 1;
                item.due = wall.plus(Duration::from_secs(1));
            });
        }
        effects.cancelled.iter().for_each(|id| drop(self.items.remove(id)));
        for grant in effects.grants {
            let before = self.outbox.insert(grant.id.clone(), grant);
            assert!(before.is_none(), "{before:?} was decided twice (H6)");
        }
        effects.delivered.iter().for_each(|id| drop(self.outbox.remove(id)));
    }

    /// The owner is lost: what only it knew is gone.
    pub(super) fn restart(&mut self) -> Checkpoint {
        self.told.clear();
        self.tasks.clear();
        self.balances.clear();
        self.missed.clear();
        self.stored.clone().expect("a stored checkpoint")
    }

    pub(super) fn reward(&mut self, room: &RoomId, reward: Reward) {
        let (job, key) = (format!("schedule/{}", reward.id), reward.scheduled_for.0.to_string());
        let id = WorkId { room: room.clone(), job: job.into(), key: key.into() };
        let due = reward.scheduled_for;
        self.items.insert(
            id.clone(),
            WorkItem { id: id.clone(), due, attempt: 0, parked: None, payload: Default::default() },
        );
        self.rewards.insert(id, reward);
    }

    pub(super) fn deposit(&mut self, player: PlayerId, currency: &str, amount: i64) {
        *self.ledger.entry(player.clone()).or_default().entry(currency.into()).or_default() += amount;
        self.balances.push(player);
    }

    pub(super) fn balance(&self, player: &PlayerId, currency: &str) -> i64 {
        self.ledger.get(player).and_then(|of| of.get(currency)).copied().unwrap_or(0)
    }

    pub(super) fn wanted(&mut self, balances: Vec<PlayerId>, missed: Vec<(PlayerId, Wall)>) {
        self.balances.extend(balances);
        self.missed.extend(missed);
    }

    pub(super) fn run(&mut self, tasks: Vec<(u64, TaskFuture)>) {
        if tasks.is_empty() || self.fate == Fate::Held {
            return;
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        for (id, task) in tasks {
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| runtime.block_on(task)));
            self.tasks.push((id, ended.map_err(|_| TaskEnd::Failed)));
        }
    }
}
