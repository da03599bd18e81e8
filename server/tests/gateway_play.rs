//! The way through: login, join, play, leave; the rooms that are found and created; what is asked at the wrong time.
#![allow(clippy::expect_used, clippy::disallowed_methods, reason = "a test")]

mod gateway_support;

use std::sync::atomic::Ordering;

use gateway_support::{Ended, Rig, token};
use tenure::link::Mode;
use tenure_shared::{
    PlayerId, RoomId, Seq, Term,
    wire::{ClientMessage, ServerMessage, Wanted, write_tail},
};

fn room(text: &str) -> RoomId {
    RoomId::new(text).expect("id")
}

fn wanted<'a>(name: Option<&'a str>) -> Wanted<'a> {
    Wanted { kind: "arena", region: None, name, filter: &[] }
}

#[tokio::test]
async fn a_guest_joins_plays_and_leaves() {
    let rig = Rig::new(|_| ()).await;
    let mut client = rig.connect().await;
    let welcome = client.hello(None).await;
    assert_eq!((welcome.protocol, welcome.server.as_str(), welcome.ping, welcome.idle), (1, "node-1", 10_000, 25_000));
    assert_eq!((welcome.bytes, welcome.rate), (4096, 60));
    assert!(welcome.player.as_str().starts_with("guest:"));
    assert!(welcome.token.is_some());

    let joined = client.enter("k3").await;
    let arena = room("arena/eu/k3");
    assert_eq!((joined.id, &joined.room, joined.owed, joined.tick_rate), (1, &arena, Seq(1), 20));
    let session = rig.store.session(&welcome.player, &arena).expect("stored before joined is sent");
    assert_eq!((session.current, session.seat, &session.options[..]), (joined.session, joined.seat.0, &[0xc0][..]));
    let snapshot = client
        .expect(|m| if let ServerMessage::Snapshot { term, tick, .. } = m { Some((term.0, tick.0)) } else { None })
        .await;
    assert_eq!(snapshot, (5, 10));

    client.input(1).await;
    client.send(ClientMessage::Request { seq: Seq(2), id: 9, kind: 3, payload: &[0x92, 1, 2] }).await;
    client.settle().await;
    {
        let state = rig.node.state.lock();
        let inputs = &state.rooms[&arena].inputs;
        assert_eq!(
            inputs.iter().map(|i| (i.seq.0, i.request, i.kind)).collect::<Vec<_>>(),
            [(1, None, 0), (2, Some(9), 3)]
        );
        assert_eq!(&inputs[1].payload[..], [0x92, 1, 2]);
    }
    let tick = rig.node.tick(&arena, 50, |_| {
        let mut tail = Vec::new();
        write_tail(&mut tail, Seq(2), Seq(1), &[]);
        ServerMessage::Reply { id: 9, payload: &[0xc3] }.encode(&mut tail);
        (tail, 1)
    });
    let mut order = Vec::new();
    client
        .expect(|m| {
            order.push(match m {
                ServerMessage::Frame { term: Term(5), tick: n, .. } if n.0 == tick => "frame",
                ServerMessage::Tail { applied: Seq(2), saved: Seq(1), .. } => "tail",
                ServerMessage::Reply { id: 9, payload } if *payload == [0xc3] => return Some(()),
                _ => "other",
            });
            None
        })
        .await;
    assert_eq!(order, ["frame", "tail"]);

    client.send(ClientMessage::Leave { id: 4 }).await;
    client.expect(|m| matches!(m, ServerMessage::Left { id: 4 }).then_some(())).await;
    assert_eq!(rig.store.session(&welcome.player, &arena), None, "the session ends with the seat");
    // The same socket may enter another room.
    assert_eq!(client.enter("p9").await.room, room("arena/eu/p9"));
    // And what the last room still says is not for it.
    client.settle().await;
}

