//! How long a shard that stayed rests before it is offered again, and whether its next owner was silent too often.
//!
//! What cost the players nothing is tried again soon. What stood still for nothing is not: each further try may stop the rooms again, so
//! the rest grows fast. Another target is asked after one step in any case: whatever was wrong may be the first one's.

use std::{collections::BTreeMap, time::Duration};

use tenure_shared::{IncarnationId, ShardId};

use super::state::Why;
use crate::runtime::Mono;

/// Attempts without an answer after which a node that drains gives a shard without a word to its next owner.
const PLAIN_AFTER: u32 = 2;
/// How often the rest of a shard doubles that ticked on: from a step to sixteen.
const LONGEST_REST: u32 = 4;
/// How often the rest of a shard doubles that stood still for nothing: twice each time, from four steps to 512.
const LONGEST_STILL_REST: u32 = 9;
/// How long a shard rests that was not ready to be stopped.
const NOT_READY: Duration = Duration::from_millis(100);

/// Why a shard is here still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stayed {
    /// `None`: it was in doubt. It may be another's.
    pub(super) why: Option<Why>,
    /// Its rooms stood still for it.
    pub(super) still: bool,
    /// This node drains.
    pub(super) drains: bool,
}

/// Shards that stayed. Bounded by shards.
#[derive(Default)]
pub(super) struct Rests(BTreeMap<ShardId, Rest>);

struct Rest {
    to: IncarnationId,
    /// Attempts for that target so far; those of them in which rooms stood still; and the last of them that were met by silence.
    kept: u32,
    still: u32,
    silent: u32,
    /// Until when nobody is asked, and until when this target is not.
    anybody: Mono,
    same: Mono,
}

impl Rests {
    /// An attempt ended, and the shard stays, or is in doubt.
    pub(super) fn stayed(&mut self, now: Mono, shard: ShardId, to: &IncarnationId, step: Duration, stayed: Stayed) {
        let nothing = || Rest { to: to.clone(), kept: 0, still: 0, silent: 0, anybody: Mono(0), same: Mono(0) };
        let rest = self.0.entry(shard).or_insert_with(nothing);
        if rest.to != *to {
            *rest = nothing();
        }
        let Stayed { why, still, drains } = stayed;
        if why == Some(Why::Lost) {
            rest.anybody = now.plus(NOT_READY);
            rest.same = rest.anybody;
            return;
        }
        let silent = matches!(why, Some(Why::Late("offer" | "prepare") | Why::Unreachable));
        // Only silence in a row makes a node give without a word, and never to one that cannot read. A doubt is the store's.
        if why.is_some() {
            rest.silent = if silent { rest.silent.saturating_add(1) } else { 0 };
        }
        rest.kept = rest.kept.saturating_add(1);
        // After two of them it is given plainly, and that ends it.
        let ends = silent && drains;
        let doublings = if still && !ends {
            rest.still = rest.still.saturating_add(1);
            (rest.still.saturating_mul(2)).min(LONGEST_STILL_REST)
        } else {
            (rest.kept - 1).min(LONGEST_REST)
        };
        rest.anybody = now.plus(step);
        rest.same = now.plus(step * (1 << doublings));
    }

    /// The node drains from here on: its time is short, and everything is tried once more.
    pub(super) fn end(&mut self) {
        self.0.values_mut().for_each(|rest| (rest.anybody, rest.same) = (Mono(0), Mono(0)));
    }

    /// It is another's.
    pub(super) fn moved(&mut self, shard: ShardId) {
        self.0.remove(&shard);
    }

    /// Whether it is too early to ask this target again.
    pub(super) fn rests(&self, now: Mono, shard: ShardId, to: &IncarnationId) -> bool {
        self.0.get(&shard).is_some_and(|rest| now < if rest.to == *to { rest.same } else { rest.anybody })
    }

    /// Whether the target was silent so often that the link to it is taken for cut.
    pub(super) fn is_deaf(&self, shard: ShardId, to: &IncarnationId) -> bool {
        self.0.get(&shard).is_some_and(|rest| rest.to == *to && rest.silent >= PLAIN_AFTER)
    }

