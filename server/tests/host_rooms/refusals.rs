//! Commits and grants that the store refuses: the room goes back to what is stored, and nothing that was decided is lost or comes twice.

use std::{sync::atomic::Ordering, time::Duration};

use tenure::{
    link::{Mode, ToGateway},
    store::Error,
};
use tenure_shared::PlayerId;

use crate::{
    harness::{Gateway, SHARDS, Socket, World, room},
    lab::Say,
};

/// A socket after the latest restore of its room, and the number owed to it.
fn restored(gateway: &Gateway, socket: &Socket) -> (Socket, u64) {
    gateway.wait("the member is told", |m| match m {
        ToGateway::Restored { members, .. } => members.iter().find(|m| m.conn == socket.conn).map(drop),
        _ => None,
    });
    let said = gateway.heard.said.lock().unwrap();
    let told = said.iter().rev().find_map(|m| match m {
        ToGateway::Restored { members, .. } => members.iter().find(|m| m.conn == socket.conn),
        _ => None,
    });
    let member = told.expect("told");
    (socket.clone().renewed(member), member.owed.0)
}

fn restores(gateway: &Gateway) -> usize {
    let said = gateway.heard.said.lock().unwrap();
    said.iter().filter(|m| matches!(m, ToGateway::Restored { .. } | ToGateway::Close { .. })).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn scheduling_what_is_done_already_changes_nothing() {
    let world = World::new();
    let node = world.node().await;
    let gateway = node.gateway();
    let ann = gateway.join(&room("a"), "ann");
    gateway.say(&ann, 1, &Say::Later("daily".into(), 0));
    world.until("it is done", || world.view(&room("a")).book.done == ["daily"]);
    for seq in 2..=6 {
        gateway.say(&ann, seq, &Say::Later("daily".into(), seq % 2 * 30));
        world.until("it is saved", || gateway.saved(ann.conn) == seq);
        world.pass(Duration::from_millis(100));
    }
    assert_eq!(world.view(&room("a")).book.done, ["daily"], "done once is done for ever (H6)");
    assert_eq!(restores(&gateway), 0, "and the room is not at fault");
}

/// A commit with a reward is refused while the room has gone on: how often the reward was given in the end.
async fn refused_while_the_room_goes_on(error: Error) -> i64 {
    let world = World::new();
    let node = world.node().await;
    let gateway = node.gateway();
    let ann = gateway.join(&room("a"), "ann");
    gateway.say(&ann, 1, &Say::Keep(1));
    world.until("it is saved", || gateway.saved(ann.conn) == 1);
    *world.weather.refuse.lock().unwrap() = Some(error);
    world.weather.hold_commits.store(true, Ordering::SeqCst);
    gateway.say(&ann, 2, &Say::Gift(5));
    world.pass(Duration::from_millis(100));
    gateway.say(&ann, 3, &Say::Keep(3));
    world.until("the room has gone on", || world.view(&room("a")).book.applied["ann"] == [1, 3]);
    // Its next periodic checkpoint waits behind the commit with the reward.
    world.pass(Duration::from_millis(300));
    world.weather.hold_commits.store(false, Ordering::SeqCst);
    let said = [Say::Keep(1), Say::Gift(5), Say::Keep(3)];
    let (ann, owed) = restored(&gateway, &ann);
    for seq in owed..=3 {
        gateway.say(&ann, seq, &said[seq as usize - 1]);
    }
    world.until("all of it is saved", || gateway.saved(ann.conn) == 3);
    world.until("every grant is through", || node.host.status().outbox == 0);
    assert_eq!(world.view(&room("a")).book.applied["ann"], [1, 3]);
    assert_eq!(gateway.closed(ann.conn), None);
    assert_eq!(node.host.status().stages.get("parked"), None);
    world.gold("ann").await
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_stored_of_a_world_whose_commit_was_refused() {
    assert_eq!(refused_while_the_room_goes_on(Error::Conflict("changed".into())).await, 5, "H6");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_is_invalid_once_does_not_park_the_room() {
    assert_eq!(refused_while_the_room_goes_on(Error::Invalid("too much".into())).await, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_outbox_stops_what_grants_and_nothing_else() {
    let world = World::new();
    let node = world.node().await;
    let gateway = node.gateway();
    let shard = room("a").shard(SHARDS);
    let other = (0..).map(|n| room(&format!("b{n}"))).find(|room| room.shard(SHARDS) == shard).unwrap();
    let (mut ann, bob) = (gateway.join(&room("a"), "ann"), gateway.join(&other, "bob"));
    gateway.say(&ann, 1, &Say::Gift(5));
    world.until("it is saved", || gateway.saved(ann.conn) == 1);
    world.weather.full.store(true, Ordering::SeqCst);
    for round in 0..6u64 {
        // More often than a room may fail.
        let before = restores(&gateway);
        gateway.say(&ann, 2, &Say::Gift(7));
        world.until("the room goes back", || restores(&gateway) > before);
        ann = restored(&gateway, &ann).0;
        gateway.say(&bob, round + 1, &Say::Keep(round));
        world.until("another room is saved", || gateway.saved(bob.conn) == round + 1);
    }
    world.weather.full.store(false, Ordering::SeqCst);
    gateway.say(&ann, 2, &Say::Gift(7));
    world.until("it is saved now", || gateway.saved(ann.conn) == 2);
    world.until("every grant is through", || node.host.status().outbox == 0);
    assert_eq!(world.gold("ann").await, 12);
    assert_eq!(gateway.closed(ann.conn), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_its_ledger_refuses_is_kept_for_a_person_and_pins_no_room() {
    let world = World::new();
    let node = world.node().await;
    let gateway = node.gateway();
    let ann = gateway.join(&room("a"), "ann");
    world.weather.no_ledger.store(true, Ordering::SeqCst);
    gateway.say(&ann, 1, &Say::Gift(5));
    world.until("the room hears of it", || world.view(&room("a")).book.granted.len() == 1);
    world.until("it leaves the outbox", || node.host.status().outbox == 0);
    gateway.leave(&ann, ann.attached.generation, true);
    world.until("the room is unloaded", || node.host.status().rooms == 0);
    let shard = room("a").shard(SHARDS);
    let items = world.store.work(shard, None, 10).await.unwrap();
    let parked: Vec<_> = items.into_iter().filter(|item| item.parked.is_some()).collect();
    assert_eq!(parked.len(), 1, "{parked:?}");
    assert_eq!(&*parked[0].id.job, "tenure/refused-grant");
    assert!(node.stop().await.is_clean());
    assert_eq!(world.gold("ann").await, 0);

    // A person has seen to it.
    world.weather.no_ledger.store(false, Ordering::SeqCst);
    let tasks = tenure::runtime::Tasks::new(tenure::runtime::Shutdown::new());
    let ownership = crate::harness::own(&world, &tasks, &tenure::runtime::Rng::from_entropy()).await;
    world.store.retry(&ownership.fence(shard).unwrap(), &parked[0].id).await.unwrap();
    ownership.leave().await;
    let node = world.node().await;
    world.until("its grant is through", || world.view(&room("a")).book.granted.len() == 2);
    world.until("it leaves the outbox", || node.host.status().outbox == 0);
    assert_eq!(world.gold("ann").await, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_that_panics_between_ticks_is_a_fault_of_its_room_alone() {
    let mut world = World::new();
    world.config.threads = 1;
    let node = world.node().await;
    let (deaf, good) = (node.gateway(), node.gateway());
    deaf.join(&room("a"), "ann");
    let bob = good.join(&room("a"), "bob");
    let eve = good.join(&room("b"), "eve");
    world.until("both are there", || world.view(&room("a")).connected == 2);
    world.outside.drop_panics.store(1, Ordering::SeqCst);
    deaf.heard.deaf.store(true, Ordering::SeqCst);
    let (bob, _) = restored(&good, &bob);
    good.say(&bob, 1, &Say::Keep(1));
    world.until("its seat is in its grace", || world.view(&room("a")).connected == 1);
    world.until("the other plays on", || world.view(&room("a")).book.applied.contains_key("bob"));
    good.say(&eve, 1, &Say::Keep(1));
    world.until("and so does another room", || world.view(&room("b")).book.applied.contains_key("eve"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_occurrence_that_falls_into_an_unload_that_is_called_off_is_paid() {
    const BOOK: &str = r#"
[[schedule]]
id = "here"
every = "1s"
rooms = "lab/*/*"
audience = "present"
catch_up = "all"
grant = { silver = 1 }
"#;
    let world = World::new().schedules(BOOK);
    let node = world.node().await;
    let gateway = node.gateway();
    let ann = gateway.join(&room("a"), "ann");
    world.pass(Duration::from_millis(1_200));
    gateway.leave(&ann, ann.attached.generation, true);
    world.until("nobody is there", || world.view(&room("a")).connected == 0);
    world.weather.hold_dormant.store(true, Ordering::SeqCst);
    world.until("it is being saved", || node.host.status().stages.contains_key("saving"));
    let back = gateway.ask(&room("a"), "ann", Mode::Join);
    world.pass(Duration::from_millis(1_600));
    world.weather.hold_dormant.store(false, Ordering::SeqCst);
    gateway.answer(back).expect("the unload is called off");
    world.pass(Duration::from_millis(1_500));
    assert!(node.stop().await.is_clean());
    let lines = world.store.ledger(&PlayerId::new("ann").unwrap(), 100).await.unwrap();
    let mut times: Vec<u64> = lines.iter().map(|line| line.scheduled_for.expect("scheduled").0 / 1_000_000).collect();
    times.sort_unstable();
    let (first, last) = (times[0], times[times.len() - 1]);
    // At most the one between the leave and the unload had nobody present.
    assert!((last - first + 1) as usize - times.len() <= 1, "{times:?}");
    let after: Vec<_> = times.iter().rev().take(3).copied().collect();
    assert_eq!(after, [last, last - 1, last - 2], "those of the time in which it was being saved are paid");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_whose_rows_are_broken_waits_and_begins_when_they_are_mended() {
    let world = World::new();
    world.weather.broken_rooms.store(true, Ordering::SeqCst);
    let (node, ()) = tokio::join!(world.node(), async {
        while world.weather.rooms_read.load(Ordering::SeqCst) < u64::from(SHARDS) {
            tokio::task::yield_now().await;
        }
        world.clock.sleep(Duration::from_millis(500)).await;
        let tries = world.weather.rooms_read.load(Ordering::SeqCst);
        assert!(tries < u64::from(SHARDS) * 20, "{tries} tries");
        world.weather.broken_rooms.store(false, Ordering::SeqCst);
    });
    node.gateway().join(&room("a"), "ann");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_row_of_one_room_does_not_keep_others_waiting() {
    let world = World::new();
    let node = world.node().await;
    let gateway = node.gateway();
    let shard = room("a").shard(SHARDS);
    let other = (0..).map(|n| room(&format!("b{n}"))).find(|room| room.shard(SHARDS) == shard).unwrap();
    let (ann, bob) = (gateway.join(&room("a"), "ann"), gateway.join(&other, "bob"));
    *world.weather.broken.lock().unwrap() = Some(room("a"));
    gateway.say(&ann, 1, &Say::Keep(1));
    gateway.say(&bob, 1, &Say::Keep(1));
    world.until("the other room is saved", || gateway.saved(bob.conn) == 1);
}
