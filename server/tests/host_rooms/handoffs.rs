//! Shards handed over by nodes themselves, with a player who never stops, while messages, nodes and answers of the store get lost.

use std::sync::{Arc, atomic::Ordering};

use tenure::link::{Handoff as Step, PeerBody, Peers as _};

use crate::{
    harness::{SHARDS, World, room},
    lab::{self, Say},
    moves::{applied, hooks, world_without_checkpoints},
    net::{ALL, Cluster, Fate, Kind, start},
    player::Player,
};

async fn drained(cluster: &Cluster, at: usize) {
    cluster.node(at).ownership.drain().await;
    cluster.world.until("it gave everything away", || cluster.node(at).ownership.shards().is_empty());
}

/// C14: what is due meanwhile happens once.
#[tokio::test(flavor = "multi_thread")]
async fn c14_a_drain_hands_every_shard_over() {
    let cluster = Cluster::of(2).await;
    let world = &cluster.world;
    let playing = cluster.play(0, "ann");
    let mut bob = Player::join(world, &cluster.gateways, &playing.room, "bob", 7);
    bob.say(&cluster.gateways, Say::Gift(5));
    for n in 0..10 {
        bob.say(&cluster.gateways, Say::Later(format!("job{n}"), 50 * n));
    }
    bob.say(&cluster.gateways, Say::Keep(0));
    world.until("it is applied", || applied(world, &bob) == [0]);
    let started = world.view(&playing.room).book.started;
    let (shards, of_b) = (cluster.node(0).ownership.shards(), cluster.node(1).ownership.shards());
    drained(&cluster, 0).await;
    for shard in &shards {
        world.until("it is there", || cluster.node(1).ownership.held(*shard).is_some());
        assert_eq!(cluster.net.count(*shard, Kind::Transferred), 1, "by a handoff, at once");
        let package = cluster.node(1).ownership.held(*shard).unwrap().package;
        assert!(package.is_some(), "with what was made ready");
    }
    assert_eq!(cluster.node(1).ownership.shards().len(), shards.len() + of_b.len());
    let ann = playing.end(world);
    assert_eq!((ann.at, ann.rolled_back, hooks(world)), (1, 0, (0, 0)), "the game hears of no move (H12)");
    cluster.assert_one_line_of_ticks();
    world.until("its work is done", || world.view(&ann.room).book.done.len() == 10);
    world.until("it is told of its gift", || world.view(&ann.room).book.granted.len() == 1);
    assert_eq!(world.gold("bob").await, 5);
    let mut done = world.view(&ann.room).book.done;
    done.sort();
    done.dedup();
    assert_eq!(done.len(), 10, "each once");
    assert_eq!(world.view(&ann.room).book.started, started);
}

/// C28: messages of a move get lost; a drain moves the shard all the same.
async fn lost(kinds: &[Kind], broken_rooms: bool) -> (Cluster, Option<u64>) {
    let cluster = Cluster::of(2).await;
    let playing = cluster.play(0, "ann");
    let shard = playing.shard();
    for kind in kinds {
        cluster.net.rule(shard, *kind, 1, Fate::Lost);
    }
    cluster.weather(1).broken_rooms.store(broken_rooms, Ordering::SeqCst);
    drained(&cluster, 0).await;
    cluster.world.until("it is the other's", || cluster.owners(&playing.room) == [1]);
    let package = cluster.node(1).ownership.held(shard).expect("held").package;
    let ann = playing.end(&cluster.world);
    assert_eq!((ann.at, ann.rolled_back, hooks(&cluster.world)), (1, 0, (0, 0)));
    cluster.assert_one_line_of_ticks();
    for kind in kinds {
        assert!(cluster.net.count(shard, *kind) > 0, "{kind:?} was said");
    }
    (cluster, package)
}

