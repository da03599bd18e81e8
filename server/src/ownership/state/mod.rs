//! The life of a node's ownership as a pure step machine: `step(event) -> effects`. The driver in `driver.rs` does the I/O.
//!
//! Rules (docs/invariants.md):
//! - A lease that lapsed is never simply renewed. The former incarnation is expired first; if its tombstone is written the node
//!   registers as a new one, otherwise it goes on as the same; in both cases every shard is taken anew by compare-and-set before
//!   anything acts (a thaw is a write, F1, F8). Until all were asked for, the published lease stays empty.
//! - If the compare-and-set found the claim still naming the former incarnation, nobody owned the shard in between: its worlds
//!   may go on from memory (`continues`). Also when the answer was lost and the claim turns out to be the node's own (F5);
//!   but not if that claim has a package: then another had the shard, and gave it away to this node.
//! - A refused fence, and a higher term that somebody saw, put the shard in doubt at once; it is asked for anew.
//! - Placement says what else to take and what to give. After a lapse of its own a node takes nothing that another held for one lease.
//!
//! - After a transfer was sent the shard goes on here only under a new term (F1). One that was handed over with a package runs under the term of
//!   the transfer as soon as its giver says so; if the claim says it first it is taken anew, and the package counts if nobody ran it.
//!
//! `life.rs`: lease and phases. `moving.rs`: transfers. `peers.rs`: members, routes, writing others off. `claims.rs`: what the store says of shards. `plan.rs`: what
//! placement asks for.

mod claims;
mod life;
mod moving;
mod peers;
mod plan;

use std::collections::{BTreeMap, BTreeSet};

use tenure_shared::{IncarnationId, ShardId, Term};

use self::peers::Peers;
use super::{
    event::{Call, Effect, Event, Holding, Phase, Times},
    shard::Shard,
    view::Owned,
};
use crate::{
    runtime::{Mono, Wall},
    store::{Member, Status},
};

/// All of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    times: Times,
    /// Takes shards at all.
    rooms: bool,
    /// Gives at a time.
    concurrent: usize,
    phase: Phase,
    /// This life; `None` while registering.
    incarnation: Option<IncarnationId>,
    shards: BTreeMap<ShardId, Shard>,
    /// Asked for, no answer yet.
    asking: BTreeSet<ShardId>,
    /// Being released.
    releasing: BTreeSet<ShardId>,
    /// Claims to be read, not before `look_at`.
    look: BTreeSet<ShardId>,
    look_at: Mono,
    /// Claims that somebody wants read again so soon after the last time that they are to be read at this moment.
    later: BTreeMap<ShardId, Mono>,
    peers: Peers,
    /// Shards that belong elsewhere than where they are, by the last placement.
    targets: BTreeMap<ShardId, IncarnationId>,
    gives: BTreeMap<ShardId, IncarnationId>,
    /// Transfers that were sent, no answer yet: the terms under which the shards are held.
    transfers: BTreeMap<ShardId, Term>,
    /// Shards whose worlds are ready here, and until when their giver may say that they are this node's.
    expected: BTreeMap<ShardId, Mono>,
    /// Something that placement looks at has changed.
    dirty: bool,
    /// Counted by the owner.
    until: Mono,
    floor: Term,
    next_beat: Mono,
    next_check: Mono,
    /// A call of the kind is under way.
    busy: Busy,
    /// Until when nothing is taken that another held.
    settle: Option<Mono>,
    /// The lease lapsed, or the store forgot it, and it was not had again since.
    lapsed: bool,
    /// What members are told, and what they were told last.
    wanted: Status,
    told: Option<Status>,
    touched: Touched,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Busy {
    register: bool,
    beat: bool,
    expire: bool,
    claims: bool,
    members: bool,
    routes: bool,
    status: bool,
}

/// What readers have to be shown anew since it was last asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Touched {
    /// What is held, in doubt, or to be given.
    pub held: bool,
    /// Members.
    pub members: bool,
    /// Where shards are.
    pub routes: bool,
    /// The store was found to have forgotten something that it had acknowledged.
    pub forgot: bool,
}

