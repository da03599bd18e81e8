//! What a player was given and not shown: he is shown it once when he comes back, whatever moves or crashes (H8).

use std::time::Duration;

use tenure::{
    plugin::Audience,
    test::{Fate, TestRoom, TestSeat},
};

use crate::game;

/// Six gold for everybody, of which the answer comes when this player has just gone.
fn answer_comes_when_gone(room: &mut TestRoom, player: TestSeat) {
    room.fate(Fate::Unheard);
    room.reward_for("unhooked", &[("gold", 6)], Audience::AllKnown);
    room.tick(4);
    room.leave(player);
    room.fate(Fate::Normal);
    room.tick(4);
}

/// H8: what a player was given while he was away is in his ledger; he is shown it when he is back, and shown it once.
#[test]
fn what_was_given_to_a_player_who_was_away_is_shown_when_he_is_back() {
    let mut room = TestRoom::new("farm", game);
    let (ada, bob) = (room.join("ada"), room.join("bob"));
    room.tick(1);
    let all = |room: &mut TestRoom, amount: i64| {
        room.reward_for("unhooked", &[("gold", amount)], Audience::AllKnown);
        room.tick(4);
    };
    let shown = |room: &mut TestRoom, seat: TestSeat| {
        room.tick(4);
        let amounts = room.granted(seat).into_iter().flat_map(|(_, given)| given);
        amounts.map(|(_, amount)| amount).collect::<Vec<_>>()
    };
    all(&mut room, 1);
    assert_eq!((shown(&mut room, ada), shown(&mut room, bob)), (vec![1], vec![1]));

    // A lost socket, and back within the grace.
    room.drop_socket(ada);
    all(&mut room, 2);
    room.reconnect(ada);
    assert_eq!((shown(&mut room, ada), shown(&mut room, bob)), (vec![2], vec![2]));

    // Left for good, while the room is lost in between.
    room.leave(ada);
    all(&mut room, 3);
    room.advance(Duration::from_secs(60));
    room.crash();
    all(&mut room, 4);
    let ada = room.join("ada");
    assert_eq!(shown(&mut room, ada), [3, 4]);
    all(&mut room, 5);
    assert_eq!(shown(&mut room, ada), [5]);

    // The answer comes when he has just gone.
    answer_comes_when_gone(&mut room, ada);
    let ada = room.join("ada");
    assert_eq!(shown(&mut room, ada), [6]);

    // Another tab takes the seat: nothing was missed.
    let other = room.join("ada");
    assert_eq!((shown(&mut room, other), shown(&mut room, ada)), (vec![], vec![]));
    assert_eq!((room.balance("ada", "gold"), room.balance("bob", "gold")), (21, 21));
}

/// A socket that is lost may not have passed on what it was told: a gateway that cannot store a session gives the seat up with all that it
/// held back. A client that comes back by its seat says what it was shown; one that begins anew is shown it again.
#[test]
fn what_was_told_to_a_socket_that_is_lost_is_shown_again_unless_it_came_through() {
    let mut room = TestRoom::new("farm", game);
    let ada = room.join("ada");
    room.tick(1);
    let shown = |room: &mut TestRoom, seat: TestSeat| {
        room.tick(4);
        let amounts = room.granted(seat).into_iter().flat_map(|(_, given)| given);
        amounts.map(|(_, amount)| amount).collect::<Vec<_>>()
    };
    room.leave(ada);
    room.reward_for("unhooked", &[("gold", 1)], Audience::AllKnown);
    room.tick(4);
    // Shown to a socket that nobody is behind.
    let nobody = room.join("ada");
    assert_eq!(shown(&mut room, nobody), [1]);
    room.drop_socket(nobody);
    let ada = room.join("ada");
    assert_eq!(shown(&mut room, ada), [1]);
    room.drop_socket(ada);
    room.tick(1);
    room.move_now();
    room.reconnect(ada);
    assert_eq!(shown(&mut room, ada), Vec::<i64>::new(), "it says that it was shown it");
    // By then a gateway has long passed it on, or given up.
    room.advance(Duration::from_secs(6));
    room.drop_socket(ada);
    let ada = room.join("ada");
    assert_eq!(shown(&mut room, ada), Vec::<i64>::new());
    room.leave(ada);
    room.tick(1);
    let ada = room.join("ada");
    assert_eq!(shown(&mut room, ada), Vec::<i64>::new(), "who leaves was shown everything before");
    assert_eq!(room.balance("ada", "gold"), 1);
}

/// A grant that the ledger took while its player was there, whose answer finds him gone, and the room moves, or is lost, before he is back.
#[test]
fn an_answer_that_found_its_player_gone_is_shown_to_him_by_the_next_owner() {
    for lost in [false, true] {
        let mut room = TestRoom::new("farm", game);
        let (ada, bob) = (room.join("ada"), room.join("bob"));
        room.tick(1);
        answer_comes_when_gone(&mut room, ada);
        for _ in 0..2 {
            if lost {
                room.crash();
            } else {
                room.move_now();
            }
            room.tick(2);
        }
        let ada = room.join("ada");
        room.tick(4);
        let six = || vec![("unhooked".to_owned(), vec![("gold".to_owned(), 6)])];
        assert_eq!((room.granted(ada), room.granted(bob)), (six(), six()), "lost: {lost}");
        room.move_now();
        room.tick(4);
        assert_eq!((room.granted(ada), room.granted(bob)), (vec![], vec![]), "and once");
    }
}
