//! Rooms as tasks of a simulated runtime, so that time and order are the simulation's.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use tenure::{
    room::host::{Activity, Busy, Executor, Next, Wake},
    runtime::Clock,
    store::BoxFuture,
};
use tokio::sync::Notify;

/// Resolves when the node of the rooms may go on: one that is paused does nothing.
pub(crate) type Awake = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// Runs each room in a task of its own, until it is stopped.
pub(crate) struct RoomTasks {
    clock: Clock,
    awake: Awake,
    stopped: Arc<AtomicBool>,
    wakeups: Arc<AtomicU64>,
}

impl RoomTasks {
    pub(crate) fn new(clock: Clock, awake: Awake, stopped: Arc<AtomicBool>) -> Self {
        Self { clock, awake, stopped, wakeups: Arc::default() }
    }
}

struct Waker(Notify);

impl Wake for Waker {
    fn wake(&self) {
        self.0.notify_one();
    }
}

impl Executor for RoomTasks {
    fn spawn(&self, _: Arc<str>, mut activity: Box<dyn Activity>) -> Arc<dyn Wake> {
        let waker = Arc::new(Waker(Notify::new()));
        let (clock, awake, stopped, wakeups, woken) =
            (self.clock.clone(), self.awake.clone(), self.stopped.clone(), self.wakeups.clone(), waker.clone());
        tokio::spawn(async move {
            loop {
                awake().await;
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                wakeups.fetch_add(1, Ordering::Relaxed);
                match activity.run(clock.now()) {
                    Next::Done => return,
                    Next::Wait => woken.0.notified().await,
                    Next::At(at) => {
                        tokio::select! {
                            biased;
                            () = woken.0.notified() => {}
                            () = clock.sleep_until(at) => {}
                        }
                    }
                }
            }
        });
        waker
    }

    fn busy(&self) -> Vec<Busy> {
        Vec::new()
    }

    fn wakeups(&self) -> u64 {
        self.wakeups.load(Ordering::Relaxed)
    }

    fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
    }
}
