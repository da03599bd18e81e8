//! What placement asks of this node: daemons to take, to give, to leave alone.

use std::collections::BTreeMap;

use tenure_shared::IncarnationId;

use super::{Peer, State, Targets};
use crate::{
    daemon::{
        agreed::key,
        event::{At, Effect},
        placement::place_evenly,
        slot::{Phase, Slot, Then},
    },
    ownership::placement::{Node, Placed, hash},
    runtime::Mono,
};

/// A daemon that nobody has for so many heartbeats is taken by whoever finds it: the member that should have it does not know.
const PATIENCE: u32 = 5;
/// Daemons of one set that a node gives away at a time while it stays.
const GIVES: usize = 8;

impl State {
    /// Asks for what is this node's to take, and gives what is not.
    pub(super) fn plan(&mut self, now: Mono, set: usize, effects: &mut Vec<Effect>) {
        self.rescale(now, set, effects);
        let generations: Vec<u64> = self.sets[set].fleets.keys().copied().collect();
        for generation in generations {
            let (former, open) = (self.sets[set].is_former(generation), self.sets[set].is_open(generation));
            let nodes = self.nodes(set, former);
            let targets = if former || open { self.targets(set, generation, &nodes) } else { Targets::new() };
            let count = self.sets[set].fleets.get(&generation).map_or(0, |fleet| fleet.slots.len());
            let ending = |slot: &&Slot| matches!(&slot.phase, Phase::Ending(ending) if matches!(ending.then, Then::Release(Some(_))));
            let fleet = self.sets[set].fleets.get(&generation);
            let mut gives = fleet.map_or(0, |fleet| fleet.slots.iter().filter(ending).count());
            let serves =
                self.life.as_ref().is_some_and(|own| nodes.iter().any(|node| node.incarnation == *own && node.serving));
            for index in 0..u32::try_from(count).unwrap_or(u32::MAX) {
                let at = At { set, generation, index };
                let target = targets.get(&index).cloned();
                if former {
                    self.end(now, at, target.as_ref(), serves, effects);
                } else {
                    self.place(now, at, target.as_ref(), open, serves, &mut gives, effects);
                }
            }
            if let Some(fleet) = self.sets[set].fleets.get_mut(&generation) {
                fleet.targets = targets;
            }
        }
    }

    /// Who may run a set: members of its role whose build has it with the agreed count.
    fn nodes(&self, set: usize, former: bool) -> Vec<Node> {
        let state = &self.sets[set];
        let Some(agreed) = state.agreed else { return Vec::new() };
        let runs = |peer: &&Peer| {
            let mut declared = peer.declared.iter().filter(|declared| declared.name == state.spec.name);
            // Ending is what every build can do.
            declared.any(|declared| former || declared.runs(agreed.count))
        };
        let role = state.spec.role.name();
        let eligible = self.peers.iter().filter(|peer| peer.roles.iter().any(|word| word == role)).filter(runs);
        eligible
            .map(|peer| match self.is(Some(&peer.node.incarnation)) {
                true => Node { serving: !self.draining, ..peer.node.clone() },
                false => peer.node.clone(),
            })
            .collect()
    }

    fn targets(&self, set: usize, generation: u64, nodes: &[Node]) -> Targets {
        let state = &self.sets[set];
        let Some(fleet) = state.fleets.get(&generation) else { return Targets::new() };
        let place: BTreeMap<&IncarnationId, usize> =
            nodes.iter().enumerate().map(|(place, node)| (&node.incarnation, place)).collect();
        let placed = |(index, slot): (usize, &Slot)| {
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            let key = key(&state.spec.name, state.spec.single, generation, index);
            Placed { hash: hash(key.as_str()), owner: slot.holder().and_then(|holder| place.get(holder).copied()) }
        };
        let keys: Vec<Placed> = fleet.slots.iter().enumerate().map(placed).collect();
        let moves = place_evenly(nodes, &keys);
        moves
            .into_iter()
            .map(|(key, to)| (u32::try_from(key).unwrap_or(u32::MAX), nodes[to].incarnation.clone()))
            .collect()
    }

