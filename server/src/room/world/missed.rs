//! What a player was given and has not been shown: given while he was away, or told to a socket that was lost. His ledger has it, and he is
//! shown it when he comes back (H8).

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    time::Duration,
};

use tenure_shared::{
    PlayerId, SeatId, Term, Tick,
    wire::{self, ServerMessage},
};
use xxhash_rust::xxh3::xxh3_64;

use super::{MissedGrants, RoomWorld, checkpoint::More};
use crate::{
    link::Attach,
    runtime::Wall,
    store::{Grant, GrantId, LedgerEntry},
};

/// Most players who wait for an answer of their ledger, and most grants that are remembered of each kind below; the oldest make room.
const REMEMBERED: usize = 256;
/// What was told to a socket that is lost may not have come through it, for so long: a gateway holds a new seat's frames until the store has
/// its session, which takes two seconds at most, and gives the seat up without them if it has not.
const UNSURE: Duration = Duration::from_secs(5);
/// A room's clock is an estimate of the store's, by which ledgers count.
const CLOCKS_DIFFER: Duration = Duration::from_secs(1);

/// The seat that was told something, and the frame that it went out with.
pub(super) type Place = (SeatId, Term, Tick);

/// Who is to be shown something.
#[derive(Default)]
pub(super) struct Missed {
    /// Players who came back and were not shown yet what they had missed, and until when they had been here. A checkpoint says of them that
    /// they were here then: what the room was about to show when it was lost is shown by its next owner.
    open: BTreeMap<PlayerId, Wall>,
    /// Those of them whose ledgers are to be asked for.
    wanted: BTreeSet<PlayerId>,
    /// Grants to be shown whatever the time at which a ledger took them: it may have done so while the player was here, and the answer found
    /// him gone; or they were told to a socket that may not have passed them on.
    unshown: Newest<Option<Place>>,
    /// Grants that were shown: the ledger's line and its answer may both come.
    shown: Newest<Place>,
}

/// The newest grants, by a hash of their identities: all of them go into checkpoints.
#[derive(Debug)]
struct Newest<T> {
    of: HashMap<u64, T>,
    order: VecDeque<u64>,
}

impl<T> Default for Newest<T> {
    fn default() -> Self {
        Self { of: HashMap::new(), order: VecDeque::new() }
    }
}

impl<T: Copy> Newest<T> {
    fn add(&mut self, id: u64, what: T) {
        if self.of.insert(id, what).is_some() {
            return;
        }
        self.order.push_back(id);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.of.remove(&oldest);
        }
    }

    fn remove(&mut self, id: u64) {
        if self.of.remove(&id).is_some() {
            self.order.retain(|other| *other != id);
        }
    }

    fn has(&self, id: u64) -> bool {
        self.of.contains_key(&id)
    }

    /// Oldest first.
    fn all(&self) -> impl Iterator<Item = (u64, T)> {
        self.order.iter().filter_map(|id| Some((*id, *self.of.get(id)?)))
    }
}

fn hash(id: &GrantId) -> u64 {
    xxh3_64(id.0.as_bytes())
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

    /// An answer of a ledger comes to a player who is here; whether he is to be shown it.
    fn answered(&mut self, id: &GrantId, place: Place) -> bool {
        let id = hash(id);
        let news = !self.shown.has(id);
        if news {
            self.shown.add(id, place);
            self.unshown.remove(id);
        }
        news
    }

    /// Whether something was shown in this tick.
    pub(super) fn has_shown(&self, tick: Tick) -> bool {
        self.shown.order.back().and_then(|id| self.shown.of.get(id)).is_some_and(|place| place.2 == tick)
    }

    /// Whose ledgers are wanted, from when on.
    pub(super) fn take_wanted(&mut self) -> Vec<(PlayerId, Wall)> {
        let wanted = std::mem::take(&mut self.wanted);
        wanted.into_iter().filter_map(|player| Some((player.clone(), self.since(&player)?))).collect()
    }

    /// The seat has a socket again. `upto`: the newest frame that its player was shown for certain, if anybody knows; else what it was told
    /// before `sure` came through.
    fn seat_is_back(&mut self, seat: SeatId, upto: Option<(Term, Tick)>, sure: Tick) {
        let came = |place: Place| upto.map_or(place.2 < sure, |upto| (place.1, place.2) <= upto);
        let lost: Vec<_> = self.shown.all().filter(|(_, place)| place.0 == seat && !came(*place)).collect();
        for (id, place) in lost {
            self.shown.remove(id);
            self.unshown.add(id, Some(place));
        }
    }

    /// What is stored: of what was shown only that of which it is not sure that it came through.
    pub(super) fn stored(&self, sure: Tick) -> More {
        let shown = self.shown.all().filter(|(_, place)| place.2 >= sure);
        More { unshown: self.unshown.all().collect(), shown: shown.collect(), ..More::default() }
    }

    pub(super) fn restore(&mut self, more: More) {
        more.unshown.into_iter().for_each(|(id, place)| self.unshown.add(id, place));
        more.shown.into_iter().for_each(|(id, place)| self.shown.add(id, place));
    }
}

