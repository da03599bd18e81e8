//! Random events in random order: nothing panics, every seat that the node gives is kept or given back, one at a time.

use proptest::prelude::*;
use tenure_shared::{Generation, RoomId, SeatId, Seq, Term, Tick, wire::Wanted};

use super::*;
use crate::{
    config::Guests,
    gateway::auth::AuthConfig,
    link::{Mode, ToNode},
    store::Session,
};

struct World {
    rules: Rules,
    auth: Auth,
    creates: Creates,
    rng: crate::runtime::Rng,
    now: u64,
}

impl World {
    fn new() -> Self {
        let secret = [7; 32];
        Self {
            rules: Rules {
                server: "n".to_owned(),
                region: "eu".to_owned(),
                ping_ms: 1,
                idle_ms: 2,
                client_message: 3,
                rate: 4,
                form: msgpack::Bounds::CLIENT,
            },
            auth: Auth::new(&AuthConfig::default(), Guests::Always, &secret).expect("usable"),
            creates: Creates::new(6),
            rng: crate::runtime::Rng::seeded(1),
            now: 0,
        }
    }

    fn view(&self) -> View<'_> {
        View {
            rules: &self.rules,
            auth: &self.auth,
            creates: &self.creates,
            rng: &self.rng,
            gateway: GatewayId(1),
            conn: ConnId(1),
            loopback: true,
            now: Mono(self.now),
            wall: Wall(self.now / 1_000),
        }
    }
}

fn bytes(message: &ClientMessage<'_>) -> Bytes {
    let mut out = Vec::new();
    message.encode(&mut out);
    out.into()
}

fn room(n: u8) -> RoomId {
    RoomId::new(&format!("arena/eu/r{n}")).expect("id")
}

fn attached_to(room: RoomId, generation: u32, tick: u64) -> Attached {
    Attached {
        conn: ConnId(1),
        room,
        seat: SeatId(1),
        generation: Generation(generation),
        term: Term(5),
        tick: Tick(tick),
        owed: Seq(1),
        tick_rate: 20,
        hash: 0,
        table: None,
        snapshot: Bytes::new(),
        rolled_back: tick.is_multiple_of(2),
    }
}

#[derive(Clone, Debug)]
enum Event {
    Client(u8, u8),
    Found(Option<u8>),
    /// To the room that was asked for last, or to this one.
    Attached(Option<u8>, u64),
    Refused(usize),
    Left,
    Stored(u8),
    NotTaken,
    Timeout,
    Restored,
    Close,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => (0..12_u8, 0..4_u8).prop_map(|(kind, arg)| Event::Client(kind, arg)),
        2 => prop::option::of(0..3_u8).prop_map(Event::Found),
        4 => (prop::option::weighted(0.1, 0..3_u8), 0..20_u64).prop_map(|(room, tick)| Event::Attached(room, tick)),
        2 => (0..ErrorCode::ALL.len()).prop_map(Event::Refused),
        1 => Just(Event::Left),
        4 => (0..5_u8).prop_map(Event::Stored),
        1 => Just(Event::NotTaken),
        1 => Just(Event::Timeout),
        1 => Just(Event::Restored),
        1 => prop::bool::weighted(0.2).prop_map(|close| if close { Event::Close } else { Event::Restored }),
    ]
}

fn client(kind: u8, arg: u8) -> Bytes {
    let wanted = |name| Wanted { kind: "arena", region: None, name };
    let id = u32::from(arg) + 1;
    bytes(&match kind {
        0 => ClientMessage::Hello { protocol: 1, token: None, table: None },
        1 => ClientMessage::JoinOrCreate { id, wanted: wanted(None), options: &[0xc0] },
        2 => ClientMessage::JoinOrCreate { id, wanted: wanted(Some("r1")), options: &[0xc0] },
        3 => ClientMessage::Create { id, wanted: wanted(if arg > 1 { None } else { Some("r2") }), options: &[0xc0] },
        4 => ClientMessage::Join { id, room: room(arg % 3), options: &[0xc0] },
        5 => {
            let shown = (Term(5), Tick(u64::from(arg) * 5));
            ClientMessage::Resume { id, room: room(arg % 3), session: "t", shown, first: Seq(1) }
        }
        6 => ClientMessage::Leave { id },
        7 => ClientMessage::Message { seq: Seq(1), kind: 0, payload: &[0xc0] },
        8 => ClientMessage::Request { seq: Seq(2), id, kind: 0, payload: &[0xc0] },
        9 => ClientMessage::Ping { id },
        10 => ClientMessage::SessionAck { session: if arg == 0 { "t" } else { "next" } },
        _ => ClientMessage::Resync,
    })
}

