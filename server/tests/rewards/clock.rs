//! Clocks that are stepped while rewards are due: a seeded simulation of nodes that come and go, each with a clock of its own, on a store whose
//! clock is put forward and back (C23). Each occurrence is decided once, each grant applied once, nothing before it is due by the store's clock (H6).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tenure::{
    link::{Attach, ConnId, Downlink, GatewayId, Mode, Node as _, ToGateway, ToNode, Uplink},
    ownership::{LeaseThread, Options, Ownership, Times},
    plugin::RoomKind,
    prelude::*,
    room::host::{HostConfig, HostParts, RoomHost},
    runtime::{Clock, Rng, Shutdown, Tasks, Wall, mailbox::Refused},
    store::{Backend, BoxFuture, Command, CompletedWork, MemberInfo, Memory, Stamped, Store, model::Rules},
    timers::{LiveBook, RewardBook},
};
use tenure_shared::{Generation, IncarnationId, Seq, ShardId, Term};

use crate::room_tasks::{Awake, RoomTasks};

const START: Wall = Wall(1_764_446_400_000_000);
const SEEDS: u64 = 48;
const LIVES: u64 = 4;
const HOUR: i64 = 3_600_000_000;
/// What a clock is stepped by.
const STEPS: [i64; 4] = [HOUR, -HOUR, -48 * HOUR, 30_000_000];
/// Longest time without an occurrence of a schedule of two seconds: a node that starts, and store time that passes more slowly.
const STALL: Duration = Duration::from_secs(8);

const BOOK: &str = r#"
[[schedule]]
id = "steady"
every = "2s"
rooms = "farm/*/*"
audience = "all-known"
catch_up = "all"
catch_up_limit = 20
grant = { gold = 1 }

[[schedule]]
id = "newest"
every = "3s"
rooms = "farm/*/*"
audience = "present"
grant = { silver = 1 }

[[schedule]]
id = "hourly"
cron = "0 * * * *"
timezone = "America/New_York"
rooms = "farm/*/*"
audience = "all-known"
catch_up = "skip"
grant = { tin = 1 }
"#;

/// What the room paid, by its own count.
#[derive(Resource, Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct Books {
    decided: u64,
    crops: u64,
}

/// As the room of the last life says.
type Shown = Arc<Mutex<Books>>;

fn farm(shown: Shown) -> Arc<RoomKind> {
    let build = move |room: &mut RoomBuilder| {
        let shown = shown.clone();
        room.tick_rate(10);
        room.resource::<Books>("books").persisted();
        for schedule in ["steady", "newest", "hourly"] {
            room.reward(schedule, |In(due): In<RewardDue>, mut books: ResMut<'_, Books>| {
                books.decided += u64::from(due.first);
                due.recipients
            });
        }
        room.work::<u64, _>("crop", |In(_): In<Work<u64>>, mut books: ResMut<'_, Books>| {
            books.crops += 1;
            Ok::<(), Refuse>(())
        });
        room.timer("plant", |In(_): In<Fired>, tick: Tick<'_>, mut due: Due<'_>| {
            // Its key is the time at which it is due.
            due.schedule("crop", &tick.wall.plus(CROP).0.to_string(), tick.wall.plus(CROP), &0_u64);
        });
        room.work::<u64, _>("far", |In(_): In<Work<u64>>| Err::<(), Refuse>("it is not due for a long time".into()));
        room.startup(|mut timers: Timers<'_>, mut due: Due<'_>| {
            timers.every("plant", 0, Duration::from_secs(1));
            // Longer than 2^31 ms, and than any clock is stepped (C13).
            for days in FAR {
                due.schedule_in("far", &days.to_string(), Duration::from_secs(days * 86_400), &days);
            }
        });
        room.systems(Stage::Send, move |books: Res<'_, Books>| *shown.lock().expect("shown") = *books);
    };
    RoomKind::new("farm", build).unwrap_or_else(|faults| panic!("{faults:?}"))
}

const CROP: Duration = Duration::from_millis(1_500);
/// Days until something is due that must wait.
const FAR: [u64; 2] = [31, 400];

/// The one store, as a node that may be dead reaches it.
struct Way {
    store: Arc<Memory>,
    dead: Arc<AtomicBool>,
}

impl Backend for Way {
    fn execute(&self, command: Command) -> BoxFuture<'_, Stamped> {
        if self.dead.load(Ordering::SeqCst) {
            return Box::pin(std::future::pending());
        }
        self.store.execute(command)
    }
}

