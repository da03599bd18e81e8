//! What the store says of shards: readings, grants, refusals, releases, and what others saw.

use std::{collections::BTreeMap, time::Duration};

use tenure_shared::{IncarnationId, ShardId, Term};

use super::State;
use crate::{
    ownership::{
        event::{Effect, Seen},
        shard::Shard,
    },
    runtime::Mono,
    store::Claim,
};

/// Shortest time between two readings of one claim that somebody asked for.
const LOOK_GAP: Duration = Duration::from_millis(20);

impl State {
    /// A route said who owns a shard. It may be older than what is known.
    pub(super) fn hint(&mut self, shard: ShardId, claim: (Option<IncarnationId>, Term)) {
        self.floor = self.floor.max(claim.1);
        // The answer to what is being asked says more.
        if self.asking.contains(&shard) || self.releasing.contains(&shard) {
            return;
        }
        let Some(state) = self.shards.get_mut(&shard) else { return };
        let newer = state
            .claim
            .as_ref()
            .is_none_or(|(owner, term)| claim.1 > *term || (claim.1 == *term && claim.0.is_none() && owner.is_some()));
        let own = self.incarnation.as_ref();
        let open = state.former.is_some() || self.expected.contains_key(&shard);
        if newer && open && claim.0.is_some() && claim.0.as_ref() == own {
            // A route does not say how this node came to it: by a call whose answer was lost, or by another's hand, and with what.
            self.look.insert(shard);
        } else if newer {
            self.learn(shard, Some(claim));
        }
    }

    fn learn(&mut self, shard: ShardId, claim: Seen) {
        let own = self.incarnation.clone();
        let Some(state) = self.shards.get_mut(&shard) else { return };
        let before = (state.holding, state.former.is_some());
        if state.learn(own.as_ref(), claim) {
            self.dirty = true;
            self.touched.routes = true;
        }
        if before != (state.holding, state.former.is_some()) {
            self.touched.held = true;
            self.gives.remove(&shard);
        }
    }

    /// Reads the claims that are to be read.
    pub(super) fn look_up(&mut self, now: Mono, effects: &mut Vec<Effect>) {
        if !self.looks() || self.busy.claims || self.look.is_empty() || now < self.look_at {
            return;
        }
        self.busy.claims = true;
        let shards: Vec<ShardId> = std::mem::take(&mut self.look).into_iter().collect();
        for shard in &shards {
            if let Some(state) = self.shards.get_mut(shard) {
                state.fresh = false;
            }
        }
        effects.push(Effect::ReadClaims { shards });
    }

    pub(super) fn look_for(&mut self, now: Mono, shard: ShardId, effects: &mut Vec<Effect>) {
        self.look.insert(shard);
        self.look_up(now, effects);
    }

    /// Once in a while: reads the claims of all shards that are held or waited for, and all routes.
    pub(super) fn check(&mut self, now: Mono, effects: &mut Vec<Effect>) {
        if !self.looks() {
            return;
        }
        self.read_all_routes();
        let own = self.incarnation.clone();
        let concerns = |shard: &ShardId, state: &Shard| {
            let mine = state.holder() == own.as_ref() || self.targets.get(shard) == own.as_ref();
            mine || state.holding.is_some() || state.former.is_some() || state.orphan.is_some()
        };
        let of_concern: Vec<_> =
            self.shards.iter().filter(|(shard, state)| concerns(shard, state)).map(|(shard, _)| *shard).collect();
        if self.rooms {
            self.look.extend(of_concern);
            self.look_up(now, effects);
        }
    }

