//! Where rooms run: the interface, so that a simulation can run rooms as tasks, and what an activity tells its executor.

use std::sync::Arc;

use crate::runtime::Mono;

/// When an activity wants to run next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// At this moment, or earlier when it is woken.
    At(Mono),
    /// When it is woken.
    Wait,
    /// Never again: it is dropped.
    Done,
}

/// Something that runs now and then on a room thread; never two runs of one activity at a time.
pub trait Activity: Send {
    /// Does what is due. Runs to its end: it must not block.
    fn run(&mut self, now: Mono) -> Next;
}

/// Wakes one activity.
pub trait Wake: Send + Sync {
    /// Lets the activity run as soon as its thread is free. Wakes before that run count as one.
    fn wake(&self);
}

/// What an executor is doing with one of its threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Busy {
    /// Since when.
    pub since: Mono,
    /// Label of the activity: the room.
    pub label: Arc<str>,
}

/// Runs activities.
pub trait Executor: Send + Sync + 'static {
    /// Starts an activity; its first run comes as soon as its thread is free. `label` names it in logs and to the watchdog.
    fn spawn(&self, label: Arc<str>, activity: Box<dyn Activity>) -> Arc<dyn Wake>;

    /// Runs that have not ended yet, at most one per thread.
    fn busy(&self) -> Vec<Busy>;

    /// How often threads woke up so far. It stands still while nothing is due.
    fn wakeups(&self) -> u64;

    /// Ends the threads after their current runs; activities are dropped without another run. Does not wait.
    fn stop(&self);
}
