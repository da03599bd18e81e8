//! The daemons of one node as a pure step machine: `step(now, lease, event) -> effects`. The driver does the I/O.
//!
//! Rules (docs/invariants.md, H10):
//! - A daemon is started only under a term that was granted for this start: every restart is an acquire too. No two activations share a term.
//! - It is stopped before its claim is given up. One that does not stop is cut off; if its task does not end then, the claim is given up, which
//!   fences its writes, and the process ends when it lives on after that.
//! - When the lease is over everything is cut off at once; nothing starts before the task of the former activation has ended.
//! - Another owner of a claim, or another term, cuts its daemon off.
//! - A former generation is ended index by index, under the fence of each, with a mark that stays: whoever acquires such a claim later finds the
//!   mark and starts nothing. Only when all marks are there the next generation opens (C31).
//!
//! `tasks.rs`: what becomes of activations. `claims.rs`: what the store says. `plan.rs`: what placement asks for. `sets.rs`: what was agreed on.

mod claims;
mod plan;
mod sets;
mod tasks;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use tenure_shared::{IncarnationId, Term};

pub(crate) use sets::SetState;

use super::{
    agreed::Declared,
    event::{At, Call, Effect, Event, Lease, Times},
    slot::{Phase, Slot},
    spec::ShardedDaemonProcess,
};
use crate::{ownership::placement::Node, runtime::Mono, store::Status};

/// Shortest time between two ticks.
const SHORTEST_SLEEP: Duration = Duration::from_millis(2);

/// A member, as far as daemons are concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) node: Node,
    pub(crate) roles: Vec<String>,
    pub(crate) declared: Vec<Declared>,
}

/// All of it.
pub(crate) struct State {
    times: Times,
    pub(crate) sets: Vec<SetState>,
    life: Option<IncarnationId>,
    until: Mono,
    /// In the order of their incarnations.
    peers: Vec<Peer>,
    /// The cluster was read in this process.
    known: bool,
    settled: bool,
    draining: bool,
    leaving: bool,
    next_look: Mono,
    next_check: Mono,
    reading: bool,
    look: BTreeSet<At>,
}

impl State {
    pub(crate) fn new(times: Times, sets: Vec<ShardedDaemonProcess>) -> Self {
        Self {
            times,
            sets: sets.into_iter().map(SetState::new).collect(),
            life: None,
            until: Mono(0),
            peers: Vec::new(),
            known: false,
            settled: false,
            draining: false,
            leaving: false,
            next_look: Mono(0),
            next_check: Mono(0),
            reading: false,
            look: BTreeSet::new(),
        }
    }

    /// Whether the node may act.
    fn acts(&self, now: Mono) -> bool {
        now < self.until && self.life.is_some()
    }

    /// Takes in one event at `now` by the monotonic clock, with the lease as it is at that moment.
    pub(crate) fn step(&mut self, now: Mono, lease: Lease, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        let another = self.life != lease.life;
        (self.life, self.until) = (lease.life, lease.until);
        // Whatever the event is: without a lease, and in another life than the one that started it, nothing runs.
        if another || !self.acts(now) {
            self.lapse(now, &mut effects);
        }
        match event {
            Event::Tick => {}
            Event::Cluster(view) => self.cluster(now, &view, &mut effects),
            Event::Agreed { set, agreed } => self.agreed(now, set, agreed, &mut effects),
            Event::Granted { at, incarnation, term } => self.granted(now, at, &incarnation, term, &mut effects),
            Event::Refused { at } => self.refused(now, at),
            Event::Claims { read, claims } => self.claims_read(now, &read, claims, &mut effects),
            Event::Loaded { at, term, ended, state } => self.loaded(now, at, term, ended, state, &mut effects),
            Event::Released { at, term } => self.given_up(now, at, term, (None, term)),
            Event::Given { at, term, to, new } => self.given_up(now, at, term, (Some(to), new)),
            Event::Closed { at, term } => {
                self.given_up(now, at, term, (None, term));
                self.slot(at).into_iter().for_each(|slot| slot.closed = true);
            }
            Event::Checked { set, generation, ended } => self.checked(set, generation, ended, &mut effects),
            Event::Ended { at, term, how } => self.ended(now, at, term, &how, &mut effects),
            Event::Marks(marks) => self.marks(now, &marks, &mut effects),
            Event::Failed(call) => self.failed(now, call),
            Event::Drain => self.draining = true,
            Event::Leave => (self.draining, self.leaving) = (true, true),
            Event::HandOver { at, to } => self.slot(at).into_iter().for_each(|slot| slot.handover = Some(to.clone())),
            Event::Unpark { at } => self.unpark(now, at),
        }
        self.look_around(now, &mut effects);
        self.deadlines(now, &mut effects);
        if self.acts(now) && self.known {
            for set in 0..self.sets.len() {
                self.plan(now, set, &mut effects);
            }
        }
        self.note_down(now);
        effects
    }