impl State {
    /// A node before its registration. `rooms`: whether it takes shards; `concurrent`: how many it gives at a time.
    pub fn new(times: Times, shards: u32, rooms: bool, concurrent: usize) -> Self {
        Self {
            times,
            rooms,
            concurrent,
            phase: Phase::Joining,
            incarnation: None,
            shards: (0..shards).map(|shard| (ShardId(shard), Shard::default())).collect(),
            asking: BTreeSet::new(),
            releasing: BTreeSet::new(),
            look: BTreeSet::new(),
            look_at: Mono(0),
            later: BTreeMap::new(),
            peers: Peers::default(),
            targets: BTreeMap::new(),
            gives: BTreeMap::new(),
            transfers: BTreeMap::new(),
            expected: BTreeMap::new(),
            dirty: true,
            until: Mono(0),
            floor: Term(0),
            next_beat: Mono(0),
            next_check: Mono(0),
            busy: Busy::default(),
            settle: None,
            lapsed: false,
            wanted: Status::Serving,
            told: None,
            touched: Touched::default(),
        }
    }

    /// What the node is about.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// This life; `None` while registering.
    pub fn incarnation(&self) -> Option<&IncarnationId> {
        self.incarnation.as_ref()
    }

    /// Until when the node may act, as far as is known now; `Mono(0)` while it may not.
    pub fn acts_until(&self) -> Mono {
        if self.phase == Phase::Owning { self.until } else { Mono(0) }
    }

    /// What is held; nothing while the node may not act.
    pub fn holdings(&self) -> BTreeMap<ShardId, Holding> {
        let acts = self.phase == Phase::Owning;
        let held = |(shard, state): (&ShardId, &Shard)| Some((*shard, state.holding.filter(|_| acts)?));
        self.shards.iter().filter_map(held).collect()
    }

    /// Shards that were held, of which no answer said yet whether they were another's since.
    pub fn in_doubt(&self) -> BTreeSet<ShardId> {
        let acts = matches!(self.phase, Phase::Owning | Phase::Leaving);
        let open = |state: &Shard| state.former.is_some() || (state.holding.is_some() && !acts);
        self.shards.iter().filter(|(_, state)| open(state)).map(|(shard, _)| *shard).collect()
    }

    /// Whether this shard was held and no answer said yet whether it was another's since.
    pub fn in_doubt_of(&self, shard: ShardId) -> bool {
        self.shards.get(&shard).is_some_and(|state| state.former.is_some())
    }

    /// Whether this shard is being given up, and the store has not said yet that it is.
    pub fn releases(&self, shard: ShardId) -> bool {
        self.releasing.contains(&shard) || self.shards.get(&shard).is_some_and(|state| state.given.is_some())
    }

    /// Whether an answer of the store is on its way that may make this shard one that is held.
    pub fn seeks(&self, shard: ShardId) -> bool {
        let reads = self.busy.claims || self.look.contains(&shard) || self.later.contains_key(&shard);
        let comes = self.asking.contains(&shard) || self.expected.contains_key(&shard);
        self.looks() && (reads || comes)
    }

    /// Shards to be given, and to whom.
    pub fn gives(&self) -> &BTreeMap<ShardId, IncarnationId> {
        &self.gives
    }

    /// Whether a transfer of this shard was sent, and no answer came yet.
    pub fn transfers(&self, shard: ShardId) -> bool {
        self.transfers.contains_key(&shard)
    }

    /// Whether nothing that another held is taken for now.
    pub fn settles(&self) -> bool {
        self.settle.is_some()
    }

    /// Members as of the last answer, and the store's time of it.
    pub fn members(&self) -> (&std::sync::Arc<Vec<Member>>, Wall) {
        (&self.peers.members, self.peers.at)
    }

    /// Where shards are, as far as is known.
    pub fn routes(&self) -> BTreeMap<ShardId, Owned> {
        let owned = |(shard, state): (&ShardId, &Shard)| {
            let (owner, term) = state.claim.clone()?;
            Some((*shard, Owned { owner, term }))
        };
        self.shards.iter().filter_map(owned).collect()
    }

    /// What readers have to be shown anew since the last call.
    pub fn take_touched(&mut self) -> Touched {
        std::mem::take(&mut self.touched)
    }

    /// When the next [`Event::Tick`] is due.
    pub fn wake(&self) -> Mono {
        let mut wake = self.next_beat.min(self.next_check);
        if self.looks() {
            wake = wake.min(self.peers.next_poll);
            wake = self.later.values().chain(self.expected.values()).fold(wake, |wake, at| wake.min(*at));
        }
        if let Some(settle) = self.settle {
            wake = wake.min(settle);
        }
        if self.phase == Phase::Owning { wake.min(self.until) } else { wake }
    }

    /// Whether it is any use to ask the store for the cluster and for shards.
    fn looks(&self) -> bool {
        matches!(self.phase, Phase::Taking | Phase::Owning)
    }

    fn is(&self, incarnation: &IncarnationId) -> bool {
        self.incarnation.as_ref() == Some(incarnation)
    }

