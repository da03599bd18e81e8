//! What a plugin registers with.

mod named;

use std::{any::TypeId, marker::PhantomData, sync::Arc, time::Duration};

use bevy_ecs::{
    component::Mutable,
    entity::Entity,
    observer::IntoObserver,
    resource::Resource,
    schedule::IntoScheduleConfigs,
    system::{In, IntoSystem, ScheduleSystem},
    world::FromWorld,
};
pub use named::{ComponentBuilder, MessageBuilder, ResourceBuilder, TimerBuilder};
use serde::{Serialize, de::DeserializeOwned};
use tenure_shared::limits;

use super::{
    Answer, Charged, Fired, Granted, Handlers, Join, Leave, Recipient, Refuse, Request, RewardDue, TaskDone, Work,
    component::{self, RoomComponent},
    fields,
    handlers::{StageSet, Stages, TimerHandler, TypedCharge, TypedRequest, TypedTask, TypedWork},
    kind::Options,
    messages::{self, RoomMessage},
    names,
    registry::{ComponentDef, MAX_REPLICATED, MessageDef, Migrations, Registry, ResourceDef},
    resource::{self, RoomResource},
};

/// When in a tick a system runs. Stages run in this order; within one, systems run in the order they were registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// Look at what came in.
    Receive,
    /// Turn inputs into intentions.
    Apply,
    /// Move the world.
    Simulate,
    /// Draw conclusions: scores, boards, ends.
    Collect,
    /// Say what must be said.
    Send,
}

/// What a plugin registers with. Faults are collected and reported all at once when the kind is made.
pub struct RoomBuilder {
    options: Options,
    registry: Registry,
    handlers: Handlers,
    stages: Stages,
    faults: Vec<String>,
}

/// Most seats of a room.
const MAX_SEATS: u32 = 10_000;

impl RoomBuilder {
    pub(super) fn new() -> Self {
        let options = Options {
            tick_rate: 20,
            max_seats: 50,
            grace: None,
            dispose_after: None,
            private: false,
            auto_dispose: true,
        };
        Self {
            options,
            registry: Registry::default(),
            handlers: Handlers::default(),
            stages: Stages::new(),
            faults: Vec::new(),
        }
    }

    pub(super) fn finish(mut self) -> (Options, Registry, (Handlers, Stages), Vec<String>) {
        for c in &self.registry.components {
            self.faults.extend(c.migrations.faults("component", &c.name));
            if c.scope.is_none() && !c.persisted {
                self.faults.push(format!(
                    "component {:?} is neither replicated nor persisted: it needs no registration",
                    c.name
                ));
            }
        }
        for r in &self.registry.resources {
            self.faults.extend(r.migrations.faults("resource", &r.name));
        }
        let replicated = self.registry.components.iter().filter(|c| c.scope.is_some()).count();
        if replicated > MAX_REPLICATED {
            self.faults.push(format!("{replicated} replicated components; at most {MAX_REPLICATED}"));
        }
        let names = self.registry.table().len();
        if names > limits::TABLE_NAMES {
            self.faults.push(format!("{names} names in the name table; at most {}", limits::TABLE_NAMES));
        }
        (self.options, self.registry, (self.handlers, self.stages), self.faults)
    }

    /// Ticks per second, 1 to 120. Default 20.
    pub fn tick_rate(&mut self, hertz: u32) -> &mut Self {
        if !(1..=limits::TICK_RATE).contains(&hertz) {
            self.faults.push(format!("tick rate {hertz} Hz; expected 1 to {}", limits::TICK_RATE));
        }
        self.options.tick_rate = hertz.clamp(1, limits::TICK_RATE);
        self
    }

    /// Most seats, 1 to 10,000. Default 50.
    pub fn max_seats(&mut self, seats: u32) -> &mut Self {
        if !(1..=MAX_SEATS).contains(&seats) {
            self.faults.push(format!("{seats} seats; expected 1 to {MAX_SEATS}"));
        }
        self.options.max_seats = seats.clamp(1, MAX_SEATS);
        self
    }

