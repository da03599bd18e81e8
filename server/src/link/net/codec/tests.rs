//! Every message there and back, golden bytes, and no bytes that make the readers panic. `GOLDEN=write` writes `golden.json` anew.

use std::{fs, path::PathBuf, sync::Arc};

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};
use tenure_shared::{
    Generation, PlayerId, RoomId, SeatId, Seq, ShardId, Term, Tick,
    codes::{CloseCode, ErrorCode},
    wire::{Space, TableRow},
};

use super::{to_gateway::restored_parts, *};
use crate::link::{
    Attach, Attached, ConnId, Frame, FrameMember, GatewayId, Input, Mode, RestoredMember, ToGateway, ToNode,
};

/// What messages are made of.
#[derive(Clone, Debug)]
struct Parts {
    numbers: [u64; 4],
    id: u32,
    kind: u16,
    yes: bool,
    room: String,
    text: String,
    optional: Option<u32>,
    hash: Option<u64>,
    blob: Vec<u8>,
    members: Vec<(u64, u32, u32)>,
}

prop_compose! {
    fn parts()(
        numbers in prop::array::uniform4(prop_oneof![0..200_u64, any::<u64>()]),
        id in any::<u32>(),
        kind in any::<u16>(),
        yes in any::<bool>(),
        room in "[a-z]{1,8}/[a-z]{1,4}/[a-z0-9_-]{1,20}",
        text in "\\PC{0,30}",
        optional in any::<Option<u32>>(),
        hash in any::<Option<u64>>(),
        blob in prop_oneof![prop::collection::vec(any::<u8>(), 0..40), prop::collection::vec(any::<u8>(), 1_000..3_000)],
        members in prop::collection::vec((any::<u64>(), 0..20_u32, 0..20_u32), 0..20),
    ) -> Parts {
        Parts { numbers, id, kind, yes, room, text, optional, hash, blob, members }
    }
}

fn to_node(p: &Parts) -> Vec<ToNode> {
    let room = RoomId::new(&p.room).expect("valid");
    let (seat, generation, conn) = (SeatId(p.id), Generation(p.id ^ 1), ConnId(p.numbers[0]));
    let (payload, gateway) = (Bytes::from(p.blob.clone()), GatewayId(0));
    let mode = [Mode::Join, Mode::JoinOrCreate, Mode::Create][usize::from(p.kind % 3)];
    vec![
        ToNode::Find { gateway, conn, attempt: p.id, kind: p.text.clone(), region: "eu".into(), make: p.yes },
        ToNode::Ask { gateway, conn, attempt: p.id, region: p.text.clone(), within: p.id, question: payload.clone() },
        ToNode::Attach(Attach {
            gateway,
            conn,
            attempt: p.id,
            room: room.clone(),
            mode,
            player: PlayerId::new("guest:1").expect("valid"),
            options: payload.clone(),
            metadata: payload.clone(),
            seat: p.optional.map(SeatId),
            rejoin: p.yes,
            generation,
            resumes: p.id,
            first: Seq(p.numbers[1]),
            shown: (Term(p.numbers[2]), Tick(p.numbers[3])),
            table: p.hash,
        }),
        ToNode::Input(Input {
            room: room.clone(),
            seat,
            generation,
            seq: Seq(p.numbers[1]),
            request: p.optional,
            kind: p.kind,
            payload,
        }),
        ToNode::Detach { room: room.clone(), seat, generation, consented: p.yes },
        ToNode::Resync { room, seat, generation },
        ToNode::TermSeen { shard: ShardId(p.id), term: Term(p.numbers[2]) },
    ]
}

