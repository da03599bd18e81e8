//! One attempt to give a shard away: the source's side of a move, around [`Source`].

use std::sync::Arc;

use tenure_shared::{IncarnationId, RoomId};

use super::{
    driver::{Shared, Word},
    state::{End, Source, SourceEffect, SourceEvent, Step, Why},
};
use crate::{
    link::{Address, Attempt, Handoff},
    ownership::Transfer,
    room::host::Frozen,
    runtime::{Mono, faults, mailbox},
    store::Fence,
};

/// What a claim names that was given without a package.
const NO_PACKAGE: u64 = 0;

/// What one attempt needs.
pub(super) struct Leaving {
    pub(super) shared: Arc<Shared>,
    pub(super) fence: Fence,
    /// Who is to have it, and where that one is reached.
    pub(super) target: (IncarnationId, Address),
    pub(super) attempt: Attempt,
    /// Without a word to the target.
    pub(super) plain: bool,
    pub(super) heard: mailbox::Receiver<SourceEvent>,
}

/// How it ended.
pub(super) struct Outcome {
    pub(super) attempt: Attempt,
    pub(super) fence: Fence,
    pub(super) to: IncarnationId,
    pub(super) moved: bool,
    /// Its rooms stood still for it.
    pub(super) still: bool,
    /// Why the shard stays; `None` also if ownership decides.
    pub(super) kept: Option<Why>,
}

impl Outcome {
    /// For metrics.
    pub(super) fn word(&self) -> &'static str {
        match self.kept {
            None if self.moved => "moved",
            None => "doubt",
            Some(Why::Refused(_)) => "refused",
            Some(Why::Late(_)) => "late",
            Some(Why::Unreachable) => "unreachable",
            Some(Why::Lost) => "not_ready",
            Some(Why::Differs) => "differs",
        }
    }
}

/// Gives the shard away, or not, and tells the driver.
pub(super) async fn run(leaving: Leaving) {
    let (shared, attempt, fence) = (leaving.shared.clone(), leaving.attempt, leaving.fence.clone());
    let to = leaving.target.0.clone();
    let mut attempting = Attempting::new(leaving);
    let Some(end) = attempting.run().await else { return };
    let kept = match end {
        End::Kept(why) => Some(why),
        End::Moved | End::Doubted => None,
    };
    let (moved, still) = (end == End::Moved, attempting.stopped.is_some());
    shared.inbox.tell(Word::Left(Box::new(Outcome { attempt, fence, to, moved, still, kept }))).await;
}

struct Attempting {
    leaving: Leaving,
    source: Source,
    frozen: Option<Frozen>,
    /// When the step began, and when the rooms stopped.
    began: Mono,
    stopped: Option<Mono>,
}

impl Attempting {
    fn new(leaving: Leaving) -> Self {
        let now = leaving.shared.clock.now();
        let make = if leaving.plain { Source::plain } else { Source::offer };
        let source = make(leaving.attempt, leaving.shared.times, now);
        Self { leaving, source, frozen: None, began: now, stopped: None }
    }

    /// `None` when the node stops.
    async fn run(&mut self) -> Option<End> {
        let mut next = if self.leaving.plain { self.freeze() } else { self.offer() };
        loop {
            let event = match next.take() {
                Some(event) => event,
                None => self.wait().await?,
            };
            let (now, before) = (self.leaving.shared.clock.now(), self.source.step());
            let effects = self.source.on(now, event);
            if before != self.source.step() {
                let took = now.since(self.began);
                metrics::histogram!("tenure_handoff_step_seconds", "step" => before.name()).record(took.as_secs_f64());
                self.began = now;
            }
            for effect in effects {
                next = self.carry_out(effect).await.or(next);
            }
            if let Step::Ended(end) = self.source.step() {
                self.ended(end);
                return Some(end);
            }
        }
    }

    fn offer(&self) -> Option<SourceEvent> {
        faults::point("handoff.source.offering");
        let shared = &self.leaving.shared;
        let shard = self.leaving.attempt.shard;
        let rooms = u32::try_from(shared.hands.rooms(shard)).unwrap_or(u32::MAX);
        let bytes = shared.hands.space(shard).bytes as u64;
        let offer = Handoff::Offer { versions: shared.hands.versions(), rooms, bytes };
        (!self.say(offer)).then_some(SourceEvent::Unreachable)
    }

    fn say(&self, step: Handoff) -> bool {
        let (to, address) = &self.leaving.target;
        self.leaving.shared.say((to, address), self.leaving.attempt, step)
    }

    fn freeze(&mut self) -> Option<SourceEvent> {
        self.stopped = Some(self.leaving.shared.clock.now());
        self.frozen = self.leaving.shared.hands.freeze(&self.leaving.fence);
        faults::point("handoff.source.frozen");
        self.frozen.is_none().then_some(SourceEvent::Lost)
    }