    /// `join_or_create` without a name does not find these rooms.
    pub fn private(&mut self) -> &mut Self {
        self.options.private = true;
        self
    }

    /// What clients may ask for by a filter of `join_or_create`: keys of the rooms' metadata, at most 8. A room that is made for such a
    /// request begins with the metadata that was asked for, so that the next one who asks for the same comes to it.
    pub fn filter_by(&mut self, keys: &[&str]) -> &mut Self {
        self.faults.extend(keys.iter().filter_map(|key| names::fault("filter key", key)));
        let known = &mut self.registry.filter;
        for key in keys {
            if known.iter().all(|known| **known != **key) {
                known.push((*key).into());
            }
        }
        if known.len() > limits::FILTER_KEYS {
            self.faults.push(format!("{} filter keys; at most {}", known.len(), limits::FILTER_KEYS));
        }
        self
    }

    /// Empty rooms of this kind stay loaded and are never deleted.
    pub fn keep(&mut self) -> &mut Self {
        self.options.auto_dispose = false;
        self
    }

    /// How long an empty room of this kind is kept once it is unloaded (`room.idle_after`), by the store's clock; then it is deleted. Zero: at
    /// once, so that what nobody plays any more is gone. Default: `room.dispose_after` of the config, seven days.
    pub fn dispose_after(&mut self, time: Duration) -> &mut Self {
        self.options.dispose_after = Some(time);
        self
    }

    /// How long a seat outlives its socket, in room time. Default: `room.reconnect_grace` of the config.
    pub fn reconnect_grace(&mut self, grace: Duration) -> &mut Self {
        self.options.grace = Some(grace);
        self
    }

