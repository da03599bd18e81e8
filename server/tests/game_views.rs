//! What clients see is what the server shows: hashes are equal after every tick of a long random game, with joins, leaves, drops,
//! moves and snapshots in between (docs/invariants.md C54, C56).
#![allow(elided_lifetimes_in_paths, clippy::needless_pass_by_value, reason = "systems read better so")]
#![allow(clippy::expect_used, clippy::type_complexity, reason = "a test says what is wrong by panicking")]

use serde::{Deserialize, Serialize};
use tenure::{
    ecs::world::EntityRef,
    plugin::params::RngState,
    prelude::*,
    test::{TestRoom, TestSeat},
};

macro_rules! parts {
    ($($name:ident),*) => {$(
        #[derive(Component, Clone, Debug, PartialEq, Serialize, Deserialize)]
        struct $name(u32);
    )*};
}
parts!(Pos, Name, Secret, Deep, Low, High, Hidden);

/// A side: filtered components are seen by seats of the same side.
#[derive(Component, Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Side(u8);

#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Phase(u32);
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Weather(String);

fn same_side(viewer: EntityRef, target: EntityRef) -> bool {
    matches!((viewer.get::<Side>(), target.get::<Side>()), (Some(a), Some(b)) if a == b)
}

/// One random deed on one random entity.
fn deed(commands: &mut Commands, rng: &mut RoomRng, all: &[Entity], seats: &[(Entity, SeatId)]) {
    let n = rng.next_u64() as u32;
    let Some(target) = rng.pick(all).copied() else { return };
    let is_seat = seats.iter().any(|(seat, _)| *seat == target);
    let mut target = commands.entity(target);
    match rng.below(24) {
        0..5 => drop(target.insert(Pos(n))),
        5 => drop(target.insert((Pos(n), Name(n)))),
        6 => drop(target.insert(Name(n))),
        7 => drop(target.insert(Secret(n))),
        8 => drop(target.insert((Deep(n), Secret(n)))),
        9 => drop(target.insert(Low(n))),
        10 => drop(target.insert((High(n), Low(n)))),
        11 => drop(target.insert(Hidden(n))),
        12 => drop(target.insert(Side((n % 3) as u8))),
        13 => drop(target.remove::<Pos>()),
        14 => drop(target.remove::<(Pos, Name)>()),
        15 => drop(target.remove::<Secret>()),
        16 => drop(target.remove::<(Deep, Low)>()),
        17 => drop(target.remove::<High>()),
        18 => {
            target.remove::<Pos>();
            target.insert(Pos(n));
        }
        19 => {
            if let Some((_, id)) = rng.pick(seats) {
                target.insert((OwnedBy(*id), Secret(n)));
            }
        }
        20 => drop(target.remove::<OwnedBy>()),
        21 | 22 if !is_seat => target.despawn(),
        _ => {}
    }
}

fn play(
    mut commands: Commands,
    mut rng: RoomRng,
    all: Query<Entity, Or<(With<Pos>, With<Name>, With<Secret>, With<Deep>, With<Low>, With<Hidden>, With<Seat>)>>,
    seats: Seats,
    mut phase: ResMut<Phase>,
    weather: Option<Res<Weather>>,
) {
    let all: Vec<Entity> = all.iter().collect();
    let seats: Vec<(Entity, SeatId)> = seats.iter().map(|(entity, seat)| (entity, seat.id())).collect();
    for _ in 0..rng.below(8) {
        deed(&mut commands, &mut rng, &all, &seats);
    }
    let n = rng.next_u64() as u32;
    match rng.below(12) {
        0..3 if all.len() < 60 => drop(commands.spawn((Pos(n), Side((n % 3) as u8)))),
        3 if all.len() < 60 => drop(commands.spawn((Low(n), Side((n % 3) as u8)))),
        4 if all.len() < 60 => drop(commands.spawn(Hidden(n))),
        // Born and gone in one tick: nobody hears of it; and an index that is used again at once.
        5 => {
            let short = commands.spawn((Pos(n), Name(n))).id();
            commands.entity(short).despawn();
            commands.spawn(Pos(n));
        }
        6 => phase.0 = n,
        7 if weather.is_some() => commands.remove_resource::<Weather>(),
        8 => commands.insert_resource(Weather(format!("rain {n}"))),
        _ => {}
    }
}

fn joined(In(join): In<Join>, mut commands: Commands, mut rng: RoomRng) -> Result<(), Refuse> {
    let n = rng.next_u64() as u32;
    commands.entity(join.seat).insert((Pos(n), Secret(n), Side((n % 3) as u8)));
    if n.is_multiple_of(4) { Err("not today".into()) } else { Ok(()) }
}

fn game(room: &mut RoomBuilder) {
    room.component::<Pos>("pos").replicated().persisted();
    room.component::<Name>("name").replicated().persisted();
    room.component::<Secret>("secret").to_owner().persisted();
    room.component::<Deep>("deep").to_owner().persisted();
    room.component::<Low>("low").visible_by(same_side).persisted();
    room.component::<High>("high").visible_by(same_side).persisted();
    room.component::<Hidden>("hidden").persisted();
    room.component::<Side>("side").persisted();
    room.resource::<Phase>("phase").replicated().persisted();
    room.resource::<Weather>("weather").replicated().persisted();
    room.on_join(joined).systems(Simulate, play);
}

fn check(room: &mut TestRoom, seats: &[TestSeat], step: usize) {
    for seat in seats {
        let seen = room.state(*seat).hash();
        assert_eq!(seen, room.fresh_hash(*seat), "client {seat:?} after step {step}: {:?}", room.state(*seat));
    }
}

