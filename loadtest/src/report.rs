//! What a run prints and writes: the summary, JSON and a page with charts.

use std::{fmt::Write as _, fs, path::Path};

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::{
    args::RunArgs,
    host,
    run::Outcome,
    stats::Times,
    verdict::{Verdict, delivered},
};

mod html;
mod svg;

/// Writes a line to stdout; a reader that is gone is no fault of the run.
pub(crate) fn say(line: &str) {
    use std::io::Write as _;
    let _reader_gone = writeln!(std::io::stdout(), "{line}");
}

pub(crate) fn times(times: &Times) -> Value {
    let at = |share| (times.quantile_ms(share) * 1000.0).round() / 1000.0;
    json!({
        "count": times.count(), "p50": at(0.5), "p90": at(0.9), "p95": at(0.95), "p99": at(0.99), "p999": at(0.999),
        "max": times.max_ms(),
    })
}

/// CPU of the server per delivered frame, µs.
pub(crate) fn cpu_per_frame(outcome: &Outcome) -> Option<f64> {
    let frames = outcome.counters.frames.max(1) as f64;
    outcome.server_cpu.map(|seconds| seconds * 1e6 / frames)
}

/// All figures of a run.
pub(crate) fn figures(scenario: &str, outcome: &Outcome, verdict: &Verdict, more: &Value) -> Value {
    let window = outcome.window.as_secs_f64().max(0.001);
    let rate = |n: u64| n as f64 / window;
    let (stats, counters) = (&outcome.stats, &outcome.counters);
    let checks: Vec<_> = verdict
        .checks
        .iter()
        .map(|c| json!({ "name": c.name, "found": c.found, "bound": c.bound, "holds": c.holds }))
        .collect();
    let seconds: Vec<_> = outcome.seconds.iter().map(|s| json!({
        "at": s.at, "playing": s.playing, "frames": s.frames, "megabytes": s.megabytes, "inputs": s.inputs,
        "p50_ms": s.p50, "p99_ms": s.p99, "drops": s.drops, "server_cpu": s.server_cpu, "server_rss_mib": s.server_rss,
    })).collect();
    json!({
        "scenario": scenario,
        "result": verdict.word(),
        "exit_code": verdict.exit_code(),
        "players": outcome.players,
        "rooms": outcome.rooms,
        "threads": outcome.threads,
        "joined_in_s": outcome.joined_in.as_secs_f64(),
        "window_s": window,
        "frames_per_s": rate(counters.frames),
        "megabytes_per_s": rate(counters.bytes) / 1e6,
        "bytes_per_message": counters.bytes as f64 / counters.messages.max(1) as f64,
        "inputs_per_s": rate(counters.sent),
        "delivered_percent": delivered(outcome),
        "latency_ms": times(&stats.latency),
        "tick_lateness_ms": times(&stats.lateness),
        "pause_ms": times(&stats.pauses),
        "between_terms_ms": times(&stats.terms),
        "moved_ms": times(&stats.moved),
        "join_ms": times(&stats.join_time),
        "resume_ms": times(&stats.resume_time),
        "own_lag_ms": times(&stats.own_lag),
        "window": counters.json(),
        "total": stats.counters.json(),
        "drops": stats.drops,
        "own_failures": stats.own_failures,
        "refusals": stats.refusals,
        "server_cpu_cores": outcome.server_cpu.map(|cpu| cpu / window),
        "server_cpu_us_per_frame": cpu_per_frame(outcome),
        "server_rss_mib": outcome.server_rss,
        "own_cpu_cores": outcome.own_cpu / window,
        "machine_idle_percent": outcome.idle.map(|idle| idle * 100.0),
        "checks": checks,
        "invalid": verdict.invalid,
        "busy": verdict.busy,
        "more": more,
        "seconds": seconds,
    })
}

/// Prints the summary and writes the files that are wanted.
///
/// # Errors
/// When a file cannot be written.
pub(crate) fn publish(
    args: &RunArgs,
    scenario: &str,
    outcome: &Outcome,
    verdict: &Verdict,
    more: &Value,
) -> anyhow::Result<()> {
    let figures = figures(scenario, outcome, verdict, more);
    if let Some(file) = &args.json {
        write(file, &serde_json::to_string_pretty(&figures)?)?;
    }
    if let Some(file) = &args.report {
        write(file, &html::page(&figures))?;
    }
    say(&details(outcome));
    for check in &verdict.checks {
        say(&format!(
            "  {} {}: {} ({})",
            if check.holds { "ok  " } else { "FAIL" },
            check.name,
            check.found,
            check.bound
        ));
    }
    verdict.invalid.iter().for_each(|why| say(&format!("  INVALID {why}")));
    verdict.busy.iter().for_each(|why| say(&format!("  INVALID as to times: {why}")));
    say(&summary(scenario, outcome, verdict));
    Ok(())
}

