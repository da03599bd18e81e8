//! What is shown, in which order, and what is not (H7).

use std::task::{Context, Waker};

use tenure_shared::{
    Generation, SeatId, Seq, msgpack,
    wire::{ServerMessage, ServerMessages},
};
use tokio::io::{AsyncReadExt as _, DuplexStream};

use super::*;
use crate::{
    gateway::{
        fanout::Off,
        ring::{Entry, UnsavedBounds},
        tables::Tables,
    },
    link::{Attach, GatewayId, Mode, ToNode, Uplink},
    runtime::mailbox::Refused,
};

const BOUNDS: Bounds = Bounds {
    bytes: 10_000,
    resync_after: std::time::Duration::from_secs(1),
    close_after: std::time::Duration::from_secs(10),
};

fn room() -> RoomId {
    RoomId::new("arena/eu/a").expect("id")
}

fn connection() -> (Conn, DuplexStream) {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    (Conn::new(ConnId(1), Box::new(ours), BOUNDS), theirs)
}

struct Nobody;

impl Uplink for Nobody {
    fn send(&self, _: ToNode) -> Result<(), Refused<ToNode>> {
        Ok(())
    }
}

fn link(id: u64) -> Arc<Link> {
    Link::open(id, Arc::new(Nobody))
}

/// One for all that need no more.
fn only() -> Arc<Link> {
    static ONE: std::sync::OnceLock<Arc<Link>> = std::sync::OnceLock::new();
    ONE.get_or_init(|| link(1)).clone()
}

fn asks(room: RoomId, attempt: u32, shown: (u64, u64)) -> Attach {
    Attach {
        gateway: GatewayId(0),
        conn: ConnId(1),
        attempt,
        room,
        mode: Mode::Join,
        player: tenure_shared::PlayerId::new("anna").expect("id"),
        options: Bytes::new(),
        metadata: Bytes::new(),
        seat: None,
        rejoin: false,
        generation: Generation(0),
        resumes: 0,
        first: Seq(1),
        shown: (Term(shown.0), Tick(shown.1)),
        table: None,
    }
}

fn expect(conn: &Conn, room: RoomId, attempt: u32) {
    conn.lock().expect(&only(), 16, &mut asks(room, attempt, (0, 0)), false);
}

fn take(conn: &Conn, link: &Arc<Link>, attached: Attached) -> Taken {
    conn.attached(Mono(0), link, &Tables::default(), attached)
}

fn is_taken(conn: &Conn, attached: Attached) -> bool {
    matches!(take(conn, &only(), attached), Taken::Yes)
}

fn restored_member(generation: u32, owed: u64, snapshot: Bytes) -> RestoredMember {
    let (seat, generation, owed) = (SeatId(1), Generation(generation), Seq(owed));
    RestoredMember { conn: ConnId(1), seat, generation, owed, snapshot }
}

fn detach(generation: u32, consented: bool) -> ToNode {
    ToNode::Detach { room: room(), seat: SeatId(1), generation: Generation(generation), consented }
}

fn attached(term: u64, tick: u64) -> Attached {
    Attached {
        conn: ConnId(1),
        attempt: 1,
        room: room(),
        seat: SeatId(1),
        generation: Generation(1),
        term: Term(term),
        tick: Tick(tick),
        owed: Seq(1),
        tick_rate: 20,
        hash: 0,
        table: None,
        snapshot: Bytes::new(),
        rolled_back: false,
    }
}

fn body(term: u64, tick: u64) -> Bytes {
    encode(&ServerMessage::Frame { term: Term(term), tick: Tick(tick), ops: &[0x90] })
}

fn snapshot(term: u64, tick: u64) -> Bytes {
    encode(&ServerMessage::Snapshot { term: Term(term), tick: Tick(tick), ops: &[0x90] })
}

fn frame(term: u64, tick: u64, tail: &[u8]) -> (Frame, FrameMember) {
    let member = FrameMember { conn: ConnId(1), saved: Seq(0), start: 0, end: tail.len() as u32 };
    let frame = Frame {
        room: room(),
        term: Term(term),
        tick: Tick(tick),
        body: body(term, tick),
        tails: Bytes::copy_from_slice(tail),
        members: vec![member],
    };
    (frame, member)
}

fn give(conn: &Conn, term: u64, tick: u64, tail: &[u8]) -> Shown {
    let (frame, member) = frame(term, tick, tail);
    conn.lock().frame(Mono(0), 1, &frame, member, false)
}

fn enter(conn: &Conn, snapshot: &Bytes) {
    let mut cx = Context::from_waker(Waker::noop());
    conn.lock().release(&mut cx, Mono(0), &encode(&ServerMessage::Left { id: 99 }), snapshot, &Bytes::new());
}

