//! Durable things: work items, grants and charges, balances, schedules. A tick collects them; they become one commit with its
//! checkpoint (H6).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use bevy_ecs::{
    change_detection::{DetectChanges as _, Res, ResMut},
    resource::Resource,
    system::SystemParam,
};
use serde::Serialize;
use tenure_shared::PlayerId;

use super::TickNow;
use crate::{
    plugin::values::{Faults, bounded},
    runtime::Wall,
};

/// Most bytes that a work item carries.
const WORK_BYTES: usize = 4 * 1_024;
/// Most bytes that a charge carries; the store's own bound.
const TOKEN_BYTES: usize = 256;
/// Most bytes of a work item's key.
const KEY_BYTES: usize = 64;
/// Most grants that game code decides in one tick.
const PER_TICK: usize = 1_024;
/// Most schedules and cancels of work items in one tick.
const CHANGES_PER_TICK: usize = 2_048;
/// Latest due time, microseconds since 1970; the store's own bound.
const LATEST: u64 = tenure_shared::limits::MAX_SAFE_INTEGER - 1;
/// Most currencies in one grant; the store's own bound.
pub(crate) const CURRENCIES: usize = 16;

/// A work item that game code scheduled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) at: Wall,
    pub(crate) payload: Vec<u8>,
}

/// Job and key.
type ItemName = (Arc<str>, Arc<str>);

/// What a whole tick did to one item. The store carries out cancels before schedules.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Net {
    pub(crate) cancelled: bool,
    pub(crate) planned: Option<Planned>,
}

/// What a tick did to work items.
#[derive(Resource, Debug, Default)]
pub(crate) struct DueQueue {
    /// In order, so that what a failed handler did can be taken back: planned, or (`None`) cancelled.
    pub(crate) ops: Vec<(ItemName, Option<Planned>)>,
    pub(crate) jobs: Arc<[Arc<str>]>,
    pub(crate) faults: Faults,
}

impl DueQueue {
    /// What became of each item in the end: the last word counts.
    pub(crate) fn settle(&mut self) -> BTreeMap<ItemName, Net> {
        let mut nets: BTreeMap<ItemName, Net> = BTreeMap::new();
        for (name, planned) in self.ops.drain(..) {
            let net = nets.entry(name).or_default();
            net.cancelled |= planned.is_none();
            net.planned = planned;
        }
        nets
    }

    fn push(&mut self, job: Arc<str>, key: &str, planned: Option<Planned>) {
        if key.is_empty() || key.len() > KEY_BYTES || key.bytes().any(|c| c < b' ') {
            let rule = format!("1 to {KEY_BYTES} bytes without control characters");
            return self.faults.push(format!("job {job:?}: key {key:?} is not of {rule}"));
        }
        let name = (job, Arc::from(key));
        if self.ops.len() >= CHANGES_PER_TICK {
            let (job, key) = name;
            return self.faults.push(format!("job {job:?} {key:?}: more than {CHANGES_PER_TICK} changes in one tick"));
        }
        self.ops.push((name, planned));
    }
}

/// Schedules durable work: it happens whether or not anyone is around, once per `(job, key)`, for ever. What happens again needs a key
/// that grows: the tick, or a counter that is persisted.
#[derive(SystemParam, Debug)]
pub struct Due<'w> {
    queue: ResMut<'w, DueQueue>,
    tick: Res<'w, TickNow>,
}

impl Due<'_> {
    /// The job's handler is called not before `at` by the store's clock. The same `(job, key)` again replaces a pending item. One that was
    /// done stays done, one that is parked stays parked: then this call has no effect, which is logged and counted
    /// (`tenure_work_total`, outcome `ignored`) when the tick is stored.
    ///
    /// Refused and reported with the tick: an unregistered job, a key over 64 bytes, a payload over 4 KiB, a time after the year 2255, more
    /// than 2,048 changes in one tick, more than 9,000 items of the room that wait.
    pub fn schedule<T: Serialize + ?Sized>(&mut self, job: &str, key: &str, at: Wall, payload: &T) {
        let Some(known) = self.queue.jobs.iter().find(|known| ***known == *job).cloned() else {
            return self.queue.faults.push(format!("job {job:?} is not registered"));
        };
        let payload = match bounded("payload", payload, WORK_BYTES) {
            Ok(payload) => payload,
            Err(e) => return self.queue.faults.push(format!("job {job:?}: {e}")),
        };
        if at.0 > LATEST {
            return self.queue.faults.push(format!("job {job:?} {key:?}: due at {} µs; at most {LATEST}", at.0));
        }
        self.queue.push(known, key, Some(Planned { at, payload }));
    }

    /// The same, this much from now by the store's clock.
    pub fn schedule_in<T: Serialize + ?Sized>(&mut self, job: &str, key: &str, delay: Duration, payload: &T) {
        self.schedule(job, key, self.tick.0.wall.plus(delay), payload);
    }

    /// Cancels an item that is pending, also one that this tick has scheduled.
    pub fn cancel(&mut self, job: &str, key: &str) {
        if let Some(fault) = crate::plugin::names::fault("job", job) {
            return self.queue.faults.push(format!("cancel {key:?}: {fault}"));
        }
        self.queue.push(job.into(), key, None);
    }
}

/// A grant that game code decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewGrant {
    pub(crate) player: PlayerId,
    pub(crate) source: Arc<str>,
    pub(crate) amounts: BTreeMap<Arc<str>, i64>,
    pub(crate) token: Vec<u8>,
}