pub(crate) fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

fn details(outcome: &Outcome) -> String {
    let (stats, counters) = (&outcome.stats, &outcome.counters);
    let window = outcome.window.as_secs_f64().max(0.001);
    let mut out = String::new();
    let mut line = |name: &str, text: String| {
        // Writing to a String cannot fail.
        let _infallible = writeln!(out, "  {name:<18} {text}");
    };
    let spread = |t: &Times| {
        format!(
            "p50 {:.1}  p95 {:.1}  p99 {:.1}  p99.9 {:.1}  max {:.1} ms  ({} samples)",
            t.quantile_ms(0.5),
            t.quantile_ms(0.95),
            t.quantile_ms(0.99),
            t.quantile_ms(0.999),
            t.max_ms(),
            t.count()
        )
    };
    line(
        "joined",
        format!(
            "{} of {} in {:.1} s, join {}",
            stats.counters.joins,
            outcome.players,
            outcome.joined_in.as_secs_f64(),
            spread(&stats.join_time)
        ),
    );
    line("input to visible", spread(&stats.latency));
    line("tick lateness", spread(&stats.lateness));
    line("longest pause", format!("{:.1} ms", stats.pauses.max_ms()));
    if stats.terms.count() > 0 {
        line("between terms", spread(&stats.terms));
    }
    if stats.moved.count() > 0 {
        line("new socket", spread(&stats.moved));
    }
    line(
        "frames",
        format!(
            "{:.0}/s, {:.1} % delivered, {} ticks missed, {} snapshots, {:.2} MB/s, {:.0} bytes each",
            counters.frames as f64 / window,
            delivered(outcome),
            counters.missed_ticks,
            counters.snapshots,
            counters.bytes as f64 / window / 1e6,
            counters.bytes as f64 / counters.messages.max(1) as f64
        ),
    );
    line(
        "inputs",
        format!(
            "{} planned, {} sent, {} late, {} again, {} withheld, {} unanswered, {} refused",
            counters.planned,
            counters.sent,
            counters.sent_late,
            counters.sent_again,
            counters.withheld,
            stats.counters.unanswered,
            counters.refused
        ),
    );
    let causes = |all: &std::collections::BTreeMap<String, u64>| {
        if all.is_empty() {
            return "none".to_owned();
        }
        all.iter().map(|(cause, n)| format!("{n} × {cause}")).collect::<Vec<_>>().join(", ")
    };
    line("lost", causes(&stats.drops));
    if stats.resume_time.count() > 0 {
        line(
            "back again",
            format!(
                "{} resumed, {} seats lost, {}",
                stats.counters.resumes,
                stats.counters.seats_lost,
                spread(&stats.resume_time)
            ),
        );
    }
    if !stats.refusals.is_empty() {
        line("refused", causes(&stats.refusals));
    }
    if !stats.own_failures.is_empty() {
        line("own failures", causes(&stats.own_failures));
    }
    if let (Some(cpu), Some(each)) = (outcome.server_cpu, cpu_per_frame(outcome)) {
        line(
            "server",
            format!(
                "{:.2} cores, {each:.1} µs per frame, {:.0} MiB at most",
                cpu / window,
                outcome.server_rss.unwrap_or(0.0)
            ),
        );
    }
    line(
        "bots",
        format!(
            "{:.2} cores on {} threads{}, own lag {}, machine {:.0} % idle",
            outcome.own_cpu / window,
            outcome.threads,
            host::priority(),
            spread(&stats.own_lag),
            outcome.idle.unwrap_or(0.0) * 100.0
        ),
    );
    out.trim_end().to_owned()
}

fn summary(scenario: &str, outcome: &Outcome, verdict: &Verdict) -> String {
    let (stats, window) = (&outcome.stats, outcome.window.as_secs_f64().max(0.001));
    format!(
        "{} {scenario}: {} players in {} rooms for {window:.0} s, p50 {:.1} ms, p99 {:.1} ms, {:.0} frames/s ({:.1} %), lateness p99 {:.1} ms, {} lost",
        verdict.word(),
        outcome.players,
        outcome.rooms,
        stats.latency.quantile_ms(0.5),
        stats.latency.quantile_ms(0.99),
        outcome.counters.frames as f64 / window,
        delivered(outcome),
        stats.lateness.quantile_ms(0.99),
        stats.drop_count()
    )
}
