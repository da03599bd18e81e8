//! A simulated node: the real ownership and the real room host, rooms as tasks, and links to gateways that are slow and may be cut.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tenure::{
    handoff::{Handoff, HandoffParts},
    link::{Address, Downlink, Node as _, Peers, ToGateway, ToNode, Uplink},
    ownership::{LeaseThread, Options, Ownership, Times},
    room::host::{HostConfig, HostParts, RoomHost},
    runtime::{Clock, Shutdown, Tasks, mailbox::Refused},
    store::MemberInfo,
    timers::LiveBook,
};
use tenure_shared::RoomId;
use tokio::sync::mpsc;

use crate::{
    breaks::Break,
    checks::Checks,
    cluster::{SHARDS, Sim},
    gateway::Gateway,
    lab,
    moves::Way,
    net::Net,
    peers::SimPeers,
    room_tasks::{Awake, RoomTasks},
    store::Client,
};

/// Messages on a link.
const LINK: usize = 4_096;

/// Deadlines of moves.
const STEP: Duration = Duration::from_millis(800);
const PREPARED: Duration = Duration::from_secs(2);

/// A life of a node.
pub struct Node {
    pub host: Arc<RoomHost>,
    pub ownership: Ownership,
    pub handoff: Option<Arc<Handoff>>,
    tasks: Tasks,
    dead: Arc<AtomicBool>,
    links: Mutex<BTreeMap<usize, Arc<Link>>>,
    checks: Arc<Checks>,
    pub index: usize,
    pub life: u64,
}

pub fn times() -> Times {
    Times {
        ttl: Duration::from_millis(1_500),
        heartbeat: Duration::from_millis(400),
        deadline: Duration::from_millis(300),
        margin: Duration::from_millis(250),
        claim_check: Duration::from_millis(2_000),
    }
}

fn config() -> HostConfig {
    HostConfig {
        shards: SHARDS,
        checkpoint_every: Duration::from_millis(400),
        idle_after: Duration::from_secs(600),
        retry_delay: Duration::from_millis(50),
        // Nothing here runs on a thread.
        stall_after: Duration::from_secs(86_400),
        ..HostConfig::default()
    }
}

impl Node {
    /// A new life; `None` when the store did not let it in.
    pub async fn start(sim: &Arc<Sim>, index: usize, life: u64) -> Option<Arc<Self>> {
        let dead = Arc::new(AtomicBool::new(false));
        let store = Client::open(&sim.store, index, life, dead.clone());
        let tasks = Tasks::new(Shutdown::new());
        let rng = sim.net.rng(&format!("node {index} {life}"));
        let name = format!("n{index}");
        let info = MemberInfo {
            node: name.clone(),
            roles: vec!["room".to_owned()],
            version: String::new(),
            revision: 0,
            link: name.clone(),
            public_url: String::new(),
            zone_data: String::new(),
        };
        let options = Options { shards: SHARDS, times: times(), thread: LeaseThread::Task, ..Options::default() };
        let clock = sim.net.clock.clone();
        let started = Ownership::start(store.clone(), clock.clone(), rng.clone(), options, info, &tasks).await;
        let Ok(ownership) = started else {
            dead.store(true, Ordering::SeqCst);
            return None;
        };
        let stopped = Arc::new(AtomicBool::new(false));
        let net = sim.net.clone();
        let awake: Awake = Arc::new(move || {
            let net = net.clone();
            Box::pin(async move { net.awake(index).await })
        });
        let executor = RoomTasks::new(sim.net.clock.clone(), awake, stopped);
        let (watching, gone) = (Arc::downgrade(sim), dead.clone());
        let watch = move |room: &RoomId| {
            if let Some(sim) = watching.upgrade().filter(|_| !gone.load(Ordering::SeqCst)) {
                sim.ticks(room, (index, life));
            }
        };
        let outside = lab::Outside { watch: Some(Box::new(watch)), ..lab::Outside::default() };
        outside.starts_again.store(sim.broken == Break::Start, Ordering::SeqCst);
        let host = RoomHost::start(HostParts {
            kinds: vec![lab::kind(&sim.views, &Arc::new(outside))],
            store,
            ownership: ownership.clone(),
            clock: clock.clone(),
            rng,
            config: config(),
            book: LiveBook::default(),
            tasks: tasks.clone(),
            executor: Some(Arc::new(executor)),
            kill: Box::new(|room: &str| eprintln!("{room} hangs")),
        });
        let host = Arc::new(host.expect("a host"));
        let peers: Option<Arc<dyn Peers>> = match sim.way {
            Way::Handed => Some(SimPeers::open(sim, index, life, dead.clone())),
            Way::Deaf | Way::Plain | Way::Former => None,
        };
        let handoff = matches!(sim.way, Way::Handed | Way::Deaf).then(|| {
            Handoff::start(HandoffParts {
                hands: host.hands(),
                ownership: ownership.clone(),
                peers,
                own: Address::from(name.as_str()),
                clock,
                tasks: tasks.clone(),
                times: tenure::handoff::state::Times { step: STEP, prepared: PREPARED },
            })
        });
        Some(Arc::new(Self {
            host,
            ownership,
            handoff,
            tasks,
            dead,
            links: Mutex::default(),
            checks: sim.checks.clone(),
            index,
            life,
        }))
    }

