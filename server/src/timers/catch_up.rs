//! What is done about occurrences that were missed. The cost has a bound that does not grow with their number
//! (docs/invariants.md C18).

use std::time::Duration;

use super::schedule::{CatchUpPolicy, Schedule};
use crate::runtime::Wall;

/// Missed occurrences that are counted one by one; more are told as "at least".
pub const MAX_COUNTED: usize = 1_000;

/// How late the newest missed occurrence may be to run even under `skip`: a restart or a move of a room takes less.
pub const GRACE: Duration = Duration::from_secs(60);

/// Most occurrences that `all` runs, whatever the file says.
pub const MAX_CATCH_UP: usize = 1_000;

/// What is to be done now, and when the schedule is due next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CatchUp {
    /// To be run, oldest first, each under its own identity; the caller paces them.
    pub run: Vec<Wall>,
    /// Missed occurrences that are not run; logged once and counted by the caller.
    pub dropped: u64,
    /// Whether there were more than could be counted: then `dropped` is the least number.
    pub at_least: bool,
    /// The first occurrence after both `previous` and `now`.
    pub next: Option<Wall>,
}

impl Schedule {
    /// Decides about the occurrences after `previous` (the last one that was decided) up to and including `now`, by
    /// the schedule's own policy, limit and age. A `now` before `previous`, as after a step of the clock, runs nothing
    /// again (docs/invariants.md C23).
    pub fn catch_up(&self, previous: Wall, now: Wall) -> CatchUp {
        self.catch_up_by(previous, now, self.catch_up, self.catch_up_limit, self.catch_up_max_age)
    }

    /// As [`Schedule::catch_up`], for an occurrence that is pending and was not decided yet: it counts too.
    pub fn catch_up_pending(&self, pending: Wall, now: Wall) -> CatchUp {
        self.catch_up(Wall(pending.0.saturating_sub(1)), now)
    }

    /// As [`Schedule::catch_up`], by a policy that is given.
    pub fn catch_up_by(
        &self,
        previous: Wall,
        now: Wall,
        policy: CatchUpPolicy,
        limit: usize,
        max_age: Duration,
    ) -> CatchUp {
        let (missed, all_counted) = self.first_missed(previous, now);
        let oldest = match policy {
            CatchUpPolicy::Skip => ago(now, GRACE.min(max_age)),
            CatchUpPolicy::Latest | CatchUpPolicy::All => ago(now, max_age),
        };
        let limit = match policy {
            CatchUpPolicy::Skip | CatchUpPolicy::Latest => 1,
            CatchUpPolicy::All => limit.min(MAX_CATCH_UP),
        };
        let young = |at: &Wall| *at >= oldest;
        let run = if all_counted {
            let from = missed.len().saturating_sub(limit);
            missed.iter().skip(from).copied().filter(young).collect()
        } else {
            self.newest(previous, now, limit).into_iter().filter(young).collect::<Vec<_>>()
        };
        CatchUp {
            dropped: (missed.len() as u64).saturating_sub(run.len() as u64),
            run,
            at_least: !all_counted,
            next: self.next_after(previous.max(now)),
        }
    }

    /// The oldest missed occurrences, at most [`MAX_COUNTED`], and whether that is all of them.
    fn first_missed(&self, previous: Wall, now: Wall) -> (Vec<Wall>, bool) {
        let mut missed = Vec::new();
        let mut at = previous;
        while let Some(next) = self.next_after(at).filter(|next| *next <= now) {
            if missed.len() == MAX_COUNTED {
                return (missed, false);
            }
            missed.push(next);
            at = next;
        }
        (missed, true)
    }

    /// The newest `limit` occurrences in `(previous, now]`, oldest first.
    fn newest(&self, previous: Wall, now: Wall, limit: usize) -> Vec<Wall> {
        let mut found = Vec::new();
        let (mut upto, mut gap) = (now, 1_000_000);
        while found.len() < limit {
            let Some(last) = self.last_within(previous, upto, gap) else { break };
            gap = upto.0.saturating_sub(last.0).max(1_000_000);
            found.push(last);
            upto = Wall(last.0 - 1);
        }
        found.reverse();
        found
    }

    /// The last occurrence in `(previous, upto]`: steps back in growing steps, from `gap` on, until it is behind one,
    /// then halves. `next_after` never goes back, which makes this right.
    fn last_within(&self, previous: Wall, upto: Wall, gap: u64) -> Option<Wall> {
        let next = |after: u64| self.next_after(Wall(after)).filter(|at| *at <= upto);
        let mut step = gap;
        let mut last = loop {
            let after = upto.0.saturating_sub(step).max(previous.0);
            match next(after) {
                Some(at) => break at,
                None if after == previous.0 => return None,
                None => step = step.saturating_mul(2),
            }
        };
        // Nothing is due after `beyond`. Each round moves `last` on by at least one and halves what is between.
        let mut beyond = upto.0;
        while let Some(at) = next(last.0) {
            last = at;
            let middle = at.0 + (beyond - at.0) / 2;
            match next(middle) {
                Some(at) => last = at,
                None => beyond = middle,
            }
        }
        Some(last)
    }
}

fn ago(now: Wall, by: Duration) -> Wall {
    Wall(now.0.saturating_sub(u64::try_from(by.as_micros()).unwrap_or(u64::MAX)))
}
