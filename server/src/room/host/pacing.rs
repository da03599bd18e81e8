//! Tick pacing: drift-free, with a bounded catch-up, and phases that spread rooms over the period.

use std::time::Duration;

use crate::runtime::Mono;

/// Phases lie on a grid of this width, so that a thread with a thousand rooms wakes once per grid point and not once per room.
const PHASE_GRID: Duration = Duration::from_millis(5);

/// What is due now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    /// Ticks to run now.
    pub(super) run: u32,
    /// Ticks that are given up.
    pub(super) dropped: u64,
    /// How late the first of them is.
    pub(super) late: Duration,
}

/// Says when the ticks of one room are due. The next moment comes from the last one, never from "now": no drift.
#[derive(Debug)]
pub(super) struct Pacer {
    period: Duration,
    catch_up: u32,
    phase: u64,
    next: Mono,
}

impl Pacer {
    /// Ticks every `period`, at a phase taken from `hash`; the first within one period after `now`. After a stall at most `catch_up` missed ticks run.
    pub(super) fn new(period: Duration, catch_up: u32, hash: u64, now: Mono) -> Self {
        let period = period.max(Duration::from_millis(1));
        let grid = (period.as_nanos() / PHASE_GRID.as_nanos()).max(1);
        let slot = u128::from(hash) % grid;
        let phase = u64::try_from(slot * PHASE_GRID.as_nanos()).unwrap_or(0);
        let mut pacer = Self { period, catch_up, phase, next: now };
        pacer.restart(now);
        pacer
    }

    /// When the next tick is due.
    pub(super) fn next(&self) -> Mono {
        self.next
    }

    /// Forgets what was missed (after a freeze: its time did not pass for the room).
    pub(super) fn restart(&mut self, now: Mono) {
        let period = self.nanos();
        let into = now.0.wrapping_sub(self.phase) % period;
        self.next = Mono(now.0.saturating_add(period - into));
    }

    /// Goes on with what ticked elsewhere until now: the next tick at `next` or as soon as it can be, on the grid.
    pub(super) fn resume(&mut self, next: Mono, now: Mono) {
        let (period, grid) = (self.nanos(), PHASE_GRID.as_nanos() as u64);
        let next = next.max(now).0;
        let into = next % period;
        let slots = (period / grid).max(1);
        let slot = into.div_ceil(grid);
        self.phase = if slot < slots { slot * grid } else { 0 };
        let wait = if slot < slots { self.phase - into } else { (period - into) % period };
        self.next = Mono(next.saturating_add(wait));
    }

    /// When the last tick was due.
    pub(super) fn last(&self) -> Mono {
        Mono(self.next.0.saturating_sub(self.nanos()))
    }

    /// What is due at `now`; `None` before the next tick.
    pub(super) fn due(&mut self, now: Mono) -> Option<Due> {
        if now < self.next {
            return None;
        }
        let late = now.since(self.next);
        let missed = late.as_nanos() as u64 / self.nanos();
        let caught = missed.min(u64::from(self.catch_up));
        self.next = Mono(self.next.0.saturating_add((missed + 1).saturating_mul(self.nanos())));
        Some(Due { run: caught as u32 + 1, dropped: missed - caught, late })
    }

    fn nanos(&self) -> u64 {
        self.period.as_nanos() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_millis(50);

    #[test]
    fn ticks_do_not_drift() {
        let mut pacer = Pacer::new(PERIOD, 5, 7, Mono(0));
        let first = pacer.next();
        let mut ran = 0;
        // Each run comes a little late; the schedule does not move.
        while ran < 1_000 {
            let now = pacer.next().plus(Duration::from_micros(ran % 997));
            let due = pacer.due(now).expect("due");
            assert_eq!((due.run, due.dropped), (1, 0));
            ran += 1;
        }
        assert_eq!(pacer.next(), first.plus(PERIOD * 1_000));
    }

    #[test]
    fn after_a_stall_five_missed_ticks_run_and_the_rest_is_counted() {
        let mut pacer = Pacer::new(PERIOD, 5, 0, Mono(0));
        let due = pacer.due(pacer.next().plus(PERIOD * 3)).expect("due");
        assert_eq!((due.run, due.dropped, due.late), (4, 0, PERIOD * 3));
        let due = pacer.due(pacer.next().plus(PERIOD * 100)).expect("due");
        assert_eq!((due.run, due.dropped), (6, 95));
        assert_eq!(pacer.due(pacer.next().plus(Duration::ZERO)).map(|d| d.run), Some(1));
    }

    #[test]
    fn nothing_is_due_before_the_next_tick_and_a_restart_forgets() {
        let mut pacer = Pacer::new(PERIOD, 5, 3, Mono(1_000_000_000));
        assert_eq!(pacer.due(Mono(pacer.next().0 - 1)), None);
        let now = pacer.next().plus(PERIOD * 40);
        pacer.restart(now);
        assert!(pacer.next() > now && pacer.next() <= now.plus(PERIOD));
        assert_eq!(pacer.due(now), None);
    }

    #[test]
    fn what_ticked_elsewhere_goes_on_a_period_later_on_the_grid() {
        for hz in [1_u64, 20, 30, 60, 128, 1_000] {
            let period = Duration::from_nanos(1_000_000_000 / hz);
            for n in 0..500 {
                let mut pacer = Pacer::new(period, 5, n, Mono(0));
                let now = Mono(77_000_000_000 + n * 1_234_567);
                // It was due before now, or is due within a period.
                let due = Mono(now.0 - period.as_nanos() as u64 + n * 2 * period.as_nanos() as u64 / 500);
                pacer.resume(due, now);
                let late = pacer.next().0 - due.max(now).0;
                assert!(late <= 2 * PHASE_GRID.as_nanos() as u64, "{hz} {n}: {late}");
                let (first, phase) = (pacer.next(), pacer.phase);
                assert_eq!(pacer.due(first).map(|due| (due.run, due.dropped)), Some((1, 0)));
                assert_eq!(pacer.next(), first.plus(period), "no drift");
                let hash_phase = phase % PHASE_GRID.as_nanos() as u64;
                assert_eq!((hash_phase, first.0 % period.as_nanos() as u64), (0, phase), "on the grid");
                assert_eq!(pacer.last(), first);
            }
        }
    }

    #[test]
    fn phases_are_spread_over_the_period() {
        let mut phases: Vec<u64> =
            (0..1_000).map(|n| Pacer::new(PERIOD, 5, n * 7_919, Mono(0)).next().0 % 50_000_000).collect();
        phases.sort_unstable();
        phases.dedup();
        assert_eq!(phases.len(), 10, "one per grid point");
    }
}
