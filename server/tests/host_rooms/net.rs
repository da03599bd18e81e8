//! Nodes that hand shards over, the network between them, which a test can disturb, and a player who never stops.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use tenure::{
    handoff::{Handoff, HandoffParts, state::Times},
    link::{Address, Attempt, Handoff as Step, PeerBody, PeerInbox, PeerMessage, Peers},
    runtime::mailbox::Refused,
};
use tenure_shared::{RoomId, ShardId};

use crate::{
    harness::{Gateway, Node, SHARDS, World},
    lab::Say,
    moves::{applied, world_without_checkpoints},
    player::{Player, room_of},
    weather::Weather,
};

pub const TIMES: Times = Times { step: Duration::from_millis(700), prepared: Duration::from_secs(3) };
/// C28: one owner again within the lease and five seconds.
pub const BOUND: Duration = Duration::from_millis(5_900);

/// A kind of message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Offer,
    Ready,
    Refuse,
    Package,
    Prepared,
    Transferred,
    Abort,
}

pub const ALL: [Kind; 7] =
    [Kind::Offer, Kind::Ready, Kind::Refuse, Kind::Package, Kind::Prepared, Kind::Transferred, Kind::Abort];

fn kind(step: &Step) -> Kind {
    match step {
        Step::Offer { .. } => Kind::Offer,
        Step::Ready => Kind::Ready,
        Step::Refuse { .. } => Kind::Refuse,
        Step::Package(_) => Kind::Package,
        Step::Prepared { .. } => Kind::Prepared,
        Step::Transferred { .. } => Kind::Transferred,
        Step::Abort => Kind::Abort,
    }
}

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Lost,
    /// Until [`Net::release`].
    Held,
    /// It comes three times.
    Repeated,
}

struct Rule {
    kind: Kind,
    shard: ShardId,
    /// How many more messages meet it.
    left: usize,
    fate: Fate,
}

#[derive(Default)]
struct Inner {
    nodes: HashMap<String, Arc<dyn PeerInbox>>,
    rules: Vec<Rule>,
    held: Vec<(Address, PeerMessage)>,
    said: Vec<(Address, PeerMessage)>,
    cut: bool,
}

/// All nodes by name. What is for a node that is gone cannot be sent.
#[derive(Default)]
pub struct Net(Mutex<Inner>);

impl Net {
    /// The next so many messages of a kind about a shard.
    pub fn rule(&self, shard: ShardId, kind: Kind, left: usize, fate: Fate) {
        self.0.lock().unwrap().rules.push(Rule { kind, shard, left, fate });
    }

    /// Everything is lost, and nobody notices.
    pub fn cut(&self) {
        self.0.lock().unwrap().cut = true;
    }

    /// How often something was said of a shard.
    pub fn count(&self, shard: ShardId, which: Kind) -> usize {
        self.attempts(shard, which).len()
    }

    /// In which attempts something was said of a shard.
    pub fn attempts(&self, shard: ShardId, which: Kind) -> Vec<Attempt> {
        let inner = self.0.lock().unwrap();
        let of = |m: &(Address, PeerMessage)| match &m.1.body {
            PeerBody::Handoff(attempt, step) => (attempt.shard == shard && kind(step) == which).then_some(*attempt),
            PeerBody::Other(..) => None,
        };
        inner.said.iter().filter_map(of).collect()
    }

    pub fn said(&self) -> Vec<(Address, PeerMessage)> {
        self.0.lock().unwrap().said.clone()
    }

    pub fn held(&self) -> usize {
        self.0.lock().unwrap().held.len()
    }

    /// For whom the first message is that is held.
    pub fn held_for(&self) -> Option<String> {
        self.0.lock().unwrap().held.first().map(|(to, _)| to.to_string())
    }

    /// What was held arrives.
    pub fn release(&self) {
        let held = std::mem::take(&mut self.0.lock().unwrap().held);
        held.into_iter().for_each(|(to, message)| self.deliver(&to, &message));
    }

