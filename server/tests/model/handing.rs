//! Moves in a modelled cluster: the real machines of the source and the target around the real ownership, and what their drivers do. The
//! world is the row of what was done in it; messages between nodes stay on their way for as long as they like.

use tenure::{
    handoff::state::{Source, SourceEffect, SourceEvent, Step, Target, TargetEffect, TargetEvent, Times},
    link::{Attempt, Handoff, Package, PackedRoom, RefuseReason, Versions},
    ownership::model_check::Event,
};
use tenure_shared::{IncarnationId, Term};

use super::{
    cluster::{Action, Cluster, State},
    machine::{SHARD, STEP, mono},
    parts::STALE,
    room::{self, Room},
};

/// A step of a move ends with the next step of time; worlds that stand ready outlive a lease.
const TIMES: Times = Times { step: STEP, prepared: STEP.saturating_mul(4) };

/// A message between nodes.
#[derive(Clone, Debug)]
pub struct Post {
    pub from: IncarnationId,
    pub to: IncarnationId,
    pub attempt: Attempt,
    pub said: Handoff,
}

/// What a node knows of moves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Hand {
    /// The attempt under way, and to whom.
    pub source: Option<(Source, IncarnationId)>,
    pub target: Option<Target>,
    /// Worlds that stand ready, and the checksum of what they were made of.
    pub ready: Option<(u64, Vec<u8>)>,
    pub number: u8,
    /// The last term that a transfer came to.
    pub given: Option<Term>,
    /// What the careless target remembers of a claim that it read: its package.
    pub promised: Option<u64>,
}

/// What is stored when a room with this in it stands still.
fn package(done: &[u8]) -> Package {
    let hash = done.iter().fold(7, |hash: u64, one| hash.wrapping_mul(31).wrapping_add(u64::from(*one)));
    Package { rooms: vec![PackedRoom { room: room::id(), version: done.len() as u64, hash, waited: 0 }] }
}

impl Cluster {
    fn incarnation(&self, state: &State, node: u8) -> Option<IncarnationId> {
        self.machines.view(state.nodes[usize::from(node)].machine?).incarnation
    }

    fn send(&self, state: &mut State, node: u8, to: &IncarnationId, attempt: Attempt, said: Handoff) {
        let Some(from) = self.incarnation(state, node) else { return };
        // Two nodes: the other one's process gets it, whichever life it is in.
        let post = (1 - node, self.posts.put_debug(Post { from, to: to.clone(), attempt, said }));
        let at = state.posts.partition_point(|other| *other < post);
        state.posts.insert(at, post);
    }

    /// A heartbeat in which nothing goes wrong; then the move begins, if it may, and its first messages arrive. Whether it did.
    fn begin_move(&self, state: &mut State, messages: usize) -> bool {
        self.serve_all(state);
        self.advance(state);
        for node in [1, 0] {
            self.event(state, node, Event::Tick);
            self.serve_all(state);
        }
        let may = self.may_hand(state, 0);
        if may {
            *state = self.next(state, Action::Hand(0));
            for _ in 0..messages {
                *state = self.next(state, Action::Deliver(0));
            }
        }
        may
    }

    /// A move that failed: the answer of its target, whose worlds stand ready, and the word of its end got lost.
    pub fn forget_worlds(&self, state: &mut State) {
        while state.left.hands > 0 {
            // Offer, its answer, and the package.
            if self.begin_move(state, 3) {
                state.posts.clear();
                self.advance(state);
                self.hand_tick(state, 0);
                state.posts.clear();
            }
        }
    }

    /// A move that the store has carried out: the word of it got lost, and its target falls asleep with the claim before its eyes. The source
    /// comes back as another life, and takes the shard over when the lease of the target has lapsed.
    pub fn take_between(&self, state: &mut State) {
        while state.left.hands > 0 {
            // Offer, its answer, the package, and its answer.
            if self.begin_move(state, 4) {
                self.serve_all(state);
                state.posts.clear();
            }
        }
        self.advance(state);
        self.event(state, 1, Event::Tick);
        // What it asks for never arrives.
        while let Some(index) = state.flights.iter().position(|flight| flight.awaited) {
            self.lose(state, u8::try_from(index).expect("few flights"));
        }
        state.flights.clear();
        self.end(state, 0);
        *state = self.next(state, Action::Restart(0));
        for _ in 0..12 {
            self.event(state, 0, Event::Tick);
            self.serve_all(state);
            if state.nodes[0].acting.is_some() {
                break;
            }
            self.advance(state);
        }
        assert!(
            state.nodes[0].acting.is_some() && state.nodes[1].hand.ready.is_some(),
            "not as it was to be: {state:?}"
        );
        self.load(state, 0);
        let hand = &mut state.nodes[1].hand;
        hand.promised = hand.ready.as_ref().filter(|_| self.careless.keeps_package).map(|(package, _)| *package);
    }

