//! One run: a cluster, players, faults drawn from the seed, a quiet end, and the verdict of the checkers.

use std::{
    collections::BTreeSet,
    ops::AddAssign,
    sync::{Arc, Mutex},
    time::Duration,
};

use tenure::{
    runtime::{Clock, Rng, Wall},
    store::{Command, Reply},
};
use tenure_shared::{PlayerId, RoomId, ShardId};

use crate::{
    bot::Bot,
    checks::{Checks, node_of},
    gateway::Gateway,
    lab::{Say, Views},
    moves::{self, Ends, Moves, Way},
    net::{NODES, Net},
    node::{Link, Node},
    said,
    store::Host,
};

pub const SHARDS: u32 = 3;
const BOTS: usize = 4;
/// What each bot says.
const WORDS: usize = 60;
/// How long faults are made, and how long everything may take to be well after the last of them.
pub const STORMY: Duration = Duration::from_secs(10);
const CALM: Duration = Duration::from_secs(40);
/// How long a shard may be without an owner when all nodes are well: a lease and five seconds.
const SERVED: Duration = Duration::from_millis(1_500 + 5_000);
const START: Wall = Wall(1_764_446_400_000_000);

/// A rule that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    Nothing,
    /// The store takes commits under stale fences.
    Fence,
    /// Gateways show what is older than what they showed.
    Floor,
    /// Gateways forget what was not saved.
    Ring,
    /// The ledger takes a grant twice.
    Ledger,
    /// A target takes its worlds for its own as soon as they stand ready.
    Ready,
    /// The store gives no claim to anybody after the storm.
    Claims,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub crashes: u64,
    pub pauses: u64,
    pub outages: u64,
    pub cuts: u64,
    pub resumes: u64,
    pub takeovers: u64,
    pub inputs: u64,
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
        self.inputs += other.inputs;
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

    /// H1: whoever ticks a room is in its shard's claim.
    pub fn ticks(&self, room: &RoomId, by: (usize, u64)) {
        let owner = self.owner(room.shard(SHARDS));
        if owner != Some(by.0) {
            self.checks.wrong(format!("H1: {by:?} ticks {room}, which is node {owner:?}'s"));
        }
    }

    pub fn link(&self, gateway: usize, node: usize) -> Option<Arc<Link>> {
        Some(self.node(node)?.link(&self.gateways[gateway], &self.net))
    }

    /// What the rooms show: rewards among it.
    fn look(&self) {
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

async fn verdict(sim: &Arc<Sim>, bots: &[Arc<Bot>]) {
    let checks = &sim.checks;
    let clock = &sim.net.clock;
    let end = clock.now().plus(CALM);
    let outbox_empty = || {
        (0..SHARDS).all(|shard| {
            let outbox = Command::Outbox { shard: ShardId(shard), after: 0, limit: 1 };
            matches!(sim.store.ask(outbox).reply, Ok(Reply::Outbox(entries)) if entries.is_empty())
        })
    };
    let work_done = || {
        (0..SHARDS).all(|shard| {
            let work = Command::Work { shard: ShardId(shard), after: None, limit: 10 };
            matches!(sim.store.ask(work).reply, Ok(Reply::Work(items)) if items.iter().all(|item| &*item.id.job != "job"))
        })
    };
    let is_served = |shard: ShardId| {
        let owner = sim.owner(shard).and_then(|node| sim.node(node));
        owner.is_some_and(|node| node.ownership.fence(shard).is_some())
    };
    let unserved = || (0..SHARDS).map(ShardId).find(|shard| !is_served(*shard));
    let mut healthy = None;
    let mut served = [clock.now(); SHARDS as usize];
    while !(bots.iter().all(|bot| bot.is_done()) && outbox_empty() && work_done() && unserved().is_none()) {
        if clock.now() >= end {
            for bot in bots.iter().filter(|bot| !bot.is_done()) {
                checks.wrong(format!("H5/H7: {} long after the last fault", bot.describe()));
            }
            if !outbox_empty() || !work_done() {
                checks.wrong("H5/H6: work or grants wait long after the last fault".to_owned());
            }
            if let Some(shard) = unserved() {
                checks.wrong(format!("H9: nobody serves shard {shard} long after the last fault"));
            }
            return;
        }
        let now = clock.now();
        let well = sim.net.is_calm() && (0..NODES).all(|node| sim.node(node).is_some());
        healthy = well.then(|| healthy.unwrap_or(now));
        for (shard, at) in (0..SHARDS).map(ShardId).zip(&mut served) {
            *at = if is_served(shard) { now } else { *at };
            if let Some(since) = healthy.map(|healthy| healthy.max(*at)).filter(|since| now.since(*since) > SERVED) {
                checks.wrong(format!("C28: nobody serves shard {shard} since {since:?}, while all nodes are well"));
                return;
            }
        }
        clock.sleep(Duration::from_millis(50)).await;
    }
    // What the last answers say is in the rooms a few ticks later.
    clock.sleep(Duration::from_millis(500)).await;
    sim.look();
    let views = sim.views.lock().expect("views").clone();
    for (room, view) in &views {
        let here: Vec<_> = bots.iter().filter(|bot| bot.room.as_str() == room).collect();
        let mut work = BTreeSet::new();
        let mut gifts = BTreeSet::from([0]);
        for bot in here {
            let lives = bot.lives();
            let said = lives.iter().flat_map(|life| &life.said);
            work.extend(said.filter_map(|say| if let Say::Later(key, _) = say { Some(key.clone()) } else { None }));
            let applied = view.book.applied.get(&bot.player).cloned().unwrap_or_default();
            let paid = match said::judge(&lives, &applied, &view.book.done) {
                Ok(paid) => paid,
                Err(wrong) => {
                    let (rule, what) = wrong.split_once(": ").expect("a rule");
                    checks.wrong(format!("{rule}: {} {what}", bot.player));
                    continue;
                }
            };
            let player = PlayerId::new(&bot.player).expect("a name");
            let Ok(Reply::Balances(balances)) = sim.store.ask(Command::Balances { player }).reply else {
                panic!("balances")
            };
            let gold = balances.iter().find(|(currency, _)| currency == "gold").map_or(0, |(_, gold)| *gold);
            let fits: BTreeSet<usize> = paid.iter().filter(|paid| paid.0 == gold).map(|paid| paid.1).collect();
            if fits.is_empty() {
                checks.wrong(format!("H6: {} has {gold} gold and was given {paid:?}", bot.player));
            }
            gifts = gifts.iter().flat_map(|n| fits.iter().map(move |m| n + m)).collect();
        }
        // What is done belongs to what was said, and is done once; that all of it is done was judged.
        work.retain(|key| view.book.done.contains(key));
        checks.once("work", &work, &view.book.done);
        let granted: BTreeSet<String> = view.book.granted.iter().cloned().collect();
        if granted.len() != view.book.granted.len() || !(gifts.is_empty() || gifts.contains(&granted.len())) {
            let told = view.book.granted.len();
            checks.wrong(format!("H6: {gifts:?} gifts, {told} told, {} of them different", granted.len()));
        }
        let (started, added, observed) = (view.book.started, view.book.added, view.book.observed);
        if (started, observed) != (1, 1) || added > 1 {
            checks.wrong(format!("H12: {room} started {started} times, {added} added, {observed} observed"));
        }
    }
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
    let mut counts = storm(&sim, &bots, &crashed, &net.rng("storm")).await;
    if let Some((deploys, aimed)) = planned {
        counts.moves.drains = deploys.await.expect("deploys");
        counts.moves.aimed = aimed.await.expect("aimed");
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
