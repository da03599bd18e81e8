//! What a running daemon has: who it is, timers, its durable state, the way to other daemons.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use parking_lot::Mutex;
use tenure_shared::Term;

use super::{agreed::key, handle::Daemons};
use crate::{
    ownership::Ownership,
    runtime::{Clock, Mono, Rng, Shutdown, Wall},
    store::{Error, Fence, Store, model::limits::STATE_BYTES},
};

/// Most timers of one daemon.
pub const TIMERS: usize = 1_024;
/// Shortest period of a timer.
const SHORTEST_PERIOD: Duration = Duration::from_millis(1);
/// First wait before a write that got no answer is sent again; it doubles up to so often.
const RETRY: Duration = Duration::from_millis(20);
const RETRY_DOUBLINGS: u32 = 5;

/// The first byte of a stored state: of a daemon that may run, or of an index that is ended for ever.
pub(super) const LIVE: u8 = 0;
/// See [`LIVE`].
pub(super) const ENDED: u8 = 1;

/// Most figures that a daemon shows of itself, and the longest name of one, bytes.
pub const FIGURES: usize = 16;
const FIGURE_BYTES: usize = 32;

/// When a daemon last made progress, by the monotonic clock, and what it shows of itself.
#[derive(Debug, Default)]
pub(super) struct Mark(AtomicU64, Mutex<BTreeMap<String, i64>>);

impl Mark {
    pub(super) fn set(&self, now: Mono) {
        self.0.fetch_max(now.0, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> Mono {
        Mono(self.0.load(Ordering::Relaxed))
    }

    pub(super) fn figures(&self) -> BTreeMap<String, i64> {
        self.1.lock().clone()
    }
}

/// A timer that is set.
#[derive(Clone, Copy, Debug)]
struct Timer {
    at: Mono,
    every: Option<Duration>,
}

/// What a running daemon has.
pub struct Context {
    pub(super) name: Arc<str>,
    pub(super) single: bool,
    pub(super) index: u32,
    pub(super) count: u32,
    pub(super) generation: u64,
    pub(super) fence: Fence,
    pub(super) store: Store,
    pub(super) clock: Clock,
    pub(super) rng: Rng,
    pub(super) ownership: Ownership,
    pub(super) daemons: Daemons,
    pub(super) deadline: Duration,
    pub(super) mark: Arc<Mark>,
    pub(super) stop: Shutdown,
    /// Version and body of the stored state.
    pub(super) state: (u64, Option<Bytes>),
    pub(super) timers: Timers,
    pub(super) ends: bool,
    /// The store refused its fence.
    pub(super) fenced: bool,
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("key", self.fence.key()).field("term", &self.term()).finish_non_exhaustive()
    }
}

/// The timers of a daemon, by name.
#[derive(Debug, Default)]
pub(super) struct Timers(BTreeMap<String, Timer>);

impl Timers {
    pub(super) fn next(&self) -> Option<Mono> {
        self.0.values().map(|timer| timer.at).min()
    }

    /// The timer that is due first, if one is; one that is periodic is set anew, on its grid.
    pub(super) fn due(&mut self, now: Mono) -> Option<String> {
        let (name, timer) = self.0.iter().filter(|(_, timer)| timer.at <= now).min_by_key(|(_, timer)| timer.at)?;
        let (name, timer) = (name.clone(), *timer);
        match timer.every {
            // What was missed is not made up for.
            Some(every) => {
                let missed = now.since(timer.at).as_nanos() / every.as_nanos().max(1);
                let steps = u32::try_from(missed).unwrap_or(u32::MAX - 1) + 1;
                self.0.insert(name.clone(), Timer { at: timer.at.plus(every.saturating_mul(steps)), ..timer });
            }
            None => {
                self.0.remove(&name);
            }
        }
        Some(name)
    }

    fn set(&mut self, name: &str, timer: Timer) -> bool {
        let room = self.0.len() < TIMERS || self.0.contains_key(name);
        if room {
            self.0.insert(name.to_owned(), timer);
        }
        room
    }
}

impl Context {
    /// The set's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Which of the set it is, from 0.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// How many the set has now: while a rescale waits for the last node this is the former number.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Grows by one with each change of the number.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The term of this activation: no other one of this index ever had it.
    pub fn term(&self) -> Term {
        self.fence.term()
    }

    /// What its writes of owned state carry.
    pub fn fence(&self) -> &Fence {
        &self.fence
    }

    /// The store. What is written without a [`Context::fence`] must have a guard of its own.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// This node's ownership: members, where shards are.
    pub fn ownership(&self) -> &Ownership {
        &self.ownership
    }

    /// The other daemons.
    pub fn daemons(&self) -> &Daemons {
        &self.daemons
    }

    /// The clock of timers.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Randomness.
    pub fn rng(&self) -> &Rng {
        &self.rng
    }

    /// The store's time.
    pub fn wall(&self) -> Wall {
        self.store.now()
    }

    /// Whether the node's lease holds: past it nothing may be shown or sent that others would take for true.
    pub fn holds(&self) -> bool {
        !self.fenced && self.ownership.holds(self.clock.now())
    }

