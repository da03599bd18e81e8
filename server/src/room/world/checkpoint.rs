//! The stored form of a room: names and versions first, values after them, everything in one fixed order, so that equal worlds give
//! equal bytes.

use std::{collections::BTreeMap, sync::Arc};

use bevy_ecs::component::Component;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tenure_shared::{Generation, PlayerId, SeatId, Seq};

use super::{RoomWorld, missed::Place};
use crate::{
    plugin::{
        Net, NetIndex, OwnedBy, Seat, encode, encode_named,
        params::{Pending, ReplyBook, RngState, TaskQueue, TimerBook, TimerEntry},
    },
    runtime::Wall,
    store::{Checkpoint, GrantId, RoomSummary},
};

/// Version of [`Stored`].
pub(super) const FORMAT: u16 = 1;

/// A checkpoint's body.
#[derive(Serialize, Deserialize)]
pub(super) struct Stored {
    pub(super) format: u16,
    pub(super) now: u64,
    pub(super) wall: Wall,
    pub(super) next_net: u64,
    pub(super) next_seat: u32,
    pub(super) rng: RngState,
    /// What the numbers below stand for: name and version.
    pub(super) components: Vec<(Arc<str>, u32)>,
    pub(super) entities: Vec<StoredEntity>,
    pub(super) resources: Vec<(Arc<str>, u32, Bytes)>,
    pub(super) seats: Vec<StoredSeat>,
    pub(super) timer_generation: u64,
    pub(super) timers: Vec<(Arc<str>, u64, TimerEntry)>,
    pub(super) known: Vec<(PlayerId, Wall)>,
    pub(super) delivered: Vec<GrantId>,
    pub(super) next_reply: u64,
    pub(super) pending: Vec<(u64, Pending)>,
    pub(super) next_task: u64,
    pub(super) tasks: Vec<(u64, Arc<str>, u64)>,
    #[serde(default)]
    pub(super) born: Wall,
    #[serde(default)]
    pub(super) forgotten: Vec<(u32, u32)>,
}

/// What comes behind the body, with the names of its fields: an older build reads neither what is behind its body nor, here, a name that it
/// does not know. So this is the place for what is stored newly: a field more above would make the checkpoint unreadable for the build
/// before, and a deploy could not be rolled back.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct More {
    /// Hashes of grants that their players are to be shown, oldest first; where they were told already, if they were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) unshown: Vec<(u64, Option<Place>)>,
    /// Of those that were shown lately.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) shown: Vec<(u64, Place)>,
    /// How many grants game code has decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) grants: Option<u64>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct StoredEntity {
    pub(super) net: u64,
    pub(super) owner: Option<SeatId>,
    pub(super) values: Vec<(u16, Bytes)>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct StoredSeat {
    pub(super) id: SeatId,
    pub(super) net: u64,
    pub(super) player: PlayerId,
    pub(super) generation: Generation,
    pub(super) applied: Seq,
    /// Whether the game takes it for connected, and since when, room time in nanoseconds.
    pub(super) connected: (bool, u64),
    /// Since when its grace runs, room time in nanoseconds.
    #[serde(default)]
    pub(super) gone: Option<u64>,
    /// Highest count of resumes with which it was taken.
    #[serde(default)]
    pub(super) resumes: u32,
}

/// Stored components of an entity that this build does not know: carried along, so that a rollback of a deploy loses nothing.
#[derive(Component, Default)]
#[require(Net)]
pub(super) struct Carried(pub(super) Vec<(Arc<str>, u32, Bytes)>);

/// By name and key, those of other builds among them: the order says nothing of which build wrote it.
fn stored_timers(book: &TimerBook) -> Vec<(Arc<str>, u64, TimerEntry)> {
    let own = book.entries.iter().map(|((name, key), timer)| (name.clone(), *key, timer.clone()));
    let mut timers: Vec<_> = own.chain(book.carried.iter().cloned()).collect();
    timers.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
    timers
}

