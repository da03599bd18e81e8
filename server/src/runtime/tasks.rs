//! Supervised tasks and the shutdown signal: every task has a name, a kind, and is waited for.

use std::{future::Future, time::Duration};

use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// The signal to stop; cheap to clone, children stop with their parent.
#[derive(Clone, Debug, Default)]
pub struct Shutdown(CancellationToken);

impl Shutdown {
    /// A signal that nobody has given yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives the signal. Repeating it changes nothing.
    pub fn stop(&self) {
        self.0.cancel();
    }

    /// Whether it was given.
    pub fn is_stopped(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Resolves when it was given. Cancel-safe.
    pub async fn stopped(&self) {
        self.0.cancelled().await;
    }

    /// A signal that is given with this one, or alone.
    #[must_use]
    pub fn child(&self) -> Self {
        Self(self.0.child_token())
    }
}

/// What the end of a task means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The node cannot go on without it: its end, before the signal, stops the node.
    Essential,
    /// One of many; its panic is logged and counted and touches nobody else.
    PerConnection,
    /// Ends by itself.
    Job,
}

/// Spawns and waits for the tasks of a node.
#[derive(Clone, Debug)]
pub struct Tasks {
    tracker: TaskTracker,
    shutdown: Shutdown,
    handle: tokio::runtime::Handle,
}

impl Tasks {
    /// A supervisor on the current runtime.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn new(shutdown: Shutdown) -> Self {
        Self { tracker: TaskTracker::new(), shutdown, handle: tokio::runtime::Handle::current() }
    }

    /// The signal that these tasks watch.
    pub fn shutdown(&self) -> &Shutdown {
        &self.shutdown
    }

    /// The runtime these tasks run on.
    pub fn handle(&self) -> &tokio::runtime::Handle {
        &self.handle
    }

    /// Starts a task. A panic in it is caught by the runtime, logged and counted by its kind.
    pub fn spawn(&self, name: &'static str, kind: Kind, task: impl Future<Output = ()> + Send + 'static) {
        let shutdown = self.shutdown.clone();
        let guard = Guard { name, kind, shutdown, done: false };
        self.tracker.spawn_on(
            async move {
                let mut guard = guard;
                task.await;
                guard.done = true;
            },
            &self.handle,
        );
    }

    /// Number of tasks still running.
    pub fn running(&self) -> usize {
        self.tracker.len()
    }

    /// Waits until all tasks have ended, at most `limit`; `false` if some are still running.
    pub async fn wait(&self, limit: Duration) -> bool {
        self.tracker.close();
        tokio::time::timeout(limit, self.tracker.wait()).await.is_ok()
    }
}

// Lives in the task, so that a panic (which drops it with `done` unset) is told from an end.
struct Guard {
    name: &'static str,
    kind: Kind,
    shutdown: Shutdown,
    done: bool,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let panicked = !self.done && std::thread::panicking();
        if panicked {
            metrics::counter!("tenure_task_panics_total", "task" => self.name).increment(1);
            tracing::error!(task = self.name, "a task panicked");
        }
        if self.kind == Kind::Essential && !self.shutdown.is_stopped() {
            tracing::error!(task = self.name, "an essential task ended: the node stops");
            self.shutdown.stop();
        }
    }
}
