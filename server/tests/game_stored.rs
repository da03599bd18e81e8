//! Checkpoints: versions, migrations, components that a build does not know, damaged bytes; and what registration refuses.
#![allow(elided_lifetimes_in_paths, clippy::needless_pass_by_value, reason = "systems read better so")]
#![allow(clippy::expect_used, clippy::type_complexity, reason = "a test says what is wrong by panicking")]

use std::sync::Arc;

use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use tenure::{
    plugin::RoomKind,
    prelude::*,
    room::world::{RoomWorld, WorldError, WorldSettings},
    runtime::Wall,
    test::TestRoom,
};
use tenure_shared::Term;

#[derive(Component, Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Hp(u32);
#[derive(Component, Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Life {
    now: u32,
    most: u32,
}
#[derive(Component, Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Pet(String);
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Rules(String);

fn start(mut commands: Commands) {
    commands.spawn_batch((1..=5).map(|n| (Hp(n), Pet(format!("cat {n}")))));
    commands.insert_resource(Rules("no running".to_owned()));
}

fn first(room: &mut RoomBuilder) {
    room.component::<Hp>("hp").replicated().persisted();
    room.component::<Pet>("pet").replicated().persisted();
    room.resource::<Rules>("rules").replicated().persisted();
    room.startup(start);
}

/// Knows no pets and no rules, and counts life in another way.
fn third(room: &mut RoomBuilder) {
    room.component::<Life>("hp")
        .version(3)
        .migrate_from(1, |hp: u32| (hp, 10_u32))
        .migrate_from(2, |(now, most): (u32, u32)| Life { now, most })
        .replicated()
        .persisted();
}

#[test]
fn a_deploy_migrates_what_is_stored_step_by_step() {
    let mut room = TestRoom::new("pets", first);
    let ada = room.join("ada");
    room.tick(2);
    let before = room.state(ada).all::<String>("pet");
    assert_eq!(before.len(), 5);
    room.deploy(third);
    room.tick(2);
    let lives = room.state(ada).all::<Life>("hp");
    assert_eq!(lives.iter().map(|(_, life)| life.now).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert_eq!(lives[0].1.most, 10);
    assert_eq!(room.state(ada).entities().len(), 5, "pets are not shown by a build that does not know them");
    room.restart();
    room.tick(1);
    assert_eq!(room.state(ada).all::<Life>("hp"), lives);
}

#[test]
fn what_a_build_does_not_know_is_carried_along() {
    let mut room = TestRoom::new("pets", first);
    let ada = room.join("ada");
    room.tick(2);
    let before = room.state(ada).hash();
    room.deploy(|room: &mut RoomBuilder| {
        room.component::<Hp>("hp").replicated().persisted();
    });
    room.tick(2);
    assert_ne!(room.state(ada).hash(), before);
    room.restart();
    room.deploy(first);
    room.tick(2);
    assert_eq!(room.state(ada).hash(), before);
    assert_eq!(room.state(ada).resource::<String>("rules"), Some("no running".to_owned()));
}

fn kind(plugin: impl RoomPlugin) -> Arc<RoomKind> {
    RoomKind::new("pets", plugin).expect("a kind")
}

fn world(kind: &Arc<RoomKind>) -> RoomWorld {
    let room = RoomId::new("pets/eu/a").expect("an id");
    RoomWorld::create(kind, room, &WorldSettings::default(), Term(1), 7, Wall(0), Bytes::new()).expect("a world")
}

#[test]
fn what_a_newer_build_stored_is_refused_by_name() {
    let stored = world(&kind(third)).checkpoint(false);
    let error = RoomWorld::restore(&kind(first), &WorldSettings::default(), Term(2), &stored).expect_err("newer");
    assert!(matches!(error, WorldError::Newer { stored: 3, known: 1, .. }), "{error}");
    assert!(error.to_string().contains("\"hp\" was stored in version 3; this build reads up to 1"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn damaged_checkpoints_are_refused_or_read_and_never_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
        cutting in any::<bool>(),
    ) {
        let kind = kind(first);
        let mut world = world(&kind);
        world.tick(Default::default());
        let mut stored = world.checkpoint(false);
        let mut body = stored.body.to_vec();
        for (at, byte) in changes {
            let at = at.index(body.len());
            body[at] = byte;
        }
        if cutting {
            body.truncate(cut.index(body.len()));
        }
        stored.body = body.into();
        if let Ok(mut world) = RoomWorld::restore(&kind, &WorldSettings::default(), Term(2), &stored) {
            world.tick(Default::default());
            world.checkpoint(false);
        }
    }
}

#[test]
fn registration_faults_come_all_at_once() {
    let faults = RoomKind::new("Bad Kind", |room: &mut RoomBuilder| {
        room.tick_rate(0).max_seats(0);
        room.component::<Hp>("hp").version(3).migrate_from(1, |hp: u32| hp).persisted();
        room.component::<Pet>("hp").replicated();
        room.component::<Life>("Life").replicated();
        room.component::<Life>("life").replicated();
        room.resource::<Rules>("rules").version(0).persisted();
        room.event::<Pet>("pet").event::<Hp>("pet");
        room.timer("t", |In(_): In<Fired>| ());
        room.timer("t", |In(_): In<Fired>| ());
    })
    .expect_err("faults");
    let all = faults.join("\n");
    for part in [
        "tick rate 0",
        "0 seats",
        "no migration from version 2",
        "component \"hp\" is registered twice",
        "\"Life\": expected a letter",
        "component \"life\" is of the same type as \"Life\"",
        "versions count from 1",
        "event \"pet\" is registered twice",
        "timer \"t\" is registered twice",
        "kind of room \"Bad Kind\"",
    ] {
        assert!(all.contains(part), "{part:?} is missing in:\n{all}");
    }
    assert!(RoomKind::new("pets", first).is_ok());
}
