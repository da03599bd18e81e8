//! Resuming (C44, C49, C50): tokens, races, superseded sockets, and what a returning client is shown (H7).
#![allow(clippy::expect_used, clippy::disallowed_methods, reason = "a test")]

mod gateway_support;

use std::sync::atomic::Ordering;

use gateway_support::{Ended, Rig, SHARDS, token, until};
use tenure::link::ToGateway;
use tenure_shared::{
    Generation, PlayerId, RoomId, SeatId, Seq, Term, Tick,
    codes::CloseCode,
    wire::{ClientMessage, ServerMessage},
};

fn arena() -> RoomId {
    RoomId::new("arena/eu/k3").expect("id")
}

fn anna() -> PlayerId {
    PlayerId::new("anna").expect("id")
}

async fn login(rig: &Rig, player: &str) -> gateway_support::Client {
    let mut client = rig.connect().await;
    client.hello(Some(&token(player))).await;
    client
}

#[tokio::test]
async fn a_lost_socket_comes_back_to_its_seat() {
    let rig = Rig::new(|_| ()).await;
    let mut client = login(&rig, "anna").await;
    let joined = client.enter("k3").await;
    client.input(1).await;
    client.input(2).await;
    client.settle().await;
    drop(client);
    until("the grace begins", || rig.node.seats(&arena()).iter().all(|seat| !seat.connected)).await;

    rig.node.state.lock().owed = 2;
    let mut client = login(&rig, "anna").await;
    let again = client.resume(&arena(), &joined.session, (5, 10), 2).await.expect("resumed");
    assert_eq!((again.seat, again.generation, again.owed), (joined.seat, Generation(2), Seq(2)));
    assert_eq!(again.session, joined.session, "the current token stays until the next one was used or acknowledged");
    let attach = rig.node.state.lock().attaches.last().cloned().expect("one");
    assert_eq!((attach.seat, attach.first, attach.shown), (Some(SeatId(1)), Seq(2), (Term(5), Tick(10))));
    assert_eq!(&attach.options[..], [0xc0], "a world that lost the seat can join it anew");
    let offered = client.offered().await;
    assert_ne!(offered, joined.session);
    // Sent again from the number owed.
    client.input(2).await;
    client.input(3).await;
    client.settle().await;
    assert_eq!(rig.node.inputs(&arena()), [1, 2, 2, 3]);
}

#[tokio::test]
async fn a_used_token_is_worth_nothing_once_the_next_was_used_or_acknowledged() {
    let rig = Rig::new(|_| ()).await;
    let first = login(&rig, "anna").await.enter("k3").await.session;
    // The answer may be lost: the same token again, as often as need be.
    let mut client = login(&rig, "anna").await;
    client.resume(&arena(), &first, (0, 0), 1).await.expect("resumed");
    let lost = client.offered().await;
    let mut client = login(&rig, "anna").await;
    client.resume(&arena(), &first, (0, 0), 1).await.expect("resumed again");
    let second = client.offered().await;
    assert_ne!(lost, second);

    // A wrong acknowledgement changes nothing, the right one ends the first token.
    client.send(ClientMessage::SessionAck { session: &lost }).await;
    client.expect(|m| matches!(m, ServerMessage::Error { id: 0, code: "resume_failed", .. }).then_some(())).await;
    client.send(ClientMessage::SessionAck { session: &second }).await;
    until("it is stored", || rig.store.session(&anna(), &arena()).is_some_and(|s| s.current == second)).await;
    let mut thief = login(&rig, "anna").await;
    let before = rig.store.session(&anna(), &arena());
    assert_eq!(thief.resume(&arena(), &first, (0, 0), 1).await.expect_err("used"), "resume_failed");
    assert_eq!(rig.store.session(&anna(), &arena()), before, "a wrong token changes nothing");
    assert_eq!(rig.node.seats(&arena())[0].generation, Generation(3), "nobody was superseded");

    // Using the next token works like acknowledging it.
    let mut client = login(&rig, "anna").await;
    client.resume(&arena(), &second, (0, 0), 1).await.expect("resumed");
    let third = client.offered().await;
    let mut client = login(&rig, "anna").await;
    client.resume(&arena(), &third, (0, 0), 1).await.expect("resumed");
    client.offered().await;
    assert_eq!(client.joined_error(&second).await, "bad_state");
    let mut late = login(&rig, "anna").await;
    assert_eq!(late.resume(&arena(), &second, (0, 0), 1).await.expect_err("used"), "resume_failed");
}

