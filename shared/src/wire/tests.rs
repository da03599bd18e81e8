//! Every message there and back; no bytes make the decoders panic.

use proptest::prelude::*;

use super::*;
use crate::{limits::MAX_SAFE_INTEGER, msgpack::Bounds};

/// A payload: any few values in an array.
fn payload() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<i64>(), 0..5).prop_map(|all| {
        let mut out = Vec::new();
        crate::msgpack::array_head(&mut out, all.len());
        all.iter().for_each(|n| crate::msgpack::int(&mut out, *n));
        out
    })
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..200_u64, 0..=MAX_SAFE_INTEGER, Just(MAX_SAFE_INTEGER)]
}

fn room() -> impl Strategy<Value = RoomId> {
    "[a-z]{1,8}/[a-z]{1,4}/[a-z0-9_-]{1,20}".prop_map(|text| RoomId::new(&text).expect("valid"))
}

/// What a client message is made of: every field that any kind has.
#[derive(Debug, Clone)]
struct Parts {
    numbers: (u64, u64, u64),
    id: u32,
    kind: u16,
    room: RoomId,
    words: (String, Option<String>, Option<String>),
    hash: Option<u64>,
    payload: Vec<u8>,
}

prop_compose! {
    fn parts()(
        numbers in (1..=MAX_SAFE_INTEGER, number(), number()),
        id in 1..=u32::MAX,
        kind in any::<u16>(),
        room in room(),
        words in ("[a-zA-Z0-9.é]{0,30}", prop::option::of("[a-z]{0,20}"), prop::option::of("\\PC{0,20}")),
        hash in any::<Option<u64>>(),
        payload in payload(),
    ) -> Parts {
        Parts { numbers, id, kind, room, words, hash, payload }
    }
}

fn client_messages(p: &Parts) -> Vec<ClientMessage<'_>> {
    let (word, region, name) = (p.words.0.as_str(), p.words.1.as_deref(), p.words.2.as_deref());
    let filter = if p.hash.is_some() { p.payload.as_slice() } else { &[] };
    let wanted = || Wanted { kind: word, region, name, filter };
    let (id, kind, payload, options) = (p.id, p.kind, p.payload.as_slice(), p.payload.as_slice());
    let (seq, shown) = (Seq(p.numbers.0), (Term(p.numbers.1), Tick(p.numbers.2)));
    vec![
        ClientMessage::Hello { protocol: id, token: region, table: p.hash },
        ClientMessage::JoinOrCreate { id, wanted: wanted(), options },
        ClientMessage::Create { id, wanted: wanted(), options },
        ClientMessage::Join { id, room: p.room.clone(), options },
        ClientMessage::Resume {
            id,
            room: p.room.clone(),
            session: word,
            shown,
            first: seq,
            resumes: p.hash.map_or(0, |_| id),
        },
        ClientMessage::Leave { id },
        ClientMessage::Message { seq, kind, payload },
        ClientMessage::Request { seq, id, kind, payload },
        ClientMessage::Ping { id },
        ClientMessage::SessionAck { session: word },
        ClientMessage::Resync,
        ClientMessage::Table { hash: 0xff00_0000_0000_0001 },
        ClientMessage::Rooms {
            id,
            kind: region,
            region: name,
            filter,
            open: p.hash.is_some(),
            after: p.hash.map(|_| p.room.clone()),
            limit: id,
        },
    ]
}

fn server_messages(p: &Parts) -> Vec<ServerMessage<'_>> {
    let word = p.words.0.as_str();
    let (id, kind, payload, ops) = (p.id, p.kind, p.payload.as_slice(), p.payload.as_slice());
    let (term, tick, seq) = (Term(p.numbers.1), Tick(p.numbers.2), Seq(p.numbers.0));
    let row = |number| TableRow {
        space: Space::Event,
        number,
        name: "arena.coin".to_owned(),
        version: p.id,
        fields: p.words.1.clone().map(|field| vec![field, "y".to_owned()]),
    };
    let amount = (p.numbers.1 as i64, -(p.numbers.2 as i64));
    vec![
        ServerMessage::Welcome(Welcome {
            protocol: 1,
            player: PlayerId::new("guest:1").expect("valid"),
            token: p.words.2.clone(),
            server: word.to_owned(),
            ping: id,
            idle: 2,
            bytes: 3,
            rate: 4,
        }),
        ServerMessage::Joined(Joined {
            id,
            room: p.room.clone(),
            seat: SeatId(id),
            generation: Generation(id),
            session: word.to_owned(),
            term,
            tick,
            owed: seq,
            tick_rate: 20,
            hash: p.hash.unwrap_or(0),
            table: p.hash.map(|_| vec![row(0), row(kind)]),
        }),
        ServerMessage::Error { id, code: "limit", message: word, retry_after: p.hash.map(|h| h as u32) },
        ServerMessage::Left { id },
        ServerMessage::Frame { term, tick, ops },
        ServerMessage::Tail { applied: seq, saved: Seq(p.numbers.2), ops },
        ServerMessage::Snapshot { term, tick, ops },
        ServerMessage::Message { kind, payload },
        ServerMessage::Reply { id, payload },
        ServerMessage::Pong { id, time: p.numbers.1 },
        ServerMessage::Move { urls: p.words.1.iter().map(String::as_str).collect(), after: id },
        ServerMessage::RolledBack { term, tick },
        ServerMessage::Session { session: word },
        ServerMessage::Granted(Granted {
            source: "daily-gold".to_owned(),
            scheduled_for: p.hash.map(|h| h >> 11),
            grants: vec![("gold".to_owned(), amount.0), ("gems".to_owned(), amount.1)],
            balances: vec![],
        }),
        ServerMessage::Refused { seq, code: "bad_payload", message: word },
        ServerMessage::Quiet { term, tick },
        ServerMessage::Rooms {
            id,
            rooms: vec![ListedRoom { room: p.room.clone(), seats: id, max_seats: 2, locked: true, metadata: payload }],
            next: p.hash.map(|_| p.room.clone()),
        },
        ServerMessage::Renewed {
            seat: SeatId(id),
            tick_rate: 20,
            hash: p.hash.unwrap_or(0),
            table: p.hash.map(|_| vec![row(0), row(kind)]),
        },
    ]
}

