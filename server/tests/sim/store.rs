//! The store as a simulated host: the real rules, one state, messages that are late or lost; and what is checked at its door.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tenure::{
    runtime::{Mono, Rng},
    store::{
        Backend, BoxFuture, Command, Error, Fence, GrantId, Key, Reply, Stamped, Store,
        model::{self, Rules},
    },
};
use tenure_shared::{IncarnationId, ShardId, Term};

use crate::{
    checks::Checks,
    cluster::{Break, STORMY},
    net::Net,
};

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// The one store of a cluster.
pub struct Host {
    net: Arc<Net>,
    rows: Mutex<Rows>,
    checks: Arc<Checks>,
    broken: Break,
}

impl Host {
    pub fn new(net: Arc<Net>, checks: Arc<Checks>, broken: Break) -> Arc<Self> {
        Arc::new(Self { net, rows: Mutex::default(), checks, broken })
    }

    /// At once, and without weather.
    pub fn ask(&self, command: Command) -> Stamped {
        let now = self.net.clock.wall();
        model::apply(&mut *self.rows.lock().expect("rows"), &Rules::default(), now, command)
    }

    pub fn claim(&self, shard: ShardId) -> Option<(Option<IncarnationId>, Term)> {
        match self.ask(Command::Claim { key: Key::shard(shard) }).reply {
            Ok(Reply::Claim(claim)) => claim.map(|claim| (claim.holder, claim.term)),
            other => panic!("not a claim: {other:?}"),
        }
    }

    /// Whether a ledger has this grant.
    pub fn has_grant(&self, id: &str) -> bool {
        let rows = self.rows.lock().expect("rows");
        rows.keys().any(|key| key.starts_with(b"granted/") && key.ends_with(id.as_bytes()))
    }

    fn carry_out(&self, node: usize, mut command: Command) -> Stamped {
        let before = match &command {
            Command::Commit { fence, .. } => fence.key().as_shard().and_then(|shard| self.claim(shard)),
            _ => None,
        };
        let original = command.clone();
        let closed = self.broken == Break::Claims && self.net.clock.now() > Mono::default().plus(STORMY);
        if closed && matches!(command, Command::Acquire { .. }) {
            return Stamped { at: self.net.clock.wall(), reply: Err(Error::Unavailable("closed".to_owned())) };
        }
        self.break_rules(&mut command, before.as_ref());
        let stamped = self.ask(command);
        self.net.note(&format!("{node} {original:?} {:?}", stamped.reply.is_ok()));
        match (&original, &stamped.reply) {
            (Command::Commit { fence, batch, .. }, Ok(_)) => {
                self.checks.committed(fence, before.as_ref(), batch);
            }
            (Command::Acquire { key, caller, .. }, Ok(Reply::Granted(term))) => {
                self.net.log(&format!("granted {key} to {caller} for {term}"));
                self.checks.granted(key, *term);
                self.checks.acquired(key, node, *term);
            }
            (Command::Transfer { fence, to, package, .. }, Ok(Reply::Granted(term))) => {
                self.net.log(&format!("{} is given to {to} for {term}, package {package:x}", fence.key()));
                self.checks.granted(fence.key(), *term);
                self.checks.handed(fence.key(), to, *term, *package);
            }
            (Command::Load { room }, _) => self.checks.loaded(room.shard(crate::cluster::SHARDS), node),
            _ => {}
        }
        stamped
    }

    /// What a broken store would do: the checkers must notice.
    fn break_rules(&self, command: &mut Command, claim: Option<&(Option<IncarnationId>, Term)>) {
        match (self.broken, command) {
            (Break::Fence, Command::Commit { fence, number, .. }) => {
                if let Some((Some(holder), term)) = claim
                    && (holder, *term) != (fence.incarnation(), fence.term())
                {
                    let parts = serde_json::json!({ "key": fence.key().as_str(), "incarnation": holder.as_str(), "term": term });
                    let stolen: Fence = serde_json::from_value(parts).expect("a fence");
                    let probe = Command::Commit {
                        fence: stolen.clone(),
                        shards: crate::cluster::SHARDS,
                        number: u64::MAX,
                        batch: tenure::store::Batch::default(),
                    };
                    if let Err(Error::OutOfOrder { last, .. }) = self.ask(probe).reply {
                        *number = last + 1;
                    }
                    *fence = stolen;
                }
            }
            (Break::Ledger, Command::Apply { grant }) => {
                // The first answer is dropped, the second identity is another.
                let mut twice = grant.clone();
                twice.id = GrantId(format!("{}-again", grant.id.0).into());
                drop(self.ask(Command::Apply { grant: twice }));
            }
            _ => {}
        }
    }
}

/// A node's connection to the store.
pub struct Client {
    host: Arc<Host>,
    net: Arc<Net>,
    node: usize,
    rng: Rng,
    dead: Arc<AtomicBool>,
}

impl Client {
    /// `dead`: the node has crashed; what it sent may still arrive.
    pub fn open(host: &Arc<Host>, node: usize, life: u64, dead: Arc<AtomicBool>) -> Store {
        let net = host.net.clone();
        let rng = net.rng(&format!("store {node} {life}"));
        let clock = net.clock.clone();
        Store::new(Self { host: host.clone(), net, node, rng, dead }, clock)
    }
}

impl Backend for Client {
    fn execute(&self, command: Command) -> BoxFuture<'_, Stamped> {
        let (net, host, node, dead) = (self.net.clone(), self.host.clone(), self.node, self.dead.clone());
        let there = Duration::from_micros(100 + self.rng.below(3_000));
        // Now and then something stays in a buffer for long.
        let there = if self.rng.below(100) == 0 { there + Duration::from_millis(self.rng.below(700)) } else { there };
        let stuck = matches!(command, Command::Commit { .. }) && self.rng.below(25) == 0;
        let there = if stuck { there + Duration::from_millis(self.rng.below(4_000)) } else { there };
        let back = Duration::from_micros(100 + self.rng.below(3_000));
        let (lost, mut unheard) = (net.loses(&self.rng), net.loses(&self.rng));
        let mut there = there + net.slowness();
        // The answers of transfers get lost more often than others, and transfers come late.
        if matches!(command, Command::Transfer { .. }) {
            unheard |= self.rng.below(12) == 0;
            if self.rng.below(12) == 0 {
                there += Duration::from_millis(self.rng.below(3_000));
            }
        }
        let unavailable =
            |net: &Net| Stamped { at: net.clock.wall(), reply: Err(Error::Unavailable("lost".to_owned())) };
        Box::pin(async move {
            if dead.load(Ordering::SeqCst) {
                return std::future::pending().await;
            }
            let (answer, answered) = tokio::sync::oneshot::channel();
            // A command that was sent is on its way, whether or not anybody still waits for it.
            tokio::spawn(async move {
                net.awake(node).await;
                net.clock.sleep(there).await;
                if lost || !net.reaches_store(node) {
                    net.clock.sleep(Duration::from_millis(120)).await;
                    drop(answer.send(unavailable(&net)));
                    return;
                }
                let stamped = host.carry_out(node, command);
                net.clock.sleep(back).await;
                net.awake(node).await;
                let stamped = if unheard || !net.reaches_store(node) { unavailable(&net) } else { stamped };
                drop(answer.send(stamped));
            });
            let stamped = answered.await.expect("the task answers");
            if dead.load(Ordering::SeqCst) {
                return std::future::pending().await;
            }
            stamped
        })
    }
}