    /// Registers a component: say `.replicated()`, `.persisted()` or both.
    pub fn component<T: RoomComponent>(&mut self, name: &str) -> ComponentBuilder<'_, T> {
        let id = TypeId::of::<T>();
        let others: Vec<_> = self.registry.components.iter().map(|c| (c.name.clone(), c.type_id)).collect();
        self.check("component", name, id, &others);
        self.registry.components.push(ComponentDef {
            name: name.into(),
            type_id: id,
            migrations: Migrations::first(),
            scope: None,
            persisted: false,
            fields: fields::of::<T>(),
            number: 0,
            erased: Arc::new(component::Typed::<T>(PhantomData)),
        });
        ComponentBuilder::new(self)
    }

    /// Registers a resource; it is made by its `Default` (or `FromWorld`) when the room is created.
    pub fn resource<T: RoomResource>(&mut self, name: &str) -> ResourceBuilder<'_, T> {
        let id = TypeId::of::<T>();
        let others: Vec<_> = self.registry.resources.iter().map(|r| (r.name.clone(), r.type_id)).collect();
        self.check("resource", name, id, &others);
        self.registry.resources.push(ResourceDef {
            name: name.into(),
            type_id: id,
            migrations: Migrations::first(),
            replicated: false,
            persisted: false,
            fields: fields::of::<T>(),
            number: 0,
            erased: Arc::new(resource::Typed::<T>(PhantomData)),
        });
        ResourceBuilder::new(self)
    }

    /// A resource of this room that nobody sees and that is made anew after a move: caches, grids.
    pub fn scratch<T: Resource<Mutability = Mutable> + FromWorld>(&mut self) -> &mut Self {
        self.handlers.scratch.push(|world| {
            world.init_resource::<T>();
        });
        self
    }

    /// Registers a message to the room; systems read it with `Inbox<T>`.
    pub fn message<T: RoomMessage>(&mut self, name: &str) -> MessageBuilder<'_, T> {
        let id = TypeId::of::<T>();
        let others: Vec<_> = self.registry.messages.iter().map(|(m, _)| (m.name.clone(), m.type_id)).collect();
        self.check("message", name, id, &others);
        let def = MessageDef { name: name.into(), type_id: id, version: 1, fields: fields::of::<T>() };
        self.registry.messages.push((def, Arc::new(messages::Typed::<T> { latest: false, marker: PhantomData })));
        MessageBuilder::new(self)
    }

    /// Registers a message from the room; systems send it with `Out`.
    pub fn event<T: Serialize + DeserializeOwned + 'static>(&mut self, name: &str) -> &mut Self {
        let id = TypeId::of::<T>();
        let others: Vec<_> = self.registry.events.iter().map(|m| (m.name.clone(), m.type_id)).collect();
        self.check("event", name, id, &others);
        let def = MessageDef { name: name.into(), type_id: id, version: 1, fields: fields::of::<T>() };
        self.registry.events.push(def);
        self
    }

    /// Registers a request and what answers it: a system `In<Request<Req>> -> Result<Answer<Res>, Refuse>`. It runs before the
    /// stages, in order of arrival. The answer goes out with its fields' names. What a handler that refuses has granted, charged, scheduled,
    /// cancelled, sent and kicked is taken back; what it did to the world, to timers, tasks and other requests is not.
    pub fn request<Req: RoomMessage, Res: Serialize + 'static, M>(
        &mut self,
        name: &str,
        handler: impl IntoSystem<In<Request<Req>>, Result<Answer<Res>, Refuse>, M>,
    ) -> &mut Self {
        let id = TypeId::of::<Req>();
        let others: Vec<_> = self.registry.requests.iter().map(|m| (m.name.clone(), m.type_id)).collect();
        self.check("request", name, id, &others);
        let def = MessageDef { name: name.into(), type_id: id, version: 1, fields: fields::of::<Req>() };
        self.registry.requests.push(def);
        self.handlers.requests.push(Box::new(TypedRequest { system: Box::new(IntoSystem::into_system(handler)) }));
        self
    }

    /// Adds systems to a stage. Those of one call run one after the other, as listed.
    pub fn systems<M>(&mut self, stage: Stage, systems: impl IntoScheduleConfigs<ScheduleSystem, M>) -> &mut Self {
        let set = StageSet(stage, self.stages.len() as u32);
        self.stages.push((set, systems.chain().in_set(set)));
        self
    }

    /// Runs once, when the room is created; never after a move or restart.
    pub fn startup<M>(&mut self, system: impl IntoSystem<(), (), M>) -> &mut Self {
        self.handlers.startup.push(Box::new(IntoSystem::into_system(system)));
        self
    }

    /// Adds an observer. It does not fire for what a restored room has (H12); hooks of components do.
    pub fn observe<M: 'static>(&mut self, observer: impl IntoObserver<M>) -> &mut Self {
        self.handlers.observers.push(Box::new(move |world| {
            world.add_observer(observer);
        }));
        self
    }

    /// A player wants a seat; refusing takes it away again, with what the hook has granted, charged, scheduled, cancelled, sent and kicked.
    pub fn on_join<M>(&mut self, hook: impl IntoSystem<In<Join>, Result<(), Refuse>, M>) -> &mut Self {
        self.handlers.on_join.push(Box::new(IntoSystem::into_system(hook)));
        self
    }

    /// A seat lost its socket and is in its grace.
    pub fn on_drop<M>(&mut self, hook: impl IntoSystem<In<Entity>, (), M>) -> &mut Self {
        self.handlers.on_drop.push(Box::new(IntoSystem::into_system(hook)));
        self
    }

    /// A seat in its grace has a socket again.
    pub fn on_reconnect<M>(&mut self, hook: impl IntoSystem<In<Entity>, (), M>) -> &mut Self {
        self.handlers.on_reconnect.push(Box::new(IntoSystem::into_system(hook)));
        self
    }

    /// A seat ends; its entity is still there.
    pub fn on_leave<M>(&mut self, hook: impl IntoSystem<In<Leave>, (), M>) -> &mut Self {
        self.handlers.on_leave.push(Box::new(IntoSystem::into_system(hook)));
        self
    }

    /// A grant or charge of this room is in the ledger (or a charge was refused): called once for each.
    pub fn on_granted<M>(&mut self, hook: impl IntoSystem<In<Granted>, (), M>) -> &mut Self {
        self.handlers.on_granted.push(Box::new(IntoSystem::into_system(hook)));
        self
    }

    /// Handles charges made by `Grants::charge` with this source: the place where what was bought is handed over.
    pub fn charge<P: Serialize + DeserializeOwned + 'static, M>(
        &mut self,
        source: &str,
        handler: impl IntoSystem<In<Charged<P>>, (), M>,
    ) -> &mut Self {
        self.name("charge", source);
        let system = Box::new(IntoSystem::into_system(handler));
        let old = self.handlers.charges.insert(source.into(), Box::new(TypedCharge::<P> { system }));
        self.twice("charge", source, old.is_some())
    }

    /// Registers a local timer: set with `Timers`, it travels in the checkpoint and runs on room time.
    pub fn timer<M>(&mut self, name: &str, handler: impl IntoSystem<In<Fired>, (), M>) -> TimerBuilder<'_> {
        self.name("timer", name);
        let handler = TimerHandler { guard: None, handler: Box::new(IntoSystem::into_system(handler)) };
        let old = self.handlers.timers.insert(name.into(), handler);
        self.twice("timer", name, old.is_some());
        TimerBuilder::new(self, name.into())
    }

    /// Registers a durable job: items are scheduled with `Due`. A handler that refuses is tried again later, and what it has granted,
    /// charged, scheduled, cancelled, sent and kicked is taken back; it must not have changed the world, timers, tasks or answers then.
    pub fn work<T: Serialize + DeserializeOwned + 'static, M>(
        &mut self,
        job: &str,
        handler: impl IntoSystem<In<Work<T>>, Result<(), Refuse>, M>,
    ) -> &mut Self {
        self.name("job", job);
        let system = Box::new(IntoSystem::into_system(handler));
        let old = self.handlers.work.insert(job.into(), Box::new(TypedWork::<T> { system }));
        self.twice("job", job, old.is_some())
    }

    /// A hook of a reward schedule: it returns who gets how much. Without one everyone in the audience gets the schedule's amounts.
    pub fn reward<M>(&mut self, schedule: &str, hook: impl IntoSystem<In<RewardDue>, Vec<Recipient>, M>) -> &mut Self {
        self.name("schedule", schedule);
        let old = self.handlers.rewards.insert(schedule.into(), Box::new(IntoSystem::into_system(hook)));
        self.twice("reward hook", schedule, old.is_some())
    }

    /// Registers a kind of task: futures are started with `Tasks` and their results come here.
    pub fn task<T: Send + 'static, M>(
        &mut self,
        name: &str,
        handler: impl IntoSystem<In<TaskDone<T>>, (), M>,
    ) -> &mut Self {
        self.name("task", name);
        let system = Box::new(IntoSystem::into_system(handler));
        let old = self.handlers.tasks.insert(name.into(), Box::new(TypedTask::<T> { system, marker: PhantomData }));
        self.twice("task", name, old.is_some())
    }

    fn name(&mut self, what: &str, name: &str) {
        self.faults.extend(names::fault(what, name));
    }

    fn twice(&mut self, what: &str, name: &str, twice: bool) -> &mut Self {
        if twice {
            self.faults.push(format!("{what} {name:?} is registered twice"));
        }
        self
    }

    fn check(&mut self, what: &str, name: &str, id: TypeId, others: &[(Arc<str>, TypeId)]) {
        let same_name = others.iter().any(|(other, _)| **other == *name);
        let same_type = others.iter().find(|(_, other)| *other == id).map(|(other, _)| other.to_string());
        self.name(what, name);
        self.twice(what, name, same_name);
        if let Some(other) = same_type.filter(|_| !same_name) {
            self.faults.push(format!("{what} {name:?} is of the same type as {other:?}"));
        }
    }
}

impl std::fmt::Debug for RoomBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RoomBuilder")
    }
}
