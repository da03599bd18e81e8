//! A bot's numbered inputs: planned by the clock alone, sent in order, kept until saved, sent again from what is owed.
//!
//! Latency counts from the *planned* time (docs/invariants.md C64): a server that stalls, or a socket that does not take more,
//! delays the sending, never the plan.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use tenure_shared::limits::UNSAVED_INPUTS;

/// Share of the server's message rate that a bot uses at most while it catches up.
const CATCH_UP: f64 = 0.8;
/// Message rate before the server has said its own, per second.
const RATE: u32 = 60;

/// One input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input {
    pub(crate) seq: u64,
    pub(crate) planned: Instant,
    pub(crate) steer: (i8, i8),
    /// Whether its latency counts.
    pub(crate) timed: bool,
    /// Whether it was sent before.
    pub(crate) again: bool,
}

/// Why the server's wish for a number cannot be met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owed {
    /// It was reported as saved, so it is gone (H4 is broken).
    Saved,
    /// It was never planned.
    Unknown,
}

#[derive(Debug)]
pub(crate) struct Inputs {
    period: Option<Duration>,
    /// From the first seat to the first input.
    offset: Duration,
    started: bool,
    next: Instant,
    queue: VecDeque<Input>,
    /// Number of the queue's first input, or the next number if it is empty.
    first: u64,
    /// Place in the queue of the first input to send.
    unsent: usize,
    /// Highest number shown as applied.
    applied: u64,
    rate: f64,
    tokens: f64,
    refilled: Instant,
}

impl Inputs {
    /// Inputs every `period`, the first `offset` after the first seat; none without a period. Seats come at ticks:
    /// without an offset all bots would send right after a tick, where an input waits longest.
    pub(crate) fn new(period: Option<Duration>, offset: Duration, now: Instant) -> Self {
        let rate = f64::from(RATE);
        Self {
            period,
            offset,
            started: false,
            next: now,
            queue: VecDeque::new(),
            first: 1,
            unsent: 0,
            applied: 0,
            rate,
            tokens: rate,
            refilled: now,
        }
    }

    /// The server's message rate, per second.
    pub(crate) fn set_rate(&mut self, rate: u32) {
        self.rate = f64::from(rate.max(1));
    }

    /// Plans all inputs that are due: (planned, withheld because too many are unsaved).
    pub(crate) fn plan(&mut self, now: Instant, timed: bool, mut steer: impl FnMut() -> (i8, i8)) -> (u64, u64) {
        let Some(period) = self.period.filter(|_| self.started) else { return (0, 0) };
        let (mut planned, mut withheld) = (0, 0);
        while self.next <= now {
            if self.queue.len() < UNSAVED_INPUTS {
                let input = Input { seq: self.end(), planned: self.next, steer: steer(), timed, again: false };
                self.queue.push_back(input);
            } else {
                withheld += 1;
            }
            planned += 1;
            self.next += period;
        }
        (planned, withheld)
    }

    /// A seat was given. The first one starts the plan; nothing stops it again.
    pub(crate) fn start(&mut self, now: Instant) {
        if !self.started {
            self.started = true;
            self.next = now + self.offset;
        }
    }

    /// The next input to send, if the message rate allows one.
    pub(crate) fn take(&mut self, now: Instant) -> Option<Input> {
        let input = *self.queue.get(self.unsent)?;
        let refill = now.saturating_duration_since(self.refilled).as_secs_f64() * self.rate * CATCH_UP;
        self.tokens = (self.tokens + refill).min(self.rate);
        self.refilled = now;
        if self.tokens < 1.0 {
            return None;
        }
        self.tokens -= 1.0;
        if let Some(kept) = self.queue.get_mut(self.unsent) {
            kept.again = true;
        }
        self.unsent += 1;
        Some(input)
    }

