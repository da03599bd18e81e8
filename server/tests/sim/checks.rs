//! One checker per invariant, fed by the store, the rooms and the bots.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
};

use tenure::{
    runtime::Mono,
    store::{Batch, Fence, Key},
};
use tenure_shared::{IncarnationId, RoomId, ShardId, Term, Tick};

use crate::{cluster::SHARDS, verdict::SERVED};

#[derive(Default)]
struct Seen {
    wrong: Vec<String>,
    /// Highest term granted and highest term that a commit carried, by key.
    granted: BTreeMap<String, Term>,
    committed: BTreeMap<String, Term>,
    /// Grants that some room knows to be given.
    rewarded: BTreeSet<String>,
    shown: BTreeMap<String, (Term, Tick)>,
    /// Who ticked under a term of a shard, and how far a room is.
    ticked: BTreeMap<(ShardId, Term), (usize, u64)>,
    at: BTreeMap<RoomId, (Term, Tick)>,
    /// Shards that were given with a package, before they tick.
    handed: BTreeMap<ShardId, Handed>,
    prepared: u64,
    anew: u64,
    /// What counters under a fence stored last, by key.
    counted: BTreeMap<String, u64>,
    /// The store forgot something; what it said before need not hold any more until then.
    forgiven: Option<Mono>,
}

struct Handed {
    node: usize,
    term: Term,
    /// The claim was asked for anew.
    anew: bool,
}

/// The index of a node, in the name of its incarnation.
pub fn node_of(incarnation: &IncarnationId) -> Option<usize> {
    incarnation.as_str().strip_prefix('n')?.split('#').next()?.parse().ok()
}

#[derive(Default)]
pub struct Checks(Mutex<Seen>);

impl Checks {
    pub fn wrong(&self, what: String) {
        let mut seen = self.0.lock().expect("checks");
        if seen.wrong.len() < 20 {
            seen.wrong.push(what);
        }
    }

    pub fn end(&self) -> Vec<String> {
        self.0.lock().expect("checks").wrong.clone()
    }

    /// Another server is the store now, and does not know all that the former one had said. Owners see that within the time in which a shard
    /// must have one.
    pub fn forgot(&self, at: Mono) {
        let mut seen = self.0.lock().expect("checks");
        seen.forgiven = Some(at.plus(SERVED));
        seen.committed.clear();
        seen.handed.clear();
    }

    /// Whether the store ever forgot something.
    pub fn has_forgotten(&self) -> bool {
        self.0.lock().expect("checks").forgiven.is_some()
    }

    /// Whether owners may not know yet what the store forgot.
    pub fn forgives(&self, now: Mono) -> bool {
        self.0.lock().expect("checks").forgiven.is_some_and(|until| now < until)
    }

    /// H2: terms of a key grow. Where the store forgot, a term that was given and never used may be given again.
    pub fn granted(&self, key: &Key, term: Term) {
        let mut seen = self.0.lock().expect("checks");
        let before = seen.granted.insert(key.as_str().to_owned(), term);
        let used = key.as_shard().is_some_and(|shard| seen.ticked.contains_key(&(shard, term)));
        let forgot = seen.forgiven.is_some();
        drop(seen);
        if used || (!forgot && before.is_some_and(|before| before >= term)) {
            self.wrong(format!("H2: {key} was granted for {term} after {before:?}"));
        }
    }

    /// H3: a commit carries the claim of that moment. H1: no older owner commits after a newer one.
    pub fn committed(&self, fence: &Fence, claim: Option<&(Option<IncarnationId>, Term)>, _: &Batch) {
        let carried = (Some(fence.incarnation().clone()), fence.term());
        if claim != Some(&carried) {
            self.wrong(format!("H3: a commit under {carried:?} was taken while the claim was {claim:?}"));
        }
        let key = fence.key().as_str().to_owned();
        let before = self.0.lock().expect("checks").committed.insert(key, fence.term());
        if before.is_some_and(|before| before > fence.term()) {
            self.wrong(format!("H1: a commit for {} came after one for {before:?}", fence.term()));
        }
    }

