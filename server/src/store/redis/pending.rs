//! What commands left to be done in rows of the whole cluster, until it is done: each thing once, at its latest.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tenure_shared::{PlayerId, RoomId, Term};

use crate::store::{
    Key, Route,
    model::{After, SessionNote},
};

/// Most routes that wait: as many as there can be shards. Above it the oldest claim's route is left to the next change of that claim.
const ROUTES: usize = 65_536;
/// Most session notes that wait.
const NOTES: usize = 16_384;
/// Routes published, and notes written, in one step.
pub(super) const STEP: usize = 256;

#[derive(Debug, Default)]
struct Waiting {
    routes: BTreeMap<Key, Route>,
    notes: BTreeMap<(PlayerId, RoomId), SessionNote>,
    term: Term,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Pending(Mutex<Waiting>);

impl Pending {
    /// Takes what a command left.
    pub(super) fn add(&self, after: After) {
        let After { routes, term, sessions } = after;
        let mut waiting = self.0.lock();
        waiting.term = waiting.term.max(term);
        for route in routes {
            waiting.routes.insert(route.key.clone(), route);
        }
        for note in sessions {
            let key = (note.player.clone(), note.room.clone());
            // Two changes of one session: what the first one would have taken away is taken away still.
            let before = waiting.notes.get(&key).map_or(note.before, |first| first.before);
            waiting.notes.insert(key, SessionNote { before, ..note });
        }
        let lost = waiting.routes.len().saturating_sub(ROUTES) + waiting.notes.len().saturating_sub(NOTES);
        while waiting.routes.len() > ROUTES {
            waiting.routes.pop_first();
        }
        while waiting.notes.len() > NOTES {
            waiting.notes.pop_first();
        }
        if lost > 0 {
            metrics::counter!("tenure_mailbox_full_total", "mailbox" => "store-after").increment(lost as u64);
        }
    }

    /// The highest term that was given to this process: its next heartbeat spreads it.
    pub(super) fn term(&self) -> Term {
        self.0.lock().term
    }

    /// Whether routes wait.
    pub(super) fn has_routes(&self) -> bool {
        !self.0.lock().routes.is_empty()
    }

    /// Some of the routes that wait.
    pub(super) fn routes(&self) -> Vec<Route> {
        self.0.lock().routes.values().take(STEP).cloned().collect()
    }

    /// These are published, unless one changed meanwhile.
    pub(super) fn published(&self, routes: &[Route]) {
        let mut waiting = self.0.lock();
        for route in routes {
            if waiting.routes.get(&route.key) == Some(route) {
                waiting.routes.remove(&route.key);
            }
        }
    }

    /// Some of the notes that wait.
    pub(super) fn notes(&self) -> Vec<SessionNote> {
        self.0.lock().notes.values().take(STEP).cloned().collect()
    }

    /// These are written, unless one changed meanwhile.
    pub(super) fn noted(&self, notes: &[SessionNote]) {
        let mut waiting = self.0.lock();
        for note in notes {
            let key = (note.player.clone(), note.room.clone());
            match waiting.notes.get_mut(&key) {
                Some(newer) if newer == note => {
                    waiting.notes.remove(&key);
                }
                Some(newer) => newer.before = note.now,
                None => {}
            }
        }
    }
}
