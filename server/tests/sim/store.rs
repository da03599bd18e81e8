//! The store as a simulated host: the real rules, one state, messages that are late or lost; and what is checked at its door.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};

use tenure::{
    runtime::{Mono, Rng, Wall},
    store::{
        Backend, BoxFuture, Command, Error, Key, Reply, Stamped, Store,
        model::{self, Rules},
    },
};
use tenure_shared::{IncarnationId, ShardId, Term};

use crate::{breaks::Break, checks::Checks, forgets::Rows, net::Net};

/// The one store of a cluster.
pub struct Host {
    pub net: Arc<Net>,
    pub broken: Break,
    rows: Mutex<Rows>,
    checks: Arc<Checks>,
    /// How far its clock is from the wall clock, microseconds.
    drift: AtomicI64,
    /// Grants that a ledger had once.
    had: Mutex<BTreeSet<String>>,
}

impl Host {
    pub fn new(net: Arc<Net>, checks: Arc<Checks>, broken: Break) -> Arc<Self> {
        Arc::new(Self { net, broken, rows: Mutex::default(), checks, drift: AtomicI64::new(0), had: Mutex::default() })
    }

    /// The time of its own clock.
    pub fn wall(&self) -> Wall {
        Wall(self.net.clock.wall().0.saturating_add_signed(self.drift.load(Ordering::SeqCst)))
    }

    /// At once, and without weather.
    pub fn ask(&self, command: Command) -> Stamped {
        let now = self.broken_time(&command).unwrap_or_else(|| self.wall());
        let mut rows = self.rows.lock().expect("rows");
        rows.at = self.net.clock.now();
        model::apply(&mut *rows, &Rules::default(), now, command)
    }

    /// The answer to a command that is not carried out.
    pub fn pretend(&self, command: Command) -> Stamped {
        let mut rows = self.rows.lock().expect("rows").copy();
        model::apply(&mut rows, &Rules::default(), self.wall(), command)
    }

    /// Another server takes over: what `lost` names is as it was at `then`. `differs`: so is the time, by another clock.
    pub fn fall_back(&self, then: Mono, lost: impl Fn(&[u8]) -> bool, differs: Option<i64>) {
        self.drift.fetch_add(differs.unwrap_or_default(), Ordering::SeqCst);
        let undone = self.rows.lock().expect("rows").fall_back(then, |row| match row {
            b"meta/time" => differs.is_some(),
            row => lost(row),
        });
        self.net.log(&format!("the store forgot {undone} writes"));
    }

    /// A broken store has no such row any more.
    pub fn forget_row(&self, row: &[u8]) {
        model::Kv::delete(&mut *self.rows.lock().expect("rows"), row).expect("deleted");
    }

    pub fn claim(&self, shard: ShardId) -> Option<(Option<IncarnationId>, Term)> {
        self.claim_of(Key::shard(shard))
    }

    pub fn claim_of(&self, key: Key) -> Option<(Option<IncarnationId>, Term)> {
        match self.ask(Command::Claim { key }).reply {
            Ok(Reply::Claim(claim)) => claim.map(|claim| (claim.holder, claim.term)),
            other => panic!("not a claim: {other:?}"),
        }
    }

    /// Whether a ledger has this grant, or had it before the store forgot.
    pub fn has_grant(&self, id: &str) -> bool {
        if self.checks.has_forgotten() && self.had.lock().expect("had").contains(id) {
            return true;
        }
        let rows = self.rows.lock().expect("rows");
        rows.keys().any(|key| key.starts_with(b"granted/") && key.ends_with(id.as_bytes()))
    }

    fn carry_out(&self, node: usize, mut command: Command) -> Stamped {
        let before = match &command {
            Command::Commit { fence, .. } => fence.key().as_shard().and_then(|shard| self.claim(shard)),
            _ => None,
        };
        let original = command.clone();
        if let Some(answer) = self.broken_answer(&command) {
            return answer;
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
            (Command::PutState { fence, body, .. }, Ok(_)) => self.checks.counted(fence.key(), body),
            (Command::Apply { grant }, Ok(_)) => drop(self.had.lock().expect("had").insert(grant.id.0.to_string())),
            (Command::Load { room }, _) => self.checks.loaded(room.shard(crate::cluster::SHARDS), node),
            _ => {}
        }
        stamped
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
        let unavailable = |host: &Host| Stamped { at: host.wall(), reply: Err(Error::Unavailable("lost".to_owned())) };
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
                    drop(answer.send(unavailable(&host)));
                    return;
                }
                let stamped = host.carry_out(node, command);
                net.clock.sleep(back).await;
                net.awake(node).await;
                let stamped = if unheard || !net.reaches_store(node) { unavailable(&host) } else { stamped };
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
