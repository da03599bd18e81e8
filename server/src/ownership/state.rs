//! The life of a node's ownership as a pure step machine: `step(event) -> effects`. The driver in `node.rs` does the I/O.
//!
//! Rules (DESIGN.md §6, MODEL-FINDINGS):
//! - A lease that lapsed is never simply renewed. The former incarnation is expired first; if its tombstone is written the node
//!   registers as a new one, otherwise it goes on as the same; in both cases every shard is taken anew by compare-and-set before
//!   anything acts (a thaw is a write, F1, F8). Until all were asked for, the published lease stays empty.
//! - If the compare-and-set found the claim still naming the former incarnation and term, nobody owned the shard in between: its worlds
//!   may go on from memory (`continues`). Also when the answer was lost and the claim turns out to be the node's own (F5).
//! - A refused fence drops the shard at once; the claims are read anew.

use std::collections::{BTreeMap, BTreeSet};

use tenure_shared::{IncarnationId, ShardId, Term};

use super::{
    event::{Call, Effect, Event, Holding, Phase, Seen, Times},
    lease::valid_until,
    shard::Shard,
};
use crate::{
    runtime::Mono,
    store::{Claim, Key, Status},
};

/// All of it.
#[derive(Debug)]
pub(super) struct State {
    times: Times,
    pub(super) phase: Phase,
    /// This life; `None` while registering.
    pub(super) incarnation: Option<IncarnationId>,
    shards: BTreeMap<ShardId, Shard>,
    /// Counted by the owner.
    until: Mono,
    floor: Term,
    next_beat: Mono,
    next_check: Mono,
    /// A call of the kind is under way.
    busy: Busy,
    /// The claims were read in this life.
    read: bool,
    /// What members are told, and what they were told last.
    wanted: Status,
    told: Option<Status>,
}

#[derive(Debug, Default)]
struct Busy {
    register: bool,
    beat: bool,
    expire: bool,
    claims: bool,
    status: bool,
}

impl State {
    pub(super) fn new(times: Times, shards: u32) -> Self {
        Self {
            times,
            phase: Phase::Joining,
            incarnation: None,
            shards: (0..shards).map(|shard| (ShardId(shard), Shard::default())).collect(),
            until: Mono(0),
            floor: Term(0),
            next_beat: Mono(0),
            next_check: Mono(0),
            busy: Busy::default(),
            read: false,
            wanted: Status::Serving,
            told: None,
        }
    }

    /// Until when the node may act, as far as is known now; `Mono(0)` while it may not.
    pub(super) fn acts_until(&self) -> Mono {
        if self.phase == Phase::Owning { self.until } else { Mono(0) }
    }

    /// What is held; nothing while the node may not act.
    pub(super) fn holdings(&self) -> BTreeMap<ShardId, Holding> {
        let acts = self.phase == Phase::Owning;
        self.shards
            .iter()
            .filter_map(|(shard, state)| state.holding.filter(|_| acts).map(|held| (*shard, held)))
            .collect()
    }

    /// When the next [`Event::Tick`] is due.
    pub(super) fn wake(&self) -> Mono {
        let wake = self.next_beat.min(self.next_check);
        if self.phase == Phase::Owning { wake.min(self.until) } else { wake }
    }

    fn is(&self, incarnation: &IncarnationId) -> bool {
        self.incarnation.as_ref() == Some(incarnation)
    }

