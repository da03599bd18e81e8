//! The others: writing them off, settling, what is asked of the store and how often.

use std::time::Duration;

use super::*;

fn expires(effects: &[Effect]) -> Vec<(String, Option<u64>)> {
    let expired = effects.iter().filter_map(|effect| match effect {
        Effect::Expire { incarnation, stood_still } => Some((incarnation.to_string(), *stood_still)),
        _ => None,
    });
    expired.collect()
}

fn lapsing(text: &str, at: u64) -> Member {
    Member { lease_until: Wall(START + at), ..member(text) }
}

#[test]
fn idle_it_asks_three_things_per_heartbeat_and_claims_once_per_check() {
    let owned: Vec<Route> = (0..8).map(|n| route(n, Some(if n < 4 { "a#1" } else { "b#1" }), 10)).collect();
    let mut state = among(8, &["a#1", "b#1"], owned);
    let (mut calls, mut readings) = (0, 0);
    let mut others = 7;
    // 30 seconds, woken as often as it likes.
    let mut now = state.wake();
    while now < seconds(30) {
        let mut due = state.step(now, Event::Tick);
        while let Some(effect) = due.pop() {
            calls += 1;
            due.extend(match effect {
                Effect::Beat { incarnation, floor } => state.step(now, Event::Beat { incarnation, sent: now, floor }),
                Effect::ReadMembers => {
                    others += 1;
                    let alive = |text| Member { beats: others, ..member(text) };
                    state.step(now, members(vec![alive("a#1"), alive("b#1")]))
                }
                Effect::ReadRoutes { since } => {
                    let published = published(&state, since);
                    state.step(now, routes(since, 1, published))
                }
                Effect::ReadClaims { shards } => {
                    readings += 1;
                    assert_eq!(shards, (0..4).map(ShardId).collect::<Vec<_>>(), "its own alone");
                    state.step(now, claims((0..4).map(|n| claim(n, Some("a#1"), 1_000 + u64::from(n))).collect()))
                }
                Effect::Tell { incarnation, status } => state.step(now, Event::Told { incarnation, status }),
                other => panic!("{other:?}"),
            });
        }
        assert!(state.wake() > now, "it does not spin");
        now = state.wake();
    }
    assert_eq!(state.holdings().len(), 4);
    assert!((2..=3).contains(&readings), "{readings} readings of claims");
    // The first registration told its status once.
    assert!((84..=94).contains(&(calls - readings)), "{calls} calls");
}

#[test]
fn who_lapsed_by_the_stores_clock_is_written_off_and_taken_over_at_once() {
    let mut state = among(1, &["a#1", "b#1"], vec![route(0, Some("b#1"), 10)]);
    assert_eq!(held(&state), None);
    let effects = state.step(seconds(1), members(vec![member("a#1"), lapsing("b#1", 0)]));
    assert_eq!(expires(&effects), vec![], "at its very end a lease still stands");
    let over = Event::Members { members: vec![member("a#1"), lapsing("b#1", 0)], at: Wall(START + 1) };
    let effects = state.step(seconds(1), over.clone());
    assert_eq!(expires(&effects), vec![("b#1".to_owned(), None)]);
    assert_eq!(expires(&state.step(seconds(1), over)), vec![], "once at a time");
    let effects = state.step(seconds(1), Event::Expired { incarnation: name("b#1"), gone: true });
    assert_eq!(acquires(&effects), vec![seen(Some("b#1"), 10)]);
    state.step(seconds(1), granted("a#1", seen(Some("b#1"), 10), 30));
    assert_eq!(held(&state), Some(Holding { term: Term(30), continues: None, package: None }));
}

#[test]
fn a_lease_about_to_lapse_is_looked_at_when_it_does() {
    let mut state = among(1, &["a#1", "b#1"], vec![route(0, Some("b#1"), 10)]);
    state.step(seconds(1), beat("a#1", seconds(1)));
    state.step(seconds(1), Event::Tick);
    state.step(seconds(1), members(vec![member("a#1"), lapsing("b#1", 250_000)]));
    assert_eq!(state.wake(), millis(1_260));
    assert!(state.step(millis(1_260), Event::Tick).contains(&Effect::ReadMembers));
}

#[test]
fn beats_that_stand_still_for_three_leases_end_one_too() {
    let mut state = among(1, &["a#1", "b#1"], vec![route(0, Some("b#1"), 10)]);
    let both = present(&["a#1", "b#1"]);
    for second in 1..9 {
        assert_eq!(expires(&heartbeat(&mut state, seconds(second), &both)), vec![], "second {second}");
    }
    assert_eq!(expires(&heartbeat(&mut state, seconds(9), &both)), vec![("b#1".to_owned(), Some(7))]);
    // The store says that it beat meanwhile.
    state.step(seconds(9), Event::Expired { incarnation: name("b#1"), gone: false });
    let beats = members(vec![member("a#1"), Member { beats: 8, ..member("b#1") }]);
    assert_eq!(expires(&heartbeat(&mut state, seconds(10), &beats)), vec![]);
}

