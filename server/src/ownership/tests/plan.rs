//! What placement asks for: taking, giving, draining.

use super::*;

fn eight_of_a() -> State {
    among(8, &["a#1"], vec![])
}

fn gives(state: &State) -> Vec<(u32, String)> {
    state.gives().iter().map(|(shard, to)| (shard.0, to.to_string())).collect()
}

#[test]
fn a_join_is_given_its_share_a_few_at_a_time() {
    let mut state = eight_of_a();
    assert_eq!((state.holdings().len(), gives(&state)), (8, vec![]));
    let joining = Member { status: Status::Joining, ..member("b#1") };
    state.step(seconds(1), members(vec![member("a#1"), joining]));
    assert_eq!(gives(&state), vec![], "not before it serves");
    state.step(seconds(1), present(&["a#1", "b#1"]));
    let mut given = 0;
    while let Some((shard, to)) = gives(&state).into_iter().next() {
        assert!(gives(&state).len() <= 2 && to == "b#1");
        let term = 1_000 + u64::from(shard);
        let effects = state.step(seconds(1), Event::Gave { shard: ShardId(shard), term: Term(term) });
        assert!(
            matches!(&effects[..], [Effect::Give { shard: of, term: under, to, .. }] if of.0 == shard && under.0 == term && *to == name("b#1"))
        );
        assert!(state.releases(ShardId(shard)), "not before the store has it");
        assert!(!state.holdings().contains_key(&ShardId(shard)) && !state.in_doubt().contains(&ShardId(shard)));
        let (to, new) = (name("b#1"), Term(2_000 + u64::from(shard)));
        let effects = state.step(seconds(1), Event::Given { shard: ShardId(shard), term: Term(term), to, new });
        assert_eq!(acquires(&effects), vec![], "what was given is not taken back");
        assert!(!state.releases(ShardId(shard)));
        assert_eq!(state.routes()[&ShardId(shard)].owner, Some(name("b#1")));
        given += 1;
    }
    assert_eq!((given, state.holdings().len()), (4, 4));
}

#[test]
fn the_other_side_takes_what_was_released_and_waits_for_the_rest() {
    let owned: Vec<Route> = (0..8).map(|n| route(n, Some("b#1"), 10)).collect();
    let mut state = among(8, &["a#1", "b#1"], owned);
    assert_eq!(state.holdings().len(), 0);
    state.step(seconds(1), Event::Tick);
    // Whichever the other gives, by its own reckoning: both agree.
    let mut other = State::new(Times::default(), 8, true, 8);
    other.step(seconds(0), Event::Registered { incarnation: name("b#1"), sent: seconds(0) });
    other.step(seconds(0), present(&["b#1"]));
    let effects = other.step(seconds(0), routes(0, 0, vec![]));
    grant_all(&mut other, seconds(0), &effects, 10);
    other.step(seconds(1), present(&["a#1", "b#1"]));
    let freed: Vec<u32> = other.gives().keys().map(|shard| shard.0).collect();
    assert_eq!(freed.len(), 4);
    let changed = freed.iter().map(|n| route(*n, None, 10)).collect();
    let effects = state.step(seconds(1), routes(1, 5, changed));
    let asked: Vec<(u32, Seen)> = freed.iter().map(|n| (*n, seen(None, 10))).collect();
    assert_eq!(acquires_of(&effects), asked);
}