    pub(super) fn claims_read(&mut self, now: Mono, shards: &[ShardId], claims: Vec<Claim>, effects: &mut Vec<Effect>) {
        self.busy.claims = false;
        if !self.looks() {
            return;
        }
        let shard_of = |claim: &Claim| claim.key.as_shard();
        for shard in shards.iter().filter(|shard| self.expected.contains_key(shard)).copied().collect::<Vec<_>>() {
            self.looked(now, shard, claims.iter().find(|claim| shard_of(claim) == Some(shard)));
        }
        // Of a claim that its holder took itself there is no package.
        let handed = claims.iter().filter_map(|claim| Some((shard_of(claim)?, claim.package?)));
        let handed: BTreeMap<ShardId, u64> = handed.collect();
        let keyed = claims.into_iter().filter_map(|claim| Some((shard_of(&claim)?, (claim.holder, claim.term))));
        let mut claims: BTreeMap<ShardId, (Option<IncarnationId>, Term)> = keyed.collect();
        for shard in shards {
            let claim = claims.remove(shard);
            if let Some((_, term)) = &claim {
                self.floor = self.floor.max(*term);
            }
            let Some(state) = self.shards.get_mut(shard) else { continue };
            if self.asking.contains(shard) || self.releasing.contains(shard) || state.fresh {
                continue;
            }
            // Routes and claims are read side by side: the older of two answers may come later.
            let term = claim.as_ref().map_or(Term(0), |(_, term)| *term);
            if term < state.term() && !state.lower {
                state.lower = true;
                self.look.insert(*shard);
                continue;
            }
            self.touched.forgot |= term < state.term();
            let package = handed.get(shard).copied();
            if package.is_some() && state.handed_over(term) {
                self.touched.held = true;
            }
            // 0: given without one.
            state.package = package.filter(|package| *package > 0).map(|package| (term, package));
            self.learn(*shard, claim);
        }
        self.look_up(now, effects);
        self.plan(now, effects);
        self.own_if_all_answered(effects);
    }

    pub(super) fn granted(
        &mut self,
        now: Mono,
        shard: ShardId,
        incarnation: &IncarnationId,
        seen: &Seen,
        term: Term,
        effects: &mut Vec<Effect>,
    ) {
        self.floor = self.floor.max(term);
        // An answer to a former life says nothing of what this one asked.
        if !self.is(incarnation) {
            return;
        }
        self.asking.remove(&shard);
        if let Some(state) =
            self.shards.get_mut(&shard).filter(|_| matches!(self.phase, super::Phase::Taking | super::Phase::Owning))
            && state.granted(incarnation, seen, term)
        {
            self.dirty = true;
            self.touched.held = true;
            self.touched.routes = true;
            if term < state.least {
                // Somebody saw a higher one meanwhile.
                state.give_up(incarnation);
                self.plan(now, effects);
            }
        }
        self.own_if_all_answered(effects);
    }

    /// Refused, or no answer: the claim is read before it is asked for again.
    pub(super) fn not_granted(&mut self, now: Mono, shard: ShardId, effects: &mut Vec<Effect>) {
        if !self.asking.remove(&shard) {
            return;
        }
        if let Some(state) = self.shards.get_mut(&shard) {
            state.after = now.plus(self.times.heartbeat);
        }
        self.look_for(now, shard, effects);
        self.own_if_all_answered(effects);
    }

    pub(super) fn fenced(&mut self, now: Mono, shard: ShardId, term: Term, effects: &mut Vec<Effect>) {
        let Some(own) = self.incarnation.clone() else { return };
        if let Some(state) = self.shards.get_mut(&shard)
            && state.holding.is_some_and(|held| held.term == term)
        {
            state.give_up(&own);
            // What is known of the claim is wrong: it is asked for when it was read.
            state.after = now.plus(self.times.heartbeat);
            self.gives.remove(&shard);
            self.touched.held = true;
            self.look_for(now, shard, effects);
        }
    }

    pub(super) fn term_seen(&mut self, now: Mono, shard: ShardId, term: Term, effects: &mut Vec<Effect>) {
        self.floor = self.floor.max(term);
        let own = self.incarnation.clone();
        let Some(state) = self.shards.get_mut(&shard) else { return };
        state.least = state.least.max(term);
        if let (Some(own), true) = (own, state.holding.is_some_and(|held| held.term < term)) {
            state.give_up(&own);
            self.gives.remove(&shard);
            self.touched.held = true;
            self.plan(now, effects);
        }
    }

