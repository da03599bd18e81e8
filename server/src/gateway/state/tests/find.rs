//! Which room: the nodes that are asked, and what counts as a create.

use super::*;

/// The node that is asked, the number of the question, and whether a new room may be named.
fn question(out: &[Effect]) -> Option<(String, u32, bool)> {
    out.iter().find_map(|effect| match effect {
        Effect::Find { to, find: ToNode::Find { attempt, make, .. } } => Some((to.to_string(), *attempt, *make)),
        _ => None,
    })
}

fn found(driver: &mut Driver, attempt: u32, room: Option<RoomId>, new: bool) -> Vec<Effect> {
    driver.node(ToGateway::Found { conn: ConnId(1), attempt, room, new })
}

#[test]
fn nodes_are_asked_in_turn_and_then_the_first_for_a_new_room() {
    let mut driver = Driver::new();
    let (first, one, make) = question(&driver.say(1, 0)).expect("asked");
    assert!(!make);
    let (second, two, make) = question(&found(&mut driver, one, None, false)).expect("asked");
    assert!(!make && second != first);
    assert!(found(&mut driver, one, Some(room(1)), false).is_empty(), "late");
    let (again, three, make) = question(&found(&mut driver, two, None, false)).expect("asked");
    assert!(make && again == first);
    let out = found(&mut driver, three, Some(room(1)), true);
    assert_eq!(asked(&out).map(|attach| attach.mode), Some(Mode::JoinOrCreate));
}

#[test]
fn a_node_that_does_not_answer_is_passed_over() {
    let mut driver = Driver::new();
    let (first, ..) = question(&driver.say(1, 0)).expect("asked");
    let started = driver.world.now;
    let (second, two, _) = question(&driver.wait()).expect("asked");
    assert_eq!((driver.world.now - started, second != first), (500_000_000, true));
    // One that takes no question is asked again within its time.
    driver.step(|machine, view, _| machine.not_asked(view, two));
    let mut asked_again = 0;
    let next = loop {
        let (to, attempt, make) = question(&driver.wait()).expect("asked");
        if to != second {
            break make;
        }
        asked_again += 1;
        driver.step(|machine, view, _| machine.not_asked(view, attempt));
    };
    assert!(next && (10..30).contains(&asked_again), "{asked_again}");
    // Nobody names a room: its name is made here.
    let out = driver.wait();
    assert_eq!(asked(&out).map(|attach| attach.mode), Some(Mode::Create));
}

#[test]
fn only_a_room_that_is_new_counts_as_a_create() {
    let mut driver = Driver::new();
    driver.world.creates = Creates::new(1);
    for (new, enters) in [(false, true), (true, true), (false, true), (true, false)] {
        let (_, attempt, _) = question(&driver.say(1, 0)).expect("asked");
        let out = found(&mut driver, attempt, Some(room(1)), new);
        assert_eq!(asked(&out).is_some(), enters, "{new}: {out:?}");
        if let Some(attempt) = asked(&out).map(|attach| attach.attempt) {
            driver.node(refused(attempt, ErrorCode::Refused));
        }
    }
    assert!(matches!(driver.machine.phase, Phase::Lobby));
}

#[test]
fn a_room_of_another_kind_is_not_what_was_looked_for() {
    let mut driver = Driver::new();
    let (_, attempt, _) = question(&driver.say(1, 0)).expect("asked");
    let other = RoomId::new("chess/eu/a").expect("id");
    assert!(question(&found(&mut driver, attempt, Some(other), false)).is_some(), "the next is asked");
}
