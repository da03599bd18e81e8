//! Random command sequences get the same answers, times and terms included, from Redis and from the model in memory.

#[path = "support/redis/mod.rs"]
mod redis;

use tenure::{
    runtime::{Clock, Rng, Wall},
    store::{
        self,
        conformance::random::{self, Op},
    },
};

/// Sequences, and commands in each.
const SEQUENCES: u64 = 24;
const LENGTH: usize = 60;

async fn compare(url: &str, flush: impl Fn()) {
    let mut granted = 0;
    for seed in 0..SEQUENCES {
        flush();
        let rng = Rng::seeded(seed);
        let ops: Vec<Op> = (0..LENGTH).map(|_| Op::draw(&rng)).collect();
        let (clock, hand) = Clock::manual(Wall(redis::START));
        let (options, time) = redis::timed();
        let advance = |by| {
            hand.advance(by);
            redis::pass(&time, by);
        };
        let answers = random::compare(&ops, &store::memory(clock), redis::open(url, options), advance, None).await;
        granted += answers.unwrap_or_else(|text| panic!("seed {seed}: {text}"));
    }
    assert!(granted * 4 > LENGTH * SEQUENCES as usize, "hardly anything was granted: {granted}");
}

#[tokio::test]
async fn one_server_answers_as_the_model() {
    if !redis::available() {
        return;
    }
    let server = redis::Server::start(&[]);
    compare(&server.url(), || assert!(server.call(&["FLUSHALL"]).starts_with("+OK"), "flushed")).await;
}

#[tokio::test]
async fn a_cluster_answers_as_the_model() {
    if !redis::available() {
        return;
    }
    let cluster = redis::Cluster::start();
    compare(&cluster.url(), || cluster.flush()).await;
}
