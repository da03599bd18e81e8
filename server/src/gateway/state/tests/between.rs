//! A seat between owners, step by step.

use super::*;
use crate::{plugin::RoomBuilder, room::test_room::TestRoom};

#[test]
fn the_owner_is_asked_until_it_answers_each_time_under_another_number() {
    let mut driver = Driver::new();
    driver.enter();
    driver.off();
    let mut attempts = Vec::new();
    let started = driver.world.now;
    for n in 0..6 {
        let attach = asked(&driver.wait()).expect("asked").clone();
        assert_eq!((attach.rejoin, attach.mode, attach.seat), (true, Mode::Join, Some(SeatId(1))));
        assert_eq!(&attach.options[..], [0xc0], "its join record");
        attempts.push(attach.attempt);
        match n {
            // No answer in two seconds.
            0 => {
                let before = driver.world.now;
                assert!(matches!(driver.wait()[..], [Effect::Unexpect]));
                assert_eq!(driver.world.now - before, 2_000_000_000);
            }
            1 => drop(driver.step(|machine, view, out| machine.again(view, attach.attempt, false, out))),
            2 => drop(driver.step(|machine, view, out| machine.not_attached(view, attach.attempt, true, out))),
            3 => drop(driver.node(refused(attach.attempt, ErrorCode::MayRetry))),
            4 => {
                let (conn, attempt, shard, term) = (ConnId(1), attach.attempt, tenure_shared::ShardId(1), Term(0));
                driver.node(ToGateway::NotOwner { conn, attempt, shard, term });
            }
            _ => {}
        }
    }
    let asked_twice = attempts.windows(2).any(|two| two[0] == two[1]);
    assert!(!asked_twice && driver.machine.is_between());
    assert!(driver.world.now - started < 6_000_000_000);
    // An answer to an earlier one is nobody's; that to the last one ends it.
    let out = driver.node(ToGateway::Attached(attached_to(room(0), attempts[0], 2, 9)));
    assert_eq!(detaches(&out), [Generation(2)]);
    let last = *attempts.last().expect("some");
    assert!(driver.node(ToGateway::Attached(attached_to(room(0), last, 3, 9))).is_empty());
    assert!(!driver.machine.is_between());
    assert_eq!(driver.machine.deadline(), None);
}

#[test]
fn somebody_who_can_be_asked_is_asked_soon() {
    let mut driver = Driver::new();
    driver.enter();
    driver.off();
    for _ in 0..9 {
        let attempt = asked(&driver.wait()).expect("asked").attempt;
        driver.step(|machine, view, out| machine.not_attached(view, attempt, false, out));
    }
    driver.step(|machine, view, _| machine.route(view));
    let wait = driver.machine.deadline().expect("a time").0 - driver.world.now;
    assert!(wait <= 20_001_000, "{wait}");
}

#[test]
fn what_the_client_says_meanwhile_is_kept_or_moot() {
    let mut driver = Driver::new();
    driver.enter();
    driver.off();
    assert!(matches!(driver.say(7, 0)[..], [Effect::Input { seq: Seq(1), .. }]));
    assert!(driver.say(11, 0).is_empty(), "a snapshot comes anyway");
    assert!(matches!(driver.say(9, 0)[..], [Effect::Send(_)]));
    assert!(!driver.machine.may_resync());
}

#[test]
fn a_leave_between_owners_is_said_to_the_next_one() {
    let mut driver = Driver::new();
    driver.enter();
    driver.off();
    assert!(driver.say(6, 0).is_empty(), "to nobody");
    let attach = asked(&driver.wait()).expect("asked").clone();
    assert!(attach.rejoin, "nobody was told of the leave");
    let out = driver.node(ToGateway::Attached(attached_to(room(0), attach.attempt, 4, 9)));
    assert_eq!(detaches(&out), [Generation(4)]);
    let out = driver.node(ToGateway::Left { conn: ConnId(1) });
    assert!(out.iter().any(|e| matches!(e, Effect::Ask(Ask::Delete { .. }))));
}

#[test]
fn a_leave_that_a_former_owner_carried_out_is_over_and_joins_nobody_anew() {
    let mut game = TestRoom::new("arena", |room: &mut RoomBuilder| {
        room.tick_rate(20);
    });
    let mut driver = Driver::new();
    let attach = asked(&driver.say(4, 0)).expect("asked").clone();
    let attached = game.world().attach(&attach).expect("a seat");
    let (seat, generation) = (attached.seat, attached.generation);
    driver.node(ToGateway::Attached(attached));
    driver.stored(Stored::Kept { current: "c".to_owned(), next: None });
    assert_eq!(detaches(&driver.say(6, 0)), [generation]);
    assert!(game.world().detach(seat, generation, true));
    game.tick(2);
    // The answer is lost with the owner; the next one goes on from a checkpoint without the seat.
    game.move_now();
    driver.off();
    let attach = asked(&driver.wait()).expect("asked").clone();
    let refusal = game.world().attach(&attach).expect_err("the seat is over");
    assert_eq!((refusal.code, game.world().seats()), (ErrorCode::ResumeFailed, 0));
    let out = driver.node(refused(attach.attempt, refusal.code));
    assert!(out.iter().any(|e| matches!(e, Effect::Ask(Ask::Delete { .. }))), "{out:?}");
    assert!(matches!(driver.stored(Stored::Deleted)[..], [Effect::Send(_)]), "left");
}

