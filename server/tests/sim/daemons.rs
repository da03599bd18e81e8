//! Daemons on simulated nodes (H10): counters under their fences, with crashes, pauses, cuts and drains, and deploys that make twelve of eight
//! and eight again.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use tenure::{
    daemon::{self, Context, Daemon, DaemonParts, Daemons, Fault, ShardedDaemonProcess},
    ownership::{LeaseThread, Options, Ownership},
    runtime::{Clock, Mono, Rng, Shutdown, Tasks},
    store::MemberInfo,
};
use tokio::sync::Notify;

use crate::{
    breaks::Break,
    checks::Checks,
    cluster::{Counts, Outcome, SHARDS, START},
    net::{NODES, Net},
    node::times,
    store::{Client, Host},
};

/// What a build runs, and the other one.
const FEW: u32 = 8;
const MANY: u32 = 12;
const SET: &str = "work";
/// When which count is deployed, and how long faults are made.
const DEPLOYS: [(Duration, u32); 2] = [(Duration::from_secs(4), MANY), (Duration::from_secs(12), FEW)];
const STORMY: Duration = Duration::from_secs(20);
/// How long a daemon may be nowhere when all nodes are well and of one build.
const WHOLE: Duration = Duration::from_secs(10);
/// How often a counter counts.
const PERIOD: Duration = Duration::from_millis(150);

/// Generation and index.
type At = (u64, u32);

/// Everything of a run.
struct Ward {
    net: Arc<Net>,
    store: Arc<Host>,
    checks: Arc<Checks>,
    /// How many daemons the build has that is deployed.
    build: AtomicU32,
    /// What works now, and where: node and life.
    live: Mutex<BTreeMap<At, (usize, u64)>>,
    starts: AtomicU64,
    nodes: Mutex<Vec<Option<Arc<Worker>>>>,
}

/// A life of a node.
struct Worker {
    ownership: Ownership,
    daemons: Daemons,
    tasks: Tasks,
    dead: Arc<AtomicBool>,
    build: u32,
    life: u64,
}

/// An activation, from its start until it is dropped.
struct Live {
    ward: Arc<Ward>,
    at: At,
}

impl Live {
    /// H10: of an index one works at a time, and of two generations one.
    fn begin(ward: &Arc<Ward>, at: At, by: (usize, u64)) -> Self {
        let mut live = ward.live.lock().expect("live");
        if let Some(other) = live.insert(at, by) {
            ward.checks.wrong(format!("H10: {by:?} runs {at:?}, which {other:?} still runs"));
        }
        if let Some((other, by)) = live.iter().find(|((generation, _), _)| *generation != at.0) {
            ward.checks.wrong(format!("H10: {at:?} runs while {by:?} still runs {other:?} of another generation"));
        }
        drop(live);
        ward.starts.fetch_add(1, Ordering::SeqCst);
        ward.net.log(&format!("{at:?} runs on {by:?}"));
        Self { ward: ward.clone(), at }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.ward.live.lock().expect("live").remove(&self.at);
        self.ward.net.log(&format!("{:?} has ended", self.at));
    }
}

/// Counts, and stores each number. A process that is paused does nothing.
struct Counter {
    ward: Weak<Ward>,
    by: (usize, u64),
    counted: u64,
    live: Option<Live>,
}

impl Counter {
    fn ward(&self) -> Result<Arc<Ward>, Fault> {
        self.ward.upgrade().ok_or_else(|| Fault::new("the run is over"))
    }

    async fn count(&mut self, ctx: &mut Context) -> Result<(), Fault> {
        self.ward()?.net.awake(self.by.0).await;
        ctx.save(Bytes::copy_from_slice(&(self.counted + 1).to_le_bytes())).await?;
        self.counted += 1;
        Ok(())
    }
}

impl Daemon for Counter {
    type Message = ();
    type Answer = ();

    async fn start(&mut self, ctx: &mut Context) -> Result<(), Fault> {
        let ward = self.ward()?;
        ward.net.awake(self.by.0).await;
        self.live = Some(Live::begin(&ward, (ctx.generation(), ctx.index()), self.by));
        if let Some(state) = ctx.state() {
            self.counted = u64::from_le_bytes(state.as_ref().try_into()?);
        }
        assert!(ctx.every("count", PERIOD), "there is room for a timer");
        Ok(())
    }

    async fn on_message(&mut self, _: &mut Context, (): ()) -> Result<(), Fault> {
        Ok(())
    }

    async fn on_timer(&mut self, ctx: &mut Context, _: &str) -> Result<(), Fault> {
        self.count(ctx).await
    }

    /// Its last number: whatever works after it would be seen to have worked too early.
    async fn stop(&mut self, ctx: &mut Context) {
        drop(self.count(ctx).await);
    }
}

