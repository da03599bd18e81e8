//! The step machine, event by event. Here: what the tests say it with.

mod life;
mod moving;
mod peers;
mod plan;
mod terms;

use tenure_shared::{IncarnationId, ShardId, Term};

use super::{
    Times,
    event::{Call, Effect, Event, Holding, Phase, Seen},
    state::State,
};
use crate::{
    runtime::{Mono, Wall},
    store::{Claim, Key, Member, MemberInfo, Route, Status},
};

/// Store time of second 0.
const START: u64 = 1_764_446_400_000_000;

fn seconds(n: u64) -> Mono {
    Mono(n * 1_000_000_000)
}

fn millis(n: u64) -> Mono {
    Mono(n * 1_000_000)
}

fn name(text: &str) -> IncarnationId {
    IncarnationId::new(text).expect("valid")
}

fn claim(shard: u32, holder: Option<&str>, term: u64) -> Claim {
    Claim { key: Key::shard(ShardId(shard)), holder: holder.map(name), term: Term(term), package: None }
}

fn route(shard: u32, owner: Option<&str>, term: u64) -> Route {
    Route { key: Key::shard(ShardId(shard)), owner: owner.map(name), term: Term(term) }
}

fn seen(holder: Option<&str>, term: u64) -> Seen {
    Some((holder.map(name), Term(term)))
}

fn granted_of(shard: u32, who: &str, seen: Seen, term: u64) -> Event {
    Event::Granted { shard: ShardId(shard), incarnation: name(who), seen, term: Term(term) }
}

fn granted(who: &str, seen: Seen, term: u64) -> Event {
    granted_of(0, who, seen, term)
}

fn claims(list: Vec<Claim>) -> Event {
    let shards = list.iter().filter_map(|claim| claim.key.as_shard()).collect();
    Event::Claims { shards, claims: list }
}

/// A serving member whose lease runs until second 3,600.
fn member(text: &str) -> Member {
    let info = MemberInfo {
        node: text.split('#').next().unwrap_or_default().to_owned(),
        roles: vec!["room".to_owned()],
        version: "1".to_owned(),
        revision: 0,
        link: String::new(),
        public_url: String::new(),
        zone_data: String::new(),
    };
    let lease_until = Wall(START + 3_600_000_000);
    Member {
        incarnation: name(text),
        info,
        status: Status::Serving,
        beats: 7,
        lease_until,
        tombstone: false,
        schedules: String::new(),
    }
}

fn members(list: Vec<Member>) -> Event {
    Event::Members { members: list, at: Wall(START) }
}

fn present(list: &[&str]) -> Event {
    members(list.iter().map(|text| member(text)).collect())
}

fn routes(since: u64, counter: u64, changed: Vec<Route>) -> Event {
    Event::Routes { since, counter, changed }
}

fn acquires_of(effects: &[Effect]) -> Vec<(u32, Seen)> {
    let asked = effects.iter().filter_map(|effect| match effect {
        Effect::Acquire { shard, seen, .. } => Some((shard.0, seen.clone())),
        _ => None,
    });
    asked.collect()
}

fn acquires(effects: &[Effect]) -> Vec<Seen> {
    acquires_of(effects).into_iter().map(|(_, seen)| seen).collect()
}

fn released(shard: u32, who: &str, term: u64) -> Effect {
    Effect::Release { shard: ShardId(shard), incarnation: name(who), term: Term(term) }
}

/// A node `a#1` among these, with shards owned as the routes say, after everything it asked for was granted with terms from 1,000.
fn among(shards: u32, present_members: &[&str], owned: Vec<Route>) -> State {
    let mut state = State::new(Times::default(), shards, true, 2);
    state.step(seconds(0), Event::Registered { incarnation: name("a#1"), sent: seconds(0) });
    state.step(seconds(0), present(present_members));
    let effects = state.step(seconds(0), routes(0, 1, owned));
    grant_all(&mut state, seconds(0), &effects, 1_000);
    assert_eq!(state.phase(), Phase::Owning);
    state
}

/// Grants whatever is asked for.
fn grant_all(state: &mut State, now: Mono, effects: &[Effect], term: u64) {
    for (shard, seen) in acquires_of(effects) {
        let who = state.incarnation().expect("lives").clone();
        state.step(now, granted_of(shard, who.as_str(), seen, term + u64::from(shard)));
    }
}

/// One shard, held by `a#1` under term 10 since second 0.
fn owning() -> State {
    let mut state = State::new(Times::default(), 1, true, 8);
    let effects = state.step(seconds(0), Event::Registered { incarnation: name("a#1"), sent: seconds(0) });
    assert_eq!(effects, vec![Effect::ReadMembers, Effect::ReadRoutes { since: 0 }]);
    assert_eq!(state.acts_until(), Mono(0), "nothing acts before the shards are answered for");
    assert_eq!(state.step(seconds(0), present(&["a#1"])), vec![]);
    let effects = state.step(seconds(0), routes(0, 0, vec![]));
    assert_eq!(acquires(&effects), vec![None]);
    state.step(seconds(0), granted("a#1", None, 10));
    assert_eq!(state.phase(), Phase::Owning);
    assert_eq!(held(&state), Some(Holding { term: Term(10), continues: None, package: None }));
    state
}

/// What a store that forgot nothing says of the routes of what is held.
fn published(state: &State, since: u64) -> Vec<Route> {
    let own = state.incarnation().map(IncarnationId::as_str);
    let all = state.holdings().into_iter().map(|(shard, held)| route(shard.0, own, held.term.0));
    all.filter(|_| since == 0).collect()
}

fn held(state: &State) -> Option<Holding> {
    state.holdings().get(&ShardId(0)).copied()
}

fn doubt(state: &State) -> bool {
    state.in_doubt().contains(&ShardId(0))
}

fn beat(who: &str, sent: Mono) -> Event {
    Event::Beat { incarnation: name(who), sent, floor: Term(0) }
}

fn refused(who: &str, term: u64) -> Event {
    Event::Refused { shard: ShardId(0), incarnation: name(who), term: Term(term) }
}

/// Members and routes are read; the routes tell nothing new.
fn look(state: &mut State, now: Mono, list: &[&str]) -> Vec<Effect> {
    let mut effects = state.step(now, present(list));
    effects.extend(state.step(now, routes(0, 0, vec![])));
    effects
}

/// A beat and the polls at `now`, all answered; what else was asked for.
fn heartbeat(state: &mut State, now: Mono, others: &Event) -> Vec<Effect> {
    let mut rest = Vec::new();
    let mut due: Vec<Effect> = state.step(now, Event::Tick);
    while !due.is_empty() {
        let effect = due.remove(0);
        due.extend(match effect {
            Effect::Beat { incarnation, floor } => state.step(now, Event::Beat { incarnation, sent: now, floor }),
            Effect::ReadMembers => state.step(now, others.clone()),
            Effect::ReadRoutes { since } => state.step(now, routes(since, since.max(1), published(state, since))),
            Effect::Tell { incarnation, status } => state.step(now, Event::Told { incarnation, status }),
            other => {
                rest.push(other);
                vec![]
            }
        });
    }
    rest
}
