//! What becomes of activations: started, hung, told to stop, cut off, ended, started again or parked.

use std::time::Duration;

use tenure_shared::{IncarnationId, Term};

use super::State;
use crate::{
    daemon::{
        event::{At, Effect, How, Said},
        slot::{Ending, Last, Phase, Then, bounded},
    },
    runtime::Mono,
    store::KeyState,
};

/// What is said of one whose node is gone, or may not act any more.
pub(super) const LOST: &str = "lost its node";
/// What is said of one that made no progress.
const HUNG: &str = "hung";

impl State {
    /// The lease is over, or this is another life: whatever runs is cut off, and whatever was asked for is forgotten.
    pub(super) fn lapse(&mut self, now: Mono, effects: &mut Vec<Effect>) {
        for at in self.all() {
            let Some(slot) = self.slot(at) else { continue };
            slot.fresh = false;
            slot.handover = None;
            match &mut slot.phase {
                Phase::Running { .. } => {
                    slot.last = Some(Last::new(now, LOST, "the lease of its node was over"));
                    self.cut(now, at, Then::Forget, effects);
                }
                Phase::Ending(ending) => {
                    ending.then = Then::Forget;
                    let term = ending.term;
                    if ending.cut.is_none() {
                        ending.cut = Some(now);
                        effects.push(Effect::Cut { at, term });
                    }
                }
                phase => *phase = Phase::Idle,
            }
        }
        self.reading = false;
    }

    /// Cuts off what runs.
    pub(super) fn cut(&mut self, now: Mono, at: At, then: Then, effects: &mut Vec<Effect>) {
        let Some(slot) = self.slot(at) else { return };
        if let Phase::Running { term, .. } = slot.phase {
            let released = false;
            slot.phase = Phase::Ending(Ending { term, since: now, cut: Some(now), released, killed: false, then });
            effects.push(Effect::Cut { at, term });
        }
    }

    /// Asks what runs to stop.
    pub(super) fn stop(&mut self, now: Mono, at: At, then: Then, effects: &mut Vec<Effect>) {
        let Some(slot) = self.slot(at) else { return };
        if let Phase::Running { term, .. } = slot.phase {
            slot.phase = Phase::Ending(Ending { term, since: now, cut: None, released: false, killed: false, then });
            effects.push(Effect::Stop { at, term });
        }
    }

    pub(super) fn loaded(
        &mut self,
        now: Mono,
        at: At,
        term: Term,
        ended: bool,
        state: Option<KeyState>,
        effects: &mut Vec<Effect>,
    ) {
        let (acts, life) = (self.acts(now), self.life.clone());
        let former = self.sets.get(at.set).is_some_and(|set| set.is_former(at.generation));
        let Some(slot) = self.slot(at) else { return };
        let (true, Phase::Loading(of), Some(incarnation)) = (acts, &slot.phase, life) else { return };
        if *of != term {
            return;
        }
        if ended || former {
            // Somebody has ended this generation: what was agreed on is read anew.
            slot.closed |= ended;
            self.release(at, term, None, effects);
            self.sets.get_mut(at.set).into_iter().for_each(|set| set.next_ask = Mono(0));
            return;
        }
        slot.phase = Phase::Running { term, since: now };
        effects.push(Effect::Run { at, incarnation, term, state });
    }

    pub(super) fn ended(&mut self, now: Mono, at: At, term: Term, how: &How, effects: &mut Vec<Effect>) {
        let acts = self.acts(now);
        let Some(set) = self.sets.get(at.set) else { return };
        let budget = (set.spec.restarts, set.spec.window, set.spec.backoff);
        let hung = format!("no progress for {} s", set.spec.liveness.as_secs_f64());
        let Some(slot) = self.slot(at) else { return };
        let then = match &slot.phase {
            Phase::Running { term: of, .. } if *of == term => match how {
                How::Fenced => {
                    slot.last = Some(Last::new(now, LOST, "its fence was refused"));
                    Then::Forget
                }
                How::Itself => Then::Again("ended"),
                How::Failed(_) => Then::Again("failed"),
                How::Panicked(_) => Then::Again("panicked"),
                How::Stopped | How::Cut => Then::Again("cut off"),
            },
            Phase::Ending(ending) if ending.term == term => match (ending.released, &ending.then) {
                // It hung, and its claim was given up: a failure too, of which another node may know nothing.
                (true, Then::Again(why)) => {
                    slot.last = Some(Last::new(now, why, &hung));
                    let wait = slot.failed(now, budget.0, budget.1, budget.2).unwrap_or(budget.1);
                    slot.after = now.plus(wait);
                    Then::Forget
                }
                (true, _) => Then::Forget,
                (false, then) => then.clone(),
            },
            _ => return,
        };
        let text = match how {
            How::Failed(text) | How::Panicked(text) => bounded(text),
            _ if then == Then::Again(HUNG) => hung,
            _ => String::new(),
        };
        slot.phase = Phase::Idle;
        match then {
            _ if !acts => {}
            Then::Forget => {
                slot.after = slot.after.max(now.plus(Duration::from_millis(1)));
                self.look.insert(at);
            }
            Then::Release(to) => self.release(at, term, to, effects),
            Then::Close => self.close(at, term, effects),
            Then::Again(why) => self.again(now, at, term, why, text, effects),
        }
    }

