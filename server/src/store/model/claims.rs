//! Claims: who owns a key for which term, how it changes hands, and the routes and history written along with it.

use bytes::Bytes;
use tenure_shared::{IncarnationId, RoomId, Term};

use super::{
    Step, commit, keys, limits, members,
    rows::{ClaimRow, RoomRow, list as rows_list},
};
use crate::store::{Claim, Error, Fence, HistoryEntry, Key, KeyState, Reply, Route, model::Kv as _};

/// Refuses a fence that is not the claim's (H1, H3).
pub(super) fn fenced(step: &Step<'_, '_>, fence: &Fence) -> Result<ClaimRow, Error> {
    let row = step.get::<ClaimRow>(&keys::claim(fence.key()))?;
    match row {
        Some(row) if row.claim.holder.as_ref() == Some(fence.incarnation()) && row.claim.term == fence.term() => {
            Ok(row)
        }
        row => Err(Error::Fenced { key: fence.key().clone(), holder: holder(row.as_ref()), term: term(row.as_ref()) }),
    }
}

fn holder(row: Option<&ClaimRow>) -> String {
    row.and_then(|row| row.claim.holder.as_ref()).map_or_else(|| "nobody".to_owned(), ToString::to_string)
}

fn term(row: Option<&ClaimRow>) -> Term {
    row.map_or(Term(0), |row| row.claim.term)
}

/// `max(previous + 1, floor + 1, store time)`: grows whatever the clock or a forgetful store does (H2, C27).
fn next_term(step: &Step<'_, '_>, previous: Term, floor: Term) -> Result<Term, Error> {
    if floor.0 >= limits::TERM {
        return Err(Error::Invalid(format!("floor {floor}; at most {}", limits::TERM - 1)));
    }
    let next = previous.0.saturating_add(1).max(floor.0 + 1).max(step.now.0);
    if next > limits::TERM {
        return Err(Error::Broken(format!("terms are used up: {previous} was the last")));
    }
    Ok(Term(next))
}

/// Writes a claim with its history line; its route and its term are published afterwards ([`super::After`]).
fn write(
    step: &mut Step<'_, '_>,
    before: Option<ClaimRow>,
    claim: Claim,
    released_by: Option<IncarnationId>,
    cause: &str,
) -> Result<(), Error> {
    let line = before.as_ref().map_or(1, |row| row.next_line);
    let from = before.and_then(|row| row.claim.holder);
    let entry =
        HistoryEntry { term: claim.term, owner: claim.holder.clone(), from, cause: cause.to_owned(), at: step.now };
    step.put(&keys::history_line(&claim.key, line), &entry)?;
    if line > limits::HISTORY {
        step.kv.delete(&keys::history_line(&claim.key, line - limits::HISTORY))?;
    }
    step.after.routes.push(Route { key: claim.key.clone(), owner: claim.holder.clone(), term: claim.term });
    step.after.term = step.after.term.max(claim.term);
    step.put(&keys::claim(&claim.key.clone()), &ClaimRow { claim, released_by, next_line: line + 1 })
}

/// Publishes a route; one that is older than what is published is left out, so that steps may come late or twice.
pub(super) fn publish(step: &mut Step<'_, '_>, route: &Route) -> Result<(), Error> {
    let counter = step.get::<u64>(keys::ROUTES)?.unwrap_or_default() + 1;
    let key = keys::route(&route.key);
    // A key stands once in the log, at its last change: so the log is as long as there are keys.
    if let Some(former) = step.get::<u64>(&key)? {
        let log = keys::route_log(former);
        let newest = |route: &Route| (route.term, route.owner.is_none());
        if step.get::<(u64, Route)>(&log)?.is_some_and(|(_, known)| newest(&known) >= newest(route)) {
            return Ok(());
        }
        step.kv.delete(&log)?;
    }
    step.put(&key, &counter)?;
    step.put(&keys::route_log(counter), &(counter, route))?;
    step.put(keys::ROUTES, &counter)
}

/// Publishes the route of a claim again: a store that failed over may have the claim and not its route.
pub(super) fn publish_again(step: &mut Step<'_, '_>, fence: &Fence) -> Result<Reply, Error> {
    let Claim { key, holder, term, .. } = fenced(step, fence)?.claim;
    step.after.routes.push(Route { key, owner: holder, term });
    Ok(Reply::Done)
}

/// Notes the highest term.
pub(super) fn highest(step: &mut Step<'_, '_>, term: Term) -> Result<(), Error> {
    if step.get::<Term>(keys::TERM)?.unwrap_or_default() < term { step.put(keys::TERM, &term) } else { Ok(()) }
}

