//! What a room's fate means for its members: restored, busy, gone; and how a gateway goes away.
#![allow(clippy::expect_used, clippy::disallowed_methods, reason = "a test")]

mod gateway_support;

use std::{sync::atomic::Ordering, time::Duration};

use gateway_support::{Ended, Raw, Rig, soon, until};
use tenure::gateway::UnsavedBounds;
use tenure_shared::{
    RoomId, Seq, Term, Tick,
    wire::{ClientMessage, ServerMessage},
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

fn arena() -> RoomId {
    RoomId::new("arena/eu/k3").expect("id")
}

#[tokio::test]
async fn a_restored_room_gets_its_unsaved_inputs_again() {
    let rig = Rig::new(|_| ()).await;
    let mut client = rig.guest().await;
    client.enter("k3").await;
    for seq in 1..=5 {
        client.input(seq).await;
    }
    client.settle().await;
    // Two of them are in a stored checkpoint.
    let tick = rig.node.tick(&arena(), 1, |_| (Vec::new(), 2));
    client.expect(|m| matches!(m, ServerMessage::Frame { tick: t, .. } if t.0 == tick).then_some(())).await;
    rig.node.state.lock().rooms.get_mut(&arena()).expect("room").inputs.clear();
    rig.node.restore(&arena(), 9, 4, 3);
    let mut order = Vec::new();
    client
        .expect(|m| match m {
            ServerMessage::RolledBack { term: Term(9), tick: Tick(4) } => {
                order.push("rolled back");
                None
            }
            ServerMessage::Snapshot { term: Term(9), tick: Tick(4), .. } => {
                order.push("snapshot");
                Some(())
            }
            _ => None,
        })
        .await;
    assert_eq!(order, ["rolled back", "snapshot"]);
    client.input(6).await;
    client.settle().await;
    assert_eq!(rig.node.inputs(&arena()), [3, 4, 5, 6], "from the number owed, in order, before the new one");
    // Frames of the new term follow; one of the old owner does not.
    rig.node.tick(&arena(), 1, |_| (Vec::new(), 2));
    let next =
        client.expect(|m| if let ServerMessage::Frame { term, tick, .. } = m { Some((term.0, tick.0)) } else { None });
    assert_eq!(next.await, (9, 5));
}

#[tokio::test]
async fn a_replay_goes_out_under_the_new_number_of_the_attachment() {
    let rig = Rig::new(|_| ()).await;
    let mut client = rig.guest().await;
    client.enter("k3").await;
    for seq in 1..=3 {
        client.input(seq).await;
    }
    client.settle().await;
    rig.node.restore(&arena(), 5, 12, 2);
    client.expect(|m| matches!(m, ServerMessage::Snapshot { tick: Tick(12), .. }).then_some(())).await;
    client.input(4).await;
    client.settle().await;
    let given: Vec<_> = {
        let state = rig.node.state.lock();
        state.rooms[&arena()].inputs.iter().map(|i| (i.generation.0, i.seq.0)).collect()
    };
    assert_eq!(given, [(1, 1), (1, 2), (1, 3), (2, 2), (2, 3), (2, 4)]);
    // The socket's end is said under it too.
    drop(client);
    until("it is detached", || rig.node.seats(&arena()).iter().all(|seat| !seat.connected)).await;
}

#[tokio::test]
async fn a_room_that_wants_what_this_socket_never_had_is_resumed_by_the_client() {
    let rig = Rig::new(|_| ()).await;
    let mut client = rig.guest().await;
    client.enter("k3").await;
    client.input(1).await;
    client.settle().await;
    // It is saved, and forgotten here; then the store turns out to have forgotten it too.
    let tick = rig.node.tick(&arena(), 1, |_| (Vec::new(), 1));
    client.expect(|m| matches!(m, ServerMessage::Frame { tick: t, .. } if t.0 == tick).then_some(())).await;
    client.input(2).await;
    client.settle().await;
    rig.node.restore(&arena(), 5, 12, 1);
    let Ended::Code(code, reason) = client.ended().await else { panic!("not closed") };
    assert_eq!((code, reason.as_str()), (4010, "the room was restored; resume the seat"));
    until("it is detached", || rig.node.seats(&arena()).iter().all(|seat| !seat.connected)).await;
    assert_eq!(rig.node.inputs(&arena()), [1, 2], "nothing overtakes what is missing");
}

#[tokio::test]
async fn a_leave_waits_for_the_replay() {
    let rig = Rig::new(|_| ()).await;
    let mut client = rig.guest().await;
    client.enter("k3").await;
    for seq in 1..=2 {
        client.input(seq).await;
    }
    client.settle().await;
    rig.node.full.store(true, Ordering::SeqCst);
    rig.node.restore(&arena(), 5, 12, 1);
    client.expect(|m| matches!(m, ServerMessage::Snapshot { tick: Tick(12), .. }).then_some(())).await;
    client.send(ClientMessage::Leave { id: 7 }).await;
    client.settle().await;
    rig.node.full.store(false, Ordering::SeqCst);
    client.expect(|m| matches!(m, ServerMessage::Left { id: 7 }).then_some(())).await;
    assert_eq!(rig.node.inputs(&arena()), [1, 2, 1, 2]);
    let detaches = rig.node.state.lock().detaches.clone();
    assert_eq!(detaches.iter().map(|d| (d.2.0, d.3)).collect::<Vec<_>>(), [(2, true)]);
}

#[tokio::test]
async fn a_replay_waits_for_a_busy_node_and_keeps_its_order() {
    let rig = Rig::new(|_| ()).await;
    let mut client = rig.guest().await;
    client.enter("k3").await;
    for seq in 1..=3 {
        client.input(seq).await;
    }
    client.settle().await;
    rig.node.state.lock().rooms.get_mut(&arena()).expect("room").inputs.clear();
    rig.node.full.store(true, Ordering::SeqCst);
    rig.node.restore(&arena(), 9, 4, 1);
    client.expect(|m| matches!(m, ServerMessage::Snapshot { term: Term(9), .. }).then_some(())).await;
    client.input(4).await;
    client.settle().await;
    assert_eq!(rig.node.inputs(&arena()), [0; 0]);
    rig.node.full.store(false, Ordering::SeqCst);
    until("all came in order", || rig.node.inputs(&arena()) == [1, 2, 3, 4]).await;
}

#[tokio::test]
async fn an_input_that_cannot_be_given_is_refused_and_the_next_goes_on() {
    let rig = Rig::new(|_| ()).await;
    let mut client = rig.guest().await;
    client.enter("k3").await;
    client.input(1).await;
    client.settle().await;
    rig.node.full.store(true, Ordering::SeqCst);
    client.input(2).await;
    client.expect(|m| matches!(m, ServerMessage::Refused { seq: Seq(2), code: "may_retry", .. }).then_some(())).await;
    rig.node.full.store(false, Ordering::SeqCst);
    client.input(3).await;
    client.settle().await;
    assert_eq!(rig.node.inputs(&arena()), [1, 3]);
    rig.node.restore(&arena(), 9, 4, 1);
    until("what was refused is not replayed", || rig.node.inputs(&arena()) == [1, 3, 1, 3]).await;
}

#[tokio::test]
async fn unsaved_inputs_are_bounded_by_count_and_age() {
    let rig = Rig::new(|s| {
        s.manual = true;
        s.unsaved = UnsavedBounds { count: 3, age: Duration::from_secs(4), ..UnsavedBounds::default() };
    })
    .await;
    let mut client = rig.guest().await;
    client.enter("k3").await;
    for seq in 1..=4 {
        client.input(seq).await;
    }
    client.expect(|m| matches!(m, ServerMessage::Refused { seq: Seq(4), .. }).then_some(())).await;
    rig.node.tick(&arena(), 1, |_| (Vec::new(), 2));
    client.expect(|m| matches!(m, ServerMessage::Frame { .. }).then_some(())).await;
    client.input(5).await;
    client.settle().await;
    assert_eq!(rig.node.inputs(&arena()), [1, 2, 3, 5]);
    rig.hand.as_ref().expect("manual").advance(Duration::from_secs(5));
    rig.node.tick(&arena(), 1, |_| (Vec::new(), 3));
    client.expect(|m| matches!(m, ServerMessage::Frame { .. }).then_some(())).await;
    client.input(6).await;
    let why = client
        .expect(|m| match m {
            ServerMessage::Refused { seq: Seq(6), message, .. } => Some((*message).to_owned()),
            _ => None,
        })
        .await;
    assert!(why.contains("saved"), "{why}");
}

#[tokio::test]
async fn a_resync_is_answered_once_and_limited() {
    let rig = Rig::new(|s| s.manual = true).await;
    let mut client = rig.guest().await;
    client.enter("k3").await;
    client.expect(|m| matches!(m, ServerMessage::Snapshot { .. }).then_some(())).await;
    for n in 1..=3 {
        client.send(ClientMessage::Resync).await;
        client.expect(|m| matches!(m, ServerMessage::Snapshot { .. }).then_some(())).await;
        assert_eq!(rig.node.state.lock().resyncs, n);
    }
    client.send(ClientMessage::Resync).await;
    client.expect(|m| matches!(m, ServerMessage::Error { id: 0, code: "limit", .. }).then_some(())).await;
    assert_eq!(rig.node.state.lock().resyncs, 3);
}

#[tokio::test]
async fn a_draining_gateway_takes_nobody_new_and_serves_on() {
    let rig = Rig::new(|_| ()).await;
    let mut client = rig.guest().await;
    client.enter("k3").await;
    rig.gateway.drain();
    let mut tcp = rig.tcp().await;
    tcp.write_all(b"GET /ws HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.expect("sent");
    let mut answer = String::new();
    soon(tcp.read_to_string(&mut answer)).await.expect("read");
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.to_lowercase().contains("retry-after: "), "{answer}");
    let tick = rig.node.tick(&arena(), 1, |_| (Vec::new(), 0));
    client.expect(|m| matches!(m, ServerMessage::Frame { tick: t, .. } if t.0 == tick).then_some(())).await;
}

#[tokio::test]
async fn stopping_tells_everybody_when_to_come_back_and_cuts_off_the_silent() {
    let rig = Rig::new(|_| ()).await;
    let mut honest = Vec::new();
    for _ in 0..20 {
        let mut client = rig.guest().await;
        client.enter("k3").await;
        honest.push(tokio::spawn(async move {
            let mut hint = None;
            let ended = client
                .find(|m| {
                    if let ServerMessage::Error { id: 0, code: "may_retry", retry_after, .. } = m {
                        hint = *retry_after;
                    }
                    None::<()>
                })
                .await;
            (ended.expect_err("ended"), hint)
        }));
    }
    let mut silent: Vec<Raw> = Vec::new();
    for _ in 0..5 {
        silent.push(rig.raw().await);
    }
    until("all are there", || rig.gateway.sockets() == 25).await;
    let left = soon(rig.gateway.stop(Duration::from_secs(6), tenure::gateway::Farewell::ComeBack)).await;
    assert_eq!(left, 0, "the silent ones were not cut off");
    let mut hints = std::collections::BTreeSet::new();
    for client in honest {
        let (ended, hint) = soon(client).await.expect("ran");
        let Ended::Code(1012, reason) = ended else { panic!("{ended:?}") };
        let hint = hint.expect("a hint before the close");
        assert!(reason.contains(&hint.to_string()), "{reason}");
        hints.insert(hint);
    }
    assert!(hints.len() > 10, "they would all come back at once: {hints:?}");
    assert!(rig.node.seats(&arena()).iter().all(|seat| !seat.connected), "each seat is in its grace");
    rig.tasks.shutdown().stop();
    assert!(soon(rig.tasks.wait(Duration::from_secs(5))).await, "no task is left");
}

#[tokio::test]
async fn places_are_bounded_by_address_and_in_all() {
    for (address, all, status) in [(3, 100, "429"), (100, 3, "503")] {
        let rig = Rig::new(|s| {
            s.config.sockets_per_address = address;
            s.config.sockets = all;
            s.config.count_loopback = true;
        })
        .await;
        let mut held = Vec::new();
        for _ in 0..3 {
            held.push(rig.raw().await);
        }
        let mut tcp = rig.tcp().await;
        tcp.write_all(&b"GET /ws HTTP/1.1\r\nHost: x\r\n\r\n"[..]).await.expect("sent");
        let mut answer = String::new();
        soon(tcp.read_to_string(&mut answer)).await.expect("read");
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")) && answer.contains("retry-after"), "{answer}");
        drop(held.pop());
        until("its place is free", || rig.gateway.sockets() == 2).await;
        // The place is given back just after the socket is taken out.
        let mut again = None;
        while again.is_none() {
            let mut tcp = rig.tcp().await;
            tcp.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.expect("sent");
            let mut answer = String::new();
            soon(tcp.read_to_string(&mut answer)).await.expect("read");
            again = answer.starts_with("HTTP/1.1 200 ").then_some(());
        }
    }
}

#[tokio::test]
async fn behind_a_trusted_proxy_the_client_counts_and_behind_another_on_this_machine_all_count_as_one() {
    for (trusted, statuses) in [(true, ["101", "429", "101"]), (false, ["101", "429", "429"])] {
        let rig = Rig::new(|s| {
            s.config.sockets_per_address = 1;
            if trusted {
                s.config.trusted_proxies = vec!["127.0.0.0/8".parse().expect("a network")];
            }
        })
        .await;
        let mut held = Vec::new();
        for (client, status) in ["198.51.100.1", "1.2.3.4, 198.51.100.1", "198.51.100.2"].iter().zip(statuses) {
            let mut tcp = rig.tcp().await;
            let request = format!(
                "GET /ws HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: {client}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                 Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            );
            tcp.write_all(request.as_bytes()).await.expect("sent");
            let mut head = vec![0; 12];
            soon(tcp.read_exact(&mut head)).await.expect("an answer");
            assert_eq!(String::from_utf8_lossy(&head), format!("HTTP/1.1 {status}"), "{client}, trusted {trusted}");
            held.push(tcp);
        }
    }
}

#[tokio::test]
async fn pages_and_refusals_before_the_upgrade() {
    let rig = Rig::new(|_| ()).await;
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    for (request, status) in [
        ("GET / HTTP/1.1\r\nHost: x\r\n".to_owned(), 200),
        ("GET /nothing HTTP/1.1\r\nHost: x\r\n".to_owned(), 404),
        ("POST / HTTP/1.1\r\nHost: x\r\n".to_owned(), 405),
        ("GET /ws HTTP/1.1\r\nHost: x\r\n".to_owned(), 426),
        (format!("GET /ws HTTP/1.1\r\nHost: x\r\nOrigin: https://evil.example\r\n{upgrade}"), 403),
        (format!("GET /ws HTTP/1.1\r\nHost: x\r\nOrigin: null\r\n{upgrade}"), 403),
    ] {
        let mut tcp = rig.tcp().await;
        let close = if request.contains("Upgrade") { "" } else { "Connection: close\r\n" };
        tcp.write_all(format!("{request}{close}\r\n").as_bytes()).await.expect("sent");
        let mut head = vec![0; 12];
        soon(tcp.read_exact(&mut head)).await.expect("an answer");
        assert_eq!(String::from_utf8_lossy(&head), format!("HTTP/1.1 {status}"), "{request}");
    }
    assert_eq!(rig.gateway.sockets(), 0);
}
