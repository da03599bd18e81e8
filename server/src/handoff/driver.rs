//! [`Handoff`]: begins what placement has elsewhere, hears what other nodes say, and hands both to the moves under way.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tenure_shared::{IncarnationId, ShardId};

use super::{
    coming::Coming,
    inbox::{Inbox, Words, inbox},
    leaving::{self, Leaving, Outcome},
    rests::{Rests, Stayed},
    state::{SourceEvent, Times, Why},
};
use crate::{
    link::{Address, Attempt, Handoff as Step, PeerBody, PeerInbox, PeerMessage, Peers, RefuseReason},
    ownership::Ownership,
    room::host::Hands,
    runtime::{Clock, Mono, Tasks, mailbox, tasks::Kind},
    store::Fence,
};

/// Most words of a target that wait for one move: each step has one.
const WORDS: usize = 16;

/// What a handoff is made of.
pub struct HandoffParts {
    /// The rooms of this node.
    pub hands: Hands,
    /// What it owns.
    pub ownership: Ownership,
    /// The way to other nodes; `None` where there are none: then shards are given away without a word to their next owner.
    pub peers: Option<Arc<dyn Peers>>,
    /// Where this node's links are reached.
    pub own: Address,
    /// Time.
    pub clock: Clock,
    /// Where its tasks run.
    pub tasks: Tasks,
    /// Deadlines.
    pub times: Times,
}

/// What all moves of a node share.
pub(super) struct Shared {
    pub(super) hands: Hands,
    pub(super) ownership: Ownership,
    pub(super) peers: Option<Arc<dyn Peers>>,
    pub(super) own: Address,
    pub(super) clock: Clock,
    pub(super) tasks: Tasks,
    pub(super) times: Times,
    pub(super) inbox: Inbox,
    moving: AtomicUsize,
}

impl Shared {
    /// Says something to another node; `false` if it cannot be reached now.
    pub(super) fn say(&self, to: (&IncarnationId, &Address), attempt: Attempt, step: Step) -> bool {
        let (Some(peers), Some(from)) = (&self.peers, self.ownership.incarnation()) else { return false };
        let body = PeerBody::Handoff(attempt, step);
        let message = PeerMessage { from, reply: self.own.clone(), to: to.0.clone(), body };
        peers.send(to.1, message).is_ok()
    }

    /// Where a member's links are reached.
    fn address(&self, member: &IncarnationId) -> Option<Address> {
        let view = self.ownership.view();
        let member = view.members.iter().find(|known| known.incarnation == *member)?;
        Some(Address::from(member.info.link.as_str()))
    }

    /// Whether this node gives its shards away. Not what members see: one that does not know it yet would give back what it just got.
    pub(super) fn drains(&self) -> bool {
        self.ownership.drains()
    }
}

/// What the driver hears.
pub(super) enum Word {
    /// From another node.
    Peer(PeerMessage),
    /// Worlds are ready, or cannot be made.
    Made(Attempt, Result<u64, (RefuseReason, String)>),
    /// An attempt to give a shard away has ended.
    Left(Box<Outcome>),
}

/// Moves shards of this node to others, and of others to this one. It ends with the tasks it runs in.
pub struct Handoff(Arc<Shared>);

impl Handoff {
    /// Takes the giving away of shards into its hands.
    pub fn start(parts: HandoffParts) -> Arc<Self> {
        let HandoffParts { hands, ownership, peers, own, clock, tasks, times } = parts;
        let (inbox, words) = inbox();
        let moving = AtomicUsize::new(0);
        let shared = Arc::new(Shared { hands, ownership, peers, own, clock, tasks, times, inbox, moving });
        let driver = Driver {
            shared: shared.clone(),
            coming: Coming::new(shared.clone()),
            leaving: BTreeMap::new(),
            numbers: BTreeMap::new(),
            rests: Rests::default(),
            turn: None,
            drains: false,
            moved: 0,
        };
        // Nobody else gives shards away: without it a drain would never end.
        shared.tasks.spawn("handoff", Kind::Essential, driver.run(words));
        Arc::new(Self(shared))
    }

    /// Shards that are being given away now.
    pub fn moving(&self) -> usize {
        self.0.moving.load(Ordering::Relaxed)
    }
}

impl PeerInbox for Handoff {
    /// A message that finds no place is counted by its mailbox; whoever waits for an answer has a deadline.
    fn take(&self, message: PeerMessage) {
        let _has_place = self.0.inbox.take(message);
    }
}

impl std::fmt::Debug for Handoff {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handoff").field("moving", &self.moving()).finish_non_exhaustive()
    }
}

struct Driver {
    shared: Arc<Shared>,
    coming: Coming,
    // Bounded by `handoff.concurrent`, as `Ownership::gives` is.
    leaving: BTreeMap<ShardId, Talk>,
    // Bounded by shards.
    numbers: BTreeMap<ShardId, u64>,
    rests: Rests,
    /// When those that rest make place for others again.
    turn: Option<Mono>,
    /// The node was told to drain, and the rests of before are over.
    drains: bool,
    moved: u64,
}

/// A move under way: who is to have the shard, and the way to the task that gives it.
struct Talk {
    with: IncarnationId,
    attempt: Attempt,
    words: mailbox::Sender<SourceEvent>,
    /// Since when the task is known to have ended.
    ended: Option<Mono>,
}