fn to_gateway(p: &Parts) -> Vec<ToGateway> {
    let room = RoomId::new(&p.room).expect("valid");
    let (seat, generation, conn) = (SeatId(p.id), Generation(p.id ^ 1), ConnId(p.numbers[0]));
    let (term, tick, owed) = (Term(p.numbers[1]), Tick(p.numbers[2]), Seq(p.numbers[3]));
    let bytes = Bytes::from(p.blob.clone());
    let row = |fields: Option<Vec<String>>| TableRow {
        space: Space::Request,
        number: p.kind,
        name: "arena.coin".to_owned(),
        version: p.id,
        fields,
    };
    let table = p.hash.map(|_| Arc::new(vec![row(None), row(Some(vec!["x".to_owned(), "y".to_owned()]))]));
    let members = p.members.iter().map(|(conn, start, more)| FrameMember {
        conn: ConnId(*conn),
        saved: owed,
        start: *start,
        end: start + more,
    });
    let frame = Frame {
        room: room.clone(),
        term,
        tick,
        body: bytes.clone(),
        tails: Bytes::from(vec![9; 40]),
        members: members.collect(),
    };
    let restored = RestoredMember { conn, seat, generation, owed, snapshot: bytes.clone() };
    vec![
        ToGateway::Found { conn, attempt: p.id, room: p.yes.then(|| room.clone()), new: p.yes },
        ToGateway::Answered { conn, attempt: p.id, answer: p.yes.then(|| bytes.clone()) },
        ToGateway::Attached(Attached {
            conn,
            attempt: p.id,
            room: room.clone(),
            seat,
            generation,
            term,
            tick,
            owed,
            tick_rate: 20,
            hash: p.hash.unwrap_or(7),
            table,
            snapshot: bytes.clone(),
            rolled_back: p.yes,
        }),
        ToGateway::Refused {
            conn,
            attempt: p.id,
            code: ErrorCode::ALL[usize::from(p.kind) % ErrorCode::ALL.len()],
            word: None,
            message: p.text.clone(),
            retry_after: p.optional,
        },
        ToGateway::Refused {
            conn,
            attempt: p.id,
            code: ErrorCode::Refused,
            word: Some("not_enough".into()),
            message: p.text.clone(),
            retry_after: None,
        },
        ToGateway::NotOwner { conn, attempt: p.id, shard: ShardId(p.id), term },
        ToGateway::Moved { shard: ShardId(p.id), term, to: p.yes.then(|| "node-2:7779".into()) },
        ToGateway::Gone { room: room.clone(), seat, generation },
        ToGateway::Frame(frame),
        ToGateway::Snapshot { conn, term, tick, bytes },
        ToGateway::Restored { room, term, tick, members: vec![restored; p.members.len()] },
        ToGateway::Left { conn },
        ToGateway::Close {
            conn,
            code: CloseCode::ALL[usize::from(p.kind) % CloseCode::ALL.len()],
            reason: p.text.clone(),
        },
    ]
}

/// As it stands on the stream.
fn joined(packet: &Packet) -> Vec<u8> {
    let all = packet.segments.concat();
    assert_eq!(all.len(), packet.len);
    assert_eq!(all[..LENGTH], ((packet.len - LENGTH) as u32).to_be_bytes());
    all
}

/// As it is read: without its length.
fn inner(packets: &Packets) -> Bytes {
    assert_eq!(packets.len(), 1);
    Bytes::from(joined(&packets[0])).slice(LENGTH..)
}

fn up(message: &ToNode) -> Bytes {
    inner(&write_to_node(message).expect("short"))
}

fn down(message: &ToGateway) -> Bytes {
    inner(&write_to_gateway(message).expect("short"))
}

