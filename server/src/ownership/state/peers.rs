//! The others: members and routes as polled, writing off who lapsed, and to whom a drain may give.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use tenure_shared::{IncarnationId, ShardId, Term};

use super::State;
use crate::{
    ownership::{event::Effect, view::Owned},
    runtime::{Mono, Wall},
    store::{Key, Member, Route, Status},
};

/// Heartbeats that stand still for so many leases by the observer's own clock end a lease too.
const STOOD_STILL: u32 = 3;
/// How long after a lease's end members are read again: the store counts in microseconds.
const LAPSE_SLACK: Duration = Duration::from_millis(10);
/// Routes of one answer; a full one is not the last.
const ROUTES: usize = 1_000;
/// Several lapsed leases of other nodes at the first look mean that the store was away, not that each of them died.
const CROWD: usize = 2;
/// A heartbeat divided by this is the shortest time between two readings that somebody asked for.
const EAGERNESS: u32 = 4;

/// Whether the members that are known are those of after the drain began: a deploy starts a node and drains another a moment later, and what
/// goes to a node of before moves twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum News {
    /// Nothing waits for them.
    #[default]
    Known,
    /// They are being read.
    Asked,
    /// They are being read since before the drain: once more after that.
    Behind,
}

/// What is known of the others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Peers {
    pub(super) members: Arc<Vec<Member>>,
    pub(super) at: Wall,
    named: Arc<BTreeMap<Key, Owned>>,
    /// Read in this life.
    members_read: bool,
    routes_read: bool,
    /// An earlier life had its first look.
    seen_before: bool,
    /// Where to read routes on from.
    counter: u64,
    /// The highest count of routes that was ever read.
    highest: u64,
    /// The routes of a reading of all of them that is under way.
    all: Option<BTreeMap<ShardId, Term>>,
    pub(super) next_poll: Mono,
    refreshed: Mono,
    /// When members were last read.
    polled: Mono,
    /// What this node gives away as it drains waits for a reading of the members that began after it was told to.
    news: News,
    /// Heartbeats of each, and since when they stand at that.
    beats: BTreeMap<IncarnationId, (u64, Mono)>,
    pub(super) expiring: BTreeSet<IncarnationId>,
}

impl Peers {
    /// A new life, or one that lapsed, looks at everything anew before it acts.
    pub(super) fn begin_life(&mut self) {
        self.members_read = false;
        self.routes_read = false;
        self.counter = 0;
        self.all = None;
        self.beats.clear();
    }

    /// Members and routes were read in this life.
    pub(super) fn known(&self) -> bool {
        self.members_read && self.routes_read
    }

    /// Whether placement may go by the members that are known.
    pub(super) fn are_news(&self) -> bool {
        self.news == News::Known
    }

    /// Whether an incarnation is among the members.
    pub(super) fn lives(&self, incarnation: &IncarnationId) -> bool {
        self.members.binary_search_by(|member| member.incarnation.cmp(incarnation)).is_ok()
    }
}

impl State {
    /// Reads members and routes.
    pub(super) fn poll(&mut self, now: Mono, effects: &mut Vec<Effect>) {
        self.peers.next_poll = now.plus(self.times.heartbeat);
        if !std::mem::replace(&mut self.busy.members, true) {
            effects.push(Effect::ReadMembers);
        }
        if !std::mem::replace(&mut self.busy.routes, true) {
            effects.push(Effect::ReadRoutes { since: self.peers.counter });
        }
    }

    /// Whether the members that are known were read after the drain began, if it has.
    pub(in crate::ownership) fn is_informed(&self) -> bool {
        self.peers.are_news()
    }

    /// Members are told that this node gives its keys away. To whom is said by members that are read from here on.
    pub(super) fn drain(&mut self, now: Mono, effects: &mut Vec<Effect>) {
        self.wanted = Status::Draining;
        self.dirty = true;
        self.tell(effects);
        if self.looks() {
            self.peers.news = if self.busy.members { News::Behind } else { News::Asked };
            self.poll(now, effects);
        }
        self.plan(now, effects);
    }

    /// No answer: what is known has to do, since nobody knows when the store answers again.
    pub(super) fn members_not_read(&mut self, now: Mono, effects: &mut Vec<Effect>) {
        self.busy.members = false;
        if std::mem::take(&mut self.peers.news) != News::Known {
            self.plan(now, effects);
        }
    }

    /// The same because somebody asked, not too often.
    pub(super) fn refresh(&mut self, now: Mono, effects: &mut Vec<Effect>) {
        if self.looks() && now.since(self.peers.refreshed) >= self.times.heartbeat / EAGERNESS {
            self.peers.refreshed = now;
            self.poll(now, effects);
        }
    }

    pub(super) fn members_read(&mut self, now: Mono, mut members: Vec<Member>, at: Wall, effects: &mut Vec<Effect>) {
        self.busy.members = false;
        let behind = std::mem::take(&mut self.peers.news) == News::Behind;
        let Some(own) = self.incarnation.clone().filter(|_| self.looks()) else { return };
        members.sort_by(|a, b| a.incarnation.cmp(&b.incarnation));
        // While nobody could be read nobody stood still.
        if now.since(self.peers.polled) > self.times.ttl {
            self.peers.beats.clear();
        }
        self.peers.polled = now;
        self.write_off(now, &own, &members, at, effects);
        let as_before = self.peers.members.len() == members.len()
            && self
                .peers
                .members
                .iter()
                .zip(&members)
                .all(|(a, b)| a.incarnation == b.incarnation && a.status == b.status && a.info == b.info);
        self.dirty |= !as_before;
        self.touched.members = true;
        self.peers.members = Arc::new(members);
        self.peers.at = at;
        // An answer from before the registration says nothing of this life.
        self.peers.members_read |= self.peers.lives(&own);
        if behind {
            self.peers.news = News::Asked;
            self.poll(now, effects);
        }
        self.plan(now, effects);
        self.own_if_all_answered(effects);
    }

