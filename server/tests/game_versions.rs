//! Two versions of the arena over one room: deployed, rolled back and deployed again, with nothing lost; and what cannot be read is
//! refused before anything is given away.
#![allow(
    elided_lifetimes_in_paths,
    unreachable_pub,
    dead_code,
    clippy::expect_used,
    reason = "the demo's own files, built into this test"
)]

#[path = "../demo/arena/mod.rs"]
mod arena;
#[path = "../demo/first.rs"]
mod first;
#[path = "../demo/second.rs"]
mod second;

use std::{sync::Arc, time::Duration};

use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use tenure::{
    plugin::RoomKind,
    prelude::*,
    room::world::{RoomWorld, WorldError, WorldSettings},
    test::{TestRoom, TestSeat},
};
use tenure_shared::Term;

type Chat = (String, String);

fn kind(plugin: impl RoomPlugin) -> Arc<RoomKind> {
    RoomKind::new("arena", plugin).expect("a kind")
}

/// Coins as the first version's clients see them: whatever else a coin has, its value comes first.
fn coins(room: &TestRoom, seat: TestSeat, second: bool) -> Vec<(u64, u16)> {
    let state = room.state(seat);
    if second {
        let all = state.all::<(u16, bool)>("coin");
        assert!(all.iter().all(|(_, (value, shiny))| *shiny == (*value >= 5)), "{all:?}");
        all.into_iter().map(|(entity, (value, _))| (entity, value)).collect()
    } else {
        state.all::<(u16,)>("coin").into_iter().map(|(entity, (value,))| (entity, value)).collect()
    }
}

fn players(room: &TestRoom, seat: TestSeat) -> Vec<(u64, (String, u8, u32, u8))> {
    room.state(seat).all("player")
}

fn moods(room: &TestRoom, seat: TestSeat) -> Vec<(u64, (u8,))> {
    room.state(seat).all("mood")
}

/// The form after the next: it neither writes nor knows anything of version 1.
#[derive(Component, Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Coin3(u16, bool);

impl arena::parts::Token for Coin3 {
    fn worth(value: u8) -> Self {
        Self(u16::from(value), value >= 5)
    }

    fn value(&self) -> u8 {
        self.0 as u8
    }
}

fn third(room: &mut RoomBuilder) {
    arena::shared::<Coin3>(room);
    room.component::<Coin3>("coin")
        .version(2)
        .migrate_from(1, |(value,): (u8,)| (u16::from(value), value >= 5))
        .persisted();
}

#[test]
fn a_deploy_and_its_rollback_lose_nothing() {
    let mut room = TestRoom::new("arena", first::arena);
    let (ada, bob) = (room.join("ada"), room.join("bob"));
    room.tick(1);
    room.send(ada, "chat", &("hello",));
    room.send(bob, "steer", &(1_i8, 0_i8));
    room.tick(2);
    let (had, people) = (coins(&room, ada, false), players(&room, ada));
    assert!(had.len() > 30 && people.len() == 2, "{had:?} {people:?}");

    room.deploy(second::arena);
    assert_eq!((coins(&room, ada, true), players(&room, ada)), (had, people));
    room.send(ada, "emote", &(3_u8,));
    room.tick(2);
    let (had, made) = (coins(&room, ada, true), moods(&room, bob));
    assert_eq!(made.iter().map(|(_, mood)| mood.0).collect::<Vec<_>>(), [3], "all see the face");

    room.deploy(first::arena);
    assert_eq!(coins(&room, ada, false), had);
    assert_eq!(room.take_errors(), Vec::<String>::new());
    // The second version does not know that she is silenced; the first finds it again.
    room.events::<Chat>(ada, "chat");
    room.send(ada, "chat", &("again",));
    room.tick(1);
    assert_eq!(room.events::<Chat>(ada, "chat"), [(String::new(), "not so fast".to_owned())]);
    room.advance(Duration::from_secs(1));
    let had = coins(&room, ada, false);

    room.deploy(second::arena);
    assert_eq!((coins(&room, ada, true), moods(&room, bob)), (had, made), "the rollback kept what it did not know");
    assert_eq!(room.take_errors(), Vec::<String>::new());
}

#[test]
fn each_version_of_the_demo_reads_what_the_other_writes() {
    let (one, two) = (kind(first::arena), kind(second::arena));
    assert_eq!((one.reads(&two.versions()), two.reads(&one.versions())), (Ok(()), Ok(())));
    assert_eq!(two.versions().get("component coin"), Some(&1), "what it writes, not what it has");
    assert!(two.versions().contains_key("component mood") && !two.versions().contains_key("component silenced"));
}

#[test]
fn what_the_old_build_cannot_read_is_refused_and_the_old_owner_goes_on() {
    let (one, two, three) = (kind(first::arena), kind(second::arena), kind(third));
    assert_eq!((two.reads(&three.versions()), three.reads(&one.versions())), (Ok(()), Ok(())));
    let refused = one.reads(&three.versions()).expect_err("version 2 of coins");
    assert_eq!(
        refused.to_string(),
        "rooms of kind \"arena\" cannot be read by this build: component coin has version 2, read are 1 to 1"
    );
    let mut room = TestRoom::new("arena", third);
    let ada = room.join("ada");
    room.tick(2);
    let checkpoint = room.world().checkpoint(false);
    let error = RoomWorld::restore(&one, &WorldSettings::default(), Term(9), &checkpoint).expect_err("newer");
    assert!(matches!(&error, WorldError::Newer { name, stored: 2, known: 1, .. } if name == "coin"), "{error}");
    RoomWorld::restore(&two, &WorldSettings::default(), Term(9), &checkpoint).expect("the second reads the third");
    // Nothing was given away: who holds the room plays on.
    let before = players(&room, ada);
    room.move_now();
    room.tick(5);
    assert_eq!(players(&room, ada), before);
    assert_eq!(room.take_errors(), Vec::<String>::new());
}

