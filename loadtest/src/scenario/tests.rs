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
fn serve(cut_after: Option<u64>) -> String {
    let (found, address) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("port");
            found.send(listener.local_addr().expect("address")).expect("the test waits");
            baseline::serve(listener, cut_after).await
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
    let args = args(&serve(None), &["--players", "12", "--rooms", "3", "--duration", "1s", "--input-rate", "20"]);
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
    let args = args(&serve(Some(15)), &more);
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
async fn what_cannot_run_is_told_apart_from_a_bad_run() {
    let url = serve(None);
    let args = args(&url, &["--players", "2"]);
    let refused = |args: RunArgs| async move { Setup::new(&args, 0).await.expect_err("refused").to_string() };
    let http = refused(RunArgs { url: "http://127.0.0.1/ws".into(), ..args.clone() }).await;
    assert!(http.contains("only ws://"), "{http}");
    let none = refused(RunArgs { ready_file: Some("/nowhere/ready.json".into()), ..args }).await;
    assert!(none.contains("No such file"), "{none}");
}

#[tokio::test]
async fn attacks_end_as_expected_where_the_baseline_checks() {
    let url = serve(None);
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
