//! One run: a cluster, players, faults drawn from the seed, a quiet end, and the verdict of the checkers.

use std::{
    ops::AddAssign,
    sync::{Arc, Mutex},
    time::Duration,
};

use tenure::{
    runtime::{Clock, Rng, Wall},
    store::{Command, Reply},
};
use tenure_shared::{RoomId, ShardId};

use crate::{
    bot::Bot,
    breaks::Break,
    checks::{Checks, node_of},
    forgets::{failovers, forgets},
    gateway::Gateway,
    lab::Views,
    moves::{self, Ends, Moves, Way},
    net::{NODES, Net},
    node::{Link, Node},
    store::Host,
    verdict::verdict,
};

pub const SHARDS: u32 = 3;
const BOTS: usize = 4;
/// What each bot says.
const WORDS: usize = 60;
/// How long faults are made.
pub const STORMY: Duration = Duration::from_secs(10);
pub const START: Wall = Wall(1_764_446_400_000_000);

#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub crashes: u64,
    pub pauses: u64,
    pub outages: u64,
    pub cuts: u64,
    pub resumes: u64,
    pub takeovers: u64,
    pub failovers: u64,
    pub inputs: u64,
    /// Of runs with daemons: how often one started, and how often their number changed.
    pub starts: u64,
    pub rescales: u64,
    pub moves: Moves,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.crashes += other.crashes;
        self.pauses += other.pauses;
        self.outages += other.outages;
        self.cuts += other.cuts;
        self.resumes += other.resumes;
        self.takeovers += other.takeovers;
        self.failovers += other.failovers;
        self.inputs += other.inputs;
        self.starts += other.starts;
        self.rescales += other.rescales;
        self.moves += other.moves;
    }
}

pub struct Outcome {
    pub seed: u64,
    pub hash: u64,
    pub log: Vec<String>,
    pub wrong: Vec<String>,
    pub counts: Counts,
}

/// Everything of a run.
pub struct Sim {
    pub net: Arc<Net>,
    pub store: Arc<Host>,
    pub checks: Arc<Checks>,
    pub views: Views,
    pub broken: Break,
    pub way: Way,
    gateways: Vec<Arc<Gateway>>,
    nodes: Mutex<Vec<Option<Arc<Node>>>>,
}

impl Sim {
    pub fn node(&self, index: usize) -> Option<Arc<Node>> {
        self.nodes.lock().expect("nodes")[index].clone()
    }

    /// The node that is in a shard's claim.
    pub fn owner(&self, shard: ShardId) -> Option<usize> {
        node_of(&self.store.claim(shard)?.0?)
    }

    /// H1: whoever ticks a room is in its shard's claim. Not while owners have not seen yet what the store forgot.
    pub fn ticks(&self, room: &RoomId, by: (usize, u64)) {
        if self.checks.forgives(self.net.clock.now()) {
            return;
        }
        let owner = self.owner(room.shard(SHARDS));
        if owner != Some(by.0) {
            self.checks.wrong(format!("H1: {by:?} ticks {room}, which is node {owner:?}'s"));
        }
    }

    pub fn link(&self, gateway: usize, node: usize) -> Option<Arc<Link>> {
        Some(self.node(node)?.link(&self.gateways[gateway], &self.net))
    }

    /// What the rooms show: rewards among it.
    pub fn look(&self) {
        let views = self.views.lock().expect("views").clone();
        for view in views.values() {
            for id in &view.book.granted {
                self.checks.rewarded(id, || self.store.has_grant(id));
            }
        }
    }
}

/// Keeps a node alive: starts it, and again after a crash.
async fn keep(sim: Arc<Sim>, index: usize, crashed: Arc<tokio::sync::Notify>) {
    let rng = sim.net.rng(&format!("keeper {index}"));
    for life in 1.. {
        match Node::start(&sim, index, life).await {
            Some(node) => {
                sim.net.log(&format!("node {index} life {life} serves"));
                sim.nodes.lock().expect("nodes")[index] = Some(node);
                crashed.notified().await;
                sim.net.log(&format!("node {index} life {life} crashes"));
                if let Some(node) = sim.nodes.lock().expect("nodes")[index].take() {
                    node.crash();
                }
            }
            None => sim.net.log(&format!("node {index} life {life} was not let in")),
        }
        sim.net.clock.sleep(Duration::from_millis(300 + rng.below(3_000))).await;
    }
}

fn room_of(shard: u32) -> RoomId {
    let rooms = (0..).map(|n| RoomId::from_parts("lab", "eu", &format!("r{n}")).expect("a name"));
    rooms.into_iter().find(|room| room.shard(SHARDS) == ShardId(shard)).expect("some room")
}

