//! A lane: a thread of its own with its own connection, so that what is urgent never stands behind what is large.

use std::{sync::Arc, thread::JoinHandle};

use tokio::sync::{Semaphore, oneshot};

use super::{
    engine::{Engine, Shared},
    link::Link,
    topology::Topology,
    verbs::{publishes, unseen},
    watch::watch,
};
use crate::{
    runtime::{
        Shutdown, Tasks,
        mailbox::{self, Receiver, Refused, Sender},
        tasks::Kind,
    },
    store::{BoxFuture, Command, Error, Stamped},
};

/// Most commands that wait in a lane, and most that are under way in it.
pub(super) const LANE: usize = 1_024;

struct Job {
    command: Command,
    answer: oneshot::Sender<Stamped>,
}

/// See the module. Dropping it waits for what is under way, which is bounded by the deadline of a call.
pub(super) struct Lane {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Lane {
    /// `watches`: the servers are looked at from here now and then.
    pub(super) fn start(
        name: &'static str,
        topology: Arc<Topology>,
        shared: Arc<Shared>,
        watches: bool,
    ) -> Result<Self, String> {
        let (jobs, receiver) = mailbox::channel("store", LANE);
        let fault = |error: std::io::Error| format!("no thread for the store: {error}");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(fault)?;
        let (clock, rng, connected) = (shared.clock.clone(), shared.rng.fork(), shared.connected.clone());
        let link = Link::new(topology.clone(), clock, rng, shared.options.deadline, connected);
        let watched = watches.then(|| (topology, shared.clone()));
        let engine = Arc::new(Engine { link, shared });
        let work = move || {
            runtime.block_on(async {
                let stop = Shutdown::new();
                if let Some((topology, shared)) = watched {
                    Tasks::new(stop.clone()).spawn("store-watch", Kind::Job, watch(topology, shared, stop.clone()));
                }
                run(engine, receiver).await;
                stop.stop();
            });
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work).map_err(fault)?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    /// The command is in the lane when this returns; the answer comes with the future.
    pub(super) fn execute(&self, command: Command) -> BoxFuture<'static, Stamped> {
        let (answer, answered) = oneshot::channel();
        let refused = match &self.jobs {
            Some(jobs) => jobs.try_send(Job { command, answer }).err(),
            None => None,
        };
        Box::pin(async move {
            match refused {
                Some(Refused::Full(_)) => unseen(Error::Unavailable(format!("{LANE} commands wait already"))),
                _ => {
                    let ended = || unseen(Error::Unavailable("the store's thread has ended".to_owned()));
                    answered.await.unwrap_or_else(|_| ended())
                }
            }
        })
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.jobs = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("a thread of the store panicked");
        }
    }
}

async fn run(engine: Arc<Engine>, mut jobs: Receiver<Job>) {
    let tasks = Tasks::new(Shutdown::new());
    let room = Arc::new(Semaphore::new(LANE));
    while let Some(Job { command, answer }) = jobs.recv().await {
        let Ok(permit) = room.clone().acquire_owned().await else { break };
        let engine = engine.clone();
        tasks.spawn("store-command", Kind::Job, async move {
            let routes = publishes(&command);
            let stamped = engine.execute(command).await;
            // Who no longer waits for an answer does not get one; the command stays carried out.
            drop(answer.send(stamped));
            engine.afterwards(routes).await;
            drop(permit);
        });
    }
    // Each of them ends by its deadline; a few steps may follow a command.
    tasks.wait(super::END_WAIT).await;
}
