//! What the admin port must know of a node, and the words in which it says so.

use std::{net::SocketAddr, time::Duration};

use serde::{Deserialize, Serialize};
use tenure_shared::{RoomId, ShardId, Term, Tick};

use super::{ClusterReport, DaemonError, DaemonOrder, DaemonsReport, ReloadError, ReloadReport};
use crate::{
    runtime::Wall,
    store::{BoxFuture, Fence, Store},
    telemetry::Event,
};

/// A node, as its admin port sees it. No method may block.
pub trait Source: Send + Sync + 'static {
    /// Whether the node should get new sockets.
    fn readiness(&self) -> Readiness;
    /// The state of the node. Events are added by the server.
    fn status(&self) -> StatusReport;
    /// The node's store.
    fn store(&self) -> &Store;
    /// The fence of a shard that this node holds.
    fn fence(&self, shard: ShardId) -> Option<Fence>;
    /// How many shards there are.
    fn shards(&self) -> u32;
    /// How long the store knows what was completed.
    fn keep_identities(&self) -> Duration;
    /// Makes a parked room run again: whether it was parked here.
    fn unpark(&self, room: &RoomId) -> bool;
    /// The cluster, as this node sees it.
    fn cluster(&self) -> ClusterReport;
    /// The daemons of the cluster, those of other nodes too. Cancel-safe.
    fn daemons(&self) -> BoxFuture<'_, DaemonsReport>;
    /// Carries out an order for daemons; the answer is for the one who asked. Cancelled, it may have been carried out.
    fn order(&self, order: DaemonOrder) -> BoxFuture<'_, Result<serde_json::Value, DaemonError>>;
    /// Begins the node's end: its shards move, then it stops, as after SIGTERM. Repeating it changes nothing.
    fn drain(&self);
    /// Reads the file of schedules again. With any mistake in it the running schedules are kept. Cancel-safe: it is done whole or not at all.
    fn reload(&self) -> BoxFuture<'_, Result<ReloadReport, ReloadError>>;
}

/// Whether the node should get new sockets, and if not, why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Readiness {
    /// It is a member.
    pub registered: bool,
    /// Its lease holds by its own clock.
    pub lease: bool,
    /// A write and a read back were answered within the last lease time, fenced if the node holds a shard: a ping of the store proves
    /// less (C35).
    pub store: bool,
    /// It is going away.
    pub draining: bool,
}

impl Readiness {
    /// All of it.
    pub fn ready(&self) -> bool {
        self.registered && self.lease && self.store && !self.draining
    }

    /// What is missing, for people.
    pub fn reasons(&self) -> Vec<&'static str> {
        let rows = [
            (!self.registered, "not registered"),
            (!self.lease, "no lease"),
            (!self.store, "the store has not answered a write lately"),
            (self.draining, "draining"),
        ];
        rows.into_iter().filter(|(missing, _)| *missing).map(|(_, reason)| reason).collect()
    }
}

/// Where the node listens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Addresses {
    /// Players.
    pub play: Option<SocketAddr>,
    /// Probes, metrics, admin page.
    pub admin: Option<SocketAddr>,
    /// Other nodes.
    pub link: Option<SocketAddr>,
}

/// Sums over the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Players' sockets.
    pub sockets: u64,
    /// Seats taken, connected or in their grace.
    pub seats: u64,
    /// Rooms loaded.
    pub rooms: u64,
    /// Rooms stored, not loaded.
    pub dormant: u64,
    /// Rooms parked after too many panics.
    pub parked_rooms: u64,
    /// Work items overdue.
    pub overdue: u64,
}

/// A shard that this node holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardReport {
    /// Which.
    pub shard: ShardId,
    /// For which term.
    pub term: Term,
    /// Rooms loaded in it.
    pub rooms: u64,
}

/// A room on this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomReport {
    /// Which.
    pub room: RoomId,
    /// Its shard.
    pub shard: ShardId,
    /// The owner's term, if one serves it.
    pub term: Option<Term>,
    /// Its last tick, if known.
    pub tick: Option<Tick>,
    /// Ticks per second that it should make.
    pub tick_rate: Option<u32>,
    /// Seats taken.
    pub seats: u32,
    /// Seats with a socket, if known.
    pub connected: Option<u32>,
    /// Most seats.
    pub max_seats: Option<u32>,
    /// What it is doing: `running`, `dormant`, `frozen`, `parked` and the like.
    pub state: String,
    /// Ticks given up after stalls.
    pub ticks_dropped: u64,
    /// Why it is parked.
    pub reason: Option<String>,
}

/// A schedule of rewards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleReport {
    /// Its id.
    pub id: String,
    /// Rooms it is for.
    pub rooms: String,
    /// Its rule, as it is written in the file.
    pub rule: String,
    /// Its next occurrence, if there is one.
    pub next: Option<Wall>,
}

/// The file of schedules that a node goes by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RewardsReport {
    /// Its name; `None` when the game brings its own.
    pub file: Option<String>,
    /// Of its text: nodes with the same one run the same file.
    pub hash: String,
}

/// The state of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusReport {
    /// Its name.
    pub node: String,
    /// Version of the game, as in the members' records.
    pub version: String,
    /// This life of it in the store.
    pub incarnation: Option<String>,
    /// `gateway`, `room`.
    pub roles: Vec<String>,
    /// Process id.
    pub pid: u32,
    /// When it started.
    pub started: Wall,
    /// The store's time, as far as known.
    pub now: Wall,
    /// Whether it should get new sockets.
    pub readiness: Readiness,
    /// It has ended in order, and all that is left is the end of the process.
    #[serde(default)]
    pub ended: bool,
    /// Where it listens.
    pub addresses: Addresses,
    /// Sums.
    pub counts: Counts,
    /// Shards it holds.
    pub shards: Vec<ShardReport>,
    /// Rooms, busiest first; at most some hundred, the sums have them all.
    pub rooms: Vec<RoomReport>,
    /// The file of schedules.
    #[serde(default)]
    pub rewards: Option<RewardsReport>,
    /// Daemons of the cluster that should run and do not, as far as this node knows, a line each; what changes hands now is not here.
    #[serde(default)]
    pub daemons_missing: Vec<String>,
    /// Schedules, next one first.
    pub schedules: Vec<ScheduleReport>,
    /// The last events, newest first.
    pub events: Vec<Event>,
}
