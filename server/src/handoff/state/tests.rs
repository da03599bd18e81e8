//! The machines step by step, and under random events.

use std::time::Duration;

use proptest::prelude::*;
use tenure_shared::{IncarnationId, RoomId, ShardId, Term};

use super::*;
use crate::{
    link::{Attempt, Handoff, Package, PackedRoom, RefuseReason},
    runtime::Mono,
};

const STEP: Duration = Duration::from_secs(2);
const TIMES: Times = Times { step: STEP, prepared: Duration::from_secs(5) };

fn attempt(number: u64) -> Attempt {
    Attempt { shard: ShardId(3), term: Term(7), number }
}

fn package(version: u64) -> Package {
    let room = RoomId::new("arena/eu/a").expect("a room id");
    Package { rooms: vec![PackedRoom { room, version, hash: 1, waited: 0 }] }
}

fn who(name: &str) -> IncarnationId {
    IncarnationId::new(name).expect("an incarnation")
}

fn at(seconds: u64) -> Mono {
    Mono(seconds * 1_000_000_000)
}

fn refuse(reason: RefuseReason) -> Handoff {
    Handoff::Refuse { reason, text: String::new() }
}

/// A source whose package was sent.
fn preparing() -> Source {
    let mut source = Source::offer(attempt(1), TIMES, at(0));
    assert_eq!(source.on(at(0), SourceEvent::Heard(attempt(1), Handoff::Ready)), [SourceEffect::Freeze]);
    let said = source.on(at(0), SourceEvent::Stored(package(1)));
    assert_eq!(said, [SourceEffect::Say(Handoff::Package(package(1)))]);
    source
}

fn transferring() -> Source {
    let mut source = preparing();
    let prepared = Handoff::Prepared { checksum: package(1).checksum() };
    assert_eq!(source.on(at(0), SourceEvent::Heard(attempt(1), prepared)), [SourceEffect::Transfer(package(1))]);
    source
}

#[test]
fn a_move_without_faults() {
    let mut source = transferring();
    let checksum = package(1).checksum();
    let told = source.on(at(1), SourceEvent::Given(Some(Term(8))));
    assert_eq!(told, [SourceEffect::Say(Handoff::Transferred { term: Term(8), checksum }), SourceEffect::Moved]);
    assert_eq!(source.step(), Step::Ended(End::Moved));
    assert_eq!(source.due(), None);
}

#[test]
fn a_refused_offer_costs_nothing() {
    let mut source = Source::offer(attempt(1), TIMES, at(0));
    assert!(source.on(at(0), SourceEvent::Heard(attempt(1), refuse(RefuseReason::Unreadable))).is_empty());
    assert_eq!(source.step(), Step::Ended(End::Kept(Why::Refused(RefuseReason::Unreadable))));
}

#[test]
fn before_the_transfer_every_late_step_thaws_and_after_it_none_does() {
    let mut source = Source::offer(attempt(1), TIMES, at(0));
    assert!(source.on(at(1), SourceEvent::Tick).is_empty(), "early");
    assert_eq!(source.on(at(2), SourceEvent::Tick), [SourceEffect::Say(Handoff::Abort)], "nothing stood still");
    let thaw = [SourceEffect::Thaw, SourceEffect::Say(Handoff::Abort)];
    assert_eq!(preparing().on(at(2), SourceEvent::Tick), thaw);
    let mut source = transferring();
    assert!(source.on(at(1), SourceEvent::Lost).is_empty());
    assert!(source.on(at(1), SourceEvent::Unreachable).is_empty());
    assert!(source.on(at(1), SourceEvent::Heard(attempt(1), refuse(RefuseReason::Full))).is_empty());
    assert_eq!(source.on(at(2), SourceEvent::Tick), [SourceEffect::Doubt]);
    assert!(source.on(at(2), SourceEvent::Given(Some(Term(8)))).is_empty(), "ownership decides now");
}

#[test]
fn worlds_of_another_checksum_are_not_given_the_claim() {
    let mut source = preparing();
    let other = Handoff::Prepared { checksum: package(2).checksum() };
    let thaw = [SourceEffect::Thaw, SourceEffect::Say(Handoff::Abort)];
    assert_eq!(source.on(at(1), SourceEvent::Heard(attempt(1), other)), thaw);
    assert_eq!(source.step(), Step::Ended(End::Kept(Why::Differs)));
}

#[test]
fn a_plain_giving_says_nothing_to_the_target() {
    let mut source = Source::plain(attempt(1), TIMES, at(0));
    assert_eq!(source.on(at(0), SourceEvent::Stored(package(1))), [SourceEffect::Give]);
    assert_eq!(source.on(at(0), SourceEvent::Given(None)), [SourceEffect::Moved]);
    let mut source = Source::plain(attempt(1), TIMES, at(0));
    assert_eq!(source.on(at(2), SourceEvent::Tick), [SourceEffect::Thaw]);
}