#[test]
fn nobody_stood_still_while_nobody_was_looked_at() {
    let mut state = among(1, &["a#1", "b#1"], vec![route(0, Some("b#1"), 10)]);
    let both = present(&["a#1", "b#1"]);
    heartbeat(&mut state, seconds(1), &both);
    // Eight seconds without an answer, then heartbeats go on.
    state.step(seconds(2), beat("a#1", seconds(8)));
    for second in 9..12 {
        state.step(seconds(second), beat("a#1", seconds(second)));
        assert_eq!(expires(&heartbeat(&mut state, seconds(second), &both)), vec![], "second {second}");
    }
}

#[test]
fn after_its_own_lapse_it_leaves_what_others_held_for_one_lease() {
    let owned = vec![route(0, Some("b#1"), 10)];
    let mut state = among(2, &["a#1", "b#1"], owned);
    assert_eq!(state.holdings().keys().copied().collect::<Vec<_>>(), vec![ShardId(1)]);
    state.step(seconds(9), Event::Tick);
    state.step(seconds(9), Event::Expired { incarnation: name("a#1"), gone: true });
    let effects = state.step(seconds(9), Event::Registered { incarnation: name("a#2"), sent: seconds(9) });
    assert_eq!(acquires_of(&effects), vec![(1, seen(Some("a#1"), 1_001))]);
    grant_all(&mut state, seconds(9), &effects, 2_000);
    // The other's lease lapsed as well, and is written off.
    state.step(seconds(9), present(&["a#2"]));
    let effects = state.step(seconds(9), routes(0, 2, vec![route(0, Some("b#1"), 10), route(1, Some("a#2"), 2_001)]));
    assert_eq!((acquires(&effects), state.phase(), state.settles()), (vec![], Phase::Owning, true));
    for second in 10..12 {
        assert_eq!(acquires(&heartbeat(&mut state, seconds(second), &present(&["a#2"]))), vec![]);
    }
    let effects = heartbeat(&mut state, seconds(12), &present(&["a#2"]));
    assert_eq!((acquires_of(&effects), state.settles()), (vec![(0, seen(Some("b#1"), 10))], false));
}

#[test]
fn a_store_that_was_emptied_is_no_reason_to_take_what_others_have_in_memory() {
    let mut state = among(2, &["a#1", "b#1"], vec![route(0, Some("b#1"), 10)]);
    assert!(!state.take_touched().forgot);
    // Its lease had not ended, and the store does not know it.
    state.step(seconds(1), Event::Gone { incarnation: name("a#1") });
    assert!(state.take_touched().forgot, "an alarm");
    state.step(seconds(1), Event::Registered { incarnation: name("a#2"), sent: seconds(1) });
    state.step(seconds(1), present(&["a#2"]));
    // What it had is asked for as it was left, is refused, and read.
    let effects = state.step(seconds(1), routes(0, 0, vec![]));
    assert_eq!(acquires_of(&effects), vec![]);
    assert!(state.take_touched().forgot, "the count of routes went back");
    state.step(seconds(1), Event::Refused { shard: ShardId(1), incarnation: name("a#2"), term: Term(0) });
    let absent = Event::Claims { shards: vec![ShardId(0), ShardId(1)], claims: vec![] };
    let mut asked = Vec::new();
    for tenth in 10..39 {
        let now = millis(tenth * 100);
        for event in [absent.clone(), Event::Tick, beat("a#2", now)] {
            let effects = state.step(now, event);
            asked.extend(acquires_of(&effects));
            grant_all(&mut state, now, &effects, 2_000);
        }
    }
    assert_eq!(asked, vec![(1, None)], "its own, from memory; the other's for one lease not");
    assert!(state.settles());
    let effects = heartbeat(&mut state, seconds(4), &present(&["a#2"]));
    assert_eq!(acquires_of(&effects), vec![(0, None)], "then nobody came for it");
}

#[test]
fn what_is_free_is_taken_also_while_settling() {
    let mut state = owning();
    state.step(seconds(3), beat("a#1", seconds(2)));
    assert!(state.settles());
    let effects = state.step(seconds(3), refused("a#1", 20));
    assert!(effects.contains(&Effect::ReadClaims { shards: vec![ShardId(0)] }));
    state.step(seconds(3), claims(vec![claim(0, None, 20)]));
    assert_eq!(acquires(&look(&mut state, seconds(3), &["a#1"])), vec![seen(None, 20)]);
}

