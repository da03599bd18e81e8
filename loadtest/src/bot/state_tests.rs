//! What messages of the server do to a bot, and a bot against a real socket.

use std::time::{Duration, Instant};

use tenure_shared::{
    Generation, SeatId,
    delta::OpsWriter,
    msgpack::uint,
    wire::{ClientMessages, Space, TableRow, Welcome, table_hash, write_frame, write_tail},
};

use super::{super::watch::Watch, *};

const PERIOD: Duration = Duration::from_millis(100);

fn table() -> Vec<TableRow> {
    let row = |space, number, name: &str| TableRow { space, number, name: name.to_owned(), version: 1, fields: None };
    vec![row(Space::Message, 2, "steer"), row(Space::Component, 1, "inputs")]
}

fn joined(owed: u64) -> Vec<u8> {
    let message = ServerMessage::Joined(Joined {
        id: 1,
        room: RoomId::new("arena/local/load-0").expect("valid"),
        seat: SeatId(1),
        generation: Generation(1),
        session: "first".to_owned(),
        term: Term(5),
        tick: Tick(10),
        owed: Seq(owed),
        tick_rate: 20,
        hash: table_hash(&table()),
        table: Some(table()),
    });
    let mut out = Vec::new();
    message.encode(&mut out);
    out
}

fn welcome() -> Vec<u8> {
    let player = PlayerId::new("guest:7").expect("valid");
    let (server, token) = ("n".to_owned(), Some("guest-token".to_owned()));
    let mut out = Vec::new();
    ServerMessage::Welcome(Welcome { protocol: 1, player, token, server, ping: 1, idle: 1, bytes: 4096, rate: 60 })
        .encode(&mut out);
    out
}

struct Test {
    state: State,
    stats: Stats,
    start: Instant,
}

impl Test {
    fn new() -> Self {
        let start = Instant::now();
        let wanted = ("arena".to_owned(), "local".to_owned(), "load-0".to_owned());
        let state =
            State::new(wanted, Inputs::new(Some(PERIOD), Duration::ZERO, start), false, Some(Watch::new(1, 1).of(0)));
        let stats = Stats { measuring: true, ..Stats::default() };
        Self { state, stats, start }
    }

    fn at(&mut self, ms: u64, bytes: &[u8]) -> Result<Vec<u8>, End> {
        let mut out = Vec::new();
        let now = self.start + Duration::from_millis(ms);
        self.state.receive(bytes, now, &mut self.stats, &mut out).map(|()| out)
    }

    fn seated() -> Self {
        let mut test = Self::new();
        test.state.hello(test.start);
        test.at(0, &welcome()).expect("welcome");
        test.at(0, &joined(1)).expect("joined");
        test
    }
}

fn frame(term: u64, tick: u64) -> Vec<u8> {
    let mut out = Vec::new();
    write_frame(&mut out, Term(term), Tick(tick), &[0x90]);
    out
}

fn tail(applied: u64, saved: u64, count: Option<u64>) -> Vec<u8> {
    let mut ops = Vec::new();
    if let Some(count) = count {
        let mut value = Vec::new();
        uint(&mut value, count);
        let mut writer = OpsWriter::new(&mut ops);
        writer.set(1);
        writer.component(1, &value);
        writer.finish();
    }
    let mut out = Vec::new();
    write_tail(&mut out, Seq(applied), Seq(saved), &ops);
    out
}

#[test]
fn a_bot_joins_and_later_resumes_with_its_tokens() {
    let mut test = Test::new();
    let hello = test.state.hello(test.start);
    assert_eq!(hello, [0x94, 1, 1, 0xc0, 0xc0]);
    let asked = test.at(1, &welcome()).expect("welcome");
    let wanted = Wanted { kind: "arena", region: Some("local"), name: Some("load-0"), filter: &[] };
    let request = ClientMessages::new(&asked, &Bounds::CLIENT).next().expect("one").expect("readable");
    assert_eq!(request, ClientMessage::JoinOrCreate { id: 1, wanted, options: &[0xc0] });
    test.at(2, &joined(1)).expect("joined");
    assert_eq!((test.stats.playing, test.stats.counters.joins), (1, 1));
    test.at(3, &frame(5, 11)).expect("frame");
    let mut session = Vec::new();
    ServerMessage::Session { session: "second" }.encode(&mut session);
    let ack = test.at(4, &session).expect("session");
    assert_eq!(ack, state_encoded(&ClientMessage::SessionAck { session: "second" }));
    test.state.closed(test.start + Duration::from_millis(5));

    test.state.hello(test.start);
    let asked = test.at(6, &welcome()).expect("welcome");
    let room = RoomId::new("arena/local/load-0").expect("valid");
    let (shown, first) = ((Term(5), Tick(11)), Seq(1));
    let resume =
        |resumes| ClientMessage::Resume { id: 1, room: room.clone(), session: "second", shown, first, resumes };
    assert_eq!(asked, state_encoded(&resume(2)), "counted from the number of its attachment");
    test.at(25, &joined(1)).expect("joined");
    assert_eq!((test.stats.counters.joins, test.stats.counters.resumes), (1, 1));
    assert_eq!(test.stats.resume_time.max_ms().round(), 20.0);
}

