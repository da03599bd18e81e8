//! Seats and inputs: one seat per player, generations, graces, order, bounds (docs/invariants.md C47-C50, H4, H11).
#![allow(elided_lifetimes_in_paths, clippy::needless_pass_by_value, reason = "systems read better so")]
#![allow(clippy::expect_used, clippy::type_complexity, reason = "a test says what is wrong by panicking")]

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tenure::{
    link::{ConnId, GatewayId, Input},
    prelude::*,
    room::world::WorldSettings,
    test::TestRoom,
};
use tenure_shared::{Generation, Seq, codes::CloseCode};

#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Log(Vec<String>);
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Step(u32);
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Aim(u32);

fn who(seats: &Seats, seat: Entity) -> String {
    seats.get(seat).map_or_else(|| "?".to_owned(), |seat| seat.player().to_string())
}

fn read(steps: Inbox<Step>, aims: Inbox<Aim>, seats: Seats, mut log: ResMut<Log>) {
    for (seat, Step(n)) in steps.iter() {
        log.0.push(format!("{} steps {n}", who(&seats, seat)));
    }
    for (seat, Aim(n)) in aims.iter() {
        log.0.push(format!("{} aims {n}", who(&seats, seat)));
    }
}

fn game(room: &mut RoomBuilder) {
    room.max_seats(2).reconnect_grace(Duration::from_secs(5));
    room.resource::<Log>("log").replicated().persisted();
    room.message::<Step>("step");
    room.message::<Aim>("aim").latest();
    room.request("echo", |In(request): In<Request<Step>>| -> Result<Answer<u32>, Refuse> { Ok(request.body.0.into()) });
    room.on_join(|In(join): In<Join>, mut log: ResMut<Log>| -> Result<(), Refuse> {
        if join.player.as_str() == "eve" {
            return Err("eve is not welcome".into());
        }
        log.0.push(format!("{} joins", join.player));
        Ok(())
    });
    room.on_drop(|In(seat): In<Entity>, seats: Seats, mut log: ResMut<Log>| {
        log.0.push(format!("{} drops", who(&seats, seat)));
    });
    room.on_reconnect(|In(seat): In<Entity>, seats: Seats, mut log: ResMut<Log>| {
        log.0.push(format!("{} is back", who(&seats, seat)));
    });
    room.on_leave(|In(leave): In<Leave>, seats: Seats, mut log: ResMut<Log>| {
        log.0.push(format!("{} leaves, {:?}", who(&seats, leave.seat), leave.cause));
    });
    room.message::<Kick>("kick");
    room.systems(Apply, (read, kick));
}

/// Whoever sends it is kicked, with as many others as it says by the same reason.
#[derive(Clone, Serialize, Deserialize)]
struct Kick(String);

fn kick(inbox: Inbox<Kick>, mut out: Out) {
    inbox.iter().for_each(|(seat, Kick(reason))| out.kick(seat, reason.as_str()));
}

fn log(room: &TestRoom, seat: tenure::test::TestSeat) -> Vec<String> {
    room.state(seat).resource::<Vec<String>>("log").expect("a log")
}

#[test]
fn a_second_client_takes_the_seat_and_the_first_changes_nothing_any_more() {
    let mut room = TestRoom::new("seats", game);
    let first = room.join("ada");
    room.tick(1);
    let old = room.world().attachments()[0].clone();
    let second = room.join("ada");
    assert_eq!(room.world().seats(), 1);
    assert_eq!(room.closed(first).map(|(code, _)| code), Some(CloseCode::Superseded));
    // The late close of the old socket, and a late message of it.
    assert!(!room.world().detach(old.seat, old.generation, false));
    let late = Input {
        room: room.world().room().clone(),
        seat: old.seat,
        generation: old.generation,
        seq: Seq(1),
        request: None,
        kind: 0,
        payload: Bytes::from_static(&[1]),
    };
    assert_eq!(room.world().input(late), Ok(()));
    room.send(second, "step", &Step(2));
    room.tick(2);
    assert_eq!(log(&room, second), ["ada joins", "ada steps 2"]);
    let now = room.world().attachments();
    assert_eq!((now.len(), now[0].seat, now[0].generation), (1, old.seat, Generation(old.generation.0 + 1)));
    assert_eq!((now[0].gateway, now[0].conn > old.conn), (GatewayId(1), true));
    assert_ne!(now[0].conn, ConnId(0));
}

#[test]
fn a_client_that_moves_to_another_gateway_is_no_news_for_the_game() {
    let mut room = TestRoom::new("seats", game);
    let seat = room.join("ada");
    room.tick(1);
    room.send(seat, "step", &Step(1));
    // The new socket resumes while the old one stands, and what was not applied goes out again.
    room.reconnect(seat);
    room.tick(1);
    room.send(seat, "step", &Step(2));
    room.tick(1);
    assert_eq!(log(&room, seat), ["ada joins", "ada steps 1", "ada steps 2"]);
}

