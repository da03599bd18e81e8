//! The cases behind `golden.json`.

use tenure_shared::{
    Generation, PlayerId, RoomId, SeatId, Seq, Term, Tick,
    delta::OpsWriter,
    limits::MAX_SAFE_INTEGER,
    msgpack::{int, text, uint},
    wire::{ClientMessage, Granted, Joined, ListedRoom, ServerMessage, Space, TableRow, Wanted, Welcome, table_hash},
};

const TERM: Term = Term(1_764_446_400_123_456);

fn room() -> RoomId {
    RoomId::new("arena/eu/k3").expect("valid")
}

/// `[dx, dy]` of a steer message.
const STEER: &[u8] = &[0x92, 0x05, 0xfd];

/// {"level": 3, "mode": "duel"}
const FILTER: &[u8] =
    &[0x82, 0xa5, b'l', b'e', b'v', b'e', b'l', 3, 0xa4, b'm', b'o', b'd', b'e', 0xa4, b'd', b'u', b'e', b'l'];

pub(crate) fn client_messages() -> Vec<(&'static str, ClientMessage<'static>)> {
    let wanted = |region, name| Wanted { kind: "arena", region, name, filter: &[] };
    let (largest, session) = (MAX_SAFE_INTEGER, "k3.s1.2f9a");
    vec![
        ("hello", ClientMessage::Hello { protocol: 1, token: None, table: None }),
        (
            "hello with token and table",
            ClientMessage::Hello {
                protocol: 1,
                token: Some("eyJhbGciOiJIUzI1NiJ9.e30.c2ln"),
                table: Some(0x0102_0304_0506_0708),
            },
        ),
        ("join_or_create", ClientMessage::JoinOrCreate { id: 1, wanted: wanted(None, None), options: &[0xc0] }),
        (
            "join_or_create by name",
            ClientMessage::JoinOrCreate {
                id: 2,
                wanted: wanted(Some("eu"), Some("k3")),
                options: &[0x81, 0xa4, b'n', b'a', b'm', b'e', 0xa3, b'Z', 0xc3, 0xa9],
            },
        ),
        ("create", ClientMessage::Create { id: 3, wanted: wanted(Some("eu"), None), options: &[0x90] }),
        (
            "join_or_create with a filter",
            ClientMessage::JoinOrCreate {
                id: 7,
                wanted: Wanted { filter: FILTER, ..wanted(None, None) },
                options: &[0xc0],
            },
        ),
        (
            "create with a filter",
            ClientMessage::Create { id: 8, wanted: Wanted { filter: FILTER, ..wanted(None, None) }, options: &[0xc0] },
        ),
        (
            "rooms",
            ClientMessage::Rooms { id: 9, kind: None, region: None, filter: &[], open: false, after: None, limit: 0 },
        ),
        (
            "rooms with a filter, the second page",
            ClientMessage::Rooms {
                id: 10,
                kind: Some("arena"),
                region: Some("eu"),
                filter: FILTER,
                open: true,
                after: Some(room()),
                limit: 50,
            },
        ),
        ("join", ClientMessage::Join { id: 200, room: room(), options: &[0xc0] }),
        (
            "resume",
            ClientMessage::Resume {
                id: 70_000,
                room: room(),
                session,
                shown: (TERM, Tick(90_000)),
                first: Seq(17),
                resumes: 3,
            },
        ),
        (
            "resume of a client that does not count",
            ClientMessage::Resume {
                id: 70_000,
                room: room(),
                session,
                shown: (TERM, Tick(90_000)),
                first: Seq(17),
                resumes: 0,
            },
        ),
        (
            "resume with the largest numbers",
            ClientMessage::Resume {
                id: u32::MAX,
                room: room(),
                session,
                shown: (Term(largest), Tick(largest)),
                first: Seq(largest),
                resumes: u32::MAX,
            },
        ),
        ("leave", ClientMessage::Leave { id: 4 }),
        ("message", ClientMessage::Message { seq: Seq(1), kind: 0, payload: STEER }),
        ("message with a long number", ClientMessage::Message { seq: Seq(largest), kind: 65_535, payload: &[0xc3] }),
        ("request", ClientMessage::Request { seq: Seq(2), id: 5, kind: 3, payload: &[0x91, 0xa3, b'h', b'a', b't'] }),
        ("ping", ClientMessage::Ping { id: 6 }),
        ("session_ack", ClientMessage::SessionAck { session }),
        ("resync", ClientMessage::Resync),
        ("table", ClientMessage::Table { hash: table_hash(&rows()) }),
    ]
}

fn rows() -> Vec<TableRow> {
    let row = |space, number, name: &str, fields: Option<&[&str]>| TableRow {
        space,
        number,
        name: name.to_owned(),
        version: 1,
        fields: fields.map(|all| all.iter().map(|f| (*f).to_owned()).collect()),
    };
    vec![
        row(Space::Component, 0, "position", Some(&["x", "y"])),
        // Names are data, never object keys.
        row(Space::Component, 1, "__proto__", None),
        row(Space::Resource, 0, "chest", Some(&["due", "constructor"])),
        row(Space::Message, 0, "steer", Some(&["dx", "dy"])),
        row(Space::Request, 0, "buy", Some(&["item"])),
        row(Space::Event, 0, "said", Some(&[])),
    ]
}