#[test]
fn hashes_are_equal_over_ten_thousand_random_steps() {
    let mut room = TestRoom::new("views", game);
    let mut rng = RngState::seeded(2_026);
    let (mut here, mut gone): (Vec<TestSeat>, Vec<TestSeat>) = (Vec::new(), Vec::new());
    let mut players = 0;
    for step in 0..10_000 {
        match rng.below(40) {
            0 | 1 if here.len() + gone.len() < 6 => {
                players += 1;
                here.extend(room.try_join(&format!("p{players}"), &()));
            }
            2 if here.len() > 1 => {
                let seat = here.swap_remove(rng.below(here.len() as u64) as usize);
                room.leave(seat);
            }
            3 if !here.is_empty() => {
                let seat = here.swap_remove(rng.below(here.len() as u64) as usize);
                room.drop_socket(seat);
                gone.push(seat);
            }
            4 | 5 if !gone.is_empty() => {
                let seat = gone.swap_remove(rng.below(gone.len() as u64) as usize);
                // A seat whose grace ran out is joined anew, which the game may refuse: then a client is lost.
                if room.world().seats() as usize > here.len() + gone.len() {
                    room.reconnect(seat);
                    here.push(seat);
                }
            }
            6 => here.iter().for_each(|seat| room.resync(*seat)),
            7 if rng.below(20) == 0 => room.move_now(),
            _ => {}
        }
        room.tick(1);
        // A fresh snapshot starts the private part anew, so that a fault in deltas would be healed by looking too often.
        if step % 16 == 15 {
            check(&mut room, &here, step);
        }
    }
    assert!(players > 50, "only {players} players");
    assert!(room.state(here[0]).entities().len() > 10);
    assert_eq!(room.take_errors(), Vec::<String>::new());
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Order {
    Hide(u8),
    Despawn,
}

fn obey(inbox: Inbox<Order>, mut sides: Query<(Entity, &mut Side), With<Low>>, mut commands: Commands) {
    for (_, order) in inbox.iter() {
        for (entity, mut side) in &mut sides {
            match order {
                Order::Hide(to) => side.0 = *to,
                Order::Despawn => commands.entity(entity).despawn(),
            }
        }
    }
}

#[test]
fn nobody_is_told_of_what_he_cannot_see() {
    let mut room = TestRoom::new("views", |room: &mut RoomBuilder| {
        room.component::<Low>("low").visible_by(same_side).persisted();
        room.component::<Side>("side").persisted();
        room.message::<Order>("order");
        room.startup(|mut commands: Commands| commands.spawn_batch([(Low(7), Side(1))]));
        room.on_join(|In(join): In<Join>, seats: Seats, mut commands: Commands| -> Result<(), Refuse> {
            let id = seats.get(join.seat).ok_or("no seat")?.id().0;
            commands.entity(join.seat).insert(Side(id as u8));
            Ok(())
        });
        room.systems(Simulate, obey);
    });
    let (ada, bob) = (room.join("ada"), room.join("bob"));
    room.tick(2);
    assert_eq!(room.state(ada).all::<u32>("low"), vec![(1, 7)]);
    assert_eq!(room.state(bob).entities(), Vec::<u64>::new());
    room.send(ada, "order", &Order::Hide(2));
    room.tick(1);
    assert_eq!(room.state(ada).entities(), Vec::<u64>::new());
    assert_eq!(room.state(bob).all::<u32>("low"), vec![(1, 7)]);
    room.send(ada, "order", &Order::Hide(9));
    room.send(ada, "order", &Order::Despawn);
    room.tick(1);
    assert_eq!(room.state(bob).entities(), Vec::<u64>::new());
    let output = room.world().tick(Default::default());
    let heard = output.messages.iter().filter(|(_, m)| matches!(m, tenure::link::ToGateway::Frame(_))).count();
    assert_eq!(heard, 0, "a tick without news has no frame: {:?}", output.messages);
}

/// Structs inside of what is shown carry their fields' names; what is stored does not need them.
#[test]
fn structs_inside_of_components_resources_and_messages_are_named() {
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    struct Card {
        suit: u8,
        rank: u8,
    }
    #[derive(Component, Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Hand {
        top: Card,
        rest: Vec<Card>,
    }
    #[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    struct Table {
        open: Option<Card>,
    }
    #[derive(Clone, Serialize, Deserialize)]
    struct Dealt {
        card: Card,
    }
    let mut room = TestRoom::new("cards", |room: &mut RoomBuilder| {
        room.component::<Hand>("hand").replicated().persisted();
        room.resource::<Table>("table").replicated().persisted();
        room.event::<Dealt>("dealt");
        room.on_join(|In(join): In<Join>, mut commands: Commands, mut table: ResMut<Table>| -> Result<(), Refuse> {
            let card = |suit, rank| Card { suit, rank };
            commands.entity(join.seat).insert(Hand { top: card(1, 2), rest: vec![card(3, 4)] });
            table.open = Some(card(5, 6));
            Ok(())
        });
        room.systems(Stage::Send, |mut out: Out| out.all(&Dealt { card: Card { suit: 7, rank: 8 } }));
    });
    let ada = room.join("ada");
    room.tick(2);
    for moved in [false, true] {
        if moved {
            room.move_now();
            room.tick(1);
        }
        let hand = room.state(ada).all::<serde_json::Value>("hand")[0].1.clone();
        assert_eq!(hand, serde_json::json!([{"suit": 1, "rank": 2}, [{"suit": 3, "rank": 4}]]), "moved: {moved}");
        let table = room.state(ada).resource::<serde_json::Value>("table").expect("a table");
        assert_eq!(table, serde_json::json!([{"suit": 5, "rank": 6}]), "moved: {moved}");
    }
    let dealt = room.events::<serde_json::Value>(ada, "dealt");
    assert_eq!(dealt[0], serde_json::json!([{"suit": 7, "rank": 8}]));
}
