//! Tests of the outbox's bookkeeping.

use tenure_shared::PlayerId;

use super::*;

fn room(name: &str) -> RoomId {
    RoomId::from_parts("lab", "eu", name).expect("valid")
}

fn player(name: &str) -> PlayerId {
    PlayerId::new(name).expect("valid")
}

fn entry(position: u64) -> OutboxEntry {
    let (id, source) = (crate::store::GrantId("g".into()), "s".into());
    let (amounts, token) = (std::collections::BTreeMap::new(), bytes::Bytes::new());
    let player = player("p");
    let grant = crate::store::Grant { id, player, source, scheduled_for: None, amounts, cap: None, token };
    OutboxEntry { position, room: room("a"), grant }
}

#[test]
fn an_answer_whose_position_was_trimmed_since_the_page_was_read_is_not_told_again() {
    let outbox = Outbox::default();
    outbox.committed([(room("a"), 1), (room("a"), 2)].into_iter());
    outbox.begin_page();
    // The page with both is on its way when the commit that trims the first is acknowledged.
    outbox.trimmed(&[1]);
    outbox.entries.lock().found(&[entry(1), entry(2)]);
    assert_eq!(outbox.depth(), 1, "what is trimmed does not come back");
    let mut told = Vec::new();
    for position in [1, 2] {
        outbox.unless_trimmed(position, || told.push(position));
    }
    assert_eq!(told, [2]);
    // Of the next page it need not be remembered.
    outbox.begin_page();
    assert!(!outbox.entries.lock().was_trimmed(1));
}

#[test]
fn entries_are_counted_by_room() {
    let outbox = Outbox::default();
    outbox.committed([(room("a"), 1), (room("b"), 2), (room("a"), 4)].into_iter());
    // Read as well as committed: counted once.
    outbox.entries.lock().found(&[entry(1), entry(4)]);
    assert_eq!((outbox.depth(), outbox.depth_of(|of| *of == room("a"))), (3, 2));
    outbox.trimmed(&[1, 4, 4]);
    assert_eq!((outbox.depth(), outbox.depth_of(|of| *of == room("a"))), (1, 0));
    assert_eq!(outbox.entries.lock().next_after(0), 2);
    assert_eq!(outbox.entries.lock().next_after(2), 3);
}

#[test]
fn what_is_put_off_holds_back_its_player_alone() {
    let mut entries = Entries::default();
    entries.put_off(3, Some(player("p")));
    entries.put_off(7, Some(player("p")));
    entries.put_off(5, None);
    assert!(entries.is_put_off(&player("p")) && !entries.is_put_off(&player("q")));
    let mut queues = entries.put_off_queues();
    queues.sort();
    assert_eq!(queues, [vec![3, 7], vec![5]], "in order");
    entries.through(3);
    assert!(entries.is_put_off(&player("p")));
    entries.through(7);
    entries.through(5);
    assert_eq!((entries.is_put_off(&player("p")), entries.put_off_count()), (false, 0));
}