    /// When there is something to do next, at most `idle` from now.
    pub(crate) fn wake(&self, now: Instant, idle: Duration) -> Instant {
        let mut wake = now + idle;
        if self.period.is_some() && self.started {
            wake = wake.min(self.next);
        }
        if self.unsent < self.queue.len() {
            wake = wake.min(now + Duration::from_secs_f64(1.0 / (self.rate * CATCH_UP)));
        }
        wake
    }

    /// The room has applied all up to `seq`: calls `record` with each timed latency, returns how many are new.
    pub(crate) fn applied(&mut self, seq: u64, now: Instant, mut record: impl FnMut(Duration)) -> u64 {
        let seq = seq.min(self.end() - 1);
        let before = self.applied;
        for number in self.applied + 1..=seq {
            let place = number.checked_sub(self.first).and_then(|n| usize::try_from(n).ok());
            if let Some(input) = place.and_then(|at| self.queue.get(at))
                && input.timed
            {
                record(now.saturating_duration_since(input.planned));
            }
        }
        self.applied = self.applied.max(seq);
        self.applied - before
    }

    /// All up to `seq` are in a stored checkpoint: they need not be kept.
    pub(crate) fn saved(&mut self, seq: u64) {
        while self.first <= seq && self.queue.pop_front().is_some() {
            self.first += 1;
            self.unsent = self.unsent.saturating_sub(1);
        }
    }

    /// The room wants `seq` next: sending goes on from there.
    pub(crate) fn owed(&mut self, seq: u64) -> Result<(), Owed> {
        let place = seq.checked_sub(self.first).ok_or(Owed::Saved)?;
        match usize::try_from(place) {
            Ok(place) if place <= self.queue.len() => {
                self.unsent = place;
                Ok(())
            }
            _ => Err(Owed::Unknown),
        }
    }

    /// Number of the first input that is still kept, or the next number.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// Number of the last input planned so far, 0 for none.
    pub(crate) fn last(&self) -> u64 {
        self.end() - 1
    }

    /// Whether everything planned is saved.
    pub(crate) fn all_saved(&self) -> bool {
        self.queue.is_empty()
    }

    /// Timed inputs that were not shown as applied: calls `record` with how long each has waited.
    pub(crate) fn unanswered(&self, now: Instant, mut record: impl FnMut(Duration)) -> u64 {
        let waiting = self.queue.iter().filter(|input| input.seq > self.applied && input.timed);
        waiting.map(|input| record(now.saturating_duration_since(input.planned))).count() as u64
    }

    /// A new seat counts from 1 again.
    pub(crate) fn restart(&mut self) {
        self.begin_at(1);
    }

    /// A seat is taken without what was planned before, which nobody waits for: from the number that it is owed.
    pub(crate) fn begin_anew(&mut self, owed: u64) {
        self.begin_at(owed.max(1));
        self.started = false;
    }

    fn begin_at(&mut self, first: u64) {
        self.queue.clear();
        (self.first, self.unsent, self.applied) = (first, 0, first - 1);
    }

