//! Clients that read slowly or not at all (C40): state is left out, then one snapshot, then the socket; nobody else notices.
#![allow(clippy::expect_used, clippy::disallowed_methods, reason = "a test")]

mod gateway_support;

use std::time::Duration;

use futures_util::StreamExt as _;
use gateway_support::{Ended, Rig, client_frame, soon, until};
use tenure_shared::{
    Seq,
    wire::{ClientMessage, ServerMessage, write_tail},
};

#[tokio::test]
async fn a_slow_reader_gets_one_snapshot_when_it_has_drained_and_every_reply() {
    let rig = Rig::new(|s| {
        s.manual = true;
        s.pipe = Some(4_096);
    })
    .await;
    let mut client = rig.connect_pipe().await;
    client.hello(None).await;
    let joined = client.enter("k3").await;
    client.settle().await;
    let hand = rig.hand.clone().expect("manual");
    // The client reads nothing for three seconds at 20 Hz; every tenth tick has a reply in its tail.
    for n in 0..60_u32 {
        rig.node.tick(&joined.room, 2_000, |_| {
            let mut tail = Vec::new();
            if n % 10 == 0 {
                write_tail(&mut tail, Seq(0), Seq(0), &[]);
                ServerMessage::Reply { id: n + 1, payload: &[0xc0] }.encode(&mut tail);
            }
            (tail, 0)
        });
        hand.advance(Duration::from_millis(50));
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(rig.node.state.lock().resyncs, 0, "not before it has drained");
    let (mut frames, mut replies) = (0, Vec::new());
    let resumed_at = client
        .expect(|m| match m {
            ServerMessage::Frame { .. } => {
                frames += 1;
                None
            }
            ServerMessage::Reply { id, .. } => {
                replies.push(*id);
                None
            }
            ServerMessage::Snapshot { tick, .. } if replies.len() == 6 => Some(tick.0),
            _ => None,
        })
        .await;
    assert_eq!(replies, [1, 11, 21, 31, 41, 51], "tails were lost");
    assert!((1..25).contains(&frames), "{frames} frames: what had waited for more than a second must be left out");
    assert_eq!(resumed_at, rig.node.state.lock().tick);
    assert_eq!(rig.node.state.lock().resyncs, 1, "one snapshot");
    // From here on frames follow without a gap.
    let next = rig.node.tick(&joined.room, 10, |_| (Vec::new(), 0));
    client.expect(|m| matches!(m, ServerMessage::Frame { tick, .. } if tick.0 == next).then_some(())).await;
    assert_eq!(rig.node.state.lock().resyncs, 1);
}

#[tokio::test]
async fn a_client_that_never_reads_is_closed_and_the_others_keep_their_tick() {
    let rig = Rig::new(|s| {
        s.manual = true;
        s.pipe = Some(4_096);
        s.config.ping_every = Duration::from_secs(3_600);
        s.config.idle_timeout = Duration::from_secs(3_600);
    })
    .await;
    let mut deaf = rig.connect_pipe().await;
    deaf.hello(None).await;
    let joined = deaf.enter("k3").await;
    let mut other = rig.connect_pipe().await;
    other.hello(None).await;
    other.enter("k3").await;
    let hand = rig.hand.clone().expect("manual");
    let mut ticks = 0;
    while rig.gateway.sockets() == 2 {
        let tick = rig.node.tick(&joined.room, 2_000, |_| (Vec::new(), 0));
        other.expect(|m| matches!(m, ServerMessage::Frame { tick: t, .. } if t.0 == tick).then_some(())).await;
        hand.advance(Duration::from_millis(50));
        ticks += 1;
        assert!(ticks < 600, "it was never closed");
    }
    assert!(ticks >= 200, "closed after {ticks} ticks, before ten seconds");
    until("the seat is in its grace", || rig.node.seats(&joined.room).iter().filter(|s| s.connected).count() == 1)
        .await;
    // What was written before is still there to read; then the close, if the pipe still took it.
    assert!(matches!(deaf.ended().await, Ended::Gone | Ended::Code(4005, _)));
    assert_eq!(rig.node.state.lock().resyncs, 0);
}

#[tokio::test]
async fn tails_beyond_the_bound_are_4005_and_not_a_silent_loss() {
    let rig = Rig::new(|s| {
        s.manual = true;
        s.pipe = Some(1_024);
        s.config.outgoing_bytes = 16 * 1024;
    })
    .await;
    let mut client = rig.connect_pipe().await;
    client.hello(None).await;
    let joined = client.enter("k3").await;
    client.settle().await;
    let payload = [&[0xc5, 0x03, 0xe8][..], &[0; 1_000]].concat();
    for _ in 0..40 {
        rig.node.tick(&joined.room, 0, |_| {
            let mut tail = Vec::new();
            ServerMessage::Message { kind: 1, payload: &payload }.encode(&mut tail);
            (tail, 0)
        });
        tokio::task::yield_now().await;
    }
    let mut messages = 0;
    let ended = client
        .find(|m| {
            messages += usize::from(matches!(m, ServerMessage::Message { .. }));
            None::<()>
        })
        .await;
    assert_eq!(ended, Err(Ended::Code(4005, "the client reads too slowly".to_owned())));
    assert!((10..40).contains(&messages), "{messages}");
}

#[tokio::test]
async fn pings_during_partial_writes_leave_frames_whole() {
    let rig = Rig::new(|s| {
        s.manual = true;
        s.pipe = Some(97);
        s.config.messages_burst = 100_000;
        s.config.bytes_per_second = 10_000_000;
    })
    .await;
    let mut client = rig.connect_pipe().await;
    client.hello(None).await;
    let joined = client.enter("k3").await;
    client.settle().await;
    let (mut pongs, mut frames) = (0, 0);
    for n in 0..100_u8 {
        let tick = rig.node.tick(&joined.room, 300 + usize::from(n), |_| (Vec::new(), 0));
        for _ in 0..3 {
            let ping = tokio_tungstenite::tungstenite::Message::Ping(vec![n; 40].into());
            drop(soon(futures_util::SinkExt::send(&mut client.ws, ping)).await);
        }
        // The client's library fails on anything that is not a well-formed frame.
        loop {
            match soon(client.ws.next()).await.expect("open").expect("well formed") {
                tokio_tungstenite::tungstenite::Message::Pong(payload) => {
                    assert!(payload.iter().all(|byte| *byte <= n) && payload.len() == 40);
                    pongs += 1;
                }
                tokio_tungstenite::tungstenite::Message::Binary(bytes) => {
                    assert_eq!(bytes, gateway_support::frame_body(5, tick, 300 + usize::from(n)));
                    frames += 1;
                    break;
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(frames, 100);
    assert!(pongs > 0);
}

#[tokio::test]
async fn a_client_that_never_reads_over_tcp_costs_a_bounded_queue() {
    let rig = Rig::new(|_| ()).await;
    let mut raw = rig.raw().await;
    raw.hello().await;
    let mut join = Vec::new();
    let wanted = tenure_shared::wire::Wanted { kind: "arena", region: None, name: Some("k3"), filter: &[] };
    ClientMessage::JoinOrCreate { id: 1, wanted, options: &[0xc0] }.encode(&mut join);
    raw.write(&client_frame(0x82, &join)).await;
    let room = tenure_shared::RoomId::new("arena/eu/k3").expect("id");
    until("it has joined", || rig.node.seats(&room).len() == 1).await;
    let mut other = rig.guest().await;
    other.enter("k3").await;
    // 60 MB of state: far more than the system's buffers and the bound together.
    let before = resident();
    for _ in 0..1_000 {
        let tick = rig.node.tick(&room, 60_000, |_| (Vec::new(), 0));
        other.expect(|m| matches!(m, ServerMessage::Frame { tick: t, .. } if t.0 == tick).then_some(())).await;
    }
    assert!(resident() < before + 20_000_000, "{before} bytes became {}", resident());
    assert_eq!(rig.gateway.sockets(), 2);
}

/// Bytes of memory that this process uses.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number") * 4_096
}
