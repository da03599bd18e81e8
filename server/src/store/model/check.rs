//! Form and size of a batch: what can be judged without looking at the store.

use std::collections::BTreeSet;

use tenure_shared::{PlayerId, RoomId, ShardId};

use super::{
    Rules,
    limits::{self, at_most, text},
};
use crate::store::{Batch, Cap, Checkpoint, Error, Fence, Grant, WorkId, WorkItem};

/// Checks the whole batch for the shard of the fence.
pub(super) fn batch(rules: &Rules, fence: &Fence, shard: ShardId, shards: u32, batch: &Batch) -> Result<(), Error> {
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
    at_most("rooms of a batch", checkpoints.len() + deleted.len(), limits::BATCH_ROOMS, "rooms")?;
    let done = || again.iter().flat_map(|decision| &decision.completed);
    let items = scheduled.len() + completed.len() + advanced.len() + failed.len() + parked.len() + cancelled.len();
    let items = items + done().count();
    at_most("work of a batch", items, limits::BATCH_ITEMS, "items")?;
    let said = || again.iter().flat_map(|decision| &decision.grants);
    at_most("grants of a batch", grants.len() + said().count(), limits::BATCH_GRANTS, "grants")?;
    at_most("trimmed by a batch", trimmed.len(), limits::BATCH_TRIMMED, "positions")?;

    let ids = completed.iter().chain(cancelled).chain(scheduled.iter().map(|item| &item.id));
    let ids = ids.chain(advanced.iter().map(|(id, _)| id));
    let ids = ids.chain(failed.iter().map(|(id, _)| id)).chain(parked.iter().map(|(id, _)| id));
    let ids = ids.chain(done());
    let rooms = checkpoints.iter().map(|checkpoint| &checkpoint.summary.room).chain(deleted);
    let rooms = rooms.chain(ids.clone().map(|id| &id.room)).chain(grants.iter().chain(said()).map(|(room, _)| room));
    for room in rooms {
        let is = room.shard(shards);
        if is != shard {
            return Err(Error::Invalid(format!(
                "room {room} belongs to shard {is}, not to shard {shard} of the fence"
            )));
        }
    }

    let mut seen: BTreeSet<&RoomId> = BTreeSet::new();
    for room in checkpoints.iter().map(|checkpoint| &checkpoint.summary.room).chain(deleted) {
        if !seen.insert(room) {
            return Err(Error::Invalid(format!("room {room} is stored or deleted twice in one batch")));
        }
    }
    let bytes: usize = checkpoints.iter().map(|checkpoint| checkpoint.body.len()).sum();
    if checkpoints.len() > 1 {
        at_most("checkpoints of a commit with several rooms", bytes, limits::COMMIT_BYTES, "bytes")?;
    }
    for one in checkpoints {
        checkpoint(rules, fence, one)?;
    }
    let deleted: BTreeSet<&RoomId> = deleted.iter().collect();
    for id in ids {
        work_id(id)?;
        if deleted.contains(&id.room) {
            return Err(Error::Invalid(format!("work for {} in the batch that deletes it", id.room)));
        }
    }
    for item in scheduled {
        schedule(item)?;
    }
    for (id, payload) in advanced {
        at_most(&format!("payload of {} {}", id.job, id.key), payload.len(), limits::WORK_PAYLOAD_BYTES, "bytes")?;
    }
    once("completed", completed.iter().chain(done()))?;
    once("failed", failed.iter().map(|(id, _)| id))?;
    once("scheduled", scheduled.iter().map(|item| &item.id))?;
    grants.iter().chain(said()).try_for_each(|(_, one)| grant(one))
}

fn once<'a>(what: &str, ids: impl Iterator<Item = &'a WorkId>) -> Result<(), Error> {
    let mut seen = BTreeSet::new();
    for id in ids {
        if !seen.insert(id) {
            return Err(Error::Invalid(format!("{} {} of {} is {what} twice in one batch", id.job, id.key, id.room)));
        }
    }
    Ok(())
}

fn checkpoint(rules: &Rules, fence: &Fence, one: &Checkpoint) -> Result<(), Error> {
    let room = &one.summary.room;
    at_most(&format!("checkpoint of {room}"), one.body.len(), rules.max_checkpoint, "bytes")?;
    at_most(&format!("metadata of {room}"), one.summary.metadata.len(), limits::METADATA, "bytes")?;
    if one.version == 0 {
        return Err(Error::Invalid(format!("checkpoint of {room} has version 0; versions count from 1")));
    }
    if one.term > fence.term() {
        let (is, fence) = (one.term, fence.term());
        return Err(Error::Invalid(format!(
            "checkpoint of {room} was made under term {is}, after the fence's {fence}"
        )));
    }
    Ok(())
}

fn work_id(id: &WorkId) -> Result<(), Error> {
    text("job", &id.job, limits::WORK_NAME_BYTES)?;
    text("key of a work item", &id.key, limits::WORK_NAME_BYTES)
}

fn schedule(item: &WorkItem) -> Result<(), Error> {
    let name = format!("{} {} of {}", item.id.job, item.id.key, item.id.room);
    at_most(&format!("payload of {name}"), item.payload.len(), limits::WORK_PAYLOAD_BYTES, "bytes")?;
    if item.parked.is_some() {
        return Err(Error::Invalid(format!("{name} would be scheduled as parked")));
    }
    if item.due.0 > limits::TERM {
        return Err(Error::Invalid(format!("{name} is due at {} µs; at most {}", item.due.0, limits::TERM)));
    }
    Ok(())
}

/// Form and size of a grant, here and in the ledger.
pub(super) fn grant(grant: &Grant) -> Result<(), Error> {
    let Grant { id, player, source, scheduled_for: _, amounts, cap, token } = grant;
    text("identity of a grant", &id.0, limits::GRANT_ID_BYTES)?;
    text("source of a grant", source, limits::SOURCE_BYTES)?;
    at_most(&format!("token of grant {}", id.0), token.len(), limits::TOKEN_BYTES, "bytes")?;
    currencies(player, amounts.keys().map(AsRef::as_ref))?;
    if let Some(Cap { since: _, limits: caps }) = cap {
        currencies(player, caps.keys().map(AsRef::as_ref))?;
        if let Some((currency, limit)) = caps.iter().find(|(_, limit)| **limit < 0) {
            return Err(Error::Invalid(format!("cap of {limit} {currency}; at least 0")));
        }
    }
    Ok(())
}

fn currencies<'a>(player: &PlayerId, names: impl ExactSizeIterator<Item = &'a str>) -> Result<(), Error> {
    at_most(&format!("grant to {player}"), names.len(), limits::GRANT_CURRENCIES, "currencies")?;
    for name in names {
        text("currency", name, limits::CURRENCY_BYTES)?;
    }
    Ok(())
}
