//! Shards that move with their worlds ready: transfers, their doubt (F1), and the other end.

use super::*;

const SHARD: ShardId = ShardId(0);

/// One shard of `a#1` under term 10, with `b#1` beside it, and a transfer under way.
fn transferring() -> State {
    let mut state = owning();
    state.step(seconds(1), present(&["a#1", "b#1"]));
    let effects = state.step(seconds(1), transfer(10));
    let [Effect::Transfer { shard, incarnation, term, to, package, .. }] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!((*shard, term.0, *package), (SHARD, 10, 77));
    assert_eq!((incarnation.as_str(), to.as_str()), ("a#1", "b#1"));
    assert!(state.transfers(SHARD));
    state
}

fn transfer(term: u64) -> Event {
    Event::Transfer { shard: SHARD, term: Term(term), to: name("b#1"), package: 77, manifest: Vec::new() }
}

fn transferred(who: &str, term: u64) -> Event {
    Event::Transferred { shard: SHARD, incarnation: name(who), term: Term(term), package: 77 }
}

fn packed(holder: &str, term: u64, package: u64) -> Event {
    claims(vec![Claim { package: Some(package), ..claim(0, Some(holder), term) }])
}

/// `a#1`, to which `b#1` is about to give its shard.
fn awaiting() -> State {
    let mut state = among(1, &["a#1", "b#1"], vec![route(0, Some("b#1"), 10)]);
    state.step(seconds(1), Event::Expect { shard: SHARD, until: seconds(6) });
    assert!(state.seeks(SHARD));
    state
}

#[test]
fn a_transfer_that_is_done_ends_what_is_held() {
    let mut state = transferring();
    let done = Event::Given { shard: SHARD, term: Term(10), to: name("b#1"), new: Term(20) };
    assert_eq!(acquires(&state.step(seconds(1), done)), vec![]);
    assert!(held(&state).is_none() && !doubt(&state) && !state.transfers(SHARD));
    assert_eq!(state.routes()[&SHARD].term, Term(20));
}

#[test]
fn a_transfer_without_an_answer_is_decided_by_a_new_term_only() {
    let mut state = transferring();
    let effects = state.step(seconds(1), Event::NotGiven { shard: SHARD, term: Term(10) });
    assert!(held(&state).is_none() && doubt(&state), "it does not go on before");
    assert_eq!(acquires(&effects), vec![seen(Some("a#1"), 10)], "at once, and by compare-and-set");
    // It was not carried out, and cannot be any more.
    let mut won = state.clone();
    won.step(seconds(1), granted("a#1", seen(Some("a#1"), 10), 21));
    assert_eq!(held(&won), Some(Holding { term: Term(21), continues: Some(Term(10)), package: None }));
    // It was.
    let effects = state.step(seconds(1), refused("a#1", 20));
    assert_eq!(effects, vec![Effect::ReadClaims { shards: vec![SHARD] }]);
    state.step(seconds(1), packed("b#1", 20, 77));
    assert!(held(&state).is_none() && !doubt(&state));
}

#[test]
fn only_what_is_held_is_transferred_and_only_once() {
    let mut state = owning();
    state.step(seconds(1), present(&["a#1", "b#1"]));
    assert_eq!(state.step(seconds(1), transfer(9)), vec![]);
    assert!(!state.transfers(SHARD));
    let mut state = transferring();
    assert_eq!(state.step(seconds(1), transfer(10)), vec![]);
    // The answer to an earlier one changes nothing of a later term.
    state.step(seconds(1), Event::NotGiven { shard: SHARD, term: Term(9) });
    assert!(state.transfers(SHARD) && held(&state).is_some());
}

#[test]
fn a_lease_that_lapses_while_a_transfer_is_under_way_leaves_it_in_doubt() {
    let mut state = transferring();
    state.step(seconds(3), Event::Tick);
    assert!(doubt(&state) && held(&state).is_none());
    let mut other = state.clone();
    state.step(seconds(3), Event::Given { shard: SHARD, term: Term(10), to: name("b#1"), new: Term(20) });
    assert!(!doubt(&state), "the other has it");
    other.step(seconds(3), Event::NotGiven { shard: SHARD, term: Term(10) });
    assert!(doubt(&other));
}

#[test]
fn what_is_transferred_runs_under_the_term_of_the_transfer_without_asking() {
    let mut state = awaiting();
    let effects = state.step(millis(1_100), transferred("a#1", 20));
    assert_eq!(acquires(&effects), vec![]);
    let expected = Holding { term: Term(20), continues: None, package: Some(77) };
    assert_eq!(held(&state), Some(expected));
    assert!(!state.seeks(SHARD));
    // Again, late: nothing changes, also when it is not held any more (H2).
    state.step(millis(1_200), transferred("a#1", 20));
    assert_eq!(held(&state), Some(expected));
    state.step(millis(1_300), Event::Fenced { shard: SHARD, term: Term(20) });
    state.step(millis(1_400), transferred("a#1", 20));
    assert!(held(&state).is_none() && doubt(&state));
    // Taken anew its worlds go on from memory; the package is of the past.
    state.step(millis(1_400), packed("a#1", 20, 77));
    let effects = heartbeat(&mut state, millis(2_400), &present(&["a#1", "b#1"]));
    assert_eq!(acquires(&effects), vec![seen(Some("a#1"), 20)]);
    state.step(millis(2_400), granted("a#1", seen(Some("a#1"), 20), 21));
    assert_eq!(held(&state), Some(Holding { term: Term(21), continues: Some(Term(20)), package: None }));
}

