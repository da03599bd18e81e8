//! Rooms whose owners change under their players: no socket closes, no message is lost, overtaken or dropped in silence (H4), and
//! nothing older follows (H7).
#![allow(clippy::expect_used, clippy::disallowed_methods, reason = "a test")]

mod gateway_support;

use std::time::Duration;

use gateway_support::{
    Rig, SHARDS,
    owners::{arena, connected, login, moved, rig_of, until_snapshot},
    until,
};
use tenure::link::{Mode, ToGateway};
use tenure_shared::{
    RoomId, SeatId, Seq, Term, Tick,
    codes::CloseCode,
    wire::{ClientMessage, ServerMessage, Wanted},
};

#[tokio::test]
async fn a_takeover_moves_three_seats_and_loses_no_input() {
    let rig = rig_of(2).await;
    let next = rig.cluster.nodes[1].clone();
    let mut clients = Vec::new();
    for player in ["anna", "bert", "carl"] {
        let mut client = login(&rig, player).await;
        client.enter("k3").await;
        until_snapshot(&mut client, 5, 10).await;
        for seq in 1..=4 {
            client.input(seq).await;
        }
        client.settle().await;
        clients.push(client);
    }
    // Two are saved; the directory has nobody while the shard is taken over.
    let tick = rig.node.tick(&arena(), 1, |_| (Vec::new(), 2));
    for client in &mut clients {
        client.expect(|m| matches!(m, ServerMessage::Frame { tick: t, .. } if t.0 == tick).then_some(())).await;
    }
    rig.cluster.own(&arena(), None, 5);
    rig.node.break_links();
    for client in &mut clients {
        client.input(5).await;
        client.input(6).await;
        client.settle().await;
    }
    next.takes_over(&rig.node, &arena(), 7, 8, 2);
    rig.cluster.own(&arena(), Some(1), 7);
    connected(&next, 3).await;
    for client in &mut clients {
        assert_eq!(until_snapshot(client, 7, 8).await, ["rolled back 7.8", "snapshot 7.8"]);
        client.input(7).await;
        client.settle().await;
    }
    let inputs = next.state.lock().rooms[&arena()].inputs.clone();
    for seat in 1..=3 {
        let of = inputs.iter().filter(|i| i.seat == SeatId(seat)).map(|i| i.seq.0).collect::<Vec<_>>();
        assert_eq!(of, [3, 4, 5, 6, 7], "seat {seat}");
    }
    let attach = next.state.lock().attaches.last().cloned().expect("one");
    assert_eq!(
        (attach.rejoin, attach.mode, attach.first, attach.shown),
        (true, Mode::Join, Seq(3), (Term(5), Tick(11)))
    );
    assert_eq!(rig.gateway.sockets(), 3);
    let tick = next.tick(&arena(), 1, |_| (Vec::new(), 7));
    for client in &mut clients {
        client
            .expect(|m| matches!(m, ServerMessage::Frame { term: Term(7), tick: t, .. } if t.0 == tick).then_some(()))
            .await;
    }
}

#[tokio::test]
async fn a_planned_move_is_seen_as_a_snapshot_alone_and_nothing_of_the_former_owner_counts_any_more() {
    let rig = rig_of(2).await;
    let next = rig.cluster.nodes[1].clone();
    let mut client = login(&rig, "anna").await;
    client.enter("k3").await;
    until_snapshot(&mut client, 5, 10).await;
    let conn = rig.node.seats(&arena())[0].conn;
    next.takes_over(&rig.node, &arena(), 6, 10, 0);
    moved(&rig);
    connected(&next, 1).await;
    // Late, and of a node that has the seat no more.
    rig.node.tick(&arena(), 1, |_| (Vec::new(), 0));
    let (code, reason) = (CloseCode::RoomError, "not yours".to_owned());
    rig.node.send(ToGateway::Close { conn, code, reason });
    rig.node.send(ToGateway::Left { conn });
    let bytes = gateway_support::snapshot_of(9, 9);
    rig.node.send(ToGateway::Snapshot { conn, term: Term(9), tick: Tick(9), bytes });
    rig.node.restore(&arena(), 9, 9, 1);
    assert_eq!(until_snapshot(&mut client, 6, 10).await, ["snapshot 6.10"]);
    let tick = next.tick(&arena(), 1, |_| (Vec::new(), 0));
    let shown =
        client.expect(|m| if let ServerMessage::Frame { term, tick, .. } = m { Some((term.0, tick.0)) } else { None });
    assert_eq!(shown.await, (6, tick));
    client.settle().await;
}