#[test]
fn graces_run_on_room_time_and_hooks_run_once() {
    let mut room = TestRoom::new("seats", game);
    let (ada, bob) = (room.join("ada"), room.join("bob"));
    assert_eq!(room.try_join("cem", &()).expect_err("full").code.as_str(), "room_full");
    room.drop_socket(ada);
    room.advance(Duration::from_secs(4));
    room.reconnect(ada);
    room.advance(Duration::from_secs(9));
    room.drop_socket(ada);
    room.freeze(Duration::from_secs(60));
    room.advance(Duration::from_secs(4));
    assert_eq!((room.world().seats(), room.world().connected()), (2, 1));
    room.advance(Duration::from_secs(2));
    assert_eq!(room.world().seats(), 1);
    room.leave(bob);
    room.tick(1);
    assert_eq!(room.world().seats(), 0);
    assert_eq!(room.world().empty_since(), Some(room.world().room_time()));
    assert_eq!(room.try_join("eve", &()).expect_err("refused").message, "eve is not welcome");
    assert_eq!(room.world().seats(), 0, "a refused player leaves nothing behind");
    let cem = room.join("cem");
    room.tick(1);
    let expected = [
        "ada joins",
        "bob joins",
        "ada drops",
        "ada is back",
        "ada drops",
        "ada leaves, GraceOver",
        "bob leaves, Consented",
        "cem joins",
    ];
    assert_eq!(log(&room, cem), expected);
}

#[test]
fn a_move_is_no_coming_and_going_but_who_does_not_come_back_is_gone() {
    let mut room = TestRoom::new("seats", game);
    let (ada, bob) = (room.join("ada"), room.join("bob"));
    room.tick(1);
    room.move_now();
    room.restart();
    room.crash();
    room.advance(Duration::from_secs(6));
    assert_eq!(log(&room, ada), ["ada joins", "bob joins"]);
    // Bob's socket is lost, but no checkpoint says so when the owner is lost as well.
    room.save();
    room.drop_socket(bob);
    room.crash();
    room.advance(Duration::from_secs(4));
    assert_eq!(log(&room, ada).len(), 2);
    room.advance(Duration::from_secs(2));
    assert_eq!(log(&room, ada)[2..], ["bob drops", "bob leaves, GraceOver"]);
    assert_eq!(room.world().seats(), 1);
}

#[test]
fn what_was_sent_before_leaving_is_applied() {
    let mut room = TestRoom::new("seats", game);
    let (ada, bob) = (room.join("ada"), room.join("bob"));
    room.send(ada, "step", &Step(1));
    room.leave(ada);
    room.send(bob, "step", &Step(2));
    room.drop_socket(bob);
    room.tick(2);
    let cem = room.join("cem");
    room.tick(1);
    let expected =
        ["ada joins", "bob joins", "bob drops", "ada steps 1", "bob steps 2", "ada leaves, Consented", "cem joins"];
    assert_eq!(log(&room, cem), expected);
}

#[test]
fn a_kick_has_a_code_and_a_cause_of_its_own() {
    let mut room = TestRoom::new("seats", game);
    let (ada, bob) = (room.join("ada"), room.join("bob"));
    room.send(ada, "kick", &Kick("no spitting".to_owned()));
    room.tick(1);
    assert_eq!(room.closed(ada), Some((CloseCode::Kicked, "no spitting")));
    assert_eq!(log(&room, bob)[2..], ["ada leaves, Kicked"]);
    // Who was about to leave, with messages of his still waiting, is told that he has left.
    for _ in 0..20 {
        room.send(bob, "kick", &Kick("out".to_owned()));
    }
    let socket = room.world().attachments()[0].clone();
    room.world().detach(socket.seat, socket.generation, true);
    let output = room.world().tick(tenure::room::world::TickInput::default());
    let left = output.messages.into_iter().map(|(_, message)| message).collect::<Vec<_>>();
    assert_eq!(left, [tenure::link::ToGateway::Left { conn: socket.conn }]);
    assert_eq!(room.world().seats(), 0);
}

#[test]
fn inputs_are_bounded_per_tick_and_in_order_and_of_latest_the_newest_counts() {
    let mut room = TestRoom::new("seats", game);
    let (ada, bob) = (room.join("ada"), room.join("bob"));
    room.tick(1);
    for n in 1..=20 {
        room.send(ada, "step", &Step(n));
    }
    room.send(bob, "step", &Step(1));
    let steps = |room: &TestRoom, name: &str| log(room, ada).iter().filter(|line| line.starts_with(name)).count();
    room.tick(1);
    assert_eq!((steps(&room, "ada steps"), steps(&room, "bob steps"), room.marks(ada).0), (8, 1, Seq(8)));
    room.tick(2);
    let wanted: Vec<String> = (1..=20).map(|n| format!("ada steps {n}")).collect();
    let got: Vec<String> = log(&room, ada).into_iter().filter(|line| line.starts_with("ada steps")).collect();
    assert_eq!(got, wanted);
    for n in 1..=8 {
        room.send(ada, "aim", &Aim(n));
    }
    room.tick(1);
    assert_eq!(log(&room, ada).last().map(String::as_str), Some("ada aims 8"));
    assert_eq!(steps(&room, "ada aims"), 1);
    assert_eq!(room.marks(ada).0, Seq(28));
}