fn stored_tasks(tasks: &TaskQueue) -> Vec<(u64, Arc<str>, u64)> {
    let own = tasks.flying.iter().map(|(n, (name, key))| (*n, name.clone(), *key));
    let mut tasks: Vec<_> = own.chain(tasks.carried.iter().cloned()).collect();
    tasks.sort_unstable();
    tasks
}

impl RoomWorld {
    /// The room's state, with the next version.
    pub fn checkpoint(&mut self, dormant: bool) -> Checkpoint {
        self.version += 1;
        self.dirty = false;
        // Those alone who are here: whom gateways are about to attach again has not been here since.
        let linked = self.seats.values().filter(|seat| seat.link.is_some());
        for player in linked.map(|seat| seat.player.clone()).collect::<Vec<_>>() {
            self.known.touch(&player, self.wall);
        }
        self.known.forget(self.wall);
        self.remember_save(self.version);
        let stored = self.stored();
        let more = More { grants: Some(self.grants), ..self.missed.stored(self.sure()) };
        let mut body = Vec::new();
        if let Err(e) = encode(&mut body, &stored).and_then(|()| encode_named(&mut body, &more)) {
            // Plain data: this cannot fail short of a fault in the encoder. An unreadable body would lose the room.
            self.error(format!("checkpoint: {e}"));
        }
        if body.len() > self.settings.max_checkpoint {
            let limit = self.settings.max_checkpoint;
            self.error(format!("the checkpoint has {} bytes; at most {limit} are meant to be", body.len()));
        }
        let summary = RoomSummary { dormant, ..self.summary() };
        Checkpoint { summary, term: self.term, tick: self.tick, version: self.version, body: body.into() }
    }

    fn stored(&mut self) -> Stored {
        let (components, entities) = self.stored_entities();
        let resources = self.stored_resources();
        let world = &self.world;
        let net = |seat: &super::SeatState| world.get::<Net>(seat.entity).map_or(0, |net| net.id);
        let connected =
            |seat: &super::SeatState| world.get::<Seat>(seat.entity).map(|seat| (seat.connected, seat.since));
        let replies = world.get_resource::<ReplyBook>();
        let tasks = world.get_resource::<TaskQueue>();
        let timers = world.get_resource::<TimerBook>();
        Stored {
            format: FORMAT,
            now: self.now,
            wall: self.wall,
            next_net: world.get_resource::<NetIndex>().map_or(0, |index| index.next),
            next_seat: self.next_seat,
            rng: world.get_resource::<RngState>().cloned().unwrap_or_else(|| RngState::seeded(0)),
            components,
            entities,
            resources,
            seats: self
                .seats
                .iter()
                .map(|(id, seat)| StoredSeat {
                    id: *id,
                    net: net(seat),
                    player: seat.player.clone(),
                    generation: seat.generation,
                    applied: seat.applied,
                    connected: connected(seat).unwrap_or_default(),
                    gone: seat.gone_since,
                    resumes: seat.resumes,
                })
                .collect(),
            timer_generation: timers.map_or(0, |book| book.generation),
            timers: timers.map(stored_timers).unwrap_or_default(),
            known: self
                .known
                .all()
                .map(|(player, last)| (player.clone(), self.missed.since(player).unwrap_or(last)))
                .collect(),
            delivered: self.delivered.keys().cloned().collect(),
            next_reply: replies.map_or(0, |book| book.next),
            pending: replies.map(|book| book.pending.iter().map(|(n, p)| (*n, *p)).collect()).unwrap_or_default(),
            next_task: tasks.map_or(0, |tasks| tasks.next),
            tasks: tasks.map(stored_tasks).unwrap_or_default(),
            born: self.born,
            forgotten: self.forgotten.clone(),
        }
    }