    /// When the next rest ends.
    pub(super) fn due(&self, now: Mono) -> Option<Mono> {
        self.0.values().flat_map(|rest| [rest.anybody, rest.same]).filter(|until| now < *until).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::RefuseReason;

    const STEP: Duration = Duration::from_secs(2);
    const SHARD: ShardId = ShardId(3);

    fn who(name: &str) -> IncarnationId {
        IncarnationId::new(name).expect("valid")
    }

    fn at(seconds: u64) -> Mono {
        Mono(seconds * 1_000_000_000)
    }

    /// After how many seconds the target is asked again, attempt after attempt.
    fn tries(stayed: Stayed, count: usize) -> Vec<u64> {
        let (mut rests, mut now, to) = (Rests::default(), at(0), who("b#1"));
        let mut tries = Vec::new();
        for _ in 0..count {
            rests.stayed(now, SHARD, &to, STEP, stayed);
            let begun = now;
            while rests.rests(now, SHARD, &to) {
                now = rests.due(now).expect("it ends");
            }
            tries.push(now.since(begun).as_secs());
        }
        tries
    }

    #[test]
    fn a_room_that_stood_still_for_nothing_does_not_stand_still_again_and_again() {
        let full = Some(Why::Refused(RefuseReason::Full));
        for why in [full, Some(Why::Late("prepare")), Some(Why::Differs), None] {
            let stayed = Stayed { why, still: true, drains: false };
            assert_eq!(tries(stayed, 6), [8, 32, 128, 512, 1_024, 1_024], "{why:?}");
        }
        let drains = Stayed { why: full, still: true, drains: true };
        assert_eq!(tries(drains, 2), [8, 32], "within the budget of a drain once more at most");
        let ticked_on = Stayed { why: full, still: false, drains: false };
        assert_eq!(tries(ticked_on, 6), [2, 4, 8, 16, 32, 32], "it costs nobody anything");
    }

    #[test]
    fn silence_in_a_row_is_taken_for_a_cut_link() {
        let (mut rests, to) = (Rests::default(), who("b#1"));
        let silent = |still| Stayed { why: Some(Why::Late("prepare")), still, drains: true };
        rests.stayed(at(0), SHARD, &to, STEP, silent(true));
        assert!(!rests.is_deaf(SHARD, &to));
        let heard = Stayed { why: Some(Why::Refused(RefuseReason::Full)), ..silent(false) };
        rests.stayed(at(10), SHARD, &to, STEP, heard);
        rests.stayed(at(20), SHARD, &to, STEP, silent(true));
        assert!(!rests.is_deaf(SHARD, &to), "it was heard in between");
        rests.stayed(at(30), SHARD, &to, STEP, silent(true));
        assert!(rests.is_deaf(SHARD, &to) && !rests.is_deaf(SHARD, &who("c#1")));
        rests.moved(SHARD);
        assert!(!rests.is_deaf(SHARD, &to));
    }

    #[test]
    fn another_target_is_asked_after_a_step() {
        let (mut rests, to) = (Rests::default(), who("b#1"));
        let stayed = Stayed { why: Some(Why::Refused(RefuseReason::Unreadable)), still: true, drains: false };
        rests.stayed(at(0), SHARD, &to, STEP, stayed);
        let other = who("c#1");
        assert!(rests.rests(at(1), SHARD, &other) && !rests.rests(at(2), SHARD, &other));
        assert!(rests.rests(at(2), SHARD, &to));
        rests.stayed(at(2), SHARD, &other, STEP, stayed);
        assert!(rests.rests(at(9), SHARD, &other) && !rests.rests(at(10), SHARD, &other), "it has a count of its own");
    }

    #[test]
    fn a_drain_does_not_wait_for_the_rests_of_before() {
        let (mut rests, to) = (Rests::default(), who("b#1"));
        let stayed = Stayed { why: Some(Why::Late("prepare")), still: true, drains: false };
        rests.stayed(at(0), SHARD, &to, STEP, stayed);
        rests.stayed(at(8), SHARD, &to, STEP, stayed);
        assert!(rests.rests(at(10), SHARD, &to));
        rests.end();
        assert!(!rests.rests(at(10), SHARD, &to));
    }

    #[test]
    fn what_was_not_ready_is_tried_again_at_once() {
        let (mut rests, to) = (Rests::default(), who("b#1"));
        rests.stayed(at(0), SHARD, &to, STEP, Stayed { why: Some(Why::Lost), still: true, drains: false });
        assert!(rests.rests(at(0), SHARD, &to) && !rests.rests(at(1), SHARD, &to));
        assert_eq!(rests.due(at(1)), None);
    }
}
