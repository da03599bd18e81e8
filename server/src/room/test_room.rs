//! A room for tests of games: fake time, fake seats, the rules of every store over memory, and moves at will.
//!
//! ```
//! # use tenure::prelude::*;
//! # fn game(room: &mut RoomBuilder) { room.tick_rate(20); }
//! let mut room = tenure::test::TestRoom::new("game", game);
//! let ada = room.join("ada");
//! room.tick(3);
//! room.move_now();
//! assert_eq!(room.state(ada).tick(), 3);
//! ```
//!
//! It panics where a test should fail: it is no part of a server.
#![expect(clippy::expect_used, clippy::panic, reason = "a test harness says what is wrong by panicking")]

mod client;
mod coming;
mod durable;
mod look;
mod moving;
mod rewards;
mod state;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use serde::Serialize;
use tenure_shared::{RoomId, Seq, Term, codes::ErrorCode, wire::Space};

use self::{client::Client, durable::Durable};
pub use self::{durable::Fate, state::State};
use super::{
    host::takes,
    world::{AttachRefused, InputRefused, RoomWorld, TickInput, WorldSettings},
};
use crate::{
    link::{Attach, ConnId, GatewayId, Input, Mode, ToGateway},
    plugin::{RoomKind, RoomPlugin, encode},
    runtime::Wall,
    store::{WorkId, model::Rules},
};

/// A fake client's place in a [`TestRoom`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TestSeat(usize);

/// A room, its clients and its store.
pub struct TestRoom {
    kind: Arc<RoomKind>,
    settings: WorldSettings,
    world: RoomWorld,
    clients: Vec<Client>,
    durable: Durable,
    wall: Wall,
    next_conn: u64,
    schedules: Vec<(Arc<str>, Option<Wall>)>,
    errors: Vec<String>,
    disposed: bool,
}

const GATEWAY: GatewayId = GatewayId(1);
/// Ticks between checkpoints, unless an effect asks for one.
const CHECKPOINT_EVERY: u64 = 100;

impl TestRoom {
    /// A new room of this game. Its clock starts at 2026-01-01.
    ///
    /// # Panics
    /// When the game's registration has faults.
    pub fn new(kind: &str, plugin: impl RoomPlugin) -> Self {
        Self::with(kind, plugin, WorldSettings::default())
    }

    /// The same with other bounds.
    ///
    /// # Panics
    /// When the game's registration has faults.
    pub fn with(kind: &str, plugin: impl RoomPlugin, settings: WorldSettings) -> Self {
        const START: Wall = Wall(1_767_225_600_000_000);
        let kind = RoomKind::new(kind, plugin).unwrap_or_else(|faults| panic!("{}", faults.join("\n")));
        let room = RoomId::from_parts(kind.name(), "test", "room").expect("a room id");
        let rules = Rules { max_checkpoint: settings.max_checkpoint, ..Rules::default() };
        let durable = Durable::new(&room, rules, START);
        let world = RoomWorld::create(&kind, room, &settings, Term(1), 42, START, Bytes::new()).expect("a world");
        let mut this = Self {
            kind,
            settings,
            world,
            clients: Vec::new(),
            durable,
            wall: START,
            next_conn: 1,
            schedules: Vec::new(),
            errors: Vec::new(),
            disposed: false,
        };
        this.save();
        this
    }

    fn attach(&mut self, seat: TestSeat, resume: bool) -> Result<(), AttachRefused> {
        let conn = ConnId(self.next_conn);
        self.next_conn += 1;
        let client = &mut self.clients[seat.0];
        let attach = Attach {
            gateway: GATEWAY,
            conn,
            attempt: 1,
            room: self.world.room().clone(),
            mode: Mode::JoinOrCreate,
            player: client.player.clone(),
            options: client.options.clone(),
            metadata: Bytes::new(),
            seat: client.seat.filter(|_| resume),
            rejoin: false,
            generation: tenure_shared::Generation(0),
            resumes: 0,
            first: client.first(),
            shown: client.shown,
            table: None,
        };
        client.attached(&self.world.attach(&attach)?);
        let again = self.clients[seat.0].resend();
        self.give_inputs(seat, again);
        let messages = self.world.take_messages();
        self.give(messages);
        Ok(())
    }

    /// The client's socket is lost: the seat's grace begins.
    pub fn drop_socket(&mut self, seat: TestSeat) {
        self.detach(seat, false);
    }

    /// The client is back on its seat.
    ///
    /// # Panics
    /// When it is refused.
    pub fn reconnect(&mut self, seat: TestSeat) {
        self.attach(seat, true).unwrap_or_else(|refused| panic!("resume was refused: {}", refused.message));
    }

    /// The player leaves for good.
    pub fn leave(&mut self, seat: TestSeat) {
        self.detach(seat, true);
    }

    fn detach(&mut self, seat: TestSeat, consented: bool) {
        let client = &mut self.clients[seat.0];
        client.connected = false;
        if let Some(id) = client.seat {
            self.world.detach(id, client.generation, consented);
        }
        let messages = self.world.take_messages();
        self.give(messages);
    }

