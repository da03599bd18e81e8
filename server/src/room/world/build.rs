//! Making a world: resources of the framework, systems and handlers of the kind.

use std::{
    any::TypeId,
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use bevy_ecs::{
    error::{BevyError, ErrorContext, FallbackErrorHandler, match_severity},
    schedule::{IntoScheduleConfigs as _, Schedule},
    world::World,
};
use bytes::Bytes;
use tenure_shared::{RoomId, Term, Tick};

use super::{Effects, Lost, RoomWorld, WorldError, WorldSettings, inputs::InputQueue, known::Known, missed::Missed};
use crate::{
    plugin::{
        NetIndex, RoomKind, SeatIndex,
        params::{
            BalanceBook, ControlState, DueQueue, GrantQueue, OutQueue, ReplyBook, RngState, RoomInfoState,
            ScheduleBook, TaskQueue, TickNow, TickState, TimerBook,
        },
    },
    replication::Replicator,
    runtime::Wall,
};

/// What a bare world starts from.
pub(super) struct Start {
    pub(super) room: RoomId,
    pub(super) term: Term,
    pub(super) tick: Tick,
    pub(super) version: u64,
    pub(super) born: Wall,
    pub(super) now: u64,
    pub(super) wall: Wall,
    pub(super) rng: RngState,
    pub(super) metadata: Bytes,
}

impl RoomWorld {
    /// A new room with this metadata: startup systems run, nobody is there.
    ///
    /// # Errors
    /// When the plugin is not the same each time it is built.
    pub fn create(
        kind: &Arc<RoomKind>,
        room: RoomId,
        settings: &WorldSettings,
        term: Term,
        seed: u64,
        wall: Wall,
        metadata: Bytes,
    ) -> Result<Self, WorldError> {
        let (tick, rng) = (Tick(0), RngState::seeded(seed));
        let start = Start { room, term, tick, version: 0, born: wall, now: 0, wall, rng, metadata };
        let mut this = Self::bare(kind, settings, start)?;
        this.default_resources();
        this.observe();
        for mut system in std::mem::take(&mut this.handlers.startup) {
            if let Err(e) = system.run((), &mut this.world) {
                this.error(format!("startup: {e}"));
            }
        }
        Ok(this)
    }

    /// A world with everything but entities, game resources and observers.
    pub(super) fn bare(kind: &Arc<RoomKind>, settings: &WorldSettings, start: Start) -> Result<Self, WorldError> {
        let unstable = || WorldError::Unstable(kind.name().to_owned());
        let (mut handlers, mut stages) = kind.handlers().ok_or_else(unstable)?;
        let registry = kind.registry();
        let mut world = World::new();
        let dt = 1_000_000_000 / u64::from(kind.tick_rate().max(1));
        world.insert_resource(FallbackErrorHandler(on_error));
        world.insert_resource(TickNow(TickState {
            n: start.tick.0,
            dt: Duration::from_nanos(dt),
            now: Duration::from_nanos(start.now),
            wall: start.wall,
        }));
        world.insert_resource(RoomInfoState { id: start.room.clone(), node: settings.node.clone() });
        world.insert_resource(ControlState {
            private: kind.private(),
            metadata: start.metadata,
            ..ControlState::default()
        });
        world.insert_resource(start.rng);
        world.insert_resource(NetIndex::default());
        world.insert_resource(SeatIndex::default());
        world.insert_resource(BalanceBook::default());
        world.insert_resource(ScheduleBook::default());
        world.insert_resource(ReplyBook::default());
        let numbers: BTreeMap<TypeId, u16> = registry.events.iter().map(|e| e.type_id).zip(0..).collect();
        world.insert_resource(OutQueue { numbers: numbers.into(), ..OutQueue::default() });
        world.insert_resource(TimerBook {
            names: handlers.timers.keys().cloned().collect(),
            limit: settings.max_timers,
            ..TimerBook::default()
        });
        world.insert_resource(DueQueue { jobs: handlers.work.keys().cloned().collect(), ..DueQueue::default() });
        world.insert_resource(GrantQueue {
            charges: handlers.charges.keys().cloned().collect(),
            ..GrantQueue::default()
        });
        world.insert_resource(TaskQueue {
            names: handlers.tasks.keys().cloned().collect(),
            limit: settings.max_tasks,
            ..TaskQueue::default()
        });
        for component in &registry.components {
            component.erased.register(&mut world).map_err(|reason| WorldError::Value {
                what: "component",
                name: component.name.to_string(),
                reason,
            })?;
        }
        registry.messages.iter().for_each(|(_, message)| message.init(&mut world));
        let replicator = Replicator::new(registry, &mut world);
        let mut schedule = Schedule::default();
        stages.sort_by_key(|(set, _)| *set);
        for pair in stages.windows(2) {
            schedule.configure_sets((pair[0].0, pair[1].0).chain());
        }
        for (_, systems) in stages {
            schedule.add_systems(systems);
        }
        handlers.initialize(&mut world);
        Ok(Self {
            kind: kind.clone(),
            room: start.room,
            settings: settings.clone(),
            term: start.term,
            tick: start.tick,
            lost: Lost { after: (Term(0), Tick(0)), before: (start.term, Tick(0)) },
            version: start.version,
            born: start.born,
            now: start.now,
            dt,
            wall: start.wall,
            world,
            schedule,
            handlers,
            replicator,
            seats: BTreeMap::new(),
            next_seat: 1,
            comings: Vec::new(),
            forgotten: Vec::new(),
            inputs: InputQueue::default(),
            known: Known::new(settings.max_known),
            effects: Effects::default(),
            grants: 0,
            delivered: BTreeMap::new(),
            owed_places: 0,
            saves: VecDeque::new(),
            balances_wanted: BTreeSet::new(),
            missed: Missed::default(),
            interrupted: Vec::new(),
            carried: Vec::new(),
            messages: Vec::new(),
            errors: Vec::new(),
            empty_since: Some(start.now),
            last_body: start.now,
            dirty: true,
            unseen: true,
        })
    }

    /// Makes what no checkpoint has brought.
    pub(super) fn default_resources(&mut self) {
        for resource in &self.kind.registry().resources {
            resource.erased.init(&mut self.world);
        }
        for init in &self.handlers.scratch {
            init(&mut self.world);
        }
    }

    /// Observers come last, so that they do not fire for what a restored room has (H12).
    pub(super) fn observe(&mut self) {
        for observer in std::mem::take(&mut self.handlers.observers) {
            observer(&mut self.world);
        }
    }
}

/// A command for an entity that has gone in the meantime is everyday life in a game (two players take one coin): it is logged and
/// counted. Everything else, above all a panic, goes on up to the host, which restores the room.
fn on_error(mut error: BevyError, context: ErrorContext) {
    if let ErrorContext::Command { name } = &context {
        match error.take_payload() {
            Some(panic) => std::panic::resume_unwind(panic),
            None => {
                metrics::counter!("tenure_room_command_errors_total").increment(1);
                tracing::debug!(command = %name, %error, "a command of game code had no effect");
                return;
            }
        }
    }
    match_severity(error, context);
}