#[test]
fn a_shard_that_cannot_be_given_goes_behind_the_others() {
    let mut state = eight_of_a();
    let both = present(&["a#1", "b#1"]);
    state.step(seconds(1), both);
    let turns = |state: &State| state.gives().keys().map(|shard| shard.0).collect::<Vec<_>>();
    let kept = |shard: u32| Event::Kept { shard: ShardId(shard), term: Term(1_000 + u64::from(shard)) };
    let first = turns(&state);
    assert_eq!(first.len(), 2);
    state.step(seconds(1), kept(first[0]));
    state.step(seconds(1), kept(first[1]));
    let second = turns(&state);
    assert!(second.len() == 2 && second.iter().all(|shard| !first.contains(shard)), "{first:?} {second:?}");
    // The others cannot be given, either: it is the turn of the first again, but not in a loop without a pause.
    state.step(seconds(2), kept(second[0]));
    state.step(seconds(2), kept(second[1]));
    assert_eq!(turns(&state), first);
    state.step(millis(2_100), kept(first[0]));
    let third = turns(&state);
    assert!(third.contains(&second[0]), "{third:?}");
    state.step(millis(2_200), kept(second[0]));
    assert_eq!(turns(&state), third);
}

#[test]
fn a_drain_gives_everything_if_somebody_can_have_it() {
    let mut state = eight_of_a();
    state.step(seconds(0), Event::Told { incarnation: name("a#1"), status: Status::Serving });
    let effects = state.step(seconds(1), Event::Drain);
    let told = Effect::Tell { incarnation: name("a#1"), status: Status::Draining };
    assert_eq!(effects, vec![told, Effect::ReadMembers, Effect::ReadRoutes { since: 1 }]);
    state.step(seconds(1), present(&["a#1"]));
    assert_eq!((gives(&state), state.holdings().len()), (vec![], 8), "with nowhere to go it keeps serving");
    let drains = Member { status: Status::Draining, ..member("b#1") };
    state.step(seconds(1), members(vec![member("a#1"), drains]));
    assert_eq!(gives(&state), vec![]);
    state.step(seconds(1), present(&["a#1", "b#1"]));
    assert_eq!(gives(&state).len(), 2);
    state.step(seconds(1), present(&["a#1"]));
    assert_eq!(gives(&state), vec![], "the only one that could have it is gone");
}

/// `a#1`, which has everything, and `b#1` of another version, so that nothing moves for balance; then `c#1` besides, of a later deploy.
fn beside_a_newer_one() -> (State, Event, Event) {
    let (mut state, mut other, mut newer) = (eight_of_a(), member("b#1"), member("c#1"));
    other.info.version = "0".to_owned();
    newer.info.revision = 1;
    let before = members(vec![member("a#1"), other.clone()]);
    heartbeat(&mut state, seconds(1), &before);
    assert_eq!((state.holdings().len(), gives(&state)), (8, vec![]));
    (state, before, members(vec![member("a#1"), other, newer]))
}

#[test]
fn a_drain_begins_with_the_members_of_this_moment() {
    let (mut state, _, all) = beside_a_newer_one();
    let effects = state.step(millis(1_500), Event::Drain);
    assert!(effects.contains(&Effect::ReadMembers), "{effects:?}");
    assert_eq!(gives(&state), vec![], "who came since the last heartbeat is not known yet");
    state.step(millis(1_501), all);
    let given = gives(&state);
    assert!(given.len() == 2 && given.iter().all(|(_, to)| to == "c#1"), "{given:?}");
}

#[test]
fn a_reading_of_before_the_drain_is_not_news() {
    let (mut state, before, all) = beside_a_newer_one();
    let effects = state.step(seconds(2), Event::Tick);
    assert!(effects.contains(&Effect::ReadMembers), "{effects:?}");
    let effects = state.step(millis(2_001), Event::Drain);
    assert!(!effects.contains(&Effect::ReadMembers), "one is under way");
    let effects = state.step(millis(2_002), before);
    assert!(effects.contains(&Effect::ReadMembers), "{effects:?}");
    assert_eq!(gives(&state), vec![]);
    state.step(millis(2_003), all);
    assert_eq!(gives(&state).first().map(|(_, to)| to.as_str()), Some("c#1"));
}

#[test]
fn a_drain_that_cannot_read_the_members_goes_by_what_it_knows() {
    let (mut state, ..) = beside_a_newer_one();
    state.step(millis(1_500), Event::Drain);
    state.step(millis(1_900), Event::Failed(Call::Members));
    assert_eq!(gives(&state).first().map(|(_, to)| to.as_str()), Some("b#1"));
}

