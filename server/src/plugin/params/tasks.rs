//! Futures outside of the tick.

use std::{collections::BTreeMap, future::Future, sync::Arc};

use bevy_ecs::{change_detection::ResMut, resource::Resource, system::SystemParam};
use parking_lot::Mutex;

use crate::plugin::{TaskFuture, TaskValue};

/// The room has as many tasks in flight as it may, or the task's name is not registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the task was not started: too many in flight, or its name is not registered")]
pub struct Full;

/// Tasks to start, and those in flight.
#[derive(Resource, Default)]
pub(crate) struct TaskQueue {
    pub(crate) next: u64,
    /// Number → registered name and the game's key.
    pub(crate) flying: BTreeMap<u64, (Arc<str>, u64)>,
    /// Tasks of a name that this build does not know: one that does is told that they moved. The newest, at most `limit`.
    pub(crate) carried: Vec<(u64, Arc<str>, u64)>,
    // Futures are `Send` but not `Sync`, which a resource must be.
    pub(crate) start: Mutex<Vec<(u64, TaskFuture)>>,
    pub(crate) names: Arc<[Arc<str>]>,
    pub(crate) limit: usize,
}

/// Starts futures outside of the tick. The result comes to the handler registered with `RoomBuilder::task`, in a later tick; a task
/// that a move interrupted is told [`TaskEnd::Moved`](crate::plugin::TaskEnd::Moved) there.
#[derive(SystemParam)]
pub struct Tasks<'w> {
    queue: ResMut<'w, TaskQueue>,
}

impl Tasks<'_> {
    /// Starts a task of a registered name; `key` is a number of the game's own.
    ///
    /// # Errors
    /// When the room has too many in flight, or nobody registered the name.
    pub fn spawn<T: Send + 'static>(
        &mut self,
        name: &str,
        key: u64,
        task: impl Future<Output = T> + Send + 'static,
    ) -> Result<(), Full> {
        let queue = &mut *self.queue;
        let name = queue.names.iter().find(|known| ***known == *name).cloned().ok_or(Full)?;
        if queue.flying.len() >= queue.limit {
            return Err(Full);
        }
        queue.next += 1;
        queue.flying.insert(queue.next, (name, key));
        let future: TaskFuture = Box::pin(async move { Box::new(task.await) as TaskValue });
        queue.start.get_mut().push((queue.next, future));
        Ok(())
    }

    /// Tasks in flight.
    pub fn len(&self) -> usize {
        self.queue.flying.len()
    }

    /// Whether none is in flight.
    pub fn is_empty(&self) -> bool {
        self.queue.flying.is_empty()
    }
}

impl std::fmt::Debug for Tasks<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tasks({})", self.len())
    }
}