    /// The highest term that this node knows of any shard.
    pub(in crate::ownership) fn floor(&self) -> Term {
        self.floor
    }

    /// Takes in one event at `now` by the monotonic clock.
    pub fn step(&mut self, now: Mono, event: Event) -> Vec<Effect> {
        // Whatever the event is: past the margin nothing acts, even if the next heartbeat was accepted in the meantime.
        let mut effects = Vec::new();
        if self.phase == Phase::Owning && now >= self.until {
            self.lapse(&mut effects);
        }
        match event {
            Event::Tick => self.tick(now, &mut effects),
            Event::Registered { incarnation, sent } => self.registered(now, incarnation, sent, &mut effects),
            Event::Beat { incarnation, sent, floor } => {
                self.busy.beat = false;
                self.floor = self.floor.max(floor);
                if self.is(&incarnation) {
                    self.renew(now, sent, &mut effects);
                }
            }
            Event::Gone { incarnation } => {
                self.busy.beat = false;
                if self.is(&incarnation) && self.phase != Phase::Leaving {
                    self.gone(&mut effects);
                }
            }
            Event::Expired { incarnation, gone } => self.expired(now, &incarnation, gone, &mut effects),
            Event::Members { members, at } => self.members_read(now, members, at, &mut effects),
            Event::Routes { since, counter, changed } => self.routes_read(now, since, counter, &changed, &mut effects),
            Event::Claims { shards, claims } => self.claims_read(now, &shards, claims, &mut effects),
            Event::Granted { shard, incarnation, seen, term } => {
                self.granted(now, shard, &incarnation, &seen, term, &mut effects);
            }
            Event::Refused { shard, incarnation, term } => {
                self.floor = self.floor.max(term);
                if self.is(&incarnation) {
                    self.not_granted(now, shard, &mut effects);
                }
            }
            Event::Released { shard, term } => self.released(now, shard, term, &mut effects),
            Event::Given { shard, term, to, new } => self.given(now, shard, term, to, new, &mut effects),
            Event::Fenced { shard, term } => self.fenced(now, shard, term, &mut effects),
            Event::Gave { shard, term } => self.gave(now, shard, term, &mut effects),
            Event::Transfer { shard, term, to, package, manifest } => {
                self.transfer(shard, term, to, package, manifest, &mut effects);
            }
            Event::NotGiven { shard, term } => self.not_given(now, shard, term, &mut effects),
            Event::Expect { shard, until } => self.expect(now, shard, until),
            Event::Transferred { shard, incarnation, term, package } => {
                self.transferred(now, shard, &incarnation, term, package, &mut effects);
            }
            Event::Kept { shard, term } => self.kept(now, shard, term, &mut effects),
            Event::TermSeen { shard, term } => self.term_seen(now, shard, term, &mut effects),
            Event::Wanted { shard } => self.wanted(now, shard, &mut effects),
            Event::Refresh => self.refresh(now, &mut effects),
            Event::Told { incarnation, status } => {
                self.busy.status = false;
                if self.is(&incarnation) {
                    self.told = Some(status);
                }
            }
            Event::Failed(call) => self.failed(now, call, &mut effects),
            Event::Drain => self.drain(now, &mut effects),
            Event::Leave => self.leave(&mut effects),
        }
        effects
    }

    fn failed(&mut self, now: Mono, call: Call, effects: &mut Vec<Effect>) {
        match call {
            Call::Register => self.busy.register = false,
            Call::Beat => self.busy.beat = false,
            Call::Expire(incarnation) if self.is(&incarnation) => self.busy.expire = false,
            Call::Expire(incarnation) => {
                self.peers.expiring.remove(&incarnation);
            }
            Call::Status => self.busy.status = false,
            // The driver's, on its way out.
            Call::Deregister => {}
            Call::Members => self.members_not_read(now, effects),
            Call::Routes => self.busy.routes = false,
            Call::Claims(shards) => {
                self.busy.claims = false;
                self.look.extend(shards);
                self.look_at = now.plus(self.times.heartbeat);
            }
            // It may have been carried out: the claim is read before it is asked for again.
            Call::Acquire(shard) => self.not_granted(now, shard, effects),
            Call::Release(shard) => {
                self.releasing.remove(&shard);
                // Whatever kept it from its target: that it is free is known by everybody.
                if let Some(state) = self.shards.get_mut(&shard) {
                    state.after = now.plus(self.times.heartbeat);
                    state.given = state.given.take().map(|(term, _)| (term, None));
                }
                self.look_for(now, shard, effects);
            }
        }
        self.own_if_all_answered(effects);
    }
}