#[tokio::test]
async fn wrong_tokens_and_other_players_get_nothing_and_guessing_ends_with_4003() {
    let rig = Rig::new(|_| ()).await;
    let mut client = login(&rig, "anna").await;
    let session = client.enter("k3").await.session;
    let mut thief = login(&rig, "eve").await;
    assert_eq!(thief.resume(&arena(), &session, (0, 0), 1).await.expect_err("not hers"), "resume_failed");
    assert_eq!(thief.resume(&arena(), "", (0, 0), 1).await.expect_err("empty"), "resume_failed");
    assert_eq!(thief.resume(&arena(), &session, (0, 0), 1).await.expect_err("not hers"), "resume_failed");
    assert_eq!(thief.ended().await, Ended::Code(4003, "too many resumes failed".to_owned()));
    client.settle().await;
    assert_eq!(rig.node.seats(&arena()).len(), 1);
}

#[tokio::test]
async fn the_second_tab_supersedes_the_first() {
    let rig = Rig::new(|_| ()).await;
    let mut first = login(&rig, "anna").await;
    first.enter("k3").await;
    let mut second = login(&rig, "anna").await;
    let joined = second.enter("k3").await;
    assert_eq!(joined.generation, Generation(2));
    assert!(matches!(first.ended().await, Ended::Code(4004, _)));
    assert!(rig.store.session(&anna(), &arena()).is_some(), "the seat goes on");
    until("the late detach has come", || rig.node.state.lock().detaches.iter().any(|d| d.2 == Generation(1))).await;
    let seats = rig.node.seats(&arena());
    assert_eq!(
        (seats.len(), seats[0].connected, seats[0].generation),
        (1, true, Generation(2)),
        "one avatar, the newer socket's"
    );
    second.settle().await;
    let session = rig.store.session(&anna(), &arena()).expect("a session");
    assert_eq!(session.current, joined.session, "the token of the socket that stayed");
}

#[tokio::test]
async fn two_resumes_at_once_leave_one_socket_and_a_token_that_works() {
    let rig = Rig::new(|_| ()).await;
    let session = login(&rig, "anna").await.enter("k3").await.session;
    let (mut a, mut b) = (login(&rig, "anna").await, login(&rig, "anna").await);
    // Both get as far as the store before either may write.
    rig.store.held.store(true, Ordering::SeqCst);
    let room = arena();
    let (one, two) = (a.resume(&room, &session, (0, 0), 1), b.resume(&room, &session, (0, 0), 1));
    let both = async {
        until("both are attached", || rig.node.seats(&arena())[0].generation == Generation(3)).await;
        rig.store.held.store(false, Ordering::SeqCst);
        rig.store.let_go.notify_waiters();
    };
    let (one, two, ()) = tokio::join!(one, two, both);
    let (mut stays, joined) = match (one, two) {
        (Ok(one), Err(_)) => (a, one),
        (Err(_), Ok(two)) => (b, two),
        (Ok(one), Ok(two)) if one.generation > two.generation => (a, one),
        (Ok(_), Ok(two)) => (b, two),
        (Err(one), Err(two)) => panic!("{one}, {two}"),
    };
    assert_eq!(joined.generation, Generation(3));
    let next = stays.offered().await;
    until("the other is gone", || rig.gateway.sockets() == 1).await;
    stays.settle().await;
    drop(stays);
    let mut client = login(&rig, "anna").await;
    client.resume(&arena(), &next, (0, 0), 1).await.expect("the token that was offered works");
}

