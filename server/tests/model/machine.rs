//! The real step machine of ownership as a value, and what its effects are in the store's words.

use std::{sync::Arc, time::Duration};

use tenure::{
    ownership::{
        Times,
        model_check::{Call, Effect, Event, State},
    },
    runtime::{Mono, Wall},
    store::{Command, Error, Key, MemberInfo, Reply},
};
use tenure_shared::{IncarnationId, ShardId, Term};

use super::{
    intern::{Intern, Memo},
    store::{Answer, fence},
};

/// One step of time on the monotonic clock.
pub const STEP: Duration = Duration::from_secs(1);
/// The shard of the models.
pub const SHARD: ShardId = ShardId(0);
const _: () = assert!(super::store::STEP_MICROS == 1_000_000);

/// A lease of two steps; its owner acts for one and a half from before its heartbeat.
pub fn times() -> Times {
    Times { ttl: STEP * 2, heartbeat: STEP, deadline: STEP / 4, margin: STEP / 2, claim_check: STEP }
}

pub fn mono(step: u8) -> Mono {
    Mono(0).plus(STEP * u32::from(step))
}

/// What is visible of a machine.
#[derive(Clone, Debug)]
pub struct View {
    pub incarnation: Option<IncarnationId>,
    pub acts_until: Mono,
    /// Term of the shard and the lowest term whose worlds may go on.
    pub holding: Option<(Term, Option<Term>)>,
    /// What was held may still be this node's.
    pub in_doubt: bool,
    /// Whom the shard is to be given to.
    pub gives: Option<IncarnationId>,
    /// A transfer of it was sent, no answer yet.
    pub transfers: bool,
    /// The package with which it came.
    pub package: Option<u64>,
    pub wake: Mono,
}

/// Machines as values.
#[derive(Default)]
pub struct Machines {
    states: Intern<(State, View)>,
    pub events: Intern<Event>,
    pub effects: Intern<Effect>,
    stepped: Memo<(u32, u8, u32), (u32, Arc<Vec<u32>>)>,
}

impl Machines {
    pub fn fresh(&self, shards: u32) -> u32 {
        self.put(State::new(times(), shards, true, 1))
    }

    fn put(&self, mut state: State) -> u32 {
        // Only readers look at it.
        state.take_touched();
        let view = View {
            incarnation: state.incarnation().cloned(),
            acts_until: state.acts_until(),
            holding: state.holdings().get(&SHARD).map(|holding| (holding.term, holding.continues)),
            in_doubt: state.in_doubt().contains(&SHARD),
            gives: state.gives().get(&SHARD).cloned(),
            transfers: state.transfers(SHARD),
            package: state.holdings().get(&SHARD).and_then(|holding| holding.package),
            wake: state.wake(),
        };
        self.states.put(format!("{state:?}").into_bytes(), (state, view))
    }

    pub fn view(&self, machine: u32) -> View {
        self.states.get(machine).1.clone()
    }

    /// The machine after an event, and the numbers of its effects.
    pub fn step(&self, machine: u32, now: u8, event: u32) -> (u32, Arc<Vec<u32>>) {
        self.stepped.get((machine, now, event), || {
            let mut state = self.states.get(machine).0.clone();
            let effects = state.step(mono(now), (*self.events.get(event)).clone());
            let effects = effects.into_iter().map(|effect| self.effects.put_debug(effect)).collect();
            (self.put(state), Arc::new(effects))
        })
    }
}

pub fn info(node: &str) -> MemberInfo {
    MemberInfo {
        node: node.to_owned(),
        roles: vec!["room".to_owned()],
        version: String::new(),
        revision: 0,
        link: node.to_owned(),
        public_url: String::new(),
        zone_data: String::new(),
    }
}