impl RoomWorld {
    /// What was told before this tick came through, if its socket lived until now.
    pub(super) fn sure(&self) -> Tick {
        let ticks = UNSURE.as_nanos() / u128::from(self.dt.max(1));
        Tick(self.tick.0.saturating_sub(u64::try_from(ticks).unwrap_or(u64::MAX)))
    }

    /// A ledger's answer: whether the player is to be shown it now, on this seat.
    pub(super) fn answered(&mut self, grant: &Grant, linked: Option<SeatId>) -> bool {
        if let Some(seat) = linked {
            return self.missed.answered(&grant.id, (seat, self.term, self.tick));
        }
        // Of one that was due after he had gone, the ledger's time says enough.
        let here = |last: Wall| grant.scheduled_for.is_none_or(|due| due <= last.plus(CLOCKS_DIFFER));
        if self.known.last(&grant.player).is_some_and(here) {
            self.missed.unshown.add(hash(&grant.id), None);
        }
        false
    }

    /// A seat without a socket is taken again, or for the first time: its player is shown what he missed.
    pub(super) fn seat_is_back(&mut self, id: SeatId, attach: &Attach) {
        // Whoever begins anew says nothing of what he was shown.
        let upto = (attach.rejoin || attach.seat.is_some()).then_some(attach.shown);
        let sure = self.sure();
        self.missed.seat_is_back(id, upto, sure);
        if let Some(last) = self.known.last(&attach.player) {
            self.missed.back(&attach.player, last);
        }
    }

    /// The newest lines of the ledger of a player who came back: he is shown what this room gave him since he was here.
    pub(super) fn show_missed(&mut self, missed: MissedGrants) {
        let MissedGrants { player, since, mut lines, balances } = missed;
        // Gone again: he is shown it when he is back.
        let Some(seat) = self.seat_of(&player).filter(|id| self.is_linked(*id)) else { return };
        self.missed.open.remove(&player);
        lines.sort_by_key(|line| line.at);
        let place = (seat, self.term, self.tick);
        for line in lines {
            let id = hash(&line.id);
            // What was told before the room was lost is known by its checkpoint.
            let told = self.delivered.contains_key(&line.id);
            let news = self.missed.unshown.has(id) || (line.at > since && !told);
            let given = line.given.values().any(|amount| *amount > 0);
            self.missed.unshown.remove(id);
            if !(news && given && self.is_own(&line)) || self.missed.shown.has(id) {
                continue;
            }
            self.missed.shown.add(id, place);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(n: u64) -> GrantId {
        GrantId(format!("schedule/gift/{n}/lab/eu/a/ann").into())
    }

    #[test]
    fn what_a_lost_socket_did_not_pass_on_is_not_shown() {
        let mut missed = Missed::default();
        let place = |tick| (SeatId(7), Term(3), Tick(tick));
        for n in 1..=4 {
            assert!(missed.answered(&grant(n), place(n * 100)));
            assert!(!missed.answered(&grant(n), place(n * 100 + 1)), "told once");
        }
        assert!(missed.answered(&grant(5), (SeatId(8), Term(3), Tick(500))));
        let unshown = |missed: &Missed| (1..=5).filter(|n| missed.unshown.has(hash(&grant(*n)))).collect::<Vec<_>>();
        // Its gateway has passed on the frame of tick 300 of that term, as the room's next owner hears.
        missed.seat_is_back(SeatId(7), Some((Term(3), Tick(300))), Tick(0));
        assert_eq!(unshown(&missed), [4]);
        // A frame of a later term: all that came before it.
        let mut stored = Missed::default();
        stored.restore(missed.stored(Tick(200)));
        assert_eq!((unshown(&stored), stored.shown.of.len()), (vec![4], 3));
        stored.seat_is_back(SeatId(7), Some((Term(4), Tick(1))), Tick(0));
        assert_eq!(unshown(&stored), [4]);
        // Nobody knows: what is old enough came through.
        stored.seat_is_back(SeatId(7), None, Tick(250));
        assert_eq!(unshown(&stored), [3, 4]);
        assert!(stored.answered(&grant(4), place(600)), "now it is shown");
        assert_eq!(unshown(&stored), [3]);
    }

    #[test]
    fn the_newest_are_remembered() {
        let mut newest = Newest::default();
        (0..1_000).for_each(|n| newest.add(n, ()));
        (0..900).for_each(|n| newest.remove(n));
        assert_eq!(newest.all().map(|(n, ())| n).collect::<Vec<_>>(), (900..1_000).collect::<Vec<_>>());
        (1_000..3_000).for_each(|n| newest.add(n, ()));
        assert_eq!((newest.order.len(), newest.of.len()), (REMEMBERED, REMEMBERED));
    }
}
