//! Handlers that refuse: what they decided is taken back, and clients are told a word of the game's own.
#![allow(elided_lifetimes_in_paths, clippy::needless_pass_by_value, reason = "systems read better so")]
#![allow(clippy::expect_used, reason = "a test says what is wrong by panicking")]

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};
use tenure::{plugin::Reward, prelude::*, test::TestRoom};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Told(String);

/// Takes, gives, schedules, tells and kicks, and then says no, or yes.
fn greed(player: &PlayerId, seat: Entity, (grants, due, out): (&mut Grants, &mut Due, &mut Out)) {
    grants.charge(player, "shop", &[("gold", 5)], &"nothing");
    grants.give(player, "gift", &[("gold", 1)]);
    due.schedule_in("harvest", "greedy", Duration::from_secs(1), "crop");
    out.all(&Told("greed".to_owned()));
    out.kick(seat, "greed");
}

fn greedy(
    In(request): In<Request<String>>,
    mut grants: Grants,
    mut due: Due,
    mut out: Out,
) -> Result<Answer<bool>, Refuse> {
    greed(&request.player, request.seat, (&mut grants, &mut due, &mut out));
    match request.body.as_str() {
        "yes" => Ok(true.into()),
        "odd" => Err(Refuse::code("Not A Code", "no")),
        _ => Err(Refuse::code("too_greedy", "no")),
    }
}

fn greedy_join(In(join): In<Join>, mut grants: Grants, mut due: Due, mut out: Out) -> Result<(), Refuse> {
    if join.player.as_str() == "greta" {
        greed(&join.player, join.seat, (&mut grants, &mut due, &mut out));
        return Err("no greed".into());
    }
    Ok(())
}

fn harvest(In(_): In<Work<String>>, mut out: Out) -> Result<(), Refuse> {
    out.all(&Told("harvested".to_owned()));
    Ok(())
}

fn game(room: &mut RoomBuilder) {
    room.event::<Told>("told");
    room.request("greedy", greedy).on_join(greedy_join);
    room.work("harvest", harvest);
    room.charge("shop", |In(_): In<Charged<String>>| ());
}

#[test]
fn a_handler_that_refuses_takes_back_what_it_decided() {
    let mut room = TestRoom::new("bank", game);
    let ada = room.join("ada");
    for player in ["ada", "greta"] {
        room.deposit(player, "gold", 50);
    }
    let no = room.request(ada, "greedy", &"no");
    let odd = room.request(ada, "greedy", &"odd");
    assert_eq!(room.try_join("greta", &()).expect_err("refused").message, "no greed");
    room.tick(3);
    let (code, text) = room.reply_or_code::<bool>(ada, no).expect("an answer").expect_err("no");
    assert_eq!((code.as_str(), text.as_str()), ("too_greedy", "no"));
    let (code, _) = room.reply_or_code::<bool>(ada, odd).expect("an answer").expect_err("no");
    assert_eq!(code, "request_failed");
    assert_eq!(room.take_errors().len(), 1, "a code that is none is the game's fault");
    room.advance(Duration::from_secs(3));
    assert_eq!((room.balance("ada", "gold"), room.balance("greta", "gold")), (50, 50));
    assert_eq!((room.events::<Told>(ada, "told"), room.closed(ada)), (vec![], None));
    // One that agrees keeps everything.
    room.request(ada, "greedy", &"yes");
    room.tick(1);
    assert!(room.closed(ada).is_some());
    room.tick(3);
    assert_eq!(room.balance("ada", "gold"), 46);
}

#[test]
fn more_kicks_than_a_room_has_seats_are_the_games_fault() {
    let mut room = TestRoom::new("bank", |room: &mut RoomBuilder| {
        room.message::<u32>("kick");
        room.systems(Apply, |inbox: Inbox<u32>, mut out: Out| {
            for (seat, n) in inbox.iter() {
                (0..*n).for_each(|_| out.kick(seat, "out"));
            }
        });
    });
    let ada = room.join("ada");
    room.send(ada, "kick", &10_001_u32);
    room.tick(1);
    assert_eq!(room.take_errors(), ["kick: more than 10000 in one tick"]);
    assert!(room.closed(ada).is_some());
}

#[test]
fn a_cap_is_the_ledgers() {
    let mut room = TestRoom::new("bank", game);
    room.join("ada");
    for _ in 0..2 {
        room.tick(1);
        room.reward_as(Reward {
            id: "capped".into(),
            scheduled_for: room.wall(),
            audience: Audience::Present,
            cap: Some((Wall(0), BTreeMap::from([("gold".into(), 150)]))),
            amounts: BTreeMap::from([("gold".into(), 100)]),
            max_grants_per_step: 10,
            max_known: 10,
        });
        room.tick(3);
    }
    assert_eq!(room.balance("ada", "gold"), 150);
}