    /// Expires who lapsed by the store's clock, and who stood still by this node's.
    fn write_off(&mut self, now: Mono, own: &IncarnationId, members: &[Member], at: Wall, effects: &mut Vec<Effect>) {
        let still_after = self.times.ttl * STOOD_STILL;
        let mut soonest = self.times.heartbeat;
        let mut lapsed = BTreeSet::new();
        self.peers
            .beats
            .retain(|incarnation, _| members.binary_search_by(|member| member.incarnation.cmp(incarnation)).is_ok());
        for member in members.iter().filter(|member| member.incarnation != *own) {
            let since = self.peers.beats.entry(member.incarnation.clone()).or_insert((member.beats, now));
            if since.0 != member.beats {
                *since = (member.beats, now);
            }
            let over = member.lease_until < at;
            let still = now.since(since.1) >= still_after;
            if over {
                lapsed.insert(&member.info.node);
            } else {
                let left = Duration::from_micros(member.lease_until.0 - at.0);
                soonest = soonest.min(left + LAPSE_SLACK);
            }
            if (over || still) && self.peers.expiring.insert(member.incarnation.clone()) {
                let stood_still = (!over).then_some(member.beats);
                effects.push(Effect::Expire { incarnation: member.incarnation.clone(), stood_still });
            }
        }
        let node = members.iter().find(|member| member.incarnation == *own).map(|member| &member.info.node);
        lapsed.retain(|name| Some(*name) != node);
        if !std::mem::replace(&mut self.peers.seen_before, true) && lapsed.len() >= CROWD {
            self.settle = Some(now.plus(self.times.ttl));
        }
        self.peers.next_poll = self.peers.next_poll.min(now.plus(soonest));
    }

    pub(super) fn expired(&mut self, now: Mono, incarnation: &IncarnationId, gone: bool, effects: &mut Vec<Effect>) {
        self.peers.expiring.remove(incarnation);
        if self.is(incarnation) {
            self.busy.expire = false;
            match (gone, self.phase) {
                (_, super::Phase::Leaving) => {}
                (true, _) => self.gone(effects),
                // The store still has the lease: the next heartbeat decides.
                (false, super::Phase::Lapsed) => self.beat(now, effects),
                (false, _) => {}
            }
        } else if gone {
            let before = self.peers.members.len();
            Arc::make_mut(&mut self.peers.members).retain(|member| member.incarnation != *incarnation);
            if self.peers.members.len() != before {
                self.dirty = true;
                self.touched.members = true;
            }
            self.plan(now, effects);
        }
    }

    pub(super) fn routes_read(
        &mut self,
        now: Mono,
        since: u64,
        counter: u64,
        changed: &[Route],
        effects: &mut Vec<Effect>,
    ) {
        self.busy.routes = false;
        if !self.looks() {
            return;
        }
        for route in changed {
            match route.key.as_shard() {
                Some(shard) => self.hint(shard, (route.owner.clone(), route.term)),
                None => self.hint_named(route),
            }
        }
        self.look_up(now, effects);
        // Asked before everything was to be read anew: the next poll does that.
        if since != self.peers.counter {
            return;
        }
        if since == 0 {
            self.peers.all = Some(BTreeMap::new());
        }
        if let Some(all) = &mut self.peers.all {
            all.extend(changed.iter().filter_map(|route| Some((route.key.as_shard()?, route.term))));
        }
        // A store that forgot counts from lower: all of it is read again.
        let forgot = counter < since;
        self.touched.forgot |= counter < self.peers.highest;
        self.peers.highest = counter;
        self.peers.counter = if forgot { 0 } else { counter };
        if forgot || changed.len() >= ROUTES {
            self.busy.routes = true;
            effects.push(Effect::ReadRoutes { since: self.peers.counter });
            return;
        }
        self.peers.routes_read = true;
        self.mend_routes(effects);
        self.plan(now, effects);
        self.own_if_all_answered(effects);
    }

    /// A route of a key that is no shard: others look after it, here it is only known.
    fn hint_named(&mut self, route: &Route) {
        let (key, owned) = (&route.key, Owned { owner: route.owner.clone(), term: route.term });
        let news = |known: &Owned| owned.term > known.term || (owned.term == known.term && owned.owner.is_none());
        if self.peers.named.get(key).is_none_or(|known| *known != owned && news(known)) {
            Arc::make_mut(&mut self.peers.named).insert(key.clone(), owned);
            self.touched.routes = true;
        }
    }

    /// Where other keys than shards are, as far as is known.
    pub(in crate::ownership) fn named(&self) -> &Arc<BTreeMap<Key, Owned>> {
        &self.peers.named
    }

    /// After a reading of all routes: what is held and has none, or one of before, has it published again. A failover of the store may
    /// have forgotten the route and kept the claim; gateways would look for the owner in vain for ever.
    fn mend_routes(&mut self, effects: &mut Vec<Effect>) {
        let (Some(all), Some(incarnation)) = (self.peers.all.take(), self.incarnation.clone()) else { return };
        for (shard, state) in self.shards.iter().filter(|(shard, _)| !self.releasing.contains(shard)) {
            if let Some(held) = state.holding
                && all.get(shard).is_none_or(|term| *term < held.term)
            {
                effects.push(Effect::Publish { shard: *shard, incarnation: incarnation.clone(), term: held.term });
            }
        }
    }

    /// Everything of the routes is read again at the next poll: what a failover of the store undid is not told by the counter.
    pub(super) fn read_all_routes(&mut self) {
        self.peers.counter = 0;
        self.peers.all = None;
    }
}
