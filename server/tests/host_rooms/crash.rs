//! Nodes that die, answers that get lost, leases that lapse: nothing is lost and nothing happens twice.

use std::{collections::BTreeSet, sync::atomic::Ordering, time::Duration};

use tenure::link::{Mode, ToGateway};

use crate::{
    harness::{Gateway, Socket, World, counts, room},
    lab::Say,
};

/// A client that keeps what is not saved and sends it again from the number owed.
struct Client {
    player: String,
    said: Vec<Say>,
}

impl Client {
    fn say(&mut self, gateway: &Gateway, socket: &Socket, say: Say) {
        self.said.push(say);
        // A room that is away for the moment takes it later, from the ring.
        drop(gateway.try_say(socket, self.said.len() as u64, self.said.last().unwrap()));
    }

    /// Takes the seat again and sends what is owed.
    fn back(&self, gateway: &Gateway) -> Socket {
        let conn = gateway.ask(&room("a"), &self.player, Mode::JoinOrCreate);
        let socket = gateway.answer(conn).expect("the seat");
        for seq in socket.attached.owed.0..=self.said.len() as u64 {
            gateway.say(&socket, seq, &self.said[seq as usize - 1]);
        }
        socket
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn crash_after_crash_no_input_and_no_grant_is_lost_or_doubled() {
    play_and_crash(&World::new()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    play_and_crash(&World::on_disk(folder.path())).await;
}

async fn play_and_crash(world: &World) {
    let rng = tenure::runtime::Rng::seeded(6);
    let mut ann = Client { player: "ann".into(), said: Vec::new() };
    let (mut kept, mut gifts) = (Vec::new(), 0);
    for life in 0..8u64 {
        let node = world.node().await;
        let gateway = node.gateway();
        let socket = ann.back(&gateway);
        for n in 0..12u64 {
            kept.push(life * 100 + n);
            ann.say(&gateway, &socket, Say::Keep(life * 100 + n));
            ann.say(&gateway, &socket, Say::Gift(5));
            gifts += 1;
            if n == 4 {
                world.weather.lose_answers.store(rng.below(4), Ordering::SeqCst);
            }
            world.pass(Duration::from_micros(rng.below(40_000)));
        }
        node.crash().await;
    }
    let node = world.node().await;
    let gateway = node.gateway();
    let socket = ann.back(&gateway);
    let last = ann.said.len() as u64;
    world.until("everything is saved", || gateway.saved(socket.conn) == last);
    world.until("every grant is in the ledger", || node.host.status().outbox == 0);
    let book = world.view(&room("a")).book;
    assert_eq!(book.applied["ann"], kept, "each exactly once, in order (H4)");
    assert_eq!(world.gold("ann").await, gifts * 5, "each grant exactly once (H6)");
    assert_eq!(book.granted.len() as i64, gifts, "and each answer was told once");
    assert!(counts(&book.granted).values().all(|n| *n == 1));
    assert_eq!((book.started, book.observed), (1, 1), "H12");
}

#[tokio::test(flavor = "multi_thread")]
async fn work_and_its_effect_are_one_over_crashes_and_lost_answers() {
    let world = World::new();
    let mut ann = Client { player: "ann".into(), said: Vec::new() };
    for life in 0..6 {
        let node = world.node().await;
        let gateway = node.gateway();
        let socket = ann.back(&gateway);
        for n in 0..6 {
            ann.say(&gateway, &socket, Say::Later(format!("{life}-{n}"), n * 37));
        }
        world.weather.lose_answers.store(2, Ordering::SeqCst);
        world.until("some of it is done", || {
            world.view(&room("a")).book.done.iter().any(|key| key.starts_with(&format!("{life}-")))
        });
        node.crash().await;
    }
    let node = world.node().await;
    let gateway = node.gateway();
    let socket = ann.back(&gateway);
    let last = ann.said.len() as u64;
    world.until("everything is saved", || gateway.saved(socket.conn) == last);
    world.until("all work is done", || world.view(&room("a")).book.done.len() >= 36);
    node.stop().await;
    let done = world.view(&room("a")).book.done;
    assert!(counts(&done).values().all(|n| *n == 1), "{:?}", counts(&done));
    let shard = room("a").shard(crate::harness::SHARDS);
    let lines = world.store.completed(shard, 100).await.unwrap();
    let completed: BTreeSet<String> = lines.iter().map(|line| line.id.key.to_string()).collect();
    assert_eq!(completed, done.into_iter().collect(), "what the store calls done is what the world did");
}

#[tokio::test(flavor = "multi_thread")]
async fn something_bought_is_paid_once_and_handed_over_once() {
    let world = World::new();
    let mut ann = Client { player: "ann".into(), said: Vec::new() };
    for _ in 0..5 {
        let node = world.node().await;
        let gateway = node.gateway();
        let socket = ann.back(&gateway);
        ann.say(&gateway, &socket, Say::Gift(3));
        ann.say(&gateway, &socket, Say::Buy(2));
        world.until("it was heard", || gateway.heard.said.lock().unwrap().len() > 3);
        node.crash().await;
    }
    let node = world.node().await;
    let gateway = node.gateway();
    let socket = ann.back(&gateway);
    let last = ann.said.len() as u64;
    world.until("everything is saved", || gateway.saved(socket.conn) == last);
    world.until("every grant is through", || node.host.status().outbox == 0);
    let book = world.view(&room("a")).book;
    assert_eq!(world.gold("ann").await, 5 * 3 - 2 * i64::try_from(book.bought).unwrap());
    assert!(book.bought > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_lease_lapses_stands_still_and_goes_on_from_memory() {
    let mut world = World::new();
    // Nothing but the first checkpoint is stored: a rollback would be seen.
    world.config.checkpoint_every = Duration::from_secs(3_600);
    let node = world.node().await;
    let gateway = node.gateway();
    let ann = gateway.join(&room("a"), "ann");
    gateway.say(&ann, 1, &Say::Keep(1));
    world.until("it is applied", || world.view(&room("a")).book.applied.contains_key("ann"));
    let term = ann.attached.term;

    world.weather.no_heartbeats.store(true, Ordering::SeqCst);
    world.until("the room stands still", || node.host.status().stages.contains_key("frozen"));
    let frozen = world.view(&room("a")).tick;
    world.pass(Duration::from_millis(200));
    assert_eq!(world.view(&room("a")).tick, frozen, "not a tick without a lease (H1)");
    // Both wait for the thaw.
    gateway.say(&ann, 2, &Say::Keep(2));
    let bob = gateway.ask(&room("a"), "bob", Mode::Join);

    world.weather.no_heartbeats.store(false, Ordering::SeqCst);
    let bob = gateway.answer(bob).expect("a seat after the thaw");
    assert!(bob.attached.term > term, "a thaw is a write: a new term (H2)");
    world.until("it goes on", || world.view(&room("a")).book.applied["ann"] == [1, 2]);
    assert!(world.view(&room("a")).tick > frozen);
    let said = gateway.heard.said.lock().unwrap();
    let frames = said.iter().filter_map(|m| if let ToGateway::Frame(f) = m { Some((f.term, f.tick)) } else { None });
    let frames: Vec<_> = frames.collect();
    assert!(frames.is_sorted(), "never older after newer (H7)");
    assert!(
        !said.iter().any(|m| matches!(m, ToGateway::Restored { .. } | ToGateway::Close { .. })),
        "nothing is rolled back"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_was_in_doubt_at_the_lapse_is_applied_once() {
    let world = World::new();
    let node = world.node().await;
    let gateway = node.gateway();
    let ann = gateway.join(&room("a"), "ann");
    for round in 0..4u64 {
        world.weather.lose_answers.store(1_000, Ordering::SeqCst);
        gateway.say(&ann, round + 1, &Say::Gift(7));
        let commits = world.weather.commits.load(Ordering::SeqCst);
        world.until("its answer is lost", || world.weather.commits.load(Ordering::SeqCst) > commits + 1);
        world.weather.no_heartbeats.store(true, Ordering::SeqCst);
        world.until("the room stands still", || node.host.status().stages.contains_key("frozen"));
        world.weather.lose_answers.store(0, Ordering::SeqCst);
        world.weather.no_heartbeats.store(false, Ordering::SeqCst);
        world.until("it is saved", || gateway.saved(ann.conn) == round + 1);
    }
    world.until("every grant is through", || node.host.status().outbox == 0);
    assert_eq!(world.gold("ann").await, 28);
    assert_eq!(world.view(&room("a")).book.granted.len(), 4);
}
