//! How a task of game code tells its room that it ended, also when it panics.

use std::sync::Arc;

use super::inbox::{Event, RoomHandle};
use crate::plugin::{TaskEnd, TaskResult, TaskValue};

/// Reports exactly once: dropped unused (a panic), it says that the task failed.
pub(super) struct Report {
    handle: Arc<RoomHandle>,
    epoch: u64,
    id: u64,
    told: bool,
}

impl Report {
    pub(super) fn new(handle: Arc<RoomHandle>, epoch: u64, id: u64) -> Self {
        Self { handle, epoch, id, told: false }
    }

    pub(super) fn done(mut self, value: TaskValue) {
        self.tell(Ok(value));
    }

    pub(super) fn cancelled(mut self) {
        self.tell(Err(TaskEnd::Moved));
    }

    fn tell(&mut self, result: TaskResult) {
        self.told = true;
        // A room that has ended in the meantime has no use for it.
        self.handle.tell(Event::Task { epoch: self.epoch, id: self.id, result });
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        if !self.told {
            self.tell(Err(TaskEnd::Failed));
        }
    }
}