/// What came out, as short words.
async fn seen(mut theirs: DuplexStream, conn: Conn) -> Vec<String> {
    drop(conn);
    let mut bytes = Vec::new();
    theirs.read_to_end(&mut bytes).await.expect("read");
    let mut rest = &bytes[..];
    let mut words = Vec::new();
    while let [0x82, len, after @ ..] = rest {
        let (message, next) = after.split_at(usize::from(*len));
        for message in ServerMessages::new(message, &msgpack::Bounds::SERVER) {
            words.push(match message.expect("readable") {
                ServerMessage::Frame { term, tick, .. } => format!("frame {term}.{tick}"),
                ServerMessage::Snapshot { term, tick, .. } => format!("snapshot {term}.{tick}"),
                ServerMessage::RolledBack { term, tick } => format!("rolled back {term}.{tick}"),
                ServerMessage::Left { .. } => "joined".to_owned(),
                ServerMessage::Pong { id, .. } => format!("tail {id}"),
                other => format!("{other:?}"),
            });
        }
        rest = next;
    }
    assert!(rest.is_empty(), "{rest:?}");
    words
}

fn tail(id: u32) -> Bytes {
    encode(&ServerMessage::Pong { id, time: 0 })
}

/// In a room through link 1, with four messages of which the first is saved.
fn playing() -> (Conn, DuplexStream) {
    let (conn, theirs) = connection();
    expect(&conn, room(), 1);
    assert!(is_taken(&conn, attached(5, 10)));
    enter(&conn, &snapshot(5, 10));
    let bounds = UnsavedBounds::default();
    if let Some(seat) = &mut conn.lock().seat {
        for seq in 1..=4 {
            let entry = Entry { seq: Seq(seq), request: None, kind: 0, payload: Bytes::new(), at: Mono(0) };
            seat.ring.push(entry, &bounds).expect("room");
            seat.ring.handed_over(Seq(seq));
        }
    }
    let (frame, mut member) = frame(5, 11, &[]);
    member.saved = Seq(1);
    conn.lock().frame(Mono(0), 1, &frame, member, false);
    (conn, theirs)
}

#[tokio::test]
async fn frames_wait_for_joined_and_older_ones_are_not_shown() {
    let (conn, theirs) = connection();
    conn.lock().expect(&only(), 16, &mut asks(room(), 1, (5, 7)), false);
    assert!(is_taken(&conn, attached(5, 10)));
    assert_eq!(give(&conn, 5, 10, &tail(1)), Shown::Yes);
    assert_eq!(give(&conn, 5, 11, &tail(2)), Shown::Yes);
    assert_eq!(give(&conn, 4, 99, &tail(3)), Shown::Behind(Term(5)), "a stale owner");
    enter(&conn, &snapshot(5, 10));
    assert_eq!(give(&conn, 5, 12, &[]), Shown::Yes);
    assert_eq!(give(&conn, 5, 11, &[]), Shown::Stale, "again");
    assert_eq!(give(&conn, 6, 1, &[]), Shown::Yes, "the next owner");
    assert_eq!(give(&conn, 5, 13, &tail(4)), Shown::Behind(Term(6)), "the last owner, late");
    let words = seen(theirs, conn).await;
    assert_eq!(words, ["joined", "snapshot 5.10", "tail 1", "frame 5.11", "tail 2", "frame 5.12", "frame 6.1"]);
}

#[tokio::test]
async fn frames_of_a_room_that_was_left_are_not_shown() {
    let (conn, theirs) = connection();
    assert!(!is_taken(&conn, attached(5, 10)), "nobody asked");
    expect(&conn, RoomId::new("arena/eu/b").expect("id"), 1);
    assert!(!is_taken(&conn, attached(5, 10)), "another room was asked for");
    expect(&conn, room(), 1);
    assert!(is_taken(&conn, attached(5, 10)));
    assert!(!is_taken(&conn, attached(5, 10)), "once");
    enter(&conn, &snapshot(5, 10));
    conn.lock().forget();
    assert_eq!(give(&conn, 5, 11, &tail(1)), Shown::Stale);
    assert_eq!(seen(theirs, conn).await, ["joined", "snapshot 5.10"]);
}

#[tokio::test]
async fn a_restored_room_says_so_once_and_the_ring_is_handed_over_again() {
    let (conn, theirs) = playing();
    let restored = restored_member(2, 3, snapshot(6, 8));
    assert_eq!(
        conn.lock().restored(Mono(0), 1, &room(), (Term(4), Tick(8)), &restored),
        Shown::Behind(Term(5)),
        "a stale owner"
    );
    assert_eq!(conn.lock().restored(Mono(0), 1, &room(), (Term(6), Tick(8)), &restored), Shown::Yes);
    let waiting = conn.lock().seat.as_ref().and_then(|seat| seat.ring.waiting().map(|e| e.seq));
    assert_eq!(waiting, Some(Seq(3)));
    assert_eq!(give(&conn, 6, 9, &[]), Shown::Yes);
    let words = seen(theirs, conn).await;
    assert_eq!(words, ["joined", "snapshot 5.10", "frame 5.11", "rolled back 6.8", "snapshot 6.8", "frame 6.9"]);
}