fn joined(table: Option<Vec<TableRow>>) -> ServerMessage<'static> {
    ServerMessage::Joined(Joined {
        id: 1,
        room: room(),
        seat: SeatId(7),
        generation: Generation(2),
        session: "k3.s7.77aa".to_owned(),
        term: TERM,
        tick: Tick(4_001),
        owed: Seq(1),
        tick_rate: 20,
        hash: table_hash(&rows()),
        table,
    })
}

fn renewed(table: Option<Vec<TableRow>>) -> ServerMessage<'static> {
    ServerMessage::Renewed { seat: SeatId(8), tick_rate: 10, hash: table_hash(&rows()), table }
}

fn listed(metadata: &'static [u8]) -> ListedRoom<'static> {
    ListedRoom { room: room(), seats: 3, max_seats: 50, locked: metadata.len() > 1, metadata }
}

pub(crate) fn server_messages() -> Vec<(&'static str, ServerMessage<'static>)> {
    let leaked = |bytes: Vec<u8>| -> &'static [u8] { bytes.leak() };
    let player = PlayerId::new("guest:0196f0d2-5c1b-7a53-9f0e-2d6a0f6f3f10").expect("valid");
    let welcome = |token: Option<&str>| {
        let token = token.map(str::to_owned);
        let server = "node-1".to_owned();
        let player = player.clone();
        ServerMessage::Welcome(Welcome {
            protocol: 1,
            player,
            token,
            server,
            ping: 10_000,
            idle: 25_000,
            bytes: 4096,
            rate: 60,
        })
    };
    let amounts = |all: &[(&str, i64)]| all.iter().map(|(c, n)| ((*c).to_owned(), *n)).collect::<Vec<_>>();
    let largest = MAX_SAFE_INTEGER;
    vec![
        ("welcome", welcome(Some("guest.token"))),
        ("welcome without token", welcome(None)),
        ("joined", joined(Some(rows()))),
        ("joined with a known table", joined(None)),
        (
            "error",
            ServerMessage::Error { id: 1, code: "room_full", message: "all 50 seats are taken", retry_after: None },
        ),
        ("error with retry", ServerMessage::Error { id: 0, code: "limit", message: "later", retry_after: Some(1500) }),
        ("left", ServerMessage::Left { id: 4 }),
        ("frame", ServerMessage::Frame { term: TERM, tick: Tick(4_002), ops: leaked(moves()) }),
        ("frame without operations", ServerMessage::Frame { term: TERM, tick: Tick(4_003), ops: &[0x90] }),
        ("tail", ServerMessage::Tail { applied: Seq(17), saved: Seq(12), ops: leaked(private()) }),
        ("tail without operations", ServerMessage::Tail { applied: Seq(0), saved: Seq(0), ops: &[0x90] }),
        ("snapshot", ServerMessage::Snapshot { term: Term(largest), tick: Tick(largest), ops: leaked(start()) }),
        ("message", ServerMessage::Message { kind: 0, payload: &[0x92, 0xa2, b'h', b'i', 0xca, 0x3f, 0xc0, 0, 0] }),
        ("message with 64-bit numbers", ServerMessage::Message { kind: 1, payload: leaked(wide()) }),
        ("reply", ServerMessage::Reply { id: 5, payload: &[0xc2] }),
        ("pong", ServerMessage::Pong { id: 6, time: 1_764_446_400_123 }),
        ("move", ServerMessage::Move { urls: vec!["wss://a.example/ws", "wss://b.example/ws"], after: 750 }),
        ("move to the same address", ServerMessage::Move { urls: vec![], after: 0 }),
        ("rolled_back", ServerMessage::RolledBack { term: TERM, tick: Tick(3_900) }),
        ("session", ServerMessage::Session { session: "k3.s7.88bb" }),
        (
            "granted",
            ServerMessage::Granted(Granted {
                source: "arena-chest".to_owned(),
                scheduled_for: Some(1_764_446_400_000),
                grants: amounts(&[("gold", 100), ("gems", -5)]),
                balances: amounts(&[("gold", largest as i64), ("gems", -(largest as i64))]),
            }),
        ),
        (
            "granted by a job",
            ServerMessage::Granted(Granted {
                source: "shop".to_owned(),
                scheduled_for: None,
                grants: vec![],
                balances: vec![],
            }),
        ),
        ("refused", ServerMessage::Refused { seq: Seq(18), code: "bad_payload", message: "byte 1: expected a number" }),
        ("heartbeat frame", ServerMessage::Quiet { term: TERM, tick: Tick(4_020) }),
        ("renewed", renewed(Some(rows()))),
        ("renewed, the same table", renewed(None)),
        ("rooms", ServerMessage::Rooms { id: 9, rooms: vec![listed(&[0xc0]), listed(FILTER)], next: Some(room()) }),
        ("rooms, none", ServerMessage::Rooms { id: 10, rooms: vec![], next: None }),
    ]
}

/// Integers that JavaScript cannot hold as numbers (docs/invariants.md C58).
fn wide() -> Vec<u8> {
    let mut out = vec![0x93];
    uint(&mut out, 9_007_199_254_740_993);
    uint(&mut out, u64::MAX);
    int(&mut out, i64::MIN);
    out
}

fn ops(write: impl FnOnce(&mut OpsWriter<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = OpsWriter::new(&mut out);
    write(&mut writer);
    writer.finish();
    out
}

fn position(x: i64, y: i64) -> Vec<u8> {
    let mut out = vec![0x92];
    int(&mut out, x);
    int(&mut out, y);
    out
}

fn name(of: &str) -> Vec<u8> {
    let mut out = Vec::new();
    text(&mut out, of);
    out
}

fn start() -> Vec<u8> {
    ops(|w| {
        w.spawn(1);
        w.component(0, &position(10, -10));
        w.component(1, &name("__proto__"));
        w.spawn(MAX_SAFE_INTEGER);
        w.component(0, &position(300, 70_000));
        w.resource(0, &[0x92, 0x1e, 0xc0]);
    })
}

fn moves() -> Vec<u8> {
    ops(|w| {
        w.set(1);
        w.component(0, &position(11, -10));
        w.despawn(MAX_SAFE_INTEGER);
        w.remove(1, [1, 2]);
        w.resource(0, &[0x92, 0x1d, 0xc0]);
        w.remove_resource(9);
    })
}

fn private() -> Vec<u8> {
    ops(|w| {
        w.set(1);
        w.component(2, &[0xcd, 0x01, 0x00]);
    })
}

/// Operations in steps, as frames and tails bring them.
pub(crate) fn views() -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let crowd = ops(|w| {
        for entity in 1..=20 {
            w.spawn(entity);
            (0..8).for_each(|c| w.component(c, &position(entity as i64, i64::from(c))));
        }
    });
    let thinned = ops(|w| {
        (1..=20).step_by(2).for_each(|entity| w.despawn(entity));
        w.remove(2, 0..8);
        w.remove(4, [0]);
    });
    let unknown = ops(|w| {
        w.despawn(5);
        w.remove(6, [1]);
        w.remove_resource(3);
        w.set(7);
        w.component(1, &[0xc0]);
    });
    let replaced = ops(|w| {
        w.spawn(1);
        w.component(0, &[0x01]);
        w.component(0, &[0x02]);
        w.despawn(1);
        w.spawn(2);
        w.resource(1, &[0x01]);
        w.resource(1, &[0xcf, 0, 0x20, 0, 0, 0, 0, 0, 1]);
    });
    vec![
        ("nothing", vec![ops(|_| ())]),
        ("start", vec![start()]),
        ("start, a frame and its tail", vec![start(), moves(), private()]),
        ("long operations", vec![crowd.clone()]),
        ("long operations, then half leave", vec![crowd, thinned]),
        ("what the client does not know", vec![unknown]),
        ("in order within one frame", vec![replaced]),
    ]
}

/// Bytes that neither side may accept (docs/invariants.md C58 to C62).
pub(crate) fn refused() -> Vec<(&'static str, Vec<u8>)> {
    let kind_99 = vec![0x92, 99, 0];
    let deep = [vec![0x94, 7, 1, 0], vec![0x91; 100], vec![0xc0]].concat();
    vec![
        ("empty array", vec![0x90]),
        ("not an array", vec![0xc0]),
        ("a map", vec![0x81, 0x01, 0x02]),
        ("unknown kind", kind_99),
        ("kind as text", vec![0x92, 0xa1, b'9', 1]),
        ("a field too few", vec![0x91, 9]),
        ("a field too many", vec![0x94, 9, 1, 1, 1]),
        ("cut", vec![0x92, 9]),
        ("an array of four billion", vec![0xdd, 0xff, 0xff, 0xff, 0xff]),
        ("a payload of four billion", vec![0x94, 7, 1, 0, 0xdd, 0xff, 0xff, 0xff, 0xff]),
        ("bytes of four billion", vec![0x94, 7, 1, 0, 0xc6, 0xff, 0xff, 0xff, 0xff]),
        ("an ext type", vec![0x94, 7, 1, 0, 0xd4, 1, 1]),
        ("0xc1", vec![0x94, 7, 1, 0, 0xc1]),
        ("text that is not UTF-8", vec![0x93, 4, 1, 0xa2, 0xc3, 0x28]),
        ("a number above 2^53 - 1", vec![0x93, 12, 0xcf, 0, 0x20, 0, 0, 0, 0, 0, 0, 1]),
        ("a negative number", vec![0x92, 4, 0xff]),
        ("too deep", deep),
        ("a good message, then half of one", vec![0x91, 11, 0x92, 9]),
    ]
}
