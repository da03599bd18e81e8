//! A fan-out that is behind: state is lost first, tails never, and what does not fit is given back.

#![expect(clippy::disallowed_methods, reason = "a test runs its own task")]

use std::task::{Context, Waker};

use bytes::Bytes;
use parking_lot::Mutex;
use tenure_shared::{Generation, SeatId, Seq, Term, Tick};
use tokio::io::AsyncReadExt as _;

use super::*;
use crate::{
    gateway::{orphans::ORPHANS, outgoing::Bounds},
    link::{Attach, FrameMember, GatewayId, Mode, RestoredMember, ToNode, Uplink},
    runtime::Clock,
};

fn room() -> RoomId {
    RoomId::new("arena/eu/a").expect("id")
}

fn shared() -> Arc<Shared> {
    Arc::new(Shared {
        conns: Arc::new(Slab::new(0)),
        clock: Clock::system(),
        metrics: Metrics::new(),
        tables: Tables::default(),
        shards: 16,
    })
}

fn link(uplink: &Arc<Busy>) -> Arc<Link> {
    Link::open(1, uplink.clone())
}

fn idle() -> Arc<Busy> {
    Arc::new(Busy { busy: Mutex::new(0), got: Mutex::new(Vec::new()) })
}

fn attach(conn: ConnId) -> Attach {
    Attach {
        gateway: GatewayId(0),
        conn,
        attempt: 1,
        room: room(),
        mode: Mode::Join,
        player: tenure_shared::PlayerId::new("anna").expect("id"),
        options: Bytes::new(),
        metadata: Bytes::new(),
        seat: None,
        rejoin: false,
        generation: Generation(0),
        resumes: 0,
        first: Seq(1),
        shown: (Term(0), Tick(0)),
        table: None,
    }
}

fn attached(conn: ConnId) -> Attached {
    Attached {
        conn,
        attempt: 1,
        room: room(),
        seat: SeatId(1),
        generation: Generation(3),
        term: Term(1),
        tick: Tick(0),
        owed: Seq(1),
        tick_rate: 20,
        hash: 0,
        table: None,
        snapshot: Bytes::new(),
        rolled_back: false,
    }
}

/// Each tail is three bytes, the body one.
fn frame(conn: ConnId, tick: u64) -> ToGateway {
    let tails = Bytes::from(vec![b'T', (tick >> 8) as u8, tick as u8]);
    let members = vec![FrameMember { conn, saved: Seq(0), start: 0, end: 3 }];
    ToGateway::Frame(Frame {
        room: room(),
        term: Term(1),
        tick: Tick(tick),
        body: Bytes::from_static(b"B"),
        tails,
        members,
    })
}

#[tokio::test]
async fn when_it_is_behind_state_is_lost_first_and_tails_never() {
    let shared = shared();
    let bounds = Bounds {
        bytes: 1 << 20,
        resync_after: std::time::Duration::from_secs(60),
        close_after: std::time::Duration::from_secs(60),
    };
    let (ours, mut theirs) = tokio::io::duplex(1 << 20);
    let conn = shared.conns.insert(|id| Conn::new(id, Box::new(ours), bounds));
    let link = link(&idle());
    conn.lock().expect(&link, 16, &mut attach(conn.id), false);
    assert!(matches!(conn.attached(Mono(0), &link, &shared.tables, attached(conn.id)), Taken::Yes));
    conn.lock().release(&mut Context::from_waker(Waker::noop()), Mono(0), &Bytes::new(), &Bytes::new(), &Bytes::new());

    let (fan_out, mut tasks) = FanOut::new(1, &shared);
    for tick in 1..=MAILBOX as u64 {
        assert!(fan_out.send(link.clone(), frame(conn.id, tick)).is_ok(), "{tick}");
    }
    let over = frame(conn.id, MAILBOX as u64 + 1);
    let Err(Refused::Full(ToGateway::Frame(back))) = fan_out.send(link.clone(), over) else { panic!("taken") };
    assert_eq!(back.members.len(), 1);
    let stop = Shutdown::new();
    let lane = tokio::spawn(tasks.remove(0).run(stop.clone()));
    let mut bytes = vec![0; FRAMES * 6 + FRAMES * 5];
    theirs.read_exact(&mut bytes).await.expect("all of it");
    let mut rest = &bytes[..];
    for tick in 1..=MAILBOX as u64 {
        let len = usize::from(rest[1]);
        let (payload, next) = rest[2..].split_at(len);
        let tail = [b'T', (tick >> 8) as u8, tick as u8];
        let expected = if tick <= FRAMES as u64 { [&b"B"[..], &tail].concat() } else { tail.to_vec() };
        assert_eq!(payload, expected, "tick {tick}");
        rest = next;
    }
    assert!(conn.lock().out.wants_snapshot(), "the loss is made up for");
    stop.stop();
    lane.await.expect("ended");
}

