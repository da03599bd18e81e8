//! Lease and phases: lapses, tombstones, lost answers, leaving.

use std::time::Duration;

use super::*;

#[test]
fn a_heartbeat_counts_from_when_it_was_sent() {
    let mut state = owning();
    assert_eq!(state.acts_until(), Mono(2_500_000_000));
    state.step(seconds(2), beat("a#1", seconds(1)));
    assert_eq!(state.acts_until(), Mono(3_500_000_000));
    state.step(seconds(2), beat("a#1", seconds(0)));
    assert_eq!(state.acts_until(), Mono(3_500_000_000), "an answer that comes late does not shorten it");
}

#[test]
fn a_heartbeat_of_a_former_life_is_no_lease() {
    let mut state = owning();
    state.step(seconds(2), beat("a#0", seconds(2)));
    assert_eq!(state.acts_until(), Mono(2_500_000_000));
}

#[test]
fn past_the_margin_an_accepted_heartbeat_is_not_enough() {
    let mut state = owning();
    // Stopped for three seconds; the answer to a heartbeat sent before lies in the socket (F1, F8).
    let effects = state.step(seconds(3), beat("a#1", seconds(1)));
    assert!(effects.contains(&Effect::Expire { incarnation: name("a#1"), stood_still: None }));
    assert_eq!(acquires(&effects), vec![seen(Some("a#1"), 10)]);
    assert_eq!((state.acts_until(), held(&state)), (Mono(0), None));
    state.step(seconds(3), granted("a#1", seen(Some("a#1"), 10), 20));
    assert_eq!(state.acts_until(), Mono(0), "the cluster is not known anew yet");
    look(&mut state, seconds(3), &["a#1"]);
    assert_eq!(held(&state), Some(Holding { term: Term(20), continues: Some(Term(10)), package: None }));
    assert_eq!(state.acts_until(), Mono(3_500_000_000));
}

#[test]
fn a_lapsed_life_is_expired_and_its_worlds_go_on_in_the_next() {
    let mut state = owning();
    let effects = state.step(seconds(9), Event::Tick);
    assert_eq!(
        effects,
        vec![Effect::Expire { incarnation: name("a#1"), stood_still: None }],
        "once, not again each tick"
    );
    assert_eq!(state.phase(), Phase::Lapsed);
    let effects = state.step(seconds(9), Event::Expired { incarnation: name("a#1"), gone: true });
    assert_eq!(effects, vec![Effect::Register]);
    let effects = state.step(seconds(9), Event::Registered { incarnation: name("a#2"), sent: seconds(9) });
    assert_eq!(acquires(&effects), vec![seen(Some("a#1"), 10)], "first of all what the former life held");
    assert!(look(&mut state, seconds(9), &["a#2"]).is_empty() && doubt(&state));
    state.step(seconds(9), granted("a#2", seen(Some("a#1"), 10), 30));
    assert!(!doubt(&state));
    assert_eq!(held(&state), Some(Holding { term: Term(30), continues: Some(Term(10)), package: None }));
}

#[test]
fn worlds_are_dropped_when_another_owned_the_shard_in_between() {
    let mut state = owning();
    state.step(seconds(9), Event::Tick);
    state.step(seconds(9), Event::Expired { incarnation: name("a#1"), gone: true });
    state.step(seconds(9), Event::Registered { incarnation: name("a#2"), sent: seconds(9) });
    look(&mut state, seconds(9), &["a#2"]);
    let effects = state.step(seconds(9), refused("a#2", 15));
    assert_eq!(effects, vec![Effect::ReadClaims { shards: vec![ShardId(0)] }]);
    state.step(seconds(9), claims(vec![claim(0, Some("b#1"), 15)]));
    assert!(!doubt(&state), "another had it: nothing is open any more");
    // The other is gone too, but its own next life comes first, for one lease.
    assert_eq!((acquires(&state.step(millis(11_900), Event::Tick)), state.settles()), (vec![], true));
    let effects = state.step(seconds(12), Event::Tick);
    assert_eq!((acquires(&effects), state.settles()), (vec![], false), "past its own margin it asks for nothing");
    state.step(seconds(12), beat("a#2", seconds(12)));
    let effects = look(&mut state, seconds(12), &["a#2"]);
    assert_eq!(acquires(&effects), vec![]);
    assert!(state.settles(), "it lapsed once more");
    state.step(seconds(14), beat("a#2", seconds(14)));
    let effects = state.step(seconds(15), Event::Tick);
    assert_eq!(acquires(&effects), vec![seen(Some("b#1"), 15)]);
    state.step(seconds(15), granted("a#2", seen(Some("b#1"), 15), 30));
    assert_eq!(held(&state), Some(Holding { term: Term(30), continues: None, package: None }));
}

#[test]
fn worlds_go_on_when_only_the_answer_to_the_acquire_was_lost() {
    // F5: the claim is the node's own, under a term it does not know.
    let mut state = owning();
    state.step(seconds(9), Event::Tick);
    state.step(seconds(9), Event::Expired { incarnation: name("a#1"), gone: true });
    state.step(seconds(9), Event::Registered { incarnation: name("a#2"), sent: seconds(9) });
    look(&mut state, seconds(9), &["a#2"]);
    let effects = state.step(seconds(9), Event::Failed(Call::Acquire(ShardId(0))));
    assert_eq!(effects, vec![Effect::ReadClaims { shards: vec![ShardId(0)] }]);
    assert_eq!(state.acts_until(), Mono(0));
    let effects = state.step(seconds(9), claims(vec![claim(0, Some("a#2"), 30)]));
    assert_eq!(acquires(&effects), vec![seen(Some("a#2"), 30)]);
    state.step(seconds(9), granted("a#2", seen(Some("a#2"), 30), 31));
    assert_eq!(held(&state), Some(Holding { term: Term(31), continues: Some(Term(10)), package: None }));
}

