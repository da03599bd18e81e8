//! Bots and bad clients over real sockets against the baseline.

use std::{thread, time::Duration};

use clap::Parser;

use crate::{
    args::{Cli, RunArgs},
    audit::Audit,
    bad::Horde,
    baseline,
    run::{self, Setup},
    verdict::Verdict,
};

/// A baseline on a thread of its own, until the test's process ends: its address.
fn serve(ends: baseline::Ends) -> String {
    let (found, address) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("port");
            found.send(listener.local_addr().expect("address")).expect("the test waits");
            baseline::serve(listener, ends, Default::default()).await
        })
    });
    format!("ws://{}/ws", address.recv().expect("address"))
}

fn args(url: &str, more: &[&str]) -> RunArgs {
    let words = ["loadtest", "--url", url, "--ramp", "100ms", "--warmup", "0s", "--threads", "2"];
    Cli::try_parse_from(words.iter().chain(more)).expect("valid").run
}

async fn outcome(args: &RunArgs, audit: bool) -> run::Outcome {
    let setup = Setup::new(args, 0).await.expect("setup");
    let bar = run::progress();
    let (fleet, joined_in) = run::assemble(args, &setup, audit, &bar).await.expect("all join");
    run::measure(args, &setup, fleet, joined_in, &bar, |time| time < args.duration).await.expect("measured")
}

#[tokio::test]
async fn bots_play_measure_and_leave() {
    let args = args(
        &serve(Default::default()),
        &["--players", "12", "--rooms", "3", "--duration", "1s", "--input-rate", "20"],
    );
    let outcome = outcome(&args, false).await;
    let counters = &outcome.stats.counters;
    assert_eq!((counters.joins, outcome.rooms, outcome.seconds.len()), (12, 3, 1));
    assert!(counters.frames > 12 * 10, "{counters:?}");
    assert!(outcome.stats.latency.count() > 12 * 10, "{counters:?}");
    assert_eq!((counters.unanswered, counters.malformed, counters.went_back), (0, 0, 0), "{counters:?}");
    assert_eq!(outcome.stats.drop_count(), 0, "{:?}", outcome.stats.drops);
    assert_eq!(counters.sent, counters.planned, "{counters:?}");
    assert!(outcome.stats.pauses.max_ms() > 40.0);
}

#[tokio::test]
async fn bots_that_are_cut_off_resume_and_no_input_is_lost_or_doubled() {
    let more = ["--players", "8", "--rooms", "2", "--duration", "2s", "--input-rate", "20"];
    let args = args(&serve(baseline::Ends { cut_after: Some(15), ..Default::default() }), &more);
    let outcome = outcome(&args, true).await;
    let counters = &outcome.stats.counters;
    assert!(counters.resumes >= 8 && outcome.stats.drop_count() >= 8, "{counters:?}");
    let (mut audit, mut verdict) = (Audit::default(), Verdict::default());
    outcome.records.iter().for_each(|record| audit.inputs(record));
    audit.conclude(&mut verdict);
    assert_eq!((verdict.exit_code(), outcome.records.len()), (0, 8), "{verdict:?}");
    assert!(audit.inputs >= 8 * 20, "{}", audit.inputs);
    assert!(counters.seats_lost == 0 && counters.wanted_saved == 0, "{counters:?}");
}

#[tokio::test]
async fn bots_that_are_asked_to_move_take_the_seat_anew_before_they_let_the_old_socket_go() {
    let more = ["--players", "8", "--rooms", "2", "--duration", "2s", "--input-rate", "20"];
    let args = args(&serve(baseline::Ends { move_after: Some(15), ..Default::default() }), &more);
    let outcome = outcome(&args, true).await;
    let counters = &outcome.stats.counters;
    assert!(counters.moves >= 8, "{counters:?}");
    assert_eq!((outcome.stats.drop_count(), counters.resumes), (0, 0), "{:?}", outcome.stats.drops);
    assert_eq!((counters.joins, outcome.stats.playing, counters.seats_lost), (8, 0, 0), "{counters:?}");
    assert!(outcome.stats.moved.count() >= 8);
    let (mut audit, mut verdict) = (Audit::default(), Verdict::default());
    outcome.records.iter().for_each(|record| audit.inputs(record));
    audit.conclude(&mut verdict);
    assert_eq!((verdict.exit_code(), outcome.records.len()), (0, 8), "{verdict:?}");
}