#[test]
fn a_leave_that_the_next_owner_has_not_heard_of_is_said_to_it() {
    let mut game = TestRoom::new("arena", |room: &mut RoomBuilder| {
        room.tick_rate(20);
    });
    let mut driver = Driver::new();
    let attach = asked(&driver.say(4, 0)).expect("asked").clone();
    let attached = game.world().attach(&attach).expect("a seat");
    driver.node(ToGateway::Attached(attached));
    driver.stored(Stored::Kept { current: "c".to_owned(), next: None });
    driver.say(6, 0);
    game.move_now();
    driver.off();
    let attach = asked(&driver.wait()).expect("asked").clone();
    let attached = game.world().attach(&attach).expect("it is still there");
    let generation = attached.generation;
    assert_eq!(detaches(&driver.node(ToGateway::Attached(attached))), [generation]);
}

#[test]
fn a_leave_from_a_room_that_is_gone_is_done() {
    let mut driver = Driver::new();
    driver.enter();
    driver.say(6, 0);
    driver.off();
    let attempt = asked(&driver.wait()).expect("asked").attempt;
    let out = driver.node(refused(attempt, ErrorCode::NoSuchRoom));
    assert!(out.iter().any(|e| matches!(e, Effect::Ask(Ask::Delete { .. }))), "the seat is over: {out:?}");
}

#[test]
fn a_leave_does_not_wait_for_ever() {
    let mut driver = Driver::new();
    driver.enter();
    driver.off();
    driver.say(6, 0);
    let started = driver.world.now;
    while driver.machine.is_between() {
        driver.wait();
    }
    assert_eq!(driver.world.now - started, 10_000_000_000);
}

#[test]
fn a_refusal_ends_it_with_the_code_that_fits() {
    for (refusal, expected) in [
        (ErrorCode::NoSuchRoom, CloseCode::RoomEnded),
        (ErrorCode::RoomError, CloseCode::RoomError),
        (ErrorCode::UnknownKind, CloseCode::MayRetry),
        (ErrorCode::Refused, CloseCode::MayRetry),
    ] {
        let mut driver = Driver::new();
        driver.enter();
        driver.off();
        let attempt = asked(&driver.wait()).expect("asked").attempt;
        let out = driver.node(refused(attempt, refusal));
        assert!(out.iter().any(|e| matches!(e, Effect::Close(code, _) if *code == expected)), "{refusal:?}: {out:?}");
        assert_eq!(detaches(&out), [], "nobody has the seat");
        let over = out.iter().any(|e| matches!(e, Effect::Ask(Ask::Delete { .. })));
        assert_eq!(over, expected.ends_seat());
    }
}

#[test]
fn a_node_that_does_not_know_a_seat_is_asked_once_more_and_then_the_client() {
    let mut driver = Driver::new();
    driver.enter();
    let gone = |driver: &mut Driver| driver.step(|machine, view, out| machine.off(view, true, out));
    assert!(gone(&mut driver).is_empty());
    let attempt = asked(&driver.wait()).expect("asked").attempt;
    driver.node(ToGateway::Attached(attached_to(room(0), attempt, 2, 9)));
    let out = gone(&mut driver);
    assert!(matches!(out.last(), Some(Effect::Close(CloseCode::MayRetry, _))), "{out:?}");
}

#[test]
fn a_seat_that_goes_before_joined_is_sent_is_entered_and_taken_again() {
    let mut driver = Driver::new();
    let attempt = driver.join();
    driver.node(ToGateway::Attached(attached_to(room(0), attempt, 1, 9)));
    driver.step(|machine, view, out| machine.off(view, false, out));
    let out = driver.stored(Stored::Kept { current: "c".to_owned(), next: None });
    assert!(matches!(out[..], [Effect::Enter { .. }]));
    assert!(driver.machine.is_between());
    assert!(asked(&driver.wait()).expect("asked").rejoin);
}

#[test]
fn a_seat_with_another_number_keeps_its_session() {
    let mut driver = Driver::new();
    driver.enter();
    driver.off();
    let attempt = asked(&driver.wait()).expect("asked").attempt;
    let attached = Attached { seat: SeatId(9), ..attached_to(room(0), attempt, 1, 9) };
    let out = driver.node(ToGateway::Attached(attached));
    assert!(matches!(&out[..], [Effect::Ask(Ask::Reseat { from: SeatId(1), to: SeatId(9), .. })]), "{out:?}");
    assert!(driver.stored(Stored::Acknowledged).is_empty());
}

#[test]
fn a_first_attach_goes_on_to_the_owner() {
    let mut driver = Driver::new();
    let first = driver.join();
    driver.step(|machine, view, out| machine.again(view, first, true, out));
    // What the first owner says now counts no more.
    assert!(driver.node(refused(first, ErrorCode::RoomFull)).is_empty());
    assert_eq!(detaches(&driver.node(ToGateway::Attached(attached_to(room(0), first, 1, 9)))), [Generation(1)]);
    let second = asked(&driver.wait()).expect("asked").clone();
    assert!(second.attempt != first && !second.rejoin);
    driver.node(ToGateway::Attached(attached_to(room(0), second.attempt, 2, 9)));
    assert!(matches!(driver.machine.phase, Phase::Storing(_)));
}

#[test]
fn a_create_that_may_have_been_carried_out_is_not_tried_again() {
    let mut driver = Driver::new();
    let attempt = asked(&driver.say(3, 0)).expect("asked").attempt;
    let out = driver.step(|machine, view, out| machine.again(view, attempt, true, out));
    assert!(matches!(out[..], [Effect::Forget, Effect::Send(_)]), "{out:?}");
    // One that was not carried out is.
    let attempt = asked(&driver.say(3, 0)).expect("asked").attempt;
    driver.step(|machine, view, out| machine.again(view, attempt, false, out));
    assert_eq!(asked(&driver.wait()).expect("asked").mode, Mode::Create);
}
