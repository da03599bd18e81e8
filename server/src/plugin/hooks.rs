//! What hooks and handlers are given: the `X` of their `In<X>`.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bevy_ecs::entity::Entity;
use bytes::Bytes;
use serde::de::DeserializeOwned;
use tenure_shared::{
    PlayerId,
    msgpack::{self, Bounds},
};

use super::{Refuse, ReplyTo, TaskEnd, decode, values::decode_client};
use crate::runtime::Wall;

/// A player wants a seat. The seat's entity exists; a refusal removes it again.
#[derive(Clone, Debug)]
pub struct Join {
    /// The seat.
    pub seat: Entity,
    /// Who.
    pub player: PlayerId,
    options: Bytes,
    claims: Bytes,
}

impl Join {
    /// `record`: the client's options, and behind them what his login token claims, if he has one.
    pub(crate) fn new(seat: Entity, player: PlayerId, record: &Bytes) -> Self {
        let mut rest = &record[..];
        let claims = match msgpack::slice_value(&mut rest, &Bounds::CLIENT) {
            Ok(_) => record.slice_ref(rest),
            // What is wrong with it is said when the game asks for it.
            Err(_) => Bytes::new(),
        };
        Self { seat, player, options: record.slice(..record.len() - claims.len()), claims }
    }

    /// The client's join options. Absent options are the default.
    ///
    /// # Errors
    /// When they are not what `T` reads.
    pub fn options<T: DeserializeOwned + Default>(&self) -> Result<T, Refuse> {
        read("join options", &self.options)
    }

    /// What the player's login token says of him, beside `sub` and the claims that every token has (docs/logging-in.md). As the token
    /// said it when he joined; a guest has none, which is the default.
    ///
    /// # Errors
    /// When they are not what `T` reads.
    pub fn claims<T: DeserializeOwned + Default>(&self) -> Result<T, Refuse> {
        read("the login token's claims", &self.claims)
    }
}

fn read<T: DeserializeOwned + Default>(what: &str, bytes: &[u8]) -> Result<T, Refuse> {
    const NIL: u8 = 0xc0;
    if bytes.is_empty() || bytes == [NIL] {
        return Ok(T::default());
    }
    decode_client(bytes).map_err(|e| Refuse::new(format!("{what}: {e}")))
}

/// A seat ends. Its entity is removed after the hook. A room that ends by `RoomControl::dispose` ends without this hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leave {
    /// The seat.
    pub seat: Entity,
    /// Why.
    pub cause: LeaveCause,
}

/// Why a seat ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaveCause {
    /// The player left on purpose.
    Consented,
    /// He lost his socket, and was not back within the reconnect grace.
    GraceOver,
    /// The game said `Out::kick`.
    Kicked,
    /// A seat that had ended was there again, since the store forgot its end: it ends again, in favour of the one that the player has since.
    Forgotten,
}

/// A request of a client.
#[derive(Clone, Debug)]
pub struct Request<T> {
    /// From which seat.
    pub seat: Entity,
    /// Whose seat.
    pub player: PlayerId,
    /// What is asked.
    pub body: T,
    /// For an answer that comes later.
    pub reply: ReplyTo,
}

/// A local timer fired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fired {
    /// What it was set with: a number of the game's own.
    pub key: u64,
    /// Room time at which it was due.
    pub due: Duration,
    pub(crate) payload: Bytes,
}

impl Fired {
    /// What it carries.
    ///
    /// # Errors
    /// When it is not what `T` reads.
    pub fn payload<T: DeserializeOwned>(&self) -> Result<T, Refuse> {
        decode(&self.payload).map_err(|e| Refuse::new(format!("payload of a timer: {e}")))
    }
}

/// Durable work is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work<T> {
    /// Its key: with room and job its identity.
    pub key: Arc<str>,
    /// When it was due, by the store's clock.
    pub due: Wall,
    /// Failed attempts so far.
    pub attempt: u32,
    /// What it carries.
    pub body: T,
}

/// What a ledger did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// What was really given after caps; charges are negative.
    Given(BTreeMap<Arc<str>, i64>),
    /// A charge would have gone below 0: nothing changed.
    Insufficient,
}

/// A grant or charge of this room came back from the ledger. Given to game code once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// Its identity.
    pub id: Arc<str>,
    /// Whose ledger.
    pub player: PlayerId,
    /// His seat, if he has one now.
    pub seat: Option<Entity>,
    /// Schedule id, or what game code said.
    pub source: Arc<str>,
    /// When it was due; `None` for grants of game code.
    pub scheduled_for: Option<Wall>,
    /// What became of it.
    pub outcome: Outcome,
}

/// A charge came back from the ledger. Given to game code once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charged<P> {
    /// Who pays.
    pub player: PlayerId,
    /// His seat, if he has one now.
    pub seat: Option<Entity>,
    /// Whether he paid; else he had not enough.
    pub paid: bool,
    /// What the charge was made with.
    pub purchase: P,
}

/// A task ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskDone<T> {
    /// What it was started with: a number of the game's own.
    pub key: u64,
    /// What it gave, or why it gave nothing.
    pub result: Result<T, TaskEnd>,
}
