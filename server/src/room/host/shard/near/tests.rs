//! Tests of the near future.

use bytes::Bytes;

use super::{reading::Cursor, *};

fn item(room: &str, key: &str, due: u64) -> WorkItem {
    let room = RoomId::from_parts("test", "eu", room).expect("valid");
    let id = WorkId { room, job: "job".into(), key: key.into() };
    WorkItem { id, due: Wall(due), attempt: 0, parked: None, payload: Bytes::new() }
}

fn hand(near: &mut Near, now: u64) -> Vec<String> {
    std::iter::from_fn(|| near.hand_out(Wall(now), 64, |_| true)).map(|item| item.id.key.to_string()).collect()
}

/// Everything is read anew, in one page.
fn refill(near: &mut Near, items: Vec<WorkItem>, before: u64) {
    near.reading.whole();
    assert_eq!(near.next_page(Wall(0)), Some(None));
    near.page(items, (Wall(0), Wall(before)), false, |_| true);
}

#[test]
fn an_item_is_handed_out_once_until_its_commit() {
    let mut near = Near::default();
    refill(&mut near, vec![item("a", "1", 10), item("a", "2", 20)], 100);
    assert_eq!(hand(&mut near, 9), Vec::<String>::new(), "never before due");
    assert_eq!(hand(&mut near, 10), ["1"]);
    // The store still has it as pending: it must not come again.
    refill(&mut near, vec![item("a", "1", 10), item("a", "2", 20)], 200);
    assert_eq!(hand(&mut near, 30), ["2"]);
    let room = item("a", "1", 10).id.room;
    near.settle(&room, &Request { completed: vec![item("a", "1", 10).id], ..Request::default() });
    near.give_back(&room, &[]);
    assert_eq!(hand(&mut near, 30), ["2"], "only what is not done comes again");
}

#[test]
fn failed_advanced_and_scheduled_items_come_when_they_are_due() {
    let mut near = Near::default();
    refill(&mut near, vec![item("a", "1", 10), item("a", "2", 10)], 100);
    assert_eq!(hand(&mut near, 10).len(), 2);
    let (one, two) = (item("a", "1", 0).id, item("a", "2", 0).id);
    let request = Request {
        failed: vec![(one.clone(), Wall(50))],
        advanced: vec![(two, Bytes::from_static(b"next"))],
        scheduled: vec![item("a", "3", 60), item("a", "far", 500)],
        ..Request::default()
    };
    near.settle(&one.room, &request);
    assert_eq!(near.next_reading(Wall(9)), Wall(60), "the store must be asked for it by then");
    assert_eq!(near.next_due(Wall(9)), Some(Wall(10)), "a paged decision goes on at once");
    let next = near.hand_out(Wall(10), 64, |_| true).expect("advanced");
    assert_eq!(next.payload, Bytes::from_static(b"next"));
    let again = near.hand_out(Wall(50), 64, |_| true).expect("failed");
    assert_eq!((again.id, again.attempt), (one, 1));
    assert_eq!(hand(&mut near, 1_000), Vec::<String>::new(), "what is scheduled comes from the store alone");
    refill(&mut near, vec![item("a", "3", 60)], 400);
    assert_eq!(hand(&mut near, 1_000), ["3"], "the far future stays in the store");
}

#[test]
fn what_the_store_does_not_have_is_not_handed_out() {
    let mut near = Near::default();
    refill(&mut near, vec![item("shop", "shop", 10)], 100);
    assert_eq!(hand(&mut near, 10), ["shop"]);
    let id = item("shop", "shop", 0).id;
    // The handler schedules its own identity again: the store takes it as done once and for ever.
    let again = vec![item("shop", "shop", 20)];
    let request = Request { completed: vec![id.clone()], scheduled: again.clone(), ..Request::default() };
    near.settle(&id.room, &request);
    assert_eq!(near.next_reading(Wall(9)), Wall(20));
    refill(&mut near, vec![], 100);
    assert_eq!((hand(&mut near, 90), near.len()), (vec![], (0, 0)));
    // So does a game that schedules what is done already.
    let request = Request { scheduled: again, ..Request::default() };
    near.settle(&id.room, &request);
    assert_eq!(hand(&mut near, 90), Vec::<String>::new());
}