    /// H1: one owner ticks under a term; and whoever has a later one, the former owner does not tick any more.
    pub fn ticked(&self, room: &RoomId, at: (Term, Tick), by: (usize, u64), now: Mono) {
        let shard = room.shard(SHARDS);
        let mut seen = self.0.lock().expect("checks");
        let first = *seen.ticked.entry((shard, at.0)).or_insert(by);
        let before = seen.at.insert(room.clone(), at);
        if let Some(handed) = seen.handed.get(&shard).filter(|handed| handed.term == at.0 && handed.node == by.0) {
            if handed.anew {
                seen.anew += 1;
            } else {
                seen.prepared += 1;
            }
            seen.handed.remove(&shard);
        }
        // A former owner that the store brought back goes on until somebody tells it of the later term.
        let forgiven = seen.forgiven.is_some_and(|until| now < until);
        drop(seen);
        if first != by {
            self.wrong(format!("H1: {by:?} ticks {room} under {}, which is {first:?}'s", at.0));
        }
        if !forgiven && before.is_some_and(|before| before > at) {
            self.wrong(format!("H1: {by:?} ticks {room} at {at:?} after {before:?}"));
        }
    }

    /// A claim was given to a node.
    pub fn handed(&self, key: &Key, to: &IncarnationId, term: Term, package: u64) {
        let (Some(shard), Some(node)) = (key.as_shard(), node_of(to)) else { return };
        let mut seen = self.0.lock().expect("checks");
        seen.handed.remove(&shard);
        if package != 0 {
            seen.handed.insert(shard, Handed { node, term, anew: false });
        }
    }

    /// A node has the claim under a term that it asked for.
    pub fn acquired(&self, key: &Key, node: usize, term: Term) {
        let Some(shard) = key.as_shard() else { return };
        let mut seen = self.0.lock().expect("checks");
        match seen.handed.get_mut(&shard) {
            Some(handed) if handed.node == node => (handed.term, handed.anew) = (term, true),
            _ => drop(seen.handed.remove(&shard)),
        }
    }

    /// A node reads a room: the worlds that it had ready, if any, are not what it runs.
    pub fn loaded(&self, shard: ShardId, node: usize) {
        let mut seen = self.0.lock().expect("checks");
        if seen.handed.get(&shard).is_some_and(|handed| handed.node == node) {
            seen.handed.remove(&shard);
        }
    }

    /// Shards that began with worlds that stood ready, under the term of the transfer and under another.
    pub fn prepared(&self) -> (u64, u64) {
        let seen = self.0.lock().expect("checks");
        (seen.prepared, seen.anew)
    }

    /// H7: never older after newer.
    pub fn shown(&self, player: &str, at: (Term, Tick)) {
        let before = self.0.lock().expect("checks").shown.insert(player.to_owned(), at);
        if before.is_some_and(|before| before > at) {
            self.wrong(format!("H7: {player} saw {at:?} after {before:?}"));
        }
    }

    /// H8: whatever a room knows to be given is in the ledger.
    pub fn rewarded(&self, id: &str, in_ledger: impl FnOnce() -> bool) {
        if self.0.lock().expect("checks").rewarded.insert(id.to_owned()) && !in_ledger() {
            self.wrong(format!("H8: {id} was shown before it was stored"));
        }
    }

    /// H10: a counter under a fence stores each number once, in order. A write whose answer was lost comes again.
    pub fn counted(&self, key: &Key, body: &[u8]) {
        // The first byte says whether the index goes on.
        let [0, number @ ..] = body else { return };
        let number = u64::from_le_bytes(number.try_into().expect("a number"));
        let before = self.0.lock().expect("checks").counted.insert(key.as_str().to_owned(), number).unwrap_or(0);
        if number != before && number != before + 1 {
            self.wrong(format!("H10: {key} stored {number} after {before}"));
        }
    }

    /// What counters stored last.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        self.0.lock().expect("checks").counted.clone()
    }

    /// How many generations of daemons ever stored anything.
    pub fn generations(&self) -> u64 {
        let counts = self.counts();
        counts.keys().filter_map(|key| key.split_once('@')?.1.split('/').next()).collect::<BTreeSet<_>>().len() as u64
    }

    /// H6: each of these once.
    pub fn once(&self, what: &str, wanted: &BTreeSet<String>, is: &[String]) {
        for one in wanted {
            let count = is.iter().filter(|other| *other == one).count();
            if count != 1 {
                self.wrong(format!("H6: {what} {one} happened {count} times"));
            }
        }
        if is.len() != wanted.len() {
            self.wrong(format!("H6: {what} happened {} times, wanted {}", is.len(), wanted.len()));
        }
    }
}