proptest! {
    #[test]
    fn client_messages_come_back(p in parts()) {
        let all = client_messages(&p);
        let mut bytes = Vec::new();
        all.iter().for_each(|m| m.encode(&mut bytes));
        let back: Result<Vec<_>, _> = ClientMessages::new(&bytes, &Bounds::CLIENT).collect();
        prop_assert_eq!(back.expect("readable"), all);
    }

    #[test]
    fn server_messages_come_back(p in parts()) {
        let all = server_messages(&p);
        let mut bytes = Vec::new();
        all.iter().for_each(|m| m.encode(&mut bytes));
        let back: Result<Vec<_>, _> = ServerMessages::new(&bytes, &Bounds::SERVER).collect();
        prop_assert_eq!(back.expect("readable"), all);
    }

    #[test]
    fn mutated_messages_are_survived(
        p in parts(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
    ) {
        for server in [false, true] {
            let mut bytes = Vec::new();
            match server {
                false => client_messages(&p).iter().for_each(|m| m.encode(&mut bytes)),
                true => server_messages(&p).iter().for_each(|m| m.encode(&mut bytes)),
            }
            for (at, byte) in &changes {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            bytes.truncate(cut.index(bytes.len()) + 1);
            survive(&bytes)?;
        }
    }

    #[test]
    fn noise_is_survived(kind in 0_u8..20, bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        survive(&bytes)?;
        // With a plausible start, so that fields are reached.
        for fields in 1..12 {
            survive(&[&[0x90 | fields, kind], bytes.as_slice()].concat())?;
        }
    }
}

/// Decodes as both sides: an error ends the iteration and points into the bytes.
fn survive(bytes: &[u8]) -> Result<(), TestCaseError> {
    let client = ClientMessages::new(bytes, &Bounds::CLIENT).map(|m| m.map(drop)).collect::<Vec<_>>();
    let server = ServerMessages::new(bytes, &Bounds::SERVER).map(|m| m.map(drop)).collect::<Vec<_>>();
    for outcome in [client, server] {
        let errors = outcome.iter().filter_map(|m| m.as_ref().err()).collect::<Vec<_>>();
        prop_assert!(errors.len() <= 1, "went on after an error");
        for error in errors {
            prop_assert!(error.at <= bytes.len(), "{} of {}", error, bytes.len());
        }
        prop_assert!(outcome.len() <= bytes.len());
    }
    Ok(())
}

fn client_error(bytes: &[u8]) -> String {
    let found = ClientMessages::new(bytes, &Bounds::CLIENT).find_map(Result::err);
    found.expect("refused").to_string()
}

#[test]
fn errors_name_message_and_field() {
    assert_eq!(client_error(&[0x94, 7, 0, 1, 0xc0]), "byte 2, message.seq: expected a number from 1");
    assert_eq!(client_error(&[0x91, 99]), "byte 0, message.kind: 99 is no kind of message");
    assert_eq!(client_error(&[0x93, 9, 1, 1]), "byte 2, ping.array: 3 elements, expected 2");
    assert_eq!(client_error(&[0x92, 9, 0xa1, b'x']), "byte 2, ping.id: expected a number of 32 bits, found text");
    assert_eq!(client_error(&[0x90]), "byte 0, message.array: 0 elements, expected 1");
    assert_eq!(client_error(&[0x92, 6, 0]), "byte 2, leave.id: expected a number from 1");
    assert_eq!(client_error(&[0xc0]), "byte 0, message.array: expected an array, found nil");
    let second = client_error(&[0x91, 11, 0x92, 9, 0xc0]);
    assert_eq!(second, "byte 4, ping.id: expected a number of 32 bits, found nil");
}

#[test]
fn hot_messages_are_as_small_as_documented() {
    let mut out = Vec::new();
    write_tail(&mut out, Seq(5), Seq(4), &[]);
    assert_eq!(out, [0x94, 6, 5, 4, 0x90]);
    out.clear();
    write_frame(&mut out, Term(1), Tick(2), &[0x90]);
    write_quiet(&mut out, Term(1), Tick(3));
    assert_eq!(out, [0x94, 5, 1, 2, 0x90, 0x93, 16, 1, 3]);
}

#[test]
fn the_table_hash_is_the_hash_of_its_bytes() {
    let row = TableRow { space: Space::Message, number: 1, name: "steer".into(), version: 1, fields: None };
    let bytes = table_bytes(std::slice::from_ref(&row));
    assert_eq!(bytes, [&[0x91, 0x95, 2, 1, 0xa5][..], b"steer", &[1, 0xc0]].concat());
    assert_eq!(table_hash(&[row]), xxhash_rust::xxh3::xxh3_64(&bytes));
}
