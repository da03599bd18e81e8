//! What a bad client may not do, and with which code it ends (C41, C42, C44, C59, C60); honest ones go on meanwhile.
#![allow(clippy::expect_used, clippy::disallowed_methods, reason = "a test")]

mod gateway_support;

use std::time::Duration;

use futures_util::SinkExt as _;
use gateway_support::{Ended, Raw, Rig, client_frame, soon, until};
use tenure_shared::wire::{ClientMessage, ServerMessage};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_tungstenite::tungstenite::Message;

/// Header of a frame that claims to be so long.
fn claims(first: u8, len: u64) -> Vec<u8> {
    [&[first, 0x80 | 127][..], &len.to_be_bytes(), &[1, 2, 3, 4]].concat()
}

#[tokio::test]
async fn false_lengths_are_1009_before_anything_is_reserved() {
    let rig = Rig::new(|_| ()).await;
    for len in [1_025, 1 << 32, (1 << 63) - 1] {
        let mut raw = rig.raw().await;
        raw.write(&claims(0x82, len)).await;
        assert_eq!(raw.close_code().await, Some(1009), "{len}");
    }
    // A length with the highest bit set is no length.
    let mut raw = rig.raw().await;
    raw.write(&claims(0x82, u64::MAX)).await;
    assert!(matches!(raw.close_code().await, Some(1009 | 4007)));
}

#[tokio::test]
async fn a_message_at_the_limit_passes_and_one_above_is_1009() {
    let rig = Rig::new(|_| ()).await;
    for (login, limit) in [(false, 1024), (true, 4096)] {
        for (size, ends) in [(limit, 4007), (limit + 1, 1009)] {
            let mut raw = rig.raw().await;
            if login {
                raw.hello().await;
            }
            // Not a message of the protocol: it is refused as such when it is not too large.
            raw.write(&client_frame(0x82, &vec![0xc0; size])).await;
            assert_eq!(raw.close_code().await, Some(ends), "{size} bytes, login {login}");
        }
    }
}

#[tokio::test]
async fn the_client_sees_1009_though_it_is_still_sending() {
    let rig = Rig::new(|_| ()).await;
    let mut client = rig.guest().await;
    drop(client.ws.send(Message::Binary(vec![0; 300_000].into())).await);
    let text = "a message of 300000 bytes; at most 4096 are taken".to_owned();
    assert_eq!(client.ended().await, Ended::Code(1009, text));
}

#[tokio::test]
async fn fragments_count_together_and_are_bounded() {
    let rig = Rig::new(|s| s.config.bytes_per_second = 10_000_000).await;
    let mut raw = rig.raw().await;
    raw.hello().await;
    let mut flood = client_frame(0x02, &[0; 1_000]);
    for _ in 0..9 {
        flood.extend(client_frame(0x00, &[0; 1_000]));
    }
    raw.write(&flood).await;
    assert_eq!(raw.close_code().await, Some(1009), "ten fragments of 1,000 bytes");

    let mut raw = rig.raw().await;
    raw.hello().await;
    let mut flood = client_frame(0x02, &[]);
    for _ in 0..10_000 {
        flood.extend(client_frame(0x00, &[]));
    }
    raw.write(&flood).await;
    assert_eq!(raw.close_code().await, Some(1009), "10,000 empty fragments");

    // A few are fine, with a ping between them.
    let mut raw = rig.raw().await;
    let mut hello = Vec::new();
    ClientMessage::Hello { protocol: 1, token: None, table: None }.encode(&mut hello);
    raw.write(&client_frame(0x02, &hello[..2])).await;
    raw.write(&client_frame(0x89, b"hi")).await;
    raw.write(&client_frame(0x80, &hello[2..])).await;
    let mut head = [0; 6];
    soon(raw.0.read_exact(&mut head)).await.expect("an answer");
    assert!(head[..4] == [0x8a, 2, b'h', b'i'] && head[4] == 0x82, "{head:x?}");
}

