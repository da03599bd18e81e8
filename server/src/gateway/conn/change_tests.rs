//! A seat that changes hands, as its connection sees it.

use tenure_shared::wire::{Space, TableRow};

use super::*;

/// Asks the node of this link, and gives what was asked.
fn ask_again(conn: &Conn, link: &Arc<Link>, attempt: u32) -> Attach {
    let mut attach = asks(room(), attempt, (0, 0));
    conn.lock().expect(link, 16, &mut attach, true);
    attach
}

fn again(term: u64, tick: u64, attempt: u32, owed: u64, rolled_back: bool) -> Attached {
    let (generation, snapshot) = (Generation(attempt), snapshot(term, tick));
    Attached { attempt, generation, owed: Seq(owed), rolled_back, snapshot, ..attached(term, tick) }
}

#[tokio::test]
async fn a_seat_that_changes_hands_says_what_it_has_and_shows_nothing_of_its_former_owner() {
    let (conn, theirs) = playing();
    conn.lock().off(1, None, Off::Broken);
    assert!(matches!(conn.lock().take_note(), Some(Note::Attached(..))));
    assert!(matches!(conn.lock().take_note(), Some(Note::Off { gone: false })));
    assert_eq!(give(&conn, 5, 12, &tail(1)), Shown::Stale, "nobody has it");
    let next = link(2);
    let attach = ask_again(&conn, &next, 2);
    assert_eq!((attach.first, attach.shown, attach.generation), (Seq(2), (Term(5), Tick(11)), Generation(1)));
    assert!(matches!(take(&conn, &only(), again(6, 8, 2, 3, true)), Taken::No(_)), "not who was asked");
    assert!(matches!(take(&conn, &next, again(6, 8, 2, 3, true)), Taken::Yes));
    assert!(matches!(conn.lock().take_note(), Some(Note::Attached(..))));
    let waiting = conn.lock().seat.as_ref().and_then(|seat| seat.ring.waiting().map(|e| e.seq));
    assert_eq!(waiting, Some(Seq(3)));
    assert_eq!(give(&conn, 7, 1, &tail(2)), Shown::Stale, "of the former link, whatever it says");
    let late = conn.lock().restored(Mono(0), 1, &room(), (Term(7), Tick(1)), &restored_member(9, 1, snapshot(7, 1)));
    assert_eq!(late, Shown::Gone);
    let (frame, member) = frame(6, 9, &tail(3));
    assert_eq!(conn.lock().frame(Mono(0), 2, &frame, member, false), Shown::Yes);
    let words = seen(theirs, conn).await;
    let expected = ["joined", "snapshot 5.10", "frame 5.11", "rolled back 6.8", "snapshot 6.8", "frame 6.9", "tail 3"];
    assert_eq!(words, expected);
}

#[test]
fn an_owner_that_is_behind_is_not_shown_and_asked_again() {
    let (conn, _theirs) = playing();
    conn.lock().off(1, Some(room().shard(16)), Off::Moved(Term(5)));
    let next = link(2);
    ask_again(&conn, &next, 2);
    assert!(matches!(take(&conn, &next, again(4, 99, 2, 2, false)), Taken::Behind(_, Some(Term(5)))));
    let notes: Vec<_> = std::iter::from_fn(|| conn.lock().take_note()).collect();
    assert!(matches!(notes[..], [_, Note::Off { .. }, Note::Behind { attempt: 2 }]), "{notes:?}");
    assert!(!conn.lock().is_on(2));
    assert!(next.seats.shards().is_empty());
    ask_again(&conn, &next, 3);
    assert!(matches!(take(&conn, &next, again(6, 1, 3, 2, false)), Taken::Yes));
}

#[test]
fn what_says_nothing_of_the_attachment_leaves_it_where_it_is() {
    let (conn, _theirs) = playing();
    let other = tenure_shared::ShardId((room().shard(16).0 + 1) % 16);
    conn.lock().off(2, None, Off::Broken);
    conn.lock().off(1, Some(other), Off::Moved(Term(0)));
    conn.lock().off(1, None, Off::Moved(Term(4)));
    conn.lock().off(1, None, Off::Newer(Term(5)));
    conn.lock().gone(1, &room(), SeatId(2), Generation(1));
    conn.lock().gone(1, &room(), SeatId(1), Generation(3));
    assert!(conn.lock().is_on(1));
    conn.lock().off(1, None, Off::Newer(Term(6)));
    assert!(!conn.lock().is_on(1));
}

#[test]
fn an_attach_that_is_on_its_way_over_a_link_that_breaks_is_lost() {
    let (conn, _theirs) = connection();
    let first = link(7);
    conn.lock().expect(&first, 16, &mut asks(room(), 1, (0, 0)), false);
    assert_eq!(first.seats.conns(None), [ConnId(1)]);
    conn.lock().off(7, None, Off::Broken);
    assert!(matches!(conn.lock().take_note(), Some(Note::Again { attempt: 1, lost: true })));
    assert!(matches!(take(&conn, &first, attached(5, 10)), Taken::No(_)));
    assert_eq!(first.seats.conns(None), []);
}

#[tokio::test]
async fn each_table_that_was_told_is_answered_in_turn() {
    let (conn, _theirs) = playing();
    let row = |number: u16, name: &str| TableRow {
        space: Space::Message,
        number,
        name: name.to_owned(),
        version: 1,
        fields: None,
    };
    let table = |rows: &[(u16, &str)]| Some(Arc::new(rows.iter().map(|(n, name)| row(*n, name)).collect::<Vec<_>>()));
    let tables = Tables::default();
    tables.learn(0, table(&[(0, "steer"), (1, "say")]).as_ref());
    // Two builds take the room one after the other before the client has answered the first.
    let builds = [(2, 77, table(&[(0, "say"), (1, "steer")])), (3, 78, table(&[(5, "steer"), (6, "say")]))];
    for (attempt, hash, table) in builds {
        let next = link(attempt);
        ask_again(&conn, &next, attempt as u32);
        let answer = Attached { hash, table, ..again(5 + attempt, 1, attempt as u32, 5, false) };
        assert!(matches!(conn.attached(Mono(0), &next, &tables, answer), Taken::Yes));
    }
    let mut inner = conn.lock();
    let seat = inner.seat.as_mut().expect("a seat");
    let kinds = |seat: &Seat| [seat.kind(false, 0), seat.kind(false, 1)];
    assert_eq!(kinds(seat), [5, 6], "by the first table until it answers");
    assert!(seat.speaks(77));
    assert_eq!(kinds(seat), [6, 5], "by the second, of which the room is past");
    assert!(seat.speaks(78));
    assert_eq!(kinds(seat), [0, 1], "by the room's");
    assert!(!seat.speaks(99), "nobody told it of that");
}
