//! A gateway that goes away while players play: each is told to move at a time of his own, has his seat at another gateway before he leaves,
//! and neither loses nor repeats a message (H4); who does not listen is closed with 4001.
#![allow(clippy::expect_used, clippy::disallowed_methods, reason = "a test")]

mod gateway_support;

use std::{collections::BTreeSet, time::Duration};

use gateway_support::{
    Client, Ended, Rig,
    owners::{arena, connected, login, rig_of},
    soon, until,
};
use tenure::gateway::Farewell;
use tenure_shared::{
    SeatId, Seq, Term, Tick,
    wire::{ClientMessage, ServerMessage},
};

/// How long the gateway gives its clients.
const LIMIT: Duration = Duration::from_secs(8);

/// What a client is told: where to go, and after how many milliseconds.
async fn told(client: &mut Client) -> (Vec<String>, u32) {
    let told = client.expect(|m| match m {
        ServerMessage::Move { urls, after } => Some((urls.iter().map(|url| (*url).to_owned()).collect(), *after)),
        _ => None,
    });
    told.await
}

/// The seat, taken through another gateway while the old socket stands; gives the number owed.
async fn follows(other: &Rig, player: &str, session: &str, resumes: u32) -> (Client, u64) {
    let mut client = login(other, player).await;
    let (shown, first) = ((Term(5), Tick(10)), Seq(1));
    client.send(ClientMessage::Resume { id: 2, room: arena(), session, shown, first, resumes }).await;
    let joined = client.joined().await.expect("resumed");
    (client, joined.owed.0)
}

#[tokio::test]
async fn every_client_of_a_gateway_that_goes_away_keeps_its_seat_and_loses_no_input() {
    const PLAYERS: u32 = 12;
    let rig = rig_of(1).await;
    let other = rig.another().await;
    let mut clients = Vec::new();
    for n in 0..PLAYERS {
        let player = format!("p{n}");
        let mut client = login(&rig, &player).await;
        let joined = client.enter("k3").await;
        client.input(1).await;
        client.input(2).await;
        client.settle().await;
        clients.push((player, client, joined));
    }
    let urls = vec!["ws://other.test/ws".to_owned()];
    let moving = rig.gateway.move_clients(&urls, LIMIT);
    let playing = async {
        let mut afters = BTreeSet::new();
        let mut here = Vec::new();
        for (player, mut old, joined) in clients {
            let (to, after) = told(&mut old).await;
            assert_eq!(to, urls);
            assert!(after <= 6_000, "{after}");
            afters.insert(after);
            // What is said through the old socket until the new one asks counts.
            old.input(3).await;
            old.settle().await;
            let (mut new, owed) = follows(&other, &player, &joined.session, joined.generation.0 + 1).await;
            assert_eq!(owed, 4, "the room has what came before");
            new.input(4).await;
            new.settle().await;
            assert_eq!(old.ended().await, Ended::Code(4004, "another socket took this seat".to_owned()));
            here.push(new);
        }
        assert!(afters.len() > 8, "they would all come at once: {afters:?}");
        here
    };
    let (left, mut clients) = soon(Box::pin(async { tokio::join!(moving, playing) })).await;
    assert_eq!(left, 0, "all are gone before the time is over");
    connected(&rig.node, PLAYERS as usize).await;
    for client in &mut clients {
        client.settle().await;
    }
    let inputs = rig.node.state.lock().rooms[&arena()].inputs.clone();
    for seat in 1..=PLAYERS {
        let of = inputs.iter().filter(|i| i.seat == SeatId(seat)).map(|i| i.seq.0).collect::<Vec<_>>();
        assert_eq!(of, [1, 2, 3, 4], "seat {seat}");
    }
    // The late detach of an old socket is of an older attachment: nobody is dropped.
    assert_eq!(rig.node.seats(&arena()).iter().filter(|seat| seat.connected).count(), PLAYERS as usize);
    assert_eq!(other.gateway.sockets(), PLAYERS as usize);
}

#[tokio::test]
async fn who_does_not_listen_is_closed_with_4001_and_his_seat_waits_for_him() {
    let rig = rig_of(1).await;
    let other = rig.another().await;
    let mut client = login(&rig, "anna").await;
    let joined = client.enter("k3").await;
    client.settle().await;
    let left = soon(rig.gateway.move_clients(&[], Duration::from_millis(200))).await;
    assert_eq!(left, 1);
    let (urls, after) = told(&mut client).await;
    assert!(urls.is_empty() && after <= 150, "{after}");
    let tick = rig.node.tick(&arena(), 1, |_| (Vec::new(), 0));
    client.expect(|m| matches!(m, ServerMessage::Frame { tick: t, .. } if t.0 == tick).then_some(())).await;
    let (left, ended) =
        soon(async { tokio::join!(rig.gateway.stop(Duration::from_secs(4), Farewell::Elsewhere), client.ended()) })
            .await;
    assert!(matches!(&ended, Ended::Code(4001, _)), "{ended:?}");
    assert_eq!(left, 0);
    connected(&rig.node, 0).await;
    let (_client, owed) = follows(&other, "anna", &joined.session, joined.generation.0 + 1).await;
    assert_eq!(owed, 1);
}

#[tokio::test]
async fn who_has_no_seat_yet_is_told_when_he_has_one() {
    let rig = rig_of(1).await;
    let mut client = login(&rig, "anna").await;
    let entering = async {
        until("nobody new comes in", || rig.gateway.is_draining()).await;
        // The request was on its way when the gateway began to go.
        client.enter("k3").await;
        told(&mut client).await;
        drop(client);
    };
    let (left, ()) = soon(async { tokio::join!(rig.gateway.move_clients(&[], LIMIT), entering) }).await;
    assert_eq!(left, 0);
}