/// A baseline that dies like a killed process: all sockets are gone at once, what was not saved is forgotten.
struct Mortal {
    saves: baseline::Saves,
    address: std::net::SocketAddr,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Mortal {
    fn start(saves: baseline::Saves, address: std::net::SocketAddr) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("runtime");
        let listener = std::net::TcpListener::bind(address).expect("port");
        listener.set_nonblocking(true).expect("listener");
        let address = listener.local_addr().expect("address");
        let rooms = saves.clone();
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            baseline::serve(listener, Default::default(), rooms).await
        });
        Self { saves, address, runtime: Some(runtime) }
    }

    /// Inputs that the rooms have saved.
    fn saved(&self) -> u64 {
        self.saves.lock().expect("no panic").values().map(baseline::Save::inputs).sum()
    }

    fn die_and_come_back(mut self) -> Self {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(5));
        }
        Self::start(self.saves.clone(), self.address)
    }
}

impl Drop for Mortal {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[tokio::test]
async fn a_server_that_dies_and_forgets_gets_every_input_again_and_once() {
    let first = Mortal::start(Default::default(), ([127, 0, 0, 1], 0).into());
    let url = format!("ws://{}/ws", first.address);
    let args = args(&url, &["--players", "8", "--rooms", "2", "--duration", "4s", "--input-rate", "20"]);
    let setup = Setup::new(&args, 0).await.expect("setup");
    let bar = run::progress();
    let (fleet, joined_in) = run::assemble(&args, &setup, true, &bar).await.expect("all join");
    let (alive, workers) = (std::cell::Cell::new(3), fleet.workers());
    let killing = async {
        let mut server = first;
        for left in (0..3).rev() {
            // It dies once bots were shown inputs as applied that its next life will not know.
            let (before, shown) = (server.saved(), || workers.iter().map(|w| w.shard.lock().counters.applied).sum());
            while server.saved() < before + 8 * 10 || server.saved() + 8 * 5 > shown() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            server = tokio::task::spawn_blocking(|| server.die_and_come_back()).await.expect("alive again");
            alive.set(left);
        }
        server
    };
    let measuring = run::measure(&args, &setup, fleet, joined_in, &bar, |time| alive.get() > 0 || time < args.duration);
    let (_last, outcome) = tokio::join!(killing, measuring);
    let outcome = outcome.expect("measured");
    let counters = &outcome.stats.counters;
    let (mut audit, mut verdict) = (Audit::default(), Verdict::default());
    outcome.records.iter().for_each(|record| audit.inputs(record));
    audit.conclude(&mut verdict);
    assert_eq!((verdict.exit_code(), outcome.records.len()), (0, 8), "{verdict:?}");
    assert_eq!((counters.seats_lost, counters.wanted_saved, counters.went_back), (0, 0, 0), "{counters:?}");
    assert!(counters.resumes >= 24 && counters.sent_again >= 8 * 5, "{counters:?}");
}

#[tokio::test]
async fn what_cannot_run_is_told_apart_from_a_bad_run() {
    let url = serve(Default::default());
    let args = args(&url, &["--players", "2"]);
    let refused = |args: RunArgs| async move { Setup::new(&args, 0).await.expect_err("refused").to_string() };
    let http = refused(RunArgs { url: "http://127.0.0.1/ws".into(), ..args.clone() }).await;
    assert!(http.contains("only ws://"), "{http}");
    let none = refused(RunArgs { ready_file: Some("/nowhere/ready.json".into()), ..args }).await;
    assert!(none.contains("No such file"), "{none}");
}

#[tokio::test]
async fn attacks_end_as_expected_where_the_baseline_checks() {
    let url = serve(Default::default());
    let target = crate::net::Target::resolve(&url).await.expect("address");
    let horde = Horde::start(&target, "arena", "local", 1, 23).expect("thread");
    let wanted = ["text message", "false lengths", "bad UTF-8", "claims 2^32 bytes", "10 000 fragments", "no HTTP"];
    let decided = || {
        let tallies = horde.tallies();
        wanted.iter().all(|name| tallies.get(name).is_some_and(|tally| tally.tries > 0))
    };
    let all = async {
        while !decided() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), all).await.expect("every attack is carried out");
    let tallies = horde.finish().await.expect("thread ends");
    for name in wanted {
        let tally = &tallies[name];
        assert!(tally.wrong.is_empty() && tally.met > 0, "{name}: {tally:?}");
    }
    // The baseline looks at no Origin: the check must be able to fail.
    assert!(tallies.get("wrong origin").is_some_and(|tally| !tally.wrong.is_empty()), "{tallies:?}");
}
