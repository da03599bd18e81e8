//! What the store says of claims: hints of routes, readings, grants, refusals, what was given up.

use std::collections::BTreeMap;

use tenure_shared::{IncarnationId, Term};

use super::{State, tasks::LOST};
use crate::{
    daemon::{
        agreed::read_key,
        event::{At, Effect, Seen},
        slot::{Last, Phase, Then},
    },
    ownership::Owned,
    runtime::Mono,
    store::Key,
};

impl State {
    /// Routes of a set's keys. They may be older than what is known.
    pub(super) fn hints(&mut self, now: Mono, set: usize, named: &BTreeMap<Key, Owned>, effects: &mut Vec<Effect>) {
        let Some(state) = self.sets.get(set) else { return };
        let (name, single) = (state.spec.name.clone(), state.spec.single);
        // All keys of a set stand together.
        let from = Key::named(&if single { format!("singleton/{name}") } else { format!("daemon/{name}@") });
        let own = named.range(from.clone()..).take_while(|(key, _)| key.as_str().starts_with(from.as_str()));
        let mut newer = false;
        for (key, owned) in own {
            let Some((generation, index)) = read_key(&name, single, key) else { continue };
            newer |= self.sets[set].agreed.is_some_and(|agreed| generation > agreed.generation);
            let (at, claim) = (At { set, generation, index }, (owned.owner.clone(), owned.term));
            let Some(slot) = self.slot(at) else { continue };
            if !matches!(slot.phase, Phase::Asking | Phase::Releasing(_)) && slot.is_news(&claim) {
                self.learn(now, at, Some(claim), effects);
            }
        }
        if newer {
            self.sets[set].next_ask = Mono(0);
        }
    }

    /// Takes a claim as the truth: what runs under another one is cut off.
    fn learn(&mut self, now: Mono, at: At, claim: Seen, effects: &mut Vec<Effect>) {
        let life = self.life.clone();
        let Some(slot) = self.slot(at) else { return };
        if slot.claim != claim {
            slot.claim = claim;
            slot.orphan = None;
        }
        let ours = slot.held() == Some(slot.term()) && life.is_some() && slot.holder() == life.as_ref();
        match &mut slot.phase {
            _ if ours => {}
            Phase::Running { .. } => self.cut(now, at, Then::Forget, effects),
            Phase::Ending(ending) => ending.then = Then::Forget,
            Phase::Loading(_) | Phase::Waiting { .. } | Phase::Parked { .. } => slot.phase = Phase::Idle,
            Phase::Idle | Phase::Asking | Phase::Releasing(_) => {}
        }
    }

    pub(super) fn claims_read(&mut self, now: Mono, read: &[At], claims: Vec<(At, Seen)>, effects: &mut Vec<Effect>) {
        self.reading = false;
        let mut claims: BTreeMap<At, Seen> = claims.into_iter().collect();
        for at in read {
            let claim = claims.remove(at).flatten();
            let Some(slot) = self.slot(*at) else { continue };
            // The answer to what is being asked says more.
            if !matches!(slot.phase, Phase::Asking | Phase::Releasing(_)) && !slot.fresh {
                self.learn(now, *at, claim, effects);
            }
        }
    }

    pub(super) fn granted(
        &mut self,
        now: Mono,
        at: At,
        incarnation: &IncarnationId,
        term: Term,
        effects: &mut Vec<Effect>,
    ) {
        let (acts, ours) = (self.acts(now), self.is(Some(incarnation)));
        let former = self.sets.get(at.set).is_some_and(|set| set.is_former(at.generation));
        let holder = self.slot(at).and_then(|slot| slot.holder().cloned());
        let lost = holder.filter(|holder| holder != incarnation && !self.lives(holder));
        let Some(slot) = self.slot(at) else { return };
        if !ours || term <= slot.term() {
            return;
        }
        if let Some(lost) = lost {
            slot.last = Some(Last::new(now, LOST, &format!("taken over from {lost}")));
        }
        slot.claim = Some((Some(incarnation.clone()), term));
        slot.fresh = true;
        slot.orphan = None;
        // What was asked for before a lapse is not what was asked for: it is asked for anew.
        if slot.phase != Phase::Asking || !acts {
            return;
        }
        if former {
            self.close(at, term, effects);
        } else {
            slot.phase = Phase::Loading(term);
            effects.push(Effect::Load { at, term });
        }
    }

    /// Refused, or no answer: the claim is read before it is asked for again.
    pub(super) fn refused(&mut self, now: Mono, at: At) {
        let later = now.plus(self.times.heartbeat / 4);
        if let Some(slot) = self.slot(at).filter(|slot| slot.phase == Phase::Asking) {
            slot.phase = Phase::Idle;
            slot.after = later;
            self.look.insert(at);
        }
    }

    /// The claim that was held under `term` is now as said.
    pub(super) fn given_up(&mut self, now: Mono, at: At, term: Term, claim: (Option<IncarnationId>, Term)) {
        let again = now.plus(self.times.heartbeat / 4);
        let Some(slot) = self.slot(at) else { return };
        if slot.is_news(&claim) {
            slot.claim = Some(claim);
            slot.orphan = None;
        }
        if slot.phase == Phase::Releasing(term) {
            slot.phase = Phase::Idle;
            slot.after = again;
        }
    }
}