fn state_encoded(message: &ClientMessage<'_>) -> Vec<u8> {
    encoded(message)
}

#[test]
fn ticks_are_timed_and_missing_ones_counted() {
    let mut test = Test::seated();
    for (ms, tick) in [(0, 11), (50, 12), (130, 13), (280, 16)] {
        test.at(ms, &frame(5, tick)).expect("frame");
    }
    // Distances 50, 80 and 150 ms for 1, 1 and 3 ticks of 50 ms: once 30 ms late.
    assert_eq!(test.stats.counters.missed_ticks, 2);
    assert_eq!((test.stats.lateness.count(), test.stats.lateness.max_ms().round()), (3, 30.0));
    assert_eq!(test.stats.pauses.max_ms().round(), 150.0);
    test.at(300, &frame(5, 15)).expect("frame");
    assert_eq!(test.stats.counters.went_back, 1);
    // A new term may start at any tick.
    test.at(330, &frame(6, 2)).expect("frame");
    assert_eq!((test.stats.counters.went_back, test.stats.counters.missed_ticks), (1, 2));
}

#[test]
fn marks_give_latency_from_the_planned_time_and_release_inputs() {
    let mut test = Test::seated();
    let now = test.start + Duration::from_millis(250);
    test.state.inputs.plan(now, true, || (1, 1));
    while test.state.inputs.take(now).is_some() {}
    test.at(260, &[frame(5, 11), tail(2, 1, Some(2))].concat()).expect("frame and tail");
    assert_eq!(test.stats.counters.applied, 2);
    assert_eq!((test.stats.latency.count(), test.stats.latency.max_ms().round()), (2, 260.0));
    assert_eq!((test.state.inputs.first(), test.state.input_count), (2, Some(2)));
}

#[test]
fn what_breaks_the_promises_is_counted() {
    let mut test = Test::seated();
    let now = test.start + Duration::from_millis(950);
    test.state.inputs.plan(now, false, || (1, 1));
    while test.state.inputs.take(now).is_some() {}
    test.at(960, &tail(8, 8, None)).expect("tail");
    assert!(matches!(test.at(970, &joined(5)), Err(End::GaveUp(_))), "a saved input was wanted again");
    assert_eq!(test.stats.counters.wanted_saved, 1);
    test.at(980, &joined(1)).expect("a new seat");
    assert_eq!((test.stats.counters.seats_lost, test.state.inputs.last()), (1, 0));
    test.at(990, &[0x91, 0xc1]).expect("the connection goes on");
    assert_eq!(test.stats.counters.malformed, 1);
}

#[test]
fn refusals_decide_what_a_bot_does() {
    let refuse = |code, retry_after| {
        let mut test = Test::new();
        test.state.hello(test.start);
        let mut error = Vec::new();
        ServerMessage::Error { id: 1, code, message: "", retry_after }.encode(&mut error);
        test.at(1, &error).expect_err("refused")
    };
    assert_eq!(refuse("limit", Some(70)), End::Again(Duration::from_millis(70)));
    assert_eq!(refuse("room_full", None), End::GaveUp("room_full".to_owned()));
    assert!(matches!(refuse("unknown_kind", None), End::Fatal(_)));
}

#[test]
fn a_move_is_made_when_the_server_wants_it() {
    let mut moved = Vec::new();
    ServerMessage::Move { urls: vec![], after: 40 }.encode(&mut moved);
    let mut test = Test::seated();
    test.at(1, &moved).expect("the connection goes on");
    assert_eq!(test.state.moving, Some(test.start + Duration::from_millis(41)));
    test.state.hello(test.start);
    assert_eq!(test.state.moving, None);
}

#[test]
fn the_pause_of_a_change_of_owners_is_what_it_takes_beyond_a_tick() {
    let mut test = Test::seated();
    for (ms, term, tick) in [(0, 5, 11), (50, 5, 12), (180, 7, 13), (230, 7, 14)] {
        test.at(ms, &frame(term, tick)).expect("frame");
    }
    let seen: Vec<_> = test.stats.switches.iter().map(|switch| (switch.term, switch.beyond.as_millis())).collect();
    assert_eq!(seen, [(7, 80)]);
    // On another connection, which the server asked for, it is no change of owners.
    test.state.hello(test.start);
    test.state.noted.moved = true;
    test.at(240, &joined(1)).expect("joined");
    test.at(300, &frame(8, 15)).expect("frame");
    test.at(350, &frame(8, 16)).expect("frame");
    assert_eq!((test.stats.counters.moves, test.stats.counters.resumes, test.stats.switches.len()), (1, 0, 1));
    assert_eq!((test.stats.moved.count(), test.stats.moved.max_ms().round()), (1, 20.0));
}