#[tokio::test]
async fn broken_frames_are_4007() {
    let rig = Rig::new(|_| ()).await;
    let unmasked = vec![0x82, 0x01, 0xc0];
    let reserved_bit = client_frame(0xc2, &[0xc0]);
    let reserved_opcode = client_frame(0x83, &[0xc0]);
    let continues_nothing = client_frame(0x80, &[0xc0]);
    let big_ping = client_frame(0x89, &[0; 126]);
    let text = client_frame(0x81, b"hello");
    let bad_text = client_frame(0x81, &[0xa2, 0xc3, 0x28]);
    for frame in [unmasked, reserved_bit, reserved_opcode, continues_nothing, big_ping, text, bad_text] {
        let mut raw = rig.raw().await;
        raw.write(&frame).await;
        assert_eq!(raw.close_code().await, Some(4007), "{frame:x?}");
    }
}

#[tokio::test]
async fn broken_messagepack_is_4007_before_and_after_login() {
    let rig = Rig::new(|s| s.config.bytes_per_second = 10_000_000).await;
    let deep = |first: u8, body: &[u8], n: usize| [&[0x94, 7, 1, first][..], &body.repeat(n), &[0xc0]].concat();
    let attacks: Vec<Vec<u8>> = vec![
        vec![],
        vec![0xc1],
        vec![0xdd, 0xff, 0xff, 0xff, 0xff],
        vec![0xdf, 0xff, 0xff, 0xff, 0xff],
        vec![0xc6, 0xff, 0xff, 0xff, 0xff],
        vec![0xc9, 0xff, 0xff, 0xff, 0xff, 0x01],
        [0xdc, 0xff, 0xff].repeat(300),
        [0x91].repeat(1_000),
        deep(0, &[0x91], 900),
        deep(0, &[0x81, 0xa1, 0x61], 300),
        vec![0x94, 7, 1, 0, 0xa2, 0xc3, 0x28],
        vec![0x94, 7, 1, 0, 0x82, 0xa1, 0x61, 1, 0xa1, 0x61, 2],
    ];
    for attack in &attacks {
        for login in [false, true] {
            let mut raw = rig.raw().await;
            if login {
                raw.hello().await;
            }
            raw.write(&client_frame(0x82, attack)).await;
            assert_eq!(raw.close_code().await, Some(4007), "login {login}: {:x?}", &attack[..attack.len().min(12)]);
        }
    }
    until("all are gone", || rig.gateway.sockets() == 0).await;
}

#[tokio::test]
async fn nesting_is_read_to_the_limit_and_not_beyond() {
    let rig = Rig::new(|_| ()).await;
    for (depth, passes) in [(16, true), (17, false)] {
        let mut client = rig.guest().await;
        client.enter("k3").await;
        let payload = [&[0x91].repeat(depth)[..], &[0xc0]].concat();
        client.send(ClientMessage::Message { seq: tenure_shared::Seq(1), kind: 0, payload: &payload }).await;
        if passes {
            client.settle().await;
        } else {
            assert!(matches!(client.ended().await, Ended::Code(4007, _)));
        }
    }
}

#[tokio::test]
async fn the_rate_is_limited() {
    let rig = Rig::new(|s| s.manual = true).await;
    let mut client = rig.guest().await;
    // A burst of 120, of which hello was the first.
    for id in 0..119 {
        client.send(ClientMessage::Ping { id }).await;
    }
    client.expect(|m| matches!(m, ServerMessage::Pong { id: 118, .. }).then_some(())).await;
    client.send(ClientMessage::Ping { id: 119 }).await;
    assert_eq!(client.ended().await, Ended::Code(4006, "too many messages per second".to_owned()));

    // Many messages in one are many messages.
    let mut raw = rig.raw().await;
    raw.hello().await;
    raw.write(&client_frame(0x82, &[0x91, 11].repeat(200))).await;
    assert_eq!(raw.close_code().await, Some(4006));
    // Pings and pongs count too.
    let mut raw = rig.raw().await;
    raw.write(&client_frame(0x8a, &[]).repeat(200)).await;
    assert_eq!(raw.close_code().await, Some(4006));
    // And bytes.
    let mut client = rig.guest().await;
    let payload = [&[0xc5, 0x0f, 0x00][..], &[0; 0xf00]].concat();
    client.enter("k3").await;
    for seq in 1..=18 {
        let message = ClientMessage::Message { seq: tenure_shared::Seq(seq), kind: 0, payload: &payload };
        let mut out = Vec::new();
        message.encode(&mut out);
        drop(client.ws.send(Message::Binary(out.into())).await);
    }
    assert_eq!(client.ended().await, Ended::Code(4006, "too many bytes per second".to_owned()));
}