#[test]
fn whoever_drains_takes_back_what_nobody_else_can_have() {
    let owned: Vec<Route> = (0..4).map(|n| route(n, Some("b#1"), 10)).collect();
    let mut state = among(8, &["a#1", "b#1"], owned);
    assert_eq!(state.holdings().len(), 4);
    state.step(seconds(1), Event::Drain);
    let effects = state.step(seconds(1), present(&["a#1"]));
    let dead: Vec<(u32, Seen)> = (0..4).map(|n| (n, seen(Some("b#1"), 10))).collect();
    assert_eq!(acquires_of(&effects), dead, "nobody serves");
    grant_all(&mut state, seconds(1), &effects, 2_000);
    assert_eq!((state.holdings().len(), gives(&state)), (8, vec![]));
    state.step(seconds(2), present(&["a#1", "c#1"]));
    assert_eq!(gives(&state).len(), 2, "they go on to whoever serves next");
    state.step(seconds(2), Event::Leave);
    assert_eq!(acquires_of(&state.step(seconds(3), present(&["a#1"]))), vec![], "it has deregistered");
}

#[test]
fn a_release_that_failed_is_made_again() {
    let mut state = eight_of_a();
    state.step(seconds(1), present(&["a#1", "b#1"]));
    let shard = state.gives().keys().next().copied().expect("gives");
    let term = Term(1_000 + u64::from(shard.0));
    state.step(seconds(1), Event::Gave { shard, term });
    assert!(state.releases(shard));
    let effects = state.step(seconds(1), Event::Failed(Call::Release(shard)));
    assert_eq!(effects, vec![Effect::ReadClaims { shards: vec![shard] }]);
    let effects = state.step(seconds(1), claims(vec![claim(shard.0, Some("a#1"), term.0)]));
    assert_eq!(effects, vec![], "not in a loop without a pause");
    assert!(state.releases(shard), "who gave it waits until the store has it");
    let effects = heartbeat(&mut state, seconds(2), &present(&["a#1", "b#1"]));
    assert_eq!(effects, vec![released(shard.0, "a#1", term.0)], "nothing of it is in memory: it is not run again");
    state.step(seconds(2), Event::Released { shard, term });
    assert!(!state.releases(shard));
}

#[test]
fn what_is_given_to_a_member_that_is_gone_is_free() {
    let mut state = eight_of_a();
    state.step(seconds(1), present(&["a#1", "b#1"]));
    let shard = state.gives().keys().next().copied().expect("gives");
    let term = Term(1_000 + u64::from(shard.0));
    state.step(seconds(1), present(&["a#1"]));
    let effects = state.step(seconds(1), Event::Gave { shard, term });
    assert_eq!(effects[0], released(shard.0, "a#1", term.0));
}

/// `a#1` beside `b#1`, which has all eight shards; and one that it is about to give.
fn b_gives() -> (State, ShardId) {
    let owned: Vec<Route> = (0..8).map(|n| route(n, Some("b#1"), 10)).collect();
    let mut state = among(8, &["a#1", "b#1"], owned);
    assert_eq!((state.holdings().len(), heartbeat(&mut state, seconds(1), &present(&["a#1", "b#1"]))), (0, vec![]));
    (state, ShardId(3))
}

#[test]
fn a_shard_that_was_given_to_a_node_runs_under_a_term_of_its_own_as_soon_as_somebody_comes() {
    let (mut state, shard) = b_gives();
    let effects = state.step(millis(1_500), Event::Wanted { shard });
    assert_eq!(effects[0], Effect::ReadClaims { shards: vec![shard] });
    assert!(state.seeks(shard));
    let effects = state.step(millis(1_502), claims(vec![claim(shard.0, Some("a#1"), 11)]));
    assert_eq!(acquires_of(&effects), vec![(shard.0, seen(Some("a#1"), 11))], "whatever its own placement says");
    assert!(state.seeks(shard) && !state.holdings().contains_key(&shard));
    state.step(millis(1_504), granted_of(shard.0, "a#1", seen(Some("a#1"), 11), 12));
    assert!(!state.seeks(shard));
    assert_eq!(state.holdings()[&shard], Holding { term: Term(12), continues: None, package: None });
}

