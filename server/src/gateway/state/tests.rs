//! Random events in random order: nothing panics, every seat that the node gives is kept or given back, one at a time.

use proptest::prelude::*;
use tenure_shared::{Generation, RoomId, SeatId, Seq, Term, Tick, wire::Wanted};

use super::*;
use crate::{
    config::Guests,
    gateway::auth::AuthConfig,
    link::{Attached, Mode, ToNode},
    runtime::{Changes, Watcher},
    store::Session,
};

/// Two nodes, of which the first owns everything.
struct Two(Changes);

impl Directory for Two {
    fn shards(&self) -> u32 {
        16
    }
    fn owner(&self, _: tenure_shared::ShardId) -> Option<crate::link::Owner> {
        Some(crate::link::Owner { term: Term(5), address: Some("a".into()) })
    }
    fn nodes(&self) -> Vec<crate::link::Address> {
        vec!["a".into(), "b".into()]
    }
    fn changes(&self) -> Watcher {
        self.0.watch()
    }
    fn refresh(&self) {}
}

struct World {
    directory: Two,
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
            directory: Two(Changes::new()),
            rules: Rules {
                coordinated: Vec::new(),
                server: "n".to_owned(),
                region: "eu".to_owned(),
                ping_ms: 1,
                idle_ms: 2,
                client_message: 3,
                rate: 4,
                form: msgpack::Bounds::CLIENT,
            },
            auth: Auth::new(&AuthConfig::default(), Guests::Always, &secret).expect("usable"),
            creates: Creates::new(seek::CREATES),
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
            directory: &self.directory,
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

fn attached_to(room: RoomId, attempt: u32, generation: u32, tick: u64) -> Attached {
    Attached {
        conn: ConnId(1),
        attempt,
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
    /// To the last attempt, or to the one before it.
    Attached(bool, u64),
    Refused(bool, usize),
    Left,
    Stored(u8),
    NotTaken,
    Timeout,
    Restored,
    /// The seat, or the attach that is on its way, is off its link.
    Off(bool),
    NotOwner(bool),
    Lost,
    Wait(u16),
    Close,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => (0..12_u8, 0..4_u8).prop_map(|(kind, arg)| Event::Client(kind, arg)),
        2 => prop::option::of(0..3_u8).prop_map(Event::Found),
        4 => (prop::bool::weighted(0.1), 0..20_u64).prop_map(|(late, tick)| Event::Attached(late, tick)),
        2 => (prop::bool::weighted(0.1), 0..ErrorCode::ALL.len()).prop_map(|(late, n)| Event::Refused(late, n)),
        1 => Just(Event::Left),
        4 => (0..6_u8).prop_map(Event::Stored),
        1 => Just(Event::NotTaken),
        1 => Just(Event::Timeout),
        1 => Just(Event::Restored),
        3 => prop::bool::weighted(0.2).prop_map(Event::Off),
        1 => any::<bool>().prop_map(Event::NotOwner),
        1 => Just(Event::Lost),
        2 => (0..2_000_u16).prop_map(Event::Wait),
        1 => prop::bool::weighted(0.2).prop_map(|close| if close { Event::Close } else { Event::Restored }),
    ]
}

fn client(kind: u8, arg: u8) -> Bytes {
    let wanted = |name| Wanted { kind: "arena", region: None, name, filter: &[] };
    let id = u32::from(arg) + 1;
    bytes(&match kind {
        0 => ClientMessage::Hello { protocol: 1, token: None, table: None },
        1 => ClientMessage::JoinOrCreate { id, wanted: wanted(None), options: &[0xc0] },
        2 => ClientMessage::JoinOrCreate { id, wanted: wanted(Some("r1")), options: &[0xc0] },
        3 => ClientMessage::Create { id, wanted: wanted(if arg > 1 { None } else { Some("r2") }), options: &[0xc0] },
        4 => ClientMessage::Join { id, room: room(arg % 3), options: &[0xc0] },
        5 => {
            let shown = (Term(5), Tick(u64::from(arg) * 5));
            ClientMessage::Resume { id, room: room(arg % 3), session: "t", shown, first: Seq(1), resumes: 0 }
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
        3 => Stored::Acknowledged,
        4 => Stored::Deleted,
        _ => Stored::Failed,
    }
}

proptest! {
    #[test]
    fn whatever_comes_seats_are_kept_or_given_back(events in prop::collection::vec(event(), 1..80)) {
        let mut world = World::new();
        let mut machine = Machine::new();
        let mut rate = Gcra::new(std::time::Duration::from_secs(1), 1_000_000, 1_000_000);
        let (mut given, mut held, mut asked, mut attempt) = (0_u32, 0_i64, room(0), 1_u32);
        let mut open_asks = 0_i64;
        for event in events.into_iter().chain([Event::Close]) {
            world.now += 300_000_000;
            match event {
                Event::Wait(ms) => world.now += u64::from(ms) * 1_000_000,
                Event::Timeout => world.now = world.now.max(machine.deadline().map_or(0, |by| by.0)),
                _ => {}
            }
            let mut out = Vec::new();
            let view = world.view();
            match event {
                Event::Client(kind, arg) => drop(machine.receive(&view, &mut rate, &client(kind, arg), &mut out)),
                Event::Found(n) => {
                    let (conn, room, new) = (ConnId(1), n.map(room), n == Some(2));
                    machine.node(&view, ToGateway::Found { conn, attempt, room, new }, &mut out);
                }
                Event::Attached(late, tick) => {
                    given += 1;
                    held += 1;
                    let attached = attached_to(asked.clone(), attempt - u32::from(late), given, tick);
                    machine.node(&view, ToGateway::Attached(attached), &mut out);
                }
                Event::Refused(late, n) => {
                    let (code, message) = (ErrorCode::ALL[n], String::new());
                    let (conn, attempt) = (ConnId(1), attempt - u32::from(late));
                    machine.node(&view, ToGateway::Refused { conn, attempt, code, word: None, message, retry_after: None }, &mut out);
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
                Event::Timeout | Event::Wait(_) => machine.timeout(&view, &mut out),
                Event::NotOwner(late) => {
                    let (conn, attempt) = (ConnId(1), attempt - u32::from(late));
                    let (shard, term) = (tenure_shared::ShardId(1), Term(0));
                    machine.node(&view, ToGateway::NotOwner { conn, attempt, shard, term }, &mut out);
                }
                Event::Lost => machine.again(&view, attempt, true, &mut out),
                // Only a seat that is on a link comes off it.
                Event::Off(gone) => {
                    if held == 1 {
                        held = 0;
                        machine.off(&view, gone, &mut out);
                    }
                }
                Event::Restored => {
                    let note = ToGateway::Restored { room: room(0), term: Term(1), tick: Tick(1), members: Vec::new() };
                    machine.node(&view, note, &mut out);
                }
                Event::Close => machine.close(CloseCode::Restart, "over", &mut out),
            }
            for effect in &out {
                match effect {
                    // Of the connection's seat, if it is on a link.
                    Effect::GiveUp(_) => held = 0,
                    Effect::GiveBack(_) => held -= 1,
                    Effect::Attach { attach, again } => {
                        prop_assert_eq!(*again, machine.is_between());
                        prop_assert!(!*again || (held == 0 && attach.mode == Mode::Join && attach.seat.is_some()));
                        asked = attach.room.clone();
                        attempt = attach.attempt;
                    }
                    Effect::Find { find: ToNode::Find { attempt: n, .. }, .. } => attempt = *n,
                    Effect::Ask(_) => open_asks += 1,
                    Effect::Input { .. } | Effect::Resync => {
                        prop_assert!(machine.is_seated(), "an input without a seat");
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

/// A machine that is logged in, and the hands to drive it.
struct Driver {
    world: World,
    machine: Machine,
    rate: Gcra,
}

impl Driver {
    fn new() -> Self {
        let rate = Gcra::new(std::time::Duration::from_secs(1), 1_000_000, 1_000_000);
        let mut this = Self { world: World::new(), machine: Machine::new(), rate };
        this.say(0, 0);
        this
    }

    fn step(&mut self, run: impl FnOnce(&mut Machine, &View<'_>, &mut Vec<Effect>)) -> Vec<Effect> {
        let mut out = Vec::new();
        run(&mut self.machine, &self.world.view(), &mut out);
        out
    }

    fn say(&mut self, kind: u8, arg: u8) -> Vec<Effect> {
        let mut rate = self.rate;
        self.step(|machine, view, out| {
            machine.receive(view, &mut rate, &client(kind, arg), out);
        })
    }

    fn node(&mut self, note: ToGateway) -> Vec<Effect> {
        self.step(|machine, view, out| machine.node(view, note, out))
    }

    fn stored(&mut self, stored: Stored) -> Vec<Effect> {
        self.step(|machine, view, out| machine.stored(view, stored, out))
    }

    fn join(&mut self) -> u32 {
        let out = self.say(4, 0);
        asked(&out).expect("an attach").attempt
    }

    /// Joined, and `joined` is sent.
    fn enter(&mut self) {
        let attempt = self.join();
        self.node(ToGateway::Attached(attached_to(room(0), attempt, 1, 9)));
        self.stored(Stored::Kept { current: "c".to_owned(), next: None });
    }

    /// To the next time that the machine has set.
    fn wait(&mut self) -> Vec<Effect> {
        self.world.now = self.machine.deadline().expect("a time").0;
        self.step(|machine, view, out| machine.timeout(view, out))
    }

    fn off(&mut self) {
        assert!(self.step(|machine, view, out| machine.off(view, false, out)).is_empty());
        assert!(self.machine.is_between());
    }
}

fn asked(out: &[Effect]) -> Option<&crate::link::Attach> {
    out.iter().find_map(|e| if let Effect::Attach { attach, .. } = e { Some(&**attach) } else { None })
}

fn refused(attempt: u32, code: ErrorCode) -> ToGateway {
    ToGateway::Refused { conn: ConnId(1), attempt, code, word: None, message: "no".to_owned(), retry_after: None }
}

fn detaches(out: &[Effect]) -> Vec<Generation> {
    let of = |e: &Effect| match e {
        Effect::GiveUp(ToNode::Detach { generation, .. }) | Effect::GiveBack(ToNode::Detach { generation, .. }) => {
            Some(*generation)
        }
        _ => None,
    };
    out.iter().filter_map(of).collect()
}

#[test]
fn answers_to_an_attempt_that_was_given_up_are_nobodys() {
    let mut driver = Driver::new();
    let first = driver.join();
    driver.wait();
    let second = driver.join();
    assert_ne!(first, second);
    let (code, message) = (ErrorCode::RoomFull, String::new());
    let refused = ToGateway::Refused { conn: ConnId(1), attempt: first, code, word: None, message, retry_after: None };
    assert!(driver.node(refused).is_empty(), "the second attempt goes on");
    let out = driver.node(ToGateway::Attached(attached_to(room(0), first, 1, 9)));
    assert_eq!(detaches(&out), [Generation(1)]);
    let out = driver.node(ToGateway::Attached(attached_to(room(0), second, 2, 9)));
    assert_eq!(detaches(&out), []);
    driver.stored(Stored::Kept { current: "c".to_owned(), next: None });
    assert!(matches!(&driver.machine.phase, Phase::Room(room) if room.generation == Generation(2)));
}

#[test]
fn a_leave_waits_for_its_own_answer_and_is_said_again_to_a_restored_room() {
    let mut driver = Driver::new();
    let attempt = driver.join();
    driver.node(ToGateway::Attached(attached_to(room(0), attempt, 1, 9)));
    driver.stored(Stored::Kept { current: "c".to_owned(), next: Some("next".to_owned()) });
    // An acknowledgement is on its way when the player leaves.
    assert!(matches!(&driver.say(10, 1)[..], [Effect::Ask(Ask::Acknowledge { .. })]));
    assert_eq!(detaches(&driver.say(6, 0)), [Generation(1)]);
    let out = driver.step(|machine, _, out| machine.raised(Generation(2), out));
    assert_eq!(detaches(&out), [Generation(2)]);
    let out = driver.node(ToGateway::Left { conn: ConnId(1) });
    let tokens = Tokens { current: "c".to_owned(), next: Some("next".to_owned()) };
    assert!(
        out.iter().any(|e| matches!(e, Effect::Ask(Ask::Delete { seat: SeatId(1), tokens: t, .. }) if *t == tokens))
    );
    assert!(driver.stored(Stored::Acknowledged).is_empty(), "the seat's session is not deleted yet");
    assert!(matches!(&driver.stored(Stored::Deleted)[..], [Effect::Send(_)]));
}

mod between;
mod find;
mod seek;
