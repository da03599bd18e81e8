//! Terms that others saw, claims that are not run, and stores that forgot (F5, F8, F11).

use super::*;

fn floors(effects: &[Effect]) -> Vec<Term> {
    let floors = effects.iter().filter_map(|effect| match effect {
        Effect::Acquire { floor, .. } | Effect::Beat { floor, .. } => Some(*floor),
        _ => None,
    });
    floors.collect()
}

fn term_seen(state: &mut State, term: u64) -> Vec<Effect> {
    state.step(seconds(1), Event::TermSeen { shard: ShardId(0), term: Term(term) })
}

#[test]
fn a_higher_term_that_somebody_saw_is_answered_by_a_new_one_from_memory() {
    let mut state = owning();
    assert_eq!(term_seen(&mut state, 10), vec![], "its own term says nothing");
    let effects = term_seen(&mut state, 50);
    assert_eq!((acquires(&effects), floors(&effects)), (vec![seen(Some("a#1"), 10)], vec![Term(50)]));
    assert!(held(&state).is_none() && doubt(&state) && state.acts_until() > Mono(0));
    assert_eq!(term_seen(&mut state, 40), vec![], "it is being asked for");
    state.step(seconds(1), granted("a#1", seen(Some("a#1"), 10), 51));
    assert_eq!(held(&state), Some(Holding { term: Term(51), continues: Some(Term(10)), package: None }));
    assert!(!doubt(&state));
}

#[test]
fn a_term_seen_while_it_asks_is_answered_once_more() {
    let mut state = owning();
    term_seen(&mut state, 50);
    assert_eq!(term_seen(&mut state, 90), vec![]);
    let effects = state.step(seconds(1), granted("a#1", seen(Some("a#1"), 10), 51));
    assert_eq!((acquires(&effects), floors(&effects)), (vec![seen(Some("a#1"), 51)], vec![Term(90)]));
    assert!(held(&state).is_none(), "nothing is sent below what was seen");
    state.step(seconds(1), granted("a#1", seen(Some("a#1"), 51), 91));
    assert_eq!(held(&state), Some(Holding { term: Term(91), continues: Some(Term(10)), package: None }));
}

#[test]
fn floors_spread_by_heartbeats_routes_claims_and_refusals() {
    let mut state = owning();
    term_seen(&mut state, 5);
    let floor = |state: &mut State, second: u64| floors(&state.step(seconds(second), Event::Tick));
    assert_eq!(floor(&mut state, 1), vec![Term(10)], "its own");
    state.step(seconds(1), Event::Beat { incarnation: name("a#1"), sent: seconds(1), floor: Term(20) });
    state.step(seconds(1), routes(0, 1, vec![route(7, Some("b#1"), 30)]));
    assert_eq!(floor(&mut state, 2), vec![Term(30)]);
    state.step(seconds(2), Event::Beat { incarnation: name("a#1"), sent: seconds(2), floor: Term(20) });
    state.step(seconds(2), claims(vec![claim(7, None, 40)]));
    assert_eq!(floor(&mut state, 3), vec![Term(40)]);
    state.step(seconds(3), Event::Beat { incarnation: name("a#1"), sent: seconds(3), floor: Term(20) });
    state.step(seconds(3), refused("a#1", 60));
    assert_eq!(floor(&mut state, 4), vec![Term(60)]);
}

#[test]
fn a_claim_that_it_is_in_and_does_not_run_is_acquired_anew() {
    let mut state = among(1, &["a#1", "b#1"], vec![route(0, Some("b#1"), 10)]);
    // As after a call of its own whose answer was lost.
    let effects = state.step(seconds(1), routes(1, 2, vec![route(0, Some("a#1"), 20)]));
    assert_eq!(acquires(&effects), vec![seen(Some("a#1"), 20)]);
    assert_eq!(held(&state), None);
    state.step(seconds(1), granted("a#1", seen(Some("a#1"), 20), 30));
    assert_eq!(held(&state), Some(Holding { term: Term(30), continues: None, package: None }));
}

#[test]
fn a_route_of_a_higher_term_ends_what_is_held() {
    let mut state = owning();
    state.step(seconds(1), present(&["a#1", "b#1"]));
    state.step(seconds(1), routes(0, 1, vec![route(0, Some("b#1"), 9)]));
    assert!(held(&state).is_some(), "an older route says nothing");
    state.step(seconds(1), routes(1, 2, vec![route(0, Some("b#1"), 20)]));
    assert!(held(&state).is_none() && !doubt(&state));
}

#[test]
fn the_claim_check_finds_what_no_route_told() {
    let mut state = owning();
    for second in 1..10 {
        assert_eq!(heartbeat(&mut state, seconds(second), &present(&["a#1"])), vec![]);
    }
    let effects = heartbeat(&mut state, seconds(10), &present(&["a#1", "b#1"]));
    assert_eq!(effects, vec![Effect::ReadClaims { shards: vec![ShardId(0)] }]);
    state.step(seconds(10), claims(vec![claim(0, Some("b#1"), 20)]));
    assert!(held(&state).is_none() && !doubt(&state));
}