#[test]
fn worlds_are_dropped_when_another_had_the_shard_and_gave_it_back() {
    // All between the lapse and the first look at the cluster: only the package tells it from an answer that was lost.
    let lapsed = || {
        let mut state = owning();
        state.step(seconds(9), Event::Tick);
        state.step(seconds(9), Event::Expired { incarnation: name("a#1"), gone: true });
        state.step(seconds(9), Event::Registered { incarnation: name("a#2"), sent: seconds(9) });
        state.step(seconds(9), present(&["a#2", "b#1"]));
        state
    };
    let handed = || Claim { package: Some(0), ..claim(0, Some("a#2"), 20) };
    let mut by_route = lapsed();
    by_route.step(seconds(9), Event::Failed(Call::Acquire(ShardId(0))));
    by_route.step(seconds(9), routes(0, 2, vec![route(0, Some("a#2"), 20)]));
    let mut by_claim = lapsed();
    by_claim.step(seconds(9), routes(0, 0, vec![]));
    by_claim.step(seconds(9), refused("a#2", 20));
    for mut state in [by_route, by_claim] {
        assert!(doubt(&state), "a route does not say whose the shard was meanwhile");
        let effects = state.step(seconds(9), claims(vec![handed()]));
        assert_eq!((acquires(&effects), doubt(&state)), (vec![seen(Some("a#2"), 20)], false));
        state.step(seconds(9), granted("a#2", seen(Some("a#2"), 20), 30));
        // The reading that the route asked for.
        state.step(seconds(9), claims(vec![handed()]));
        assert_eq!(held(&state), Some(Holding { term: Term(30), continues: None, package: None }));
    }
}

#[test]
fn two_lapses_in_a_row_keep_the_oldest_world() {
    let mut state = owning();
    state.step(seconds(3), beat("a#1", seconds(2)));
    state.step(seconds(3), granted("a#1", seen(Some("a#1"), 10), 20));
    look(&mut state, seconds(3), &["a#1"]);
    state.step(seconds(6), beat("a#1", seconds(5)));
    state.step(seconds(6), granted("a#1", seen(Some("a#1"), 20), 30));
    look(&mut state, seconds(6), &["a#1"]);
    assert_eq!(held(&state), Some(Holding { term: Term(30), continues: Some(Term(10)), package: None }));
}

#[test]
fn an_answer_that_was_overtaken_changes_nothing() {
    let mut state = owning();
    state.step(seconds(1), granted("a#1", None, 5));
    assert_eq!(held(&state), Some(Holding { term: Term(10), continues: None, package: None }));
    state.step(seconds(1), granted("a#0", None, 50));
    assert_eq!(held(&state), Some(Holding { term: Term(10), continues: None, package: None }));
}

#[test]
fn a_refused_write_gives_the_shard_up_at_once() {
    let mut state = owning();
    let effects = state.step(seconds(1), Event::Fenced { shard: ShardId(0), term: Term(9) });
    assert!(effects.is_empty() && held(&state).is_some(), "an older fence says nothing of this one");
    let effects = state.step(seconds(1), Event::Fenced { shard: ShardId(0), term: Term(10) });
    assert_eq!((effects, held(&state)), (vec![Effect::ReadClaims { shards: vec![ShardId(0)] }], None));
    assert!(doubt(&state), "until the claim was read");
    // Who holds it is not among the members: the store decides whether it may be taken.
    let effects = state.step(seconds(1), claims(vec![claim(0, Some("b#1"), 15)]));
    assert_eq!((acquires(&effects), doubt(&state)), (vec![seen(Some("b#1"), 15)], false));
    let effects = state.step(seconds(1), refused("a#1", 15));
    assert_eq!(effects, vec![Effect::ReadClaims { shards: vec![ShardId(0)] }]);
    let effects = state.step(seconds(1), claims(vec![claim(0, Some("b#1"), 15)]));
    assert_eq!((effects, held(&state)), (vec![], None), "not again at once");
}

#[test]
fn a_tombstone_found_by_the_heartbeat_ends_this_life() {
    let mut state = owning();
    let effects = state.step(seconds(1), Event::Gone { incarnation: name("a#1") });
    assert_eq!(effects, vec![Effect::Register]);
    assert_eq!((state.acts_until(), held(&state), state.incarnation().cloned()), (Mono(0), None, None));
    // The answer of a heartbeat of the former life comes late.
    state.step(seconds(1), beat("a#1", seconds(1)));
    assert_eq!(state.phase(), Phase::Joining);
}

#[test]
fn a_store_that_stays_away_is_asked_once_per_heartbeat() {
    let mut state = owning();
    let mut asked = 0;
    let mut now = seconds(3);
    for _ in 0..100 {
        for effect in state.step(now, Event::Tick) {
            assert_eq!(effect, Effect::Expire { incarnation: name("a#1"), stood_still: None });
            asked += 1;
            state.step(now, Event::Failed(Call::Expire(name("a#1"))));
        }
        now = now.plus(Duration::from_millis(100));
    }
    assert!((9..=11).contains(&asked), "{asked} calls in ten seconds");
}

#[test]
fn leaving_releases_and_then_deregisters() {
    let mut state = owning();
    let effects = state.step(seconds(1), Event::Leave);
    let release = Effect::Release { shard: ShardId(0), incarnation: name("a#1"), term: Term(10) };
    assert_eq!(effects, vec![release, Effect::Deregister { incarnation: name("a#1") }]);
    assert_eq!((state.acts_until(), held(&state)), (Mono(0), None));
}
