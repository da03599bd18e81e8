//! What room nodes say to each other.

use bytes::Bytes;
use tenure_shared::{
    IncarnationId, ShardId, Term, limits,
    wire::{Error, Fault},
};

use super::{ADDRESS_BYTES, Fields, LENGTH, Out, PEER_BYTES, Packet, Packets, TEXT_BYTES, TooLong};
use crate::link::{
    Attempt, Handoff, KindVersions, OFFER_NAMES, PACKAGE_ROOMS, Package, PackedRoom, PeerBody, PeerMessage,
    RefuseReason, Versions,
};

/// Longest incarnation in a message, bytes; its own rule is stricter.
const INCARNATION_BYTES: usize = 256;
/// What a room takes in a package besides its id, bytes.
const ROOM_COST: usize = 64;
const _: () = assert!(PACKAGE_ROOMS * (limits::ROOM_ID_BYTES + ROOM_COST) < PEER_BYTES);
/// Fields of every message: sender, where answers go, receiver.
const HEAD: usize = 3;
/// Fields that name an attempt.
const ATTEMPT: usize = 3;

pub(in super::super) fn write_to_peer(message: &PeerMessage) -> Result<Packets, TooLong> {
    let packet = packet(message)?;
    match packet.len - LENGTH {
        ..=PEER_BYTES => Ok(Packets::from_elem(packet, 1)),
        // Nobody would read it: the link would end.
        longer => Err(TooLong(longer)),
    }
}

fn packet(message: &PeerMessage) -> Result<Packet, TooLong> {
    let begin = |number, fields| {
        let mut out = Out::new(number, HEAD + fields);
        out.text(message.from.as_str(), INCARNATION_BYTES);
        out.text(&message.reply, ADDRESS_BYTES);
        out.text(message.to.as_str(), INCARNATION_BYTES);
        out
    };
    let (attempt, handoff) = match &message.body {
        PeerBody::Handoff(attempt, handoff) => (attempt, handoff),
        PeerBody::Other(name, bytes) => {
            let mut out = begin(1, 2);
            out.text(name, TEXT_BYTES);
            out.bytes(bytes);
            return out.done();
        }
    };
    let step = |number, fields| {
        let mut out = begin(number, ATTEMPT + fields);
        out.uint(attempt.shard.0);
        out.uint(attempt.term.0);
        out.uint(attempt.number);
        out
    };
    let out = match handoff {
        Handoff::Offer { versions, rooms, bytes } => {
            let mut out = step(2, 3);
            write_versions(&mut out, versions);
            out.uint(*rooms);
            out.uint(*bytes);
            out
        }
        Handoff::Ready => step(3, 0),
        Handoff::Refuse { reason, text } => {
            let mut out = step(4, 2);
            out.uint(number_of(*reason));
            out.text(text, TEXT_BYTES);
            out
        }
        Handoff::Package(package) => {
            let mut out = step(5, 1);
            out.array(package.rooms.len());
            for room in &package.rooms {
                out.array(4);
                out.text(room.room.as_str(), limits::ROOM_ID_BYTES);
                out.uint(room.version);
                out.hash(room.hash);
                out.uint(room.waited);
            }
            out
        }
        Handoff::Prepared { checksum } => {
            let mut out = step(6, 1);
            out.hash(*checksum);
            out
        }
        Handoff::Transferred { term, checksum } => {
            let mut out = step(7, 2);
            out.uint(term.0);
            out.hash(*checksum);
            out
        }
        Handoff::Abort => step(8, 0),
    };
    out.done()
}

fn write_versions(out: &mut Out, versions: &Versions) {
    out.array(versions.0.len());
    for kind in &versions.0 {
        out.array(3);
        out.text(&kind.kind, TEXT_BYTES);
        for names in [&kind.components, &kind.resources] {
            out.array(names.len());
            for (name, version) in names {
                out.array(2);
                out.text(name, TEXT_BYTES);
                out.uint(*version);
            }
        }
    }
}