#[test]
fn queues_have_bounds() {
    let settings = WorldSettings { unsaved_inputs: 10, unsaved_bytes: 40, ..WorldSettings::default() };
    let mut room = TestRoom::with("seats", game, settings);
    let (ada, bob) = (room.join("ada"), room.join("bob"));
    (0..11).for_each(|n| room.send(ada, "step", &Step(n)));
    let refused = room.refused(ada);
    assert_eq!(refused.iter().map(|(_, code, _)| code.as_str()).collect::<Vec<_>>(), ["limit"]);
    room.send_raw(bob, 0, None, Bytes::from(vec![0xc0; 41]));
    assert_eq!(room.refused(bob)[0].1, "limit");
    // Bob's first message was not taken: his second one does not overtake it.
    room.send(bob, "step", &Step(1));
    room.tick(1);
    assert_eq!((room.refused(bob).len(), room.marks(bob).0), (0, Seq(0)));
}

#[test]
fn what_cannot_be_read_is_refused_by_its_number() {
    let mut room = TestRoom::new("seats", game);
    let ada = room.join("ada");
    room.send_raw(ada, 77, None, Bytes::from_static(&[0xc0]));
    let deep = [vec![0x91; 100_000], vec![0xc0]].concat();
    let bombs: [&[u8]; 6] = [
        &[0xdd, 0xff, 0xff, 0xff, 0xff],
        &[0xc6, 0xff, 0xff, 0xff, 0xff],
        &[0xa2, 0xc3, 0x28],
        &[0xc1],
        &[1, 1],
        &deep[..30_000],
    ];
    for bomb in bombs {
        room.send_raw(ada, 0, None, Bytes::copy_from_slice(bomb));
    }
    room.tick(1);
    let request = room.request(ada, "echo", &Step(5));
    let bad = room.request(ada, "echo", &"five");
    room.send_raw(ada, 9, Some(40), Bytes::from_static(&[0xc0]));
    room.send(ada, "step", &Step(9));
    room.tick(1);
    let refused: Vec<_> = room.refused(ada).into_iter().map(|(seq, code, _)| (seq.0, code)).collect();
    let mut expected = vec![(1, "unknown_message".to_owned())];
    expected.extend((2..=7).map(|seq| (seq, "bad_payload".to_owned())));
    assert_eq!(refused, expected);
    assert_eq!(room.reply::<u32>(ada, request), Some(Ok(5)));
    assert!(matches!(room.reply::<u32>(ada, bad), Some(Err(_))));
    assert!(matches!(room.reply::<u32>(ada, 40), Some(Err(text)) if text.contains("not known")));
    assert_eq!(log(&room, ada), ["ada joins", "ada steps 9"]);
    assert_eq!(room.marks(ada).0, Seq(11));
}

#[test]
fn a_game_reads_what_a_login_token_claims() {
    #[derive(Default, Deserialize)]
    struct Options {
        team: String,
    }
    #[derive(Default, Deserialize)]
    struct Claims {
        #[serde(default)]
        name: String,
        #[serde(default)]
        roles: Vec<String>,
    }
    let mut room = TestRoom::new("claims", |room: &mut RoomBuilder| {
        room.resource::<Log>("log").replicated().persisted();
        room.on_join(|In(join): In<Join>, mut log: ResMut<Log>| -> Result<(), Refuse> {
            let (options, claims): (Options, Claims) = (join.options()?, join.claims()?);
            log.0.push(format!("{} of {} is {:?} {:?}", join.player, options.team, claims.name, claims.roles));
            Ok(())
        });
    });
    let options = std::collections::BTreeMap::from([("team", "red")]);
    let claims = serde_json::json!({"name": "Ada", "roles": ["mod"], "more": {"unread": 1}});
    let ada = room.try_join_claiming("ada", &options, &claims).expect("joined");
    let wrong = serde_json::json!({"name": 7});
    let refused = room.try_join_claiming("bram", &options, &wrong).expect_err("refused");
    assert!(refused.message.contains("claims"), "{}", refused.message);
    room.join_with("guest:1", &options);
    room.tick(1);
    let Log(lines) = room.state(ada).resource("log").expect("a log");
    assert_eq!(lines, [r#"ada of red is "Ada" ["mod"]"#, r#"guest:1 of red is "" []"#]);
}