#[test]
fn a_claim_that_is_wanted_again_at_once_is_read_again_a_moment_later() {
    let (mut state, shard) = b_gives();
    let as_before = || claims(vec![claim(3, Some("b#1"), 10)]);
    state.step(millis(1_500), Event::Wanted { shard });
    state.step(millis(1_501), as_before());
    assert!(!state.seeks(shard));
    for at in [1_502, 1_503, 1_504] {
        assert_eq!(state.step(millis(at), Event::Wanted { shard }), vec![], "not for everybody who asks");
    }
    assert!(state.seeks(shard) && state.wake() == millis(1_520));
    let effects = state.step(millis(1_520), Event::Tick);
    assert_eq!(effects, vec![Effect::ReadClaims { shards: vec![shard] }]);
    state.step(millis(1_521), as_before());
    assert!(!state.seeks(shard) && state.wake() > millis(1_521));
}

#[test]
fn a_draining_node_passes_on_what_it_is_given() {
    let (mut state, shard) = b_gives();
    state.step(millis(1_500), Event::Drain);
    state.step(millis(1_501), present(&["a#1", "b#1"]));
    state.step(millis(1_501), Event::Wanted { shard });
    let effects = state.step(millis(1_502), claims(vec![claim(shard.0, Some("a#1"), 11)]));
    assert_eq!(acquires(&effects), vec![]);
    let on = |effect: &Effect| matches!(effect, Effect::Give { term: Term(11), to, .. } if *to == name("b#1"));
    assert!(effects.iter().any(on), "{effects:?}");
}

#[test]
fn an_old_fence_gives_nothing() {
    let mut state = eight_of_a();
    let effects = state.step(seconds(1), Event::Gave { shard: ShardId(0), term: Term(7) });
    assert_eq!((effects, state.holdings().len()), (vec![], 8));
}

#[test]
fn what_was_given_while_the_lease_lapsed_does_not_go_on_from_memory() {
    let mut state = owning();
    state.step(seconds(3), Event::Tick);
    assert!(doubt(&state));
    state.step(seconds(3), Event::Gave { shard: ShardId(0), term: Term(10) });
    assert!(!doubt(&state));
}

#[test]
fn a_shard_that_its_target_does_not_take_is_taken_by_who_finds_it() {
    // Placement gives one of the two to the other, which never takes it.
    let both = present(&["a#1", "b#1"]);
    let mut state = among(2, &["a#1", "b#1"], vec![]);
    assert_eq!(state.holdings().len(), 1);
    for second in 1..5 {
        assert_eq!(acquires(&heartbeat(&mut state, seconds(second), &both)), vec![], "second {second}");
    }
    let effects = heartbeat(&mut state, seconds(5), &both);
    assert_eq!(acquires(&effects), vec![None]);
}

#[test]
fn a_draining_member_does_not_take_what_nobody_wants() {
    let both = present(&["a#1", "b#1"]);
    let mut state = among(2, &["a#1", "b#1"], vec![]);
    state.step(seconds(0), Event::Drain);
    for second in 1..9 {
        assert_eq!(acquires(&heartbeat(&mut state, seconds(second), &both)), vec![], "second {second}");
    }
}

#[test]
fn a_shard_lost_while_it_is_given_leaves_the_list() {
    let mut state = eight_of_a();
    state.step(seconds(1), present(&["a#1", "b#1"]));
    let shard = state.gives().keys().next().copied().expect("gives");
    let term = Term(1_000 + u64::from(shard.0));
    state.step(seconds(1), Event::Fenced { shard, term });
    assert!(!state.gives().contains_key(&shard));
}