    pub(super) fn step(&mut self, now: Mono, event: Event) -> Vec<Effect> {
        // Whatever the event is: past the margin nothing acts, even if the next heartbeat was accepted in the meantime.
        let mut effects = Vec::new();
        if self.phase == Phase::Owning && now >= self.until {
            self.lapse(&mut effects);
        }
        match event {
            Event::Tick => self.tick(now, &mut effects),
            Event::Registered { incarnation, sent } => {
                self.busy.register = false;
                if self.phase == Phase::Joining {
                    self.incarnation = Some(incarnation);
                    self.renew(now, sent, &mut effects);
                }
            }
            Event::Beat { incarnation, sent, floor } => {
                self.busy.beat = false;
                self.floor = self.floor.max(floor);
                if self.is(&incarnation) {
                    self.renew(now, sent, &mut effects);
                }
            }
            Event::Gone { incarnation } => {
                self.busy.beat = false;
                if self.is(&incarnation) && self.phase != Phase::Leaving {
                    self.gone(&mut effects);
                }
            }
            Event::Expired { incarnation, gone } => {
                match (self.is(&incarnation), gone) {
                    (true, true) if self.phase != Phase::Leaving => self.gone(&mut effects),
                    // The store still has the lease: the next heartbeat decides.
                    (true, false) if self.phase == Phase::Lapsed => {
                        self.busy.expire = false;
                        self.beat(now, &mut effects);
                    }
                    (true, _) => self.busy.expire = false,
                    // Another holder is gone: what it held can be taken.
                    (false, true) => self.check_soon(now),
                    (false, false) => {}
                }
            }
            Event::Failed(call) => match call {
                Call::Register => self.busy.register = false,
                Call::Beat => self.busy.beat = false,
                Call::Expire => self.busy.expire = false,
                Call::Status => self.busy.status = false,
                Call::Claims => {
                    self.busy.claims = false;
                    self.check_soon(now);
                    self.own_if_all_answered(&mut effects);
                }
                // Asked for anew once the claims were read: the call may have been carried out.
                Call::Acquire(shard) => {
                    self.check_soon(now);
                    self.answered(now, shard, &mut effects);
                }
            },
            Event::Claims(claims) => {
                self.busy.claims = false;
                self.compare(&claims, &mut effects);
            }
            Event::Granted { shard, incarnation, seen, term } => {
                self.floor = self.floor.max(term);
                // An answer to a former life says nothing of what this one asked.
                if self.is(&incarnation) {
                    if matches!(self.phase, Phase::Taking | Phase::Owning) {
                        self.granted(shard, &seen, term);
                    }
                    self.answered(now, shard, &mut effects);
                }
            }
            Event::Refused { shard, incarnation, holder } => {
                if self.is(&incarnation) {
                    if let Some(state) = self.shards.get_mut(&shard)
                        && holder != incarnation.as_str()
                    {
                        state.former = None;
                    }
                    self.answered(now, shard, &mut effects);
                }
            }
            Event::Fenced { shard, term } => {
                let own = self.incarnation.clone();
                if let (Some(state), Some(own)) = (self.shards.get_mut(&shard), own)
                    && state.holding.is_some_and(|held| held.term == term)
                {
                    state.give_up(&own);
                    self.check(now, &mut effects);
                }
            }
            Event::Told { incarnation, status } => {
                self.busy.status = false;
                if self.is(&incarnation) {
                    self.told = Some(status);
                }
            }
            Event::Drain => {
                self.wanted = Status::Draining;
                self.tell(&mut effects);
            }
            Event::Leave => self.leave(&mut effects),
        }
        effects
    }

    fn tick(&mut self, now: Mono, effects: &mut Vec<Effect>) {
        if now >= self.next_beat {
            self.next_beat = now.plus(self.times.heartbeat);
            match self.phase {
                Phase::Joining if !self.busy.register => {
                    self.busy.register = true;
                    effects.push(Effect::Register);
                }
                Phase::Lapsed => self.expire_own(effects),
                Phase::Taking | Phase::Owning => self.beat(now, effects),
                Phase::Joining | Phase::Leaving => {}
            }
            self.tell(effects);
        }
        if now >= self.next_check {
            self.next_check = now.plus(self.times.claim_check);
            if matches!(self.phase, Phase::Taking | Phase::Owning) {
                self.check(now, effects);
            }
        }
    }

    /// Tells members the status, once there is something to serve.
    fn tell(&mut self, effects: &mut Vec<Effect>) {
        if let (Phase::Owning, Some(incarnation)) = (self.phase, self.incarnation.clone())
            && self.told != Some(self.wanted)
            && !self.busy.status
        {
            self.busy.status = true;
            effects.push(Effect::Tell { incarnation, status: self.wanted });
        }
    }

    fn beat(&mut self, now: Mono, effects: &mut Vec<Effect>) {
        if let Some(incarnation) = self.incarnation.clone()
            && !self.busy.beat
        {
            self.busy.beat = true;
            self.next_beat = now.plus(self.times.heartbeat);
            effects.push(Effect::Beat { incarnation });
        }
    }

    fn expire_own(&mut self, effects: &mut Vec<Effect>) {
        if let Some(incarnation) = self.incarnation.clone()
            && !self.busy.expire
        {
            self.busy.expire = true;
            effects.push(Effect::Expire { incarnation });
        }
    }

    /// An accepted register or heartbeat.
    fn renew(&mut self, now: Mono, sent: Mono, effects: &mut Vec<Effect>) {
        let until = valid_until(sent, self.times.ttl, self.times.margin);
        self.until = self.until.max(until);
        match self.phase {
            // The answer came too late to be of use: the lapse stands.
            _ if now >= until => {}
            Phase::Joining => {
                self.phase = Phase::Taking;
                self.check(now, effects);
            }
            Phase::Lapsed => {
                self.phase = Phase::Taking;
                self.take_back(effects);
            }
            Phase::Taking | Phase::Owning | Phase::Leaving => {}
        }
    }

    /// The margin passed: whatever is held is only a former claim now.
    fn lapse(&mut self, effects: &mut Vec<Effect>) {
        self.phase = Phase::Lapsed;
        self.drop_holdings();
        self.expire_own(effects);
    }

