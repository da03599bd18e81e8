//! What the coordinator of a region is asked, and what becomes of its answers.

use std::collections::BTreeMap;

use tenure_shared::{Filter, Scalar, wire::ServerMessages};

use super::*;
use crate::link::lobby::{self, Answer, Listed, Question, Seek};

/// Rooms that a player may create in a minute.
pub(super) const CREATES: u32 = 6;

fn driver() -> Driver {
    let mut driver = Driver::new();
    driver.world.rules.coordinated = vec!["eu".to_owned()];
    driver
}

/// The node that is asked, the number of the question, and the question.
fn question(out: &[Effect]) -> Option<(String, u32, Question)> {
    out.iter().find_map(|effect| match effect {
        Effect::Find { to, find: ToNode::Ask { attempt, question, region, within, .. } } => {
            assert!(region == "eu" && (1..=1_000).contains(within));
            Some((to.to_string(), *attempt, lobby::decode(question).expect("a question")))
        }
        _ => None,
    })
}

fn seek(out: &[Effect]) -> (String, u32, Seek) {
    match question(out).expect("asked") {
        (to, attempt, Question::Seek(seek)) => (to, attempt, seek),
        other => panic!("{other:?}"),
    }
}

fn answer(driver: &mut Driver, attempt: u32, answer: Option<&Answer>) -> Vec<Effect> {
    let answer = answer.map(|answer| lobby::encode(answer).expect("small"));
    driver.node(ToGateway::Answered { conn: ConnId(1), attempt, answer })
}

/// What a room that is made begins with.
fn duel() -> Filter {
    [("mode".to_owned(), Scalar::Text("duel".into()))].into_iter().collect()
}

fn named(n: u8, make: bool) -> Answer {
    let metadata = if make { duel().encode().into() } else { Bytes::new() };
    Answer::Room { room: room(n), make, new: make, metadata }
}

/// The code of the error that the client gets.
fn error_of(out: &[Effect]) -> Option<String> {
    out.iter().find_map(|effect| match effect {
        Effect::Send(bytes) => ServerMessages::new(bytes, &msgpack::Bounds::SERVER).find_map(|message| match message {
            Ok(ServerMessage::Error { code, .. }) => Some(code.to_owned()),
            _ => None,
        }),
        _ => None,
    })
}

#[test]
fn the_coordinator_names_the_room_and_says_whether_it_is_to_be_made() {
    for (make, mode) in [(false, Mode::Join), (true, Mode::JoinOrCreate)] {
        let mut driver = driver();
        let (_, attempt, asked_for) = seek(&driver.say(1, 0));
        assert_eq!((asked_for.kind.as_str(), asked_for.refused), ("arena", None));
        let out = answer(&mut driver, attempt, Some(&named(1, make)));
        let attach = asked(&out).expect("an attach");
        assert_eq!((attach.mode, &attach.room), (mode, &room(1)));
        assert!(answer(&mut driver, attempt, Some(&named(2, make))).is_empty(), "it is answered");
    }
}

#[test]
fn a_node_that_has_no_answer_is_passed_over_and_the_request_stays_the_same() {
    let mut driver = driver();
    let (first, one, seek_one) = seek(&driver.say(1, 0));
    // The coordinator moves: nobody has an answer in time.
    assert!(answer(&mut driver, one, None).is_empty());
    let (second, two, seek_two) = seek(&driver.wait());
    assert!(first != second && seek_one == seek_two, "another node, the same request");
    // This one says nothing at all.
    let (third, three, seek_three) = seek(&driver.wait());
    assert!(third == first && seek_three == seek_one);
    assert!(answer(&mut driver, two, Some(&named(1, false))).is_empty(), "late");
    assert!(asked(&answer(&mut driver, three, Some(&named(1, false)))).is_some());
}

#[test]
fn without_any_answer_the_client_is_told_to_try_again() {
    let mut driver = driver();
    let mut out = driver.say(1, 0);
    let begun = driver.world.now;
    let mut questions = 0;
    while error_of(&out).is_none() {
        questions += u32::from(question(&out).is_some());
        assert!(questions < 100, "it must end");
        out = driver.wait();
    }
    assert_eq!(error_of(&out).as_deref(), Some("may_retry"));
    assert_eq!(driver.world.now - begun, 10_000_000_000);
    assert!(matches!(driver.machine.phase, Phase::Lobby));
    // The socket may ask again.
    assert!(question(&driver.say(1, 0)).is_some());
}