    /// Started again after a while, under the claim that is held, or parked.
    fn again(&mut self, now: Mono, at: At, term: Term, why: &'static str, text: String, effects: &mut Vec<Effect>) {
        let Some(set) = self.sets.get(at.set) else { return };
        let (restarts, window, backoff) = (set.spec.restarts, set.spec.window, set.spec.backoff);
        let Some(slot) = self.slot(at) else { return };
        slot.last = Some(Last::new(now, why, &text));
        let said = match slot.failed(now, restarts, window, backoff) {
            Some(wait) => {
                slot.phase = Phase::Waiting { term, until: now.plus(wait) };
                Said::Restarts { why, text, wait }
            }
            None => {
                let seconds = window.as_secs_f64();
                let reason = format!("it {why} once more after {restarts} restarts in {seconds} s: {text}");
                let reason = reason.trim_end_matches([':', ' ']).to_owned();
                slot.phase = Phase::Parked { term, reason: reason.clone() };
                Said::Parked { text: reason }
            }
        };
        effects.push(Effect::Say { at, said });
    }

    pub(super) fn unpark(&mut self, now: Mono, at: At) {
        if let Some(slot) = self.slot(at)
            && let Phase::Parked { term, .. } = slot.phase
        {
            slot.failures.clear();
            slot.phase = Phase::Waiting { term, until: now };
        }
    }

    /// Marks of progress: who has not made any for too long hangs.
    pub(super) fn marks(&mut self, now: Mono, marks: &[(At, Term, Mono)], effects: &mut Vec<Effect>) {
        for (at, term, mark) in marks {
            let Some(liveness) = self.sets.get(at.set).map(|set| set.spec.liveness) else { continue };
            let runs = |slot: &mut super::Slot| matches!(&slot.phase, Phase::Running { term: of, .. } if of == term);
            let hangs = !liveness.is_zero() && now.since(*mark) >= liveness;
            if hangs && self.slot(*at).is_some_and(runs) {
                self.cut(now, *at, Then::Again(HUNG), effects);
            }
        }
    }

    /// When the next measure against a task that does not end is due.
    pub(super) fn next_deadline(&self, ending: &Ending) -> Option<Mono> {
        match ending.cut {
            None => Some(ending.since.plus(self.times.stop_grace)),
            Some(cut) if !ending.released && ending.then != Then::Forget => Some(cut.plus(self.times.cut_grace)),
            Some(cut) if !ending.killed => Some(cut.plus(self.times.kill_after)),
            Some(_) => None,
        }
    }

    /// Measures against tasks that were told to end and have not.
    pub(super) fn deadlines(&mut self, now: Mono, effects: &mut Vec<Effect>) {
        let (times, life, acts) = (self.times, self.life.clone(), self.acts(now));
        for at in self.all() {
            let Some(slot) = self.slot(at) else { continue };
            let Phase::Ending(ending) = &mut slot.phase else { continue };
            let term = ending.term;
            let Some(cut) = ending.cut else {
                if now >= ending.since.plus(times.stop_grace) {
                    ending.cut = Some(now);
                    effects.push(Effect::Cut { at, term });
                }
                continue;
            };
            let forgotten = ending.then == Then::Forget;
            if let (false, false, true, Some(incarnation)) = (ending.released, forgotten, acts, &life)
                && now >= cut.plus(times.cut_grace)
            {
                // Its writes are refused from then on, and another node may start it.
                ending.released = true;
                let to = None;
                effects.push(Effect::Release { at, incarnation: incarnation.clone(), term, to, floor: term });
            }
            if now >= cut.plus(times.kill_after) && !ending.killed {
                ending.killed = true;
                effects.push(Effect::Kill { at });
            }
        }
    }

    /// Gives a claim up, to `to` if that one lives.
    pub(super) fn release(&mut self, at: At, term: Term, to: Option<IncarnationId>, effects: &mut Vec<Effect>) {
        let Some(incarnation) = self.life.clone() else { return };
        let to = to.filter(|to| *to != incarnation && self.lives(to));
        let floor = self.floor(at);
        let Some(slot) = self.slot(at) else { return };
        slot.phase = Phase::Releasing(term);
        slot.handover = None;
        effects.push(Effect::Release { at, incarnation, term, to, floor });
    }

    /// Ends an index of a former generation for ever.
    pub(super) fn close(&mut self, at: At, term: Term, effects: &mut Vec<Effect>) {
        let Some(incarnation) = self.life.clone() else { return };
        let Some(slot) = self.slot(at) else { return };
        slot.phase = Phase::Releasing(term);
        effects.push(Effect::Close { at, incarnation, term });
    }
}
