//! What placement asks of this node: shards to take, to give, to leave alone.

use std::collections::BTreeMap;

use tenure_shared::{IncarnationId, ShardId};

use super::State;
use crate::{
    ownership::{
        event::{Effect, Phase},
        placement::{Node, Placed, hash, place},
        shard::Shard,
        view::takes_shards,
    },
    runtime::Mono,
    store::{Key, Member, Status},
};

/// A shard that nobody has for so many heartbeats is taken by whoever finds it: the member that should have it does not know.
const PATIENCE: u32 = 5;

/// What to do about a shard that is not held.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Deed {
    Nothing,
    Acquire,
    /// To this member, if any.
    Release(Option<IncarnationId>),
    /// Another lives in its claim: what was held is given up.
    Forget,
}

impl State {
    /// Asks for what is this node's to take, and says what is to be given.
    pub(super) fn plan(&mut self, now: Mono, effects: &mut Vec<Effect>) {
        let Some(own) = self.incarnation.clone().filter(|_| self.looks() && self.rooms) else { return };
        let known = self.peers.known();
        if known && std::mem::take(&mut self.dirty) {
            self.place(&own);
        }
        let mut shards = std::mem::take(&mut self.shards);
        let mut releases = Vec::new();
        for (shard, state) in &mut shards {
            if state.holding.is_some() || self.asking.contains(shard) || self.releasing.contains(shard) {
                continue;
            }
            match self.deed(now, &own, *shard, state, known) {
                Deed::Nothing => {}
                Deed::Acquire if now < state.after => {}
                Deed::Acquire => {
                    self.asking.insert(*shard);
                    let (caller, seen) = (own.clone(), state.claim.clone());
                    effects.push(Effect::Acquire { shard: *shard, caller, seen, floor: self.floor.max(state.least) });
                }
                Deed::Release(_) if now < state.after => {}
                Deed::Release(to) => releases.push((*shard, state.term(), to)),
                Deed::Forget => {}
            }
        }
        self.shards = shards;
        for (shard, term, to) in releases {
            self.release(shard, term, to, effects);
        }
        self.give(&own);
    }

    fn deed(&mut self, now: Mono, own: &IncarnationId, shard: ShardId, state: &mut Shard, known: bool) -> Deed {
        let holder = state.holder().cloned();
        let lives = holder.as_ref().is_some_and(|holder| self.peers.lives(holder));
        if let Some((_, to)) = state.given.as_ref().filter(|(term, _)| *term == state.term())
            && holder.as_ref() == Some(own)
        {
            return Deed::Release(to.clone());
        }
        let patient =
            |since: Option<Mono>| since.is_none_or(|since| now.since(since) < self.times.heartbeat * PATIENCE);
        if self.yields(own, state) {
            let since = *state.orphan.get_or_insert(now);
            if patient(Some(since)) {
                if state.former.take().is_some() {
                    self.touched.held = true;
                }
                return if holder.as_ref() == Some(own) { Deed::Release(None) } else { Deed::Nothing };
            }
            // The owner of that term does not come back to it.
            state.high = None;
        }
        if let Some(former) = &mut state.former {
            let ours = holder.as_ref().is_some_and(|holder| holder == own || *holder == former.incarnation);
            if ours || !lives {
                return Deed::Acquire;
            }
            // The store forgot this node's term, and another lives in an earlier one: it is to yield, within a bound (H5).
            let until = *former.until.get_or_insert(now.plus(self.times.ttl));
            if now < until {
                return Deed::Nothing;
            }
            state.former = None;
            self.touched.held = true;
            return Deed::Forget;
        }
        if !known {
            return Deed::Nothing;
        }
        let target = self.targets.get(&shard);
        match holder {
            Some(holder) if holder == *own => {
                match target.filter(|target| *target != own) {
                    // It never ran here: it is passed on as it is.
                    Some(target) if self.wanted == Status::Draining && self.peers.are_news() => {
                        Deed::Release(Some(target.clone()))
                    }
                    Some(_) if self.wanted == Status::Draining => Deed::Nothing,
                    // Its worlds are ready, and who gave it is about to say so.
                    _ if self.expected.contains_key(&shard) => Deed::Nothing,
                    // Whoever gave it saw the members otherwise. It is served first, and given from there.
                    _ => Deed::Acquire,
                }
            }
            Some(_) if lives => {
                state.orphan = None;
                Deed::Nothing
            }
            Some(_) if self.settles() => Deed::Nothing,
            // The store forgot who is in the claim: that one comes back as if it were named there.
            None if self.settles() && state.claim.is_none() && state.high.is_some() => Deed::Nothing,
            _ => {
                let since = *state.orphan.get_or_insert(now);
                let serves = self.wanted == Status::Serving;
                if target == Some(own) || (serves && !patient(Some(since))) { Deed::Acquire } else { Deed::Nothing }
            }
        }
    }