#[test]
fn a_value_too_old_to_be_read_is_refused_as_well() {
    let newest = kind(|room: &mut RoomBuilder| {
        room.component::<Coin3>("coin").version(3).migrate_from(2, |coin: (u16, bool)| coin).persisted();
    });
    let refused = newest.reads(&kind(first::arena).versions()).expect_err("version 1 of coins");
    assert_eq!((refused.names.len(), refused.names[0].stored, refused.names[0].reads), (1, 1, (2, 3)));
}

#[test]
fn a_version_that_cannot_be_read_back_is_no_version_to_write() {
    for writes in [1, 2, 3] {
        let faults = RoomKind::new("arena", move |room: &mut RoomBuilder| {
            room.component::<Coin3>("coin").version(2).writes(writes, |coin| coin).persisted();
        })
        .expect_err("a fault");
        assert!(faults.iter().any(|fault| fault.contains(&format!("writes {writes}"))), "{faults:?}");
    }
}

#[derive(Component, Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Short(u8, u8);
#[derive(Component, Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Long(u8, u8, #[serde(default)] u8);

fn spawn_short(mut commands: Commands) {
    commands.spawn(Short(1, 2));
}

/// Why a field that is appended needs a version: the way up works without one, and the way back does not.
#[test]
fn a_field_appended_without_a_version_is_read_forwards_alone() {
    let short = kind(|room: &mut RoomBuilder| {
        room.component::<Short>("thing").persisted();
        room.startup(spawn_short);
    });
    let long = kind(|room: &mut RoomBuilder| {
        room.component::<Long>("thing").persisted();
    });
    let mut room = TestRoom::new("arena", |room: &mut RoomBuilder| {
        room.component::<Short>("thing").persisted();
        room.startup(spawn_short);
    });
    let checkpoint = room.world().checkpoint(false);
    let settings = WorldSettings::default();
    let mut up = RoomWorld::restore(&long, &settings, Term(9), &checkpoint).expect("the new build reads the old value");
    let back = RoomWorld::restore(&short, &settings, Term(10), &up.checkpoint(false)).expect_err("a longer value");
    assert!(matches!(&back, WorldError::Value { name, .. } if name == "thing"), "{back}");
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Deploy(bool),
    Steer(bool, i8, i8),
    Say(bool),
    Emote(bool, u8),
    Tick(u64),
    Move,
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => any::<bool>().prop_map(Step::Deploy),
        3 => (any::<bool>(), -1..=1_i8, -1..=1_i8).prop_map(|(who, dx, dy)| Step::Steer(who, dx, dy)),
        1 => any::<bool>().prop_map(Step::Say),
        2 => (any::<bool>(), 0..8_u8).prop_map(|(who, face)| Step::Emote(who, face)),
        3 => (1..20_u64).prop_map(Step::Tick),
        1 => Just(Step::Move),
        1 => Just(Step::Crash),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Whatever happens in between, both versions see the same coins, players and counted inputs before and after each change.
    #[test]
    fn any_row_of_deploys_and_rollbacks_keeps_everything(steps in prop::collection::vec(step(), 1..30)) {
        let mut room = TestRoom::new("arena", first::arena);
        let seats = [room.join("ada"), room.join("bob")];
        room.tick(1);
        let (mut second, mut steered, mut faces) = (false, [0_u64; 2], None::<Vec<(u64, (u8,))>>);
        for step in steps {
            match step {
                Step::Deploy(to) => {
                    room.tick(1);
                    let before = (coins(&room, seats[0], second), players(&room, seats[1]));
                    if to { room.deploy(second::arena) } else { room.deploy(first::arena) }
                    second = to;
                    prop_assert_eq!((coins(&room, seats[0], second), players(&room, seats[1])), before);
                }
                Step::Steer(who, dx, dy) => {
                    room.send(seats[usize::from(who)], "steer", &(dx, dy));
                    steered[usize::from(who)] += 1;
                }
                Step::Say(who) => room.send(seats[usize::from(who)], "chat", &("hello",)),
                Step::Emote(who, face) if second => {
                    room.send(seats[usize::from(who)], "emote", &(face,));
                    room.tick(1);
                    faces = Some(moods(&room, seats[0]));
                }
                Step::Emote(..) => {}
                Step::Tick(n) => room.tick(n),
                Step::Move => room.move_now(),
                Step::Crash => {
                    room.save();
                    room.crash();
                }
            }
            if second && let Some(faces) = &faces {
                prop_assert_eq!(&moods(&room, seats[0]), faces);
            }
        }
        // Eight of a seat are applied per tick.
        room.tick(10);
        for (seat, steered) in seats.into_iter().zip(steered) {
            prop_assert_eq!(room.state(seat).all::<u64>("inputs").iter().map(|(_, n)| *n).collect::<Vec<_>>(), [steered]);
        }
        prop_assert_eq!(room.take_errors(), Vec::<String>::new());
    }
}