#[test]
fn a_target_answers_again_what_may_have_got_lost_and_nothing_older() {
    let (a, mut target) = (who("a"), Target::new(TIMES));
    let offer = |number| TargetEvent::Offer(a.clone(), attempt(number), Ok(()));
    let ready = |number| [TargetEffect::Say(a.clone(), attempt(number), Handoff::Ready)];
    assert_eq!(target.on(at(0), offer(1)), ready(1));
    assert_eq!(target.on(at(0), offer(1)), ready(1));
    let sent = TargetEvent::Heard(a.clone(), attempt(1), Handoff::Package(package(1)));
    assert_eq!(target.on(at(0), sent.clone()), [TargetEffect::Make(attempt(1), package(1))]);
    assert!(target.on(at(0), sent.clone()).is_empty(), "they are being made");
    let checksum = package(1).checksum();
    let prepared = TargetEffect::Say(a.clone(), attempt(1), Handoff::Prepared { checksum });
    let made = target.on(at(1), TargetEvent::Made(attempt(1), Ok(checksum)));
    assert_eq!(made, [TargetEffect::Expect(at(3)), prepared.clone()]);
    assert_eq!(target.on(at(1), sent.clone()), [prepared]);
    let next = target.on(at(1), offer(2));
    assert_eq!(next, [TargetEffect::Drop, ready(2)[0].clone()]);
    assert!(target.on(at(1), sent).is_empty(), "a package of an older attempt (F2)");
    assert!(target.on(at(1), TargetEvent::Made(attempt(1), Ok(checksum))).is_empty());
}

#[test]
fn an_abort_that_overtakes_its_offer_ends_it() {
    let (a, mut target) = (who("a"), Target::new(TIMES));
    assert!(target.on(at(0), TargetEvent::Heard(a.clone(), attempt(1), Handoff::Abort)).is_empty());
    assert!(target.on(at(0), TargetEvent::Offer(a.clone(), attempt(1), Ok(()))).is_empty());
    let sent = TargetEvent::Heard(a, attempt(1), Handoff::Package(package(1)));
    assert!(target.on(at(0), sent).is_empty());
}

#[test]
fn prepared_worlds_wait_so_long_and_no_longer() {
    let (a, mut target) = (who("a"), Target::new(TIMES));
    let sent = TargetEvent::Heard(a.clone(), attempt(1), Handoff::Package(package(1)));
    assert_eq!(target.on(at(0), sent), [TargetEffect::Make(attempt(1), package(1))]);
    assert_eq!(target.on(at(1), TargetEvent::Made(attempt(1), Ok(package(1).checksum()))).len(), 2);
    assert_eq!(target.due(), Some(at(6)));
    assert!(target.on(at(5), TargetEvent::Tick).is_empty());
    assert_eq!(target.on(at(6), TargetEvent::Tick), [TargetEffect::Drop]);
    assert_eq!(target.due(), None);
    let claimed = Handoff::Transferred { term: Term(8), checksum: package(1).checksum() };
    let late = target.on(at(7), TargetEvent::Heard(a, attempt(1), claimed));
    assert_eq!(late, [TargetEffect::Claim(Term(8), package(1).checksum())], "the claim is its own all the same");
}

#[test]
fn worlds_made_for_an_older_attempt_do_not_answer_a_newer_one() {
    let (a, mut target) = (who("a"), Target::new(TIMES));
    let sent = |number| TargetEvent::Heard(a.clone(), attempt(number), Handoff::Package(package(1)));
    assert_eq!(target.on(at(0), sent(1)), [TargetEffect::Make(attempt(1), package(1))]);
    assert_eq!(target.on(at(0), sent(2)), [TargetEffect::Drop, TargetEffect::Make(attempt(2), package(1))]);
    let checksum = package(1).checksum();
    assert!(target.on(at(1), TargetEvent::Made(attempt(1), Ok(checksum))).is_empty(), "those are dropped");
    assert_eq!(target.on(at(1), TargetEvent::Made(attempt(2), Ok(checksum))).len(), 2);
}

fn source_events() -> impl Strategy<Value = SourceEvent> {
    let said = prop_oneof![
        Just(Handoff::Ready),
        Just(refuse(RefuseReason::Full)),
        Just(Handoff::Abort),
        (1_u64..3).prop_map(|version| Handoff::Prepared { checksum: package(version).checksum() }),
    ];
    prop_oneof![
        6 => (1_u64..3, said).prop_map(|(number, said)| SourceEvent::Heard(attempt(number), said)),
        1 => Just(SourceEvent::Unreachable),
        4 => (1_u64..3).prop_map(|version| SourceEvent::Stored(package(version))),
        1 => Just(SourceEvent::Lost),
        2 => prop_oneof![Just(None), Just(Some(Term(8)))].prop_map(SourceEvent::Given),
        1 => Just(SourceEvent::Doubt),
        3 => Just(SourceEvent::Tick),
    ]
}

