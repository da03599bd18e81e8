//! What a client does while its seat is between owners, and what the next owner makes of it.
#![allow(clippy::expect_used, clippy::disallowed_methods, reason = "a test")]

mod gateway_support;

use std::sync::{Arc, atomic::Ordering};

use gateway_support::{
    Ended, HASH, Rig,
    owners::{arena, login, moved, rig_of, until_snapshot},
    until,
};
use tenure::{gateway::UnsavedBounds, link::ToGateway};
use tenure_shared::{
    SeatId, Seq, Term, Tick,
    wire::{ClientMessage, ServerMessage, Space, TableRow},
};

#[tokio::test]
async fn a_slow_takeover_fills_the_ring_and_what_is_too_much_is_refused() {
    let rig = Rig::new(|s| {
        s.nodes = 2;
        s.unsaved = UnsavedBounds { count: 8, ..UnsavedBounds::default() };
    })
    .await;
    rig.node.state.lock().follows = true;
    let next = rig.cluster.nodes[1].clone();
    let mut client = login(&rig, "anna").await;
    client.enter("k3").await;
    client.input(1).await;
    client.settle().await;
    rig.cluster.own(&arena(), None, 5);
    rig.node.break_links();
    for seq in 2..=20 {
        client.input(seq).await;
    }
    let mut refused = Vec::new();
    client.send(ClientMessage::Ping { id: 9 }).await;
    client
        .expect(|m| match m {
            ServerMessage::Refused { seq, .. } => {
                refused.push(seq.0);
                None
            }
            ServerMessage::Pong { id: 9, .. } => Some(()),
            _ => None,
        })
        .await;
    next.takes_over(&rig.node, &arena(), 6, 4, 0);
    rig.cluster.own(&arena(), Some(1), 6);
    until_snapshot(&mut client, 6, 4).await;
    client.settle().await;
    until("all are given", || next.inputs(&arena()).len() == 8).await;
    let mut all = [next.inputs(&arena()), refused.clone()].concat();
    all.sort_unstable();
    assert_eq!(all, (1..=20).collect::<Vec<_>>(), "applied and refused are what was sent");
    assert_eq!(refused, (9..=20).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_leave_between_owners_is_carried_out_by_the_next() {
    let rig = rig_of(2).await;
    let next = rig.cluster.nodes[1].clone();
    let mut client = login(&rig, "anna").await;
    client.enter("k3").await;
    rig.cluster.own(&arena(), None, 5);
    rig.node.break_links();
    client.input(1).await;
    client.send(ClientMessage::Leave { id: 7 }).await;
    client.settle().await;
    next.takes_over(&rig.node, &arena(), 6, 4, 0);
    rig.cluster.own(&arena(), Some(1), 6);
    client.expect(|m| matches!(m, ServerMessage::Left { id: 7 }).then_some(())).await;
    assert_eq!(next.inputs(&arena()), [1], "what was sent before it comes first");
    assert!(next.seats(&arena()).is_empty());
    client.enter("k3").await;
}

#[tokio::test]
async fn a_socket_that_closes_between_owners_leaves_no_seat_behind() {
    let rig = rig_of(2).await;
    let next = rig.cluster.nodes[1].clone();
    let mut client = login(&rig, "anna").await;
    client.enter("k3").await;
    next.takes_over(&rig.node, &arena(), 6, 4, 0);
    next.silent.store(true, Ordering::SeqCst);
    moved(&rig);
    until("the next owner is asked", || !next.state.lock().attaches.is_empty()).await;
    let attach = next.state.lock().attaches[0].clone();
    drop(client);
    until("the socket is gone", || rig.gateway.sockets() == 0).await;
    // Its answer comes too late: the seat is given back to its grace.
    next.send(ToGateway::Attached(tenure::link::Attached {
        conn: attach.conn,
        attempt: attach.attempt,
        room: arena(),
        seat: SeatId(1),
        generation: tenure_shared::Generation(9),
        term: Term(6),
        tick: Tick(4),
        owed: Seq(1),
        tick_rate: 20,
        hash: HASH,
        table: None,
        snapshot: bytes::Bytes::new(),
        rolled_back: false,
    }));
    until("it is given back", || next.state.lock().detaches.iter().any(|d| d.2.0 == 9 && !d.3)).await;
}

#[tokio::test]
async fn a_room_that_is_over_is_4012_and_a_seat_that_nobody_knows_4010() {
    for (gone, code) in [(false, 4012), (true, 4010)] {
        let rig = rig_of(2).await;
        let mut client = login(&rig, "anna").await;
        client.enter("k3").await;
        if gone {
            for generation in 1..=2 {
                until("it is attached", || rig.node.seats(&arena())[0].generation.0 == generation).await;
                client.settle().await;
                let seat = rig.node.seats(&arena())[0].clone();
                let (room, seat, generation) = (arena(), seat.seat, seat.generation);
                rig.node.send(ToGateway::Gone { room, seat, generation });
            }
        } else {
            rig.cluster.nodes[1].state.lock().foreign.clear();
            moved(&rig);
        }
        assert!(matches!(client.ended().await, Ended::Code(ended, _) if ended == code), "{code}");
    }
}

#[tokio::test]
async fn a_room_that_goes_on_under_another_build_renews_its_name_table() {
    let rig = rig_of(2).await;
    let next = rig.cluster.nodes[1].clone();
    let table = |rows: &[(u16, &str)]| {
        let row = |&(number, name): &(u16, &str)| TableRow {
            space: Space::Message,
            number,
            name: name.to_owned(),
            version: 1,
            fields: None,
        };
        Some(Arc::new(rows.iter().map(row).collect::<Vec<_>>()))
    };
    rig.node.state.lock().table = table(&[(0, "steer"), (1, "wave")]);
    (next.state.lock().table, next.state.lock().hash) = (table(&[(4, "steer")]), HASH + 1);
    let mut client = login(&rig, "anna").await;
    client.enter("k3").await;
    until_snapshot(&mut client, 5, 10).await;
    let say = |seq, kind| ClientMessage::Message { seq: Seq(seq), kind, payload: &[0xc0] };
    client.send(say(1, 0)).await;
    client.send(say(2, 1)).await;
    client.settle().await;
    next.takes_over(&rig.node, &arena(), 6, 4, 0);
    moved(&rig);
    let rows = client
        .expect(|m| match m {
            ServerMessage::Renewed { seat: SeatId(1), tick_rate: 20, hash, table: Some(rows) } if *hash == HASH + 1 => {
                Some(rows.clone())
            }
            ServerMessage::Snapshot { .. } => panic!("the snapshot comes behind it"),
            _ => None,
        })
        .await;
    assert_eq!((rows[0].number, rows[0].name.as_str()), (4, "steer"));
    // Until the client says so it speaks by the old table.
    client.send(say(3, 0)).await;
    client.send(ClientMessage::Table { hash: HASH + 1 }).await;
    client.send(say(4, 4)).await;
    client.settle().await;
    until("all are given", || next.inputs(&arena()).len() == 4).await;
    let kinds: Vec<_> = next.state.lock().rooms[&arena()].inputs.iter().map(|i| (i.seq.0, i.kind)).collect();
    assert_eq!(kinds, [(1, 4), (2, u16::MAX), (3, 4), (4, 4)], "the room answers what it does not know");
}
