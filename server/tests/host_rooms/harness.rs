//! Nodes on one store in memory, and gateways that keep what they hear.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use tenure::{
    link::{
        Attach, Attached, ConnId, Downlink, GatewayId, Input, Mode, Node as _, RestoredMember, ToGateway, ToNode,
        Uplink,
    },
    ownership::{Options, Ownership, Times},
    plugin::RoomKind,
    room::host::{HostConfig, HostParts, RoomHost},
    runtime::{Clock, Rng, Shutdown, Tasks, mailbox::Refused},
    store::{self, Backend, BoxFuture, Command, Embedded, MemberInfo, Memory, Stamped, Store, model::Rules},
    timers::{LiveBook, RewardBook},
};
use tenure_shared::{Generation, PlayerId, RoomId, SeatId, Seq, Term, Tick};

use crate::{
    lab::{self, Outside, Say, View, Views},
    weather::{Stormy, Weather},
};

/// Shards of the tests.
pub const SHARDS: u32 = 4;
/// Real time after which a condition that does not come true fails the test.
const PATIENCE: Duration = Duration::from_secs(30);

/// One store behind the weather of each node.
struct Common(Arc<dyn Backend>);

impl Backend for Common {
    fn execute(&self, command: Command) -> BoxFuture<'_, Stamped> {
        self.0.execute(command)
    }
}

/// Everything that outlives a node.
pub struct World {
    pub clock: Clock,
    inner: Arc<dyn Backend>,
    /// The store as nodes see it whose weather is `weather`.
    pub store: Store,
    pub weather: Arc<Weather>,
    pub views: Views,
    pub outside: Arc<Outside>,
    pub config: HostConfig,
    pub book: Arc<RewardBook>,
}

impl World {
    pub fn new() -> Self {
        let clock = Clock::system();
        Self::on(Arc::new(Memory::new(clock.clone(), Rules::default())), clock)
    }

    /// On a store in a folder, as in production.
    pub fn on_disk(folder: &std::path::Path) -> Self {
        let clock = Clock::system();
        let disk = Embedded::open(folder, clock.clone(), store::Options::default()).expect("a data folder");
        Self::on(Arc::new(disk), clock)
    }

    fn on(inner: Arc<dyn Backend>, clock: Clock) -> Self {
        let weather = Arc::<Weather>::default();
        let store = under(&inner, &weather, &Arc::default(), &clock);
        let config = HostConfig {
            shards: SHARDS,
            threads: 2,
            checkpoint_every: Duration::from_millis(100),
            idle_after: Duration::from_millis(200),
            retry_delay: Duration::from_millis(20),
            // A panic prints a backtrace first, which takes its time on a busy machine.
            stall_after: Duration::from_secs(60),
            ..HostConfig::default()
        };
        let (views, outside) = (Views::default(), Arc::default());
        Self { clock, inner, store, weather, views, outside, config, book: Arc::new(RewardBook::empty()) }
    }

    pub fn schedules(mut self, text: &str) -> Self {
        self.book = Arc::new(RewardBook::parse("rewards.toml", text).expect("valid schedules"));
        self
    }

    /// A node whose rooms are ready.
    pub async fn node(&self) -> Node {
        self.named("test", &self.weather).await
    }

    /// One of several nodes, with a weather of its own. Links to it would go to its name.
    pub async fn named(&self, name: &str, weather: &Arc<Weather>) -> Node {
        self.with_kind(name, weather, lab::kind(&self.views, &self.outside)).await
    }

    /// The same with another build of the game.
    pub async fn with_kind(&self, name: &str, weather: &Arc<Weather>, kind: Arc<RoomKind>) -> Node {
        let tasks = Tasks::new(Shutdown::new());
        let rng = Rng::from_entropy();
        let dead = Arc::<AtomicBool>::default();
        let store = under(&self.inner, weather, &dead, &self.clock);
        let ownership = own_as(name, &store, &self.clock, &tasks, &rng).await;
        let killed = Arc::new(Mutex::new(None));
        let kill = killed.clone();
        let book = LiveBook::from(self.book.clone());
        let host = RoomHost::start(HostParts {
            kinds: vec![kind],
            store: store.clone(),
            ownership: ownership.clone(),
            clock: self.clock.clone(),
            rng,
            config: self.config.clone(),
            book: book.clone(),
            tasks: tasks.clone(),
            executor: None,
            kill: Box::new(move |room| *kill.lock().expect("killed") = Some(room.to_owned())),
        })
        .expect("threads");
        host.ready().await;
        Node {
            book,
            clock: self.clock.clone(),
            host,
            ownership,
            tasks,
            killed,
            store: self.store.clone(),
            dead,
            weather: weather.clone(),
        }
    }

