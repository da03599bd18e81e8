//! One checker per invariant, fed by the store, the rooms and the bots.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
};

use tenure::store::{Batch, Fence, Key};
use tenure_shared::{IncarnationId, Term, Tick};

#[derive(Default)]
struct Seen {
    wrong: Vec<String>,
    /// Highest term granted and highest term that a commit carried, by key.
    granted: BTreeMap<String, Term>,
    committed: BTreeMap<String, Term>,
    /// Grants that some room knows to be given.
    rewarded: BTreeSet<String>,
    shown: BTreeMap<String, (Term, Tick)>,
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

    /// H2: terms of a key grow.
    pub fn granted(&self, key: &Key, term: Term) {
        let before = self.0.lock().expect("checks").granted.insert(key.as_str().to_owned(), term);
        if before.is_some_and(|before| before >= term) {
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