#[test]
fn a_room_that_is_full_after_all_is_told_and_another_is_asked_for() {
    let mut driver = driver();
    let (_, mut attempt, first) = seek(&driver.say(1, 0));
    for _ in 1..6 {
        let out = answer(&mut driver, attempt, Some(&named(1, false)));
        let number = asked(&out).expect("an attach").attempt;
        let out = driver.node(refused(number, ErrorCode::RoomFull));
        let again = seek(&out);
        assert_eq!(again.2.refused, Some((room(1), "room_full".to_owned())));
        assert_ne!(again.2.request, first.request, "the name of a new room is another one");
        attempt = again.1;
    }
    let out = answer(&mut driver, attempt, Some(&named(1, false)));
    let number = asked(&out).expect("an attach").attempt;
    assert_eq!(error_of(&driver.node(refused(number, ErrorCode::RoomFull))).as_deref(), Some("may_retry"));
    // What the game says is for the client.
    let (_, attempt, _) = seek(&driver.say(1, 0));
    let out = answer(&mut driver, attempt, Some(&named(1, false)));
    let number = asked(&out).expect("an attach").attempt;
    assert_eq!(error_of(&driver.node(refused(number, ErrorCode::Refused))).as_deref(), Some("refused"));
}

#[test]
fn a_coordinator_that_is_stopped_leaves_it_to_the_nodes() {
    let mut driver = driver();
    let (_, attempt, _) = seek(&driver.say(1, 0));
    let out = answer(&mut driver, attempt, Some(&Answer::Nobody));
    assert!(out.iter().any(|effect| matches!(effect, Effect::Find { find: ToNode::Find { .. }, .. })), "{out:?}");
}

fn join_or_create(filter: &[u8], name: Option<&str>) -> Bytes {
    let wanted = Wanted { kind: "arena", region: None, name, filter };
    bytes(&ClientMessage::JoinOrCreate { id: 4, wanted, options: &[0xc0] })
}

fn receive(driver: &mut Driver, message: &Bytes) -> Vec<Effect> {
    let mut rate = driver.rate;
    driver.step(|machine, view, out| {
        machine.receive(view, &mut rate, message, out);
    })
}

#[test]
fn filters_go_to_the_coordinator_and_into_the_room_that_is_made_and_need_one() {
    let filter = duel();
    let mut driver = driver();
    let (_, attempt, asked_for) = seek(&receive(&mut driver, &join_or_create(&filter.encode(), None)));
    assert_eq!(asked_for.filter, filter);
    let out = answer(&mut driver, attempt, Some(&named(1, true)));
    assert_eq!(asked(&out).expect("an attach").metadata, filter.encode());
    let mut bad = Driver::new();
    assert_eq!(error_of(&receive(&mut bad, &join_or_create(&filter.encode(), None))).as_deref(), Some("refused"));
    assert_eq!(error_of(&receive(&mut bad, &join_or_create(&[0x90], None))).as_deref(), Some("bad_payload"));
    let out = receive(&mut bad, &join_or_create(&filter.encode(), Some("r1")));
    assert_eq!(asked(&out).expect("an attach").metadata, filter.encode(), "by name it needs no coordinator");
}

fn rooms(id: u32) -> Bytes {
    let (kind, region, filter) = (Some("arena"), None, &[][..]);
    bytes(&ClientMessage::Rooms { id, kind, region, filter, open: true, after: None, limit: 1_000 })
}

#[test]
fn a_list_is_asked_for_in_any_state_one_at_a_time_and_at_a_bounded_rate() {
    let mut driver = driver();
    // A request for a room is open.
    driver.say(1, 0);
    let (_, attempt, question_of) = question(&receive(&mut driver, &rooms(5))).expect("asked");
    assert!(matches!(question_of, Question::Rooms { limit: 50, open: true, .. }));
    assert_eq!(error_of(&receive(&mut driver, &rooms(6))).as_deref(), Some("bad_state"));
    let summary = |n, metadata: &[u8]| Listed {
        room: room(n),
        seats: 1,
        max_seats: 2,
        metadata: Bytes::copy_from_slice(metadata),
        locked: false,
    };
    let page = Answer::Rooms { rooms: vec![summary(1, &[0x80]), summary(2, b"a text")], next: Some(room(3)) };
    let out = answer(&mut driver, attempt, Some(&page));
    let Some(Effect::Send(sent)) = out.first() else { panic!("{out:?}") };
    match ServerMessages::new(sent, &msgpack::Bounds::SERVER).next() {
        Some(Ok(ServerMessage::Rooms { id: 5, rooms, next })) => {
            assert_eq!((rooms.len(), rooms[0].metadata, rooms[1].metadata), (2, &[0x80][..], &[0xc0][..]));
            assert_eq!(next, Some(room(3)), "the coordinator says how far it looked");
        }
        other => panic!("{other:?}"),
    }
    let refusals: Vec<_> = (10..20)
        .filter_map(|id| {
            let out = receive(&mut driver, &rooms(id));
            if let Some((_, attempt, _)) = question(&out) {
                answer(&mut driver, attempt, Some(&Answer::Rooms { rooms: Vec::new(), next: None }));
            }
            error_of(&out)
        })
        .collect();
    assert!(refusals.len() >= 5 && refusals.iter().all(|code| code == "limit"), "{refusals:?}");
    // Where nobody lists rooms the client is told so.
    driver.world.rules.coordinated.clear();
    driver.world.now += 5_000_000_000;
    assert_eq!(error_of(&receive(&mut driver, &rooms(30))).as_deref(), Some("refused"));
}

