//! Time: a monotonic clock for leases and ticks, a wall clock for people, and one that tests move by hand.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// A moment of the monotonic clock: nanoseconds since the clock was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mono(pub u64);

impl Mono {
    /// The moment this much later; stops at the end of time instead of wrapping.
    #[must_use]
    pub fn plus(self, by: Duration) -> Mono {
        Mono(self.0.saturating_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// The moment this much earlier; stops at the beginning of time instead of wrapping.
    #[must_use]
    pub fn before(self, by: Duration) -> Mono {
        Mono(self.0.saturating_sub(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// How much later this is than `earlier`; zero if it is not later.
    #[must_use]
    pub fn since(self, earlier: Mono) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// A moment of the wall clock: microseconds since 1970, UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Wall(pub u64);

impl Wall {
    /// Milliseconds since 1970.
    pub fn millis(self) -> u64 {
        self.0 / 1_000
    }

    /// The moment this much later.
    #[must_use]
    pub fn plus(self, by: Duration) -> Wall {
        Wall(self.0.saturating_add(u64::try_from(by.as_micros()).unwrap_or(u64::MAX)))
    }
}

/// A source of time; cheap to clone.
#[derive(Clone)]
pub struct Clock(Source);

#[derive(Clone)]
enum Source {
    System { start: Instant },
    Runtime { start: tokio::time::Instant, wall: Wall, stepped: Arc<AtomicI64> },
    Manual(Arc<Manual>),
}

struct Manual {
    now: Mutex<(Mono, Wall)>,
    moved: Notify,
}

/// The hand on the wall clock of a clock made by [`Clock::of_runtime_stepped`].
#[derive(Clone, Debug)]
pub struct WallHand(Arc<AtomicI64>);

impl WallHand {
    /// Steps it forward, or back.
    pub fn step(&self, micros: i64) {
        self.0.fetch_add(micros, Ordering::Relaxed);
    }
}

/// The hand on a clock made by [`Clock::manual`].
#[derive(Clone)]
pub struct ManualClock(Arc<Manual>);

impl Clock {
    /// The machine's clocks.
    #[expect(clippy::disallowed_methods, reason = "the one place that asks the machine for the time")]
    pub fn system() -> Self {
        Clock(Source::System { start: Instant::now() })
    }

    /// The clock of the tokio runtime that this is called on; it starts at `wall`. Where that runtime's time is paused (tests and
    /// simulations) it moves on to the next timer whenever everything is idle.
    #[expect(clippy::disallowed_methods, reason = "the one place that asks for the time")]
    pub fn of_runtime(wall: Wall) -> Self {
        Clock(Source::Runtime { start: tokio::time::Instant::now(), wall, stepped: Arc::default() })
    }

    /// The same, and a hand that steps its wall clock as an operator or NTP does. Only this clock and its clones are stepped.
    pub fn of_runtime_stepped(wall: Wall) -> (Self, WallHand) {
        let clock = Self::of_runtime(wall);
        let stepped = match &clock.0 {
            Source::Runtime { stepped, .. } => stepped.clone(),
            Source::System { .. } | Source::Manual(_) => Arc::default(),
        };
        (clock, WallHand(stepped))
    }

    /// A clock that stands still until its hand is moved; it starts at `wall`.
    pub fn manual(wall: Wall) -> (Self, ManualClock) {
        let manual = Arc::new(Manual { now: Mutex::new((Mono(0), wall)), moved: Notify::new() });
        (Clock(Source::Manual(manual.clone())), ManualClock(manual))
    }

    #[expect(clippy::disallowed_methods, reason = "the one place that asks for the time")]
    fn of_tokio(start: tokio::time::Instant) -> Mono {
        let passed = tokio::time::Instant::now().saturating_duration_since(start);
        Mono(u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Monotonic time. Leases and ticks count on it; a step of the wall clock does not move it (docs/invariants.md C23).
    pub fn now(&self) -> Mono {
        match &self.0 {
            Source::System { start } => Mono(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)),
            Source::Runtime { start, .. } => Self::of_tokio(*start),
            Source::Manual(manual) => manual.now.lock().0,
        }
    }

    /// Wall time.
    #[expect(clippy::disallowed_methods, reason = "the one place that asks the machine for the time")]
    pub fn wall(&self) -> Wall {
        match &self.0 {
            Source::System { .. } => {
                let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                Wall(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
            }
            Source::Runtime { start, wall, stepped } => {
                let unstepped = wall.plus(Duration::from_nanos(Self::of_tokio(*start).0));
                Wall(unstepped.0.saturating_add_signed(stepped.load(Ordering::Relaxed)))
            }
            Source::Manual(manual) => manual.now.lock().1,
        }
    }

    /// Resolves when the monotonic clock has reached `at`. Cancel-safe.
    pub fn sleep_until(&self, at: Mono) -> Pin<Box<dyn Future<Output = ()> + Send + 'static>> {
        match &self.0 {
            Source::System { .. } | Source::Runtime { .. } => Box::pin(tokio::time::sleep(at.since(self.now()))),
            Source::Manual(manual) => {
                let manual = manual.clone();
                Box::pin(async move {
                    loop {
                        let moved = manual.moved.notified();
                        if manual.now.lock().0 >= at {
                            return;
                        }
                        moved.await;
                    }
                })
            }
        }
    }

    /// Blocks this thread until `at` (for ever if `None`), until it is unparked, or for no reason: the caller looks again.
    ///
    /// A thread of its own wakes tens of microseconds after `at`; the timer of a runtime is as coarse as a millisecond.
    pub fn park_until(&self, at: Option<Mono>) {
        let Some(at) = at else { return std::thread::park() };
        match &self.0 {
            Source::System { .. } | Source::Runtime { .. } => match at.since(self.now()) {
                Duration::ZERO => {}
                wait => std::thread::park_timeout(wait),
            },
            Source::Manual(_) => {
                let waker = std::task::Waker::from(Arc::new(Unpark(std::thread::current())));
                let mut reached = self.sleep_until(at);
                if reached.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending() {
                    std::thread::park();
                }
            }
        }
    }

    /// Resolves after `by`. Cancel-safe.
    pub fn sleep(&self, by: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + 'static>> {
        self.sleep_until(self.now().plus(by))
    }
}

struct Unpark(std::thread::Thread);

impl std::task::Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0 {
            Source::System { .. } => "Clock(system)",
            Source::Runtime { .. } => "Clock(runtime)",
            Source::Manual(_) => "Clock(manual)",
        })
    }
}

impl ManualClock {
    /// Moves both clocks forward and wakes the sleepers.
    pub fn advance(&self, by: Duration) {
        {
            let mut now = self.0.now.lock();
            *now = (now.0.plus(by), now.1.plus(by));
        }
        self.0.moved.notify_waiters();
    }

    /// Steps the wall clock alone, as an operator or NTP does.
    pub fn set_wall(&self, wall: Wall) {
        self.0.now.lock().1 = wall;
    }
}