/// `a#1` held term 10 and lapsed; `b#1` took over under 20, and then the store forgot that.
fn forgotten() -> State {
    let mut state = owning();
    state.step(seconds(1), present(&["a#1", "b#1"]));
    state.step(seconds(1), routes(0, 1, vec![route(0, Some("b#1"), 20)]));
    assert!(held(&state).is_none());
    let effects = state.step(seconds(1), Event::Wanted { shard: ShardId(0) });
    assert!(effects.contains(&Effect::ReadClaims { shards: vec![ShardId(0)] }));
    // One answer could be an old one that came late; the next says it again.
    let again = state.step(seconds(1), claims(vec![claim(0, Some("a#1"), 10)]));
    assert_eq!(again, vec![Effect::ReadClaims { shards: vec![ShardId(0)] }]);
    state
}

#[test]
fn it_yields_to_the_living_owner_of_a_higher_term() {
    let mut state = forgotten();
    let effects = state.step(seconds(1), claims(vec![claim(0, Some("a#1"), 10)]));
    assert_eq!(effects, vec![released(0, "a#1", 10)]);
    state.step(seconds(1), Event::Released { shard: ShardId(0), term: Term(10) });
    // The owner of that term has a few heartbeats to come back to it.
    for second in 2..6 {
        assert_eq!(acquires(&heartbeat(&mut state, seconds(second), &present(&["a#1", "b#1"]))), vec![]);
    }
    let mut asked = vec![];
    for second in 6..14 {
        asked.extend(acquires(&heartbeat(&mut state, seconds(second), &present(&["a#1", "b#1"]))));
    }
    assert_eq!(asked, vec![seen(None, 10)], "never stuck");
}

#[test]
fn it_does_not_yield_to_a_dead_one() {
    let mut state = forgotten();
    let effects = state.step(seconds(1), present(&["a#1"]));
    assert_eq!(acquires(&effects), vec![seen(Some("b#1"), 20)], "the second reading has not come yet");
    state.step(seconds(1), refused("a#1", 10));
    let effects = state.step(seconds(1), claims(vec![claim(0, Some("a#1"), 10)]));
    assert_eq!((acquires(&effects), floors(&effects)), (vec![seen(Some("a#1"), 10)], vec![Term(20)]));
}

/// `a#1` holds term 10 and reads twice that the claim is another's of a lower term.
fn reads_lower(holder: Option<&str>) -> (State, Vec<Effect>) {
    let mut state = owning();
    state.step(seconds(1), present(&["a#1", "b#1"]));
    let read = claims(vec![claim(0, holder, 4)]);
    state.step(seconds(1), Event::Fenced { shard: ShardId(0), term: Term(10) });
    state.step(seconds(1), read.clone());
    let effects = state.step(seconds(1), read);
    (state, effects)
}

#[test]
fn an_owner_of_which_the_store_forgot_the_last_term_goes_on_from_memory_when_the_claim_is_free() {
    let mut state = owning();
    term_seen(&mut state, 50);
    state.step(seconds(1), granted("a#1", seen(Some("a#1"), 10), 51));
    state.step(seconds(1), Event::Fenced { shard: ShardId(0), term: Term(51) });
    state.step(seconds(1), claims(vec![claim(0, None, 20)]));
    let effects = state.step(seconds(1), claims(vec![claim(0, None, 20)]));
    assert_eq!((acquires(&effects), floors(&effects)), (vec![seen(None, 20)], vec![Term(51)]));
    state.step(seconds(1), granted("a#1", seen(None, 20), 60));
    assert_eq!(held(&state), Some(Holding { term: Term(60), continues: Some(Term(10)), package: None }));
}

#[test]
fn h6_an_owner_to_which_the_store_forgot_that_the_shard_came_begins_with_what_is_stored() {
    // What the owner before it did after that, it has in its worlds and cannot say again.
    let (mut state, effects) = reads_lower(None);
    assert_eq!((acquires(&effects), floors(&effects)), (vec![seen(None, 4)], vec![Term(10)]));
    state.step(seconds(1), granted("a#1", seen(None, 4), 30));
    assert_eq!(held(&state), Some(Holding { term: Term(30), continues: None, package: None }));
}

#[test]
fn h5_an_owner_that_the_store_forgot_waits_for_another_to_yield_within_a_bound() {
    let (mut state, effects) = reads_lower(Some("b#1"));
    assert_eq!((acquires(&effects), doubt(&state)), (vec![], true));
    let both = present(&["a#1", "b#1"]);
    for second in 2..4 {
        heartbeat(&mut state, seconds(second), &both);
        assert!(doubt(&state));
    }
    heartbeat(&mut state, seconds(4), &both);
    assert!(!doubt(&state), "the other lives in the claim: it is the owner");
}
