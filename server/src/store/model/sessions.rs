//! Session records: how a seat is resumed. Compare-and-set by version; forgotten when nobody changed them for as long as identities are kept.

use tenure_shared::{PlayerId, RoomId};

use super::{
    SessionNote, Step, keys, limits,
    rows::{SessionRow, decode},
};
use crate::store::{Error, Reply, Session, model::Kv as _};

pub(super) fn get(step: &Step<'_, '_>, player: &PlayerId, room: &RoomId) -> Result<Reply, Error> {
    let row = step.get::<SessionRow>(&keys::session(player, room))?;
    Ok(Reply::Session(row.map(|row| row.session)))
}

pub(super) fn put(
    step: &mut Step<'_, '_>,
    player: &PlayerId,
    room: &RoomId,
    seen: u64,
    session: Option<Session>,
) -> Result<Reply, Error> {
    let key = keys::session(player, room);
    let old = step.get::<SessionRow>(&key)?;
    let stored = old.as_ref().map_or(0, |row| row.session.version);
    let Some(session) = session else {
        if stored != seen && stored != 0 {
            return Err(conflict(player, room, seen, stored));
        }
        return old.map_or(Ok(()), |row| remove(step, &row)).map(|()| Reply::Done);
    };
    check(player, room, seen, &session)?;
    if old.as_ref().is_some_and(|row| row.session == session) {
        return Ok(Reply::Done);
    }
    if stored != seen {
        return Err(conflict(player, room, seen, stored));
    }
    let before = old.map(|row| row.at);
    if before.is_none() {
        make_room(step, player)?;
    }
    let row = SessionRow { session, at: step.now };
    step.after.sessions.push(SessionNote { player: player.clone(), room: room.clone(), before, now: Some(row.at) });
    step.put(&key, &row)?;
    Ok(Reply::Done)
}

fn conflict(player: &PlayerId, room: &RoomId, seen: u64, stored: u64) -> Error {
    Error::Conflict(format!("session of {player} in {room} has version {stored}, not {seen}"))
}

fn check(player: &PlayerId, room: &RoomId, seen: u64, session: &Session) -> Result<(), Error> {
    if session.player != *player || session.room != *room {
        let (is_player, is_room) = (&session.player, &session.room);
        return Err(Error::Invalid(format!("session of {is_player} in {is_room} stored as {player} in {room}")));
    }
    if session.version <= seen {
        return Err(Error::Invalid(format!("session version {}; must be above {seen}", session.version)));
    }
    limits::at_most("join options of a session", session.options.len(), limits::OPTIONS, "bytes")?;
    for token in std::iter::once(&session.current).chain(&session.next) {
        limits::at_most("session token", token.len(), limits::SESSION_TOKEN_BYTES, "bytes")?;
    }
    Ok(())
}

fn remove(step: &mut Step<'_, '_>, row: &SessionRow) -> Result<(), Error> {
    let Session { player, room, .. } = &row.session;
    let note = SessionNote { player: player.clone(), room: room.clone(), before: Some(row.at), now: None };
    step.after.sessions.push(note);
    step.kv.delete(&keys::session(player, room))
}

/// Before a new session: a player that has as many as are kept loses the one changed longest ago.
fn make_room(step: &mut Step<'_, '_>, player: &PlayerId) -> Result<(), Error> {
    let rows: Vec<SessionRow> = step.list(&keys::sessions(player), None, limits::PLAYER_SESSIONS + 1)?;
    if rows.len() < limits::PLAYER_SESSIONS {
        return Ok(());
    }
    rows.iter().min_by_key(|row| row.at).map_or(Ok(()), |row| remove(step, row))
}

/// Notes when a session was changed, so that it is found when nobody changes it for too long.
pub(super) fn note(step: &mut Step<'_, '_>, note: &SessionNote) -> Result<(), Error> {
    let SessionNote { player, room, before, now } = note;
    if let Some(before) = before.filter(|_| before != now) {
        step.kv.delete(&keys::session_time(before, player, room))?;
    }
    now.map_or(Ok(()), |now| step.put(&keys::session_time(now, player, room), &(player, room)))
}

/// Sessions that were noted too long ago, a few at a time, with their notes.
pub(super) fn lapsed(step: &Step<'_, '_>) -> Result<Vec<(PlayerId, RoomId, Vec<u8>)>, Error> {
    let horizon = keys::number(step.horizon().0);
    let mut lapsed = Vec::new();
    for (key, value) in step.kv.scan(keys::SESSION_TIMES, None, limits::TRIM)? {
        if key[keys::SESSION_TIMES.len()..] >= *horizon.as_bytes() {
            break;
        }
        let (player, room): (PlayerId, RoomId) = decode(&key, &value)?;
        lapsed.push((player, room, key));
    }
    Ok(lapsed)
}

/// Forgets a session if nobody changed it for too long; a late note must not take a younger one.
pub(super) fn forget(step: &mut Step<'_, '_>, player: &PlayerId, room: &RoomId) -> Result<(), Error> {
    let key = keys::session(player, room);
    let horizon = step.horizon();
    let lapsed = step.get::<SessionRow>(&key)?.is_some_and(|row| row.at < horizon);
    if lapsed { step.kv.delete(&key) } else { Ok(()) }
}
