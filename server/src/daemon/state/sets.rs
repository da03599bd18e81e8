//! What was agreed on about a set, and how one generation follows another.

use std::collections::BTreeMap;

use super::{State, Targets};
use crate::{
    daemon::{
        agreed::Agreed,
        event::{At, Effect},
        slot::{Phase, Slot, Then},
        spec::ShardedDaemonProcess,
    },
    runtime::Mono,
};

/// The daemons of one generation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fleet {
    pub(crate) slots: Vec<Slot>,
    /// Where those belong that are not where they belong.
    pub(crate) targets: Targets,
}

/// One set.
pub(crate) struct SetState {
    pub(crate) spec: ShardedDaemonProcess,
    /// What was agreed on, as far as is known.
    pub(crate) agreed: Option<Agreed>,
    pub(crate) fleets: BTreeMap<u64, Fleet>,
    pub(super) asking: bool,
    pub(super) next_ask: Mono,
    pub(super) checking: bool,
    pub(super) next_check: Mono,
}

impl SetState {
    pub(super) fn new(spec: ShardedDaemonProcess) -> Self {
        let (asking, checking, next) = (false, false, Mono(0));
        Self { spec, agreed: None, fleets: BTreeMap::new(), asking, next_ask: next, checking, next_check: next }
    }

    /// Whether this generation is to be ended.
    pub(crate) fn is_former(&self, generation: u64) -> bool {
        self.agreed.is_some_and(|agreed| generation < agreed.generation)
    }

    /// Whether daemons of this generation may be started.
    pub(super) fn is_open(&self, generation: u64) -> bool {
        let open = |agreed: Agreed| agreed.generation == generation && agreed.after.is_none() && !agreed.stopped;
        self.agreed.is_some_and(|agreed| open(agreed) && agreed.fits(&self.spec))
    }
}

impl State {
    /// Somebody says that what was agreed on has changed.
    pub(crate) fn ask_soon(&mut self, set: usize) {
        self.sets.get_mut(set).into_iter().for_each(|set| set.next_ask = Mono(0));
        self.next_look = Mono(0);
    }

    pub(super) fn ask_agreements(&mut self, now: Mono, effects: &mut Vec<Effect>) {
        let (often, seldom) = (self.times.heartbeat, self.times.claim_check);
        for (set, state) in self.sets.iter_mut().enumerate() {
            if now >= state.next_ask && !state.asking {
                state.asking = true;
                let changes = state.agreed.is_none_or(|agreed| agreed.after.is_some());
                state.next_ask = now.plus(if changes { often } else { seldom });
                effects.push(Effect::ReadAgreed { set });
            }
        }
    }

    pub(super) fn agreed(&mut self, now: Mono, set: usize, agreed: Agreed, effects: &mut Vec<Effect>) {
        let Some(state) = self.sets.get_mut(set) else { return };
        state.asking = false;
        // Overtaken, or the store has forgotten what it had acknowledged: it is told again. Of an answer that was overtaken the store
        // says something else by now, and refuses.
        if let Some(known) = state.agreed.filter(|known| known.generation > agreed.generation) {
            state.asking = true;
            effects.push(Effect::Reagree { set, from: agreed, to: known });
            return;
        }
        let opened = state.agreed.is_some_and(|known| known.after.is_some()) && agreed.after.is_none();
        state.agreed = Some(agreed);
        let fleet = |count: u32| Fleet { slots: vec![Slot::default(); count as usize], targets: Targets::new() };
        state.fleets.entry(agreed.generation).or_insert_with(|| fleet(agreed.count));
        if let Some(count) = agreed.after {
            state.fleets.entry(agreed.generation - 1).or_insert_with(|| fleet(count));
        }
        if opened {
            tracing::info!(set = %state.spec.name, %agreed, "the daemons of the former generation are ended: those of the new one start");
        }
        // What runs of a generation that is not to run any more is stopped; its slots are kept until nothing is left of it here.
        let runs: Vec<At> = self.slots().filter(|(at, _)| at.set == set).map(|(at, _)| at).collect();
        for at in runs {
            if self.sets[set].is_former(at.generation) {
                self.stop(now, at, Then::Close, effects);
            } else if !self.sets[set].is_open(at.generation) {
                self.stop(now, at, Then::Release(None), effects);
            }
        }
        let state = &mut self.sets[set];
        let oldest = if agreed.after.is_some() { agreed.generation - 1 } else { agreed.generation };
        state.fleets.retain(|generation, fleet| {
            *generation >= oldest || fleet.slots.iter().any(|slot| slot.phase != Phase::Idle)
        });
    }

    /// Whether this node is to end the former generation, open the next one, or begin one; asked for once in a heartbeat.
    pub(super) fn rescale(&mut self, now: Mono, set: usize, effects: &mut Vec<Effect>) {
        let every = self.times.heartbeat;
        let Some(agreed) = self.sets[set].agreed else { return };
        if now < self.sets[set].next_check || self.sets[set].checking || self.draining {
            return;
        }
        self.sets[set].next_check = now.plus(every);
        if let Some(count) = agreed.after {
            self.sets[set].checking = true;
            effects.push(Effect::Check { set, generation: agreed.generation - 1, count });
        } else if self.all_declare(set, agreed) {
            let to = agreed.rescaled(self.sets[set].spec.count);
            tracing::info!(set = %self.sets[set].spec.name, from = %agreed, %to, "every node can run the new number of daemons");
            self.sets[set].asking = true;
            effects.push(Effect::Reagree { set, from: agreed, to });
        }
    }

    /// Whether this build is to replace the agreed count, and all serving nodes say that they can go over to its own.
    fn all_declare(&self, set: usize, agreed: Agreed) -> bool {
        let spec = &self.sets[set].spec;
        let wants = spec.from.contains(&agreed.count) && agreed.fits(spec);
        let role = spec.role.name();
        let serving = self.peers.iter().filter(|peer| peer.node.serving && peer.roles.iter().any(|word| word == role));
        let mut declared = serving.flat_map(|peer| &peer.declared).filter(|declared| declared.name == spec.name);
        wants && !self.sets[set].asking && declared.all(|one| one.count == spec.count && one.runs(agreed.count))
    }

    pub(super) fn checked(&mut self, set: usize, generation: u64, ended: bool, effects: &mut Vec<Effect>) {
        let Some(state) = self.sets.get_mut(set) else { return };
        state.checking = false;
        let Some(agreed) = state.agreed.filter(|agreed| agreed.after.is_some() && generation + 1 == agreed.generation)
        else {
            return;
        };
        if ended && !state.asking {
            state.asking = true;
            effects.push(Effect::Reagree { set, from: agreed, to: Agreed { after: None, ..agreed } });
        }
    }
}
