//! Whole nodes on a store that forgets, fails over, loses its scripts and stands still: the socket stays, the room goes on from memory, inputs
//! are applied once, terms never go back (the client asserts it: H2, H7), and rewards go on (H6). C26, C27, C35.

use std::time::Duration;

use tenure_shared::Term;

use crate::{
    inputs,
    nodes::{Cluster, Node, SHARDS, can_run, until},
    play, redis, room_of,
    support::{client::Player, process::run},
    take_owner,
};

const REWARDS: &str = "[[schedule]]\nid = \"often\"\nevery = \"1s\"\nrooms = \"arena/*/*\"\naudience = \"present\"\ngrant = { gold = 1 }\n";

/// Two room nodes and a gateway, with a reward each second.
fn start(cluster: &Cluster, more: &[&str]) -> (Vec<Node>, Node) {
    let file = cluster.dir.path().join("rewards.toml");
    std::fs::write(&file, REWARDS).expect("written");
    let rewards = format!("rewards.file={}", file.display());
    let all: Vec<&str> = [rewards.as_str()].into_iter().chain(more.iter().copied()).collect();
    let nodes = ["a", "b"].map(|name| cluster.start(name, "room", &all));
    let gateway = cluster.start("gate", "gateway", &all);
    // Or a room may move for balance in the middle of a test.
    until("half of the shards for each", || {
        let seen = gateway.cluster();
        let shares = seen["members"].as_array()?.iter().filter_map(|member| member["shards"].as_u64());
        (shares.filter(|n| *n == u64::from(SHARDS) / 2).count() == 2).then_some(())
    });
    (nodes.into(), gateway)
}

/// Grants of three more occurrences are shown, and each is shown once.
async fn rewarded(player: &mut Player) {
    let before = player.grants.len();
    player.until("rewards go on", |p| p.grants.len() >= before + 3).await;
    let mut due: Vec<_> = player.grants.iter().filter_map(|grant| grant.scheduled_for).collect();
    let all = due.len();
    due.sort_unstable();
    due.dedup();
    assert_eq!(due.len(), all, "one was shown twice");
}

/// The histories that survive have one owner per term.
fn history_is_clean(cluster: &Cluster, more: &[&str]) {
    let settings = cluster.settings(&[&["admin.listen=127.0.0.1:1"], more].concat());
    let words: Vec<&str> = ["history", "check"].into_iter().chain(settings.iter().map(String::as_str)).collect();
    let (exit, out, err) = run(&words, cluster.dir.path());
    assert_eq!(exit, Some(0), "{out}{err}");
}

fn forgot(cluster: &Cluster, names: &[&str]) -> bool {
    names.iter().any(|name| cluster.log(name).contains("the store has forgotten what it had acknowledged"))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_emptied_store_costs_no_room_no_seat_and_no_input() {
    if !can_run() {
        return;
    }
    let cluster = Cluster::new();
    let (mut nodes, gateway) = start(&cluster, &[]);
    let mut ada = Player::join(&gateway.ws(), "arena", "flush").await;
    let (room, seat, mut sent) = (room_of(&ada), ada.joined.as_ref().expect("joined").seat, 0);
    play(&mut ada, &mut sent, 20).await;
    rewarded(&mut ada).await;
    for _ in 0..3 {
        let term = ada.shown.0;
        cluster.call("FLUSHALL");
        ada.until("a new term, from memory", |p| p.shown.0 > term).await;
        play(&mut ada, &mut sent, 20).await;
        rewarded(&mut ada).await;
    }
    assert_eq!((ada.joined.as_ref().expect("joined").seat, ada.rolled_back), (seat, 0));
    assert!(forgot(&cluster, &["a", "b"]), "an alarm names it");
    // What was only in memory is stored again: another node can take it over.
    ada.until("all of it is saved again", |p| p.saved == sent).await;
    take_owner(&mut nodes, &gateway, &room).kill();
    play(&mut ada, &mut sent, 20).await;
    assert_eq!(inputs(&ada), Some(sent));
    rewarded(&mut ada).await;
    history_is_clean(&cluster, &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_stands_still_and_loses_its_scripts_costs_no_tick() {
    if !can_run() {
        return;
    }
    let cluster = Cluster::new();
    let (_nodes, gateway) = start(&cluster, &[]);
    let mut ada = Player::join(&gateway.ws(), "arena", "still").await;
    let mut sent = 0;
    play(&mut ada, &mut sent, 20).await;
    let term = ada.shown.0;
    cluster.call("SCRIPT FLUSH");
    rewarded(&mut ada).await;
    play(&mut ada, &mut sent, 20).await;
    assert_eq!(ada.shown.0, term, "no lease was lost");
    cluster.pause_store(Duration::from_secs(5));
    ada.until("a new term, from memory", |p| p.shown.0 > term).await;
    play(&mut ada, &mut sent, 20).await;
    rewarded(&mut ada).await;
    assert_eq!(ada.rolled_back, 0);
    assert!(!forgot(&cluster, &["a", "b", "gate"]), "it forgot nothing");
    history_is_clean(&cluster, &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_that_loses_the_last_writes_repeats_no_term_and_stops_no_reward() {
    if !redis::available() {
        return;
    }
    let mut sentinels = redis::Sentinels::start(&[]);
    let cluster = Cluster::on(sentinels.url());
    let more = ["store.accept_loss=true"];
    let (_nodes, gateway) = start(&cluster, &more);
    let mut ada = Player::join(&gateway.ws(), "arena", "failover").await;
    let mut sent = 0;
    play(&mut ada, &mut sent, 20).await;
    rewarded(&mut ada).await;
    // The replicas hear no more; what is acknowledged now is lost.
    sentinels.servers[1..].iter().for_each(redis::Server::pause);
    sentinels.servers[0].call(&["CLIENT", "KILL", "TYPE", "replica"]);
    let lost = ada.grants.len();
    ada.until("rewards that will be lost", |p| p.grants.len() >= lost + 2).await;
    play(&mut ada, &mut sent, 20).await;
    let (former, term): (u16, Term) = (sentinels.servers[0].port, ada.shown.0);
    sentinels.servers[0].kill();
    sentinels.servers[1..].iter().for_each(redis::Server::resume);
    sentinels.failed_over(former);
    ada.until("a new term, from memory", |p| p.shown.0 > term).await;
    play(&mut ada, &mut sent, 20).await;
    let before = ada.grants.len();
    ada.until("rewards go on", |p| p.grants.len() >= before + 3).await;
    until("readiness", || (gateway.page("/ready").0 == 200).then_some(()));
    history_is_clean(&cluster, &more);
}