fn stored(n: u8, room: &RoomId) -> Stored {
    let player = PlayerId::new("guest:x").expect("id");
    let session = Session {
        player,
        room: room.clone(),
        seat: 1,
        options: Bytes::new(),
        current: "t".to_owned(),
        next: None,
        version: 1,
    };
    match n {
        0 => Stored::Loaded(Some(session)),
        1 => Stored::Loaded(None),
        2 => Stored::Kept { current: "t".to_owned(), next: Some("next".to_owned()) },
        3 => Stored::Done,
        _ => Stored::Failed,
    }
}

proptest! {
    #[test]
    fn whatever_comes_seats_are_kept_or_given_back(events in prop::collection::vec(event(), 1..80)) {
        let mut world = World::new();
        let mut machine = Machine::new();
        let mut rate = Gcra::new(std::time::Duration::from_secs(1), 1_000_000, 1_000_000);
        let (mut given, mut held, mut asked) = (0_u32, 0_i64, room(0));
        let mut open_asks = 0_i64;
        for event in events.into_iter().chain([Event::Close]) {
            world.now += 300_000_000;
            let mut out = Vec::new();
            let view = world.view();
            match event {
                Event::Client(kind, arg) => drop(machine.receive(&view, &mut rate, &client(kind, arg), &mut out)),
                Event::Found(n) => machine.node(&view, ToGateway::Found { conn: ConnId(1), room: n.map(room) }, &mut out),
                Event::Attached(n, tick) => {
                    given += 1;
                    held += 1;
                    let room = n.map_or(asked.clone(), room);
                    machine.node(&view, ToGateway::Attached(attached_to(room, given, tick)), &mut out);
                }
                Event::Refused(n) => {
                    let (code, message) = (ErrorCode::ALL[n], String::new());
                    machine.node(&view, ToGateway::Refused { conn: ConnId(1), code, message, retry_after: None }, &mut out);
                }
                Event::Left => machine.node(&view, ToGateway::Left { conn: ConnId(1) }, &mut out),
                Event::Stored(n) => {
                    // The driver hands answers only to questions.
                    if open_asks > 0 {
                        open_asks -= 1;
                        machine.stored(&view, stored(n, &asked), &mut out);
                    }
                }
                Event::NotTaken => machine.not_taken(&mut out),
                Event::Timeout => machine.timeout(&mut out),
                Event::Restored => {
                    let note = ToGateway::Restored { room: room(0), term: Term(1), tick: Tick(1), members: Vec::new() };
                    machine.node(&view, note, &mut out);
                }
                Event::Close => machine.close(CloseCode::Restart, "over", &mut out),
            }
            for effect in &out {
                match effect {
                    Effect::Node(ToNode::Detach { .. }) => held -= 1,
                    Effect::Node(ToNode::Attach(attach)) => {
                        prop_assert!(matches!(attach.mode, Mode::Join | Mode::Create | Mode::JoinOrCreate));
                        asked = attach.room.clone();
                    }
                    Effect::Ask(_) => open_asks += 1,
                    Effect::Input { .. } | Effect::Resync => {
                        prop_assert!(machine.resync_message().is_some(), "an input without a seat");
                    }
                    _ => {}
                }
            }
            prop_assert!((0..=1).contains(&held), "{} seats are held", held);
            prop_assert!(open_asks <= 2, "{} questions are open", open_asks);
        }
        prop_assert!(matches!(machine.phase, Phase::Over));
        prop_assert_eq!(held, 0, "a seat was left connected");
    }
}
