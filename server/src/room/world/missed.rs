//! What a player was given while he was away: his ledger has it, and he is shown it when he comes back (H8).

use std::collections::{BTreeMap, BTreeSet, HashSet};

use tenure_shared::{
    PlayerId,
    wire::{self, ServerMessage},
};

use super::{MissedGrants, RoomWorld};
use crate::{
    runtime::Wall,
    store::{GrantId, LedgerEntry},
};

/// Most players, and most grants of a generation, that are remembered of each kind below.
const REMEMBERED: usize = 1_000;

/// Who is to be shown something.
#[derive(Default)]
pub(super) struct Missed {
    /// Players who came back and were not shown yet what they had missed, and until when they had been here. A checkpoint says of them that
    /// they were here then: what the room was about to show when it was lost is shown by its next owner.
    open: BTreeMap<PlayerId, Wall>,
    /// Those of them whose ledgers are to be asked for.
    wanted: BTreeSet<PlayerId>,
    /// Grants whose answer came when their player was not here: their ledger may have taken them while he was.
    unshown: Recent,
    /// Grants that were shown: the ledger's line and its answer may both come.
    shown: Recent,
}

/// The newest grants, a thousand at least.
#[derive(Default)]
struct Recent {
    young: HashSet<GrantId>,
    old: HashSet<GrantId>,
}

impl Recent {
    /// Whether it is new.
    fn add(&mut self, id: &GrantId) -> bool {
        let new = !self.has(id);
        if self.young.len() >= REMEMBERED {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(id.clone());
        new
    }

    fn has(&self, id: &GrantId) -> bool {
        self.young.contains(id) || self.old.contains(id)
    }
}

impl Missed {
    /// The player is back; `last`: when he was here before.
    pub(super) fn back(&mut self, player: &PlayerId, last: Wall) {
        if self.open.len() >= REMEMBERED && !self.open.contains_key(player) {
            self.open.pop_first();
        }
        let since = self.open.entry(player.clone()).or_insert(last);
        *since = last.min(*since);
        self.wanted.insert(player.clone());
    }

    /// Until when a player had been here, of one who was not shown yet what he missed.
    pub(super) fn since(&self, player: &PlayerId) -> Option<Wall> {
        self.open.get(player).copied()
    }

    /// An answer of a ledger, and whether its player is here; whether he is to be shown it.
    pub(super) fn answered(&mut self, id: &GrantId, here: bool) -> bool {
        if here {
            return self.shown.add(id);
        }
        self.unshown.add(id);
        false
    }

    /// Whose ledgers are wanted, from when on.
    pub(super) fn take_wanted(&mut self) -> Vec<(PlayerId, Wall)> {
        let wanted = std::mem::take(&mut self.wanted);
        wanted.into_iter().filter_map(|player| Some((player.clone(), self.since(&player)?))).collect()
    }
}

impl RoomWorld {
    /// The newest lines of the ledger of a player who came back: he is shown what this room gave him since he was here.
    pub(super) fn show_missed(&mut self, missed: MissedGrants) {
        let MissedGrants { player, since, mut lines, balances } = missed;
        // Gone again: he is shown it when he is back.
        let Some(seat) = self.seat_of(&player).filter(|id| self.is_linked(*id)) else { return };
        self.missed.open.remove(&player);
        lines.sort_by_key(|line| line.at);
        for line in lines {
            // What was told before the room was lost is known by its checkpoint.
            let told = self.delivered.contains_key(&line.id);
            let news = self.missed.unshown.has(&line.id) || (line.at > since && !told);
            let given = line.given.values().any(|amount| *amount > 0);
            if !(news && given && self.is_own(&line) && self.missed.shown.add(&line.id)) {
                continue;
            }
            let granted = wire::Granted {
                source: line.source.to_string(),
                scheduled_for: line.scheduled_for.map(|at| at.millis()),
                grants: line.given.iter().map(|(currency, amount)| (currency.to_string(), *amount)).collect(),
                balances: balances.clone(),
            };
            self.tell(seat, &ServerMessage::Granted(granted));
        }
    }

    /// Whether this room decided it.
    fn is_own(&self, line: &LedgerEntry) -> bool {
        let room = self.room.as_str();
        let after_source = line.id.0.strip_prefix("schedule/").and_then(|rest| rest.splitn(3, '/').nth(2));
        let place = after_source.unwrap_or(&line.id.0);
        place.strip_prefix(room).is_some_and(|rest| rest.starts_with('/'))
    }
}