    pub(super) fn wanted(&mut self, now: Mono, shard: ShardId, effects: &mut Vec<Effect>) {
        let Some(state) = self.shards.get_mut(&shard) else { return };
        if state.holding.is_some() || self.asking.contains(&shard) {
            return;
        }
        let next = state.looked.plus(LOOK_GAP);
        if state.looked == Mono(0) || now >= next {
            state.looked = now;
            self.later.remove(&shard);
            self.look_for(now, shard, effects);
            self.refresh(now, effects);
        } else if self.looks() {
            // What was read may be older than what made somebody look here.
            self.later.insert(shard, next);
        }
    }

    /// Reads the claims whose time has come.
    pub(super) fn look_again(&mut self, now: Mono, effects: &mut Vec<Effect>) {
        let due: Vec<ShardId> = self.later.iter().filter(|(_, at)| now >= **at).map(|(shard, _)| *shard).collect();
        for shard in due {
            self.later.remove(&shard);
            self.wanted(now, shard, effects);
        }
    }

    pub(super) fn gave(&mut self, now: Mono, shard: ShardId, term: Term, effects: &mut Vec<Effect>) {
        let to = self.gives.get(&shard).or_else(|| self.targets.get(&shard)).cloned();
        let Some(state) = self.shards.get_mut(&shard) else { return };
        let held = state.holding.is_some_and(|held| held.term == term);
        if held {
            state.holding = None;
            state.given = Some((term, to.clone()));
            self.gives.remove(&shard);
            self.touched.held = true;
            self.release(shard, term, to, effects);
        } else if state.former.as_ref().is_some_and(|former| former.term == term) {
            // It lapsed meanwhile: nothing of it is in memory any more that could go on.
            state.former = None;
            self.touched.held = true;
        }
        self.plan(now, effects);
    }

    /// It could not be given: others have their turn first, and it keeps none of the places.
    pub(super) fn kept(&mut self, now: Mono, shard: ShardId, term: Term, effects: &mut Vec<Effect>) {
        let Some(state) = self.shards.get_mut(&shard) else { return };
        let held = state.holding.is_some_and(|held| held.term == term);
        // Not so often that several that cannot be given take turns without a pause.
        let lately = state.kept != Mono(0) && now.since(state.kept) < self.times.heartbeat;
        if held && !lately && self.gives.remove(&shard).is_some() {
            state.kept = now;
            self.touched.held = true;
            self.plan(now, effects);
        }
    }

    /// Gives a claim up, to `to` if that one lives.
    pub(super) fn release(&mut self, shard: ShardId, term: Term, to: Option<IncarnationId>, effects: &mut Vec<Effect>) {
        let Some(incarnation) = self.incarnation.clone() else { return };
        self.releasing.insert(shard);
        let floor = self.shards.get(&shard).map_or(self.floor, |state| self.floor.max(state.least));
        effects.push(match to.filter(|to| *to != incarnation && self.peers.lives(to)) {
            Some(to) => Effect::Give { shard, incarnation, term, to, floor },
            None => Effect::Release { shard, incarnation, term },
        });
    }

    pub(super) fn released(&mut self, now: Mono, shard: ShardId, term: Term, effects: &mut Vec<Effect>) {
        self.given_up(shard, term, (None, term));
        self.plan(now, effects);
    }

    pub(super) fn given(
        &mut self,
        now: Mono,
        shard: ShardId,
        term: Term,
        to: IncarnationId,
        new: Term,
        effects: &mut Vec<Effect>,
    ) {
        self.floor = self.floor.max(new);
        self.transfer_done(shard, term);
        self.given_up(shard, term, (Some(to), new));
        self.plan(now, effects);
    }

    /// What was held under `term` is given up: the claim is as said.
    fn given_up(&mut self, shard: ShardId, term: Term, claim: (Option<IncarnationId>, Term)) {
        self.releasing.remove(&shard);
        let Some(state) = self.shards.get_mut(&shard) else { return };
        if state.given.as_ref().is_some_and(|(of, _)| *of == term) {
            state.given = None;
        }
        if state.holding.is_none() && state.term() == term {
            state.raise(claim.0.as_ref(), claim.1);
            state.claim = Some(claim);
            state.former = None;
            state.orphan = None;
            self.dirty = true;
            self.touched.routes = true;
            self.touched.held = true;
        }
    }
}