/// The command of an effect; `register` is the name made for a new life.
pub fn command(node: &str, effect: &Effect, register: &IncarnationId) -> Command {
    let ttl = times().ttl;
    match effect.clone() {
        Effect::Register => Command::Register { incarnation: register.clone(), info: info(node), ttl },
        Effect::Beat { incarnation, floor } => Command::Heartbeat { incarnation, ttl, floor },
        Effect::Expire { incarnation, stood_still } => Command::Expire { incarnation, stood_still },
        Effect::ReadMembers => Command::Members,
        Effect::ReadRoutes { since } => Command::Routes { since },
        Effect::ReadClaims { shards } => Command::Claims { keys: shards.into_iter().map(Key::shard).collect() },
        Effect::Tell { incarnation, status } => Command::SetStatus { incarnation, status },
        Effect::Acquire { shard, caller, seen, floor } => {
            Command::Acquire { key: Key::shard(shard), caller, seen, floor }
        }
        Effect::Release { shard, incarnation, term } => Command::Release { fence: fence(shard, &incarnation, term) },
        Effect::Give { shard, incarnation, term, to, floor } => {
            let fence = fence(shard, &incarnation, term);
            Command::Transfer { fence, to, package: 0, manifest: Vec::new(), floor }
        }
        Effect::Transfer { shard, incarnation, term, to, package, manifest, floor } => {
            let fence = fence(shard, &incarnation, term);
            Command::Transfer { fence, to, package, manifest, floor }
        }
        Effect::Publish { shard, incarnation, term } => Command::Publish { fence: fence(shard, &incarnation, term) },
        Effect::Deregister { incarnation } => Command::Deregister { incarnation },
    }
}

/// What the answer to an effect means to the machine, as its driver says it.
pub fn event(effect: &Effect, command: &Command, sent: Mono, at: Wall, answer: &Answer) -> Event {
    match (effect.clone(), answer.clone()) {
        (Effect::Register, Ok(_)) => match command {
            Command::Register { incarnation, .. } => Event::Registered { incarnation: incarnation.clone(), sent },
            other => panic!("not a registration: {other:?}"),
        },
        (Effect::Beat { incarnation, .. }, Ok(Reply::Beat { floor, .. })) => Event::Beat { incarnation, sent, floor },
        (Effect::Beat { incarnation, .. }, Err(Error::Tombstoned(_))) => Event::Gone { incarnation },
        (Effect::Expire { incarnation, .. }, Ok(Reply::Expired(gone))) => Event::Expired { incarnation, gone },
        (Effect::ReadMembers, Ok(Reply::Members(members))) => Event::Members { members, at },
        (Effect::ReadRoutes { since }, Ok(Reply::Routes { counter, changed })) => {
            Event::Routes { since, counter, changed }
        }
        (Effect::ReadClaims { shards }, Ok(Reply::Claims(claims))) => Event::Claims { shards, claims },
        (Effect::Tell { incarnation, status }, Ok(_)) => Event::Told { incarnation, status },
        (Effect::Acquire { shard, caller, seen, .. }, Ok(Reply::Granted(term))) => {
            Event::Granted { shard, incarnation: caller, seen, term }
        }
        (Effect::Acquire { shard, caller, .. }, Err(Error::Held { term, .. })) => {
            Event::Refused { shard, incarnation: caller, term }
        }
        (Effect::Acquire { caller, .. }, Err(Error::Tombstoned(_))) => Event::Gone { incarnation: caller },
        (Effect::Release { shard, term, .. }, Ok(_) | Err(Error::Fenced { .. })) => Event::Released { shard, term },
        (Effect::Give { shard, term, to, .. }, Ok(Reply::Granted(new))) => Event::Given { shard, term, to, new },
        (Effect::Give { shard, term, .. }, Err(Error::Fenced { .. })) => Event::Released { shard, term },
        (Effect::Transfer { shard, term, to, .. }, Ok(Reply::Granted(new))) => Event::Given { shard, term, to, new },
        (Effect::Publish { shard, term, .. }, Err(Error::Fenced { .. })) => Event::Fenced { shard, term },
        (Effect::Publish { .. } | Effect::Deregister { .. }, _) => Event::Tick,
        (effect, _) => failed(&effect),
    }
}

/// What the machine hears when a call has no answer within its deadline.
pub fn failed(effect: &Effect) -> Event {
    if let Effect::Transfer { shard, term, .. } = effect {
        return Event::NotGiven { shard: *shard, term: *term };
    }
    Event::Failed(match effect.clone() {
        Effect::Register => Call::Register,
        Effect::Beat { .. } => Call::Beat,
        Effect::Expire { incarnation, .. } => Call::Expire(incarnation),
        Effect::ReadMembers => Call::Members,
        Effect::ReadRoutes { .. } => Call::Routes,
        Effect::ReadClaims { shards } => Call::Claims(shards),
        Effect::Tell { .. } => Call::Status,
        Effect::Acquire { shard, .. } => Call::Acquire(shard),
        Effect::Release { shard, .. } | Effect::Give { shard, .. } => Call::Release(shard),
        Effect::Transfer { .. } | Effect::Publish { .. } | Effect::Deregister { .. } => return Event::Tick,
    })
}
