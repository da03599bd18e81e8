//! What a command leaves to be done in rows of the whole cluster: routes, the highest term, and when sessions were changed.
//!
//! Routes and notes are hints, and go forward whatever the order in which they come. A backend with one transaction over all rows
//! carries them out in it ([`super::apply`]); one whose rows lie in several places does the command first and these afterwards, as
//! steps of their own, again and again until they are done.

use tenure_shared::{PlayerId, RoomId, Term};

use super::{AGREED_SHARDS, Kv, Needs, Rules, Scan, Step, carry_out, claims, dispatch, get, keys, limits, sessions};
use crate::{
    runtime::Wall,
    store::{Command, Error, Reply, Route, Stamped},
};

/// What is left to do when a command is carried out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct After {
    /// Routes to publish.
    pub routes: Vec<Route>,
    /// The highest term that was given; 0 if none was.
    pub term: Term,
    /// Sessions that were changed.
    pub sessions: Vec<SessionNote>,
}

/// When a session was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionNote {
    /// Whose session.
    pub player: PlayerId,
    /// In which room.
    pub room: RoomId,
    /// When it was changed before.
    pub before: Option<Wall>,
    /// When it was changed now; `None`: it is deleted.
    pub now: Option<Wall>,
}

/// Does all that the command left to do, in its own transaction.
pub(super) fn all(step: &mut Step<'_, '_>) -> Result<(), Error> {
    let After { routes, term, sessions } = std::mem::take(&mut step.after);
    for route in &routes {
        claims::publish(step, route)?;
    }
    if term > Term(0) {
        claims::highest(step, term)?;
    }
    for note in &sessions {
        sessions::note(step, note)?;
    }
    if sessions.iter().any(|note| note.now.is_some()) {
        for (player, room, key) in sessions::lapsed(step)? {
            sessions::forget(step, &player, &room)?;
            step.kv.delete(&key)?;
        }
    }
    Ok(())
}

/// [`super::apply`] without what is left to do, which comes back.
pub(in crate::store) fn apply_apart(kv: &mut dyn Kv, rules: &Rules, now: Wall, command: Command) -> (Stamped, After) {
    carry_out(kv, rules, now, |step| dispatch(step, command))
}

/// The steps of a backend that does these things apart.
pub(in crate::store) mod apart {
    use super::*;

    /// Publishes routes.
    pub(in crate::store) fn routes(kv: &mut dyn Kv, rules: &Rules, now: Wall, routes: &[Route]) -> Stamped {
        let publish = |step: &mut Step<'_, '_>| {
            routes.iter().try_for_each(|route| claims::publish(step, route)).map(|()| Reply::Done)
        };
        carry_out(kv, rules, now, publish).0
    }

    /// What [`routes`] reads in any case.
    pub(in crate::store) fn routes_needs(routes: &[Route]) -> Needs {
        let counter = keys::ROUTES.to_vec();
        let keys = routes.iter().map(|route| keys::route(&route.key)).chain([counter]).collect();
        Needs { keys, scans: Vec::new() }
    }

    /// Notes sessions and drops the notes of those forgotten.
    pub(in crate::store) fn notes(
        kv: &mut dyn Kv,
        rules: &Rules,
        now: Wall,
        notes: &[SessionNote],
        forgotten: &[Vec<u8>],
    ) -> Stamped {
        let write = |step: &mut Step<'_, '_>| {
            notes.iter().try_for_each(|note| sessions::note(step, note))?;
            forgotten.iter().try_for_each(|key| step.kv.delete(key)).map(|()| Reply::Done)
        };
        carry_out(kv, rules, now, write).0
    }

    /// Sessions that nobody changed for too long, with their notes.
    pub(in crate::store) fn lapsed(
        kv: &mut dyn Kv,
        rules: &Rules,
        now: Wall,
    ) -> Result<Vec<(PlayerId, RoomId, Vec<u8>)>, Error> {
        let mut found = Vec::new();
        let look = |step: &mut Step<'_, '_>| {
            found = sessions::lapsed(step)?;
            Ok(Reply::Done)
        };
        carry_out(kv, rules, now, look).0.reply.map(|_| found)
    }

    /// What [`lapsed`] reads.
    pub(in crate::store) fn lapsed_needs() -> Needs {
        Needs { keys: Vec::new(), scans: vec![Scan::first(keys::SESSION_TIMES.to_vec(), limits::TRIM)] }
    }

    /// Forgets a session that nobody changed for too long.
    pub(in crate::store) fn forget(
        kv: &mut dyn Kv,
        rules: &Rules,
        now: Wall,
        player: &PlayerId,
        room: &RoomId,
    ) -> Stamped {
        carry_out(kv, rules, now, |step| sessions::forget(step, player, room).map(|()| Reply::Done)).0
    }

    /// What [`forget`] reads.
    pub(in crate::store) fn forget_needs(player: &PlayerId, room: &RoomId) -> Needs {
        Needs { keys: vec![keys::session(player, room)], scans: Vec::new() }
    }

    /// The row in which the number of shards is agreed on.
    pub(in crate::store) fn shards_row() -> Vec<u8> {
        keys::agreed(AGREED_SHARDS)
    }

    /// The agreed number of shards.
    pub(in crate::store) fn shards(kv: &dyn Kv) -> Result<Option<u32>, Error> {
        let agreed: Option<String> = get(kv, &shards_row())?;
        let odd = |_| Error::Broken("the agreed number of shards is no number".to_owned());
        agreed.map(|agreed| agreed.parse().map_err(odd)).transpose()
    }

    /// Checks the format of a store, or sets it on a new one.
    pub(in crate::store) fn format(kv: &mut dyn Kv, rules: &Rules, now: Wall) -> Stamped {
        carry_out(kv, rules, now, |step| super::super::check_format(step.kv).map(|()| Reply::Done)).0
    }

    /// What [`format`] reads.
    pub(in crate::store) fn format_needs() -> Needs {
        Needs { keys: vec![keys::FORMAT.to_vec()], scans: Vec::new() }
    }
}
