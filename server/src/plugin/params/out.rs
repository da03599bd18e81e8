//! What comes in from clients and what goes out to them.

use std::{any::TypeId, collections::BTreeMap, sync::Arc};

use bevy_ecs::{
    change_detection::{Res, ResMut},
    entity::Entity,
    resource::Resource,
    system::SystemParam,
};
use serde::{Deserialize, Serialize};
use tenure_shared::SeatId;

use crate::plugin::{Refuse, ReplyTo, encode_named, messages::Queue, shown::encode_shown, values::Faults};

/// This tick's messages of one type: (seat, message), in order of arrival, of a seat in the order it sent them. Emptied each tick.
#[derive(SystemParam)]
pub struct Inbox<'w, T: Send + Sync + 'static> {
    queue: Res<'w, Queue<T>>,
}

impl<T: Send + Sync + 'static> Inbox<'_, T> {
    /// The messages.
    pub fn iter(&self) -> impl Iterator<Item = (Entity, &T)> {
        self.queue.items.iter().map(|(seat, message)| (*seat, message))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.queue.items.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.queue.items.is_empty()
    }
}

impl<T: Send + Sync + 'static> std::fmt::Debug for Inbox<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Inbox({})", self.len())
    }
}

/// To whom a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    One(Entity),
    All,
    AllBut(Entity),
}

/// One message from the room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OutItem {
    pub(crate) to: Target,
    pub(crate) number: u16,
    pub(crate) payload: Vec<u8>,
}

/// Messages and kicks of a tick.
#[derive(Resource, Debug, Default)]
pub(crate) struct OutQueue {
    pub(crate) items: Vec<OutItem>,
    pub(crate) kicks: Vec<(Entity, Refuse)>,
    pub(crate) numbers: Arc<BTreeMap<TypeId, u16>>,
    pub(crate) faults: Faults,
}

/// Most messages from the room in one tick.
const PER_TICK: usize = 4_096;
/// Most kicks in one tick: as many as a room has seats, at most.
const KICKS_PER_TICK: usize = 10_000;

/// Sends messages from the room. They leave with this tick's frame. What cannot be sent (a type that is no registered event, more
/// than 4,096 messages or 10,000 kicks in a tick) is dropped and reported with the tick.
#[derive(SystemParam, Debug)]
pub struct Out<'w> {
    queue: ResMut<'w, OutQueue>,
}

impl Out<'_> {
    /// To one seat. A seat without a socket misses it; one whose room has just moved gets it when its gateway has followed.
    pub fn to<T: Serialize + 'static>(&mut self, seat: Entity, message: &T) {
        self.push(Target::One(seat), message);
    }

    /// To all.
    pub fn all<T: Serialize + 'static>(&mut self, message: &T) {
        self.push(Target::All, message);
    }

    /// To all but one.
    pub fn all_but<T: Serialize + 'static>(&mut self, seat: Entity, message: &T) {
        self.push(Target::AllBut(seat), message);
    }

    /// Ends a seat after this tick; its socket is closed with 4011 and this reason.
    pub fn kick(&mut self, seat: Entity, reason: impl Into<Refuse>) {
        if self.queue.kicks.len() >= KICKS_PER_TICK {
            return self.queue.faults.push(format!("kick: more than {KICKS_PER_TICK} in one tick"));
        }
        self.queue.kicks.push((seat, reason.into()));
    }

    fn push<T: Serialize + 'static>(&mut self, to: Target, message: &T) {
        let queue = &mut *self.queue;
        let name = std::any::type_name::<T>;
        let Some(number) = queue.numbers.get(&TypeId::of::<T>()).copied() else {
            return queue.faults.push(format!("{} is not registered as an event", name()));
        };
        if queue.items.len() >= PER_TICK {
            return queue.faults.push(format!("{}: more than {PER_TICK} messages in one tick", name()));
        }
        let mut payload = Vec::new();
        match encode_shown(&mut payload, message) {
            Ok(()) => queue.items.push(OutItem { to, number, payload }),
            Err(e) => queue.faults.push(format!("{}: {e}", name())),
        }
    }
}

/// A request that waits for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pending {
    pub(crate) seat: SeatId,
    pub(crate) request: u32,
}

/// Requests that wait, and answers given in this tick.
#[derive(Resource, Debug, Default)]
pub(crate) struct ReplyBook {
    pub(crate) next: u64,
    pub(crate) pending: BTreeMap<u64, Pending>,
    pub(crate) answers: Vec<(Pending, Result<Vec<u8>, Refuse>)>,
    pub(crate) faults: Faults,
}

/// Answers requests whose handler said [`Answer::Later`](crate::plugin::Answer::Later).
#[derive(SystemParam, Debug)]
pub struct Replies<'w> {
    book: ResMut<'w, ReplyBook>,
}

impl Replies<'_> {
    /// Answers a request. `false` if it does not wait any more: it was answered, or its seat is gone.
    pub fn answer<T: Serialize>(&mut self, to: ReplyTo, answer: Result<T, Refuse>) -> bool {
        let book = &mut *self.book;
        let Some(pending) = book.pending.remove(&to.0) else { return false };
        let answer = answer.and_then(|value| {
            let mut out = Vec::new();
            encode_named(&mut out, &value).map(|()| out).map_err(|e| {
                book.faults.push(format!("answer {}: {e}", std::any::type_name::<T>()));
                Refuse::new("the answer could not be encoded")
            })
        });
        book.answers.push((pending, answer));
        true
    }
}
