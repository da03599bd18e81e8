//! A room from its checkpoint: whole again, and no news to any system (H12). Damaged bytes are an error, never a panic.

use std::{collections::BTreeSet, sync::Arc};

use bevy_ecs::{
    change_detection::{DetectChangesMut as _, MAX_CHANGE_AGE, Tick as ChangeTick},
    entity::Entity,
    world::World,
};
use bytes::Bytes;
use tenure_shared::{Generation, NetId, Term};

use super::{
    Lost, Reached, RoomWorld, WorldError, WorldSettings,
    build::Start,
    checkpoint::{Carried, FORMAT, More, Stored, StoredEntity, StoredSeat},
    seats::SeatState,
};
use crate::{
    plugin::{
        Migrations, Net, NetIndex, OwnedBy, RoomKind, Seat, decode_both,
        params::{ControlState, ReplyBook, TaskQueue, TimerBook},
    },
    store::Checkpoint,
};

/// A restored room skips so many seat numbers: seats given after the checkpoint and forgotten with it are never given again, and a
/// late message to one of them finds nobody.
const SKIPPED_SEATS: u32 = 1_000;
/// The same of attachments: a seat's numbers given after the checkpoint are below those that the restored room gives.
const SKIPPED_GENERATIONS: u32 = 1_000;
/// Restores that are remembered with the seats that each of them forgot.
const FORGOTTEN: usize = 32;

impl RoomWorld {
    /// A room from its checkpoint. Seats come back disconnected, in their grace, whole again; nothing is news to systems (H12).
    ///
    /// # Errors
    /// When the checkpoint cannot be read by this build. It never panics.
    pub fn restore(
        kind: &Arc<RoomKind>,
        settings: &WorldSettings,
        term: Term,
        checkpoint: &Checkpoint,
    ) -> Result<Self, WorldError> {
        Self::restore_after(kind, settings, term, checkpoint, Reached::default())
    }

    /// The same in place of a world that failed, which got as far as `reached`: its ticks and seat numbers are not given again.
    ///
    /// # Errors
    /// When the checkpoint cannot be read by this build. It never panics.
    pub fn restore_after(
        kind: &Arc<RoomKind>,
        settings: &WorldSettings,
        term: Term,
        checkpoint: &Checkpoint,
        reached: Reached,
    ) -> Result<Self, WorldError> {
        let (stored, more): (Stored, More) = decode_both(&checkpoint.body).map_err(WorldError::Damaged)?;
        plausible(&stored)?;
        if stored.format != FORMAT {
            return Err(WorldError::Damaged(format!("format {}; this build reads {FORMAT}", stored.format)));
        }
        let start = Start {
            metadata: Bytes::new(),
            room: checkpoint.summary.room.clone(),
            term,
            tick: checkpoint.tick.max(reached.tick),
            version: checkpoint.version,
            born: stored.born,
            now: stored.now,
            wall: stored.wall,
            rng: stored.rng.clone(),
        };
        let mut this = Self::bare(kind, settings, start)?;
        this.lost = Lost { after: (checkpoint.term, checkpoint.tick), before: (term, reached.tick) };
        this.next_seat = stored.next_seat.saturating_add(SKIPPED_SEATS).max(reached.next_seat);
        this.forgotten.clone_from(&stored.forgotten);
        match this.forgotten.last_mut() {
            // No seat was given in between.
            Some(last) if last.1 == stored.next_seat => last.1 = this.next_seat,
            _ => this.forgotten.push((stored.next_seat, this.next_seat)),
        }
        let old = this.forgotten.len().saturating_sub(FORGOTTEN);
        this.forgotten.drain(..old);
        this.restore_books(&stored, checkpoint);
        // A build that did not count was here: above whatever was counted before it.
        this.grants = more.grants.unwrap_or(stored.wall.0);
        this.missed.restore(more);
        this.restore_entities(&stored.components, &stored.entities)?;
        this.restore_seats(&stored.seats)?;
        this.restore_resources(stored.resources)?;
        this.default_resources();
        if let Some(mut index) = this.world.get_resource_mut::<NetIndex>() {
            index.gone.clear();
        }
        age_everything(&mut this.world);
        this.world.clear_trackers();
        this.observe();
        this.replicator.assume_shown(&this.world);
        (this.dirty, this.unseen) = (false, false);
        Ok(this)
    }