#[tokio::test(flavor = "multi_thread")]
async fn c28_a_lost_offer_is_made_again() {
    let (_cluster, package) = lost(&[Kind::Offer], false).await;
    assert!(package.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn c28_a_lost_answer_to_an_offer_costs_an_attempt() {
    let (_cluster, package) = lost(&[Kind::Ready, Kind::Abort], false).await;
    assert!(package.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn c28_a_lost_package_costs_an_attempt() {
    let (_cluster, package) = lost(&[Kind::Package], false).await;
    assert!(package.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn c28_a_lost_answer_to_a_package_costs_an_attempt_also_when_the_target_hears_nothing_of_its_end() {
    let (_cluster, package) = lost(&[Kind::Prepared, Kind::Abort], false).await;
    assert!(package.is_some());
}

/// The target sees itself in the claim, and runs what it has: no list of rooms can be read.
#[tokio::test(flavor = "multi_thread")]
async fn c28_a_target_that_hears_nothing_of_the_transfer_runs_its_prepared_worlds() {
    let (cluster, package) = lost(&[Kind::Transferred], true).await;
    assert!(package.is_some(), "the claim names the package (F2)");
    assert!(cluster.weather(1).rooms_read.load(Ordering::SeqCst) > 0, "its rooms could not be read so far");
    cluster.weather(1).broken_rooms.store(false, Ordering::SeqCst);
    cluster.node(1).host.ready().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_come_three_times_change_nothing() {
    let cluster = Cluster::of(2).await;
    let playing = cluster.play(0, "ann");
    let shard = playing.shard();
    ALL.iter().for_each(|kind| cluster.net.rule(shard, *kind, usize::MAX, Fate::Repeated));
    drained(&cluster, 0).await;
    cluster.world.until("it is the other's", || cluster.owners(&playing.room) == [1]);
    // Everything that was ever said once more, in order and the other way round.
    let term = cluster.node(1).ownership.fence(shard).unwrap().term();
    let said = cluster.net.said();
    said.iter().chain(said.iter().rev()).for_each(|(to, message)| cluster.net.deliver(to, message));
    let ann = playing.end(&cluster.world);
    assert_eq!(cluster.node(1).ownership.fence(shard).unwrap().term(), term, "an old attempt moves nothing");
    assert_eq!((ann.at, ann.rolled_back, hooks(&cluster.world)), (1, 0, (0, 0)));
    assert_eq!(cluster.net.count(shard, Kind::Transferred), 1);
    cluster.assert_one_line_of_ticks();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_package_that_comes_after_a_newer_one_is_not_made_ready() {
    let cluster = Cluster::of(2).await;
    let playing = cluster.play(0, "ann");
    let shard = playing.shard();
    cluster.net.rule(shard, Kind::Package, 1, Fate::Held);
    cluster.node(0).ownership.drain().await;
    cluster.world.until("the first package is under way", || cluster.net.held() == 1);
    cluster.net.rule(shard, Kind::Prepared, 1, Fate::Held);
    // The first attempt was given up for lack of an answer.
    cluster.world.until("the second one is made ready", || cluster.net.held() == 2);
    assert_eq!(cluster.net.count(shard, Kind::Package), 2);
    cluster.net.release();
    cluster.world.until("it is the other's", || cluster.owners(&playing.room) == [1]);
    assert!(cluster.node(1).ownership.held(shard).unwrap().package.is_some());
    let ann = playing.end(&cluster.world);
    assert_eq!(ann.rolled_back, 0);
    assert_eq!(cluster.net.count(shard, Kind::Prepared), 1, "the late package is not answered (F3)");
    cluster.assert_one_line_of_ticks();
}

#[tokio::test(flavor = "multi_thread")]
async fn word_of_a_transfer_that_comes_after_the_claim_was_seen_changes_nothing() {
    let cluster = Cluster::of(2).await;
    let playing = cluster.play(0, "ann");
    cluster.net.rule(playing.shard(), Kind::Transferred, 1, Fate::Held);
    drained(&cluster, 0).await;
    cluster.world.until("it is the other's", || cluster.owners(&playing.room) == [1]);
    let term = cluster.node(1).ownership.fence(playing.shard()).unwrap().term();
    let shard = playing.shard();
    cluster.net.release();
    let ann = playing.end(&cluster.world);
    assert_eq!((ann.at, ann.rolled_back), (1, 0));
    assert_eq!(cluster.node(1).ownership.fence(shard).unwrap().term(), term);
    cluster.assert_one_line_of_ticks();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_life_of_a_node_takes_no_notice_of_what_was_for_the_former_one() {
    let mut cluster = Cluster::of(2).await;
    drained(&cluster, 0).await;
    cluster.world.until("the other has all", || cluster.node(1).ownership.shards().len() == SHARDS as usize);
    let said = cluster.net.said();
    cluster.crash(1).await;
    let again = cluster.world.named("b", &Arc::default()).await;
    let handoff = start(&cluster.world, &cluster.net, &again, "b");
    cluster.world.until("it has all", || again.ownership.shards().len() == SHARDS as usize);
    cluster.world.until("nothing moves", || handoff.moving() == 0 && again.ownership.gives().is_empty());
    let terms =
        || again.ownership.shards().iter().map(|s| again.ownership.fence(*s).map(|f| f.term())).collect::<Vec<_>>();
    let (before, lines) = (terms(), cluster.net.said().len());
    for (to, message) in said.iter().filter(|(to, _)| &**to == "b") {
        // To who is meant, at the address of who is there; and a second time as if it came from a life that knows no better.
        cluster.net.deliver(to, message);
        assert!(cluster.net.send(to, message.clone()).is_ok());
    }
    let asked = said.iter().filter(|(to, _)| &**to == "b").count();
    cluster.world.pass(std::time::Duration::from_millis(300));
    assert_eq!(terms(), before, "F3");
    assert_eq!(cluster.net.said().len(), lines + asked, "nothing is answered");
    assert!(said.iter().any(|(_, m)| matches!(m.body, PeerBody::Handoff(_, Step::Transferred { .. }))));
}

/// C28: the source dies when it has said this; the target serves.
async fn source_dies_after(kind: Kind) -> (Cluster, Option<u64>, usize) {
    let mut cluster = Cluster::of(2).await;
    let playing = cluster.play(0, "ann");
    let shard = playing.shard();
    cluster.net.rule(shard, kind, 1, Fate::Held);
    cluster.node(0).ownership.drain().await;
    cluster.world.until("it says so", || cluster.net.held() == 1);
    cluster.crash(0).await;
    let since = cluster.world.clock.now();
    cluster.net.release();
    cluster.world.until("it is the other's", || cluster.owners(&playing.room) == [1]);
    assert!(cluster.world.clock.now().since(since) < crate::net::BOUND);
    let package = cluster.node(1).ownership.held(shard).expect("held").package;
    let ann = playing.end(&cluster.world);
    assert_eq!((ann.at, hooks(&cluster.world)), (1, (0, 0)));
    (cluster, package, ann.rolled_back)
}

#[tokio::test(flavor = "multi_thread")]
async fn c28_a_source_that_dies_after_its_package_is_taken_over() {
    let (cluster, package, rolled_back) = source_dies_after(Kind::Package).await;
    assert_eq!((package, rolled_back), (None, 0), "its rooms stood still and were stored");
    cluster.assert_one_line_of_ticks();
}

#[tokio::test(flavor = "multi_thread")]
async fn c28_a_source_that_dies_after_the_transfer_is_not_missed() {
    let (cluster, package, rolled_back) = source_dies_after(Kind::Transferred).await;
    assert!(package.is_some() && rolled_back == 0);
    cluster.assert_one_line_of_ticks();
}

/// C28: the source serves on, or has it back, although it drains: nobody else is there.
#[tokio::test(flavor = "multi_thread")]
async fn c28_a_target_that_dies_with_its_worlds_ready_is_not_given_the_shard() {
    let mut cluster = Cluster::of(2).await;
    let playing = cluster.play(0, "ann");
    cluster.net.rule(playing.shard(), Kind::Prepared, 1, Fate::Held);
    cluster.node(0).ownership.drain().await;
    cluster.world.until("it says so", || cluster.net.held() == 1);
    cluster.crash(1).await;
    cluster.net.release();
    let since = cluster.world.clock.now();
    cluster.world.until("it is the first one's", || {
        cluster.owners(&playing.room) == [0] && cluster.node(0).host.status().rooms == 1
    });
    let took = cluster.world.clock.now().since(since);
    assert!(took < crate::net::BOUND, "{took:?}");
    let ann = playing.end(&cluster.world);
    assert_eq!((ann.at, ann.rolled_back, hooks(&cluster.world)), (0, 0, (0, 0)));
    cluster.assert_one_line_of_ticks();
}

#[tokio::test(flavor = "multi_thread")]
async fn c28_a_target_that_dies_with_the_claim_is_taken_over() {
    let mut cluster = Cluster::of(3).await;
    let playing = cluster.play(0, "ann");
    cluster.net.rule(playing.shard(), Kind::Transferred, 1, Fate::Held);
    drained(&cluster, 0).await;
    cluster.world.until("it is transferred", || cluster.net.held() == 1);
    let (dies, lives) = if cluster.net.held_for().as_deref() == Some("b") { (1, 2) } else { (2, 1) };
    cluster.crash(dies).await;
    cluster.net.release();
    let since = cluster.world.clock.now();
    cluster.world.until("it is the third one's", || cluster.owners(&playing.room) == [lives]);
    assert!(cluster.world.clock.now().since(since) < crate::net::BOUND);
    let ann = playing.end(&cluster.world);
    assert_eq!((ann.at, ann.rolled_back, hooks(&cluster.world)), (lives, 0, (0, 0)), "everything was stored");
    cluster.assert_one_line_of_ticks();
}

/// F1: a refused transfer is answered by a new term of the own claim, from memory; then it is tried again.
#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_that_the_store_does_not_take_leaves_the_shard_under_a_new_term() {
    let cluster = Cluster::of(2).await;
    let playing = cluster.play(0, "ann");
    let term = cluster.node(0).ownership.fence(playing.shard()).unwrap().term();
    cluster.weather(0).no_gives.store(true, Ordering::SeqCst);
    cluster.node(0).ownership.drain().await;
    let newer = || cluster.node(0).ownership.fence(playing.shard()).is_some_and(|fence| fence.term() > term);
    cluster.world.until("it has a new term", newer);
    let tick = || cluster.world.view(&playing.room).tick;
    let last = tick();
    cluster.world.until("it goes on", || tick() > last);
    assert_eq!(cluster.net.count(playing.shard(), Kind::Transferred), 0);
    cluster.weather(0).no_gives.store(false, Ordering::SeqCst);
    cluster.world.until("it is the other's", || cluster.owners(&playing.room) == [1]);
    let ann = playing.end(&cluster.world);
    assert_eq!((ann.at, ann.rolled_back, hooks(&cluster.world)), (1, 0, (0, 0)));
    cluster.assert_one_line_of_ticks();
}

/// F1: it was done, and the source does not know: it runs nothing under the old term, and the target what it made ready.
#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_whose_answer_is_lost_is_the_targets() {
    let cluster = Cluster::of(2).await;
    let playing = cluster.play(0, "ann");
    let shard = playing.shard();
    cluster.weather(0).lose_transfers.store(SHARDS.into(), Ordering::SeqCst);
    drained(&cluster, 0).await;
    cluster.world.until("it is the other's", || cluster.owners(&playing.room) == [1]);
    assert_eq!(cluster.net.count(shard, Kind::Transferred), 0, "nobody told it");
    assert!(cluster.node(1).ownership.held(shard).unwrap().package.is_some(), "the claim did");
    let ann = playing.end(&cluster.world);
    assert_eq!((ann.at, ann.rolled_back, hooks(&cluster.world)), (1, 0, (0, 0)));
    cluster.assert_one_line_of_ticks();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_of_an_older_build_takes_nothing_that_it_cannot_read() {
    let world = world_without_checkpoints();
    world.outside.more_grace.store(60, Ordering::SeqCst);
    let new = lab::build_of(&world.views, &world.outside, 2);
    let nodes = vec![world.with_kind("a", &Arc::default(), new).await, world.named("b", &Arc::default()).await];
    let cluster = Cluster::with(world, nodes, false);
    cluster.node(0).ownership.drain().await;
    let given = || cluster.node(0).ownership.shards();
    cluster.world.until("it has shards, and offers them", || {
        !given().is_empty() && given().iter().all(|shard| cluster.net.count(*shard, Kind::Refuse) > 0)
    });
    let playing = cluster.play(0, "ann");
    let refused = || cluster.net.count(playing.shard(), Kind::Refuse);
    let before = refused();
    cluster.world.until("it is asked again", || refused() > before + 2);
    assert_eq!(cluster.net.count(playing.shard(), Kind::Package), 0, "no room stood still for it");
    let room = playing.room.clone();
    let ann = playing.end(&cluster.world);
    assert_eq!((cluster.owners(&room), ann.at, ann.attached.len()), (vec![0], 0, 1), "it serves on");
    cluster.assert_one_line_of_ticks();
}

#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_drain_at_once_to_the_one_that_is_left() {
    let cluster = Cluster::of(3).await;
    let playing = [cluster.play(0, "ann"), cluster.play(1, "bob")];
    cluster.node(0).ownership.drain().await;
    cluster.node(1).ownership.drain().await;
    let last = &cluster.node(2).ownership;
    cluster.world.until("it has all", || last.shards().len() == SHARDS as usize);
    for playing in playing {
        let player = playing.end(&cluster.world);
        assert_eq!((player.at, player.rolled_back), (2, 0), "{}", player.name);
    }
    assert_eq!(hooks(&cluster.world), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_with_nowhere_to_go_serves_on() {
    let cluster = Cluster::of(1).await;
    let playing = cluster.play(0, "ann");
    cluster.node(0).ownership.drain().await;
    cluster.world.pass(std::time::Duration::from_millis(1_500));
    assert_eq!(cluster.node(0).ownership.shards().len(), SHARDS as usize);
    let ann = playing.end(&cluster.world);
    assert_eq!((ann.attached.len(), ann.rolled_back), (1, 0));
    cluster.assert_one_line_of_ticks();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_drains_and_is_not_heard_gives_its_shards_plainly() {
    let cluster = Cluster::of(2).await;
    let playing = cluster.play(0, "ann");
    let shard = playing.shard();
    cluster.net.cut();
    drained(&cluster, 0).await;
    cluster.world.until("it is the other's", || cluster.owners(&playing.room) == [1]);
    let offers = cluster.net.attempts(shard, Kind::Offer);
    assert_eq!(offers.len(), 2, "two were not answered: {offers:?}");
    assert_eq!(cluster.net.count(shard, Kind::Package), 0);
    assert_eq!(cluster.node(1).ownership.held(shard).unwrap().package, None);
    let ann = playing.end(&cluster.world);
    assert_eq!((ann.at, ann.rolled_back, hooks(&cluster.world)), (1, 0, (0, 0)));
    cluster.assert_one_line_of_ticks();
}

/// C53: who comes during a drain is let in here or there, and nothing is lost when the node ends.
#[tokio::test(flavor = "multi_thread")]
async fn c53_joins_during_a_drain_are_let_in_and_outlive_the_node() {
    let mut cluster = Cluster::of(2).await;
    cluster.node(0).ownership.drain().await;
    let (world, gateways): (&World, _) = (&cluster.world, &cluster.gateways);
    let mut players: Vec<_> = std::thread::scope(|scope| {
        let joins: Vec<_> = (0..24)
            .map(|n| {
                scope.spawn(move || {
                    world.pass(std::time::Duration::from_millis(n * 10));
                    let mut player = Player::join(world, gateways, &room(&format!("j{n}")), "eve", n);
                    player.say(gateways, Say::Keep(n));
                    player
                })
            })
            .collect();
        joins.into_iter().map(|join| join.join().expect("let in")).collect()
    });
    world.until("it gave everything away", || cluster.node(0).ownership.shards().is_empty());
    let (node, handoff) = cluster.nodes[0].take().expect("it lives");
    drop(handoff);
    assert!(node.stop().await.is_clean(), "every save is done");
    for (n, player) in (0..).zip(&mut players) {
        if player.at == 0 {
            player.follow_to(world, gateways, 1..2);
        }
        world.until("it is applied", || applied(world, player) == [n]);
        assert_eq!(player.rolled_back, 0);
    }
    assert_eq!(hooks(world), (0, 0));
}
