//! Futures of game code that run outside the tick.

use std::{any::Any, future::Future, pin::Pin};

/// What a task gives; the framework knows its type again.
pub type TaskValue = Box<dyn Any + Send>;

/// A future that the room's host runs.
pub type TaskFuture = Pin<Box<dyn Future<Output = TaskValue> + Send>>;

/// Why a task gave nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskEnd {
    /// The room was frozen, moved or restored: the task may be started again.
    Moved,
    /// The task panicked or could not be started.
    Failed,
}

/// How a task ended.
pub type TaskResult = Result<TaskValue, TaskEnd>;