impl Driver {
    async fn run(mut self, mut words: Words) {
        let mut changes = self.shared.ownership.changes();
        let shutdown = self.shared.tasks.shutdown().clone();
        loop {
            changes.seen();
            let now = self.shared.clock.now();
            self.coming.look(now);
            self.begin(now);
            let next = self.rests.due(now).into_iter().chain(self.coming.due()).chain(self.turn).min();
            let alarm = async {
                match next {
                    Some(next) => self.shared.clock.sleep_until(next).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = shutdown.stopped() => return,
                word = words.next() => match word {
                    Some(word) => self.heard(word),
                    None => return,
                },
                changed = changes.changed() => if changed.is_err() {
                    // Ownership has ended: there is nothing to move any more.
                    return shutdown.stopped().await;
                },
                () = alarm => {}
            }
        }
    }

    fn heard(&mut self, word: Word) {
        let now = self.shared.clock.now();
        match word {
            Word::Peer(message) => self.message(now, message),
            Word::Made(attempt, made) => self.coming.made(now, attempt, made),
            Word::Left(outcome) => self.left(now, &outcome),
        }
    }

    /// What is for another life of this node, or from one that is nothing to do with a move, changes nothing (F3).
    fn message(&mut self, now: Mono, message: PeerMessage) {
        let PeerBody::Handoff(attempt, step) = message.body else { return };
        if self.shared.ownership.incarnation().as_ref() != Some(&message.to) {
            metrics::counter!("tenure_handoff_strays_total").increment(1);
            return;
        }
        match step {
            Step::Ready | Step::Refuse { .. } | Step::Prepared { .. } => {
                if let Step::Refuse { reason, text } = &step {
                    tracing::info!(shard = %attempt.shard, from = %message.from, ?reason, text, "a node does not take a shard");
                }
                let Some(talk) = self.leaving.get(&attempt.shard).filter(|talk| talk.with == message.from) else {
                    // Of an attempt that is over, or from one that was not asked: also an earlier life of the one that was (F3).
                    metrics::counter!("tenure_handoff_strays_total").increment(1);
                    return;
                };
                // The step that it does not hear of has a deadline.
                drop(talk.words.try_send(SourceEvent::Heard(attempt, step)));
            }
            Step::Offer { .. } | Step::Package(_) | Step::Transferred { .. } | Step::Abort => {
                self.coming.heard(now, message.from, message.reply, attempt, step);
            }
        }
    }

    /// Begins to give away what placement has elsewhere, unless it is under way or rests.
    fn begin(&mut self, now: Mono) {
        let step = self.shared.times.step;
        self.turn = None;
        self.leaving.retain(|_, talk| {
            if !talk.words.is_closed() {
                return true;
            }
            // Word of its end waits behind others. One that ended without, by a fault, keeps its place for a step.
            let until = talk.ended.get_or_insert(now).plus(step);
            self.turn = Some(until);
            now < until
        });
        if !self.drains && self.shared.drains() {
            self.drains = true;
            self.rests.end();
        }
        for (shard, to) in self.shared.ownership.gives() {
            let Some(to) = to.filter(|_| !self.leaving.contains_key(&shard)) else { continue };
            let Some(fence) = self.shared.ownership.fence(shard) else { continue };
            if self.rests.rests(now, shard, &to) {
                // It keeps no place from one that could go, however long it rests.
                self.shared.ownership.kept(&fence);
                self.turn = Some(now.plus(step));
            } else {
                self.leave(now, shard, fence, to);
            }
        }
    }

    fn leave(&mut self, now: Mono, shard: ShardId, fence: Fence, to: IncarnationId) {
        // Nobody is asked to make place for what could not go: it is still being taken over here, or its target is just gone.
        let address = self.shared.address(&to).filter(|_| self.shared.hands.is_ready(shard));
        let Some(address) = address else {
            let stayed = Stayed { why: Some(Why::Lost), still: false, drains: self.shared.drains() };
            self.rests.stayed(now, shard, &to, self.shared.times.step, stayed);
            return self.shared.ownership.kept(&fence);
        };
        let deaf = self.rests.is_deaf(shard, &to) && self.shared.drains();
        let plain = deaf || self.shared.peers.is_none();
        let number = self.numbers.entry(shard).or_insert(0);
        *number += 1;
        let attempt = Attempt { shard, term: fence.term(), number: *number };
        let (words, heard) = mailbox::channel("handoff_leaving", WORDS);
        self.leaving.insert(shard, Talk { with: to.clone(), attempt, words, ended: None });
        self.count();
        let leaving = Leaving { shared: self.shared.clone(), fence, target: (to, address), attempt, plain, heard };
        self.shared.tasks.spawn("leave shard", Kind::Job, leaving::run(leaving));
    }

    fn left(&mut self, now: Mono, outcome: &Outcome) {
        let shard = outcome.attempt.shard;
        if self.leaving.get(&shard).is_some_and(|talk| talk.attempt == outcome.attempt) {
            self.leaving.remove(&shard);
        }
        self.count();
        metrics::counter!("tenure_handoffs_total", "outcome" => outcome.word()).increment(1);
        if outcome.moved {
            self.rests.moved(shard);
            self.moved += 1;
        } else {
            let stayed = Stayed { why: outcome.kept, still: outcome.still, drains: self.shared.drains() };
            self.rests.stayed(now, shard, &outcome.to, self.shared.times.step, stayed);
        }
        if outcome.kept.is_some() {
            // Placement has it elsewhere still: it is tried again, behind others.
            self.shared.ownership.kept(&outcome.fence);
        }
        // One line for a drain or a new node, however many shards moved.
        if self.leaving.is_empty() && self.moved > 0 && self.shared.ownership.gives().is_empty() {
            tracing::info!(shards = std::mem::take(&mut self.moved), "shards were handed over");
        }
    }

    fn count(&self) {
        self.shared.moving.store(self.leaving.len(), Ordering::Relaxed);
        metrics::gauge!("tenure_handoffs_moving").set(self.leaving.len() as f64);
    }
}
