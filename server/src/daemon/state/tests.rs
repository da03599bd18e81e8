//! The step machine by itself: what starts, what is cut off, and what never starts (H10).

use std::{sync::Arc, time::Duration};

use tenure_shared::{IncarnationId, Term};

use super::State;
use crate::{
    config::Role,
    daemon::{
        ShardedDaemonProcess, Times,
        agreed::{Agreed, Declared},
        event::{At, Effect, Event, How, Lease, Said},
        user::{Daemon, Fault},
    },
    ownership::{Owned, View},
    runtime::{Mono, Wall},
    store::{Key, Member, MemberInfo, Status},
};

struct Idle;

impl Daemon for Idle {
    type Message = ();
    type Answer = ();
    async fn on_message(&mut self, _: &mut crate::daemon::Context, (): ()) -> Result<(), Fault> {
        Ok(())
    }
}

fn life(name: &str) -> IncarnationId {
    IncarnationId::new(name).expect("valid")
}

fn set() -> ShardedDaemonProcess {
    ShardedDaemonProcess::new("work", 1).factory(|_| Idle).restarts(1, Duration::from_secs(60))
}

fn view(members: &[&str], owned: Option<(Option<&str>, u64)>) -> Arc<View> {
    let member = |name: &&str| Member {
        incarnation: life(name),
        info: MemberInfo {
            node: (*name).to_owned(),
            roles: vec!["room".to_owned(), Declared::of(&set()).to_string()],
            version: "1".to_owned(),
            revision: 0,
            link: String::new(),
            public_url: String::new(),
            zone_data: String::new(),
        },
        status: Status::Serving,
        beats: 1,
        lease_until: Wall(0),
        tombstone: false,
        schedules: String::new(),
    };
    let owned = owned.map(|(owner, term)| Owned { owner: owner.map(life), term: Term(term) });
    let named = owned.into_iter().map(|owned| (Key::named("daemon/work@1/0"), owned)).collect();
    let members = Arc::new(members.iter().map(member).collect());
    let mut view = View::default();
    (view.members, view.named, view.at, view.settled) = (members, Arc::new(named), Wall(1), true);
    Arc::new(view)
}

/// One node's machine, and its hand on time and lease.
struct Bench {
    state: State,
    now: Mono,
    lease: Lease,
}

const AT: At = At { set: 0, generation: 1, index: 0 };
const FIRST: Agreed = Agreed { generation: 1, count: 1, role: Role::Room, after: None, stopped: false };

impl Bench {
    /// Knows that it is alone, and what was agreed on; asks for the claim.
    fn new() -> Self {
        let lease = Lease { life: Some(life("a#1")), until: Mono(u64::MAX) };
        let mut bench = Self { state: State::new(Times::default(), vec![set()]), now: Mono(1), lease };
        bench.step(Event::Cluster(view(&["a#1"], None)));
        let effects = bench.step(Event::Agreed { set: 0, agreed: FIRST });
        assert!(matches!(&effects[..], [Effect::Acquire { seen: None, .. }]), "{effects:?}");
        bench
    }

    /// Runs it under this term.
    fn running(term: u64) -> Self {
        let mut bench = Self::new();
        let effects = bench.granted("a#1", term);
        assert!(matches!(&effects[..], [Effect::Load { .. }]), "nothing starts before its state is read: {effects:?}");
        let effects = bench.loaded(term, false);
        assert!(matches!(&effects[..], [Effect::Run { term: of, .. }] if of.0 == term), "{effects:?}");
        bench
    }

    fn step(&mut self, event: Event) -> Vec<Effect> {
        let effects = self.state.step(self.now, self.lease.clone(), event);
        // Readings that are due anyway are no part of these tests.
        let asks = |effect: &Effect| matches!(effect, Effect::ReadAgreed { .. } | Effect::ReadClaims(_));
        effects.into_iter().filter(|effect| !asks(effect)).collect()
    }