    /// When the next [`Event::Tick`] is due.
    pub(crate) fn wake(&self, now: Mono) -> Mono {
        let mut wake = self.next_look;
        if self.acts(now) {
            wake = wake.min(self.until);
        }
        for (_, slot) in self.slots() {
            match &slot.phase {
                Phase::Waiting { until, .. } if self.acts(now) => wake = wake.min(*until),
                Phase::Ending(ending) => wake = wake.min(self.next_deadline(ending).unwrap_or(wake)),
                Phase::Idle if slot.after > now => wake = wake.min(slot.after),
                _ => {}
            }
        }
        // Whatever is due and cannot be done now must not keep a thread busy.
        wake.max(now.plus(SHORTEST_SLEEP))
    }

    /// Whether marks of progress are wanted.
    pub(crate) fn runs_any(&self) -> bool {
        self.slots().any(|(_, slot)| matches!(slot.phase, Phase::Running { .. }))
    }

    /// Whether nothing of any daemon is here: no task, no claim.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots().all(|(_, slot)| matches!(slot.phase, Phase::Idle))
    }

    pub(crate) fn slots(&self) -> impl Iterator<Item = (At, &Slot)> {
        self.sets.iter().enumerate().flat_map(|(set, state)| {
            state.fleets.iter().flat_map(move |(generation, fleet)| {
                let at = move |index: usize| At {
                    set,
                    generation: *generation,
                    index: u32::try_from(index).unwrap_or(u32::MAX),
                };
                fleet.slots.iter().enumerate().map(move |(index, slot)| (at(index), slot))
            })
        })
    }

    /// What an index is doing, as far as this node knows, and why it is not started any more.
    pub(crate) fn stage(&self, slot: &Slot) -> (&'static str, Option<String>) {
        match &slot.phase {
            Phase::Running { .. } => ("running", None),
            Phase::Loading(_) => ("starting", None),
            Phase::Ending(_) | Phase::Releasing(_) => ("stopping", None),
            Phase::Waiting { .. } => ("waiting", None),
            Phase::Parked { reason, .. } => ("parked", Some(reason.clone())),
            Phase::Idle | Phase::Asking => match slot.holder() {
                Some(holder) if self.lives_elsewhere(holder) => ("elsewhere", None),
                _ => ("nowhere", None),
            },
        }
    }

    /// Since when each index is not live. One that is with a living member counts as live: how it is doing is known there.
    fn note_down(&mut self, now: Mono) {
        for set in 0..self.sets.len() {
            let Some(agreed) = self.sets.get(set).and_then(|set| set.agreed) else { continue };
            let Some(fleet) = self.sets.get(set).and_then(|set| set.fleets.get(&agreed.generation)) else { continue };
            let live = |slot: &Slot| agreed.stopped || matches!(self.stage(slot).0, "running" | "elsewhere");
            let live: Vec<bool> = fleet.slots.iter().map(live).collect();
            let fleet = self.sets.get_mut(set).and_then(|set| set.fleets.get_mut(&agreed.generation));
            for (slot, live) in fleet.into_iter().flat_map(|fleet| &mut fleet.slots).zip(live) {
                slot.down = if live { None } else { slot.down.or(Some(now)) };
            }
        }
    }

    fn slot(&mut self, at: At) -> Option<&mut Slot> {
        let fleet = self.sets.get_mut(at.set)?.fleets.get_mut(&at.generation)?;
        fleet.slots.get_mut(at.index as usize)
    }

    fn all(&self) -> Vec<At> {
        self.slots().map(|(at, _)| at).collect()
    }

    fn lives(&self, incarnation: &IncarnationId) -> bool {
        self.peers.binary_search_by(|peer| peer.node.incarnation.cmp(incarnation)).is_ok()
    }

    /// Whether it is another member.
    pub(crate) fn lives_elsewhere(&self, incarnation: &IncarnationId) -> bool {
        !self.is(Some(incarnation)) && self.lives(incarnation)
    }

    fn is(&self, incarnation: Option<&IncarnationId>) -> bool {
        incarnation.is_some() && incarnation == self.life.as_ref()
    }

    /// Members and hints of claims.
    fn cluster(&mut self, now: Mono, view: &Arc<crate::ownership::View>, effects: &mut Vec<Effect>) {
        self.known |= view.at.0 > 0;
        self.settled = view.settled;
        let peer = |member: &crate::store::Member| Peer {
            node: Node {
                incarnation: member.incarnation.clone(),
                serving: match self.is(Some(&member.incarnation)) {
                    true => !self.draining,
                    false => member.status == Status::Serving,
                },
                // Daemons have been told to stop there.
                drains: false,
                revision: member.info.revision,
                version: member.info.version.clone(),
                beats: member.beats,
            },
            roles: member.info.roles.clone(),
            declared: member.info.roles.iter().filter_map(|word| Declared::parse(word)).collect(),
        };
        self.peers = view.members.iter().map(peer).collect();
        self.peers.sort_by(|a, b| a.node.incarnation.cmp(&b.node.incarnation));
        for set in 0..self.sets.len() {
            self.hints(now, set, &view.named, effects);
        }
    }

    /// Once in a heartbeat the plan is made anew, and from time to time everything is read.
    fn look_around(&mut self, now: Mono, effects: &mut Vec<Effect>) {
        if now >= self.next_look {
            let often = self.sets.iter().map(|set| set.spec.liveness / 2).filter(|half| !half.is_zero()).min();
            self.next_look = now.plus(often.map_or(self.times.heartbeat, |often| often.min(self.times.heartbeat)));
            self.ask_agreements(now, effects);
        }
        if !self.acts(now) {
            return;
        }
        if now >= self.next_check {
            self.next_check = now.plus(self.times.claim_check);
            self.look.extend(self.all());
        }
        if !self.reading && !self.look.is_empty() {
            self.reading = true;
            let look: Vec<At> = std::mem::take(&mut self.look).into_iter().collect();
            for at in &look {
                self.slot(*at).into_iter().for_each(|slot| slot.fresh = false);
            }
            effects.push(Effect::ReadClaims(look));
        }
    }

    fn failed(&mut self, now: Mono, call: Call) {
        let later = now.plus(self.times.heartbeat);
        match call {
            Call::Agreement(set) => self.sets.get_mut(set).into_iter().for_each(|set| set.asking = false),
            Call::Check(set) => self.sets.get_mut(set).into_iter().for_each(|set| set.checking = false),
            // It may have been carried out: the claim is read before it is asked for again.
            Call::Acquire(at) => self.refused(now, at),
            Call::Load(at, term) => {
                if let Some(slot) = self.slot(at).filter(|slot| slot.phase == Phase::Loading(term)) {
                    slot.phase = Phase::Waiting { term, until: later };
                }
            }
            Call::Release(at, term) | Call::Close(at, term) => {
                if let Some(slot) = self.slot(at) {
                    match &mut slot.phase {
                        // Asked for anew by the plan, from what the claim is then.
                        Phase::Releasing(of) if *of == term => (slot.phase, slot.after) = (Phase::Idle, later),
                        Phase::Ending(ending) if ending.term == term => ending.released = false,
                        _ => {}
                    }
                    self.look.insert(at);
                }
            }
            Call::Claims(look) => {
                self.reading = false;
                self.next_check = self.next_check.min(later);
                drop(look);
            }
        }
    }

    /// The highest term known of an index.
    fn floor(&self, at: At) -> Term {
        let fleet = self.sets.get(at.set).and_then(|set| set.fleets.get(&at.generation));
        fleet.and_then(|fleet| fleet.slots.get(at.index as usize)).map_or(Term(0), Slot::term)
    }
}

/// By index.
pub(crate) type Targets = BTreeMap<u32, IncarnationId>;