#[test]
fn a_new_node_that_finds_a_crowd_of_lapsed_ones_settles_and_one_alone_is_taken_over() {
    for (crowd, settles) in [(vec!["b#1", "c#1"], true), (vec!["b#1"], false), (vec!["a#0", "b#1"], false)] {
        let mut state = State::new(Times::default(), 1, true, 8);
        state.step(seconds(0), Event::Registered { incarnation: name("a#1"), sent: seconds(0) });
        let mut list: Vec<Member> = crowd.iter().map(|text| lapsing(text, 0)).collect();
        list.push(member("a#1"));
        let effects = state.step(seconds(0), Event::Members { members: list, at: Wall(START + 1) });
        assert_eq!(expires(&effects).len(), crowd.len());
        assert_eq!(state.settles(), settles, "{crowd:?}");
    }
}

#[test]
fn a_node_without_the_role_takes_nothing_and_has_its_lease_and_view() {
    let mut state = State::new(Times::default(), 4, false, 8);
    state.step(seconds(0), Event::Registered { incarnation: name("a#1"), sent: seconds(0) });
    let mut own = member("a#1");
    own.info.roles = vec!["gateway".to_owned()];
    state.step(seconds(0), members(vec![own, member("b#1")]));
    let effects = state.step(seconds(0), routes(0, 1, vec![route(0, Some("b#1"), 10)]));
    assert_eq!(effects, vec![Effect::Tell { incarnation: name("a#1"), status: Status::Serving }]);
    assert_eq!(state.acts_until(), millis(2_500));
    assert_eq!(state.routes()[&ShardId(0)].owner, Some(name("b#1")));
    for second in 1..12 {
        let rest = heartbeat(&mut state, seconds(second), &present(&["a#1", "b#1"]));
        assert!(acquires(&rest).is_empty() && !rest.iter().any(|effect| matches!(effect, Effect::ReadClaims { .. })));
    }
}

#[test]
fn a_full_page_of_routes_is_read_on_and_a_store_that_forgot_is_read_anew() {
    let mut state = State::new(Times::default(), 2_000, false, 8);
    state.step(seconds(0), Event::Registered { incarnation: name("a#1"), sent: seconds(0) });
    state.step(seconds(0), present(&["a#1"]));
    let page = (0..1_000).map(|n| route(n, Some("b#1"), 10)).collect();
    assert_eq!(state.step(seconds(0), routes(0, 1_000, page)), vec![Effect::ReadRoutes { since: 1_000 }]);
    assert_eq!(state.acts_until(), Mono(0), "half a view is none");
    state.step(seconds(0), routes(1_000, 1_500, vec![route(1_500, Some("b#1"), 10)]));
    assert_eq!((state.routes().len(), state.phase()), (1_001, Phase::Owning));
    state.step(seconds(1), Event::Tick);
    assert_eq!(state.step(seconds(1), routes(1_500, 700, vec![])), vec![Effect::ReadRoutes { since: 0 }]);
}

#[test]
fn somebody_who_asks_often_is_answered_often_enough_and_no_more() {
    let mut state = among(2, &["a#1", "b#1"], vec![route(0, Some("b#1"), 10), route(1, Some("b#1"), 10)]);
    let mut readings = 0;
    for n in 0..1_000 {
        let now = millis(100 + n);
        for effect in state.step(now, Event::Wanted { shard: ShardId(0) }) {
            match effect {
                Effect::ReadClaims { shards } => {
                    assert_eq!(shards, vec![ShardId(0)]);
                    readings += 1;
                    state.step(now, claims(vec![claim(0, Some("b#1"), 10)]));
                }
                Effect::ReadMembers => drop(state.step(now, present(&["a#1", "b#1"]))),
                Effect::ReadRoutes { since } => drop(state.step(now, routes(since, since.max(1), vec![]))),
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(readings, 50, "at once, and fifty times in a second however many ask");
    let mut refreshed = 0;
    for n in 0..1_000 {
        let effects = state.step(millis(1_200).plus(Duration::from_millis(n)), Event::Refresh);
        refreshed += effects.iter().filter(|effect| **effect == Effect::ReadMembers).count();
        look(&mut state, millis(1_200 + n), &["a#1", "b#1"]);
    }
    assert_eq!(refreshed, 4);
}

#[test]
fn a_route_that_the_store_does_not_have_is_published_again_by_the_owner() {
    let mut state = owning();
    let lost = Effect::Publish { shard: ShardId(0), incarnation: name("a#1"), term: Term(10) };
    let mut reads = |list: Vec<Route>, since: u64| {
        state.step(seconds(1), Event::Tick);
        state.step(seconds(1), routes(since, 3, list))
    };
    assert_eq!(reads(vec![], 0), vec![lost.clone()], "none at all");
    assert_eq!(reads(vec![], 3), vec![], "what changed since says nothing of the rest");
    // A reading of all of them by a node whose route is old, and by one whose route is right.
    let all = |route: Route| owning().step(seconds(1), routes(0, 3, vec![route]));
    assert_eq!(all(route(0, Some("b#1"), 9)), vec![lost], "an older one");
    assert_eq!(all(route(0, Some("a#1"), 10)), vec![]);
}