struct Busy {
    busy: Mutex<u32>,
    got: Mutex<Vec<ToNode>>,
}

impl Uplink for Busy {
    fn send(&self, message: ToNode) -> Result<(), Refused<ToNode>> {
        let mut busy = self.busy.lock();
        if *busy > 0 {
            *busy -= 1;
            return Err(Refused::Full(message));
        }
        self.got.lock().push(message);
        Ok(())
    }
}

#[tokio::test]
async fn seats_of_sockets_that_are_gone_are_given_back_even_to_a_busy_node() {
    let shared = shared();
    let node = Arc::new(Busy { busy: Mutex::new(3), got: Mutex::new(Vec::new()) });
    let link = link(&node);
    let (fan_out, mut tasks) = FanOut::new(1, &shared);
    fan_out.send(link.clone(), ToGateway::Attached(attached(ConnId(77)))).expect("taken");
    let stop = Shutdown::new();
    let lane = tokio::spawn(tasks.remove(0).run(stop.clone()));
    while node.got.lock().is_empty() {
        tokio::task::yield_now().await;
    }
    let detach = ToNode::Detach { room: room(), seat: SeatId(1), generation: Generation(3), consented: false };
    assert_eq!(*node.got.lock(), [detach]);
    stop.stop();
    lane.await.expect("ended");
}

#[tokio::test]
async fn a_restored_room_hears_of_sockets_that_are_gone() {
    let shared = shared();
    let node = Arc::new(Busy { busy: Mutex::new(0), got: Mutex::new(Vec::new()) });
    let link = link(&node);
    let bounds = Bounds {
        bytes: 1 << 20,
        resync_after: std::time::Duration::from_secs(60),
        close_after: std::time::Duration::from_secs(60),
    };
    // One is closed, one has left the room: what they said, they said of an older attachment.
    let conn = shared.conns.insert(|id| Conn::new(id, Box::new(tokio::io::duplex(1 << 10).0), bounds));
    let (fan_out, mut tasks) = FanOut::new(1, &shared);
    let member = |conn, seat| {
        let (seat, generation, owed) = (SeatId(seat), Generation(4), Seq(1));
        RestoredMember { conn, seat, generation, owed, snapshot: Bytes::new() }
    };
    let members = vec![member(ConnId(77), 1), member(conn.id, 2)];
    fan_out
        .send(link.clone(), ToGateway::Restored { room: room(), term: Term(1), tick: Tick(3), members })
        .expect("taken");
    let stop = Shutdown::new();
    let lane = tokio::spawn(tasks.remove(0).run(stop.clone()));
    while node.got.lock().len() < 2 {
        tokio::task::yield_now().await;
    }
    let detach =
        |seat| ToNode::Detach { room: room(), seat: SeatId(seat), generation: Generation(4), consented: false };
    assert_eq!(*node.got.lock(), [detach(1), detach(2)]);
    stop.stop();
    lane.await.expect("ended");
}