    fn restore_books(&mut self, stored: &Stored, checkpoint: &Checkpoint) {
        for (player, last) in &stored.known {
            self.known.touch(player, *last);
        }
        self.delivered = stored.delivered.iter().map(|id| (id.clone(), Some(checkpoint.version))).collect();
        let world = &mut self.world;
        if let Some(mut control) = world.get_resource_mut::<ControlState>() {
            control.locked = checkpoint.summary.locked;
            control.private = checkpoint.summary.private;
            control.metadata = checkpoint.summary.metadata.clone();
        }
        if let Some(mut index) = world.get_resource_mut::<NetIndex>() {
            index.next = stored.next_net;
        }
        if let Some(mut book) = world.get_resource_mut::<TimerBook>() {
            book.generation = stored.timer_generation;
            for (name, key, entry) in &stored.timers {
                let mut entry = entry.clone();
                entry.period = entry.period.map(|period| period.max(1));
                if book.names.contains(name) {
                    book.entries.insert((name.clone(), *key), entry);
                } else {
                    book.carried.push((name.clone(), *key, entry));
                }
            }
        }
        if let Some(mut book) = world.get_resource_mut::<ReplyBook>() {
            book.next = stored.next_reply;
            book.pending = stored.pending.iter().copied().collect();
        }
        if let Some(mut tasks) = world.get_resource_mut::<TaskQueue>() {
            tasks.next = stored.next_task;
            let (known, carried): (Vec<_>, Vec<_>) =
                stored.tasks.iter().cloned().partition(|(_, name, _)| tasks.names.contains(name));
            tasks.flying = known.into_iter().map(|(n, name, key)| (n, (name, key))).collect();
            let old = carried.len().saturating_sub(tasks.limit);
            tasks.carried = carried.into_iter().skip(old).collect();
            self.interrupted = tasks.flying.keys().copied().collect();
        }
    }

    fn restore_entities(&mut self, names: &[(Arc<str>, u32)], entities: &[StoredEntity]) -> Result<(), WorldError> {
        let kind = self.kind.clone();
        let known: Vec<_> = names
            .iter()
            .map(|(name, version)| {
                let def = kind.registry().components.iter().find(|c| c.name == *name);
                def.map(|def| check_version("component", name, *version, &def.migrations).map(|()| def)).transpose()
            })
            .collect::<Result<_, _>>()?;
        let mut seen = BTreeSet::new();
        for stored in entities {
            if stored.net == 0 || !seen.insert(stored.net) {
                return Err(WorldError::Damaged(format!("entity {} comes twice or has no number", stored.net)));
            }
            let mut entity = self.world.spawn(Net { id: stored.net });
            let mut carried = Vec::new();
            for (number, value) in &stored.values {
                let at = usize::from(*number);
                let Some((name, version)) = names.get(at) else {
                    return Err(WorldError::Damaged(format!("component {number} has no name")));
                };
                let Some(def) = known.get(at).copied().flatten() else {
                    carried.push((name.clone(), *version, value.clone()));
                    continue;
                };
                let loaded = def
                    .migrations
                    .apply(*version, value)
                    .and_then(|migrated| def.erased.load(&mut entity, migrated.as_deref().unwrap_or(value)));
                loaded.map_err(|reason| WorldError::Value { what: "component", name: name.to_string(), reason })?;
            }
            if !carried.is_empty() {
                entity.insert(Carried(carried));
            }
            if let Some(owner) = stored.owner {
                entity.insert(OwnedBy(owner));
            }
        }
        if let Some(mut index) = self.world.get_resource_mut::<NetIndex>() {
            index.next = seen.last().copied().unwrap_or(0).max(index.next);
        }
        Ok(())
    }