#[test]
fn a_room_that_was_named_for_another_is_made_as_it_was_named_and_counts_as_a_create_only_then() {
    let mut driver = driver();
    let metadata: Bytes = duel().encode().into();
    let to_be_made = Answer::Room { room: room(1), make: true, new: false, metadata: metadata.clone() };
    let (mut made, mut limited) = (0, 0);
    // Whatever another account has had named: nobody makes more rooms than he may.
    for _ in 0..CREATES + 3 {
        let (_, attempt, _) = seek(&driver.say(1, 0));
        let out = answer(&mut driver, attempt, Some(&to_be_made));
        let joins = asked(&out).expect("an attach");
        assert_eq!((joins.mode, &joins.metadata), (Mode::Join, &metadata));
        let out = driver.node(refused(joins.attempt, ErrorCode::NoSuchRoom));
        match asked(&out) {
            Some(makes) => {
                made += 1;
                assert_eq!((makes.mode, &makes.room, &makes.metadata), (Mode::JoinOrCreate, &room(1), &metadata));
                driver.node(refused(makes.attempt, ErrorCode::MayRetry));
            }
            None => {
                limited += 1;
                assert_eq!(error_of(&out).as_deref(), Some("limit"));
            }
        }
        driver.world.now += 1_000_000_000;
    }
    assert_eq!((made, limited), (CREATES, 3));
    // It is there after all, or full: no create.
    let (_, attempt, _) = seek(&driver.say(1, 0));
    let out = answer(&mut driver, attempt, Some(&to_be_made));
    let joins = asked(&out).expect("an attach");
    let again = seek(&driver.node(refused(joins.attempt, ErrorCode::RoomFull)));
    assert_eq!(again.2.refused, Some((room(1), "room_full".to_owned())));
}

#[test]
fn a_thousand_requests_for_a_room_are_few_questions() {
    let mut driver = driver();
    let (mut questions, mut refusals) = (0, BTreeMap::new());
    for _ in 0..1_000 {
        let out = driver.say(1, 0);
        if let Some((_, attempt, _)) = question(&out) {
            questions += 1;
            answer(&mut driver, attempt, Some(&Answer::refused(ErrorCode::BadPayload, "no such key".to_owned())));
        }
        *refusals.entry(error_of(&out)).or_insert(0) += 1;
    }
    assert_eq!((questions, refusals.get(&Some("limit".to_owned()))), (10, Some(&990)));
}

#[test]
fn rooms_that_do_not_answer_do_not_make_the_time_for_asking_longer() {
    let mut driver = driver();
    let begun = driver.world.now;
    let (_, mut attempt, _) = seek(&driver.say(1, 0));
    loop {
        let out = answer(&mut driver, attempt, Some(&named(1, false)));
        let number = asked(&out).expect("an attach").attempt;
        // Each takes almost as long as it may.
        driver.world.now += 9_000_000_000;
        let out = driver.node(refused(number, ErrorCode::RoomFull));
        match question(&out) {
            Some((_, next, _)) => attempt = next,
            None => {
                assert_eq!(error_of(&out).as_deref(), Some("may_retry"));
                break;
            }
        }
    }
    assert!(driver.world.now - begun <= 20_000_000_000, "{}", driver.world.now - begun);
}

#[test]
fn a_game_that_says_no_in_a_word_of_its_own_is_heard() {
    let mut driver = driver();
    let (_, attempt, _) = seek(&driver.say(1, 0));
    let out = answer(&mut driver, attempt, Some(&named(1, false)));
    let number = asked(&out).expect("an attach").attempt;
    let word = Some("level_too_low".into());
    let no = match refused(number, ErrorCode::Refused) {
        ToGateway::Refused { conn, attempt, code, message, retry_after, .. } => {
            ToGateway::Refused { conn, attempt, code, word, message, retry_after }
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(error_of(&driver.node(no)).as_deref(), Some("level_too_low"));
}