    /// Whether a claim that is not this node's is there to be taken, by what is known.
    fn is_free(&mut self, now: Mono, at: At, target: Option<&IncarnationId>, serves: bool) -> bool {
        let Some(holder) = self.slot(at).map(|slot| slot.holder().cloned()) else { return false };
        let gone = match &holder {
            None => true,
            Some(holder) => !self.lives(holder) && self.settled,
        };
        let (patience, own) = (self.times.heartbeat * PATIENCE, self.life.clone());
        let Some(slot) = self.slot(at) else { return false };
        if !gone {
            slot.orphan = None;
            return false;
        }
        let since = *slot.orphan.get_or_insert(now);
        (target.is_some() && target == own.as_ref()) || (serves && now.since(since) >= patience)
    }

    fn ask(&mut self, at: At, effects: &mut Vec<Effect>) {
        let Some(caller) = self.life.clone() else { return };
        let floor = self.floor(at);
        let Some(slot) = self.slot(at) else { return };
        slot.phase = Phase::Asking;
        effects.push(Effect::Acquire { at, caller, seen: slot.claim.clone(), floor });
    }

    /// One index of a former generation: it is ended for ever, by its holder or by whoever has it next.
    fn end(&mut self, now: Mono, at: At, target: Option<&IncarnationId>, serves: bool, effects: &mut Vec<Effect>) {
        let Some(slot) = self.slot(at) else { return };
        let (phase, mine) = (slot.phase.clone(), slot.holder().cloned());
        match phase {
            Phase::Running { .. } => self.stop(now, at, Then::Close, effects),
            Phase::Waiting { term, .. } | Phase::Parked { term, .. } => self.close(at, term, effects),
            Phase::Idle if slot.closed || now < slot.after => {}
            Phase::Idle if self.is(mine.as_ref()) => self.ask(at, effects),
            Phase::Idle if self.is_free(now, at, target, serves) => self.ask(at, effects),
            Phase::Idle | Phase::Asking | Phase::Loading(_) | Phase::Ending(_) | Phase::Releasing(_) => {}
        }
    }

    #[expect(clippy::too_many_arguments, reason = "what the plan knows of the set, and of this index of it")]
    fn place(
        &mut self,
        now: Mono,
        at: At,
        target: Option<&IncarnationId>,
        open: bool,
        serves: bool,
        gives: &mut usize,
        effects: &mut Vec<Effect>,
    ) {
        let (leaving, draining, settled) = (self.leaving, self.draining, self.settled);
        let rest = self.times.kill_after + self.times.heartbeat * PATIENCE;
        let Some(slot) = self.slot(at) else { return };
        let (phase, mine, wanted) = (slot.phase.clone(), slot.holder().cloned(), slot.handover.clone());
        let wanted = wanted.filter(|to| self.lives(to));
        let told = wanted.is_some();
        let wanted = wanted.or(target.cloned().filter(|_| draining || settled));
        let elsewhere = wanted.filter(|to| !self.is(Some(to)));
        let may = *gives < GIVES || draining;
        match phase {
            Phase::Running { .. } if !open || leaving => self.stop(now, at, Then::Release(elsewhere), effects),
            // Nothing that has just come moves on for balance: whoever was to have it may be about to end.
            Phase::Running { since, .. }
                if elsewhere.is_some() && may && (told || draining || now.since(since) >= rest) =>
            {
                *gives += 1;
                self.stop(now, at, Then::Release(elsewhere), effects);
            }
            Phase::Waiting { term, .. } | Phase::Parked { term, .. } if !open || leaving || elsewhere.is_some() => {
                self.release(at, term, elsewhere, effects);
            }
            Phase::Waiting { until, .. } if now >= until => self.ask(at, effects),
            Phase::Idle if slot_waits(self.slot(at), now) => {}
            Phase::Idle if self.is(mine.as_ref()) => {
                let term = self.floor(at);
                match elsewhere.filter(|_| draining) {
                    // It never ran here: it is passed on as it is.
                    Some(to) => self.release(at, term, Some(to), effects),
                    None if !open || leaving => self.release(at, term, None, effects),
                    // Whoever gave it saw the members otherwise. It is started first, and given from there.
                    None => self.ask(at, effects),
                }
            }
            Phase::Idle if open && !leaving && self.is_free(now, at, target, serves) => self.ask(at, effects),
            _ => {}
        }
    }
}

fn slot_waits(slot: Option<&mut Slot>, now: Mono) -> bool {
    slot.is_none_or(|slot| now < slot.after)
}