/// A gateway that hears nothing.
struct Deaf;

impl Downlink for Deaf {
    fn send(&self, _: ToGateway) -> Result<(), Refused<ToGateway>> {
        Ok(())
    }

    fn broken(&self, _: &str) {}
}

struct Node {
    host: RoomHost,
    ownership: Ownership,
    tasks: Tasks,
    up: Arc<dyn Uplink>,
    dead: Arc<AtomicBool>,
}

impl Node {
    async fn start(world: &World, name: &str, clock: Clock) -> Self {
        let dead = Arc::<AtomicBool>::default();
        let store = Store::new(Way { store: world.store.clone(), dead: dead.clone() }, clock.clone());
        let (tasks, rng) = (Tasks::new(Shutdown::new()), Rng::seeded(7));
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
            ttl: Duration::from_millis(1_500),
            heartbeat: Duration::from_millis(400),
            deadline: Duration::from_millis(300),
            margin: Duration::from_millis(250),
            claim_check: Duration::from_millis(2_000),
        };
        let options = Options { shards: 1, times, thread: LeaseThread::Task, ..Options::default() };
        let ownership = Ownership::start(store.clone(), clock.clone(), rng.clone(), options, info, &tasks).await;
        let ownership = ownership.expect("a member");
        let awake: Awake = Arc::new(|| Box::pin(std::future::ready(())));
        let executor = RoomTasks::new(clock.clone(), awake, Arc::default());
        let config = HostConfig {
            shards: 1,
            checkpoint_every: Duration::from_millis(400),
            stall_after: Duration::from_secs(86_400),
            ..HostConfig::default()
        };
        let host = RoomHost::start(HostParts {
            kinds: vec![farm(world.shown.clone())],
            store,
            ownership: ownership.clone(),
            clock,
            rng,
            config,
            book: LiveBook::new(RewardBook::parse("rewards.toml", BOOK).expect("valid")),
            tasks: tasks.clone(),
            executor: Some(Arc::new(executor)),
            kill: Box::new(|_| {}),
        });
        let host = host.expect("a host");
        host.ready().await;
        let up = host.connect(Arc::new(Deaf));
        Self { host, ownership, tasks, up, dead }
    }

    fn join(&self, player: &str) {
        let attach = Attach {
            gateway: GatewayId(0),
            conn: ConnId(1),
            attempt: 1,
            room: RoomId::from_parts("farm", "eu", "a").expect("valid"),
            mode: Mode::JoinOrCreate,
            player: PlayerId::new(player).expect("valid"),
            options: Default::default(),
            metadata: Default::default(),
            seat: None,
            rejoin: false,
            generation: Generation(0),
            resumes: 0,
            first: Seq(1),
            shown: (Term(0), tenure_shared::Tick(0)),
            table: None,
        };
        self.up.send(ToNode::Attach(attach)).expect("taken");
    }

    /// As kill -9; the incarnation that others bury.
    fn crash(self) -> IncarnationId {
        self.dead.store(true, Ordering::SeqCst);
        self.tasks.shutdown().stop();
        self.ownership.incarnation().expect("it lived")
    }
}

/// What outlives the nodes.
struct World {
    store: Arc<Memory>,
    shown: Shown,
    /// For looking.
    look: Store,
}

