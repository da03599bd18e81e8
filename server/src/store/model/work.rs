//! Work items: scheduled and completed once per identity, listed by due time, retried, parked, never lost.

use std::collections::BTreeSet;

use bytes::Bytes;
use tenure_shared::{RoomId, ShardId, Term};

use super::{Step, claims, commit, keys, limits, rows::ShardRow};
use crate::{
    runtime::Wall,
    store::{Again, CompletedWork, Error, Fence, Grant, Ignored, Reply, WorkId, WorkItem, is_owed, model::Kv as _},
};

/// The work parts of one commit. They are carried out in a fixed order: cancelled, scheduled, advanced, failed, parked, completed, said
/// again; so an item that one batch both cancels and schedules is there afterwards, as newly scheduled.
pub(super) struct Works<'s, 'a, 'b> {
    step: &'s mut Step<'a, 'b>,
    shard: ShardId,
    term: Term,
    /// Items that were pending and that this batch cancelled: what else it says of them is no fault.
    cancelled: BTreeSet<WorkId>,
}

impl<'s, 'a, 'b> Works<'s, 'a, 'b> {
    pub(super) fn new(step: &'s mut Step<'a, 'b>, shard: ShardId, term: Term) -> Self {
        Self { step, shard, term, cancelled: BTreeSet::new() }
    }

    fn item(&self, id: &WorkId) -> Result<Option<WorkItem>, Error> {
        self.step.get(&keys::item(self.shard, id))
    }

    pub(super) fn cancel(&mut self, cancelled: Vec<WorkId>) -> Result<(), Error> {
        for id in cancelled {
            if let Some(item) = self.item(&id)? {
                self.remove(&item)?;
                self.cancelled.insert(id);
            }
        }
        Ok(())
    }

    /// Schedules; gives what changed nothing, and is no mere repeat.
    pub(super) fn schedule(&mut self, items: Vec<WorkItem>) -> Result<Vec<Ignored>, Error> {
        let mut ignored = Vec::new();
        for item in items {
            // Completed once is completed for ever, at least as long as identities are kept (H6).
            if self.step.kv.get(&keys::done(self.shard, &item.id))?.is_some() {
                ignored.push(Ignored { id: item.id, parked: false });
                continue;
            }
            match self.item(&item.id)? {
                // An equal one is a repeat.
                Some(old) if old == item => {}
                // It waits for a person.
                Some(old) if old.parked.is_some() => ignored.push(Ignored { id: item.id, parked: true }),
                Some(old) => self.replace(&old, &item)?,
                None => {
                    let key = keys::item_count(self.shard, &item.id.room);
                    let count = self.step.get::<u64>(&key)?.unwrap_or_default() + 1;
                    let limit = limits::ROOM_ITEMS;
                    limits::at_most(&format!("work of {}", item.id.room), count as usize, limit, "items")?;
                    self.step.put(&key, &count)?;
                    put_item(self.step, self.shard, &item)?;
                }
            }
        }
        Ok(ignored)
    }

    fn replace(&mut self, old: &WorkItem, new: &WorkItem) -> Result<(), Error> {
        self.step.kv.delete(&keys::due(self.shard, old.due, &old.id))?;
        put_item(self.step, self.shard, new)
    }

    /// The pending item that one part of the batch names; `None` when the same batch cancels it.
    fn pending(&self, id: &WorkId) -> Result<Option<WorkItem>, Error> {
        match self.item(id)? {
            Some(item) => Ok(Some(item)),
            None if self.cancelled.contains(id) => Ok(None),
            None => Err(missing(id)),
        }
    }

    pub(super) fn advance(&mut self, advanced: Vec<(WorkId, Bytes)>) -> Result<(), Error> {
        for (id, payload) in advanced {
            if let Some(old) = self.pending(&id)? {
                let new = WorkItem { payload, ..old.clone() };
                self.replace(&old, &new)?;
            }
        }
        Ok(())
    }