    /// The careless source: the claim is still as it was, so the transfer did not happen.
    pub fn thaws(&self, state: &mut State, node: u8, event: &Event) -> bool {
        let Event::NotGiven { term, .. } = event else { return false };
        let own = self.stores.claim(state.rows, SHARD).is_some_and(|(_, at)| at == *term);
        let this = &mut state.nodes[usize::from(node)];
        if !self.careless.thaws_after_transfer || !own {
            return false;
        }
        this.hand.source = None;
        this.room.iter_mut().for_each(|room| room.frozen = false);
        true
    }

    /// Whether the node may begin an attempt.
    pub fn may_hand(&self, state: &State, node: u8) -> bool {
        let this = &state.nodes[usize::from(node)];
        let gives = this.machine.is_some_and(|machine| self.machines.view(machine).gives.is_some());
        let ticks = this.acting.is_some() && this.acting == this.room.as_ref().map(|room| room.term);
        state.left.hands > 0 && gives && ticks && this.hand.source.is_none()
    }

    /// Begins an attempt with an offer.
    pub fn hand(&self, state: &mut State, node: u8) {
        let now = mono(state.now);
        let this = &mut state.nodes[usize::from(node)];
        let (Some(machine), Some(term)) = (this.machine, this.acting) else { return };
        let Some(to) = self.machines.view(machine).gives else { return };
        this.hand.number += 1;
        let attempt = Attempt { shard: SHARD, term: Term(term), number: u64::from(this.hand.number) };
        this.hand.source = Some((Source::offer(attempt, TIMES, now), to.clone()));
        self.send(state, node, &to, attempt, Handoff::Offer { versions: Versions::default(), rooms: 1, bytes: 1 });
    }

    /// Whether a deadline of a move has passed.
    pub fn hand_due(&self, state: &State, node: u8) -> bool {
        let hand = &state.nodes[usize::from(node)].hand;
        let source = hand.source.as_ref().and_then(|(source, _)| source.due());
        let target = hand.target.as_ref().and_then(Target::due);
        source.into_iter().chain(target).any(|due| due <= mono(state.now))
    }

    pub fn hand_tick(&self, state: &mut State, node: u8) {
        self.source(state, node, SourceEvent::Tick);
        self.target(state, node, TargetEvent::Tick);
    }

    /// A message arrives.
    pub fn deliver(&self, state: &mut State, post: (u8, u32)) {
        let (node, Post { from, to, attempt, said }) = (post.0, (*self.posts.get(post.1)).clone());
        let Some(own) = self.incarnation(state, node) else { return };
        if own != to && !self.careless.strays {
            return;
        }
        match said {
            Handoff::Ready | Handoff::Refuse { .. } | Handoff::Prepared { .. } => {
                self.source(state, node, SourceEvent::Heard(attempt, said));
            }
            Handoff::Offer { .. } => {
                let answer = match state.nodes[usize::from(node)].acting {
                    Some(_) => Err((RefuseReason::NotServing, String::new())),
                    None => Ok(()),
                };
                self.target(state, node, TargetEvent::Offer(from, attempt, answer));
            }
            said => self.target(state, node, TargetEvent::Heard(from, attempt, said)),
        }
    }

    fn source(&self, state: &mut State, node: u8, event: SourceEvent) {
        let Some((source, to)) = &mut state.nodes[usize::from(node)].hand.source else { return };
        let (attempt, to) = (source.attempt(), to.clone());
        let effects = source.on(mono(state.now), event);
        if matches!(source.step(), Step::Ended(_)) {
            state.nodes[usize::from(node)].hand.source = None;
        }
        for effect in effects {
            let this = &mut state.nodes[usize::from(node)];
            match effect {
                SourceEffect::Say(said) => self.send(state, node, &to, attempt, said),
                SourceEffect::Freeze => match this.room.as_mut().filter(|room| room.term == attempt.term.0) {
                    Some(room) => room.frozen = true,
                    None => self.source(state, node, SourceEvent::Lost),
                },
                SourceEffect::Transfer(package) => {
                    let (package, manifest) = (package.checksum(), package.manifest());
                    let to = to.clone();
                    this.hand.given = None;
                    let transfer = Event::Transfer { shard: SHARD, term: attempt.term, to, package, manifest };
                    self.event(state, node, transfer);
                }
                SourceEffect::Thaw => this.room.iter_mut().for_each(|room| room.frozen = false),
                // The room stands still until `room::follow` hears of a new term, or of the loss.
                SourceEffect::Doubt if !self.careless.thaws_after_transfer => {}
                SourceEffect::Doubt => this.room.iter_mut().for_each(|room| room.frozen = false),
                SourceEffect::Moved => this.room = None,
                SourceEffect::Give => panic!("nothing is given without a package here"),
            }
        }
        self.follow_hand(state, node);
    }

