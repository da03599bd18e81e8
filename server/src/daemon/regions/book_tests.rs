//! What players are told, and what must not happen whatever rooms and nodes say.

use std::time::Duration;

use proptest::prelude::*;
use tenure_shared::{Scalar, limits};

use super::*;

fn book() -> Book {
    let rule = |max_seats, private, filter: &[&str]| Rule {
        max_seats,
        private,
        filter: filter.iter().map(|key| Arc::from(*key)).collect(),
    };
    let rules = [("arena", rule(3, false, &["mode", "map"])), ("hall", rule(2, true, &[]))];
    Book::new("eu", Arc::new(rules.into_iter().map(|(name, rule)| (name.to_owned(), rule)).collect()))
}

fn player(n: u32) -> PlayerId {
    PlayerId::new(&format!("p{n}")).expect("valid")
}

fn room(name: &str) -> RoomId {
    RoomId::from_parts("arena", "eu", name).expect("valid")
}

fn mode(value: &str) -> Filter {
    [("mode".to_owned(), Scalar::Text(value.to_owned()))].into_iter().collect()
}

fn summary(name: &str, seats: u32) -> RoomSummary {
    let metadata = Bytes::new();
    RoomSummary { room: room(name), seats, max_seats: 3, metadata, dormant: false, private: false, locked: false }
}

fn news(summary: RoomSummary, term: u64, comings: &[(u32, bool)]) -> RoomNews {
    let comings = comings.iter().map(|(n, stays)| (player(*n), *stays)).collect();
    RoomNews { room: summary.room.clone(), term: Term(term), now: Some(summary), stored: true, comings }
}

fn wish(n: u32) -> Seek {
    let (kind, filter) = ("arena".to_owned(), Filter::default());
    Seek { player: player(n), kind, filter, request: u64::from(n), refused: None }
}

fn told(answer: Answer) -> (RoomId, bool, bool) {
    match answer {
        Answer::Room { room, make, new, .. } => (room, make, new),
        other => panic!("{other:?}"),
    }
}

fn second(n: u64) -> Mono {
    Mono(n * 1_000_000_000)
}

#[test]
fn players_who_come_at_once_fill_one_room_after_another_before_any_is_made() {
    let mut book = book();
    let mut sent: BTreeMap<RoomId, Vec<(bool, bool)>> = BTreeMap::new();
    for n in 0..12 {
        let (room, make, new) = told(book.seek(wish(n), Mono(0)));
        sent.entry(room).or_default().push((make, new));
    }
    // Whoever is sent to a room that is not there yet may have to make it, and it was named for one of them.
    let rooms: Vec<_> = sent.values().cloned().collect();
    assert_eq!(rooms, vec![vec![(true, true), (true, false), (true, false)]; 4]);
}

#[test]
fn two_are_not_sent_to_the_last_seat_and_one_who_does_not_come_gives_it_back() {
    let mut book = book();
    book.note(news(summary("a", 2), 5, &[]), Mono(0));
    assert_eq!(told(book.seek(wish(1), Mono(0))), (room("a"), false, false));
    let (other, ..) = told(book.seek(wish(2), Mono(0)));
    assert_ne!(other, room("a"));
    let later = Mono(0).plus(KEEP_FOR);
    assert_eq!(told(book.seek(wish(3), later)).0, room("a"), "the first one did not come");
    // The room says who came: his seat is not counted twice.
    book.note(news(summary("b", 2), 5, &[]), later);
    assert_eq!(
        told(book.seek(wish(4), later)).0,
        room("b"),
        "a is full, and the one that was named for 2 was never made"
    );
    book.note(news(RoomSummary { max_seats: 4, ..summary("b", 3) }, 5, &[(4, true)]), later);
    assert_eq!(told(book.seek(wish(5), later)).0, room("b"));
}