#[tokio::test]
async fn detaches_that_nobody_takes_end_their_link_and_hold_nobody_up() {
    let shared = shared();
    let stuck = Arc::new(Busy { busy: Mutex::new(u32::MAX), got: Mutex::new(Vec::new()) });
    let link = link(&stuck);
    let (well, other) = (idle(), Arc::new(Busy { busy: Mutex::new(u32::MAX), got: Mutex::new(Vec::new()) }));
    let (second, third) = (Link::open(2, well.clone()), Link::open(3, other.clone()));
    let (fan_out, mut tasks) = FanOut::new(1, &shared);
    let stop = Shutdown::new();
    let lane = tokio::spawn(tasks.remove(0).run(stop.clone()));
    let one = |seat| ToGateway::Attached(Attached { seat: SeatId(seat), ..attached(ConnId(77)) });
    // One that waits for another node, then more than may wait.
    assert!(fan_out.send(third.clone(), one(9)).is_ok());
    let mut next = 0;
    while !link.is_broken() {
        if fan_out.send(link.clone(), one(next)).is_ok() {
            next += 1;
        }
        assert!(next as usize <= ORPHANS + MAILBOX, "the bound was passed");
        tokio::task::yield_now().await;
    }
    // The router's word comes through, and so do other nodes' seats and what waits for them.
    fan_out.tell(&Item::Off { link: link.clone(), shard: None, why: Off::Broken }).await;
    assert!(fan_out.send(second.clone(), one(1)).is_ok());
    *other.busy.lock() = 0;
    while well.got.lock().is_empty() || other.got.lock().is_empty() {
        tokio::task::yield_now().await;
    }
    assert!(!second.is_broken() && !third.is_broken() && stuck.got.lock().is_empty());
    stop.stop();
    lane.await.expect("ended");
    assert_eq!(Arc::strong_count(&link), 1, "nothing holds it, so that its uplink is dropped");
}

#[tokio::test]
async fn seats_leave_a_link_behind_what_it_brought_before() {
    let shared = shared();
    let link = link(&idle());
    let bounds = Bounds {
        bytes: 1 << 20,
        resync_after: std::time::Duration::from_secs(60),
        close_after: std::time::Duration::from_secs(60),
    };
    let (ours, mut theirs) = tokio::io::duplex(1 << 10);
    let conn = shared.conns.insert(|id| Conn::new(id, Box::new(ours), bounds));
    conn.lock().expect(&link, 16, &mut attach(conn.id), false);
    assert!(matches!(conn.attached(Mono(0), &link, &shared.tables, attached(conn.id)), Taken::Yes));
    conn.lock().release(&mut Context::from_waker(Waker::noop()), Mono(0), &Bytes::new(), &Bytes::new(), &Bytes::new());
    let (fan_out, tasks) = FanOut::new(3, &shared);
    let shard = room().shard(16);
    fan_out.send(link.clone(), frame(conn.id, 1)).expect("taken");
    let moved = |shard, term| ToGateway::Moved { shard, term: Term(term), to: None };
    fan_out.send(link.clone(), moved(ShardId((shard.0 + 1) % 16), 1)).expect("taken");
    fan_out.send(link.clone(), frame(conn.id, 2)).expect("taken");
    fan_out.send(link.clone(), moved(shard, 1)).expect("taken");
    fan_out.send(link.clone(), frame(conn.id, 3)).expect("taken");
    let stop = Shutdown::new();
    let lanes: Vec<_> = tasks.into_iter().map(|lane| tokio::spawn(lane.run(stop.clone()))).collect();
    while conn.lock().is_on(link.id) || fan_out.lanes.iter().any(|lane| lane.waiting.load(Ordering::Relaxed) > 0) {
        tokio::task::yield_now().await;
    }
    stop.stop();
    for lane in lanes {
        lane.await.expect("ended");
    }
    assert!(link.seats.shards().is_empty(), "nobody is on it");
    drop((conn, shared, fan_out));
    let mut bytes = Vec::new();
    theirs.read_to_end(&mut bytes).await.expect("read");
    assert_eq!(
        bytes,
        [&[0x82, 4][..], b"BT", &[0, 1], &[0x82, 4], b"BT", &[0, 2]].concat(),
        "two frames, not the third"
    );
}
