//! The real step machine of ownership as a value, and what its effects are in the store's words.

use std::{sync::Arc, time::Duration};

use tenure::{
    ownership::{
        Times,
        machine::{Call, Effect, Event, State},
    },
    runtime::Mono,
    store::{Command, Error, Fence, Key, MemberInfo, Reply},
};
use tenure_shared::{IncarnationId, ShardId, Term};

use super::{
    intern::{Intern, Memo},
    store::{Answer, fence},
};

/// One step of time on the monotonic clock.
const STEP: Duration = Duration::from_secs(1);
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
        self.put(State::new(times(), shards))
    }

    fn put(&self, state: State) -> u32 {
        let holding = state.holdings().get(&SHARD).map(|holding| (holding.term, holding.continues));
        let view = View {
            incarnation: state.incarnation.clone(),
            acts_until: state.acts_until(),
            holding,
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

fn info(node: &str) -> MemberInfo {
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
        Effect::Beat { incarnation } => Command::Heartbeat { incarnation, ttl, floor: Term(0) },
        Effect::Expire { incarnation } => Command::Expire { incarnation, stood_still: None },
        Effect::ReadClaims => Command::Claims { keys: vec![Key::shard(SHARD)] },
        Effect::Tell { incarnation, status } => Command::SetStatus { incarnation, status },
        Effect::Acquire { shard, caller, seen, floor } => {
            Command::Acquire { key: Key::shard(shard), caller, seen, floor }
        }
        Effect::Release { shard, incarnation, term } => Command::Release { fence: owned(shard, &incarnation, term) },
        Effect::Deregister { incarnation } => Command::Deregister { incarnation },
    }
}

fn owned(shard: ShardId, incarnation: &IncarnationId, term: Term) -> Fence {
    fence(shard, incarnation, term)
}

/// What the answer to an effect means to the machine, as its driver says it.
pub fn event(effect: &Effect, register: &IncarnationId, sent: Mono, answer: &Answer) -> Event {
    match (effect.clone(), answer) {
        (Effect::Register, Ok(_)) => Event::Registered { incarnation: register.clone(), sent },
        (Effect::Beat { incarnation }, Ok(Reply::Beat { floor, .. })) => {
            Event::Beat { incarnation, sent, floor: *floor }
        }
        (Effect::Beat { incarnation }, Err(Error::Tombstoned(_))) => Event::Gone { incarnation },
        (Effect::Expire { incarnation }, Ok(Reply::Expired(gone))) => Event::Expired { incarnation, gone: *gone },
        (Effect::Tell { incarnation, status }, Ok(_)) => Event::Told { incarnation, status },
        (Effect::ReadClaims, Ok(Reply::Claims(claims))) => Event::Claims(claims.clone()),
        (Effect::Acquire { shard, caller, seen, .. }, Ok(Reply::Granted(term))) => {
            Event::Granted { shard, incarnation: caller, seen, term: *term }
        }
        (Effect::Acquire { shard, caller, .. }, Err(Error::Held { holder, .. })) => {
            Event::Refused { shard, incarnation: caller, holder: holder.clone() }
        }
        (Effect::Acquire { caller, .. }, Err(Error::Tombstoned(_))) => Event::Gone { incarnation: caller },
        (Effect::Release { .. } | Effect::Deregister { .. }, _) => Event::Tick,
        (effect, _) => failed(&effect),
    }
}

/// What the machine hears when a call has no answer within its deadline.
pub fn failed(effect: &Effect) -> Event {
    Event::Failed(match effect {
        Effect::Register => Call::Register,
        Effect::Beat { .. } => Call::Beat,
        Effect::Expire { .. } => Call::Expire,
        Effect::ReadClaims => Call::Claims,
        Effect::Tell { .. } => Call::Status,
        Effect::Acquire { shard, .. } => Call::Acquire(*shard),
        Effect::Release { .. } | Effect::Deregister { .. } => return Event::Tick,
    })
}

/// Calls of no weight, which need no interleaving: they are made and answered at once.
pub fn is_quiet(effect: &Effect) -> bool {
    matches!(effect, Effect::Tell { .. })
}

/// A gateway saw this term.
pub fn term_seen(_term: Term) -> Event {
    Event::Tick
}