#[test]
fn what_a_refused_request_touched_is_read_again() {
    let mut near = Near::default();
    refill(&mut near, vec![item("a", "1", 10), item("a", "2", 10)], 100);
    assert_eq!(hand(&mut near, 10).len(), 2);
    near.doubt(&Request { completed: vec![item("a", "1", 10).id], ..Request::default() });
    assert_eq!(near.len(), (0, 1));
    near.give_back(&item("a", "1", 10).id.room, &[]);
    assert_eq!(hand(&mut near, 10), ["2"], "nobody knows of the other until the store is asked");
    refill(&mut near, vec![item("a", "1", 10)], 100);
    assert_eq!(hand(&mut near, 10), ["1"]);
}

#[test]
fn a_room_holds_a_bounded_number_of_items_and_others_do_not_wait_for_it() {
    let mut near = Near::default();
    let items = (0..10).map(|n| item("a", &n.to_string(), n)).chain([item("b", "x", 20)]).collect();
    refill(&mut near, items, 100);
    let got: Vec<_> = std::iter::from_fn(|| near.hand_out(Wall(50), 3, |_| true)).collect();
    assert_eq!(got.iter().map(|i| &*i.id.key).collect::<Vec<_>>(), ["0", "1", "2", "x"]);
    near.give_back(&got[0].id.room, &[got[1].id.clone()]);
    assert_eq!(near.hand_out(Wall(50), 3, |_| true).map(|i| i.id), Some(got[0].id.clone()));
    assert_eq!(near.len().1, 3, "one kept, one again, one of the other room");
}

#[test]
fn a_deleted_room_has_no_work() {
    let mut near = Near::default();
    refill(&mut near, vec![item("a", "1", 10), item("b", "1", 11), item("a", "2", 12)], 100);
    let first = near.hand_out(Wall(10), 64, |_| true).expect("due");
    near.settle(&first.id.room, &Request { delete: true, ..Request::default() });
    near.give_back(&first.id.room, &[]);
    assert_eq!(near.len(), (1, 0));
}

/// Due items as the store lists them.
#[derive(Default)]
struct Shelf(BTreeMap<(Wall, WorkId), WorkItem>);

impl Shelf {
    fn put(&mut self, item: WorkItem) {
        self.0.insert((item.due, item.id.clone()), item);
    }

    fn due(&self, before: Wall, after: &Cursor, limit: usize) -> Vec<WorkItem> {
        let behind = self.0.iter().filter(|(key, _)| after.as_ref().is_none_or(|after| *key > after));
        behind.map(|(_, item)| item.clone()).filter(|item| item.due <= before).take(limit).collect()
    }

    /// Reads what is to be read now; how many pages.
    fn read(&self, near: &mut Near, now: u64, takes: impl Fn(&WorkId) -> bool) -> usize {
        let mut pages = 0;
        while let Some(after) = near.next_page(Wall(now)) {
            let items = self.due(Wall(now + 1_000), &after, 100);
            let cut = items.len() == 100;
            near.page(items, (Wall(now), Wall(now + 1_000)), cut, &takes);
            pages += 1;
            assert!(pages < 1_000, "it reads in a circle");
            assert!(near.pending.len() <= NEAR_ITEMS, "bounded");
        }
        pages
    }

    fn done(&mut self, near: &mut Near, item: &WorkItem) {
        self.0.remove(&(item.due, item.id.clone()));
        near.settle(&item.id.room, &Request { completed: vec![item.id.clone()], ..Request::default() });
    }
}