#[test]
fn who_asks_twice_has_one_ticket() {
    // C52: queue, cut the link, queue again.
    let mut book = book();
    let first = told(book.seek(wish(1), second(0)));
    let again = told(book.seek(Seek { request: 99, ..wish(1) }, second(1)));
    assert_eq!((&again.0, again.1, again.2), (&first.0, true, false), "the same room, which may not be made yet");
    let kept = |book: &Book| book.rooms.values().map(|entry| entry.kept).sum::<u32>();
    assert_eq!(kept(&book), 1);
    // He has a seat: asked again he is told of it, and it is not kept a second time.
    let there = RoomSummary { room: first.0.clone(), ..summary("x", 1) };
    book.note(news(there.clone(), 5, &[(1, true)]), second(2));
    assert_eq!(told(book.seek(Seek { request: 100, ..wish(1) }, second(3))), (first.0.clone(), false, false));
    assert_eq!(kept(&book), 0);
    // A room that locks keeps its players and takes no others.
    book.note(news(RoomSummary { locked: true, ..there.clone() }, 5, &[]), second(3));
    assert_eq!(told(book.seek(wish(1), second(3))).0, first.0);
    assert_ne!(told(book.seek(wish(2), second(3))).0, first.0);
    // The match is over: a rematch is another room.
    book.note(RoomNews { now: None, ..news(there, 5, &[]) }, second(4));
    assert_ne!(told(book.seek(Seek { request: 101, ..wish(1) }, second(4))).0, first.0);
    // Another wish takes the place of the former.
    let duel = told(book.seek(Seek { filter: mode("duel"), ..wish(1) }, second(5)));
    assert!(duel.2);
    assert_eq!(book.tickets.len(), 2);
}

#[test]
fn a_player_who_left_is_not_held_to_his_former_room() {
    let mut book = book();
    book.note(news(summary("a", 1), 5, &[]), Mono(0));
    assert_eq!(told(book.seek(wish(1), Mono(0))).0, room("a"));
    book.note(news(summary("a", 2), 5, &[(1, true)]), Mono(0));
    book.note(news(summary("b", 2), 5, &[]), Mono(0));
    book.note(news(summary("a", 1), 5, &[(1, false)]), Mono(0));
    assert_eq!(told(book.seek(wish(1), Mono(0))).0, room("b"), "the fuller one");
}

#[test]
fn a_request_names_the_same_room_whoever_is_asked() {
    let named = |request| told(book().seek(Seek { request, ..wish(1) }, Mono(0))).0;
    assert_eq!(named(7), named(7), "another coordinator, after a move");
    assert_ne!(named(7), named(8));
    // It was made before the coordinator came here: it is joined, not made again.
    let mut next = book();
    let there = RoomSummary { room: named(7), locked: true, ..summary("x", 1) };
    next.read(|_| true, Mono(0), vec![there]);
    assert_eq!(told(next.seek(Seek { request: 7, ..wish(1) }, Mono(0))), (named(7), false, false));
}