    pub fn view(&self, room: &RoomId) -> View {
        self.views.lock().expect("views").get(room.as_str()).cloned().unwrap_or_default()
    }

    /// Lets real time pass.
    pub fn pass(&self, time: Duration) {
        let later = self.clock.now().plus(time);
        self.until("time passes", || self.clock.now() >= later);
    }

    /// Waits until `true`.
    pub fn until(&self, what: &str, condition: impl FnMut() -> bool) {
        until(&self.clock, what, condition);
    }

    pub async fn gold(&self, player: &str) -> i64 {
        let balances = self.store.balances(&PlayerId::new(player).expect("valid")).await.expect("balances");
        balances.iter().find(|(currency, _)| currency == "gold").map_or(0, |(_, amount)| *amount)
    }
}

fn under(inner: &Arc<dyn Backend>, weather: &Arc<Weather>, dead: &Arc<AtomicBool>, clock: &Clock) -> Store {
    let (inner, weather, dead) = (Box::new(Common(inner.clone())), weather.clone(), dead.clone());
    Store::new(Stormy { inner, weather, dead, clock: clock.clone() }, clock.clone())
}

/// Registers a node and takes all shards.
pub async fn own(world: &World, tasks: &Tasks, rng: &Rng) -> Ownership {
    own_as("test", &world.store, &world.clock, tasks, rng).await
}

async fn own_as(name: &str, store: &Store, clock: &Clock, tasks: &Tasks, rng: &Rng) -> Ownership {
    let info = MemberInfo {
        node: name.to_owned(),
        roles: vec!["room".to_owned()],
        version: String::new(),
        revision: 0,
        link: name.to_owned(),
        public_url: String::new(),
        zone_data: String::new(),
    };
    let times = Times {
        ttl: Duration::from_millis(900),
        heartbeat: Duration::from_millis(200),
        deadline: Duration::from_millis(150),
        margin: Duration::from_millis(100),
        claim_check: Duration::from_millis(500),
    };
    let options = Options { shards: SHARDS, times, ..Options::default() };
    Ownership::start(store.clone(), clock.clone(), rng.clone(), options, info, tasks).await.expect("owned")
}

/// Waits for a condition by looking every millisecond.
pub fn until(clock: &Clock, what: &str, mut condition: impl FnMut() -> bool) {
    let end = clock.now().plus(PATIENCE);
    while !condition() {
        assert!(clock.now() < end, "it never came true: {what}");
        clock.park_until(Some(clock.now().plus(Duration::from_millis(1))));
    }
}

pub struct Node {
    /// What its rooms go by.
    pub book: LiveBook,
    clock: Clock,
    pub host: RoomHost,
    pub ownership: Ownership,
    pub tasks: Tasks,
    pub killed: Arc<Mutex<Option<String>>>,
    store: Store,
    dead: Arc<AtomicBool>,
    pub weather: Arc<Weather>,
}

impl Node {
    pub fn holds(&self, room: &RoomId) -> bool {
        self.ownership.fence(room.shard(SHARDS)).is_some()
    }

    pub fn gateway(&self) -> Gateway {
        let heard = Arc::<Ear>::default();
        let up = self.host.connect(heard.clone());
        Gateway { up, heard, clock: self.clock.clone(), next_conn: AtomicU64::new(1) }
    }

    /// As kill -9: nothing more is written; the others see its tombstone.
    pub async fn crash(self) {
        // What is left of it in this process (a gateway's link keeps it) must not rise again.
        self.dead.store(true, Ordering::SeqCst);
        drop(self.host);
        self.tasks.shutdown().stop();
        let incarnation = self.ownership.incarnation().expect("it lived");
        drop(self.ownership);
        // Instead of waiting for the lease to lapse.
        self.store.deregister(&incarnation).await.expect("tombstone");
    }

    pub async fn stop(self) -> tenure::room::host::StopReport {
        let report = self.host.stop(self.clock.now().plus(Duration::from_secs(20))).await;
        self.ownership.leave().await;
        self.tasks.shutdown().stop();
        report
    }
}

/// What a gateway has heard, in order.
#[derive(Default)]
pub struct Ear {
    pub said: Mutex<Vec<ToGateway>>,
    pub deaf: AtomicBool,
    /// How often the link ended.
    pub broken: AtomicU64,
}

impl Downlink for Ear {
    fn send(&self, message: ToGateway) -> Result<(), Refused<ToGateway>> {
        if self.deaf.load(Ordering::SeqCst) {
            return Err(Refused::Full(message));
        }
        self.said.lock().expect("ear").push(message);
        Ok(())
    }

    fn broken(&self, _: &str) {
        self.broken.fetch_add(1, Ordering::SeqCst);
    }
}