#[tokio::test]
async fn a_socket_without_login_is_closed() {
    let rig = Rig::new(|s| s.manual = true).await;
    let raw = rig.raw().await;
    until("the socket is there", || rig.gateway.sockets() == 1).await;
    let closed = tokio::spawn(raw.close_code());
    rig.advance_until(Duration::from_millis(500), "it is closed", || closed.is_finished()).await;
    assert_eq!(closed.await.expect("ran"), Some(4008));
    assert!(rig.moved() >= Duration::from_secs(5), "not before the time");
}

#[tokio::test]
async fn half_open_sockets_are_found_by_silence_and_living_ones_are_kept() {
    let rig = Rig::new(|s| s.manual = true).await;
    let mut silent = rig.raw().await;
    silent.hello().await;
    let mut alive = rig.guest().await;
    until("both are there", || rig.gateway.sockets() == 2).await;
    // The living client's library answers pings as long as it reads.
    let living = tokio::spawn(async move {
        alive.ended().await;
    });
    rig.advance_until(Duration::from_millis(500), "the silent one is gone", || rig.gateway.sockets() == 1).await;
    assert!(rig.moved() >= Duration::from_secs(25));
    assert_eq!(silent.close_code().await, Some(4010));
    let until_then = rig.moved() + Duration::from_secs(120);
    rig.advance_until(Duration::from_millis(500), "two more minutes", || rig.moved() > until_then).await;
    assert_eq!(rig.gateway.sockets(), 1, "a client that answers pings was closed");
    living.abort();
}

#[tokio::test]
async fn slow_and_large_request_heads_are_cut_off() {
    let rig = Rig::new(|s| s.config.handshake_timeout = Duration::from_millis(200)).await;
    let mut slow = rig.tcp().await;
    slow.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nX: ").await.expect("sent");
    let mut answer = Vec::new();
    drop(soon(slow.read_to_end(&mut answer)).await);
    assert!(!String::from_utf8_lossy(&answer).contains(" 200 "));

    let bombs: [Vec<u8>; 3] = [
        (0..200).flat_map(|n| format!("X-{n}: 1\r\n").into_bytes()).collect(),
        [b"X: ".as_slice(), &vec![b'a'; 100_000], b"\r\n"].concat(),
        vec![b'x'; 100_000],
    ];
    for bomb in bombs {
        let mut tcp = rig.tcp().await;
        drop(tcp.write_all(&[b"GET /ws HTTP/1.1\r\nHost: x\r\n", &bomb[..], b"\r\n"].concat()).await);
        let mut answer = Vec::new();
        drop(soon(tcp.read_to_end(&mut answer)).await);
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    rig.guest().await;
}

#[tokio::test]
async fn a_hundred_bad_clients_disturb_nobody() {
    let rig = Rig::new(|_| ()).await;
    let mut honest = rig.guest().await;
    let joined = honest.enter("k3").await;
    let addr = rig.addr();
    let attacks: Vec<_> = (0..100_usize)
        .map(|n| {
            tokio::spawn(async move {
                let mut raw = Raw::upgraded(addr).await;
                match n % 5 {
                    0 => raw.write(&claims(0x82, u64::MAX >> 1)).await,
                    1 => raw.write(&client_frame(0x82, &[0x91; 1_000])).await,
                    2 => raw.write(&client_frame(0x89, &[0; 100]).repeat(500)).await,
                    3 => raw.write(&client_frame(0x01, b"x").repeat(3)).await,
                    _ => raw.write(&[0xff; 5_000]).await,
                }
                raw.close_code().await
            })
        })
        .collect();
    for _ in 0..50 {
        let tick = rig.node.tick(&joined.room, 100, |_| (Vec::new(), 0));
        honest.expect(|m| matches!(m, ServerMessage::Frame { tick: t, .. } if t.0 == tick).then_some(())).await;
    }
    for attack in attacks {
        assert!(matches!(soon(attack).await.expect("ran"), Some(1009 | 4006 | 4007)));
    }
    until("only the honest one is left", || rig.gateway.sockets() == 1).await;
}