    fn target(&self, state: &mut State, node: u8, event: TargetEvent) {
        let hand = &mut state.nodes[usize::from(node)].hand;
        let effects = hand.target.get_or_insert_with(|| Target::new(TIMES)).on(mono(state.now), event);
        for effect in effects {
            match effect {
                TargetEffect::Say(to, attempt, said) => self.send(state, node, &to, attempt, said),
                TargetEffect::Make(attempt, wanted) => {
                    let done = room::stored(self, state.rows).to_vec();
                    let (is, wanted) = (package(&done).checksum(), wanted.checksum());
                    let made = if is == wanted { Ok(is) } else { Err((RefuseReason::NotStored, String::new())) };
                    if made.is_ok() {
                        state.nodes[usize::from(node)].hand.ready = Some((is, done));
                    }
                    self.target(state, node, TargetEvent::Made(attempt, made));
                    let own = self.incarnation(state, node);
                    if let (true, Some(incarnation)) = (self.careless.eager && is == wanted, own) {
                        let term = Term(attempt.term.0 + 1);
                        self.event(state, node, Event::Transferred { shard: SHARD, incarnation, term, package: is });
                    }
                }
                TargetEffect::Drop => state.nodes[usize::from(node)].hand.ready = None,
                TargetEffect::Expect(until) => self.event(state, node, Event::Expect { shard: SHARD, until }),
                TargetEffect::Claim(term, package) => {
                    let Some(incarnation) = self.incarnation(state, node) else { return };
                    self.event(state, node, Event::Transferred { shard: SHARD, incarnation, term, package });
                }
            }
        }
    }

    /// Ownership or the room said something new: what moves make of it.
    pub fn follow_hand(&self, state: &mut State, node: u8) {
        let this = &state.nodes[usize::from(node)];
        let (Some(machine), hand) = (this.machine, &this.hand) else { return };
        let view = self.machines.view(machine);
        if let Some((source, _)) = &hand.source {
            let term = source.attempt().term;
            let held = view.holding.is_some_and(|(held, _)| held == term);
            let room = this.room.as_ref().filter(|room| room.frozen && room.pending.is_none());
            let event = match (source.step(), room) {
                (Step::Transferring, _) if !view.transfers => {
                    Some(hand.given.map_or(SourceEvent::Doubt, |term| SourceEvent::Given(Some(term))))
                }
                (Step::Transferring, _) => None,
                _ if !held => Some(SourceEvent::Lost),
                (Step::Freezing, Some(room)) => Some(SourceEvent::Stored(package(&room.done))),
                _ => None,
            };
            if let Some(event) = event {
                self.source(state, node, event);
            }
        }
        let this = &state.nodes[usize::from(node)];
        if view.holding.is_some() && this.hand.target.as_ref().is_some_and(Target::is_busy) {
            self.target(state, node, TargetEvent::Held);
        }
    }

    /// A shard begins: with the worlds that stand ready, if they are of the package that it came with.
    pub fn begin(&self, state: &mut State, node: u8) {
        let this = &state.nodes[usize::from(node)];
        let (Some(machine), Some(term), None) = (this.machine, this.acting, &this.room) else { return };
        let Some((checksum, done)) = this.hand.ready.clone() else { return };
        let package = self.machines.view(machine).package.or(this.hand.promised);
        let runs = package == Some(checksum) || self.careless.any_worlds;
        if runs && !done.starts_with(&room::stored(self, state.rows)) {
            state.wrong |= STALE;
        }
        let this = &mut state.nodes[usize::from(node)];
        this.hand.ready = None;
        if runs {
            this.room = Some(Room { term, done, number: 0, pending: None, frozen: false });
        }
    }
}
