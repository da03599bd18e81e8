//! Watches the room threads: a tick that does not return loses its shard, and a thread that does not end either ends the process.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tenure_shared::RoomId;

use super::{core::Host, executor::Busy, names};
use crate::{runtime::tasks::Kind, store::Command};

/// What ends the process (exit code 70); called at most once, with the room.
pub type Kill = Box<dyn Fn(&str) + Send>;

/// The watching thread.
pub(super) struct Watchdog {
    thread: std::thread::Thread,
    stop: Arc<AtomicBool>,
}

impl Watchdog {
    /// Starts it.
    ///
    /// # Errors
    /// When the operating system gives no more threads.
    pub(super) fn start(host: &Arc<Host>, kill: Kill) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (host, stopped) = (host.clone(), stop.clone());
        let join = std::thread::Builder::new()
            .name("room-watchdog".to_owned())
            .spawn(move || watch(&host, &stopped, &kill))?;
        Ok(Self { thread: join.thread().clone(), stop })
    }

    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

fn watch(host: &Arc<Host>, stop: &AtomicBool, kill: &Kill) {
    let (stall, last) = (host.config.stall_after, host.config.stall_after + host.config.kill_after);
    let every = (stall / 4).max(Duration::from_millis(1));
    let mut known: Vec<Busy> = Vec::new();
    let mut killed = false;
    while !stop.load(Ordering::Acquire) {
        let now = host.clock.now();
        let busy: Vec<Busy> = host.executor.busy().into_iter().filter(|busy| now.since(busy.since) >= stall).collect();
        for stuck in busy.iter().filter(|stuck| !known.contains(stuck)) {
            names::stalled();
            host.stalls.fetch_add(1, Ordering::Relaxed);
            tracing::error!(room = %stuck.label, seconds = stall.as_secs_f64(), "a tick does not return: its shard is given up");
            give_up(host, &stuck.label);
        }
        if let Some(stuck) = busy.iter().find(|stuck| now.since(stuck.since) >= last).filter(|_| !killed) {
            killed = true;
            tracing::error!(room = %stuck.label, "a room thread does not end: the process must");
            kill(&stuck.label);
        }
        known = busy;
        host.clock.park_until(Some(now.plus(every)));
    }
}

/// The shard is released, so that others may serve its rooms; writes of the stuck room are refused from then on.
fn give_up(host: &Arc<Host>, label: &str) {
    let Ok(room) = RoomId::new(label) else { return };
    let id = room.shard(host.config.shards);
    let Some(fence) = host.ownership.fence(id) else { return };
    let inner = host.clone();
    host.tasks.spawn("give up shard", Kind::Job, async move {
        if let Err(error) = inner.call_until_stopped(Command::Release { fence: fence.clone() }).await {
            tracing::warn!(shard = %id, %error, "a shard could not be released");
        }
        inner.ownership.fenced(&fence);
    });
}
