//! Rooms that change hands: what the tests of it share.

use std::sync::Arc;

use tenure::link::ToGateway;
use tenure_shared::{RoomId, Term, wire::ServerMessage};

use super::{Client, FakeNode, Rig, SHARDS, token, until};

pub fn arena() -> RoomId {
    RoomId::new("arena/eu/k3").expect("id")
}

pub async fn rig_of(nodes: usize) -> Rig {
    let rig = Rig::new(|s| s.nodes = nodes).await;
    rig.node.state.lock().follows = true;
    for node in &rig.cluster.nodes[1..] {
        node.state.lock().foreign.insert(arena());
    }
    rig
}

pub async fn login(rig: &Rig, player: &str) -> Client {
    let mut client = rig.connect().await;
    client.hello(Some(&token(player))).await;
    client
}

/// The first node says that the shard went to the second.
pub fn moved(rig: &Rig) {
    let to = Some("node-1".into());
    rig.node.state.lock().foreign.insert(arena());
    rig.node.send(ToGateway::Moved { shard: arena().shard(SHARDS), term: Term(5), to });
}

pub async fn connected(node: &Arc<FakeNode>, seats: usize) {
    until("the seats are there", || node.seats(&arena()).iter().filter(|seat| seat.connected).count() == seats).await;
}

/// What is shown and said until the snapshot of this tick.
pub async fn until_snapshot(client: &mut Client, term: u64, tick: u64) -> Vec<String> {
    let mut words = Vec::new();
    client
        .expect(|m| {
            match m {
                ServerMessage::RolledBack { term, tick } => words.push(format!("rolled back {term}.{tick}")),
                ServerMessage::Frame { term, tick, .. } => words.push(format!("frame {term}.{tick}")),
                ServerMessage::Snapshot { term: t, tick: n, .. } => {
                    words.push(format!("snapshot {t}.{n}"));
                    return ((t.0, n.0) == (term, tick)).then_some(());
                }
                ServerMessage::Renewed { .. } => words.push("renewed".to_owned()),
                _ => {}
            }
            None
        })
        .await;
    words
}