    async fn wait(&mut self) -> Option<SourceEvent> {
        let Leaving { shared, fence, attempt, heard, .. } = &mut self.leaving;
        let (clock, ownership) = (shared.clock.clone(), shared.ownership.clone());
        let due = self.source.due().unwrap_or(Mono(0));
        let freezing = self.source.step() == Step::Freezing;
        let stored = async {
            match self.frozen.as_mut().filter(|_| freezing) {
                Some(frozen) => frozen.stored().await,
                None => std::future::pending().await,
            }
        };
        // Refused by the store, or lapsed: whoever is asked now is asked in vain.
        let lost = async {
            let mut changes = ownership.changes();
            while ownership.fence(attempt.shard).as_ref() == Some(fence) {
                if changes.changed().await.is_err() {
                    return;
                }
            }
        };
        let event = tokio::select! {
            biased;
            () = shared.tasks.shutdown().stopped() => return None,
            stored = stored => {
                faults::point("handoff.source.stored");
                stored.map_or(SourceEvent::Lost, SourceEvent::Stored)
            }
            said = heard.recv() => said?,
            () = lost => SourceEvent::Lost,
            () = clock.sleep_until(due) => SourceEvent::Tick,
        };
        Some(event)
    }

    /// What happened by it, if that is known at once.
    async fn carry_out(&mut self, effect: SourceEffect) -> Option<SourceEvent> {
        match effect {
            SourceEffect::Say(step) => {
                let last = matches!(step, Handoff::Abort | Handoff::Transferred { .. });
                let point = match step {
                    Handoff::Package(_) => Some("handoff.source.packed"),
                    Handoff::Transferred { .. } => Some("handoff.source.told"),
                    _ => None,
                };
                if !self.say(step) && !last {
                    return Some(SourceEvent::Unreachable);
                }
                point.into_iter().for_each(faults::said);
            }
            SourceEffect::Freeze => {
                return self.freeze();
            }
            SourceEffect::Transfer(package) => {
                faults::point("handoff.source.transferring");
                return Some(self.transfer(package.checksum(), package.manifest()).await);
            }
            // The target loads everything, and hears of it from the claim.
            SourceEffect::Give => return Some(self.transfer(NO_PACKAGE, Vec::new()).await),
            SourceEffect::Thaw => self.frozen.take().into_iter().for_each(Frozen::thaw),
            SourceEffect::Doubt => self.frozen.take().into_iter().for_each(Frozen::doubted),
            SourceEffect::Moved => {
                if let Some(frozen) = self.frozen.take() {
                    frozen.moved(Some(self.leaving.target.1.clone()));
                }
            }
        }
        None
    }

    /// Asks the store for it, to this target and no other: whom gateways are told of is who is in the claim. With or without a package there
    /// is the same deadline, and behind it the same doubt.
    async fn transfer(&mut self, package: u64, manifest: Vec<(RoomId, u64)>) -> SourceEvent {
        // From here on only a new term decides, also if this task is dropped (F1).
        if let Some(frozen) = &mut self.frozen {
            frozen.asking();
        }
        let Leaving { shared, fence, target: (to, _), .. } = &self.leaving;
        let (clock, due) = (shared.clock.clone(), self.source.due().unwrap_or(Mono(0)));
        tokio::select! {
            biased;
            outcome = shared.ownership.transfer(fence, to, package, manifest) => match outcome {
                Transfer::Done(term) => {
                    faults::point("handoff.source.transferred");
                    SourceEvent::Given((package != NO_PACKAGE).then_some(term))
                }
                Transfer::Doubt => SourceEvent::Doubt,
            },
            () = clock.sleep_until(due) => SourceEvent::Doubt,
        }
    }

    fn ended(&self, end: End) {
        let (shared, attempt) = (&self.leaving.shared, self.leaving.attempt);
        let still = self.stopped.map(|at| shared.clock.now().since(at));
        if let Some(still) = still {
            metrics::histogram!("tenure_handoff_still_seconds").record(still.as_secs_f64());
        }
        let (shard, number) = (attempt.shard, attempt.number);
        let (to, ms) = (self.leaving.target.0.as_str(), still.map(|still| still.as_millis()));
        match end {
            End::Moved => tracing::debug!(%shard, term = %attempt.term, number, to, ?ms, "a shard was handed over"),
            End::Doubted => {
                tracing::warn!(%shard, term = %attempt.term, number, to, "it is open whether a shard was handed over: its claim is asked for anew");
            }
            End::Kept(Why::Lost | Why::Refused(_)) => {
                tracing::debug!(%shard, term = %attempt.term, number, to, ?end, "a shard was not handed over");
            }
            End::Kept(why) => {
                tracing::warn!(%shard, term = %attempt.term, number, to, ?why, "a shard was not handed over: it goes on here, and is tried again");
            }
        }
    }
}
