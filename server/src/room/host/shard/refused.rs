//! Grants that a ledger refused: kept as parked work, for a person to look at, also when their room is gone. Made due again (`work retry`)
//! such an item puts its grant into the outbox once more: the shard does that by itself, without the room.

use tenure_shared::RoomId;

use super::pending::Request;
use crate::{
    runtime::Wall,
    store::{Error, Grant, REFUSED_GRANT, WorkId, WorkItem},
};

/// The job of such items; the key is the position that the grant had in the outbox, which is never used again.
pub(in crate::room::host) const JOB: &str = REFUSED_GRANT;

/// Keeps a grant with the reason: scheduled and parked in one step, which may be repeated.
pub(super) fn request(room: &RoomId, position: u64, grant: &Grant, error: &Error) -> Result<Request, String> {
    let payload = rmp_serde::to_vec(grant).map_err(|e| e.to_string())?;
    let id = WorkId { room: room.clone(), job: JOB.into(), key: position.to_string().into() };
    let item = WorkItem { id: id.clone(), due: Wall(0), attempt: 0, parked: None, payload: payload.into() };
    Ok(Request { scheduled: vec![item], parked: vec![(id, error.to_string())], ..Request::default() })
}

/// The outbox positions whose grants such a request keeps.
pub(super) fn positions(request: &Request) -> impl Iterator<Item = u64> {
    request.scheduled.iter().filter(|item| &*item.id.job == JOB).filter_map(|item| item.id.key.parse().ok())
}

/// What becomes of an item that was made due again: its grant is in the outbox and the item done, in one step (H6).
pub(super) fn again(item: &WorkItem) -> Request {
    let id = item.id.clone();
    match grant(item) {
        Ok(grant) => Request { completed: vec![id], grants: vec![grant], ..Request::default() },
        Err(reason) => Request { parked: vec![(id, reason)], ..Request::default() },
    }
}

fn grant(item: &WorkItem) -> Result<Grant, String> {
    rmp_serde::from_slice(&item.payload).map_err(|e| format!("its grant cannot be read: {e}"))
}
