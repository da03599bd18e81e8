//! The lease and the phases: registering, renewing, lapsing, leaving.

use tenure_shared::IncarnationId;

use super::State;
use crate::{
    ownership::{
        event::{Effect, Phase},
        lease::valid_until,
    },
    runtime::Mono,
};

impl State {
    pub(super) fn tick(&mut self, now: Mono, effects: &mut Vec<Effect>) {
        if self.settle.is_some_and(|settle| now >= settle) {
            self.settle = None;
            self.touched.members = true;
            self.plan(now, effects);
        }
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
            self.look_up(now, effects);
            self.plan(now, effects);
        }
        if now >= self.next_check {
            self.next_check = now.plus(self.times.claim_check);
            self.check(now, effects);
        }
        self.look_again(now, effects);
        self.expected_in_vain(now, effects);
        if self.looks() && now >= self.peers.next_poll {
            self.poll(now, effects);
        }
    }

    pub(super) fn registered(&mut self, now: Mono, incarnation: IncarnationId, sent: Mono, effects: &mut Vec<Effect>) {
        self.busy.register = false;
        if self.phase == Phase::Joining {
            self.incarnation = Some(incarnation);
            self.touched.held = true;
            self.renew(now, sent, effects);
        }
    }

    /// An accepted register or heartbeat.
    pub(super) fn renew(&mut self, now: Mono, sent: Mono, effects: &mut Vec<Effect>) {
        let until = valid_until(sent, self.times.ttl, self.times.margin);
        self.until = self.until.max(until);
        // An answer that came too late to be of use: the lapse stands.
        if now < until && matches!(self.phase, Phase::Joining | Phase::Lapsed) {
            self.phase = Phase::Taking;
            self.touched.held = true;
            if std::mem::take(&mut self.lapsed) {
                // Others may have been away from the store as this node was: they come first to what they held.
                self.settle = Some(now.plus(self.times.ttl));
                self.touched.members = true;
            }
            self.peers.begin_life();
            self.next_check = now.plus(self.times.claim_check);
            self.dirty = true;
            self.poll(now, effects);
            self.plan(now, effects);
        }
    }

    /// The margin passed: whatever is held is only a former claim now.
    pub(super) fn lapse(&mut self, effects: &mut Vec<Effect>) {
        self.phase = Phase::Lapsed;
        self.lapsed = true;
        self.drop_holdings();
        self.expire_own(effects);
    }

    fn drop_holdings(&mut self) {
        self.touched.held = true;
        self.asking.clear();
        self.gives.clear();
        let Some(incarnation) = &self.incarnation else { return };
        for shard in self.shards.values_mut() {
            shard.give_up(incarnation);
            shard.after = Mono(0);
        }
        self.later.clear();
        self.expected.clear();
    }

    /// This incarnation has a tombstone: for ever.
    pub(super) fn gone(&mut self, effects: &mut Vec<Effect>) {
        if self.looks() {
            // Its time was not over: the store forgot it, and with it the others', who come back to what they held as this node does.
            self.lapsed = true;
            self.touched.forgot = true;
        }
        self.drop_holdings();
        // With its life every claim of it is free.
        self.shards.values_mut().for_each(|shard| shard.given = None);
        self.incarnation = None;
        self.until = Mono(0);
        self.told = None;
        self.busy.expire = false;
        self.phase = Phase::Joining;
        if !self.busy.register {
            self.busy.register = true;
            effects.push(Effect::Register);
        }
    }

    /// Tells members the status, once there is something to serve.
    pub(super) fn tell(&mut self, effects: &mut Vec<Effect>) {
        if let (Phase::Owning, Some(incarnation)) = (self.phase, self.incarnation.clone())
            && self.told != Some(self.wanted)
            && !self.busy.status
        {
            self.busy.status = true;
            effects.push(Effect::Tell { incarnation, status: self.wanted });
        }
    }

    pub(super) fn beat(&mut self, now: Mono, effects: &mut Vec<Effect>) {
        if let Some(incarnation) = self.incarnation.clone()
            && !self.busy.beat
        {
            self.busy.beat = true;
            self.next_beat = now.plus(self.times.heartbeat);
            effects.push(Effect::Beat { incarnation, floor: self.floor });
        }
    }

    fn expire_own(&mut self, effects: &mut Vec<Effect>) {
        if let Some(incarnation) = self.incarnation.clone()
            && !self.busy.expire
        {
            self.busy.expire = true;
            effects.push(Effect::Expire { incarnation, stood_still: None });
        }
    }

    /// Acting begins when the cluster is known and every shard that was asked for has its answer.
    pub(super) fn own_if_all_answered(&mut self, effects: &mut Vec<Effect>) {
        let waits = !self.peers.known() || self.busy.claims || !self.asking.is_empty();
        if self.phase == Phase::Taking && !waits {
            self.phase = Phase::Owning;
            self.touched.held = true;
            self.tell(effects);
        }
    }

    pub(super) fn leave(&mut self, effects: &mut Vec<Effect>) {
        self.phase = Phase::Leaving;
        self.touched.held = true;
        self.gives.clear();
        let Some(incarnation) = self.incarnation.clone() else { return };
        for (shard, state) in &mut self.shards {
            state.former = None;
            if let Some(held) = state.holding.take() {
                effects.push(Effect::Release { shard: *shard, incarnation: incarnation.clone(), term: held.term });
            }
        }
        effects.push(Effect::Deregister { incarnation });
    }
}