#[test]
fn items_that_nobody_can_take_keep_nobody_waiting_and_are_not_kept() {
    let mut shelf = Shelf::default();
    for n in 0..5_000 {
        shelf.put(item("parked", &n.to_string(), n));
        shelf.put(item("busy", &n.to_string(), n));
    }
    shelf.put(item("a", "x", 9_000));
    let takes = |id: &WorkId| id.room.name() != "parked";
    let mut near = Near::default();
    shelf.read(&mut near, 9_500, takes);
    let mut got: Vec<_> = std::iter::from_fn(|| near.hand_out(Wall(9_500), 64, takes)).collect();
    assert_eq!(got.len(), 65);
    assert_eq!(got.pop().map(|item| item.id), Some(item("a", "x", 9_000).id));
    assert!(near.pending.keys().all(|(_, id)| id.room.name() == "busy"));
    assert_eq!(near.len(), (ROOM_AHEAD - 64, 65));
    assert_eq!(near.overdue(Wall(9_500)), ROOM_AHEAD - 64 + 5_000);
    // What was left of the busy room comes when it has done what it has, in order, each once.
    let mut done = Vec::new();
    while let Some(next) = if got.is_empty() { near.hand_out(Wall(9_500), 64, takes) } else { Some(got.remove(0)) } {
        done.push(next.id.key.parse::<u64>().expect("a number"));
        shelf.done(&mut near, &next);
        shelf.read(&mut near, 9_500, takes);
    }
    assert_eq!(done, (0..5_000).collect::<Vec<_>>());
    assert_eq!(near.left.len(), 0);
}

#[test]
fn a_room_that_is_parked_later_leaves_nothing_behind() {
    let mut shelf = Shelf::default();
    (0..500).for_each(|n| shelf.put(item("a", &n.to_string(), n)));
    let mut near = Near::default();
    shelf.read(&mut near, 600, |_| true);
    let held = std::iter::from_fn(|| near.hand_out(Wall(600), 64, |_| true)).count();
    assert_eq!(held, 64);
    near.give_back(&item("a", "", 0).id.room, &[]);
    assert_eq!(near.hand_out(Wall(600), 64, |_| false), None);
    assert_eq!((near.len(), near.left.len(), near.waiting.len(), near.due.len()), ((0, 0), 0, 0, 0));
}

#[test]
fn memory_full_of_later_items_hides_no_earlier_ones() {
    let mut shelf = Shelf::default();
    for n in 0..6_000 {
        shelf.put(item(&format!("r{}", n % 500), &n.to_string(), 1_000 + n / 10));
    }
    let mut near = Near::default();
    shelf.read(&mut near, 900, |_| true);
    assert!(near.len().0 > NEAR_ITEMS / 2, "{:?}", near.len());
    assert!(near.next_reading(Wall(900)) > Wall(900), "it waits for room");
    // Scheduled while memory is full, due before all of it; a room with its fill of later items is no exception.
    let soon = item("r0", "soon", 950);
    near.settle(&soon.id.room, &Request { scheduled: vec![soon.clone()], ..Request::default() });
    shelf.put(soon);
    assert_eq!(near.next_reading(Wall(900)), Wall(950));
    shelf.read(&mut near, 950, |_| true);
    assert_eq!(hand(&mut near, 950), ["soon"]);
    // Everything comes in the end, when its time has come.
    let mut came = 0;
    for now in 951..1_700 {
        shelf.read(&mut near, now, |_| true);
        while let Some(next) = near.hand_out(Wall(now), 64, |_| true) {
            assert!(next.due <= Wall(now) && next.due >= Wall(now.saturating_sub(1)), "{:?} at {now}", next.due);
            came += 1;
            shelf.done(&mut near, &next);
        }
    }
    assert_eq!(came, 6_000);
}

#[test]
fn a_page_of_one_moment_is_read_on() {
    let mut shelf = Shelf::default();
    (0..350).for_each(|n| shelf.put(item(&format!("r{}", n % 7), &n.to_string(), 20)));
    let mut near = Near::default();
    assert_eq!(shelf.read(&mut near, 30, |_| true), 4);
    assert_eq!(hand(&mut near, 30).len(), 350);
    assert!(near.next_reading(Wall(30)) > Wall(30));
}

#[test]
fn a_page_that_failed_is_read_again_after_a_pause() {
    let mut near = Near::default();
    assert_eq!(near.next_page(Wall(5)), Some(None));
    near.not_read(Wall(5));
    assert_eq!(near.next_page(Wall(6)), None);
    assert_eq!(near.next_page(near.next_reading(Wall(6))), Some(None));
}