    /// Whether the owner of a higher term than the claim's lives: the store forgot it, and it is to have its shard again (F11).
    fn yields(&self, own: &IncarnationId, state: &Shard) -> bool {
        state.high.as_ref().is_some_and(|(owner, term)| {
            let of_own = owner == own || state.former.as_ref().is_some_and(|former| former.incarnation == *owner);
            !of_own && *term > state.term() && self.peers.lives(owner)
        })
    }

    /// Where every shard belongs, by what is known.
    fn place(&mut self, own: &IncarnationId) {
        let members: Vec<_> = self.peers.members.iter().filter(|member| takes_shards(member)).collect();
        // Of itself it knows first.
        let status = |member: &Member| if member.incarnation == *own { self.wanted } else { member.status };
        let nodes: Vec<Node> = members
            .iter()
            .map(|member| Node {
                incarnation: member.incarnation.clone(),
                serving: status(member) == Status::Serving,
                drains: status(member) == Status::Draining,
                revision: member.info.revision,
                version: member.info.version.clone(),
                beats: member.beats,
            })
            .collect();
        let index: BTreeMap<&IncarnationId, usize> =
            members.iter().enumerate().map(|(index, member)| (&member.incarnation, index)).collect();
        let shards: Vec<ShardId> = self.shards.keys().copied().collect();
        let keys: Vec<Placed> = self
            .shards
            .iter()
            .map(|(shard, state)| Placed {
                hash: hash(Key::shard(*shard).as_str()),
                owner: state.holder().and_then(|holder| index.get(holder).copied()),
            })
            .collect();
        let moves = place(&nodes, &keys).moves;
        self.targets = moves.iter().map(|a| (shards[a.key], nodes[a.to].incarnation.clone())).collect();
    }

    /// What is held and belongs elsewhere, at most so many at a time.
    fn give(&mut self, own: &IncarnationId) {
        let balances = !self.settles() || self.wanted == Status::Draining;
        let gives = |shard: &ShardId| {
            let target = self.targets.get(shard).filter(|target| *target != own)?;
            let held = self.shards.get(shard).is_some_and(|state| state.holding.is_some());
            (held && balances && self.phase == Phase::Owning).then(|| (*shard, target.clone()))
        };
        // What was begun goes on, and nothing else begins before it is known who is there.
        let places = if self.peers.are_news() { self.concurrent } else { 0 };
        let mut next: BTreeMap<_, _> = self.gives.keys().filter_map(gives).collect();
        let mut turns: Vec<_> =
            self.targets.keys().map(|shard| (self.shards.get(shard).map(|state| state.kept), *shard)).collect();
        turns.sort_unstable();
        for (_, shard) in turns {
            if next.len() >= places {
                break;
            }
            next.extend(gives(&shard));
        }
        if next != self.gives {
            self.gives = next;
            self.touched.held = true;
        }
    }
}
