//! The one room of the models, as the room host treats it: it works under a fence, commits with numbers, stands still without a lease,
//! goes on from memory when nobody owned its shard in between, and is restored from its checkpoint otherwise.

use bytes::Bytes;
use tenure::{
    ownership::model_check::Event,
    store::{Batch, Checkpoint, Command, Error, Reply, RoomSummary},
};
use tenure_shared::{RoomId, Term, Tick};

use super::{
    cluster::{Cluster, Flight, Node, State, What},
    machine::SHARD,
    store::fence,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Room {
    /// The term it runs under.
    pub term: u64,
    /// Everything done in it, in order.
    pub done: Vec<u8>,
    /// Number of the last commit under the term.
    pub number: u64,
    /// The commit whose fate is not known.
    pub pending: Option<u32>,
    /// It stands still, since its shard is being handed over.
    pub frozen: bool,
}

pub fn id() -> RoomId {
    RoomId::from_parts("model", "eu", "room").expect("a name")
}

pub fn checkpoint(term: u64, done: &[u8]) -> Checkpoint {
    let summary = RoomSummary {
        room: id(),
        seats: 0,
        max_seats: 1,
        metadata: Bytes::new(),
        dormant: false,
        private: false,
        locked: false,
    };
    let at = done.len() as u64;
    Checkpoint { summary, term: Term(term), tick: Tick(at), version: at, body: Bytes::copy_from_slice(done) }
}

/// What the store has of the room.
pub fn stored(cluster: &Cluster, rows: u32) -> Bytes {
    match cluster.stores.read(rows, Command::Load { room: id() }) {
        Reply::Checkpoint(checkpoint) => checkpoint.map(|checkpoint| checkpoint.body).unwrap_or_default(),
        other => panic!("not a checkpoint: {other:?}"),
    }
}

pub fn may_work(node: &Node) -> bool {
    node.room.as_ref().is_some_and(|room| room.pending.is_none() && !room.frozen && node.acting == Some(room.term))
}

pub fn load(cluster: &Cluster, state: &mut State, node: u8) {
    let Some(term) = state.nodes[usize::from(node)].acting else { return };
    let done = stored(cluster, state.rows).to_vec();
    state.nodes[usize::from(node)].room = Some(Room { term, done, number: 0, pending: None, frozen: false });
}

/// Something happens in the room; its checkpoint is committed.
pub fn work(cluster: &Cluster, state: &mut State, node: u8) {
    let mark = state.left.works * 16 + node;
    if let Some(room) = &mut state.nodes[usize::from(node)].room {
        room.done.push(mark);
    }
    commit(cluster, state, node);
}

fn commit(cluster: &Cluster, state: &mut State, node: u8) {
    let (now, this) = (state.now, &mut state.nodes[usize::from(node)]);
    let incarnation = this.machine.and_then(|machine| cluster.machines.view(machine).incarnation);
    let (Some(room), Some(incarnation)) = (&mut this.room, incarnation) else { return };
    let batch = Batch { checkpoints: vec![checkpoint(room.term, &room.done)], ..Batch::default() };
    let fence = fence(SHARD, &incarnation, Term(room.term));
    let command = Command::Commit { fence, shards: 1, number: room.number + 1, batch };
    let command = cluster.stores.commands.put_debug(command);
    room.pending = Some(command);
    let flight =
        Flight { node, process: this.process, what: What::Commit, command, sent: now, awaited: true, answer: None };
    cluster.put(state, flight);
}

/// The caller does not know what became of a commit.
pub fn again(cluster: &Cluster, state: &mut State, flight: &Flight) {
    let node = &state.nodes[usize::from(flight.node)];
    let waits = node.room.as_ref().is_some_and(|room| room.pending == Some(flight.command));
    if waits && node.process == flight.process {
        cluster.put(state, Flight { awaited: true, answer: None, sent: state.now, ..flight.clone() });
    }
}

pub fn answered(cluster: &Cluster, state: &mut State, flight: &Flight, answer: &Result<Reply, Error>) {
    let this = &mut state.nodes[usize::from(flight.node)];
    let Some(room) = this.room.as_mut().filter(|room| room.pending == Some(flight.command)) else { return };
    match answer {
        Ok(_) => {
            room.number += 1;
            room.pending = None;
        }
        Err(Error::Fenced { .. } | Error::OutOfOrder { .. } | Error::Tombstoned(_)) => {
            let term = Term(room.term);
            cluster.event(state, flight.node, Event::Fenced { shard: SHARD, term });
        }
        // The store says that this world is not what it has: the checkpoint counts.
        Err(_) => this.room = None,
    }
}

/// Ownership says something new.
pub fn follow(cluster: &Cluster, state: &mut State, node: u8) {
    let rows = state.rows;
    let this = &mut state.nodes[usize::from(node)];
    let Some(view) = this.machine.map(|machine| cluster.machines.view(machine)) else { return };
    let Some(room) = &mut this.room else { return };
    match view.holding {
        // Frozen, or another's.
        None if view.in_doubt || cluster.careless.keeps_worlds => {}
        None => this.room = None,
        Some((term, _)) if term.0 == room.term => {}
        Some((term, continues)) => {
            let goes_on = continues.is_some_and(|since| since.0 <= room.term) || cluster.careless.keeps_worlds;
            if !goes_on {
                this.room = None;
                return;
            }
            // Under the new term no write of the old one can be carried out any more: what is read now is final.
            room.term = term.0;
            room.number = 0;
            room.frozen = false;
            let applied = stored(cluster, rows).len() >= room.done.len();
            if room.pending.take().is_some() && !applied {
                commit(cluster, state, node);
            }
        }
    }
}