#[tokio::test]
async fn a_link_that_breaks_is_dialled_again_and_its_seats_go_on() {
    let rig = rig_of(1).await;
    let mut client = login(&rig, "anna").await;
    client.enter("k3").await;
    client.input(1).await;
    client.settle().await;
    rig.node.break_links();
    client.input(2).await;
    until("it is given again", || rig.node.inputs(&arena()) == [1, 2]).await;
    assert_eq!(rig.node.links(), 1);
    client.settle().await;
    drop(client);
    connected(&rig.node, 0).await;
}

#[tokio::test]
async fn an_attach_goes_on_from_node_to_node_until_one_is_the_owner() {
    let rig = rig_of(3).await;
    rig.cluster.own(&arena(), Some(1), 6);
    rig.cluster.nodes[2].room("arena/eu/k3");
    let mut client = login(&rig, "anna").await;
    client.send(ClientMessage::Join { id: 1, room: arena(), options: &[0xc0] }).await;
    until("the second was asked", || rig.cluster.nodes[1].state.lock().attaches.len() > 2).await;
    rig.cluster.nodes[2].state.lock().foreign.clear();
    rig.cluster.own(&arena(), Some(2), 7);
    client.joined().await.expect("joined");
    assert_eq!(rig.cluster.nodes[2].seats(&arena()).len(), 1);
}

#[tokio::test]
async fn the_directory_moves_seats_whose_owner_says_nothing() {
    let rig = rig_of(2).await;
    let next = rig.cluster.nodes[1].clone();
    let mut client = login(&rig, "anna").await;
    client.enter("k3").await;
    until_snapshot(&mut client, 5, 10).await;
    next.takes_over(&rig.node, &arena(), 6, 4, 0);
    // An entry that is not newer than what is shown moves nobody.
    rig.cluster.own(&arena(), Some(1), 5);
    client.input(1).await;
    client.settle().await;
    assert_eq!(rig.node.inputs(&arena()), [1]);
    rig.cluster.own(&arena(), Some(1), 6);
    assert_eq!(until_snapshot(&mut client, 6, 4).await, ["rolled back 6.4", "snapshot 6.4"]);
    until("it is given again", || next.inputs(&arena()) == [1]).await;
}

#[tokio::test]
async fn an_owner_that_is_behind_is_told_and_not_shown() {
    let rig = rig_of(2).await;
    let next = rig.cluster.nodes[1].clone();
    let mut client = login(&rig, "anna").await;
    client.enter("k3").await;
    next.takes_over(&rig.node, &arena(), 8, 1, 0);
    moved(&rig);
    until_snapshot(&mut client, 8, 1).await;
    // The store has forgotten it: the first node goes on for its old term.
    next.state.lock().foreign.insert(arena());
    rig.node.state.lock().foreign.clear();
    rig.cluster.own(&arena(), Some(0), 5);
    next.break_links();
    let shard = arena().shard(SHARDS);
    until("it is told", || rig.node.state.lock().terms_seen.contains(&(shard, Term(8)))).await;
    until("it is asked again", || rig.node.state.lock().attaches.len() > 2).await;
    assert!(rig.node.state.lock().terms_seen.len() <= 2, "once a second");
    rig.node.state.lock().term = 9;
    assert_eq!(until_snapshot(&mut client, 9, 10).await, ["snapshot 9.10"]);
    // One that falls behind while it has the seat is told too.
    rig.node.state.lock().term = 7;
    rig.node.state.lock().terms_seen.clear();
    until("it is told", || {
        rig.node.tick(&arena(), 1, |_| (Vec::new(), 0));
        rig.node.state.lock().terms_seen.contains(&(shard, Term(9)))
    })
    .await;
    client.settle().await;
}

fn resume(session: &str, (term, tick): (u64, u64)) -> ClientMessage<'_> {
    ClientMessage::Resume { id: 2, room: arena(), session, shown: (Term(term), Tick(tick)), first: Seq(1), resumes: 0 }
}