/// What a tick granted.
#[derive(Resource, Debug, Default)]
pub(crate) struct GrantQueue {
    pub(crate) grants: Vec<NewGrant>,
    pub(crate) charges: Arc<[Arc<str>]>,
    pub(crate) faults: Faults,
}

impl GrantQueue {
    fn push(&mut self, player: &PlayerId, source: &str, amounts: BTreeMap<Arc<str>, i64>, token: Vec<u8>) {
        if self.grants.len() >= PER_TICK {
            return self.faults.push(format!("grant {source:?} to {player}: more than {PER_TICK} in one tick"));
        }
        self.grants.push(NewGrant { player: player.clone(), source: source.into(), amounts, token });
    }
}

/// Gives to and charges players' ledgers. Nothing is shown or handed over before the ledger's answer: it comes to `on_granted` and,
/// for charges, to the handler of `RoomBuilder::charge` (H8).
///
/// `source` and currencies are names: 1 to 48 characters of `[a-z0-9_-.]`, the first a letter. One grant or charge has 1 to 16
/// currencies, each once, with amounts above 0; a tick has at most 1,024 of them. What breaks a bound is dropped, and reported with the
/// tick: in the log, in `tenure_room_errors_total`, in `TestRoom::take_errors`.
#[derive(SystemParam, Debug)]
pub struct Grants<'w> {
    queue: ResMut<'w, GrantQueue>,
}

impl Grants<'_> {
    /// Gives; the amounts must be above 0. `source` is shown to the player and in the ledger.
    pub fn give(&mut self, player: &PlayerId, source: &str, amounts: &[(&str, i64)]) {
        if let Some(amounts) = self.amounts(player, source, amounts, 1) {
            self.queue.push(player, source, amounts, Vec::new());
        }
    }

    /// Charges; the amounts are what it costs, above 0. The ledger takes all or nothing; `purchase` (at most 256 bytes encoded)
    /// comes back to the handler registered for `source`, once, also after a restart in between. Refused and reported with the tick:
    /// a source without a handler, a larger purchase.
    pub fn charge<P: Serialize>(&mut self, player: &PlayerId, source: &str, amounts: &[(&str, i64)], purchase: &P) {
        if !self.queue.charges.iter().any(|known| **known == *source) {
            return self.queue.faults.push(format!("charge {source:?} has no handler"));
        }
        let token = match bounded("purchase", purchase, TOKEN_BYTES) {
            Ok(token) => token,
            Err(e) => return self.queue.faults.push(format!("charge {source:?}: {e}")),
        };
        if let Some(amounts) = self.amounts(player, source, amounts, -1) {
            self.queue.push(player, source, amounts, token);
        }
    }

    fn amounts(
        &mut self,
        player: &PlayerId,
        source: &str,
        amounts: &[(&str, i64)],
        sign: i64,
    ) -> Option<BTreeMap<Arc<str>, i64>> {
        let fault = crate::plugin::names::fault("source", source)
            .or_else(|| amounts_fault(amounts.iter().copied()))
            .or_else(|| {
                let mut seen = BTreeSet::new();
                let twice = amounts.iter().find(|(currency, _)| !seen.insert(*currency))?;
                Some(format!("{} comes twice", twice.0))
            });
        match fault {
            Some(fault) => {
                self.queue.faults.push(format!("grant {source:?} to {player}: {fault}"));
                None
            }
            None => Some(amounts.iter().map(|(currency, amount)| (Arc::from(*currency), sign * amount)).collect()),
        }
    }
}

/// Says what is wrong with amounts, if anything: the store would refuse the whole tick's commit for it.
pub(crate) fn amounts_fault<'a>(amounts: impl Iterator<Item = (&'a str, i64)> + Clone) -> Option<String> {
    let count = amounts.clone().count();
    if count == 0 || count > CURRENCIES {
        return Some(format!("{count} currencies; expected 1 to {CURRENCIES}"));
    }
    amounts.into_iter().find_map(|(currency, amount)| {
        let low = || (amount <= 0).then(|| format!("{amount} {currency}: amounts are above 0"));
        crate::plugin::names::fault("currency", currency).or_else(low)
    })
}

/// Balances of players with a seat, as last heard.
#[derive(Resource, Debug, Default)]
pub(crate) struct BalanceBook {
    pub(crate) of: BTreeMap<PlayerId, BTreeMap<Arc<str>, i64>>,
}

/// Balances of players who sit here, as the ledger last said.
#[derive(SystemParam, Debug)]
pub struct Balances<'w> {
    book: Res<'w, BalanceBook>,
}

impl Balances<'_> {
    /// The balance, 0 if the player never had any; `None` while it is not known yet.
    pub fn get(&self, player: &PlayerId, currency: &str) -> Option<i64> {
        self.book.of.get(player).map(|of| of.get(currency).copied().unwrap_or(0))
    }

    /// Whether any changed since this system last ran.
    pub fn is_changed(&self) -> bool {
        self.book.is_changed()
    }
}

/// Next occurrences of reward schedules that concern this room.
#[derive(Resource, Debug, Default)]
pub(crate) struct ScheduleBook {
    pub(crate) next: BTreeMap<Arc<str>, Wall>,
}

/// When reward schedules are due here next.
#[derive(SystemParam, Debug)]
pub struct Schedules<'w> {
    book: Res<'w, ScheduleBook>,
}

impl Schedules<'_> {
    /// When the schedule is due next, by the store's clock.
    pub fn next(&self, schedule: &str) -> Option<Wall> {
        self.book.next.get(schedule).copied()
    }

    /// Whether any changed since this system last ran.
    pub fn is_changed(&self) -> bool {
        self.book.is_changed()
    }
}
