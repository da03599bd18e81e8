//! Shards that are offered to this node: the target's side of moves, around [`Target`].

use std::{collections::BTreeMap, sync::Arc};

use tenure_shared::{IncarnationId, ShardId};
use tokio::sync::oneshot;

use super::{
    driver::{Shared, Word},
    state::{Target, TargetEffect, TargetEvent},
};
use crate::{
    link::{Address, Attempt, Handoff, Package, RefuseReason, Versions},
    room::host::Space,
    runtime::{Mono, faults, tasks::Kind},
};

/// All shards that were ever offered; bounded by shards.
pub(super) struct Coming {
    shared: Arc<Shared>,
    shards: BTreeMap<ShardId, One>,
}

struct One {
    target: Target,
    /// Where who offered it is reached.
    reply: Address,
    /// What was offered and accepted will take, until it is being made.
    promise: Space,
    /// What is being made or stands ready; dropped, the making ends.
    made: Option<(u64, oneshot::Sender<()>)>,
}

impl Coming {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, shards: BTreeMap::new() }
    }

    /// When something is to be looked at.
    pub(super) fn due(&self) -> Option<Mono> {
        self.shards.values().filter_map(|one| one.target.due()).min()
    }

    /// Time passed, or what is owned changed.
    pub(super) fn look(&mut self, now: Mono) {
        let busy: Vec<ShardId> =
            self.shards.iter().filter(|(_, one)| one.target.is_busy()).map(|(shard, _)| *shard).collect();
        for shard in busy {
            let held = self.shared.ownership.fence(shard).is_some();
            self.step(now, shard, if held { TargetEvent::Held } else { TargetEvent::Tick });
        }
    }

    pub(super) fn heard(&mut self, now: Mono, from: IncarnationId, reply: Address, attempt: Attempt, said: Handoff) {
        let shard = attempt.shard;
        // There is no such shard, or nobody can have it under such a term yet: a wild number must not outrank every attempt to come. Nothing
        // is remembered of it.
        let ownership = &self.shared.ownership;
        if shard.0 >= crate::link::Directory::shards(ownership) || attempt.term > ownership.highest_term() {
            tracing::debug!(%shard, term = %attempt.term, %from, "an attempt of a shard or a term that cannot be");
            metrics::counter!("tenure_handoff_strays_total").increment(1);
            return;
        }
        let mut promise = Space::default();
        let event = match said {
            Handoff::Offer { versions, rooms, bytes } => {
                promise =
                    Space { shards: 1, rooms: rooms as usize, bytes: usize::try_from(bytes).unwrap_or(usize::MAX) };
                let answer = self.answer(shard, &versions, promise);
                TargetEvent::Offer(from, attempt, answer)
            }
            said => TargetEvent::Heard(from, attempt, said),
        };
        let times = self.shared.times;
        let one = self.shards.entry(shard).or_insert_with(|| One {
            target: Target::new(times),
            reply: reply.clone(),
            promise,
            made: None,
        });
        if matches!(event, TargetEvent::Offer(..) | TargetEvent::Heard(_, _, Handoff::Package(_))) {
            one.reply = reply;
            one.promise = promise;
        }
        self.step(now, shard, event);
    }

    pub(super) fn made(&mut self, now: Mono, attempt: Attempt, made: Result<u64, (RefuseReason, String)>) {
        self.step(now, attempt.shard, TargetEvent::Made(attempt, made));
    }

    fn answer(&self, shard: ShardId, versions: &Versions, space: Space) -> Result<(), (RefuseReason, String)> {
        let shared = &self.shared;
        if shared.drains() {
            return Err((RefuseReason::Draining, "it gives its own shards away".to_owned()));
        }
        if shared.ownership.fence(shard).is_some() {
            return Err((RefuseReason::NotServing, format!("it holds shard {shard} itself")));
        }
        shared.hands.reads(versions).map_err(|text| (RefuseReason::Unreadable, text))?;
        // Whatever would be refused when the rooms stand still is refused now, while they tick.
        shared.hands.takes(shard, space + self.promised(shard))
    }

    /// What other shards will take whose offers were accepted, and whose packages have not come yet.
    fn promised(&self, but: ShardId) -> Space {
        let waiting =
            self.shards.iter().filter(|(shard, one)| **shard != but && one.target.is_busy() && one.made.is_none());
        waiting.fold(Space::default(), |all, (_, one)| all + one.promise)
    }

    fn step(&mut self, now: Mono, shard: ShardId, event: TargetEvent) {
        let Some(one) = self.shards.get_mut(&shard) else { return };
        let held = event == TargetEvent::Held;
        for effect in one.target.on(now, event) {
            match effect {
                TargetEffect::Say(to, attempt, said) => {
                    let point = match said {
                        Handoff::Ready => Some("handoff.target.ready"),
                        Handoff::Prepared { .. } => Some("handoff.target.prepared"),
                        _ => None,
                    };
                    // Unheard it runs into the source's deadline.
                    let _reached = self.shared.say((&to, &one.reply), attempt, said);
                    point.into_iter().for_each(faults::said);
                }
                TargetEffect::Make(attempt, package) => {
                    let (keep, dropped) = oneshot::channel();
                    one.made = Some((package.checksum(), keep));
                    make(&self.shared, attempt, package, dropped);
                }
                TargetEffect::Drop => {
                    if let Some((checksum, _)) = one.made.take() {
                        self.shared.hands.drop_prepared(shard, checksum);
                    }
                }
                TargetEffect::Expect(until) => self.shared.ownership.expect(shard, until),
                TargetEffect::Claim(term, checksum) => {
                    faults::point("handoff.target.claimed");
                    if let Some(own) = self.shared.ownership.incarnation() {
                        self.shared.ownership.transferred(shard, &own, term, checksum);
                    }
                }
            }
        }
        if held {
            one.made = None;
        }
    }
}

fn make(shared: &Arc<Shared>, attempt: Attempt, package: Package, dropped: oneshot::Receiver<()>) {
    let inner = shared.clone();
    shared.tasks.spawn("prepare shard", Kind::Job, async move {
        let began = inner.clock.now();
        let made = tokio::select! {
            biased;
            // Nobody is to hear of it.
            _ = dropped => return,
            made = inner.hands.prepare(attempt.shard, &package) => made,
        };
        let took = inner.clock.now().since(began);
        metrics::histogram!("tenure_handoff_prepare_seconds").record(took.as_secs_f64());
        faults::point("handoff.target.made");
        inner.inbox.tell(Word::Made(attempt, made)).await;
    });
}