#[tokio::test]
async fn a_leave_does_not_end_the_session_of_a_newer_socket() {
    let rig = Rig::new(|_| ()).await;
    let mut first = login(&rig, "anna").await;
    let joined = first.enter("k3").await;
    // Another socket of the same player takes the seat just before the node hears of the leave.
    let leaving = rig.node.seats(&arena())[0].conn;
    let mut session = rig.store.session(&anna(), &arena()).expect("a session");
    (session.current, session.version) = ("of the second socket".to_owned(), session.version + 1);
    rig.store.sessions.lock().insert((anna(), arena()), session.clone());
    rig.node.state.lock().rooms.get_mut(&arena()).expect("room").seats.get_mut(&anna()).expect("seat").generation =
        Generation(joined.generation.0 + 1);
    first.send(ClientMessage::Leave { id: 3 }).await;
    until("the leave is said", || !rig.node.state.lock().detaches.is_empty()).await;
    rig.node.send(ToGateway::Left { conn: leaving });
    first.expect(|m| matches!(m, ServerMessage::Left { id: 3 }).then_some(())).await;
    assert_eq!(rig.store.session(&anna(), &arena()), Some(session), "it is not the one that left");
    // One's own goes.
    let mut second = login(&rig, "bert").await;
    second.enter("k3").await;
    second.send(ClientMessage::Leave { id: 3 }).await;
    second.expect(|m| matches!(m, ServerMessage::Left { id: 3 }).then_some(())).await;
    assert_eq!(rig.store.session(&PlayerId::new("bert").expect("id"), &arena()), None);
}

#[tokio::test]
async fn a_seat_is_given_back_however_long_its_room_takes_no_detach() {
    let rig = Rig::new(|s| s.manual = true).await;
    let mut client = login(&rig, "anna").await;
    client.enter("k3").await;
    rig.node.full.store(true, Ordering::SeqCst);
    drop(client);
    until("the socket is gone", || rig.gateway.sockets() == 0).await;
    // A minute in small steps, so that everything that waits gets its turn.
    for _ in 0..120 {
        rig.hand.clone().expect("manual").advance(std::time::Duration::from_millis(500));
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }
    assert!(rig.node.state.lock().detaches.is_empty());
    rig.node.full.store(false, Ordering::SeqCst);
    let given_back = || rig.node.seats(&arena()).iter().all(|seat| !seat.connected);
    rig.advance_until(std::time::Duration::from_millis(50), "it is given back", given_back).await;
}

#[tokio::test]
async fn nothing_older_than_what_was_shown() {
    let rig = Rig::new(|_| ()).await;
    let session = login(&rig, "anna").await.enter("k3").await.session;
    // The seat has seen term 6 elsewhere; this node is still at term 5: it is asked again, and not told what only the client says.
    let mut client = login(&rig, "anna").await;
    let shown = (Term(6), Tick(3));
    client
        .send(ClientMessage::Resume { id: 2, room: arena(), session: &session, shown, first: Seq(1), resumes: 0 })
        .await;
    until("it is detached", || rig.node.state.lock().detaches.iter().any(|d| d.2 == Generation(2))).await;
    assert_eq!(rig.node.state.lock().terms_seen, []);
    rig.node.state.lock().term = 6;
    let joined = client.joined().await.expect("resumed");
    assert_eq!((joined.term, joined.tick), (Term(6), Tick(10)));
    // A frame of the last owner, late, and one that is already in the snapshot.
    {
        let mut state = rig.node.state.lock();
        (state.term, state.tick) = (5, 500);
    }
    rig.node.tick(&arena(), 5, |_| (Vec::new(), 0));
    {
        let mut state = rig.node.state.lock();
        (state.term, state.tick) = (6, 9);
    }
    rig.node.tick(&arena(), 5, |_| (Vec::new(), 0));
    rig.node.tick(&arena(), 5, |_| (Vec::new(), 0));
    let mut shown = Vec::new();
    client
        .expect(|m| match m {
            ServerMessage::Frame { term, tick, .. } => {
                shown.push((term.0, tick.0));
                Some(())
            }
            _ => None,
        })
        .await;
    assert_eq!(shown, [(6, 11)]);
    // The node itself had said term 6 by then.
    let told = (arena().shard(SHARDS), Term(6));
    until("it is told", || rig.node.state.lock().terms_seen.contains(&told)).await;
}