    fn drop_holdings(&mut self) {
        let Some(incarnation) = &self.incarnation else { return };
        for shard in self.shards.values_mut() {
            shard.asked = false;
            shard.give_up(incarnation);
        }
    }

    /// This incarnation has a tombstone: for ever.
    fn gone(&mut self, effects: &mut Vec<Effect>) {
        self.drop_holdings();
        self.incarnation = None;
        self.until = Mono(0);
        self.read = false;
        self.told = None;
        self.busy.expire = false;
        self.phase = Phase::Joining;
        if !self.busy.register {
            self.busy.register = true;
            effects.push(Effect::Register);
        }
    }

    /// Asks first for what the former life held, with its claims as seen.
    fn take_back(&mut self, effects: &mut Vec<Effect>) {
        let Some(caller) = self.incarnation.clone() else { return };
        for (shard, state) in &mut self.shards {
            if let Some(former) = &state.former {
                state.asked = true;
                let seen = Some((Some(former.incarnation.clone()), former.term));
                effects.push(Effect::Acquire { shard: *shard, caller: caller.clone(), seen, floor: self.floor });
            }
        }
        self.own_if_all_answered(effects);
    }

    fn check(&mut self, now: Mono, effects: &mut Vec<Effect>) {
        if !self.busy.claims {
            self.busy.claims = true;
            self.next_check = now.plus(self.times.claim_check);
            self.shards.values_mut().for_each(|shard| shard.fresh = false);
            effects.push(Effect::ReadClaims);
        }
    }

    fn check_soon(&mut self, now: Mono) {
        self.next_check = self.next_check.min(now.plus(self.times.heartbeat));
    }

    /// Compares the claims with what is held, and asks for every shard that is not.
    fn compare(&mut self, claims: &[Claim], effects: &mut Vec<Effect>) {
        let (Some(caller), Phase::Taking | Phase::Owning) = (self.incarnation.clone(), self.phase) else { return };
        let by_key: BTreeMap<ShardId, &Claim> =
            claims.iter().filter_map(|claim| Some((Key::as_shard(&claim.key)?, claim))).collect();
        let mut others: BTreeSet<IncarnationId> = BTreeSet::new();
        self.read = true;
        for (shard, state) in &mut self.shards {
            let claim = by_key.get(shard).copied();
            let holder = claim.and_then(|claim| claim.holder.as_ref());
            let own = holder == Some(&caller);
            let same = own && state.holding.map(|held| held.term) == claim.map(|claim| claim.term);
            if same || state.asked || state.fresh {
                continue;
            }
            // The claim is not what is held: what is held is no longer true.
            state.give_up(&caller);
            if !own && holder != state.former.as_ref().map(|former| &former.incarnation) {
                state.former = None;
                others.extend(holder.cloned());
            }
            state.asked = true;
            let seen = claim.map(|claim| (claim.holder.clone(), claim.term));
            effects.push(Effect::Acquire { shard: *shard, caller: caller.clone(), seen, floor: self.floor });
        }
        // A holder whose lease lapsed is written off before its shards are asked for; a live one loses nothing by the question.
        effects.splice(0..0, others.into_iter().map(|incarnation| Effect::Expire { incarnation }));
        self.own_if_all_answered(effects);
    }

    fn granted(&mut self, shard: ShardId, seen: &Seen, term: Term) {
        let Some(state) = self.shards.get_mut(&shard) else { return };
        state.granted(self.incarnation.as_ref(), seen, term);
    }

    /// An answer for a shard came; a refusal or failure is looked into when the claims were read.
    fn answered(&mut self, now: Mono, shard: ShardId, effects: &mut Vec<Effect>) {
        if let Some(state) = self.shards.get_mut(&shard) {
            let was = std::mem::take(&mut state.asked);
            if was && state.holding.is_none() && state.former.is_some() && self.phase == Phase::Taking {
                self.check(now, effects);
            }
        }
        self.own_if_all_answered(effects);
    }

    /// Acting begins when every shard that was asked for has its answer.
    fn own_if_all_answered(&mut self, effects: &mut Vec<Effect>) {
        let waits = !self.read || self.busy.claims || self.shards.values().any(|shard| shard.asked);
        if self.phase != Phase::Taking || waits {
            return;
        }
        self.phase = Phase::Owning;
        self.tell(effects);
    }

    fn leave(&mut self, effects: &mut Vec<Effect>) {
        self.phase = Phase::Leaving;
        let Some(incarnation) = self.incarnation.clone() else { return };
        for (shard, state) in &mut self.shards {
            if let Some(held) = state.holding.take() {
                effects.push(Effect::Release { shard: *shard, incarnation: incarnation.clone(), term: held.term });
            }
        }
        effects.push(Effect::Deregister { incarnation });
    }
}
