//! The systems of one room: stages, hooks and handlers. Each room has its own, since a system belongs to one world.

use std::{collections::BTreeMap, marker::PhantomData, sync::Arc};

use bevy_ecs::{
    entity::Entity,
    schedule::{ScheduleConfigs, SystemSet},
    system::{BoxedSystem, In, ScheduleSystem},
    world::World,
};
use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};
use tenure_shared::PlayerId;

use super::{
    Answer, Charged, Fired, Granted, Join, Leave, Outcome, Recipient, Refuse, ReplyTo, Request, RewardDue, TaskDone,
    TaskEnd, TaskResult, Work, decode, encode_named, messages::RoomMessage, values::decode_client,
};
use crate::runtime::Wall;

/// A stage's n-th group of systems: they run in the order of registration.
#[derive(SystemSet, Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct StageSet(pub(crate) super::Stage, pub(crate) u32);

/// Adds an observer to a world.
pub(crate) type AddObserver = Box<dyn FnOnce(&mut World) + Send>;

/// A system of one world with a typed input.
pub(crate) type Hook<I, O = ()> = BoxedSystem<In<I>, O>;

/// Systems by stage, before they are a schedule. They are not `Send`; the schedule is.
pub(crate) type Stages = Vec<(StageSet, ScheduleConfigs<ScheduleSystem>)>;

/// What one room runs besides its stages.
#[derive(Default)]
pub(crate) struct Handlers {
    /// Make resources that are not kept.
    pub(crate) scratch: Vec<fn(&mut World)>,
    pub(crate) startup: Vec<BoxedSystem>,
    pub(crate) observers: Vec<AddObserver>,
    pub(crate) on_join: Vec<Hook<Join, Result<(), Refuse>>>,
    pub(crate) on_drop: Vec<Hook<Entity>>,
    pub(crate) on_reconnect: Vec<Hook<Entity>>,
    pub(crate) on_leave: Vec<Hook<Leave>>,
    pub(crate) on_granted: Vec<Hook<Granted>>,
    pub(crate) requests: Vec<Box<dyn RequestRunner>>,
    pub(crate) timers: BTreeMap<Arc<str>, TimerHandler>,
    pub(crate) work: BTreeMap<Arc<str>, Box<dyn WorkRunner>>,
    pub(crate) rewards: BTreeMap<Arc<str>, Hook<RewardDue, Vec<Recipient>>>,
    pub(crate) charges: BTreeMap<Arc<str>, Box<dyn ChargeRunner>>,
    pub(crate) tasks: BTreeMap<Arc<str>, Box<dyn TaskRunner>>,
}

/// A timer's guard and handler.
pub(crate) struct TimerHandler {
    pub(crate) guard: Option<Hook<Fired, bool>>,
    pub(crate) handler: Hook<Fired>,
}

impl Handlers {
    /// Prepares every system for its world, after the world's resources are there.
    pub(crate) fn initialize(&mut self, world: &mut World) {
        fn all<I: 'static, O: 'static>(hooks: &mut [Hook<I, O>], world: &mut World) {
            hooks.iter_mut().for_each(|hook| drop(hook.initialize(world)));
        }
        self.startup.iter_mut().for_each(|system| drop(system.initialize(world)));
        all(&mut self.on_join, world);
        all(&mut self.on_drop, world);
        all(&mut self.on_reconnect, world);
        all(&mut self.on_leave, world);
        all(&mut self.on_granted, world);
        self.requests.iter_mut().for_each(|r| r.initialize(world));
        for timer in self.timers.values_mut() {
            drop(timer.handler.initialize(world));
            if let Some(guard) = &mut timer.guard {
                drop(guard.initialize(world));
            }
        }
        self.work.values_mut().for_each(|w| w.initialize(world));
        self.rewards.values_mut().for_each(|r| drop(r.initialize(world)));
        self.charges.values_mut().for_each(|c| c.initialize(world));
        self.tasks.values_mut().for_each(|t| t.initialize(world));
    }
}

/// Runs a hook; one whose parameters are not there is an error text.
pub(crate) fn run<I: 'static, O: 'static>(hook: &mut Hook<I, O>, world: &mut World, input: I) -> Result<O, String> {
    hook.run(input, world).map_err(|e| e.to_string())
}

/// How a request went.
pub(crate) enum RequestOutcome {
    /// Encoded answer.
    Answered(Vec<u8>),
    /// The game will answer later.
    Later,
    /// The payload could not be read.
    Bad(String),
    /// The game refused.
    Refused(Refuse),
    /// The handler could not run, or its answer could not be encoded.
    Failed(String),
}