#[tokio::test]
async fn a_store_that_is_away_is_a_passing_fault_and_leaves_no_ghost() {
    let rig = Rig::new(|s| s.manual = true).await;
    let mut client = login(&rig, "anna").await;
    rig.store.away.store(true, Ordering::SeqCst);
    let wanted = tenure_shared::wire::Wanted { kind: "arena", region: None, name: Some("k3"), filter: &[] };
    client.send(ClientMessage::JoinOrCreate { id: 1, wanted, options: &[0xc0] }).await;
    let answer = tokio::spawn(async move {
        let code = client.joined().await;
        (client, code)
    });
    rig.advance_until(std::time::Duration::from_millis(50), "it is answered", || answer.is_finished()).await;
    let (mut client, code) = answer.await.expect("ran");
    assert_eq!(code, Err("may_retry".to_owned()));
    until("the seat is given back", || rig.node.seats(&arena()).iter().all(|seat| !seat.connected)).await;
    rig.store.away.store(false, Ordering::SeqCst);
    client.enter("k3").await;
}

#[tokio::test]
async fn an_attach_that_is_answered_too_late_is_given_back() {
    let rig = Rig::new(|s| s.manual = true).await;
    rig.node.silent.store(true, Ordering::SeqCst);
    rig.node.room("arena/eu/k3");
    let mut client = login(&rig, "anna").await;
    client.send(ClientMessage::Join { id: 1, room: arena(), options: &[0xc0] }).await;
    until("the node was asked", || !rig.node.state.lock().attaches.is_empty()).await;
    let conn = rig.node.state.lock().attaches[0].conn;
    drop(client);
    until("the socket is gone", || rig.gateway.sockets() == 0).await;
    let attached = tenure::link::Attached {
        conn,
        attempt: 1,
        room: arena(),
        seat: SeatId(4),
        generation: Generation(9),
        term: Term(5),
        tick: Tick(1),
        owed: Seq(1),
        tick_rate: 20,
        hash: 0,
        table: None,
        snapshot: bytes::Bytes::new(),
        rolled_back: false,
    };
    rig.node.send(ToGateway::Attached(attached));
    let given_back = (arena(), SeatId(4), Generation(9), false);
    until("it is given back", || rig.node.state.lock().detaches.contains(&given_back)).await;
}

#[tokio::test]
async fn a_room_that_ends_a_seat_closes_its_socket_with_its_code() {
    for code in [CloseCode::RoomError, CloseCode::Kicked, CloseCode::RoomEnded] {
        let rig = Rig::new(|_| ()).await;
        let mut client = login(&rig, "anna").await;
        client.enter("k3").await;
        let conn = rig.node.seats(&arena())[0].conn;
        rig.node.send(ToGateway::Close { conn, code, reason: "over".to_owned() });
        assert_eq!(client.ended().await, Ended::Code(code.code(), "over".to_owned()));
        until("the session has ended with the seat", || rig.store.session(&anna(), &arena()).is_none()).await;
    }
}

#[tokio::test]
async fn an_expired_login_opens_no_seat() {
    let rig = Rig::new(|s| {
        s.manual = true;
        s.config.idle_timeout = std::time::Duration::from_secs(10_000_000_000);
        s.config.ping_every = s.config.idle_timeout;
        s.auth.leeway = std::time::Duration::ZERO;
    })
    .await;
    let mut client = login(&rig, "anna").await;
    rig.hand.clone().expect("manual").set_wall(tenure::runtime::Wall(100_000_000_000_000_000));
    client.send(ClientMessage::Join { id: 1, room: arena(), options: &[0xc0] }).await;
    assert_eq!(client.ended().await, Ended::Code(4008, "the token has expired".to_owned()));
}