    fn pass(&mut self, time: Duration) -> Vec<Effect> {
        self.now = self.now.plus(time);
        self.step(Event::Tick)
    }

    fn granted(&mut self, to: &str, term: u64) -> Vec<Effect> {
        self.step(Event::Granted { at: AT, incarnation: life(to), term: Term(term) })
    }

    fn loaded(&mut self, term: u64, ended: bool) -> Vec<Effect> {
        self.step(Event::Loaded { at: AT, term: Term(term), ended, state: None })
    }

    fn ended(&mut self, term: u64, how: How) -> Vec<Effect> {
        self.step(Event::Ended { at: AT, term: Term(term), how })
    }
}

#[test]
fn when_the_lease_is_over_it_is_cut_off_and_nothing_starts_before_its_task_has_ended() {
    let mut bench = Bench::running(5);
    bench.lease.until = Mono(0);
    assert_eq!(bench.step(Event::Tick), [Effect::Cut { at: AT, term: Term(5) }]);
    // Another life of the node: the task of the former one still runs.
    bench.lease = Lease { life: Some(life("a#2")), until: Mono(u64::MAX) };
    assert_eq!(bench.step(Event::Cluster(view(&["a#2"], Some((Some("a#1"), 5))))), []);
    assert_eq!(bench.pass(Duration::from_secs(8)), [], "it waits");
    let effects = bench.ended(5, How::Cut);
    let effects = if effects.is_empty() { bench.pass(Duration::from_secs(1)) } else { effects };
    assert!(matches!(&effects[..], [Effect::Acquire { caller, .. }] if *caller == life("a#2")), "{effects:?}");
    // The answer to the former life is none.
    assert_eq!(bench.granted("a#1", 6), []);
    assert!(matches!(&bench.granted("a#2", 7)[..], [Effect::Load { term: Term(7), .. }]));
}

#[test]
fn an_answer_that_comes_after_a_lapse_starts_nothing() {
    let mut bench = Bench::new();
    bench.granted("a#1", 5);
    bench.lease.until = Mono(0);
    assert_eq!(bench.step(Event::Tick), []);
    assert_eq!(bench.loaded(5, false), []);
    // The lease is had again, as the same life: it is asked for anew, since a thaw is a write.
    bench.lease.until = Mono(u64::MAX);
    let effects = bench.pass(Duration::from_secs(1));
    let seen = Some((Some(life("a#1")), Term(5)));
    assert!(matches!(&effects[..], [Effect::Acquire { seen: known, .. }] if *known == seen), "{effects:?}");
    assert_eq!(bench.loaded(5, false), [], "late again");
}

#[test]
fn another_owner_in_the_claim_cuts_it_off() {
    let mut bench = Bench::running(5);
    assert_eq!(bench.step(Event::Cluster(view(&["a#1", "b#1"], Some((Some("b#1"), 4))))), [], "an old hint");
    let effects = bench.step(Event::Cluster(view(&["a#1", "b#1"], Some((Some("b#1"), 6)))));
    assert_eq!(effects, [Effect::Cut { at: AT, term: Term(5) }]);
    assert_eq!(bench.ended(5, How::Cut), [], "its claim is not this node's to give up");
}

#[test]
fn an_index_that_was_ended_never_starts() {
    // C31: a claim of a former generation, taken by somebody who knows nothing of the new one.
    let mut bench = Bench::new();
    bench.granted("a#1", 5);
    let effects = bench.loaded(5, true);
    let released = |effect: &Effect| matches!(effect, Effect::Release { term: Term(5), to: None, .. });
    assert!(effects.iter().any(released) && !effects.iter().any(|effect| matches!(effect, Effect::Run { .. })));
    // And one that learns of the new generation while it reads.
    let mut bench = Bench::new();
    bench.granted("a#1", 5);
    bench.step(Event::Agreed { set: 0, agreed: FIRST.rescaled(2) });
    let effects = bench.loaded(5, false);
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Run { .. })), "{effects:?}");
}