pub struct Gateway {
    pub up: Arc<dyn Uplink>,
    pub heard: Arc<Ear>,
    clock: Clock,
    next_conn: AtomicU64,
}

/// A player's socket.
#[derive(Clone, Debug)]
pub struct Socket {
    pub conn: ConnId,
    pub attached: Attached,
}

impl Socket {
    /// After a restore in place.
    pub fn renewed(mut self, member: &RestoredMember) -> Self {
        self.attached.generation = member.generation;
        self
    }
}

impl Gateway {
    pub fn conn(&self) -> ConnId {
        ConnId(self.next_conn.fetch_add(1, Ordering::SeqCst))
    }

    pub fn ask(&self, room: &RoomId, player: &str, mode: Mode) -> ConnId {
        let conn = self.conn();
        self.ask_as(conn, room, player, mode, None);
        conn
    }

    pub fn ask_as(&self, conn: ConnId, room: &RoomId, player: &str, mode: Mode, seat: Option<SeatId>) {
        self.up.send(ToNode::Attach(Attach { mode, seat, ..attach(conn, room, player) })).expect("taken");
    }

    /// The first message for which `pick` has something.
    pub fn wait<T>(&self, what: &str, mut pick: impl FnMut(&ToGateway) -> Option<T>) -> T {
        let mut found = None;
        until(&self.clock, what, || {
            found = self.heard.said.lock().expect("ear").iter().find_map(&mut pick);
            found.is_some()
        });
        found.expect("found")
    }

    /// The answer to an attach.
    pub fn answer(&self, conn: ConnId) -> Result<Socket, ToGateway> {
        self.wait("an answer to an attach", |message| match message {
            ToGateway::Attached(attached) if attached.conn == conn => {
                Some(Ok(Socket { conn, attached: attached.clone() }))
            }
            ToGateway::Refused { conn: other, .. } if *other == conn => Some(Err(message.clone())),
            _ => None,
        })
    }

    pub fn join(&self, room: &RoomId, player: &str) -> Socket {
        let conn = self.ask(room, player, Mode::JoinOrCreate);
        self.answer(conn).unwrap_or_else(|refused| panic!("{player} was refused: {refused:?}"))
    }

    pub fn say(&self, socket: &Socket, seq: u64, say: &Say) {
        self.try_say(socket, seq, say).expect("taken");
    }

    #[allow(clippy::result_large_err, reason = "what is refused goes back as it came")]
    pub fn try_say(&self, socket: &Socket, seq: u64, say: &Say) -> Result<(), Refused<ToNode>> {
        let table = socket.attached.table.as_ref().expect("a table");
        let row = table.iter().find(|row| &*row.name == "say").expect("the message is registered");
        self.up.send(ToNode::Input(Input {
            room: socket.attached.room.clone(),
            seat: socket.attached.seat,
            generation: socket.attached.generation,
            seq: Seq(seq),
            request: None,
            kind: row.number,
            payload: Bytes::from(rmp_serde::to_vec(say).expect("encoded")),
        }))
    }

    pub fn leave(&self, socket: &Socket, generation: Generation, consented: bool) {
        let (room, seat) = (socket.attached.room.clone(), socket.attached.seat);
        self.up.send(ToNode::Detach { room, seat, generation, consented }).expect("taken");
    }

    /// What closed a socket, if anything did.
    pub fn closed(&self, conn: ConnId) -> Option<tenure_shared::codes::CloseCode> {
        self.heard.said.lock().expect("ear").iter().find_map(|message| match message {
            ToGateway::Close { conn: other, code, .. } if *other == conn => Some(*code),
            _ => None,
        })
    }

    /// The highest number known to be saved for a socket.
    pub fn saved(&self, conn: ConnId) -> u64 {
        let said = self.heard.said.lock().expect("ear");
        let frames = said.iter().filter_map(|m| if let ToGateway::Frame(frame) = m { Some(frame) } else { None });
        frames.flat_map(|frame| &frame.members).filter(|m| m.conn == conn).map(|m| m.saved.0).max().unwrap_or(0)
    }
}

/// A player who comes for the first time.
pub fn attach(conn: ConnId, room: &RoomId, player: &str) -> Attach {
    Attach {
        gateway: GatewayId(0),
        conn,
        attempt: 1,
        room: room.clone(),
        mode: Mode::JoinOrCreate,
        player: PlayerId::new(player).expect("valid"),
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

pub fn room(name: &str) -> RoomId {
    RoomId::from_parts("lab", "eu", name).expect("valid")
}

/// How often each text occurs.
pub fn counts(texts: &[String]) -> BTreeMap<&str, usize> {
    texts.iter().map(|text| (text.as_str(), texts.iter().filter(|other| *other == text).count())).collect()
}
