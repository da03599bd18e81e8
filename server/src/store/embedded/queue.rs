//! The writer's queue: bounded, with a lane for leases and claims before which nothing stands (docs/invariants.md H5).

use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use crate::store::{Command, Stamped};

/// Most commands waiting in each lane.
pub(super) const LANE: usize = 1_024;

/// A command and whom to answer.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) command: Command,
    pub(super) answer: oneshot::Sender<Stamped>,
}

#[derive(Debug, Default)]
struct Lanes {
    urgent: VecDeque<Job>,
    normal: VecDeque<Job>,
    closed: bool,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    lanes: Mutex<Lanes>,
    filled: Condvar,
}

impl Queue {
    /// Puts a job in; `false` when its lane is full or the queue is closed.
    pub(super) fn push(&self, job: Job) -> bool {
        let mut lanes = self.lanes.lock();
        let closed = lanes.closed;
        let lane = if job.command.is_urgent() { &mut lanes.urgent } else { &mut lanes.normal };
        if closed || lane.len() >= LANE {
            return false;
        }
        lane.push_back(job);
        drop(lanes);
        self.filled.notify_one();
        true
    }

    /// Waits for jobs and takes up to `limit`, urgent ones first; `None` when the queue is closed and empty.
    pub(super) fn take(&self, limit: usize) -> Option<Vec<Job>> {
        let mut lanes = self.lanes.lock();
        while lanes.urgent.is_empty() && lanes.normal.is_empty() {
            if lanes.closed {
                return None;
            }
            self.filled.wait(&mut lanes);
        }
        let urgent = lanes.urgent.len().min(limit);
        let mut jobs: Vec<Job> = lanes.urgent.drain(..urgent).collect();
        let normal = lanes.normal.len().min(limit - urgent);
        jobs.extend(lanes.normal.drain(..normal));
        Some(jobs)
    }

    /// Takes no more jobs; those inside are still worked off.
    pub(super) fn close(&self) {
        self.lanes.lock().closed = true;
        self.filled.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use tenure_shared::{IncarnationId, ShardId};

    use super::*;

    fn job(command: Command) -> Job {
        Job { command, answer: oneshot::channel().0 }
    }

    #[test]
    fn a_full_lane_refuses_and_leaves_the_urgent_one_open() {
        let queue = Queue::default();
        let normal = || job(Command::Overdue { shard: ShardId(1) });
        let urgent =
            || job(Command::Expire { incarnation: IncarnationId::new("a#1").expect("valid"), stood_still: None });
        for _ in 0..LANE {
            assert!(queue.push(normal()));
        }
        assert!(!queue.push(normal()));
        assert!(queue.push(urgent()));
        let first = queue.take(2).expect("jobs");
        assert!(first[0].command.is_urgent() && !first[1].command.is_urgent());
        queue.close();
        assert!(!queue.push(urgent()));
        let rest = queue.take(LANE * 2).expect("the rest is worked off");
        assert_eq!(rest.len(), LANE - 1);
        assert!(queue.take(1).is_none());
    }
}
