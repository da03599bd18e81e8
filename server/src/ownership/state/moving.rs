//! Shards that move with their worlds ready at the other end: transfers sent, and those that this node is told of.

use tenure_shared::{IncarnationId, RoomId, ShardId, Term};

use super::{super::event::Phase, State};
use crate::{ownership::event::Effect, runtime::Mono, store::Claim};

/// A heartbeat divided by this is the time after which who has worlds ready looks at the claim itself, again and again: word may have got lost.
const LOOKS: u32 = 4;
/// A heartbeat divided by this is how long it waits for word of a claim that names it already: the giver heard of that before.
const WORD: u32 = 10;

impl State {
    /// Asks the store to give a claim to a member that has its worlds ready. From here on the shard is this node's again only under a new
    /// term (F1).
    pub(super) fn transfer(
        &mut self,
        shard: ShardId,
        term: Term,
        to: IncarnationId,
        package: u64,
        manifest: Vec<(RoomId, u64)>,
        effects: &mut Vec<Effect>,
    ) {
        let acts = self.phase == Phase::Owning && !self.transfers.contains_key(&shard);
        let Some(incarnation) = self.incarnation.clone().filter(|own| acts && *own != to) else { return };
        let Some(state) = self.shards.get(&shard).filter(|state| state.holding.is_some_and(|held| held.term == term))
        else {
            return;
        };
        let floor = self.floor.max(state.least);
        self.transfers.insert(shard, term);
        effects.push(Effect::Transfer { shard, incarnation, term, to, package, manifest, floor });
    }

    /// A transfer may have been carried out, or may be yet: the claim is asked for anew.
    pub(super) fn not_given(&mut self, now: Mono, shard: ShardId, term: Term, effects: &mut Vec<Effect>) {
        if self.transfers.get(&shard) == Some(&term) {
            self.transfers.remove(&shard);
        }
        let Some(own) = self.incarnation.clone() else { return };
        let Some(state) = self.shards.get_mut(&shard) else { return };
        if state.holding.is_some_and(|held| held.term == term) {
            state.give_up(&own);
            state.after = Mono(0);
            self.gives.remove(&shard);
            self.touched.held = true;
            self.plan(now, effects);
        }
    }

    /// What is held under `term` is the other's by its transfer.
    pub(super) fn transfer_done(&mut self, shard: ShardId, term: Term) {
        if self.transfers.get(&shard) != Some(&term) {
            return;
        }
        self.transfers.remove(&shard);
        if let Some(state) = self.shards.get_mut(&shard)
            && state.holding.is_some_and(|held| held.term == term)
        {
            state.holding = None;
            self.gives.remove(&shard);
            self.touched.held = true;
        }
    }

    pub(super) fn expect(&mut self, now: Mono, shard: ShardId, until: Mono) {
        let free = self.shards.get(&shard).is_some_and(|state| state.holding.is_none());
        if free && now < until {
            self.expected.insert(shard, until);
            self.later.insert(shard, now.plus(self.times.heartbeat / LOOKS));
        }
    }

    /// The claim of a shard whose worlds are ready here was read: if it names this node who gave it has said so, or cannot.
    pub(super) fn looked(&mut self, now: Mono, shard: ShardId, claim: Option<&Claim>) {
        let Some(until) = self.expected.get_mut(&shard) else { return };
        if claim.is_some_and(|claim| claim.holder.is_some() && claim.holder == self.incarnation) {
            *until = now.plus(self.times.heartbeat / WORD).min(*until);
        } else {
            self.later.insert(shard, now.plus(self.times.heartbeat / LOOKS));
        }
    }

    pub(super) fn transferred(
        &mut self,
        now: Mono,
        shard: ShardId,
        incarnation: &IncarnationId,
        term: Term,
        package: u64,
        effects: &mut Vec<Effect>,
    ) {
        // What is being asked for anew decides by itself.
        if !self.is(incarnation) || !self.looks() || self.asking.contains(&shard) || self.releasing.contains(&shard) {
            return;
        }
        self.floor = self.floor.max(term);
        if self.expected.remove(&shard).is_some() {
            self.later.remove(&shard);
        }
        if let Some(state) = self.shards.get_mut(&shard) {
            if state.transferred(incarnation, term, package) {
                self.touched.held = true;
                self.touched.routes = true;
            }
            self.dirty = true;
        }
        self.plan(now, effects);
    }

    /// Nobody said in time that a shard is this node's.
    pub(super) fn expected_in_vain(&mut self, now: Mono, effects: &mut Vec<Effect>) {
        let before = self.expected.len();
        self.expected.retain(|_, until| now < *until);
        if self.expected.len() < before {
            self.plan(now, effects);
        }
    }
}
