//! Alternating rounds: the same bots against a server and against the bare baseline, on the same processors.

use std::{path::Path, time::Duration};

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    args::CompareArgs,
    child::{Launch, pinned, scratch},
    report,
};

/// Time between two runs, for sockets to close and caches to settle.
const BETWEEN: Duration = Duration::from_secs(2);
/// Figures whose medians are printed: name, place in the JSON of a run.
const FIGURES: [(&str, &str); 6] = [
    ("CPU per frame, µs", "/server_cpu_us_per_frame"),
    ("server, cores", "/server_cpu_cores"),
    ("frames delivered, %", "/delivered_percent"),
    ("input to visible p99, ms", "/latency_ms/p99"),
    ("tick lateness p99, ms", "/tick_lateness_ms/p99"),
    ("memory, MiB", "/server_rss_mib"),
];

/// Runs the comparison.
///
/// # Errors
/// When a server or the bots cannot be started.
pub(crate) async fn run(args: &CompareArgs) -> anyhow::Result<u8> {
    let folder = scratch("compare")?;
    let me = std::env::current_exe()?;
    let mut runs = [Vec::new(), Vec::new()];
    for round in 1..=args.rounds {
        for (nth, name) in ["server", "baseline"].into_iter().enumerate() {
            let here = folder.join(format!("{name}-{round}"));
            std::fs::create_dir_all(&here)?;
            let mut launch = if nth == 0 {
                Launch::server(&args.server_bin, &here, 0, &args.server_arg)
            } else {
                baseline(&me, &here)
            };
            launch.cpu = Some(args.server_cpu);
            let figures = one(args, &me, &launch, &here).await?;
            let figure = |place: &str| figures.pointer(place).and_then(Value::as_f64).unwrap_or(f64::NAN);
            report::say(&format!(
                "  round {round} {name:<8} {:.1} µs/frame, {:.1} % delivered, p99 {:.1} ms, {}",
                figure(FIGURES[0].1),
                figure(FIGURES[2].1),
                figure(FIGURES[3].1),
                figures["result"].as_str().unwrap_or("?")
            ));
            if let Some(list) = runs.get_mut(nth) {
                list.push(figures);
            }
            sleep(BETWEEN).await;
        }
    }
    std::fs::remove_dir_all(&folder)?;
    conclude(args, &runs)
}

fn baseline(me: &Path, folder: &Path) -> Launch {
    let ready_file = folder.join("ready.json");
    let args = ["baseline", "--listen", "127.0.0.1:0", "--ready-file"].map(str::to_owned);
    let args = args.into_iter().chain([ready_file.display().to_string()]).collect();
    Launch { program: me.to_owned(), args, ready_file, log: folder.join("server.log"), cpu: None, faults: None }
}

/// One run of this program's bots against a fresh server.
async fn one(args: &CompareArgs, me: &Path, launch: &Launch, folder: &Path) -> anyhow::Result<Value> {
    let server = launch.start().await?;
    let json = folder.join("bots.json");
    let mut bots = pinned(me, Some(args.load_cpu));
    bots.args(["--url", &server.url, "--players", &args.players.to_string(), "--threads", "1"]);
    if let Some(pid) = server.pid {
        bots.args(["--pid", &pid.to_string()]);
    }
    bots.args(["--duration", &format!("{}ms", args.duration.as_millis())]).arg("--json").arg(&json);
    let output = bots.kill_on_drop(true).output().await.context("cannot start the bots")?;
    server.stop().await?;
    let text = std::fs::read_to_string(&json)
        .with_context(|| format!("the bots failed: {}", String::from_utf8_lossy(&output.stdout).trim()))?;
    Ok(serde_json::from_str(&text)?)
}

fn conclude(args: &CompareArgs, runs: &[Vec<Value>; 2]) -> anyhow::Result<u8> {
    let median_of = |runs: &[Value], place: &str| {
        median(runs.iter().filter_map(|figures| figures.pointer(place).and_then(Value::as_f64)).collect())
    };
    let mut medians = serde_json::Map::new();
    for (name, place) in FIGURES {
        let [server, baseline] = [0, 1].map(|nth| median_of(&runs[nth], place));
        let ratio = server.zip(baseline).map(|(server, baseline)| server / baseline);
        let text = |n: Option<f64>| n.map_or("?".to_owned(), |n| format!("{n:.2}"));
        report::say(&format!(
            "  {name:<26} server {:>9}  baseline {:>9}  ratio {}",
            text(server),
            text(baseline),
            text(ratio)
        ));
        medians.insert(name.to_owned(), json!({ "server": server, "baseline": baseline, "ratio": ratio }));
    }
    let ratio = medians.get(FIGURES[0].0).and_then(|row| row["ratio"].as_f64());
    let void = runs.iter().flatten().filter(|figures| figures["exit_code"] == 2).count();
    let all = runs.iter().map(Vec::len).sum::<usize>();
    if let Some(file) = &args.json {
        let value = json!({ "players": args.players, "medians": medians, "invalid_runs": void, "runs": runs });
        report::write(file, &serde_json::to_string_pretty(&value)?)?;
    }
    let code = match (ratio, args.max_ratio) {
        (None, _) => 2,
        _ if void * 2 > all => 2,
        (Some(ratio), Some(bound)) if ratio > bound => 1,
        (Some(_), _) => 0,
    };
    let word = ["PASS", "FAIL", "INVALID"][code];
    let ratio = ratio.map_or("?".to_owned(), |ratio| format!("{ratio:.2}"));
    report::say(&format!(
        "{word} compare: {} players, CPU per delivered frame {ratio} × baseline, medians of {} rounds, {void} of {all} runs void",
        args.players, args.rounds
    ));
    Ok(code as u8)
}

fn median(mut all: Vec<f64>) -> Option<f64> {
    all.sort_by(f64::total_cmp);
    let upper = *all.get(all.len() / 2)?;
    let lower = *all.get(all.len().checked_sub(1)? / 2)?;
    Some((lower + upper) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_in_the_middle() {
        assert_eq!(median(vec![9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(vec![1.0, 9.0, 3.0, 5.0]), Some(4.0));
        assert_eq!(median(vec![]), None);
    }

    #[test]
    fn the_ratio_decides_and_void_runs_do_not() {
        let args = |max_ratio| CompareArgs {
            server_bin: "demo".into(),
            server_arg: vec![],
            players: 100,
            rounds: 1,
            duration: Duration::from_secs(1),
            server_cpu: 0,
            load_cpu: 1,
            max_ratio,
            json: None,
        };
        let run = |us: f64, code: u8| vec![json!({ "server_cpu_us_per_frame": us, "exit_code": code })];
        let code =
            |max, server: Vec<Value>, baseline: Vec<Value>| conclude(&args(max), &[server, baseline]).expect("no file");
        assert_eq!(code(Some(1.25), run(12.0, 0), run(10.0, 0)), 0);
        assert_eq!(code(Some(1.25), run(13.0, 0), run(10.0, 0)), 1);
        assert_eq!(code(Some(1.25), run(12.0, 2), run(10.0, 2)), 2);
        assert_eq!(code(None, vec![json!({})], run(10.0, 0)), 2);
    }
}
