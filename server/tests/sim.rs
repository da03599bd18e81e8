//! Seeded simulation: whole nodes on simulated time, an in-process network and a simulated store host, faults drawn from one seed, and
//! a checker per invariant. `TENURE_SEED=<n>` replays one seed with its log, `TENURE_SEEDS=<n>` runs so many, from
//! `TENURE_FROM=<n>` on.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::disallowed_methods,
    elided_lifetimes_in_paths,
    unreachable_pub,
    missing_docs,
    dead_code,
    reason = "helpers of tests may fail a test, say what they saw and spawn; the game is shared with another test"
)]

#[path = "sim/bot.rs"]
mod bot;
#[path = "sim/checks.rs"]
mod checks;
#[path = "sim/cluster.rs"]
mod cluster;
#[path = "sim/gateway.rs"]
mod gateway;
#[path = "host_rooms/lab.rs"]
mod lab;
#[path = "sim/moves.rs"]
mod moves;
#[path = "sim/net.rs"]
mod net;
#[path = "sim/node.rs"]
mod node;
#[path = "sim/peers.rs"]
mod peers;
#[path = "sim/said.rs"]
mod said;
#[path = "sim/store.rs"]
mod store;

use cluster::{Break, Outcome, run};

/// Seeds of an ordinary run.
const SEEDS: u64 = 64;
/// Seeds that found something once.
const FOUND: [u64; 4] = [59, 96, 242, 271];

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

fn report(outcome: &Outcome) -> String {
    let seed = outcome.seed;
    format!(
        "seed {seed}: {}\n{}\nreplay: TENURE_SEED={seed} cargo nextest run -p tenure --test sim one_seed --no-capture",
        outcome.wrong.join("; "),
        outcome.log.join("\n")
    )
}

#[test]
fn seeds_keep_every_invariant() {
    let (mut wrong, seeds) = (Vec::new(), number("TENURE_SEEDS").unwrap_or(SEEDS));
    let mut total = cluster::Counts::default();
    let from = number("TENURE_FROM").unwrap_or(1);
    let found = FOUND.into_iter().filter(|seed| number("TENURE_SEEDS").is_none() && *seed > seeds);
    for seed in (from..from + seeds).chain(found) {
        let outcome = run(seed, Break::Nothing);
        total += outcome.counts;
        if !outcome.wrong.is_empty() {
            eprintln!("seed {seed}: {}", outcome.wrong.join("; "));
            wrong.push(report(&outcome));
        }
    }
    eprintln!("{seeds} seeds: {total:?}");
    assert!(wrong.is_empty(), "{} of {seeds} seeds went wrong\n{}", wrong.len(), wrong[0]);
    assert!(total.crashes > 0 && total.takeovers > 0 && total.inputs > 0, "nothing was tried: {total:?}");
    let moves = total.moves;
    let tried = [moves.drains, moves.aimed, moves.moved, moves.prepared, moves.doubts, moves.aborts];
    assert!(seeds < SEEDS || tried.iter().all(|count| *count > 0), "moves were not tried: {moves:?}");
}

/// The tool for a seed that failed; without one it shows the second. Seeds 1 and 215 do not replay exactly every time: something in them still
/// follows an order that is not the seed's (docs/testing.md).
#[test]
fn one_seed_replays_exactly() {
    let given = number("TENURE_SEED");
    let seed = given.unwrap_or(2);
    let (first, again) = (run(seed, Break::Nothing), run(seed, Break::Nothing));
    if given.is_some() {
        eprintln!("{}", first.log.join("\n"));
    }
    let differs = first.log.iter().zip(&again.log).position(|(a, b)| a != b);
    let shown = differs.map(|at| (first.log.get(at), again.log.get(at)));
    assert_eq!(first.hash, again.hash, "the runs differ in line {differs:?}: {shown:?}");
    assert!(first.wrong.is_empty(), "{}", report(&first));
}

/// Whether some seed shows that a rule is broken, and which checker says so.
fn noticed(broken: Break, by: &str) {
    let seen = (1..=40).map(|seed| run(seed, broken)).find(|outcome| outcome.wrong.iter().any(|w| w.starts_with(by)));
    assert!(seen.is_some(), "no seed noticed {broken:?}");
}

#[test]
fn a_store_that_takes_stale_fences_is_noticed() {
    noticed(Break::Fence, "H3");
}

#[test]
fn a_gateway_that_forgets_inputs_is_noticed() {
    noticed(Break::Ring, "H4");
}

#[test]
fn a_ledger_that_takes_a_grant_twice_is_noticed() {
    noticed(Break::Ledger, "H6");
}

#[test]
fn two_nodes_that_both_run_a_shard_are_noticed() {
    noticed(Break::Ready, "H1");
}

#[test]
fn a_shard_that_nobody_serves_is_noticed() {
    noticed(Break::Claims, "C28");
}
