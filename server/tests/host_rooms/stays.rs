//! Moves that do not come off, and what others say wrongly: rooms do not stand still again and again, and nobody is shut out.

use std::sync::{Arc, atomic::Ordering};

use tenure::link::{Attempt, Handoff as Step, PeerBody, PeerMessage, Versions};
use tenure_shared::{IncarnationId, Term};

use crate::{
    harness::SHARDS,
    lab::CURSED_THING,
    moves::hooks,
    net::{Cluster, Fate, Kind, TIMES},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_room_does_not_stand_still_again_and_again_for_a_target_that_refuses_it() {
    let cluster = Cluster::of(2).await;
    let playing = cluster.play(0, "ann");
    let shard = playing.shard();
    CURSED_THING.store(true, Ordering::SeqCst);
    cluster.node(0).ownership.drain().await;
    let stood = || cluster.net.count(shard, Kind::Package);
    cluster.world.until("it is refused", || stood() == 1 && cluster.net.count(shard, Kind::Refuse) == 1);
    // Four, twelve steps would be the second and the third one.
    cluster.world.pass(TIMES.step * 7);
    assert_eq!(stood(), 2);
    CURSED_THING.store(false, Ordering::SeqCst);
    let ann = playing.end(&cluster.world);
    assert_eq!((ann.at, ann.attached.len(), ann.rolled_back, hooks(&cluster.world)), (0, 1, 0, (0, 0)));
    cluster.assert_one_line_of_ticks();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_room_does_not_stand_still_again_and_again_for_a_store_that_refuses_its_transfer() {
    let cluster = Cluster::of(2).await;
    let playing = cluster.play(0, "ann");
    let shard = playing.shard();
    cluster.weather(0).no_gives.store(true, Ordering::SeqCst);
    cluster.node(0).ownership.drain().await;
    let stood = || cluster.net.count(shard, Kind::Package);
    cluster.world.until("it is in doubt", || stood() == 1);
    cluster.world.pass(TIMES.step * 7);
    assert_eq!(stood(), 2);
    cluster.weather(0).no_gives.store(false, Ordering::SeqCst);
    let ann = playing.end(&cluster.world);
    assert_eq!((ann.at, ann.rolled_back, hooks(&cluster.world)), (0, 0, (0, 0)));
    cluster.assert_one_line_of_ticks();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_given_plainly_is_not_waited_for_longer_than_a_step() {
    let cluster = Cluster::of(2).await;
    let playing = cluster.play(0, "ann");
    let shard = playing.shard();
    let term = cluster.node(0).ownership.fence(shard).unwrap().term();
    cluster.net.cut();
    cluster.weather(0).no_gives.store(true, Ordering::SeqCst);
    cluster.node(0).ownership.drain().await;
    let newer = || cluster.node(0).ownership.fence(shard).is_some_and(|fence| fence.term() > term);
    cluster.world.until("the store refused it, and it is here under a new term", newer);
    let offers = cluster.net.attempts(shard, Kind::Offer);
    assert_eq!(offers.len(), 2, "then it was given without a word: {offers:?}");
    let tick = || cluster.world.view(&playing.room).tick;
    let last = tick();
    cluster.world.until("it goes on (H5)", || tick() > last + 2);
    cluster.weather(0).no_gives.store(false, Ordering::SeqCst);
    cluster.world.until("it is the other's", || cluster.owners(&playing.room) == [1]);
    let ann = playing.end(&cluster.world);
    assert_eq!((ann.at, ann.rolled_back, hooks(&cluster.world)), (1, 0, (0, 0)));
    cluster.assert_one_line_of_ticks();
}

/// Something about a move, from who it may be to a node of this cluster.
fn said(cluster: &Cluster, from: &str, to: usize, attempt: Attempt, step: Step) -> PeerMessage {
    PeerMessage {
        from: IncarnationId::new(from).unwrap(),
        reply: "nowhere".into(),
        to: cluster.node(to).ownership.incarnation().unwrap(),
        body: PeerBody::Handoff(attempt, step),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_count_only_from_the_life_that_was_asked() {
    let cluster = Cluster::of(2).await;
    let playing = cluster.play(0, "ann");
    let shard = playing.shard();
    cluster.net.rule(shard, Kind::Offer, 1, Fate::Held);
    cluster.node(0).ownership.drain().await;
    cluster.world.until("it asks", || cluster.net.count(shard, Kind::Offer) == 1);
    let all = cluster.net.said();
    let attempt = all.iter().find_map(|(_, message)| match &message.body {
        PeerBody::Handoff(attempt, Step::Offer { .. }) if attempt.shard == shard => Some(*attempt),
        _ => None,
    });
    let ready = said(&cluster, "b#of-before", 0, attempt.expect("asked"), Step::Ready);
    cluster.net.deliver(&"a".into(), &ready);
    cluster.world.pass(TIMES.step / 3);
    assert_eq!(cluster.net.count(shard, Kind::Package), 0, "an earlier life of the target says nothing (F3)");
    cluster.world.until("it is the other's", || cluster.owners(&playing.room) == [1]);
    let ann = playing.end(&cluster.world);
    assert_eq!((ann.at, ann.rolled_back, hooks(&cluster.world)), (1, 0, (0, 0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_under_a_term_that_cannot_be_shuts_no_other_out() {
    let cluster = Cluster::of(2).await;
    let playing = cluster.play(0, "ann");
    let shard = playing.shard();
    let wild = Attempt { shard, term: Term(u64::MAX), number: u64::MAX };
    let offer = Step::Offer { versions: Versions::default(), rooms: 0, bytes: 0 };
    for step in [offer, Step::Abort] {
        cluster.net.deliver(&"b".into(), &said(&cluster, "x#1", 1, wild, step));
    }
    cluster.node(0).ownership.drain().await;
    cluster.world.until("it is the other's", || cluster.owners(&playing.room) == [1]);
    assert_eq!(cluster.net.count(shard, Kind::Offer), 1, "the first one is taken");
    assert!(cluster.node(1).ownership.held(shard).unwrap().package.is_some());
    let ann = playing.end(&cluster.world);
    assert_eq!((ann.at, ann.rolled_back, hooks(&cluster.world)), (1, 0, (0, 0)));
    cluster.assert_one_line_of_ticks();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_target_has_no_place_for_is_refused_before_a_room_stands_still() {
    let cluster = Cluster::of(2).await;
    let playing = cluster.play(0, "ann");
    let shard = playing.shard();
    // More than a target makes ready at a time: as if its rooms were that large.
    let term = cluster.node(0).ownership.fence(shard).unwrap().term();
    let large = Step::Offer { versions: Versions::default(), rooms: 1, bytes: 1 << 40 };
    let mut offer = said(&cluster, "x#1", 1, Attempt { shard, term, number: 1_000 }, large);
    offer.reply = "a".into();
    cluster.net.deliver(&"b".into(), &offer);
    cluster.world.until("it is refused", || cluster.net.count(shard, Kind::Refuse) == 1);
    assert_eq!(playing.end(&cluster.world).at, 0);
}

/// The claim is its again: nobody else is there (H9).
#[tokio::test(flavor = "multi_thread")]
async fn c28_a_source_that_drains_takes_back_what_its_only_target_died_with() {
    let mut cluster = Cluster::of(2).await;
    let playing = cluster.play(0, "ann");
    cluster.net.rule(playing.shard(), Kind::Transferred, 1, Fate::Held);
    cluster.node(0).ownership.drain().await;
    cluster.world.until("it is transferred", || cluster.net.held() == 1);
    cluster.crash(1).await;
    cluster.net.release();
    let since = cluster.world.clock.now();
    cluster.world.until("it is the first one's again", || cluster.owners(&playing.room) == [0]);
    assert!(cluster.world.clock.now().since(since) < crate::net::BOUND);
    cluster.world.until("it has all", || cluster.node(0).ownership.shards().len() == SHARDS as usize);
    let room = playing.room.clone();
    let ann = playing.end(&cluster.world);
    assert_eq!((ann.at, ann.rolled_back, hooks(&cluster.world)), (0, 0, (0, 0)));
    cluster.assert_one_line_of_ticks();
    // Whoever comes next has it.
    let new = cluster.world.named("c", &Arc::default()).await;
    let _handoff = crate::net::start(&cluster.world, &cluster.net, &new, "c");
    cluster.world.until("it is given on", || cluster.node(0).ownership.shards().is_empty());
    cluster.world.until("it is held", || new.holds(&room));
}