    /// As it is, whatever the rules are.
    pub fn deliver(&self, to: &Address, message: &PeerMessage) {
        let node = self.0.lock().unwrap().nodes.get(&**to).cloned();
        if let Some(node) = node {
            node.take(message.clone());
        }
    }
}

impl Peers for Net {
    fn send(&self, to: &Address, message: PeerMessage) -> Result<(), Refused<PeerMessage>> {
        let mut inner = self.0.lock().unwrap();
        if !inner.nodes.contains_key(&**to) {
            return Err(Refused::Closed(message));
        }
        inner.said.push((to.clone(), message.clone()));
        let PeerBody::Handoff(attempt, step) = &message.body else { return Ok(()) };
        if inner.cut {
            return Ok(());
        }
        let rule =
            inner.rules.iter_mut().find(|rule| rule.left > 0 && rule.kind == kind(step) && rule.shard == attempt.shard);
        let fate = rule.map(|rule| {
            rule.left -= 1;
            rule.fate
        });
        let times = match fate {
            Some(Fate::Lost) => 0,
            Some(Fate::Held) => {
                inner.held.push((to.clone(), message));
                return Ok(());
            }
            Some(Fate::Repeated) => 3,
            None => 1,
        };
        drop(inner);
        (0..times).for_each(|_| self.deliver(to, &message));
        Ok(())
    }
}

/// Some nodes, and how they are reached.
pub struct Cluster {
    pub world: Arc<World>,
    pub net: Arc<Net>,
    pub nodes: Vec<Option<(Node, Arc<Handoff>)>>,
    pub gateways: Arc<Vec<Gateway>>,
    gone: Arc<Vec<AtomicBool>>,
}

impl Cluster {
    /// Nodes `a`, `b`, ... that share the shards.
    pub async fn of(count: usize) -> Self {
        let world = world_without_checkpoints();
        world.outside.more_grace.store(60, Ordering::SeqCst);
        let mut nodes = Vec::new();
        for name in ["a", "b", "c"].into_iter().take(count) {
            nodes.push(world.named(name, &Arc::default()).await);
            // So that the first two have as many as they may, and a third one none.
            world.until("they share", || {
                let of = |node: &Node| node.ownership.shards().len();
                nodes.iter().map(of).sum::<usize>() == SHARDS as usize && nodes.iter().take(2).all(|n| of(n) >= 2)
            });
        }
        Self::with(world, nodes, true)
    }

    pub fn with(world: World, nodes: Vec<Node>, share: bool) -> Self {
        let (world, net) = (Arc::new(world), Arc::<Net>::default());
        let gateways = Arc::new(nodes.iter().map(Node::gateway).collect::<Vec<_>>());
        let gone = Arc::new(nodes.iter().map(|_| AtomicBool::new(false)).collect());
        let nodes = nodes.into_iter().zip(["a", "b", "c"]).map(|(node, name)| {
            let handoff = start(&world, &net, &node, name);
            Some((node, handoff))
        });
        let this = Self { nodes: nodes.collect(), world, net, gateways, gone };
        if share {
            this.world.until("they share", || {
                this.live().all(|node| node.ownership.gives().is_empty())
                    && this.live().map(|node| node.ownership.shards().len()).sum::<usize>() == SHARDS as usize
                    && this.live().all(|node| node.host.status().shards.0 == node.host.status().shards.1)
                    && this.nodes.iter().flatten().all(|(_, handoff)| handoff.moving() == 0)
            });
        }
        this
    }

    fn live(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().flatten().map(|(node, _)| node)
    }

    pub fn node(&self, at: usize) -> &Node {
        &self.nodes[at].as_ref().expect("it lives").0
    }

    pub fn weather(&self, at: usize) -> &Weather {
        &self.node(at).weather
    }

    /// As kill -9.
    pub async fn crash(&mut self, at: usize) {
        let (node, handoff) = self.nodes[at].take().expect("it lives");
        self.net.0.lock().unwrap().nodes.remove(["a", "b", "c"][at]);
        drop(handoff);
        node.crash().await;
        self.gone[at].store(true, Ordering::SeqCst);
    }