    pub(super) fn fail(&mut self, failed: Vec<(WorkId, Wall)>) -> Result<(), Error> {
        for (id, due) in failed {
            if let Some(old) = self.pending(&id)? {
                let new = WorkItem { due, attempt: old.attempt.saturating_add(1), ..old.clone() };
                self.replace(&old, &new)?;
            }
        }
        Ok(())
    }

    pub(super) fn park(&mut self, parked: Vec<(WorkId, String)>) -> Result<(), Error> {
        for (id, mut reason) in parked {
            if let Some(old) = self.pending(&id)? {
                let end = (0..=reason.len().min(limits::REASON_BYTES)).rev().find(|at| reason.is_char_boundary(*at));
                reason.truncate(end.unwrap_or_default());
                let new = WorkItem { parked: Some(reason), ..old.clone() };
                self.replace(&old, &new)?;
            }
        }
        Ok(())
    }

    pub(super) fn complete(&mut self, completed: Vec<WorkId>, row: &mut ShardRow) -> Result<(), Error> {
        let count = completed.len();
        for id in completed {
            match self.item(&id)? {
                Some(item) if item.parked.is_none() => self.remove(&item)?,
                Some(_) => return Err(Error::Conflict(format!("{} {} of {} is parked", id.job, id.key, id.room))),
                None if self.cancelled.contains(&id) => {}
                None => return Err(missing(&id)),
            }
            self.note_done(id, row)?;
        }
        // Twice as fast as identities come in, so that trimming catches up.
        if count > 0 { self.forget(limits::TRIM.max(count * 2)) } else { Ok(()) }
    }

    /// Decisions said again: those that the store does not know are carried out. Gives their grants.
    pub(super) fn again(&mut self, again: Vec<Again>, row: &mut ShardRow) -> Result<Vec<(RoomId, Grant)>, Error> {
        let mut grants = Vec::new();
        for decision in again {
            let mut known = false;
            for id in &decision.completed {
                known |= self.step.kv.get(&keys::done(self.shard, id))?.is_some();
            }
            if known {
                continue;
            }
            for id in decision.completed {
                if let Some(item) = self.item(&id)? {
                    self.remove(&item)?;
                }
                self.note_done(id, row)?;
            }
            grants.extend(decision.grants);
        }
        Ok(grants)
    }

    fn note_done(&mut self, id: WorkId, row: &mut ShardRow) -> Result<(), Error> {
        let at = self.step.now;
        self.step.put(&keys::done(self.shard, &id), &at)?;
        self.step.put(&keys::done_time(self.shard, at, &id), &id)?;
        row.completed += 1;
        let line = CompletedWork { id, term: self.term, at };
        self.step.put(&keys::completed(self.shard, row.completed), &line)?;
        if row.completed > limits::COMPLETED {
            self.step.kv.delete(&keys::completed(self.shard, row.completed - limits::COMPLETED))?;
        }
        Ok(())
    }

    /// Forgets identities past their retention, at most `limit`.
    fn forget(&mut self, limit: usize) -> Result<(), Error> {
        let horizon = keys::number(self.step.horizon().0);
        let prefix = keys::done_times(self.shard);
        for (key, value) in self.step.kv.scan(&prefix, None, limit)? {
            if key[prefix.len()..] >= *horizon.as_bytes() {
                break;
            }
            let id: WorkId = super::rows::decode(&key, &value)?;
            self.step.kv.delete(&keys::done(self.shard, &id))?;
            self.step.kv.delete(&key)?;
        }
        Ok(())
    }

    fn remove(&mut self, item: &WorkItem) -> Result<(), Error> {
        self.step.kv.delete(&keys::item(self.shard, &item.id))?;
        self.step.kv.delete(&keys::due(self.shard, item.due, &item.id))?;
        let key = keys::item_count(self.shard, &item.id.room);
        let count = self.step.get::<u64>(&key)?.unwrap_or_default();
        if count > 1 { self.step.put(&key, &(count - 1)) } else { self.step.kv.delete(&key) }
    }

