//! A room's life: made, joined, idle, dormant, back again, deleted; and joins at the worst moments.

use std::{sync::atomic::Ordering, time::Duration};

use tenure::link::{Mode, ToGateway};
use tenure_shared::{
    Generation,
    codes::{CloseCode, ErrorCode},
};

use crate::{
    harness::{World, room},
    lab::Say,
};

fn code(refused: ToGateway) -> ErrorCode {
    match refused {
        ToGateway::Refused { code, .. } => code,
        other => panic!("not a refusal: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_room_exists_when_its_first_checkpoint_is_stored() {
    let world = World::new();
    let node = world.node().await;
    let gateway = node.gateway();
    world.weather.hold_commits.store(true, Ordering::SeqCst);
    let conns: Vec<_> = ["ann", "bob"].map(|player| gateway.ask(&room("a"), player, Mode::JoinOrCreate)).into();
    world.until("a commit is on its way", || node.host.status().rooms == 1);
    world.pass(Duration::from_millis(100));
    assert!(gateway.heard.said.lock().unwrap().is_empty(), "nothing is said before the room is stored");
    assert_eq!(world.store.load(&room("a")).await.unwrap(), None);
    world.weather.hold_commits.store(false, Ordering::SeqCst);
    for conn in conns {
        gateway.answer(conn).expect("a seat");
    }
    let stored = world.store.load(&room("a")).await.unwrap().expect("stored");
    assert!(!stored.summary.dormant);
    world.until("it ticks", || world.view(&room("a")).connected == 2);
    assert_eq!(world.view(&room("a")).book.started, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn join_create_and_refusals_are_told_apart() {
    let world = World::new();
    let node = world.node().await;
    let gateway = node.gateway();
    let ask = |name: &str, player: &str, mode| gateway.answer(gateway.ask(&room(name), player, mode));
    assert_eq!(code(ask("a", "ann", Mode::Join).unwrap_err()), ErrorCode::NoSuchRoom);
    ask("a", "ann", Mode::Create).expect("made");
    assert_eq!(code(ask("a", "bob", Mode::Create).unwrap_err()), ErrorCode::RoomExists);
    ask("a", "bob", Mode::Join).expect("joined");
    let unknown = tenure_shared::RoomId::from_parts("chess", "eu", "a").unwrap();
    let conn = gateway.ask(&unknown, "ann", Mode::JoinOrCreate);
    assert_eq!(code(gateway.answer(conn).unwrap_err()), ErrorCode::UnknownKind);
    // Nobody was let in: the room never was.
    assert_eq!(code(ask("b", "nobody", Mode::Create).unwrap_err()), ErrorCode::Refused);
    world.until("the refused room is gone", || node.host.status().rooms == 1);
    assert_eq!(world.store.load(&room("b")).await.unwrap(), None);
    ask("b", "ann", Mode::Create).expect("free again");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_joins_at_once_as_many_as_there_are_seats_get_in_and_the_room_is_made_once() {
    let world = World::new();
    let node = world.node().await;
    let gateway = node.gateway();
    let conns: Vec<_> = (0..12).map(|n| gateway.ask(&room("a"), &format!("p{n}"), Mode::JoinOrCreate)).collect();
    let (given, refused): (Vec<_>, Vec<_>) =
        conns.into_iter().map(|conn| gateway.answer(conn)).partition(Result::is_ok);
    assert_eq!(given.len(), 4);
    assert!(refused.into_iter().all(|r| code(r.unwrap_err()) == ErrorCode::RoomFull));
    world.until("it ticks", || world.view(&room("a")).seats == 4);
    assert_eq!(world.view(&room("a")).book.started, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_room_goes_dormant_and_comes_back_as_it_was() {
    let world = World::new();
    let node = world.node().await;
    let gateway = node.gateway();
    let mut before = None;
    for round in 0..5u64 {
        let ann = gateway.join(&room("a"), "ann");
        gateway.say(&ann, 1, &Say::Keep(round));
        world.until("it is applied", || {
            world.view(&room("a")).book.applied.get("ann").is_some_and(|n| n.len() as u64 == round + 1)
        });
        let book = world.view(&room("a")).book;
        let moves = (book.started, book.added, book.observed, book.changed);
        assert_eq!(*before.get_or_insert(moves), moves, "a move is no news to systems (H12)");
        gateway.leave(&ann, ann.attached.generation, true);
        gateway.wait("left", |m| matches!(m, ToGateway::Left { conn } if *conn == ann.conn).then_some(()));
        world.until("it is unloaded", || node.host.status().rooms == 0);
        let stored = world.store.load(&room("a")).await.unwrap().expect("stored");
        assert!(stored.summary.dormant);
    }
    assert_eq!(world.view(&room("a")).book.applied["ann"], [0, 1, 2, 3, 4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dormant_room_that_work_wakes_sleeps_again_when_it_is_done() {
    let mut world = World::new();
    let node = world.node().await;
    let gateway = node.gateway();
    let ann = gateway.join(&room("a"), "ann");
    for (seq, due) in [(1, 2_000), (2, 9_000)] {
        gateway.say(&ann, seq, &Say::Later(format!("job{seq}"), due));
    }
    gateway.leave(&ann, ann.attached.generation, true);
    world.until("it is unloaded", || node.host.status().rooms == 0);
    assert!(node.stop().await.is_clean());
    // From here on a room without players is kept loaded for an hour.
    world.config.idle_after = Duration::from_secs(3_600);
    let node = world.node().await;
    node.host.ready().await;
    let gateway = node.gateway();
    world.until("the first is done", || world.view(&room("a")).book.done == ["job1"]);
    world.until("it sleeps again", || node.host.status().rooms == 0);
    let stored = world.store.load(&room("a")).await.unwrap().expect("stored");
    assert!(stored.summary.dormant);
    // Somebody comes: from then on it is idle like any other.
    let ann = gateway.join(&room("a"), "ann");
    gateway.leave(&ann, ann.attached.generation, true);
    gateway.wait("left", |m| matches!(m, ToGateway::Left { conn } if *conn == ann.conn).then_some(()));
    world.until("the second is done", || world.view(&room("a")).book.done == ["job1", "job2"]);
    world.pass(Duration::from_secs(1));
    assert_eq!(node.host.status().rooms, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_player_who_never_comes_back_does_not_keep_the_room() {
    let world = World::new();
    let node = world.node().await;
    let gateway = node.gateway();
    let ann = gateway.join(&room("a"), "ann");
    world.until("it ticks", || world.view(&room("a")).connected == 1);
    gateway.leave(&ann, ann.attached.generation, false);
    world.until("the grace has begun", || world.view(&room("a")).connected == 0);
    assert_eq!(world.view(&room("a")).seats, 1);
    world.until("grace and idle time are over (C47)", || node.host.status().rooms == 0);
    assert_eq!(world.view(&room("a")).seats, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_late_close_of_an_old_socket_changes_nothing() {
    let world = World::new();
    let node = world.node().await;
    let gateway = node.gateway();
    let old = gateway.join(&room("a"), "ann");
    let new = gateway.join(&room("a"), "ann");
    assert_eq!(gateway.closed(old.conn), Some(CloseCode::Superseded));
    assert!(new.attached.generation > old.attached.generation);
    assert_eq!(new.attached.seat, old.attached.seat);
    gateway.leave(&old, old.attached.generation, false);
    gateway.leave(&old, Generation(0), true);
    gateway.say(&new, 1, &Say::Keep(1));
    world.until("the new socket plays", || world.view(&room("a")).book.applied.contains_key("ann"));
    assert_eq!(world.view(&room("a")).connected, 1, "C49");
}

#[tokio::test(flavor = "multi_thread")]
async fn joins_while_a_room_ends_get_the_old_room_or_a_clean_answer() {
    let mut world = World::new();
    world.config.idle_after = Duration::ZERO;
    world.config.dispose_after = Duration::ZERO;
    let node = world.node().await;
    let gateway = node.gateway();
    let rng = tenure::runtime::Rng::seeded(48);
    let id = room("a");
    let mut made = 0u64;
    for round in 0..200 {
        let mode = [Mode::JoinOrCreate, Mode::Join, Mode::Create][rng.below(3) as usize];
        let conn = gateway.ask(&id, "ann", mode);
        match gateway.answer(conn) {
            Ok(ann) => {
                assert_eq!((ann.attached.room.clone(), gateway.closed(conn)), (id.clone(), None), "round {round}");
                made += 1;
                gateway.leave(&ann, ann.attached.generation, true);
            }
            Err(refused) => {
                let code = code(refused);
                let clean = match mode {
                    Mode::Join => matches!(code, ErrorCode::NoSuchRoom | ErrorCode::MayRetry),
                    Mode::Create => matches!(code, ErrorCode::RoomExists | ErrorCode::MayRetry),
                    Mode::JoinOrCreate => code == ErrorCode::MayRetry,
                };
                assert!(clean, "round {round}: {mode:?} was answered {code:?}");
            }
        }
        world.pass(Duration::from_micros(rng.below(60_000)));
    }
    assert!(made > 30, "{made} joins");
    world.until("the room is disposed", || node.host.status().rooms == 0 && node.host.status().known == 0);
    assert_eq!(world.store.load(&id).await.unwrap(), None, "directory and store agree (C48)");
    assert_eq!(
        world.store.work(id.shard(crate::harness::SHARDS), None, 10).await.unwrap(),
        [],
        "no item outlives its room"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_bought_in_the_last_tick_is_handed_over_before_the_room_ends() {
    let world = World::new();
    let node = world.node().await;
    let gateway = node.gateway();
    let ann = gateway.join(&room("a"), "ann");
    gateway.say(&ann, 1, &Say::Gift(50));
    world.until("the gift is told", || world.view(&room("a")).book.granted.len() == 1);
    gateway.say(&ann, 2, &Say::Buy(10));
    gateway.say(&ann, 3, &Say::End);
    world.until("the room has ended", || gateway.closed(ann.conn).is_some());
    assert_eq!(world.view(&room("a")).book.bought, 1, "paid and handed over (H6)");
    assert_eq!(world.gold("ann").await, 40);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_room_that_ends_and_is_made_anew_pays_each_time() {
    let world = World::new();
    let node = world.node().await;
    let gateway = node.gateway();
    for round in 1..=3 {
        let ann = gateway.join(&room("a"), "ann");
        // In every life at the same tick after the beginning, as a game does at the end of a match.
        gateway.say(&ann, 1, &Say::Gift(5));
        for _ in 0..2_000 {
            if world.gold("ann").await == round * 5 {
                break;
            }
            world.pass(Duration::from_millis(5));
        }
        assert_eq!(world.gold("ann").await, round * 5, "a grant of a later life is another grant (H6)");
        gateway.say(&ann, 2, &Say::End);
        world.until("its sockets are closed", || gateway.closed(ann.conn) == Some(CloseCode::RoomEnded));
        world.until("it is gone", || node.host.status().rooms == 0);
        assert_eq!(world.store.load(&room("a")).await.unwrap(), None);
    }
}