#[test]
fn a_running_one_is_stopped_before_its_index_is_ended() {
    let mut bench = Bench::running(5);
    let effects = bench.step(Event::Agreed { set: 0, agreed: FIRST.rescaled(2) });
    assert!(effects.contains(&Effect::Stop { at: AT, term: Term(5) }), "{effects:?}");
    assert!(
        !effects.iter().any(|effect| matches!(effect, Effect::Close { .. } | Effect::Acquire { .. })),
        "{effects:?}"
    );
    let effects = bench.ended(5, How::Stopped);
    assert!(matches!(&effects[..], [Effect::Close { term: Term(5), .. }]), "{effects:?}");
}

#[test]
fn what_does_not_end_loses_its_claim_and_then_ends_the_process() {
    let mut bench = Bench::running(5);
    bench.now = bench.now.plus(Duration::from_secs(31));
    let marks = vec![(AT, Term(5), Mono(1))];
    assert_eq!(bench.step(Event::Marks(marks)), [Effect::Cut { at: AT, term: Term(5) }]);
    assert_eq!(bench.pass(Duration::from_millis(900)), []);
    let effects = bench.pass(Duration::from_millis(200));
    assert!(matches!(&effects[..], [Effect::Release { term: Term(5), to: None, .. }]), "{effects:?}");
    bench.step(Event::Released { at: AT, term: Term(5) });
    assert_eq!(bench.pass(Duration::from_secs(8)), [], "while its task lives nothing of it starts here");
    assert_eq!(bench.pass(Duration::from_secs(1)), [Effect::Kill { at: AT }]);
    assert_eq!(bench.pass(Duration::from_secs(9)), [], "once");
}

#[test]
fn a_restart_is_an_acquire_and_a_budget_used_up_is_the_end() {
    let mut bench = Bench::running(5);
    let panicked = || How::Panicked("why".to_owned());
    let effects = bench.ended(5, panicked());
    let said = |effect: &Effect| matches!(effect, Effect::Say { said: Said::Restarts { why: "panicked", .. }, .. });
    assert!(effects.len() == 1 && said(&effects[0]), "{effects:?}");
    let effects = bench.pass(Duration::from_secs(2));
    assert!(matches!(&effects[..], [Effect::Acquire { seen: Some((Some(_), Term(5))), .. }]), "{effects:?}");
    bench.granted("a#1", 6);
    assert!(matches!(&bench.loaded(6, false)[..], [Effect::Run { term: Term(6), .. }]));
    let effects = bench.ended(6, panicked());
    let parked =
        |effect: &Effect| matches!(effect, Effect::Say { said: Said::Parked { text }, .. } if text.contains("why"));
    assert!(effects.len() == 1 && parked(&effects[0]), "{effects:?}");
    assert_eq!(bench.pass(Duration::from_secs(3_600)), []);
    bench.step(Event::Unpark { at: AT });
    let effects = bench.pass(Duration::from_secs(1));
    assert!(effects.is_empty() || matches!(&effects[..], [Effect::Acquire { .. }]), "{effects:?}");
}

#[test]
fn a_stop_without_an_end_is_cut_off_after_its_grace() {
    let mut bench = Bench::running(5);
    assert_eq!(bench.step(Event::Leave), [Effect::Stop { at: AT, term: Term(5) }]);
    assert_eq!(bench.pass(Duration::from_millis(2_900)), []);
    assert_eq!(bench.pass(Duration::from_millis(200)), [Effect::Cut { at: AT, term: Term(5) }]);
    let effects = bench.ended(5, How::Cut);
    assert!(matches!(&effects[..], [Effect::Release { term: Term(5), .. }]), "{effects:?}");
    assert!(!bench.state.is_empty());
    assert_eq!(bench.step(Event::Released { at: AT, term: Term(5) }), []);
    assert!(bench.state.is_empty());
}