#[tokio::test]
async fn a_guest_token_gives_the_same_guest() {
    let rig = Rig::new(|_| ()).await;
    let first = rig.connect().await.hello(None).await;
    let again = rig.connect().await.hello(first.token.as_deref()).await;
    assert_eq!(first.player, again.player);
    let signed = rig.connect().await.hello(Some(&token("anna"))).await;
    assert_eq!((signed.player.as_str(), signed.token), ("anna", None));
}

#[tokio::test]
async fn a_bad_token_is_4008_and_says_nothing_of_it() {
    let rig = Rig::new(|_| ()).await;
    let mut client = rig.connect().await;
    let bad = token("anna").replace('e', "f");
    client.send(ClientMessage::Hello { protocol: 1, token: Some(&bad), table: None }).await;
    assert_eq!(client.ended().await, Ended::Code(4008, "the token is not valid".to_owned()));
}

#[tokio::test]
async fn another_protocol_is_told_both_versions() {
    let rig = Rig::new(|_| ()).await;
    let mut client = rig.connect().await;
    client.send(ClientMessage::Hello { protocol: 7, token: None, table: None }).await;
    assert_eq!(client.ended().await, Ended::Code(4007, "protocol 7 asked for, this server speaks 1".to_owned()));
}

#[tokio::test]
async fn any_room_with_a_free_seat_else_a_new_one() {
    let rig = Rig::new(|_| ()).await;
    rig.node.room("arena/eu/open");
    rig.node.state.lock().found = vec![room("arena/eu/open")];
    let mut client = rig.guest().await;
    client.send(ClientMessage::JoinOrCreate { id: 1, wanted: wanted(None), options: &[0xc0] }).await;
    assert_eq!(client.joined().await.expect("joined").room, room("arena/eu/open"));

    // What is found is full by the time of the join, three times over: a new one.
    rig.node.room("arena/eu/full");
    rig.node.state.lock().rooms.get_mut(&room("arena/eu/full")).expect("room").full = true;
    rig.node.state.lock().found = vec![room("arena/eu/full"); 9];
    let mut client = rig.guest().await;
    client.send(ClientMessage::JoinOrCreate { id: 1, wanted: wanted(None), options: &[0xc0] }).await;
    let made = client.joined().await.expect("joined").room;
    assert_eq!((made.kind(), made.region(), made.name().len()), ("arena", "eu", 10));
    let state = rig.node.state.lock();
    assert_eq!(state.finds, 1 + 3);
    assert_eq!(state.attaches.last().expect("one").mode, Mode::Create);
}

#[tokio::test]
async fn creating_is_limited_and_joining_is_not() {
    let rig = Rig::new(|s| s.manual = true).await;
    let mut client = rig.guest().await;
    for n in 0..7 {
        client
            .send(ClientMessage::Create { id: n + 1, wanted: wanted(Some(&format!("r{n}"))), options: &[0xc0] })
            .await;
        match client.joined().await {
            Ok(joined) => {
                assert!(n < 6);
                assert_eq!(joined.id, n + 1);
                client.send(ClientMessage::Leave { id: 99 }).await;
                client.expect(|m| matches!(m, ServerMessage::Left { id: 99 }).then_some(())).await;
            }
            Err(code) => assert_eq!((n, code.as_str()), (6, "limit")),
        }
    }
    for n in 0..6 {
        let joined = client.enter(&format!("r{n}")).await;
        assert_eq!(joined.room.name(), format!("r{n}"));
        client.send(ClientMessage::Leave { id: 99 }).await;
        client.expect(|m| matches!(m, ServerMessage::Left { id: 99 }).then_some(())).await;
    }
    client.send(ClientMessage::JoinOrCreate { id: 8, wanted: wanted(Some("new")), options: &[0xc0] }).await;
    let wait = client
        .expect(|m| match m {
            ServerMessage::Error { id: 8, code: "limit", retry_after, .. } => Some(*retry_after),
            ServerMessage::Joined(_) => panic!("a seventh room"),
            _ => None,
        })
        .await;
    assert!(wait.is_some_and(|ms| ms > 0 && ms <= 10_000), "{wait:?}");
}