    /// Sends a message; it arrives at the next tick.
    ///
    /// # Panics
    /// When the game has no such message.
    pub fn send<T: Serialize + ?Sized>(&mut self, seat: TestSeat, name: &str, message: &T) {
        let kind = self.number(Space::Message, name);
        self.input(seat, kind, None, message);
    }

    /// Sends a request; the answer is found by the number given back, see [`reply`](Self::reply).
    ///
    /// # Panics
    /// When the game has no such request.
    pub fn request<T: Serialize + ?Sized>(&mut self, seat: TestSeat, name: &str, request: &T) -> u32 {
        let kind = self.number(Space::Request, name);
        let client = &mut self.clients[seat.0];
        client.next_request += 1;
        let id = client.next_request;
        self.input(seat, kind, Some(id), request);
        id
    }

    fn input<T: Serialize + ?Sized>(&mut self, seat: TestSeat, kind: u16, request: Option<u32>, value: &T) {
        let mut payload = Vec::new();
        encode(&mut payload, value).expect("a payload");
        self.send_raw(seat, kind, request, payload.into());
    }

    /// Sends bytes as a message (or request) of this number: for tests of what a bad client does.
    pub fn send_raw(&mut self, seat: TestSeat, kind: u16, request: Option<u32>, payload: Bytes) {
        let room = self.world.room().clone();
        let input = self.clients[seat.0].number(room, kind, request, payload);
        if self.clients[seat.0].connected {
            self.give_inputs(seat, vec![input]);
        }
    }

    fn give_inputs(&mut self, seat: TestSeat, inputs: Vec<Input>) {
        for input in inputs {
            if let Err(InputRefused::Overrun { reason, .. }) = self.world.input(input) {
                self.clients[seat.0].refused.push((Seq(0), ErrorCode::Limit.as_str().to_owned(), reason));
            }
        }
    }

    /// The client asks for a snapshot.
    pub fn resync(&mut self, seat: TestSeat) {
        let client = &self.clients[seat.0];
        let Some(id) = client.seat else { return };
        let message = self.world.resync(id, client.generation);
        self.give(message.into_iter().collect());
    }

    /// Room and clock go on by `n` ticks.
    pub fn tick(&mut self, n: u64) {
        for _ in 0..n {
            self.tick_once();
        }
    }

    /// Room and clock go on by this much.
    pub fn advance(&mut self, by: Duration) {
        self.tick(by.as_nanos().div_ceil(u128::from(self.tick_nanos())) as u64);
    }

    /// The clock goes on, the room does not: as while it is frozen or has no owner.
    pub fn freeze(&mut self, by: Duration) {
        self.wall = self.wall.plus(by);
    }

    fn tick_nanos(&self) -> u64 {
        1_000_000_000 / u64::from(self.kind.tick_rate())
    }

    fn tick_once(&mut self) {
        self.wall = self.wall.plus(Duration::from_nanos(self.tick_nanos()));
        let mut input =
            TickInput { wall: self.wall, schedules: std::mem::take(&mut self.schedules), ..Default::default() };
        let kind = self.kind.clone();
        self.durable.fill(self.wall, &mut input, |id: &WorkId| takes(&kind, &id.job));
        let mut output = self.world.tick(input);
        self.errors.append(&mut output.errors);
        self.disposed |= output.dispose;
        self.durable.wanted(output.balances_wanted, output.missed_wanted);
        self.durable.run(output.tasks);
        let due = self.world.tick_number().0.is_multiple_of(CHECKPOINT_EVERY);
        if due || !output.effects.is_empty() {
            let checkpoint = self.world.checkpoint(false);
            let version = checkpoint.version;
            self.durable.commit(checkpoint, output.effects, self.wall);
            self.world.saved(version);
        }
        self.give(output.messages);
    }

    /// Stores a checkpoint now.
    pub fn save(&mut self) {
        let checkpoint = self.world.checkpoint(false);
        let version = checkpoint.version;
        self.durable.commit(checkpoint, Default::default(), self.wall);
        self.world.saved(version);
    }

    /// The clock.
    pub fn wall(&self) -> Wall {
        self.wall
    }

    /// Whether the game asked for the end of the room.
    pub fn disposed(&self) -> bool {
        self.disposed
    }

    /// What went wrong in game code since this was last asked.
    pub fn take_errors(&mut self) -> Vec<String> {
        let mut errors = std::mem::take(&mut self.errors);
        errors.append(&mut self.durable.errors);
        errors
    }

    /// The world, for what this harness does not offer.
    pub fn world(&mut self) -> &mut RoomWorld {
        &mut self.world
    }

    fn give(&mut self, messages: Vec<(GatewayId, ToGateway)>) {
        for (_, message) in messages {
            let again = client::give(&mut self.clients, &message);
            for (client, inputs) in again {
                self.give_inputs(TestSeat(client), inputs);
            }
        }
    }
}

impl std::fmt::Debug for TestRoom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TestRoom({:?}, {} clients)", self.world, self.clients.len())
    }
}