async fn one(seed: u64) -> (World, Duration, BTreeSet<i64>) {
    let rng = Rng::seeded(seed);
    let (clock, hand) = Clock::of_runtime_stepped(START);
    let store = Arc::new(Memory::new(clock.clone(), Rules::default()));
    let look = Store::new(Way { store: store.clone(), dead: Arc::default() }, clock.clone());
    let world = World { store, shown: Shown::default(), look };
    let (mut stalled, mut steps) = (Duration::ZERO, BTreeSet::new());
    let (mut seen, mut since) = (0, clock.now());
    for life in 1..=LIVES {
        // Its own clock may be anywhere.
        let own = Wall(START.0.saturating_add_signed(STEPS[rng.below(4) as usize]));
        let (own, own_hand) = Clock::of_runtime_stepped(own);
        let node = Node::start(&world, &format!("n{life}"), own).await;
        node.join("ann");
        let end = clock.now().plus(Duration::from_millis(6_000 + rng.below(6_000)));
        while clock.now() < end {
            clock.sleep(Duration::from_millis(50 + rng.below(200))).await;
            if rng.below(12) == 0 {
                let step = STEPS[rng.below(4) as usize];
                steps.insert(step);
                if rng.below(3) == 0 { own_hand.step(step) } else { hand.step(step) }
            }
            let steady = done(&world).await.iter().filter(|done| &*done.id.job == "schedule/steady").count();
            if steady > seen {
                (seen, since) = (steady, clock.now());
            }
            // A room that is made has its first occurrence a while later.
            stalled = stalled.max(if seen > 0 { clock.now().since(since) } else { Duration::ZERO });
        }
        if rng.below(2) == 0 && life < LIVES {
            let gone = node.crash();
            world.look.deregister(&gone).await.expect("buried");
        } else {
            assert!(node.host.stop(clock.now().plus(Duration::from_secs(20))).await.is_clean(), "seed {seed}");
            node.ownership.leave().await;
            node.tasks.shutdown().stop();
        }
    }
    (world, stalled, steps)
}

async fn done(world: &World) -> Vec<CompletedWork> {
    let done = world.look.completed(ShardId(0), 1_000).await.expect("completed work");
    assert!(done.len() < 1_000, "longer than the log");
    done
}

async fn judge(seed: u64, world: &World) -> usize {
    let done = done(world).await;
    let pending = world.look.work(ShardId(0), None, 1_000).await.expect("pending work");
    let far = pending.iter().filter(|item| &*item.id.job == "far" && item.attempt == 0);
    assert_eq!(far.count(), FAR.len(), "seed {seed}: what is far away was not tried");
    let mut ids = BTreeSet::new();
    let mut decided: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    for item in &done {
        let due: u64 = item.id.key.parse().unwrap_or_default();
        if item.id.job.starts_with("tenure/") {
            continue;
        }
        assert!(ids.insert(&item.id), "seed {seed}: {:?} was done twice", item.id);
        assert!(item.at.0 >= due, "seed {seed}: {item:?} was done before it was due");
        decided.entry(item.id.job.strip_prefix("schedule/").unwrap_or("crop")).or_default().insert(due);
    }
    let lines = world.look.ledger(&PlayerId::new("ann").expect("valid"), 1_000).await.expect("a ledger");
    let (mut grants, mut sums) = (BTreeSet::new(), BTreeMap::<String, i64>::new());
    let mut paid: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    for line in &lines {
        assert!(grants.insert(&line.id), "seed {seed}: {line:?} was applied twice");
        let due = line.scheduled_for.expect("of a schedule");
        assert!(line.at >= due, "seed {seed}: {line:?} was applied before it was due");
        paid.entry(&line.source).or_default().insert(due.0);
        for (currency, amount) in &line.given {
            *sums.entry(currency.to_string()).or_default() += amount;
        }
    }
    let balances = world.look.balances(&PlayerId::new("ann").expect("valid")).await.expect("balances");
    assert_eq!(balances.into_iter().collect::<BTreeMap<_, _>>(), sums, "seed {seed}");
    // Everybody who is known gets each occurrence that was decided, and no other.
    for schedule in ["steady", "hourly"] {
        assert_eq!(paid.get(schedule), decided.get(schedule), "seed {seed}: {schedule}");
    }
    let books = *world.shown.lock().expect("shown");
    let count = |jobs: &[&str]| jobs.iter().filter_map(|job| decided.get(job)).map(BTreeSet::len).sum::<usize>() as u64;
    let has = Books { decided: count(&["steady", "newest", "hourly"]), crops: count(&["crop"]) };
    assert_eq!(books, has, "seed {seed}: what the world counts is what was completed");
    done.len()
}

#[test]
fn stepped_clocks_decide_nothing_twice_nothing_early_and_stop_nothing() {
    let (mut steps, mut items) = (BTreeSet::new(), 0);
    for seed in 1..=SEEDS {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let (count, stalled, stepped) = runtime.expect("a runtime").block_on(async {
            let (world, stalled, stepped) = one(seed).await;
            (judge(seed, &world).await, stalled, stepped)
        });
        assert!(stalled <= STALL, "seed {seed}: nothing was due for {stalled:?}");
        items += count;
        steps.extend(stepped);
    }
    assert_eq!(steps, BTreeSet::from(STEPS), "each step was tried");
    assert!(items > 1_000, "{items}");
}