#[test]
fn filters_name_what_the_kind_allows_and_new_rooms_are_of_the_kind_that_was_asked_for() {
    let mut book = book();
    let by = |n, filter: Filter| Seek { filter, ..wish(n) };
    let duel = told(book.seek(by(1, mode("duel")), Mono(0)));
    assert_ne!(told(book.seek(by(2, mode("team")), Mono(0))).0, duel.0);
    assert_eq!(told(book.seek(by(3, mode("duel")), Mono(0))).0, duel.0);
    assert!(told(book.seek(by(4, Filter::default()), Mono(0))).1, "without a wish any will do");
    // What the game says of its room counts.
    let metadata: Filter =
        [("mode", "ffa"), ("map", "cave")].map(|(k, v)| (k.into(), Scalar::Text(v.into()))).into_iter().collect();
    book.note(news(RoomSummary { metadata: metadata.encode().into(), ..summary("c", 1) }, 5, &[]), Mono(0));
    assert_eq!(told(book.seek(by(5, mode("ffa")), Mono(0))).0, room("c"));
    let bad: Filter = [("level".to_owned(), Scalar::Int(1))].into_iter().collect();
    match book.seek(by(6, bad), Mono(0)) {
        Answer::Refused { code, .. } => assert_eq!(code, "bad_payload"),
        other => panic!("{other:?}"),
    }
    match book.seek(Seek { kind: "chess".into(), ..wish(6) }, Mono(0)) {
        Answer::Refused { code, .. } => assert_eq!(code, "unknown_kind"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn private_rooms_are_for_whom_they_were_named() {
    let mut book = book();
    let hall = |n| Seek { kind: "hall".into(), ..wish(n) };
    let (mine, ..) = told(book.seek(hall(1), Mono(0)));
    assert_ne!(told(book.seek(hall(2), Mono(0))).0, mine);
    assert_eq!(told(book.seek(hall(1), Mono(0))).0, mine);
}

#[test]
fn a_room_without_a_seat_after_all_is_passed_over_until_it_says_something_new() {
    let mut book = book();
    book.note(news(summary("a", 2), 5, &[]), Mono(0));
    book.note(news(summary("b", 0), 5, &[]), Mono(0));
    assert_eq!(told(book.seek(wish(1), Mono(0))).0, room("a"));
    let refused = Some((room("a"), "room_full".to_owned()));
    assert_eq!(told(book.seek(Seek { refused, ..wish(1) }, Mono(0))).0, room("b"));
    assert_eq!(told(book.seek(wish(2), Mono(0))).0, room("b"), "nor is anybody else sent there");
    book.note(news(summary("a", 2), 5, &[]), Mono(0));
    assert_eq!(told(book.seek(wish(3), Mono(0))).0, room("a"), "it says that it has one");
    // One that is gone is forgotten.
    let gone = Some((room("a"), "no_such_room".to_owned()));
    assert_eq!(told(book.seek(Seek { refused: gone, ..wish(3) }, second(2))).0, room("b"));
    assert!(!book.rooms.contains_key(&room("a")));
}

#[test]
fn the_later_owner_is_right_and_the_store_tells_of_rooms_that_nobody_speaks_of() {
    let mut book = book();
    book.read(|_| true, second(1), vec![summary("a", 1), summary("b", 3)]);
    book.note(news(summary("a", 3), 7, &[]), second(2));
    book.note(news(summary("a", 0), 6, &[]), second(3));
    assert_eq!(book.rooms[&room("a")].summary.seats, 3, "of a former owner, late");
    book.read(|_| true, second(4), vec![summary("a", 0)]);
    assert_eq!(book.rooms[&room("a")].summary.seats, 3, "a checkpoint is older than what the owner says");
    assert!(!book.rooms.contains_key(&room("b")), "the store has it no more");
    // What was named while the shard was read is not taken for gone.
    let (named, ..) = told(book.seek(wish(1), second(6)));
    book.read(|_| true, second(5), Vec::new());
    assert!(book.rooms.contains_key(&named) && !book.rooms.contains_key(&room("a")));
}

#[test]
fn lists_leave_out_what_is_private_or_not_there_yet_page_by_page() {
    let mut book = book();
    for (name, seats) in [("a", 3), ("b", 1), ("c", 0)] {
        book.note(news(summary(name, seats), 5, &[]), Mono(0));
    }
    book.note(news(RoomSummary { private: true, ..summary("d", 0) }, 5, &[]), Mono(0));
    book.note(news(RoomSummary { locked: true, ..summary("e", 0) }, 5, &[]), Mono(0));
    book.seek(Seek { filter: mode("duel"), ..wish(1) }, Mono(0));
    let names =
        |book: &Book, open, after, limit| match book.list(Some("arena"), (&Filter::default(), open), after, limit) {
            Answer::Rooms { rooms, next } => {
                let names = rooms.iter().map(|room| room.room.name().to_owned());
                (names.collect::<Vec<_>>().join(""), next.is_some())
            }
            other => panic!("{other:?}"),
        };
    assert_eq!(names(&book, false, None, 10), ("abce".to_owned(), false));
    assert_eq!(names(&book, true, None, 10), ("bc".to_owned(), false));
    assert_eq!(names(&book, false, None, 2), ("ab".to_owned(), true));
    assert_eq!(names(&book, false, Some(room("b")), 2), ("ce".to_owned(), false));
    assert!(
        matches!(book.list(Some("hall"), (&Filter::default(), false), None, 9), Answer::Rooms { rooms, .. } if rooms.is_empty())
    );
    assert!(
        matches!(book.list(None, (&mode("duel"), false), None, 9), Answer::Rooms { rooms, .. } if rooms.is_empty())
    );
    // A page fits into a message, however much the games say of their rooms.
    for n in 0..100 {
        let metadata = vec![0xc0; limits::METADATA_BYTES].into();
        book.note(news(RoomSummary { metadata, ..summary(&format!("x{n}"), 1) }, 5, &[]), Mono(0));
    }
    let page = book.list(None, (&Filter::default(), false), None, 1_000);
    assert!(crate::link::lobby::encode(&page).is_ok());
}

#[test]
fn a_page_looks_at_a_bounded_number_of_rooms_and_the_next_one_goes_on() {
    let mut book = book();
    let about = |text: &str| Filter::from_iter([("about".to_owned(), Scalar::Text(text.to_owned()))]);
    for n in 0..5_000 {
        let metadata = about(if n == 4_999 { "it" } else { "another" }).encode().into();
        book.note(news(RoomSummary { metadata, ..summary(&format!("r{n:05}"), 1) }, 5, &[]), Mono(0));
    }
    let (mut after, mut pages) = (None, Vec::new());
    loop {
        match book.list(Some("arena"), (&about("it"), false), after, 50) {
            Answer::Rooms { rooms, next } => {
                pages.push(rooms.len());
                after = next;
            }
            other => panic!("{other:?}"),
        }
        if after.is_none() {
            break;
        }
    }
    assert_eq!(pages, [0, 0, 1], "some two thousand rooms are read for a page");
    // What a kind has declared is at hand: no page is empty for it.
    let page = book.list(Some("arena"), (&mode("duel"), false), None, 50);
    assert_eq!(page, Answer::Rooms { rooms: Vec::new(), next: None });
}

#[test]
fn whoever_comes_first_makes_the_room_that_was_named_and_not_another() {
    let mut book = book();
    let metadata = |answer| match answer {
        Answer::Room { room, make: true, metadata, .. } => (room, metadata),
        other => panic!("{other:?}"),
    };
    let named = metadata(book.seek(Seek { filter: mode("duel"), ..wish(1) }, Mono(0)));
    assert_eq!(named.1, mode("duel").encode());
    // Any room will do for him; the first one may have cut his socket.
    assert_eq!(metadata(book.seek(wish(2), Mono(0))), named);
    assert_eq!(metadata(book.seek(wish(2), Mono(0))), named, "asked again");
}

#[test]
fn tickets_end_also_where_nobody_asks() {
    let mut book = book();
    book.seek(wish(1), Mono(0));
    assert_eq!(book.size(), (1, 1));
    book.read(|_| false, Mono(0).plus(KEEP_FOR), Vec::new());
    assert_eq!(book.size(), (0, 0), "nobody is on the way to make the room any more");
}

/// What happens to a book.
#[derive(Clone, Debug)]
enum Event {
    Seek(u32, u8, bool),
    Note(u8, u32, u32, Option<(u32, bool)>, u8),
    Gone(u8, u32),
    Read(Vec<(u8, u32)>),
    Wait(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (0..8_u32, 0..3_u8, any::<bool>()).prop_map(|(n, mode, refused)| Event::Seek(n, mode, refused)),
        4 => (0..4_u8, 1..4_u32, 0..5_u32, prop::option::of((0..8_u32, any::<bool>())), 0..4_u8)
            .prop_map(|(room, term, seats, coming, how)| Event::Note(room, term, seats, coming, how)),
        1 => (0..4_u8, 1..4_u32).prop_map(|(room, term)| Event::Gone(room, term)),
        1 => prop::collection::vec((0..4_u8, 0..4_u32), 0..4).prop_map(Event::Read),
        1 => (0..15_u64).prop_map(Event::Wait),
    ]
}

proptest! {
    #[test]
    fn whatever_is_said_seats_are_kept_once_each_and_lists_are_what_rooms_are(events in prop::collection::vec(event(), 1..120)) {
        let mut book = book();
        let (mut now, mut last): (u64, Option<RoomId>) = (1, None);
        for event in events {
            now += 1;
            let name = |n: u8| format!("r{n}");
            match event {
                Event::Seek(n, which, refused) => {
                    let filter = match which { 0 => Filter::default(), 1 => mode("duel"), _ => mode("team") };
                    let refused = last.clone().filter(|_| refused).map(|room| (room, "room_full".to_owned()));
                    let not = refused.as_ref().map(|(room, _)| room.clone());
                    let (room, ..) = told(book.seek(Seek { filter: filter.clone(), request: now, refused, ..wish(n) }, second(now)));
                    prop_assert_ne!(Some(&room), not.as_ref());
                    let entry = &book.rooms[&room];
                    let ticket = &book.tickets[&(player(n), "arena".to_owned())];
                    prop_assert_eq!(&ticket.room, &room);
                    if ticket.kept {
                        prop_assert!(!entry.summary.locked && entry.kept > 0);
                    }
                    last = Some(room);
                }
                Event::Note(n, term, seats, coming, how) => {
                    let metadata = if how == 1 { mode("duel").encode().into() } else { Bytes::new() };
                    let said = RoomSummary { locked: how == 2, private: how == 3, metadata, ..summary(&name(n), seats) };
                    let coming: Vec<_> = coming.into_iter().collect();
                    book.note(news(said, u64::from(term), &coming), second(now));
                }
                Event::Gone(n, term) => {
                    book.note(RoomNews { now: None, ..news(summary(&name(n), 0), u64::from(term), &[]) }, second(now));
                }
                Event::Read(rooms) => {
                    let found: BTreeMap<_, _> = rooms.into_iter().map(|(n, seats)| (n, summary(&name(n), seats))).collect();
                    book.read(|_| true, second(now - 1), found.into_values().collect());
                }
                Event::Wait(seconds) => now += seconds,
            }
            // Every seat that is kept is one ticket's.
            let mut kept: BTreeMap<&RoomId, u32> = BTreeMap::new();
            for ticket in book.tickets.values().filter(|ticket| ticket.kept) {
                *kept.entry(&ticket.room).or_default() += 1;
            }
            for (room, entry) in &book.rooms {
                prop_assert_eq!(entry.kept, kept.get(room).copied().unwrap_or(0), "{}", room);
            }
            prop_assert_eq!(book.ends.len(), book.tickets.len());
            // What is listed as open is, and nothing else.
            let listed: BTreeSet<_> = book.open.values().flat_map(|kind| kind.values().flatten().cloned()).collect();
            let open: BTreeSet<_> = book.rooms.values().filter(|entry| entry.free() > 0).map(Entry::rank).collect();
            prop_assert_eq!(listed, open);
        }
        // Left alone, nothing is kept.
        book.expire(second(now).plus(KEEP_FOR + Duration::from_secs(1)));
        prop_assert_eq!((book.tickets.len(), book.ends.len(), book.doubts.len()), (0, 0, 0));
        prop_assert!(book.rooms.values().all(|entry| entry.kept == 0 && !entry.doubt), "{:?}", book.rooms);
    }
}