pub(crate) trait RequestRunner: Send + Sync {
    fn initialize(&mut self, world: &mut World);
    fn run(
        &mut self,
        world: &mut World,
        seat: Entity,
        player: PlayerId,
        payload: &[u8],
        reply: ReplyTo,
    ) -> RequestOutcome;
}

pub(crate) struct TypedRequest<Req: 'static, Res: 'static> {
    pub(crate) system: Hook<Request<Req>, Result<Answer<Res>, Refuse>>,
}

impl<Req: RoomMessage, Res: Serialize + 'static> RequestRunner for TypedRequest<Req, Res> {
    fn initialize(&mut self, world: &mut World) {
        drop(self.system.initialize(world));
    }

    fn run(
        &mut self,
        world: &mut World,
        seat: Entity,
        player: PlayerId,
        payload: &[u8],
        reply: ReplyTo,
    ) -> RequestOutcome {
        let body: Req = match decode_client(payload) {
            Ok(body) => body,
            Err(e) => return RequestOutcome::Bad(e),
        };
        match run(&mut self.system, world, Request { seat, player, body, reply }) {
            Err(e) => RequestOutcome::Failed(e),
            Ok(Err(refuse)) => RequestOutcome::Refused(refuse),
            Ok(Ok(Answer::Later)) => RequestOutcome::Later,
            Ok(Ok(Answer::Now(answer))) => {
                let mut out = Vec::new();
                match encode_named(&mut out, &answer) {
                    Ok(()) => RequestOutcome::Answered(out),
                    Err(e) => RequestOutcome::Failed(e),
                }
            }
        }
    }
}

pub(crate) trait WorkRunner: Send + Sync {
    fn initialize(&mut self, world: &mut World);
    fn run(&mut self, world: &mut World, key: Arc<str>, due: Wall, attempt: u32, payload: &[u8]) -> Result<(), Refuse>;
}

pub(crate) struct TypedWork<T: 'static> {
    pub(crate) system: Hook<Work<T>, Result<(), Refuse>>,
}

impl<T: DeserializeOwned + 'static> WorkRunner for TypedWork<T> {
    fn initialize(&mut self, world: &mut World) {
        drop(self.system.initialize(world));
    }

    fn run(&mut self, world: &mut World, key: Arc<str>, due: Wall, attempt: u32, payload: &[u8]) -> Result<(), Refuse> {
        let body: T = decode(payload).map_err(|e| Refuse::new(format!("payload: {e}")))?;
        run(&mut self.system, world, Work { key, due, attempt, body }).map_err(Refuse::new)?
    }
}

pub(crate) trait ChargeRunner: Send + Sync {
    fn initialize(&mut self, world: &mut World);
    fn run(&mut self, world: &mut World, granted: &Granted, token: &Bytes) -> Result<(), String>;
}

pub(crate) struct TypedCharge<P: 'static> {
    pub(crate) system: Hook<Charged<P>>,
}

impl<P: DeserializeOwned + 'static> ChargeRunner for TypedCharge<P> {
    fn initialize(&mut self, world: &mut World) {
        drop(self.system.initialize(world));
    }

    fn run(&mut self, world: &mut World, granted: &Granted, token: &Bytes) -> Result<(), String> {
        let purchase: P = decode(token)?;
        let paid = matches!(granted.outcome, Outcome::Given(_));
        let charged = Charged { player: granted.player.clone(), seat: granted.seat, paid, purchase };
        run(&mut self.system, world, charged)
    }
}

pub(crate) trait TaskRunner: Send + Sync {
    fn initialize(&mut self, world: &mut World);
    fn run(&mut self, world: &mut World, key: u64, result: TaskResult) -> Result<(), String>;
}

pub(crate) struct TypedTask<T: 'static> {
    pub(crate) system: Hook<TaskDone<T>>,
    pub(crate) marker: PhantomData<fn() -> T>,
}

impl<T: Send + 'static> TaskRunner for TypedTask<T> {
    fn initialize(&mut self, world: &mut World) {
        drop(self.system.initialize(world));
    }

    fn run(&mut self, world: &mut World, key: u64, result: TaskResult) -> Result<(), String> {
        let result = match result {
            Ok(value) => value.downcast::<T>().map(|value| *value).map_err(|_| TaskEnd::Failed),
            Err(end) => Err(end),
        };
        run(&mut self.system, world, TaskDone { key, result })
    }
}