/// Reads one packet, without its length; `None` is a ping.
pub(in super::super) fn read_to_peer(packet: &Bytes) -> Result<Option<PeerMessage>, Error> {
    let (mut f, number) = Fields::open(packet)?;
    if number == 0 {
        f.expect("ping", 0)?;
        f.end()?;
        return Ok(None);
    }
    let (message, fields) = match number {
        1 => ("other", 2),
        2 => ("offer", ATTEMPT + 3),
        3 => ("ready", ATTEMPT),
        4 => ("refuse", ATTEMPT + 2),
        5 => ("package", ATTEMPT + 1),
        6 => ("prepared", ATTEMPT + 1),
        7 => ("transferred", ATTEMPT + 2),
        8 => ("abort", ATTEMPT),
        other => return Err(f.unknown(other)),
    };
    f.expect(message, HEAD + fields)?;
    let from = incarnation(&mut f, "from")?;
    let reply = f.text("reply", ADDRESS_BYTES)?.into();
    let to = incarnation(&mut f, "to")?;
    let body = if number == 1 {
        PeerBody::Other(f.text("name", TEXT_BYTES)?.to_owned(), f.bytes("bytes")?)
    } else {
        let attempt = Attempt { shard: ShardId(f.u32("shard")?), term: f.term()?, number: f.u64("attempt")? };
        PeerBody::Handoff(attempt, read_step(&mut f, number)?)
    };
    f.end()?;
    Ok(Some(PeerMessage { from, reply, to, body }))
}

fn read_step(f: &mut Fields<'_>, number: u32) -> Result<Handoff, Error> {
    Ok(match number {
        2 => Handoff::Offer { versions: read_versions(f)?, rooms: f.u32("rooms")?, bytes: f.u64("bytes")? },
        3 => Handoff::Ready,
        4 => Handoff::Refuse { reason: read_reason(f)?, text: f.text("text", TEXT_BYTES)?.to_owned() },
        5 => {
            let count = f.list("rooms", PACKAGE_ROOMS)?;
            let mut rooms = Vec::with_capacity(count);
            for _ in 0..count {
                f.tuple("rooms", 4)?;
                let (room, version) = (f.room()?, f.u64("version")?);
                rooms.push(PackedRoom { room, version, hash: f.hash("hash")?, waited: f.u32("waited")? });
            }
            Handoff::Package(Package { rooms })
        }
        6 => Handoff::Prepared { checksum: f.hash("checksum")? },
        7 => Handoff::Transferred { term: Term(f.u64("new")?), checksum: f.hash("checksum")? },
        _ => Handoff::Abort,
    })
}

fn incarnation(f: &mut Fields<'_>, field: &'static str) -> Result<IncarnationId, Error> {
    let text = f.text(field, INCARNATION_BYTES)?;
    IncarnationId::new(text).map_err(|error| f.fault(field, error))
}

fn read_versions(f: &mut Fields<'_>) -> Result<Versions, Error> {
    let count = f.list("kinds", OFFER_NAMES)?;
    let mut kinds = Vec::new();
    for _ in 0..count {
        f.tuple("kinds", 3)?;
        let kind = f.text("kind", TEXT_BYTES)?.to_owned();
        kinds.push(KindVersions { kind, components: read_names(f)?, resources: read_names(f)? });
    }
    Ok(Versions(kinds))
}

fn read_names(f: &mut Fields<'_>) -> Result<Vec<(String, u32)>, Error> {
    let count = f.list("names", OFFER_NAMES)?;
    let mut names = Vec::new();
    for _ in 0..count {
        f.tuple("names", 2)?;
        names.push((f.text("name", TEXT_BYTES)?.to_owned(), f.u32("version")?));
    }
    Ok(names)
}

const fn number_of(reason: RefuseReason) -> u8 {
    match reason {
        RefuseReason::Draining => 0,
        RefuseReason::Unreadable => 1,
        RefuseReason::Full => 2,
        RefuseReason::NotStored => 3,
        RefuseReason::NotServing => 4,
    }
}