#[tokio::test]
async fn requests_are_answered_with_their_id() {
    let rig = Rig::new(|_| ()).await;
    let mut client = rig.guest().await;
    client.send(ClientMessage::Join { id: 3, room: room("arena/eu/none"), options: &[0xc0] }).await;
    assert_eq!(client.joined().await, Err("no_such_room".to_owned()));
    client.send(ClientMessage::Leave { id: 4 }).await;
    assert_eq!(client.joined().await, Err("bad_state".to_owned()));
    client.enter("k3").await;
    client.send(ClientMessage::Create { id: 5, wanted: wanted(Some("k3")), options: &[0xc0] }).await;
    assert_eq!(client.joined().await, Err("bad_state".to_owned()), "one room per socket");
    let mut other = rig.guest().await;
    other.send(ClientMessage::Create { id: 6, wanted: wanted(Some("k3")), options: &[0xc0] }).await;
    assert_eq!(other.joined().await, Err("room_exists".to_owned()));
    other.send(ClientMessage::Create { id: 7, wanted: wanted(Some("Bad Name")), options: &[0xc0] }).await;
    assert_eq!(other.joined().await, Err("bad_payload".to_owned()));
    let long = [&[0xc5, 0x05, 0x00][..], &[0; 0x500]].concat();
    other.send(ClientMessage::Join { id: 8, room: room("arena/eu/k3"), options: &long }).await;
    assert_eq!(other.joined().await, Err("limit".to_owned()));
}

#[tokio::test]
async fn a_busy_node_is_a_passing_fault() {
    let rig = Rig::new(|_| ()).await;
    let mut client = rig.guest().await;
    rig.node.full.store(true, Ordering::SeqCst);
    client.send(ClientMessage::JoinOrCreate { id: 1, wanted: wanted(Some("a")), options: &[0xc0] }).await;
    assert_eq!(client.joined().await, Err("may_retry".to_owned()));
    rig.node.full.store(false, Ordering::SeqCst);
    client.enter("a").await;
}

#[tokio::test]
async fn a_gap_and_a_jump_back_are_4007() {
    let rig = Rig::new(|_| ()).await;
    for (numbers, why) in [
        (&[1, 3][..], "message 3 came, 2 was expected"),
        (&[1, 2, 2], "message 2 came after 2"),
        (&[2], "message 2 came, 1 was expected"),
    ] {
        let mut client = rig.guest().await;
        client.enter("k3").await;
        for n in numbers {
            client.input(*n).await;
        }
        assert_eq!(client.ended().await, Ended::Code(4007, why.to_owned()));
    }
    let mut client = rig.guest().await;
    client.input(1).await;
    assert!(matches!(client.ended().await, Ended::Code(4007, _)), "a message without a seat");
}

#[tokio::test]
async fn big_numbers_and_odd_names_come_through_untouched() {
    // C58, C62: the gateway never decodes a payload.
    let rig = Rig::new(|_| ()).await;
    let mut client = rig.guest().await;
    client.enter("k3").await;
    let payloads: [&[u8]; 3] = [
        &[0xcf, 0, 0x20, 0, 0, 0, 0, 0, 1],
        &[0xcf, 255, 255, 255, 255, 255, 255, 255, 255],
        &[0x81, 0xa9, b'_', b'_', b'p', b'r', b'o', b't', b'o', b'_', b'_', 1],
    ];
    for (n, payload) in payloads.iter().enumerate() {
        client.send(ClientMessage::Message { seq: Seq(n as u64 + 1), kind: 0, payload }).await;
    }
    client.settle().await;
    let state = rig.node.state.lock();
    let got: Vec<&[u8]> = state.rooms[&room("arena/eu/k3")].inputs.iter().map(|i| &i.payload[..]).collect();
    assert_eq!(got, payloads);
    assert_eq!(state.attaches[0].player, PlayerId::new(state.attaches[0].player.as_str()).expect("id"));
}
