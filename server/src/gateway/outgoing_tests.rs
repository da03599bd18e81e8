//! The write path against a socket that takes what it is told to take.

use std::{
    pin::Pin,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use proptest::prelude::*;
use tenure_shared::codes::CloseCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::*;
use crate::gateway::frame;

/// A socket that takes at most `room` bytes until it is given more, and at most `chunk` at once.
#[derive(Default)]
struct Slow {
    room: usize,
    chunk: usize,
    taken: Vec<u8>,
    writes: usize,
}

impl AsyncRead for Slow {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

impl AsyncWrite for Slow {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut left = self.room.min(self.chunk);
        if left == 0 {
            return Poll::Pending;
        }
        self.writes += 1;
        let mut n = 0;
        for part in parts {
            let take = part.len().min(left);
            self.taken.extend_from_slice(&part[..take]);
            (left, n) = (left - take, n + take);
        }
        self.room -= n;
        Poll::Ready(Ok(n))
    }
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Cuts what was written into frames: (opcode, payload). Panics if it is not well formed; an incomplete frame at the end is left out.
fn frames(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut all = Vec::new();
    while bytes.len() >= 2 {
        assert_eq!(bytes[0] & 0xf0, 0x80, "FIN and no reserved bit");
        let opcode = bytes[0] & 0x0f;
        assert!([2, 8, 9, 10].contains(&opcode), "opcode {opcode}");
        let (len, head) = match bytes[1] {
            126 if bytes.len() < 4 => break,
            126 => (usize::from(u16::from_be_bytes([bytes[2], bytes[3]])), 4),
            127 if bytes.len() < 10 => break,
            127 => (u64::from_be_bytes(bytes[2..10].try_into().expect("eight")) as usize, 10),
            n => (usize::from(n), 2),
        };
        if bytes.len() < head + len {
            break;
        }
        all.push((opcode, bytes[head..head + len].to_vec()));
        bytes = &bytes[head + len..];
    }
    all
}

const BOUNDS: Bounds =
    Bounds { bytes: 1_000, resync_after: Duration::from_secs(1), close_after: Duration::from_secs(10) };

fn at(ms: u64) -> Mono {
    Mono(ms * 1_000_000)
}

fn cx() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

fn send(out: &mut Outgoing, io: &mut Slow, now: Mono, body: &[u8], tail: &[u8]) -> Result<(), Broken> {
    out.frame(io, &mut cx(), now, &Bytes::copy_from_slice(body), &Bytes::copy_from_slice(tail), 0..tail.len())
}

#[test]
fn a_socket_that_keeps_up_gets_one_write_per_frame() {
    let (mut out, mut io) = (Outgoing::new(BOUNDS), Slow { room: usize::MAX, chunk: usize::MAX, ..Slow::default() });
    for n in 0..10_u8 {
        send(&mut out, &mut io, at(0), &[n; 200], &[9, n]).expect("written");
    }
    assert_eq!((io.writes, out.waiting(), out.queue.capacity()), (10, 0, 0), "nothing was queued or allocated");
    let all = frames(&io.taken);
    assert_eq!(all.len(), 10);
    assert_eq!(all[3].1, [&[3; 200][..], &[9, 3]].concat());
}

#[test]
fn a_remainder_shares_the_body() {
    let (mut out, mut io) = (Outgoing::new(BOUNDS), Slow { room: 50, chunk: usize::MAX, ..Slow::default() });
    let body = Bytes::from(vec![7; 300]);
    out.frame(&mut io, &mut cx(), at(0), &body, &Bytes::new(), 0..0).expect("taken");
    assert_eq!(out.queue[0].body.as_ptr(), body.as_ptr(), "the body was copied");
    assert_eq!(out.waiting(), 304 - 50);
    io.room = usize::MAX;
    out.flush(&mut io, &mut cx()).expect("flushed");
    assert_eq!(frames(&io.taken), [(2, body.to_vec())]);
    assert!(out.is_idle() && out.closes_at().is_none());
}

#[test]
fn a_slow_client_loses_state_gets_one_snapshot_and_no_tail_is_lost() {
    let (mut out, mut io) = (Outgoing::new(BOUNDS), Slow { room: 10, chunk: usize::MAX, ..Slow::default() });
    // Up to a second everything waits in order.
    send(&mut out, &mut io, at(0), &[1; 100], &[101]).expect("waits");
    send(&mut out, &mut io, at(900), &[2; 100], &[102]).expect("waits");
    assert!(!out.stale);
    // Later state is left out, also what has waited; tails stay.
    send(&mut out, &mut io, at(1_100), &[3; 100], &[103]).expect("waits");
    send(&mut out, &mut io, at(1_200), &[4; 100], &[]).expect("nothing is left of it");
    assert!(out.stale && !out.wants_snapshot(), "not before it has drained");
    io.room = usize::MAX;
    out.flush(&mut io, &mut cx()).expect("flushed");
    let all = frames(&io.taken);
    assert_eq!(all[0].1, [&[1; 100][..], &[101]].concat(), "a frame that was begun is finished");
    assert_eq!(all[1..], [(2, vec![102]), (2, vec![103])]);
    assert!(out.wants_snapshot());
    out.snapshot_asked(at(1_300));
    assert!(!out.wants_snapshot(), "it is asked for once");
    send(&mut out, &mut io, at(1_310), &[5; 100], &[105]).expect("only the tail");
    out.snapshot(&mut io, &mut cx(), at(1_320), &Bytes::new(), &Bytes::from_static(&[7, 7, 7])).expect("shown");
    send(&mut out, &mut io, at(1_330), &[6; 100], &[]).expect("state flows again");
    let all = frames(&io.taken);
    assert_eq!(all[3..], [(2, vec![105]), (2, vec![7, 7, 7]), (2, vec![6; 100])]);
}

#[test]
fn what_waits_is_bounded() {
    let (mut out, mut io) = (Outgoing::new(BOUNDS), Slow::default());
    for n in 0..1_000_u64 {
        send(&mut out, &mut io, at(n), &[1; 300], &[]).expect("state is left out instead");
        assert!(out.waiting() <= BOUNDS.bytes, "{}", out.waiting());
    }
    assert_eq!(out.closes_at(), Some(at(10_000)));
    let mut sent = 0;
    let broken = loop {
        match send(&mut out, &mut io, at(500), &[], &[2; 100]) {
            Ok(()) => sent += 1,
            Err(broken) => break broken,
        }
    };
    assert!(matches!(broken, Broken::Slow) && sent > 0, "tails are never left out: the client is too slow");
    assert!(out.waiting() <= BOUNDS.bytes);
}

#[test]
fn a_snapshot_larger_than_the_bound_is_sent_to_a_client_that_has_drained() {
    let (mut out, mut io) = (Outgoing::new(BOUNDS), Slow { room: 10, chunk: usize::MAX, ..Slow::default() });
    out.leave_state_out();
    assert!(out.wants_snapshot());
    out.snapshot_asked(at(0));
    out.snapshot(&mut io, &mut cx(), at(0), &Bytes::new(), &Bytes::from(vec![7; 5_000])).expect("waits");
    io.room = usize::MAX;
    out.flush(&mut io, &mut cx()).expect("flushed");
    assert_eq!(frames(&io.taken), [(2, vec![7; 5_000])]);
}

#[test]
fn the_close_comes_last_and_nothing_after_it() {
    let (mut out, mut io) = (Outgoing::new(BOUNDS), Slow { room: 5, chunk: usize::MAX, ..Slow::default() });
    send(&mut out, &mut io, at(0), &[1; 20], &[101]).expect("waits");
    send(&mut out, &mut io, at(0), &[2; 20], &[102]).expect("waits");
    assert!(out.control(&[0x8a, 1, 42]));
    out.close(at(1), frame::close(CloseCode::Superseded, "x"));
    out.close(at(1), frame::close(CloseCode::Restart, "y"));
    assert!(out.control(&[0x8a, 0]));
    send(&mut out, &mut io, at(2), &[3], &[103]).expect("ignored");
    io.room = usize::MAX;
    out.flush(&mut io, &mut cx()).expect("flushed");
    let all = frames(&io.taken);
    assert_eq!(all[1..], [(2, vec![102]), (8, vec![0x0f, 0xa4, b'x'])]);
    assert!(out.is_idle());
}

#[derive(Clone, Debug)]
enum Act {
    Frame(u16, u8),
    Ping(u8),
    Room(u16),
    Time(u16),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        (0..700_u16, 0..40_u8).prop_map(|(body, tail)| Act::Frame(body, tail)),
        (0..126_u8).prop_map(Act::Ping),
        (0..900_u16).prop_map(Act::Room),
        (0..1_500_u16).prop_map(Act::Time),
    ]
}

proptest! {
    /// A ping flood during forced partial writes: whatever happens, frames come out whole and in order, and every tail comes out.
    #[test]
    fn frames_stay_well_formed(acts in prop::collection::vec(act(), 1..120), chunk in 1..200_usize) {
        let (mut out, mut io) = (Outgoing::new(BOUNDS), Slow { chunk, ..Slow::default() });
        let (mut now, mut number, mut broken) = (0, 0_u32, false);
        let mut tails = Vec::new();
        let mut pongs = 0;
        for act in acts {
            match act {
                Act::Frame(body, tail) => {
                    number += 1;
                    let mut tail = vec![b'T'; usize::from(tail)];
                    if tail.len() >= 5 {
                        tail[1..5].copy_from_slice(&number.to_be_bytes());
                    }
                    match send(&mut out, &mut io, at(now), &vec![b'B'; usize::from(body)], &tail) {
                        Ok(()) => tails.extend_from_slice(&tail),
                        Err(_) => {
                            broken = true;
                            break;
                        }
                    }
                }
                Act::Ping(len) => {
                    let pong = [&[0x8a, len][..], &vec![b'P'; usize::from(len)]].concat();
                    pongs += usize::from(out.control(&pong));
                }
                Act::Room(room) => {
                    io.room += usize::from(room);
                    out.flush(&mut io, &mut cx()).expect("no fault");
                }
                Act::Time(ms) => now += u64::from(ms),
            }
            prop_assert!(out.waiting() <= BOUNDS.bytes + CONTROL_BYTES + 800, "{}", out.waiting());
        }
        io.room = usize::MAX;
        out.flush(&mut io, &mut cx()).expect("no fault");
        let all = frames(&io.taken);
        let len: usize = all.iter().map(|(_, payload)| payload.len() + head_len(payload.len())).sum();
        prop_assert_eq!(len, io.taken.len(), "an incomplete frame is left");
        let mut seen = Vec::new();
        for (opcode, payload) in &all {
            match opcode {
                2 => {
                    let body = payload.iter().take_while(|b| **b == b'B').count();
                    seen.extend_from_slice(&payload[body..]);
                }
                10 => prop_assert!(payload.iter().all(|b| *b == b'P')),
                other => prop_assert!(false, "opcode {}", other),
            }
        }
        prop_assert_eq!(all.iter().filter(|(opcode, _)| *opcode == 10).count(), pongs);
        prop_assert!(broken || seen == tails);
    }
}

fn head_len(payload: usize) -> usize {
    Head::binary(payload).as_slice().len()
}

#[test]
fn a_snapshot_larger_than_the_bound_is_shown_and_what_follows_it_too() {
    let (mut out, mut io) = (Outgoing::new(BOUNDS), Slow { room: 50, chunk: usize::MAX, ..Slow::default() });
    let snapshot = Bytes::from(vec![7; 3_000]);
    out.snapshot(&mut io, &mut cx(), at(0), &Bytes::new(), &snapshot).expect("taken");
    send(&mut out, &mut io, at(0), &[], &[1; 100]).expect("a tail waits");
    send(&mut out, &mut io, at(0), &[2; 300], &[3; 100]).expect("a frame waits");
    // A second snapshot takes the place of the frame's state, not of the tails, nor of what is half written.
    let second = Bytes::from(vec![8; 2_000]);
    out.snapshot(&mut io, &mut cx(), at(0), &Bytes::new(), &second).expect("taken");
    send(&mut out, &mut io, at(0), &[4; 300], &[]).expect("a frame waits");
    assert!(!out.wants_snapshot());
    io.room = usize::MAX;
    out.flush(&mut io, &mut cx()).expect("flushed");
    let lengths: Vec<_> = frames(&io.taken).into_iter().map(|(_, payload)| payload.len()).collect();
    assert_eq!(lengths, [3_000, 100, 100, 2_000, 300]);
    assert_eq!((out.left.bytes, out.left.owed), (0, 0));
    // Tails alone are still bounded.
    io.room = 0;
    let tails = (0..20).map(|_| send(&mut out, &mut io, at(0), &[], &[9; 100]));
    let taken = tails.take_while(Result::is_ok).count();
    assert!((8..=10).contains(&taken), "{taken}");
}