#[tokio::test]
async fn a_gateway_that_is_behind_shows_a_player_nothing_older_than_another_did() {
    let rig = rig_of(2).await;
    let next = rig.cluster.nodes[1].clone();
    let mut client = login(&rig, "anna").await;
    let joined = client.enter("k3").await;
    until_snapshot(&mut client, 5, 10).await;
    drop(client);
    connected(&rig.node, 0).await;
    next.takes_over(&rig.node, &arena(), 6, 4, 0);
    // The other gateway's directory is behind: it is read anew, and the first node is not even asked.
    let other = rig.another().await;
    let mut client = login(&other, "anna").await;
    let (room, asked) = (arena(), rig.node.state.lock().attaches.len());
    let refreshed = rig.cluster.refreshed();
    client.send(resume(&joined.session, (6, 9))).await;
    until("the directory is read anew", || rig.cluster.refreshed() > refreshed).await;
    next.state.lock().tick = 20;
    rig.cluster.own(&room, Some(1), 6);
    let joined = client.joined().await.expect("resumed");
    assert_eq!((joined.term, joined.tick), (Term(6), Tick(20)));
    let state = rig.node.state.lock();
    assert_eq!((state.attaches.len(), state.terms_seen.len()), (asked, 0));
}

#[tokio::test]
async fn what_a_client_claims_to_have_seen_moves_no_node() {
    let rig = Rig::new(|s| s.manual = true).await;
    rig.node.state.lock().follows = true;
    let mut client = login(&rig, "anna").await;
    let joined = client.enter("k3").await;
    drop(client);
    connected(&rig.node, 0).await;
    let mut liar = login(&rig, "anna").await;
    // A year ahead.
    liar.send(resume(&joined.session, (5 + 364 * 24 * 3_600_000_000, 0))).await;
    let asked = rig.node.state.lock().attaches.len();
    rig.advance_until(Duration::from_millis(20), "it is asked all the same", || {
        rig.node.state.lock().attaches.len() > asked + 2
    })
    .await;
    rig.advance_until(Duration::from_millis(20), "no seat is held", || {
        rig.moved() > Duration::from_secs(13) && rig.node.seats(&arena()).iter().all(|seat| !seat.connected)
    })
    .await;
    assert_eq!(liar.joined().await.map(drop), Err("resume_failed".to_owned()));
    assert_eq!(rig.node.state.lock().terms_seen, []);
    // The session is as it was, for who tells the truth.
    liar.send(resume(&joined.session, (5, 10))).await;
    assert_eq!(liar.joined().await.expect("resumed").term, Term(5));
}

#[tokio::test]
async fn a_new_room_that_was_found_counts_as_a_create() {
    let rig = Rig::new(|s| {
        s.nodes = 3;
        s.config.creates_per_minute = 1;
    })
    .await;
    let wanted = Wanted { kind: "arena", region: None, name: None, filter: &[] };
    // Three have none; the first of them names a new one, which is of another's shard.
    for node in &rig.cluster.nodes {
        node.state.lock().new = true;
    }
    let mut clients = Vec::new();
    for (n, expected) in [(1, Ok(())), (2, Err("limit".to_owned()))] {
        let mut client = login(&rig, "anna").await;
        let room = RoomId::new(&format!("arena/eu/new{n}")).expect("id");
        rig.cluster.nodes.iter().for_each(|node| node.state.lock().found = vec![room.clone()]);
        client.send(ClientMessage::JoinOrCreate { id: 1, wanted: wanted.clone(), options: &[0xc0] }).await;
        assert_eq!(client.joined().await.map(drop), expected);
        clients.push(client);
    }
    let finds: usize = rig.cluster.nodes.iter().map(|node| node.state.lock().finds).sum();
    assert_eq!(finds, 2, "the first has an answer");
    assert_eq!(rig.node.state.lock().attaches[0].mode, Mode::JoinOrCreate);
}

#[tokio::test]
async fn links_to_nodes_that_are_gone_are_let_go_when_nobody_is_on_them() {
    let rig = Rig::new(|s| (s.nodes, s.manual) = (2, true)).await;
    rig.node.state.lock().follows = true;
    let next = rig.cluster.nodes[1].clone();
    let mut client = login(&rig, "anna").await;
    client.enter("k3").await;
    rig.cluster.list(&[1]);
    client.settle().await;
    assert_eq!(rig.node.links(), 1, "a seat is on it");
    next.takes_over(&rig.node, &arena(), 6, 4, 0);
    moved(&rig);
    let gone = || next.seats(&arena())[0].connected && rig.node.links() == 0;
    rig.advance_until(Duration::from_millis(50), "it is let go", gone).await;
    client.settle().await;
}
