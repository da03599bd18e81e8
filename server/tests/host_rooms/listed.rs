//! What a node tells of its rooms, what a room that is made for a filter begins with, and that a room overfills whatever lists say.

use bytes::Bytes;
use tenure::{
    link::{
        Attach, ConnId, Coordinators, Mode, ToGateway, ToNode,
        lobby::{self, Answer, Answering, Question},
    },
    room::host::{Reports, RoomNews},
    store::RoomSummary,
};
use tenure_shared::{Filter, RoomId, Scalar, codes::ErrorCode};

use crate::{
    harness::{Gateway, World, attach, room},
    lab::Say,
};

/// What is told of one room, once it is told so.
fn told(world: &World, reports: &Reports, what: &str, is: impl Fn(&RoomNews) -> bool) -> RoomNews {
    let mut found = None;
    world.until(what, || {
        found = found.take().or_else(|| reports.take("eu", 1_000_000).into_iter().find(&is));
        found.is_some()
    });
    found.expect("told")
}

fn now(news: &RoomNews) -> RoomSummary {
    news.now.clone().expect("it is there")
}

fn mode(value: &str) -> Bytes {
    Filter::from_iter([("mode".to_owned(), Scalar::Text(value.to_owned()))]).encode().into()
}

fn make(gateway: &Gateway, room: &RoomId, metadata: &Bytes) -> ConnId {
    let conn = gateway.conn();
    let metadata = metadata.clone();
    let make = Attach { mode: Mode::JoinOrCreate, metadata, ..attach(conn, room, "ann") };
    gateway.up.send(ToNode::Attach(make)).expect("taken");
    conn
}

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_who_goes_and_what_the_game_says_is_told_at_once() {
    let mut world = World::new();
    world.config.regions = vec!["eu".to_owned()];
    let node = world.node().await;
    let (gateway, reports) = (node.gateway(), node.host.reports());
    let ann = gateway.join(&room("a"), "ann");
    let came = told(&world, &reports, "ann came", |news| news.stored && !news.comings.is_empty());
    assert_eq!((now(&came).seats, now(&came).max_seats, came.comings[0].1), (1, 4, true));
    assert_eq!(came.comings[0].0.as_str(), "ann");
    // Between checkpoints, and though nobody came or went.
    gateway.say(&ann, 1, &Say::Lock);
    told(&world, &reports, "it is locked", |news| now(news).locked);
    // A player who is refused is as one who left: no seat is to be kept for him.
    let conn = gateway.ask(&room("b"), "bob", Mode::JoinOrCreate);
    gateway.answer(conn).expect("a seat");
    gateway.ask(&room("b"), "nobody", Mode::Join);
    let refused = told(&world, &reports, "nobody is refused", |news| {
        news.comings.iter().any(|(player, stays)| player.as_str() == "nobody" && !stays)
    });
    assert_eq!(now(&refused).seats, 1);
    gateway.leave(&ann, ann.attached.generation, true);
    let left = told(&world, &reports, "ann left", |news| news.comings.iter().any(|(_, stays)| !stays));
    assert_eq!(now(&left).seats, 0);
    // Somebody else listens: all of it, and what is gone as gone.
    reports.again("eu");
    let rooms: Vec<_> = reports.take("eu", 1_000_000).iter().map(|news| news.room.name().to_owned()).collect();
    assert_eq!(rooms, ["a", "b"]);
    let carl = gateway.join(&room("c"), "carl");
    gateway.say(&carl, 1, &Say::End);
    let gone = told(&world, &reports, "it is gone", |news| news.now.is_none());
    assert_eq!(gone.room, room("c"));
    assert_eq!(reports.take("us", 1_000_000), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_room_that_is_made_for_a_filter_begins_with_it_and_keeps_it() {
    let mut world = World::new();
    world.config.regions = vec!["eu".to_owned()];
    let node = world.node().await;
    let (gateway, reports) = (node.gateway(), node.host.reports());
    gateway.answer(make(&gateway, &room("a"), &mode("duel"))).expect("a seat");
    let is = told(&world, &reports, "it is made", |news| news.stored);
    assert_eq!(Filter::of_metadata(&now(&is).metadata).get("mode"), Some(&Scalar::Text("duel".into())));
    // Who comes later changes nothing of it.
    gateway.answer(make(&gateway, &room("a"), &mode("team"))).expect("his seat again");
    reports.again("eu");
    let is = told(&world, &reports, "it is told again", |news| news.stored);
    assert_eq!(now(&is).metadata, mode("duel"));
    // Keys that the game does not name are refused, and so is what is no filter.
    let level: Bytes = Filter::from_iter([("level".to_owned(), Scalar::Int(1))]).encode().into();
    for bad in [level, Bytes::from_static(&[0x90])] {
        match gateway.answer(make(&gateway, &room("b"), &bad)) {
            Err(ToGateway::Refused { code: ErrorCode::BadPayload, .. }) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_room_lets_in_as_many_as_it_has_seats_for_whoever_sent_them() {
    // Two coordinators, or two lists that are behind: the room alone decides.
    let world = World::new();
    let node = world.node().await;
    let gateway = node.gateway();
    let asked: Vec<_> = (0..12).map(|n| gateway.ask(&room("a"), &format!("p{n}"), Mode::JoinOrCreate)).collect();
    let answers: Vec<_> = asked.into_iter().map(|conn| gateway.answer(conn)).collect();
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 4);
    let full =
        |answer: &&Result<_, ToGateway>| matches!(answer, Err(ToGateway::Refused { code: ErrorCode::RoomFull, .. }));
    assert_eq!(answers.iter().filter(full).count(), 8);
    // A locked room has no seat either: whoever looks for one is sent elsewhere.
    let socket = gateway.join(&room("b"), "ann");
    gateway.say(&socket, 1, &Say::Lock);
    let mut tries = 0;
    world.until("it is locked", || {
        // Somebody else each time: whose seat has not ended yet gets it back, locked or not.
        tries += 1;
        let conn = gateway.ask(&room("b"), &format!("bob{tries}"), Mode::Join);
        let seat = gateway.answer(conn);
        match seat {
            Ok(seat) => {
                gateway.leave(&seat, seat.attached.generation, true);
                false
            }
            Err(ToGateway::Refused { code, .. }) => code == ErrorCode::RoomFull,
            Err(other) => panic!("{other:?}"),
        }
    });
}

/// A coordinator that says what it was asked.
struct Echo;

impl Coordinators for Echo {
    fn ask(&self, region: &str, question: Question, within: std::time::Duration) -> Answering {
        let (region, kind) = (
            region.to_owned(),
            match question {
                Question::Rooms { kind, .. } => kind.unwrap_or_default(),
                Question::Seek(seek) => seek.kind,
            },
        );
        Box::pin(async move {
            (kind != "none")
                .then(|| Answer::refused(ErrorCode::Limit, format!("{region} {kind} {}", within.as_millis())))
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_to_coordinators_are_handed_on_and_answered_whatever_happens() {
    let world = World::new();
    let node = world.node().await;
    let gateway = node.gateway();
    let ask = |question: Bytes| {
        let conn = gateway.conn();
        let (region, within) = ("eu".to_owned(), 700);
        let id = tenure::link::GatewayId(0);
        gateway.up.send(ToNode::Ask { gateway: id, conn, attempt: 3, region, within, question }).expect("taken");
        gateway.wait("an answer", |message| match message {
            ToGateway::Answered { conn: of, attempt: 3, answer } if *of == conn => Some(answer.clone()),
            _ => None,
        })
    };
    let rooms = |kind: &str| {
        let (kind, filter) = (Some(kind.to_owned()), Filter::default());
        lobby::encode(&Question::Rooms { kind, filter, open: true, after: None, limit: 5 }).expect("small")
    };
    assert_eq!(ask(rooms("lab")), None, "there is no way to one yet");
    node.host.coordinate(std::sync::Arc::new(Echo));
    let answer = ask(rooms("lab")).expect("an answer");
    assert_eq!(lobby::decode(&answer), Ok(Answer::refused(ErrorCode::Limit, "eu lab 700".to_owned())));
    assert_eq!(ask(rooms("none")), None);
    assert_eq!(ask(Bytes::from_static(&[0xc1])), None, "what cannot be read");
}