    /// Names and versions, and every entity that has something to keep, by rising id.
    fn stored_entities(&mut self) -> (Vec<(Arc<str>, u32)>, Vec<StoredEntity>) {
        let kind = self.kind.clone();
        let persisted: Vec<_> = kind.registry().components.iter().filter(|c| c.persisted).collect();
        let mut names: Vec<_> = persisted.iter().map(|c| (c.name.clone(), c.migrations.written())).collect();
        let mut numbers: BTreeMap<(Arc<str>, u32), u16> = names.iter().cloned().zip(0..).collect();
        let mut entities = Vec::new();
        let mut faults = Vec::new();
        let by_id = self.world.get_resource::<NetIndex>().map(|index| index.by_id.clone()).unwrap_or_default();
        for (net, entity) in by_id {
            let Ok(entity) = self.world.get_entity(entity) else { continue };
            let mut values = Vec::new();
            for (number, component) in (0..).zip(&persisted) {
                let mut value = Vec::new();
                let saved = component.erased.save(entity, &mut value);
                match saved.and_then(|has| has.then(|| component.migrations.lower(value)).transpose()) {
                    Ok(Some(value)) => values.push((number, value.into())),
                    Ok(None) => {}
                    Err(e) => faults.push(format!("component {:?} of {net} was not saved: {e}", component.name)),
                }
            }
            for (name, version, value) in entity.get::<Carried>().map(|carried| &carried.0).into_iter().flatten() {
                let next = names.len() as u16;
                let number = *numbers.entry((name.clone(), *version)).or_insert_with(|| {
                    names.push((name.clone(), *version));
                    next
                });
                values.push((number, value.clone()));
            }
            let owner = entity.get::<OwnedBy>().map(|owned| owned.0);
            if !values.is_empty() || owner.is_some() || entity.contains::<Seat>() {
                entities.push(StoredEntity { net, owner, values });
            }
        }
        faults.into_iter().for_each(|fault| self.error(fault));
        (names, entities)
    }

    fn stored_resources(&mut self) -> Vec<(Arc<str>, u32, Bytes)> {
        let kind = self.kind.clone();
        let mut out = Vec::new();
        for resource in kind.registry().resources.iter().filter(|r| r.persisted) {
            let mut value = Vec::new();
            let saved = resource.erased.save(&self.world, &mut value);
            match saved.and_then(|has| has.then(|| resource.migrations.lower(value)).transpose()) {
                Ok(Some(value)) => out.push((resource.name.clone(), resource.migrations.written(), value.into())),
                Ok(None) => {}
                Err(e) => self.error(format!("resource {:?} was not saved: {e}", resource.name)),
            }
        }
        out.extend(self.carried.iter().cloned());
        out.sort_by(|a, b| a.0.cmp(&b.0));
        out
    }
}

#[cfg(test)]
mod tests {
    use tenure_shared::{Term, Tick};

    use super::*;
    use crate::plugin::{RoomBuilder, decode, decode_both};
    use crate::room::test_room::TestRoom;

    #[derive(Serialize)]
    struct Later {
        shown: Vec<(u64, Place)>,
        something_new: Vec<String>,
    }

    #[test]
    fn an_older_build_reads_past_what_is_new_and_a_newer_one_does_without() {
        let mut game = TestRoom::new("lab", |room: &mut RoomBuilder| {
            room.tick_rate(20);
        });
        let body = game.world().checkpoint(false).body;
        // As a build reads it that knows of nothing behind it.
        let stored: Stored = decode(&body).expect("readable");
        let mut former = Vec::new();
        encode(&mut former, &stored).expect("plain data");
        assert!(body.starts_with(&former) && body.len() < former.len() + 16, "of nothing little is said");
        // As that build writes it.
        let (_, more): (Stored, More) = decode_both(&former).expect("readable");
        assert!(more.unshown.is_empty() && more.shown.is_empty() && more.grants.is_none());
        // Of a build that has more to say.
        let shown = vec![(9, (SeatId(1), Term(2), Tick(3)))];
        let later = Later { shown: shown.clone(), something_new: vec!["?".to_owned()] };
        encode_named(&mut former, &later).expect("plain data");
        let (_, more): (Stored, More) = decode_both(&former).expect("readable");
        assert_eq!(more.shown, shown);
        former.truncate(former.len() - 1);
        assert!(decode_both::<Stored, More>(&former).is_err(), "damaged");
    }
}
