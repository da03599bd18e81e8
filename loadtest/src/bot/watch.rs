//! What only all bots together can see: who hears nothing, and whether two owners ever sent under one term.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tenure_shared::{Term, Tick};

/// Newest frames of a room that are remembered: a hundred seconds at 20 Hz, longer than any pause after which a former owner wakes up.
const FRAMES: usize = 2_048;

/// Of one run.
#[derive(Debug)]
pub(crate) struct Watch {
    start: Instant,
    /// When each bot heard its last frame, ms since the start, plus 1; 0: never.
    heard: Vec<AtomicU64>,
    /// Of each room the shared part of its frames, hashed: it is one for all of a room, whatever gateway it comes through.
    rooms: Vec<Mutex<BTreeMap<(Term, Tick), u64>>>,
}

impl Watch {
    pub(crate) fn new(bots: u32, rooms: u32) -> Arc<Self> {
        let heard = (0..bots).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Self { start: Instant::now(), heard, rooms: (0..rooms).map(|_| Mutex::default()).collect() })
    }

    /// The longest time for which a bot that ever heard a frame has heard none.
    pub(crate) fn longest_silence(&self) -> Duration {
        let now = self.start.elapsed();
        let silent = |heard: &AtomicU64| match heard.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            ms => now.saturating_sub(Duration::from_millis(ms - 1)),
        };
        self.heard.iter().map(silent).max().unwrap_or_default()
    }

    /// One bot's view of it.
    pub(crate) fn of(self: &Arc<Self>, bot: u32) -> Watched {
        Watched { watch: self.clone(), bot: bot as usize }
    }
}

/// See [`Watch::of`].
#[derive(Debug)]
pub(crate) struct Watched {
    watch: Arc<Watch>,
    bot: usize,
}

impl Watched {
    /// A frame was shown.
    pub(crate) fn heard(&self, now: Instant) {
        let ms = now.saturating_duration_since(self.watch.start).as_millis();
        if let Some(heard) = self.watch.heard.get(self.bot) {
            heard.store(u64::try_from(ms).unwrap_or(u64::MAX - 1) + 1, Ordering::Relaxed);
        }
    }

    /// It left its room: it hears nothing by its own will.
    pub(crate) fn away(&self) {
        if let Some(heard) = self.watch.heard.get(self.bot) {
            heard.store(0, Ordering::Relaxed);
        }
    }

    /// Whether another bot of the room was sent something else for this term and tick: then two owners had one term (H2), or one tick was
    /// computed twice.
    pub(crate) fn differs(&self, at: (Term, Tick), body: &[u8]) -> bool {
        let room = self.bot % self.watch.rooms.len().max(1);
        let Some(room) = self.watch.rooms.get(room) else { return false };
        let mut hasher = DefaultHasher::new();
        body.hash(&mut hasher);
        let hash = hasher.finish();
        let mut frames = room.lock().unwrap_or_else(PoisonError::into_inner);
        let known = *frames.entry(at).or_insert(hash);
        while frames.len() > FRAMES {
            frames.pop_first();
        }
        known != hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_bodies_under_one_term_and_tick_differ() {
        let watch = Watch::new(4, 2);
        let at = (Term(7), Tick(1));
        assert!(!watch.of(0).differs(at, b"a"));
        assert!(!watch.of(2).differs(at, b"a"), "the same room, the same frame");
        assert!(!watch.of(1).differs(at, b"b"), "another room");
        assert!(watch.of(2).differs(at, b"b"));
        assert!(!watch.of(2).differs((Term(8), Tick(1)), b"b"));
        for tick in 0..5_000 {
            watch.of(0).differs((Term(9), Tick(tick)), b"x");
        }
        assert_eq!(watch.rooms[0].lock().expect("not poisoned").len(), FRAMES);
    }

    #[test]
    fn who_never_heard_anything_is_not_silent() {
        let watch = Watch::new(2, 1);
        assert_eq!(watch.longest_silence(), Duration::ZERO);
        watch.of(1).heard(watch.start);
        while watch.longest_silence() == Duration::ZERO {
            std::hint::spin_loop();
        }
        watch.of(1).heard(Instant::now());
        assert!(watch.longest_silence() < Duration::from_secs(5));
    }
}