async fn storm(sim: &Arc<Sim>, bots: &[Arc<Bot>], crashed: &[Arc<tokio::sync::Notify>], rng: &Rng) -> Counts {
    let mut counts = Counts::default();
    let end = sim.net.clock.now().plus(STORMY);
    let millis = |least: u64, most: u64| Duration::from_millis(least + rng.below(most - least));
    while sim.net.clock.now() < end {
        sim.net.clock.sleep(millis(100, 1_500)).await;
        let node = usize::try_from(rng.below(NODES as u64)).expect("small");
        match rng.below(8) {
            0 | 1 => {
                counts.crashes += 1;
                crashed[node].notify_one();
            }
            2 => {
                let by = millis(300, 4_000);
                counts.pauses += 1;
                sim.net.log(&format!("node {node} is paused for {by:?}"));
                sim.net.pause(node, by);
            }
            3 => {
                let by = millis(200, 3_500);
                counts.outages += 1;
                sim.net.log(&format!("the store is away for {by:?}"));
                sim.net.store_outage(by);
            }
            4 => {
                let by = millis(300, 3_500);
                counts.cuts += 1;
                sim.net.log(&format!("node {node} does not reach the store for {by:?}"));
                sim.net.cut_store(node, by);
            }
            5 => {
                counts.cuts += 1;
                let gateway = usize::try_from(rng.below(2)).expect("small");
                sim.net.log(&format!("the link of gateway {gateway} and node {node} breaks"));
                if let Some(node) = sim.node(node) {
                    node.cut(&sim.gateways[gateway]);
                }
            }
            6 => sim.net.lossy(50 + rng.below(250), millis(200, 2_000)),
            _ => {
                counts.resumes += 1;
                bots[usize::try_from(rng.below(BOTS as u64)).expect("small")].change_gateway(sim);
            }
        }
    }
    counts
}

async fn play(seed: u64, broken: Break, ends: &Ends) -> Outcome {
    let clock = Clock::of_runtime(START);
    let net = Net::new(clock.clone(), seed);
    let checks = Arc::<Checks>::default();
    let sim = Arc::new(Sim {
        store: Host::new(net.clone(), checks.clone(), broken),
        net: net.clone(),
        checks: checks.clone(),
        views: Views::default(),
        broken,
        way: Way::of(seed),
        gateways: vec![Gateway::new(0), Gateway::new(1)],
        nodes: Mutex::new(vec![None; NODES]),
    });
    let crashed: Vec<Arc<tokio::sync::Notify>> = (0..NODES).map(|_| Arc::default()).collect();
    for (index, crashed) in crashed.iter().enumerate() {
        tokio::spawn(keep(sim.clone(), index, crashed.clone()));
    }
    let bots: Vec<Arc<Bot>> = (0..BOTS)
        .map(|index| Bot::new(&sim, index, room_of(u32::try_from(index).expect("small") % SHARDS), WORDS))
        .collect();
    for bot in &bots {
        sim.gateways.iter().for_each(|gateway| gateway.add(bot));
        let (sim, bot, rng) = (sim.clone(), bot.clone(), net.rng(&format!("pace {}", bot.player)));
        tokio::spawn(async move {
            loop {
                bot.step(&sim);
                sim.net.clock.sleep(Duration::from_millis(30 + rng.below(250))).await;
            }
        });
    }
    let looking = sim.clone();
    tokio::spawn(async move {
        loop {
            looking.look();
            looking.net.clock.sleep(Duration::from_millis(25)).await;
        }
    });
    let end = clock.now().plus(STORMY);
    let planned = (sim.way != Way::Former).then(|| {
        let deploys = tokio::spawn(moves::deploys(sim.clone(), crashed.clone(), end));
        (deploys, tokio::spawn(moves::aimed(sim.clone(), crashed.clone(), end)))
    });
    let failovers = forgets(seed).then(|| tokio::spawn(failovers(sim.clone(), seed, end)));
    let mut counts = storm(&sim, &bots, &crashed, &net.rng("storm")).await;
    if let Some((deploys, aimed)) = planned {
        counts.moves.drains = deploys.await.expect("deploys");
        counts.moves.aimed = aimed.await.expect("aimed");
    }
    if let Some(failovers) = failovers {
        counts.failovers = failovers.await.expect("failovers");
    }
    net.log("calm");
    verdict(&sim, &bots).await;
    (counts.moves.prepared, counts.moves.anew) = checks.prepared();
    counts.moves.moved = ends.count(&["moved"]);
    counts.moves.doubts = ends.count(&["doubt"]);
    counts.moves.aborts = ends.count(&["late", "unreachable", "not_ready", "differs"]);
    counts.moves.refused = ends.count(&["refused"]);
    counts.inputs = (BOTS * WORDS) as u64;
    for shard in (0..SHARDS).map(ShardId) {
        let history = sim.store.ask(Command::History { key: tenure::store::Key::shard(shard) });
        if let Ok(Reply::History(lines)) = history.reply {
            counts.takeovers += lines.iter().filter(|line| line.cause == "takeover").count() as u64;
        }
    }
    let (hash, log) = net.end();
    Outcome { seed, hash, log, wrong: checks.end(), counts }
}

/// One seed, from beginning to end.
pub fn run(seed: u64, broken: Break) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let (runtime, ends) = (runtime.expect("a runtime"), Ends::default());
    metrics::with_local_recorder(&ends, || runtime.block_on(play(seed, broken, &ends)))
}
