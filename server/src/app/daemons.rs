//! The daemons of a node: the game's sets, the threads on which they run, and how a node starts and ends them.

use std::sync::{Arc, OnceLock};

use super::{App, server::StartError};
use crate::{
    config::Config,
    daemon::{self, DaemonParts, Daemons, Herald, Kill, Reach, ShardedDaemonProcess, Times, Wake},
    link::{Address, PeerMessage, Peers},
    ownership::Ownership,
    plugin::RoomKind,
    room::host::RoomHost,
    runtime::{Clock, Rng, Tasks, mailbox::Refused},
    store::Store,
};

/// Threads of daemons: they mostly wait, and one that blocks its thread must not keep the others of its node.
const THREADS: usize = 2;

/// The way to other nodes, which is made after the daemons were started: until then nobody can be reached.
#[derive(Default)]
pub(super) struct Later(OnceLock<Arc<dyn Peers>>);

impl Later {
    pub(super) fn set(&self, peers: Arc<dyn Peers>) {
        // There is one in the life of a node.
        drop(self.0.set(peers));
    }
}

impl Peers for Later {
    fn send(&self, to: &Address, message: PeerMessage) -> Result<(), Refused<PeerMessage>> {
        match self.0.get() {
            Some(peers) => peers.send(to, message),
            None => Err(Refused::Closed(message)),
        }
    }
}

/// The threads of daemons. Dropped, they are left to end by themselves: whoever drops them may be a task.
pub(super) struct Threads(Option<tokio::runtime::Runtime>);

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// What a node starts its daemons with.
pub(super) struct Start<'a> {
    pub(super) config: &'a Config,
    pub(super) store: &'a Store,
    pub(super) ownership: &'a Ownership,
    pub(super) clock: &'a Clock,
    pub(super) rng: &'a Rng,
    pub(super) tasks: &'a Tasks,
    pub(super) host: Option<&'a Arc<RoomHost>>,
    /// The way to other nodes and where this one is reached, where several processes share the store.
    pub(super) peers: Option<(Arc<dyn Peers>, Address)>,
    pub(super) kill: Kill,
}

/// Makes a shard of this node look for work. The host is not kept alive for it.
fn wake(host: &Arc<RoomHost>) -> Wake {
    let host = Arc::downgrade(host);
    Arc::new(move |shard| host.upgrade().into_iter().for_each(|host| host.look_for_work(shard)))
}

/// The sets of the game and the coordinators of the configured regions, if nothing is wrong with them.
pub(super) fn sets(
    app: &App,
    config: &Config,
    kinds: &[Arc<RoomKind>],
) -> Result<Vec<ShardedDaemonProcess>, StartError> {
    let mut sets = app.daemons.clone();
    sets.extend(daemon::coordinators(&config.daemons.regions, kinds).into_iter().map(Into::into));
    let faults = daemon::faults(&sets);
    if faults.is_empty() { Ok(sets) } else { Err(StartError::Game(faults)) }
}

/// Lets the coordinators of regions know the rooms of this node, and lets gateways reach them.
pub(super) fn coordinate(daemons: &Daemons, host: &RoomHost, config: &Config, clock: &Clock, tasks: &Tasks) {
    let regions = &config.daemons.regions;
    if !regions.is_empty() {
        host.coordinate(Arc::new(Reach::new(daemons.clone())));
        Herald::start(daemons, &host.reports(), regions, clock, tasks);
    }
}

pub(super) fn times(config: &Config) -> Times {
    Times {
        heartbeat: config.lease.heartbeat,
        ttl: config.lease.ttl,
        deadline: config.lease.call_deadline,
        claim_check: config.lease.claim_check,
        kill_after: config.room.kill_after,
        ..Times::default()
    }
}

/// Starts them; `None` without any.
pub(super) fn start(
    sets: Vec<ShardedDaemonProcess>,
    start: Start<'_>,
) -> Result<Option<(Daemons, Arc<Threads>)>, StartError> {
    if sets.is_empty() {
        return Ok(None);
    }
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(THREADS).thread_name("daemons").enable_all().build();
    let runtime = runtime.map_err(StartError::Threads)?;
    let daemons = Daemons::launch(DaemonParts {
        sets,
        store: start.store.clone(),
        ownership: start.ownership.clone(),
        clock: start.clock.clone(),
        rng: start.rng.fork(),
        times: times(start.config),
        peers: start.peers,
        wake: start.host.map(wake),
        kill: start.kill,
        tasks: start.tasks.clone(),
        threads: runtime.handle().clone(),
    });
    Ok(Some((daemons, Arc::new(Threads(Some(runtime))))))
}