    /// As kill -9: nothing more is sent. What was sent may still arrive.
    pub fn crash(&self) {
        self.dead.store(true, Ordering::SeqCst);
        self.tasks.shutdown().stop();
        for (_, link) in std::mem::take(&mut *self.links.lock().expect("links")) {
            link.cut();
        }
    }

    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    /// The link of a gateway, opened if there is none.
    pub fn link(self: &Arc<Self>, gateway: &Arc<Gateway>, net: &Arc<Net>) -> Arc<Link> {
        let mut links = self.links.lock().expect("links");
        if let Some(link) = links.get(&gateway.index).filter(|link| !link.is_cut()) {
            return link.clone();
        }
        let link = Link::open(self, gateway, net);
        links.insert(gateway.index, link.clone());
        link
    }

    /// The link to a gateway breaks. It hears of that before it opens another one, also if the node is paused: what was on its way is lost, and
    /// what comes behind it must not overtake it.
    pub fn cut(&self, gateway: &Gateway) {
        let link = self.links.lock().expect("links").remove(&gateway.index);
        if let Some(link) = link {
            link.cut();
            link.told.store(true, Ordering::SeqCst);
            gateway.broken(self.index, self.life);
        }
    }
}

/// A link between a gateway and a life of a node.
pub struct Link {
    up: mpsc::Sender<ToNode>,
    gone: Shutdown,
    /// The gateway knows that it has ended.
    told: AtomicBool,
    pub node: usize,
    pub life: u64,
}

struct Down {
    to: mpsc::Sender<ToGateway>,
    gone: Shutdown,
    checks: Arc<Checks>,
    clock: Clock,
    node: (usize, u64),
}

impl Downlink for Down {
    fn send(&self, message: ToGateway) -> Result<(), Refused<ToGateway>> {
        if self.gone.is_stopped() {
            return Err(Refused::Closed(message));
        }
        if let ToGateway::Frame(frame) = &message {
            self.checks.ticked(&frame.room, (frame.term, frame.tick), self.node, self.clock.now());
        }
        self.to.try_send(message).map_err(|error| match error {
            mpsc::error::TrySendError::Full(message) => Refused::Full(message),
            mpsc::error::TrySendError::Closed(message) => Refused::Closed(message),
        })
    }
}

impl Link {
    fn open(node: &Arc<Node>, gateway: &Arc<Gateway>, net: &Arc<Net>) -> Arc<Self> {
        let (up, mut sent) = mpsc::channel::<ToNode>(LINK);
        let (to, mut said) = mpsc::channel::<ToGateway>(LINK);
        let gone = Shutdown::new();
        let uplink: Arc<dyn Uplink> = node.host.connect(Arc::new(Down {
            to,
            gone: gone.clone(),
            checks: node.checks.clone(),
            clock: net.clock.clone(),
            node: (node.index, node.life),
        }));
        let link =
            Arc::new(Self { up, gone: gone.clone(), told: AtomicBool::new(false), node: node.index, life: node.life });
        let rng = net.rng(&format!("link {} {} {}", node.index, node.life, gateway.index));

        let (clock, net_up, index, down_rng) = (net.clock.clone(), net.clone(), node.index, rng.fork());
        let gone_up = gone.clone();
        tokio::spawn(async move {
            loop {
                let message = tokio::select! {
                    biased;
                    () = gone_up.stopped() => return,
                    message = sent.recv() => message,
                };
                let Some(message) = message else { return };
                clock.sleep(Duration::from_micros(100 + rng.below(2_000))).await;
                net_up.awake(index).await;
                let mut message = message;
                loop {
                    if gone_up.is_stopped() {
                        return;
                    }
                    match uplink.send(message) {
                        Ok(()) => break,
                        Err(Refused::Full(back)) => message = back,
                        Err(Refused::Closed(_)) => break,
                    }
                    clock.sleep(Duration::from_millis(2)).await;
                }
            }
        });

        let (gateway, net, here) = (gateway.clone(), net.clone(), link.clone());
        let (node, life) = (node.index, node.life);
        tokio::spawn(async move {
            loop {
                let message = tokio::select! {
                    biased;
                    () = gone.stopped() => break,
                    message = said.recv() => message,
                };
                let Some(message) = message else { break };
                net.clock.sleep(Duration::from_micros(100 + down_rng.below(12_000))).await;
                net.awake(node).await;
                if gone.is_stopped() {
                    break;
                }
                gateway.hear(node, life, &message);
            }
            gone.stop();
            if !here.told.load(Ordering::SeqCst) {
                gateway.broken(node, life);
            }
        });
        link
    }

    pub fn send(&self, message: ToNode) -> bool {
        !self.is_cut() && self.up.try_send(message).is_ok()
    }

    pub fn is_cut(&self) -> bool {
        self.gone.is_stopped()
    }

    pub fn cut(&self) {
        self.gone.stop();
    }
}