#[tokio::test]
async fn lost_state_is_made_up_for_by_one_snapshot() {
    let (conn, theirs) = connection();
    expect(&conn, room(), 1);
    assert!(is_taken(&conn, attached(5, 10)));
    enter(&conn, &snapshot(5, 10));
    let (mut lost, member) = frame(5, 11, &tail(1));
    lost.body = Bytes::new();
    conn.lock().frame(Mono(0), 1, &lost, member, true);
    assert_eq!(give(&conn, 5, 12, &tail(2)), Shown::Yes);
    assert!(conn.lock().out.wants_snapshot());
    let unasked = conn.lock().snapshot(Mono(0), 1, (Term(5), Tick(12)), &snapshot(5, 12));
    assert_eq!(unasked, Shown::Stale);
    conn.lock().out.snapshot_asked(Mono(0));
    assert_eq!(
        conn.lock().snapshot(Mono(0), 1, (Term(5), Tick(11)), &snapshot(5, 11)),
        Shown::Stale,
        "older than the tail"
    );
    assert_eq!(conn.lock().snapshot(Mono(0), 1, (Term(5), Tick(12)), &snapshot(5, 12)), Shown::Yes);
    assert_eq!(conn.lock().snapshot(Mono(0), 1, (Term(5), Tick(12)), &snapshot(5, 12)), Shown::Stale, "once");
    assert_eq!(give(&conn, 5, 13, &[]), Shown::Yes);
    let words = seen(theirs, conn).await;
    assert_eq!(words, ["joined", "snapshot 5.10", "tail 1", "tail 2", "snapshot 5.12", "frame 5.13"]);
}

#[test]
fn the_time_before_joined_is_bounded() {
    let (conn, _theirs) = connection();
    expect(&conn, room(), 1);
    assert!(is_taken(&conn, attached(5, 0)));
    for tick in 1..10_000 {
        let (frame, member) = frame(5, tick, &[0xc0; 4]);
        conn.lock().frame(Mono(0), 1, &frame, member, false);
        let inner = conn.lock();
        let held = inner.seat.as_ref().and_then(|seat| seat.held.as_ref()).expect("held");
        assert!(held.frames.len() <= 2 * seat::HELD_FRAMES + 1);
        if inner.broken.is_some() {
            return;
        }
    }
    panic!("it went on for ever");
}

#[test]
fn notes_are_bounded_and_end_with_the_task() {
    let (conn, _theirs) = connection();
    let note = || Note::Node(ToGateway::Left { conn: ConnId(1) });
    let taken = (0..100).filter(|_| conn.note(note())).count();
    assert_eq!(taken, INBOX);
    assert_eq!(conn.lock().end().0.len(), INBOX);
    assert!(!conn.note(note()));
    let _ = GatewayId(0);
}

#[test]
fn only_the_answer_to_the_newest_attempt_gives_a_seat() {
    let (conn, _theirs) = connection();
    expect(&conn, room(), 1);
    // It took too long, and the client asked again.
    conn.lock().forget();
    expect(&conn, room(), 2);
    assert!(!is_taken(&conn, attached(5, 10)), "the answer to the first attempt");
    let second = Attached { attempt: 2, generation: Generation(2), ..attached(5, 10) };
    assert!(is_taken(&conn, second));
    let (_, own) = conn.lock().give_up(false).expect("a seat");
    assert_eq!(own, detach(2, false));
    assert!(conn.lock().seat.is_none());
}

#[test]
fn a_detach_after_a_restore_names_the_newest_attachment() {
    let (conn, _theirs) = connection();
    expect(&conn, room(), 1);
    assert!(is_taken(&conn, attached(5, 10)));
    enter(&conn, &snapshot(5, 10));
    assert_eq!(
        conn.lock().restored(Mono(0), 1, &room(), (Term(5), Tick(12)), &restored_member(2, 1, snapshot(5, 12))),
        Shown::Yes
    );
    assert_eq!(conn.lock().take_raised(), Some(Generation(2)));
    assert_eq!(conn.lock().take_raised(), None);
    let give_up = |consented| conn.lock().give_up(consented).map(|(_, detach)| detach);
    assert_eq!(give_up(true), Some(detach(2, true)));
    assert_eq!(give_up(false), Some(detach(2, false)));
    let late = conn.lock().restored(Mono(0), 1, &room(), (Term(5), Tick(14)), &restored_member(3, 1, snapshot(5, 14)));
    assert_eq!(late, Shown::Gone, "whoever restores it is told");
}

#[test]
fn a_restore_that_this_socket_cannot_make_up_for_ends_it() {
    // Before `joined`, and when the room wants what came through another socket.
    for (entered, owed) in [(false, 1), (true, 0)] {
        let (conn, _theirs) = connection();
        expect(&conn, room(), 1);
        assert!(is_taken(&conn, attached(5, 10)));
        if entered {
            enter(&conn, &snapshot(5, 10));
        }
        conn.lock().restored(Mono(0), 1, &room(), (Term(5), Tick(12)), &restored_member(2, owed, snapshot(5, 12)));
        assert!(conn.lock().is_broken());
        assert!(matches!(conn.lock().take_broken(), Some(Broken::Behind)));
    }
}

#[path = "conn/change_tests.rs"]
mod change;