proptest! {
    #[test]
    fn messages_come_back(p in parts()) {
        for message in to_node(&p) {
            prop_assert_eq!(read_to_node(&up(&message)).expect("readable"), Some(message));
        }
        for message in to_gateway(&p) {
            prop_assert_eq!(read_to_gateway(&down(&message)).expect("readable"), Some(message));
        }
    }

    #[test]
    fn mutated_messages_are_survived(
        p in parts(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        for packet in to_node(&p).iter().map(up).chain(to_gateway(&p).iter().map(down)) {
            let mut bytes = packet.to_vec();
            for (at, byte) in &changes {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            survive(&Bytes::from(bytes.clone()))?;
            bytes.truncate(cut.index(bytes.len()));
            survive(&Bytes::from(bytes))?;
        }
    }

    #[test]
    fn noise_is_survived(number in 0_u8..14, bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        survive(&Bytes::from(bytes.clone()))?;
        for fields in 1..15 {
            survive(&Bytes::from([&[0x90 | fields, number], bytes.as_slice()].concat()))?;
        }
    }
}

fn survive(bytes: &Bytes) -> Result<(), TestCaseError> {
    for error in [read_to_node(bytes).map(drop).err(), read_to_gateway(bytes).map(drop).err()].into_iter().flatten() {
        prop_assert!(error.at <= bytes.len() + 8, "{} of {}", error, bytes.len());
    }
    Ok(())
}

#[test]
fn claimed_lengths_and_deep_nesting_are_refused() {
    // C59, C60: arrays, maps, byte strings and texts of 2^32 - 1, and nesting, in every place of a message.
    let claims: [&[u8]; 6] = [
        &[0xdd, 0xff, 0xff, 0xff, 0xff],
        &[0xdf, 0xff, 0xff, 0xff, 0xff],
        &[0xc6, 0xff, 0xff, 0xff, 0xff],
        &[0xdb, 0xff, 0xff, 0xff, 0xff],
        &[0xc9, 0xff, 0xff, 0xff, 0xff, 1],
        &[0x91; 100_000],
    ];
    for claim in claims {
        assert!(read_to_node(&Bytes::copy_from_slice(claim)).is_err());
        for number in 0..14 {
            for fields in 1..15_u8 {
                for before in 0..fields {
                    let packet = [&[0x90 | fields, number], vec![1; usize::from(before)].as_slice(), claim].concat();
                    let packet = Bytes::from(packet);
                    assert!(read_to_node(&packet).is_err() && read_to_gateway(&packet).is_err());
                }
            }
        }
    }
}

#[test]
fn errors_name_message_and_field() {
    let error = |bytes: &'static [u8]| read_to_node(&Bytes::from_static(bytes)).expect_err("refused").to_string();
    assert_eq!(error(&[0x91, 99]), "byte 2, message.number: 99 is no kind of message");
    assert_eq!(error(&[0x90]), "byte 1, message.array: 0 elements, expected 1");
    assert_eq!(error(&[0x93, 6, 1, 0xc0]), "byte 3, term_seen.term: expected a number of 64 bits, found nil");
    assert_eq!(error(&[0x92, 0, 1]), "byte 2, ping.array: 2 elements, expected 1");
    assert_eq!(error(&[0x91, 0, 0]), "byte 2, ping.end: expected nothing behind the message");
    assert_eq!(error(&[]), "byte 0, message.array: the bytes end inside of a value");
    assert_eq!(read_to_gateway(&Bytes::from_static(&PING[LENGTH..])), Ok(None));
}

#[test]
fn a_tail_outside_of_the_tails_is_refused() {
    for (start, end) in [(0, 3), (2, 1), (u32::MAX, u32::MAX)] {
        let member = FrameMember { conn: ConnId(1), saved: Seq(1), start, end };
        let room = RoomId::new("a/b/c").expect("valid");
        let (body, tails) = (Bytes::new(), Bytes::from_static(b"ab"));
        let frame = Frame { room, term: Term(1), tick: Tick(1), body, tails, members: vec![member] };
        let error = read_to_gateway(&down(&ToGateway::Frame(frame))).expect_err("refused").to_string();
        assert!(error.ends_with("frame.members: expected a tail inside of the tails"), "{error}");
    }
}

#[test]
fn long_bytes_are_neither_copied_in_nor_out() {
    let body = Bytes::from(vec![5; 100_000]);
    let room = RoomId::new("a/b/c").expect("valid");
    let frame = Frame { room, term: Term(1), tick: Tick(1), body: body.clone(), tails: Bytes::new(), members: vec![] };
    let packets = write_to_gateway(&ToGateway::Frame(frame)).expect("short");
    assert!(packets[0].segments.iter().any(|segment| segment.as_ptr() == body.as_ptr()));
    let packet = inner(&packets);
    let Ok(Some(ToGateway::Frame(frame))) = read_to_gateway(&packet) else { panic!("readable") };
    let inside = packet.as_ptr_range();
    assert!(inside.contains(&frame.body.as_ptr()) && frame.body.len() == body.len());
}

#[test]
fn a_restored_room_goes_in_parts_that_fit() {
    let member = |conn: u64, bytes| RestoredMember {
        conn: ConnId(conn),
        seat: SeatId(1),
        generation: Generation(1),
        owed: Seq(1),
        snapshot: Bytes::from(vec![0; bytes]),
    };
    let members: Vec<_> = [300, 300, 5_000, 10, 10, 900].iter().zip(1..).map(|(len, at)| member(at, *len)).collect();
    let parts: Vec<Vec<u64>> =
        restored_parts(&members, 1_256).map(|part| part.iter().map(|member| member.conn.0).collect()).collect();
    assert_eq!(parts, [vec![1, 2], vec![3], vec![4, 5], vec![6]]);
    assert_eq!(restored_parts(&[], 1_000).count(), 1, "an empty one is still said");
}

#[test]
fn what_is_too_long_is_refused_or_cut() {
    let bytes = Bytes::from(vec![0; PACKET_BYTES]);
    let snapshot = ToGateway::Snapshot { conn: ConnId(1), term: Term(1), tick: Tick(1), bytes };
    assert!(write_to_gateway(&snapshot).is_err());
    let close = ToGateway::Close { conn: ConnId(1), code: CloseCode::Normal, reason: "é".repeat(200) };
    let Ok(Some(ToGateway::Close { reason, .. })) = read_to_gateway(&down(&close)) else { panic!("readable") };
    assert_eq!(reason, "é".repeat(60));
}

#[test]
fn golden_bytes_stay() {
    let p = Parts {
        numbers: [1 << 32 | 5, 1_764_446_400_123_456, 300, 12],
        id: 70_000,
        kind: 7,
        yes: true,
        room: "arena/eu/k3".to_owned(),
        text: "why".to_owned(),
        optional: Some(9),
        hash: Some(0x0102_0304_0506_0708),
        blob: vec![0x93, 1, 2, 3],
        members: vec![(1 << 32 | 5, 0, 3), (2 << 32 | 6, 3, 2)],
    };
    let hex = |bytes: &Bytes| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let name = |debug: String| debug.split(['(', ' ']).next().unwrap_or_default().to_owned();
    let rows: Vec<Value> = to_node(&p)
        .iter()
        .map(|m| json!({ "to": "node", "name": name(format!("{m:?}")), "hex": hex(&up(m)) }))
        .chain(to_gateway(&p).iter().map(|m| {
            let name = name(format!("{m:?}"));
            json!({ "to": "gateway", "name": name, "hex": hex(&down(m)) })
        }))
        .chain([json!({ "to": "both", "name": "Ping", "hex": hex(&Bytes::from_static(&PING[LENGTH..])) })])
        .collect();
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/link/net/codec/golden.json");
    if std::env::var_os("GOLDEN").is_some_and(|word| word == "write") {
        let lines = rows.iter().map(Value::to_string).collect::<Vec<_>>().join(",\n  ");
        fs::write(&path, format!("[\n  {lines}\n]\n")).expect("golden.json can be written");
    }
    let file: Vec<Value> = serde_json::from_str(&fs::read_to_string(path).expect("golden.json")).expect("JSON");
    assert_eq!(file, rows, "bytes that peers of this version know have changed: raise PROTOCOL");
    for row in &file {
        let text = row["hex"].as_str().expect("text");
        let bytes = (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex"));
        let bytes = Bytes::from_iter(bytes);
        let read = match row["to"].as_str() {
            Some("node") => read_to_node(&bytes).map(|m| format!("{m:?}")),
            _ => read_to_gateway(&bytes).map(|m| format!("{m:?}")),
        };
        assert!(read.is_ok(), "{row}: {read:?}");
    }
}