fn read_reason(f: &mut Fields<'_>) -> Result<RefuseReason, Error> {
    Ok(match f.u8("reason")? {
        0 => RefuseReason::Draining,
        1 => RefuseReason::Unreadable,
        2 => RefuseReason::Full,
        3 => RefuseReason::NotStored,
        4 => RefuseReason::NotServing,
        _ => return Err(f.fault("reason", Fault::Value("0 to 4"))),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tenure_shared::RoomId;

    use super::*;

    fn every() -> Vec<PeerMessage> {
        let attempt = Attempt { shard: ShardId(17), term: Term(1_764_446_400_123_456), number: 3 };
        let names = vec![("pos".to_owned(), 1), ("hand".to_owned(), 2)];
        let kind = KindVersions { kind: "arena".to_owned(), components: names, resources: vec![] };
        let room = PackedRoom {
            room: RoomId::new("arena/eu/k3").expect("valid"),
            version: 300,
            hash: 0x0102_0304_0506_0708,
            waited: 41_000,
        };
        let steps = vec![
            Handoff::Offer { versions: Versions(vec![kind]), rooms: 12, bytes: 70_000 },
            Handoff::Ready,
            Handoff::Refuse { reason: RefuseReason::Unreadable, text: "why".to_owned() },
            Handoff::Package(Package { rooms: vec![room] }),
            Handoff::Prepared { checksum: 9 },
            Handoff::Transferred { term: Term(1_764_446_400_123_457), checksum: 9 },
            Handoff::Abort,
        ];
        let bodies = steps.into_iter().map(|step| PeerBody::Handoff(attempt, step));
        let other = PeerBody::Other("daemons".to_owned(), Bytes::from_static(&[1, 2, 3]));
        let message = |body| PeerMessage {
            from: IncarnationId::new("a#1").expect("valid"),
            reply: "127.0.0.1:7779".into(),
            to: IncarnationId::new("b#2").expect("valid"),
            body,
        };
        [other].into_iter().chain(bodies).map(message).collect()
    }

    fn bytes(message: &PeerMessage) -> Bytes {
        let packets = write_to_peer(message).expect("short");
        let all: Vec<u8> = packets.iter().flat_map(|packet| packet.segments.iter().flatten().copied()).collect();
        Bytes::from(all).slice(LENGTH..)
    }

    fn hex(bytes: &Bytes) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn what_is_written_is_read() {
        for message in every() {
            assert_eq!(read_to_peer(&bytes(&message)), Ok(Some(message)));
        }
    }

    #[test]
    fn golden_bytes_stay() {
        let path = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/link/net/codec/golden_peer.txt");
        let now: String = every().iter().map(|message| hex(&bytes(message)) + "\n").collect();
        if std::env::var_os("GOLDEN").is_some_and(|word| word == "write") {
            std::fs::write(&path, &now).expect("it can be written");
        }
        let file = std::fs::read_to_string(path).expect("golden_peer.txt");
        assert_eq!(file, now, "bytes that peers of this version know have changed: raise PROTOCOL");
    }

    #[test]
    fn bad_fields_are_named() {
        let error = |bytes: &[u8]| read_to_peer(&Bytes::copy_from_slice(bytes)).expect_err("refused").to_string();
        assert!(error(&[0x91, 0x09]).contains("number"), "{}", error(&[0x91, 0x09]));
        let mut refuse = bytes(&every()[3]).to_vec();
        let at = refuse.len() - 5;
        assert_eq!(refuse[at], 1, "the reason");
        refuse[at] = 9;
        assert!(error(&refuse).ends_with("refuse.reason: expected 0 to 4"), "{}", error(&refuse));
    }

    proptest! {
        #[test]
        fn whatever_comes_is_read_or_refused(at in 0_usize..8, cut in any::<u16>(), turns in prop::collection::vec((any::<u16>(), any::<u8>()), 0..6)) {
            let mut all = bytes(&every()[at]).to_vec();
            for (place, value) in turns {
                let place = usize::from(place) % all.len();
                all[place] = value;
            }
            all.truncate(all.len() - usize::from(cut) % all.len().min(4));
            // It may be readable by chance; a panic or a huge reservation is what must not be.
            let read = read_to_peer(&Bytes::from(all));
            prop_assert!(read.is_ok() || read.is_err());
        }
    }
}