pub(super) fn acquire(
    step: &mut Step<'_, '_>,
    key: Key,
    caller: IncarnationId,
    seen: Option<&(Option<IncarnationId>, Term)>,
    floor: Term,
) -> Result<Reply, Error> {
    limits::text("claim key", key.as_str(), limits::KEY_BYTES)?;
    members::live(step, &caller)?;
    let row = step.get::<ClaimRow>(&keys::claim(&key))?;
    let is = row.as_ref().map(|row| (row.claim.holder.clone(), row.claim.term));
    let cause = match row.as_ref().and_then(|row| row.claim.holder.as_ref()) {
        None => Some("acquire"),
        // The caller's own: the answer to an earlier call was lost, or it passed its margin (F5).
        Some(holder) if *holder == caller => Some("reacquire"),
        // No record is a tombstone too (F6).
        Some(holder) if members::find(step, holder)?.is_none() => Some("takeover"),
        Some(_) => None,
    };
    let (true, Some(cause)) = (is.as_ref() == seen, cause) else {
        return Err(Error::Held { key, holder: holder(row.as_ref()), term: term(row.as_ref()) });
    };
    let term = next_term(step, term(row.as_ref()), floor)?;
    write(step, row, Claim { key, holder: Some(caller), term, package: None }, None, cause)?;
    Ok(Reply::Granted(term))
}

pub(super) fn transfer(
    step: &mut Step<'_, '_>,
    fence: &Fence,
    to: IncarnationId,
    package: u64,
    manifest: &[(RoomId, u64)],
    floor: Term,
) -> Result<Reply, Error> {
    let row = fenced(step, fence)?;
    limits::at_most("manifest of a transfer", manifest.len(), limits::BATCH_ROOMS, "rooms")?;
    if to == *fence.incarnation() {
        return Err(Error::Invalid(format!("{} would be transferred to its own holder", fence.key())));
    }
    members::live(step, &to)?;
    for (room, version) in manifest {
        let shard = commit::shard_of(fence)?;
        let stored = step.get::<RoomRow>(&keys::shard_room(shard, room))?.map(|row| row.version);
        if stored != Some(*version) {
            let stored = stored.map_or_else(|| "none".to_owned(), |version| format!("version {version}"));
            return Err(Error::Conflict(format!("the manifest names version {version} of {room}; stored is {stored}")));
        }
    }
    let term = next_term(step, row.claim.term, floor)?;
    let claim = Claim { key: fence.key().clone(), holder: Some(to), term, package: Some(package) };
    write(step, Some(row), claim, None, "transfer")?;
    Ok(Reply::Granted(term))
}

pub(super) fn release(step: &mut Step<'_, '_>, fence: &Fence) -> Result<Reply, Error> {
    let stored = step.get::<ClaimRow>(&keys::claim(fence.key()))?;
    // A repeat of the release that was carried out.
    if stored.is_some_and(|row| {
        row.claim.holder.is_none()
            && row.claim.term == fence.term()
            && row.released_by.as_ref() == Some(fence.incarnation())
    }) {
        return Ok(Reply::Done);
    }
    let row = fenced(step, fence)?;
    let claim = Claim { holder: None, package: None, ..row.claim.clone() };
    write(step, Some(row), claim, Some(fence.incarnation().clone()), "release")?;
    Ok(Reply::Done)
}

/// Stores the small state of a claim: compare-and-set by version, so that of two writes of one owner the later one stays (F4).
pub(super) fn put_state(step: &mut Step<'_, '_>, fence: &Fence, seen: u64, body: Bytes) -> Result<Reply, Error> {
    fenced(step, fence)?;
    limits::at_most(&format!("state of {}", fence.key()), body.len(), limits::STATE_BYTES, "bytes")?;
    let key = keys::state(fence.key());
    let stored = step.get::<KeyState>(&key)?;
    let version = stored.as_ref().map_or(0, |state| state.version);
    if stored.is_some_and(|state| seen.checked_add(1) == Some(state.version) && state.body == body) {
        return Ok(Reply::Done);
    }
    if version != seen {
        return Err(Error::Conflict(format!("the state of {} has version {version}, not {seen}", fence.key())));
    }
    step.put(&key, &KeyState { version: version + 1, body })?;
    Ok(Reply::Done)
}

pub(super) fn claim(step: &Step<'_, '_>, key: &Key) -> Result<Reply, Error> {
    Ok(Reply::Claim(step.get::<ClaimRow>(&keys::claim(key))?.map(|row| row.claim)))
}

pub(super) fn list(step: &Step<'_, '_>, wanted: &[Key]) -> Result<Reply, Error> {
    limits::at_most("claims asked for", wanted.len(), limits::LISTING, "keys")?;
    let mut claims = Vec::with_capacity(wanted.len());
    for key in wanted {
        claims.extend(step.get::<ClaimRow>(&keys::claim(key))?.map(|row| row.claim));
    }
    Ok(Reply::Claims(claims))
}

pub(super) fn routes(step: &Step<'_, '_>, since: u64) -> Result<Reply, Error> {
    let after = keys::route_log(since);
    let rows: Vec<(u64, Route)> = step.list(keys::ROUTE_LOG, Some(&after), limits::LISTING)?;
    let counter = match rows.last() {
        // A full page: the caller asks on from its last change.
        Some((counter, _)) if rows.len() == limits::LISTING => *counter,
        _ => step.get::<u64>(keys::ROUTES)?.unwrap_or_default(),
    };
    Ok(Reply::Routes { counter, changed: rows.into_iter().map(|(_, route)| route).collect() })
}

pub(super) fn history(step: &Step<'_, '_>, key: &Key) -> Result<Reply, Error> {
    Ok(Reply::History(rows_list(step.kv, &keys::history(key), None, limits::LISTING)?))
}