    /// The number that the next planned input gets.
    fn end(&self) -> u64 {
        self.first + self.queue.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_millis(100);

    fn started(start: Instant) -> Inputs {
        let mut inputs = Inputs::new(Some(PERIOD), Duration::ZERO, start);
        inputs.start(start);
        inputs
    }

    fn take_all(inputs: &mut Inputs, now: Instant) -> Vec<u64> {
        std::iter::from_fn(|| inputs.take(now)).map(|input| input.seq).collect()
    }

    #[test]
    fn a_stalled_server_counts_from_the_planned_time() {
        // docs/invariants.md C64: 10 inputs a second for 60 s, the server answers at once but stands still from 30 s to 36 s.
        let start = Instant::now();
        let mut inputs = started(start);
        let mut times = crate::stats::Times::default();
        for ms in (0..60_000).step_by(10) {
            let now = start + Duration::from_millis(ms);
            let stalled = (30_000..36_000).contains(&ms);
            // A socket that takes nothing more: the bot itself stands still as well, the plan does not.
            if !stalled {
                inputs.plan(now, true, || (1, 1));
                let sent = take_all(&mut inputs, now);
                if let Some(last) = sent.last() {
                    inputs.applied(*last, now, |time| times.record(time));
                    inputs.saved(*last);
                }
            }
        }
        assert_eq!(times.count(), 600);
        let within = |share, low, high| {
            let ms = times.quantile_ms(share);
            assert!((low..=high).contains(&ms), "{share}: {ms} ms");
        };
        within(0.85, 0.0, 100.0);
        within(0.95, 2_500.0, 3_500.0);
        within(0.99, 5_000.0, 6_000.0);
        assert!((5_900.0..=6_100.0).contains(&times.max_ms()), "{}", times.max_ms());
    }

    #[test]
    fn a_second_seat_does_not_move_the_plan() {
        let start = Instant::now();
        let mut inputs = Inputs::new(Some(PERIOD), PERIOD / 2, start);
        let later = start + PERIOD * 10;
        assert_eq!(inputs.plan(later, true, || (0, 0)), (0, 0), "nothing is planned before the first seat");
        inputs.start(later);
        inputs.start(later + PERIOD * 3);
        assert_eq!(inputs.plan(later + PERIOD * 3, true, || (0, 0)), (3, 0));
        assert_eq!(inputs.take(later + PERIOD * 3).map(|i| i.planned), Some(later + PERIOD / 2));
    }

    #[test]
    fn unsaved_inputs_are_sent_again_from_what_is_owed() {
        let start = Instant::now();
        let mut inputs = started(start);
        let at = |n: u32| start + PERIOD * n;
        inputs.plan(at(9), false, || (0, 0));
        assert_eq!(take_all(&mut inputs, at(9)), (1..=10).collect::<Vec<_>>());
        inputs.saved(4);
        assert_eq!((inputs.first(), inputs.last()), (5, 10));
        assert_eq!(inputs.owed(7), Ok(()));
        inputs.plan(at(10), false, || (0, 0));
        let again: Vec<_> = std::iter::from_fn(|| inputs.take(at(10))).map(|i| (i.seq, i.again)).collect();
        assert_eq!(again, [(7, true), (8, true), (9, true), (10, true), (11, false)]);
        assert_eq!(inputs.owed(4), Err(Owed::Saved));
        assert_eq!(inputs.owed(13), Err(Owed::Unknown));
        assert_eq!(inputs.owed(12), Ok(()));
        inputs.saved(11);
        assert!(inputs.all_saved());
        assert_eq!((inputs.first(), inputs.owed(12)), (12, Ok(())));
    }

    #[test]
    fn a_rollback_counts_no_latency_twice() {
        let start = Instant::now();
        let mut inputs = started(start);
        let late = start + Duration::from_secs(1);
        inputs.plan(late, true, || (0, 0));
        assert_eq!(inputs.applied(5, late, |_| ()), 5);
        assert_eq!(inputs.applied(3, late, |_| panic!("counted twice")), 0);
        let mut shown = 0;
        assert_eq!(inputs.applied(u64::MAX, late, |_| shown += 1), 6);
        assert_eq!((shown, inputs.unanswered(late, |_| ())), (6, 0));
    }

    #[test]
    fn catching_up_keeps_below_the_servers_rate() {
        let start = Instant::now();
        let mut inputs = started(start);
        inputs.set_rate(60);
        let back = start + Duration::from_secs(100);
        let (planned, withheld) = inputs.plan(back, false, || (0, 0));
        assert_eq!((planned, withheld), (1001, 1001 - UNSAVED_INPUTS as u64));
        let first = take_all(&mut inputs, back).len();
        let second = take_all(&mut inputs, back + Duration::from_secs(1)).len();
        assert_eq!((first, second), (60, 48));
        assert!(inputs.wake(back, Duration::from_secs(9)) <= back + Duration::from_millis(21));
    }
}