fn sets(ward: &Arc<Ward>, count: u32, by: (usize, u64)) -> Vec<ShardedDaemonProcess> {
    let ward = Arc::downgrade(ward);
    let other = if count == FEW { MANY } else { FEW };
    let set = ShardedDaemonProcess::new(SET, count).rescale_from(other);
    // The storm ends many of them: none is parked for that here.
    let set = set.restarts(10_000, Duration::from_secs(60)).backoff(Duration::from_millis(100));
    vec![set.factory(move |_| Counter { ward: ward.clone(), by, counted: 0, live: None })]
}

impl Worker {
    /// A new life; `None` when the store or the cluster did not let it in.
    async fn start(ward: &Arc<Ward>, index: usize, life: u64) -> Option<Arc<Self>> {
        let dead = Arc::new(AtomicBool::new(false));
        let store = Client::open(&ward.store, index, life, dead.clone());
        let (tasks, clock) = (Tasks::new(Shutdown::new()), ward.net.clock.clone());
        let (rng, build) = (ward.net.rng(&format!("node {index} {life}")), ward.build.load(Ordering::SeqCst));
        let (sets, name) = (sets(ward, build, (index, life)), format!("n{index}"));
        let info = MemberInfo {
            node: name.clone(),
            roles: [String::from("room")].into_iter().chain(daemon::roles(&sets)).collect(),
            version: build.to_string(),
            revision: 0,
            link: name,
            public_url: String::new(),
            zone_data: String::new(),
        };
        let options = Options { shards: SHARDS, times: times(), thread: LeaseThread::Task, ..Options::default() };
        let own = async {
            daemon::agree(&store, &sets).await?;
            Ownership::start(store.clone(), clock.clone(), rng.clone(), options, info, &tasks).await
        };
        let ownership = match own.await {
            Ok(ownership) => ownership,
            Err(error) => {
                ward.net.log(&format!("node {index} life {life}: {error}"));
                dead.store(true, Ordering::SeqCst);
                return None;
            }
        };
        let lease = times();
        let daemons = Daemons::launch(DaemonParts {
            sets,
            store,
            ownership: ownership.clone(),
            clock: clock.clone(),
            rng,
            times: daemon::Times {
                heartbeat: lease.heartbeat,
                ttl: lease.ttl,
                deadline: lease.deadline,
                claim_check: lease.claim_check,
                stop_grace: Duration::from_secs(1),
                ..daemon::Times::default()
            },
            peers: None,
            wake: None,
            kill: Box::new(|daemon: &str| eprintln!("{daemon} blocks its thread")),
            tasks: tasks.clone(),
            threads: tokio::runtime::Handle::current(),
        });
        let (giving, stop) = (ownership.clone(), tasks.shutdown().clone());
        // Shards have no rooms here: they are given at once.
        tokio::spawn(async move {
            while !stop.is_stopped() {
                for (shard, _) in giving.gives() {
                    if let Some(fence) = giving.fence(shard) {
                        giving.gave(&fence).await;
                    }
                }
                clock.sleep(Duration::from_millis(50)).await;
            }
        });
        Some(Arc::new(Self { ownership, daemons, tasks, dead, build, life }))
    }

    /// As kill -9: nothing more is sent.
    fn crash(&self) {
        self.dead.store(true, Ordering::SeqCst);
        self.tasks.shutdown().stop();
    }

    /// As SIGTERM.
    async fn leave(&self, clock: &Clock) {
        let leaves = async {
            self.ownership.drain().await;
            self.daemons.drain().await;
            clock.sleep(Duration::from_millis(500)).await;
            self.daemons.leave().await;
            self.ownership.leave().await;
        };
        tokio::select! {
            biased;
            () = leaves => {}
            () = clock.sleep(Duration::from_secs(4)) => {}
        }
    }
}

impl Ward {
    fn node(&self, index: usize) -> Option<Arc<Worker>> {
        self.nodes.lock().expect("nodes")[index].clone()
    }

    /// Whether all nodes serve, with the build that is deployed.
    fn is_deployed(&self) -> bool {
        let build = self.build.load(Ordering::SeqCst);
        self.nodes.lock().expect("nodes").iter().flatten().filter(|node| node.build == build).count() == NODES
    }

    /// Whether the daemons of the deployed build all work.
    fn is_whole(&self) -> bool {
        let live = self.live.lock().expect("live");
        let indices: Vec<u32> = live.keys().map(|(_, index)| *index).collect();
        indices == (0..self.build.load(Ordering::SeqCst)).collect::<Vec<_>>()
    }
}

async fn keep(ward: Arc<Ward>, index: usize, crashed: Arc<Notify>) {
    let rng = ward.net.rng(&format!("keeper {index}"));
    for life in 1.. {
        if let Some(node) = Worker::start(&ward, index, life).await {
            ward.net.log(&format!("node {index} life {life} serves {}", node.build));
            ward.nodes.lock().expect("nodes")[index] = Some(node);
            crashed.notified().await;
            ward.net.log(&format!("node {index} life {life} ends"));
            if let Some(node) = ward.nodes.lock().expect("nodes")[index].take() {
                node.crash();
            }
        }
        ward.net.clock.sleep(Duration::from_millis(200 + rng.below(1_500))).await;
    }
}

