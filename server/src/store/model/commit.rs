//! The one durable write of a shard: fenced, numbered, atomic (H1, H3, H6).

use tenure_shared::{RoomId, ShardId};

use super::{
    AGREED_SHARDS, Step, check, claims, keys, limits,
    rows::{RoomRow, ShardRow},
    work,
};
use crate::store::{Batch, Checkpoint, Error, Fence, Grant, OutboxEntry, Reply, model::Kv as _};

pub(super) fn commit(
    step: &mut Step<'_, '_>,
    fence: &Fence,
    shards: u32,
    number: u64,
    batch: Batch,
) -> Result<Reply, Error> {
    let shard = shard_of(fence)?;
    agreed_shards(step, shards)?;
    if shard.0 >= shards {
        return Err(Error::Invalid(format!("shard {shard}; there are {shards}, counted from 0")));
    }
    claims::fenced(step, fence)?;

    let key = keys::shard(shard);
    let mut row = step.get::<ShardRow>(&key)?.unwrap_or_default();
    if row.term != fence.term() {
        row.term = fence.term();
        row.number = 0;
        row.positions.clear();
        // A position is never used twice, not even where the store forgot some of them: a trim of one that is gone must not hit another grant.
        // Terms are microseconds and grow, and no shard appends so many grants.
        row.last_position = row.last_position.max(fence.term().0);
    }
    if number == row.number && number > 0 {
        // Its answer was lost: the same answer, and nothing changes.
        return Ok(Reply::Committed { positions: row.positions, ignored: Vec::new() });
    }
    if number != row.number + 1 {
        // Lower: an old checkpoint must not overwrite a newer one (F4). Higher: one before it is still on its way.
        return Err(Error::OutOfOrder { key: fence.key().clone(), number, last: row.number });
    }
    check::batch(step.rules, fence, shard, shards, &batch)?;

    let Batch {
        checkpoints,
        deleted,
        scheduled,
        completed,
        advanced,
        failed,
        parked,
        cancelled,
        grants,
        trimmed,
        again,
    } = batch;
    for checkpoint in &checkpoints {
        store(step, shard, checkpoint)?;
    }
    let mut works = work::Works::new(step, shard, fence.term());
    works.cancel(cancelled)?;
    let ignored = works.schedule(scheduled)?;
    works.advance(advanced)?;
    works.fail(failed)?;
    works.park(parked)?;
    works.complete(completed, &mut row)?;
    let forgotten = works.again(again, &mut row)?;
    for room in &deleted {
        works.delete_room(room)?;
    }
    for room in &deleted {
        step.kv.delete(&keys::room(room))?;
        step.kv.delete(&keys::shard_room(shard, room))?;
    }
    trim(step, shard, &mut row, &trimmed)?;
    row.positions = append(step, shard, &mut row, grants)?;
    append(step, shard, &mut row, forgotten)?;
    row.number = number;
    step.put(&key, &row)?;
    Ok(Reply::Committed { positions: row.positions, ignored })
}

/// The shard of a fence.
pub(super) fn shard_of(fence: &Fence) -> Result<ShardId, Error> {
    fence.key().as_shard().ok_or_else(|| Error::Invalid(format!("{} is not the key of a shard", fence.key())))
}

fn agreed_shards(step: &Step<'_, '_>, shards: u32) -> Result<(), Error> {
    match step.get::<String>(&keys::agreed(AGREED_SHARDS))? {
        Some(agreed) if agreed == shards.to_string() => Ok(()),
        Some(agreed) => {
            Err(Error::Disagreement { name: AGREED_SHARDS.to_owned(), agreed, proposed: shards.to_string() })
        }
        // Nothing is wrong with the batch: a store that forgot everything is told anew, before anything in it is claimed again.
        None => Err(Error::Unavailable("the number of shards has not been agreed on".to_owned())),
    }
}

fn store(step: &mut Step<'_, '_>, shard: ShardId, new: &Checkpoint) -> Result<(), Error> {
    let room = &new.summary.room;
    let row = keys::shard_room(shard, room);
    if let Some(old) = step.get::<RoomRow>(&row)? {
        let older = new.term < old.term || (new.term == old.term && new.tick < old.tick);
        if older || new.version <= old.version {
            return Err(Error::Conflict(format!(
                "checkpoint of {room} at (term {}, tick {}, version {}) would replace (term {}, tick {}, version {})",
                new.term, new.tick, new.version, old.term, old.tick, old.version
            )));
        }
    }
    step.put(&keys::room(room), new)?;
    let Checkpoint { summary, term, tick, version, body: _ } = new.clone();
    step.put(&row, &RoomRow { summary, term, tick, version })
}

fn trim(step: &mut Step<'_, '_>, shard: ShardId, row: &mut ShardRow, positions: &[u64]) -> Result<(), Error> {
    for position in positions {
        let key = keys::outbox_entry(shard, *position);
        // One that is not there was trimmed before: trimming is idempotent.
        if step.kv.get(&key)?.is_some() {
            step.kv.delete(&key)?;
            row.outbox = row.outbox.saturating_sub(1);
        }
    }
    Ok(())
}

fn append(
    step: &mut Step<'_, '_>,
    shard: ShardId,
    row: &mut ShardRow,
    grants: Vec<(RoomId, Grant)>,
) -> Result<Vec<u64>, Error> {
    let after = row.outbox.saturating_add(grants.len() as u64);
    if after > limits::OUTBOX && !grants.is_empty() {
        let text = format!("the outbox of shard {shard} would hold {after} entries; at most {}", limits::OUTBOX);
        return Err(Error::Full(text));
    }
    row.outbox = after;
    let mut positions = Vec::with_capacity(grants.len());
    for (room, grant) in grants {
        row.last_position += 1;
        let position = row.last_position;
        step.put(&keys::outbox_entry(shard, position), &OutboxEntry { position, room, grant })?;
        positions.push(position);
    }
    Ok(positions)
}