    /// A long handler says that it gets on.
    pub fn progress(&self) {
        self.mark.set(self.clock.now());
    }

    /// Shows a figure of this daemon to people: on the admin page and in `daemons list`, until it ends. `false`: there are [`FIGURES`]
    /// already, or the name is longer than 32 bytes.
    pub fn show(&self, name: &str, figure: i64) -> bool {
        let mut figures = self.mark.1.lock();
        let room = figures.len() < FIGURES || figures.contains_key(name);
        let fits = room && name.len() <= FIGURE_BYTES;
        if fits {
            figures.insert(name.to_owned(), figure);
        }
        fits
    }

    /// Resolves when the daemon is asked to stop: a long handler looks at it. Cancel-safe.
    pub async fn stopping(&self) {
        self.stop.stopped().await;
    }

    /// Ends this daemon after the handler. It is started again after a while, since there are always as many as the set says; whoever wants
    /// it to stay away stops the set.
    pub fn end(&mut self) {
        self.ends = true;
    }

    /// Sets a timer, in the place of one of that name. `false`: there are [`TIMERS`] already.
    pub fn after(&mut self, name: &str, wait: Duration) -> bool {
        self.timers.set(name, Timer { at: self.clock.now().plus(wait), every: None })
    }

    /// Sets a timer that comes again and again; what a pause missed is not made up for. `false`: there are [`TIMERS`] already.
    pub fn every(&mut self, name: &str, period: Duration) -> bool {
        let every = period.max(SHORTEST_PERIOD);
        self.timers.set(name, Timer { at: self.clock.now().plus(every), every: Some(every) })
    }

    /// Takes a timer back.
    pub fn cancel(&mut self, name: &str) {
        self.timers.0.remove(name);
    }

    /// The durable state that this index stored last, under whatever term.
    pub fn state(&self) -> Option<&Bytes> {
        self.state.1.as_ref()
    }

    /// Stores the state, under the fence: when this is `Ok` whoever runs the index next finds it. At most 64 KiB. Without an answer of
    /// the store it is tried again as long as the lease holds. A cancelled call leaves open whether it was stored.
    ///
    /// # Errors
    /// [`Error::Fenced`]: another has the index, and this activation ends; [`Error::Invalid`]: too large; [`Error::Unavailable`]: the lease ran out.
    pub async fn save(&mut self, state: Bytes) -> Result<(), Error> {
        if state.len() >= STATE_BYTES {
            return Err(Error::Invalid(format!(
                "state of {}: {} bytes; at most {}",
                self.fence.key(),
                state.len(),
                STATE_BYTES - 1
            )));
        }
        let mut body = Vec::with_capacity(state.len() + 1);
        body.push(LIVE);
        body.extend_from_slice(&state);
        let body = Bytes::from(body);
        for attempt in 0_u32.. {
            if !self.holds() {
                break;
            }
            let put = tokio::select! {
                biased;
                put = self.store.put_state(&self.fence, self.state.0, body.clone()) => put,
                () = self.clock.sleep(self.deadline) => Err(Error::Unavailable("no answer within the deadline".to_owned())),
            };
            match put {
                Ok(()) => {
                    self.state = (self.state.0 + 1, Some(state));
                    return Ok(());
                }
                Err(error) if error.may_retry() => {
                    self.clock.sleep(RETRY * 2_u32.pow(attempt.min(RETRY_DOUBLINGS))).await;
                }
                // A conflict means that a write of this activation was carried out which it gave up: what is stored is not known any more.
                Err(error) => {
                    self.fenced |= matches!(error, Error::Fenced { .. } | Error::Conflict(_));
                    return Err(error);
                }
            }
        }
        self.fenced = true;
        Err(Error::Unavailable("the node's lease is over".to_owned()))
    }

    /// The state that an index of the former generation left, for a set that was rescaled.
    ///
    /// # Errors
    /// What the store met.
    pub async fn former_state(&self, index: u32) -> Result<Option<Bytes>, Error> {
        if self.generation < 2 {
            return Ok(None);
        }
        let key = key(&self.name, self.single, self.generation - 1, index);
        Ok(self.store.state(&key).await?.and_then(|state| (state.body.len() > 1).then(|| state.body.slice(1..))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_keep_their_grid_and_do_not_make_up_for_a_pause() {
        let mut timers = Timers::default();
        let (second, at) = (Duration::from_secs(1), |tenths: u64| Mono(tenths * 100_000_000));
        timers.set("tick", Timer { at: at(10), every: Some(second) });
        timers.set("once", Timer { at: at(12), every: None });
        assert_eq!((timers.due(at(9)), timers.next()), (None, Some(at(10))));
        assert_eq!((timers.due(at(11)).as_deref(), timers.next()), (Some("tick"), Some(at(12))));
        assert_eq!((timers.due(at(57)).as_deref(), timers.due(at(57)).as_deref()), (Some("once"), Some("tick")));
        assert_eq!((timers.due(at(57)), timers.next()), (None, Some(at(60))));
    }
}
