//! The end of a node: everything is saved, or the report says what is not.

use std::{sync::atomic::Ordering, time::Duration};

use tenure::link::{Mode, ToGateway};
use tenure_shared::codes::ErrorCode;

use crate::{
    harness::{World, room},
    lab::Say,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_saves_every_room_and_takes_no_new_ones() {
    let mut world = World::new();
    world.config.checkpoint_every = Duration::from_secs(3_600);
    let node = world.node().await;
    let gateway = node.gateway();
    for n in 0..20 {
        let socket = gateway.join(&room(&format!("r{n}")), "ann");
        gateway.say(&socket, 1, &Say::Keep(n));
        gateway.say(&socket, 2, &Say::Gift(1));
    }
    world.until("all is applied", || (0..20).all(|n| !world.view(&room(&format!("r{n}"))).book.applied.is_empty()));
    world.weather.hold_commits.store(true, Ordering::SeqCst);
    let (weather, clock) = (world.weather.clone(), world.clock.clone());
    let (report, late) = tokio::join!(node.host.stop(clock.now().plus(Duration::from_secs(20))), async {
        let late = gateway.ask(&room("late"), "ann", Mode::JoinOrCreate);
        weather.hold_commits.store(false, Ordering::SeqCst);
        late
    });
    assert_eq!((report.unsaved, report.outbox, report.pending), (vec![], 0, false));
    match gateway.answer(late) {
        Err(ToGateway::Refused { code: ErrorCode::MayRetry, .. }) => {}
        other => panic!("{other:?}"),
    }
    let commits = world.weather.commits.load(Ordering::SeqCst);
    node.stop().await;
    assert_eq!(world.weather.commits.load(Ordering::SeqCst), commits, "nothing is written after the end");
    assert_eq!(world.store.load(&room("late")).await.unwrap(), None);

    let node = world.node().await;
    let gateway = node.gateway();
    world.until("rooms with seats go on at once", || node.host.status().rooms == 20);
    for n in 0..20 {
        let socket = gateway.join(&room(&format!("r{n}")), "ann");
        assert_eq!(socket.attached.owed.0, 3, "what was applied is saved");
    }
    assert_eq!(world.gold("ann").await, 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_could_not_be_saved_is_named() {
    let world = World::new();
    let node = world.node().await;
    let gateway = node.gateway();
    let ann = gateway.join(&room("a"), "ann");
    gateway.say(&ann, 1, &Say::Keep(1));
    world.until("it is applied", || !world.view(&room("a")).book.applied.is_empty());
    world.weather.down.store(true, Ordering::SeqCst);
    let report = node.host.stop(world.clock.now().plus(Duration::from_millis(300))).await;
    assert_eq!(report.unsaved, [room("a")]);
    assert!(!report.is_clean());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_to_a_host_that_has_ended_is_broken_whenever_it_came() {
    let world = World::new();
    let node = world.node().await;
    let before = node.gateway();
    node.host.stop(world.clock.now().plus(Duration::from_secs(20))).await;
    let after = node.gateway();
    for gateway in [before, after] {
        assert_eq!(gateway.heard.broken.load(Ordering::SeqCst), 1);
    }
}