    /// Which nodes hold the shard of a room.
    pub fn owners(&self, room: &RoomId) -> Vec<usize> {
        (0..self.nodes.len()).filter(|at| self.nodes[*at].as_ref().is_some_and(|(node, _)| node.holds(room))).collect()
    }

    /// A player of a room of this node, who plays until [`Playing::end`].
    pub fn play(&self, at: usize, name: &str) -> Playing {
        self.world.outside.ticks.lock().unwrap().get_or_insert_default();
        let (world, gateways, gone) = (self.world.clone(), self.gateways.clone(), self.gone.clone());
        let room = room_of(self.node(at));
        let mut player = Player::join(&world, &gateways, &room, name, at as u64);
        let (stop, said) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let (stopped, count) = (stop.clone(), said.clone());
        let thread = std::thread::spawn(move || {
            let (mut n, mut lost) = (0, false);
            loop {
                let stopping = stopped.load(Ordering::SeqCst);
                if !stopping {
                    player.say(&gateways, Say::Keep(n));
                    n += 1;
                    count.store(n as usize, Ordering::SeqCst);
                }
                world.pass(Duration::from_millis(4));
                let dead = gone[player.at].load(Ordering::SeqCst);
                if player.is_moved(&gateways) || dead && !lost {
                    player.follow(&world, &gateways);
                    lost = gone[player.at].load(Ordering::SeqCst);
                }
                if stopping {
                    let mut stays = true;
                    world.until("all that was said is applied", || {
                        stays = !player.is_moved(&gateways) && !gone[player.at].load(Ordering::SeqCst);
                        !stays || applied(&world, &player).len() >= n as usize
                    });
                    if stays {
                        assert_eq!(applied(&world, &player), (0..n).collect::<Vec<_>>(), "each once, in order (H4)");
                        return player;
                    }
                }
            }
        });
        let playing = Playing { room, thread, stop, said };
        self.world.until("it plays", || playing.said.load(Ordering::SeqCst) > 20);
        playing
    }

    /// Ticks of all rooms so far: (number, when).
    pub fn ticks(&self) -> Vec<(u64, std::time::Instant)> {
        self.world.outside.ticks.lock().unwrap().clone().unwrap_or_default()
    }

    /// Of the only room: each tick once, in order, and no pause beyond [`BOUND`]: nobody else ticked it, and nothing was rolled back.
    pub fn assert_one_line_of_ticks(&self) {
        let ticks = self.ticks();
        let numbers: Vec<_> = ticks.iter().map(|(tick, _)| *tick).collect();
        let expected: Vec<_> = (numbers[0]..=*numbers.last().unwrap()).collect();
        assert_eq!(numbers, expected, "each tick once, in order");
        let longest = ticks.windows(2).map(|pair| pair[1].1 - pair[0].1).max().unwrap();
        assert!(longest < BOUND, "it stood still for {longest:?}");
    }
}

pub fn start(world: &World, net: &Arc<Net>, node: &Node, name: &str) -> Arc<Handoff> {
    let handoff = Handoff::start(HandoffParts {
        hands: node.host.hands(),
        ownership: node.ownership.clone(),
        peers: Some(net.clone()),
        own: name.into(),
        clock: world.clock.clone(),
        tasks: node.tasks.clone(),
        times: TIMES,
    });
    net.0.lock().unwrap().nodes.insert(name.to_owned(), handoff.clone());
    handoff
}

/// A player who says one number after the other, wherever the room is.
pub struct Playing {
    pub room: RoomId,
    thread: JoinHandle<Player>,
    stop: Arc<AtomicBool>,
    said: Arc<AtomicUsize>,
}

impl Playing {
    pub fn shard(&self) -> ShardId {
        self.room.shard(SHARDS)
    }

    /// It says some more, and everything that it ever said was applied once, in order.
    pub fn end(self, world: &World) -> Player {
        let so_far = self.said.load(Ordering::SeqCst);
        world.until("it says some more", || self.said.load(Ordering::SeqCst) > so_far + 10);
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().expect("it played to the end")
    }
}