    fn restore_seats(&mut self, seats: &[StoredSeat]) -> Result<(), WorldError> {
        for stored in seats {
            let index = self.world.get_resource::<NetIndex>();
            let entity: Option<Entity> = index.and_then(|index| index.by_id.get(&stored.net).copied());
            let twice = self.seats.contains_key(&stored.id) || self.seat_of(&stored.player).is_some();
            let Some(entity) = entity.filter(|entity| !twice && self.world.get::<Seat>(*entity).is_none()) else {
                return Err(WorldError::Damaged(format!("seat {} has no entity of its own", stored.id)));
            };
            let (id, player) = (stored.id, stored.player.clone());
            // As the game saw it: gateways are about to attach it again, and no hook shall tell of a move (H12).
            let (connected, since) = stored.connected;
            let seat = Seat { id, player: player.clone(), connected, since };
            self.world.entity_mut(entity).insert(seat);
            self.index(id, &player, entity);
            let generation = Generation(stored.generation.0.saturating_add(SKIPPED_GENERATIONS));
            let mut state = SeatState::new(entity, player.clone(), generation);
            (state.applied, state.saved, state.queued) = (stored.applied, stored.applied, stored.applied);
            (state.gone_since, state.resumes) = (Some(self.now), stored.resumes);
            state.was_gone = stored.gone.filter(|_| !connected);
            self.seats.insert(id, state);
            self.next_seat = self.next_seat.max(id.0.saturating_add(1));
            self.balances_wanted.insert(player);
        }
        self.empty_since = self.seats.is_empty().then_some(self.now);
        Ok(())
    }

    fn restore_resources(&mut self, resources: Vec<(Arc<str>, u32, Bytes)>) -> Result<(), WorldError> {
        let kind = self.kind.clone();
        for (name, version, value) in resources {
            let Some(def) = kind.registry().resources.iter().find(|r| r.name == name) else {
                self.carried.push((name, version, value));
                continue;
            };
            check_version("resource", &name, version, &def.migrations)?;
            def.migrations
                .apply(version, &value)
                .and_then(|migrated| def.erased.load(&mut self.world, migrated.as_deref().unwrap_or(&value)))
                .map_err(|reason| WorldError::Value { what: "resource", name: name.to_string(), reason })?;
        }
        Ok(())
    }

    /// The entity of a number on the wire, for tests and tools.
    pub fn entity(&self, id: NetId) -> Option<Entity> {
        self.world.get_resource::<NetIndex>()?.by_id.get(&id.0).copied()
    }
}

fn check_version(what: &'static str, name: &str, stored: u32, known: &Migrations) -> Result<(), WorldError> {
    if stored <= known.version {
        return Ok(());
    }
    Err(WorldError::Newer { what, name: name.to_owned(), stored, known: known.version })
}

/// Makes everything in the world old news: components, those that others required, and resources (they live on entities).
fn age_everything(world: &mut World) {
    let tick = ChangeTick::new(world.change_tick().get().wrapping_sub(MAX_CHANGE_AGE));
    let mut all: Vec<(Entity, bevy_ecs::component::ComponentId)> = Vec::new();
    for archetype in world.archetypes().iter() {
        for entity in archetype.entities() {
            all.extend(archetype.iter_components().map(|component| (entity.id(), component)));
        }
    }
    for (entity, component) in all {
        if let Some(mut value) = world.get_mut_by_id(entity, component) {
            value.set_last_added(tick);
        }
    }
}

/// Counters that only damage can have brought so far: they must not overflow later.
fn plausible(stored: &Stored) -> Result<(), WorldError> {
    let counters = [stored.now, stored.next_net, stored.next_reply, stored.next_task, stored.timer_generation];
    let ids = stored.entities.iter().map(|entity| entity.net);
    let applied = stored.seats.iter().map(|seat| seat.applied.0);
    let timers = stored.timers.iter().map(|(_, _, timer)| timer.generation);
    let past = |n: u64| n > u64::MAX / 4;
    let generation = stored.seats.iter().any(|seat| seat.generation.0 > u32::MAX / 2);
    if generation || counters.into_iter().chain(ids).chain(applied).chain(timers).any(past) {
        return Err(WorldError::Damaged("a counter is past its end".to_owned()));
    }
    Ok(())
}