/// Each node in turn is replaced by one of another build.
async fn deploys(ward: Arc<Ward>, crashed: Vec<Arc<Notify>>) {
    for (at, build) in DEPLOYS {
        ward.net.clock.sleep_until(Mono::default().plus(at)).await;
        ward.net.log(&format!("{build} daemons are deployed"));
        ward.build.store(build, Ordering::SeqCst);
        // Who was just starting is of the former build yet.
        while !ward.is_deployed() {
            for (index, crashed) in crashed.iter().enumerate() {
                let Some(node) = ward.node(index).filter(|node| node.build != build) else { continue };
                ward.net.log(&format!("node {index} life {} drains", node.life));
                node.leave(&ward.net.clock).await;
                if ward.node(index).is_some_and(|now| now.life == node.life) {
                    crashed.notify_one();
                }
            }
            ward.net.clock.sleep(Duration::from_millis(500)).await;
        }
    }
}

async fn storm(ward: &Ward, crashed: &[Arc<Notify>], rng: &Rng) -> Counts {
    let (mut counts, end) = (Counts::default(), Mono::default().plus(STORMY));
    let millis = |least: u64, most: u64| Duration::from_millis(least + rng.below(most - least));
    while ward.net.clock.now() < end {
        ward.net.clock.sleep(millis(300, 2_500)).await;
        let node = usize::try_from(rng.below(NODES as u64)).expect("small");
        let by = millis(300, 3_500);
        match rng.below(5) {
            0 => {
                counts.crashes += 1;
                crashed[node].notify_one();
            }
            1 => {
                counts.pauses += 1;
                ward.net.log(&format!("node {node} is paused for {by:?}"));
                ward.net.pause(node, by);
            }
            2 => {
                counts.outages += 1;
                ward.net.log(&format!("the store is away for {by:?}"));
                ward.net.store_outage(by);
            }
            3 => {
                counts.cuts += 1;
                ward.net.log(&format!("node {node} does not reach the store for {by:?}"));
                ward.net.cut_store(node, by);
            }
            _ => ward.net.lossy(50 + rng.below(250), by),
        }
    }
    counts
}

/// H10: each of them works again within a bound, and goes on from what it stored.
async fn verdict(ward: &Ward) {
    let clock = &ward.net.clock;
    let is_well = || ward.net.is_calm() && ward.is_deployed();
    let (mut well, patience) = (None, clock.now().plus(Duration::from_secs(60)));
    while !(is_well() && ward.is_whole()) {
        let now = clock.now();
        well = is_well().then(|| well.unwrap_or(now));
        if well.is_some_and(|since| now.since(since) > WHOLE) || now > patience {
            let live: Vec<At> = ward.live.lock().expect("live").keys().copied().collect();
            return ward.checks.wrong(format!("H10: only {live:?} run, and all nodes are well since {well:?}"));
        }
        clock.sleep(Duration::from_millis(50)).await;
    }
    // All of them go on counting. One that is given to another node for balance is away for a moment.
    let (before, since) = (ward.checks.counts(), clock.now());
    loop {
        let after = ward.checks.counts();
        let live: Vec<At> = ward.live.lock().expect("live").keys().copied().collect();
        let key = |at: &At| format!("daemon/{SET}@{}/{}", at.0, at.1);
        let stand: Vec<&At> = live.iter().filter(|at| after.get(&key(at)) <= before.get(&key(at))).collect();
        if stand.is_empty() && ward.is_whole() {
            return;
        }
        if clock.now().since(since) > WHOLE {
            return ward.checks.wrong(format!("H10: of {live:?}, which run, {stand:?} do not count any more"));
        }
        clock.sleep(PERIOD).await;
    }
}

async fn play(seed: u64, broken: Break) -> Outcome {
    let clock = Clock::of_runtime(START);
    let net = Net::new(clock.clone(), seed);
    let checks = Arc::<Checks>::default();
    let ward = Arc::new(Ward {
        store: Host::new(net.clone(), checks.clone(), broken),
        net: net.clone(),
        checks: checks.clone(),
        build: AtomicU32::new(FEW),
        live: Mutex::default(),
        starts: AtomicU64::new(0),
        nodes: Mutex::new(vec![None; NODES]),
    });
    let crashed: Vec<Arc<Notify>> = (0..NODES).map(|_| Arc::default()).collect();
    for (index, crashed) in crashed.iter().enumerate() {
        tokio::spawn(keep(ward.clone(), index, crashed.clone()));
    }
    let deployed = tokio::spawn(deploys(ward.clone(), crashed.clone()));
    let mut counts = storm(&ward, &crashed, &net.rng("storm")).await;
    deployed.await.expect("deploys");
    net.log("calm");
    verdict(&ward).await;
    counts.starts = ward.starts.load(Ordering::SeqCst);
    counts.rescales = checks.generations().saturating_sub(1);
    let (hash, log) = net.end();
    Outcome { seed, hash, log, wrong: checks.end(), counts }
}

/// One seed, from beginning to end.
pub fn run(seed: u64, broken: Break) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(play(seed, broken))
}