proptest! {
    #[test]
    fn a_freeze_ends_once_and_within_three_steps(
        plain: bool,
        events in prop::collection::vec((source_events(), 0_u64..1_500), 0..40),
    ) {
        let start = if plain { Source::plain } else { Source::offer };
        let (mut source, mut now) = (start(attempt(1), TIMES, at(0)), at(0));
        let mut frozen = plain.then_some(now);
        let (mut asked, mut ends) = (false, 0);
        for (event, ms) in events {
            // Whoever drives it is on time.
            let then = now.plus(Duration::from_millis(ms));
            let due = source.due().filter(|due| *due <= then);
            let mut steps = vec![(then, event)];
            if let Some(due) = due {
                steps.insert(0, (due, SourceEvent::Tick));
            }
            for (moment, event) in steps {
                now = moment;
                let before = source.step();
                for effect in source.on(now, event) {
                    prop_assert!(!matches!(before, Step::Ended(_)), "{effect:?} after the end");
                    match effect {
                        SourceEffect::Freeze => frozen = Some(now),
                        SourceEffect::Transfer(_) | SourceEffect::Give => asked = true,
                        SourceEffect::Thaw => {
                            prop_assert!(!asked, "thawed after the store was asked (F1)");
                            ends += 1;
                        }
                        SourceEffect::Doubt | SourceEffect::Moved => {
                            prop_assert!(asked);
                            ends += 1;
                        }
                        SourceEffect::Say(_) => {}
                    }
                }
                let over = matches!(source.step(), Step::Ended(_));
                prop_assert_eq!(over, source.due().is_none());
                prop_assert_eq!(ends, i32::from(over && frozen.is_some()), "thawed and moved, or neither");
                if let (Some(since), false) = (frozen, over) {
                    prop_assert!(now.since(since) < 3 * STEP, "frozen for too long (H5)");
                }
            }
        }
    }

    #[test]
    fn a_target_keeps_worlds_of_the_newest_attempt_only_and_not_for_ever(
        events in prop::collection::vec((0_u8..7, 1_u64..4, 1_u64..3, 0_u64..1_500), 0..60),
    ) {
        let (a, mut target, mut now) = (who("a"), Target::new(TIMES), at(0));
        let (mut making, mut kept, mut newest) = (None, None, 0);
        for (kind, number, version, ms) in events {
            now = now.plus(Duration::from_millis(ms));
            let (from, which, checksum) = (a.clone(), attempt(number), package(version).checksum());
            let event = match kind {
                0 => TargetEvent::Offer(from, which, Ok(())),
                1 => TargetEvent::Offer(from, which, Err((RefuseReason::Full, String::new()))),
                2 => TargetEvent::Heard(from, which, Handoff::Package(package(version))),
                3 => TargetEvent::Heard(from, which, Handoff::Abort),
                4 => TargetEvent::Heard(from, which, Handoff::Transferred { term: Term(8), checksum }),
                5 => match making {
                    Some((which, checksum)) => TargetEvent::Made(which, Ok(checksum)),
                    None => TargetEvent::Made(which, Ok(checksum)),
                },
                _ => TargetEvent::Tick,
            };
            if let TargetEvent::Offer(..) | TargetEvent::Heard(..) = &event {
                newest = newest.max(number);
            }
            for effect in target.on(now, event) {
                match effect {
                    TargetEffect::Make(which, package) => {
                        prop_assert_eq!(which.number, newest, "worlds of an older attempt are made (F2)");
                        making = Some((which, package.checksum()));
                    }
                    TargetEffect::Say(_, which, Handoff::Prepared { checksum }) => {
                        prop_assert_eq!(which.number, newest);
                        if let Some(made) = making.take() {
                            kept = Some(made);
                        }
                        prop_assert_eq!(kept, Some((which, checksum)));
                    }
                    TargetEffect::Drop => (making, kept) = (None, None),
                    // What stands ready waits for the shard to begin, or for its time to be over.
                    TargetEffect::Claim(..) => prop_assert_eq!(which.number, newest),
                    TargetEffect::Expect(until) => prop_assert!(until.since(now) <= STEP),
                    TargetEffect::Say(_, which, _) => prop_assert_eq!(which.number, newest),
                }
            }
            prop_assert_eq!(target.is_busy(), target.due().is_some());
            if let Some(due) = target.due() {
                prop_assert!(due.since(now) <= TIMES.prepared, "nothing is kept without a deadline");
            }
            prop_assert!(target.is_busy() || (making.is_none() && kept.is_none()));
        }
    }
}