    /// Deletes the items of a room that is deleted. Identities it completed stay: a room of that name may come again. So does
    /// what is owed to players, not to the room.
    pub(super) fn delete_room(&mut self, room: &RoomId) -> Result<(), Error> {
        let prefix = keys::room_items(self.shard, room);
        let mut kept = 0_u64;
        for (key, value) in self.step.kv.scan(&prefix, None, limits::ROOM_ITEMS)? {
            let item: WorkItem = super::rows::decode(&key, &value)?;
            if is_owed(&item.id.job) {
                kept += 1;
                continue;
            }
            self.step.kv.delete(&key)?;
            self.step.kv.delete(&keys::due(self.shard, item.due, &item.id))?;
        }
        let count = keys::item_count(self.shard, room);
        if kept > 0 { self.step.put(&count, &kept) } else { self.step.kv.delete(&count) }
    }
}

fn missing(id: &WorkId) -> Error {
    Error::Conflict(format!("{} {} of {} is not pending", id.job, id.key, id.room))
}

fn put_item(step: &mut Step<'_, '_>, shard: ShardId, item: &WorkItem) -> Result<(), Error> {
    step.put(&keys::item(shard, &item.id), item)?;
    if item.parked.is_none() {
        step.put(&keys::due(shard, item.due, &item.id), &item.id)?;
    }
    Ok(())
}

pub(super) fn due(
    step: &Step<'_, '_>,
    shard: ShardId,
    before: Wall,
    after: Option<&(Wall, WorkId)>,
    limit: usize,
) -> Result<Reply, Error> {
    let prefix = keys::due_items(shard);
    let after = after.map(|(at, id)| keys::due(shard, *at, id));
    let before = keys::number(before.0);
    let mut items = Vec::new();
    for (key, value) in step.kv.scan(&prefix, after.as_deref(), limit.min(limits::LISTING))? {
        if key[prefix.len()..prefix.len() + before.len()] > *before.as_bytes() {
            break;
        }
        let id: WorkId = super::rows::decode(&key, &value)?;
        let item = step.get::<WorkItem>(&keys::item(shard, &id))?;
        items.push(item.ok_or_else(|| Error::Broken(format!("{} {} of {} has no row", id.job, id.key, id.room)))?);
    }
    Ok(Reply::Work(items))
}

pub(super) fn overdue(step: &Step<'_, '_>, shard: ShardId) -> Result<Reply, Error> {
    let prefix = keys::due_items(shard);
    let now = keys::number(step.now.0);
    let mut count = 0;
    let mut after: Option<Vec<u8>> = None;
    while count < limits::OVERDUE_COUNT {
        let page = step.kv.scan(&prefix, after.as_deref(), limits::LISTING)?;
        let overdue = page.iter().take_while(|(key, _)| key[prefix.len()..prefix.len() + now.len()] <= *now.as_bytes());
        let found = overdue.count();
        count += found;
        if found < limits::LISTING {
            break;
        }
        after = page.into_iter().next_back().map(|(key, _)| key);
    }
    Ok(Reply::Count(count.min(limits::OVERDUE_COUNT) as u64))
}

pub(super) fn retry(step: &mut Step<'_, '_>, fence: &Fence, id: &WorkId) -> Result<Reply, Error> {
    claims::fenced(step, fence)?;
    let shard = commit::shard_of(fence)?;
    let item = step.get::<WorkItem>(&keys::item(shard, id))?.ok_or_else(|| missing(id))?;
    if item.parked.is_some() {
        // Its attempts are counted anew, or the next failure would park it at once.
        let now = step.now;
        put_item(step, shard, &WorkItem { due: now, attempt: 0, parked: None, ..item })?;
    }
    Ok(Reply::Done)
}

pub(super) fn completed(step: &Step<'_, '_>, shard: ShardId, limit: usize) -> Result<Reply, Error> {
    let written = step.get::<ShardRow>(&keys::shard(shard))?.map_or(0, |row| row.completed);
    let before = written.saturating_sub(limit.min(limits::LISTING) as u64);
    let prefix = format!("completed/{shard}\0");
    Ok(Reply::Completed(step.list(prefix.as_bytes(), Some(&keys::completed(shard, before)), limit)?))
}