#[test]
fn a_word_for_another_life_is_not_heard() {
    let mut state = awaiting();
    state.step(millis(1_100), transferred("a#0", 20));
    assert!(held(&state).is_none());
}

#[test]
fn a_word_that_is_older_than_what_is_known_is_not_heard() {
    let mut state = awaiting();
    state.step(millis(1_050), claims(vec![claim(0, Some("b#1"), 30)]));
    state.step(millis(1_100), transferred("a#1", 20));
    assert!(held(&state).is_none());
}

#[test]
fn a_term_below_one_that_was_seen_is_taken_anew_and_its_package_counts() {
    let mut state = awaiting();
    state.step(millis(1_050), Event::TermSeen { shard: SHARD, term: Term(40) });
    let effects = state.step(millis(1_100), transferred("a#1", 20));
    assert!(held(&state).is_none());
    assert_eq!(acquires(&effects), vec![seen(Some("a#1"), 20)]);
    state.step(millis(1_110), granted("a#1", seen(Some("a#1"), 20), 41));
    assert_eq!(held(&state), Some(Holding { term: Term(41), continues: None, package: Some(77) }));
}

#[test]
fn who_is_told_waits_and_then_takes_it_anew_with_its_package() {
    let mut state = awaiting();
    // The route tells first: how it came about is read, and nothing is taken while word of the giver may be on its way.
    let effects = state.step(millis(1_100), routes(1, 2, vec![route(0, Some("a#1"), 20)]));
    assert_eq!(effects, vec![Effect::ReadClaims { shards: vec![SHARD] }]);
    assert_eq!(acquires(&state.step(millis(1_110), packed("a#1", 20, 77))), vec![]);
    assert_eq!(acquires(&state.step(millis(1_209), Event::Tick)), vec![]);
    assert!(state.seeks(SHARD));
    // None came: the giver did not hear of it itself, or died.
    let effects = state.step(millis(1_210), Event::Tick);
    assert_eq!(acquires(&effects), vec![seen(Some("a#1"), 20)]);
    state.step(millis(1_220), granted("a#1", seen(Some("a#1"), 20), 21));
    assert_eq!(held(&state), Some(Holding { term: Term(21), continues: None, package: Some(77) }));
}

#[test]
fn who_has_worlds_ready_looks_at_the_claim_by_itself() {
    let mut state = awaiting();
    // Between heartbeats, and until the claim says more than before.
    for at in [1_250, 1_510, 1_770] {
        let early = state.step(millis(at - 1), Event::Tick);
        assert!(!early.contains(&Effect::ReadClaims { shards: vec![SHARD] }), "{early:?}");
        let effects = state.step(millis(at), Event::Tick);
        assert!(effects.contains(&Effect::ReadClaims { shards: vec![SHARD] }), "{effects:?}");
        state.step(millis(at + 10), packed("b#1", 10, 0));
    }
    state.step(millis(2_000), Event::Members { members: vec![member("a#1"), member("b#1")], at: Wall(START) });
    state.step(millis(2_030), Event::Tick);
    state.step(millis(2_040), packed("a#1", 20, 77));
    let effects = state.step(millis(2_140), Event::Tick);
    assert_eq!(acquires(&effects), vec![seen(Some("a#1"), 20)]);
}

#[test]
fn a_package_that_another_may_have_run_does_not_count() {
    // It was given to b, which lived under that term, and died.
    let mut state = among(1, &["a#1", "b#1"], vec![route(0, Some("b#1"), 20)]);
    state.step(millis(1_100), Event::Wanted { shard: SHARD });
    state.step(millis(1_110), packed("b#1", 20, 77));
    state.step(millis(1_200), granted("a#1", seen(Some("b#1"), 20), 21));
    assert_eq!(held(&state), Some(Holding { term: Term(21), continues: None, package: None }));
}

#[test]
fn what_was_given_without_a_package_has_none() {
    let mut state = among(1, &["a#1", "b#1"], vec![route(0, Some("b#1"), 10)]);
    state.step(millis(1_100), Event::Wanted { shard: SHARD });
    let effects = state.step(millis(1_110), packed("a#1", 20, 0));
    assert_eq!(acquires(&effects), vec![seen(Some("a#1"), 20)]);
    state.step(millis(1_200), granted("a#1", seen(Some("a#1"), 20), 21));
    assert_eq!(held(&state), Some(Holding { term: Term(21), continues: None, package: None }));
}
