//! Hosts of daemons are killed and stopped under load, and replaced by a build with another number of them: each index lives again in time,
//! and none ever lives twice, by the store's history and by what each daemon counted under its fence.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::SliceRandom};
use serde_json::{Value, json};
use tokio::time::sleep;

use self::books::Books;
use super::on_cluster::{self, Plot};
use crate::{
    admin,
    args::RunArgs,
    cluster::{Cluster, Member},
    fleet::Counts,
    report,
    run::Outcome,
    stats::Times,
    verdict::{self, Verdict},
};

mod books;

/// The set of the demo.
const SET: &str = "census";
/// The lease of the default configuration, and how long after its end each index must run again.
const LEASE: Duration = Duration::from_secs(3);
const AFTER_LEASE: Duration = Duration::from_secs(1);
/// How often each daemon counts.
const ENTRY: Duration = Duration::from_millis(100);
/// Longest that is waited for all of them.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(50);
/// A stopped host goes on at a time from this to three times as much after it was stopped: before its lease ends, and well after.
const STOPPED: Duration = Duration::from_secs(3);

/// Runs the scenario.
///
/// # Errors
/// When it cannot run.
pub(crate) async fn run(args: &RunArgs) -> anyhow::Result<u8> {
    on_cluster::run(&with_revision(args, 1), "daemons", &mut Hosts::default()).await
}

fn with_revision(args: &RunArgs, revision: u32) -> RunArgs {
    let mut args = args.clone();
    args.server_arg.extend(["--set".to_owned(), format!("node.revision={revision}")]);
    args
}

/// One look at the set.
struct Seen {
    agreed: String,
    /// By index: node, when it started (store's clock, microseconds), whether it runs.
    rows: Vec<(Option<String>, u64, bool)>,
}

impl Seen {
    fn is_whole(&self) -> bool {
        !self.rows.is_empty() && !self.agreed.contains("after") && self.rows.iter().all(|(.., runs)| *runs)
    }

    fn on(&self, node: &str) -> Vec<usize> {
        let here =
            |(index, row): (usize, &(Option<String>, u64, bool))| (row.0.as_deref() == Some(node)).then_some(index);
        self.rows.iter().enumerate().filter_map(here).collect()
    }
}

/// What was done, and what was seen of it.
#[derive(Default)]
struct Hosts {
    kills: u32,
    stops: u32,
    deploys: u32,
    /// From the end of a host to the start of each of its daemons elsewhere.
    again: Times,
    /// From the end of the last node of a deploy until all of the new number run.
    changed: Times,
    /// The numbers of daemons that were agreed on, in order.
    numbers: Vec<usize>,
    books: Books,
    problems: Vec<String>,
}

fn micros() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
}

/// How the set is doing, as the first node says that answers.
async fn look(cluster: &Cluster) -> anyhow::Result<Seen> {
    let mut why = anyhow::anyhow!("no node runs");
    for admin in cluster.nodes.iter().filter_map(|member| member.running.as_ref()?.admin) {
        match admin::ask(admin, "GET", "/admin/daemons").await {
            Ok(report) => {
                let sets = report["sets"].as_array().cloned().unwrap_or_default();
                let set = sets.into_iter().find(|one| one["set"]["name"] == SET).context("the demo has no census")?;
                let rows = set["set"]["daemons"].as_array().context("rows")?.iter();
                let row = |row: &Value| {
                    (
                        row["node"].as_str().map(str::to_owned),
                        row["since"].as_u64().unwrap_or(0),
                        row["stage"] == "running",
                    )
                };
                return Ok(Seen {
                    agreed: set["set"]["agreed"].as_str().unwrap_or_default().to_owned(),
                    rows: rows.map(row).collect(),
                });
            }
            Err(error) => why = error,
        }
    }
    Err(why)
}

/// Waits until the set is as wanted; `None`: it never was.
async fn until(cluster: &Cluster, wanted: impl Fn(&Seen) -> bool) -> Option<Seen> {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        if let Ok(seen) = look(cluster).await
            && wanted(&seen)
        {
            return Some(seen);
        }
        sleep(LOOK).await;
    }
    None
}

/// Asks one daemon.
async fn ask(cluster: &Cluster, index: usize, message: &str) -> anyhow::Result<Value> {
    let nodes = cluster.nodes.iter().filter_map(|member| member.running.as_ref()?.admin);
    let path = format!("/admin/daemons/ask?set={SET}&index={index}&message={message}");
    let mut why = anyhow::anyhow!("no node runs");
    for admin in nodes {
        match admin::ask(admin, "POST", &path).await {
            Ok(mut answer) => return Ok(answer["answer"].take()),
            Err(error) => why = error,
        }
    }
    Err(why)
}

impl Hosts {
    fn problem(&mut self, text: String) {
        report::say(&format!("  ! {text}"));
        self.problems.push(text);
    }

    async fn whole(&mut self, cluster: &Cluster, when: &str) -> anyhow::Result<Seen> {
        match until(cluster, Seen::is_whole).await {
            Some(seen) => Ok(seen),
            None => {
                let seen = look(cluster).await?;
                self.problem(format!("{when}: not all run after {PATIENCE:?}: {:?}, {}", seen.rows, seen.agreed));
                Ok(seen)
            }
        }
    }

    /// Waits until what a host had runs elsewhere, and notes how long each took.
    async fn taken_over(&mut self, cluster: &Cluster, had: &[usize], gone: &str, at: u64) {
        let round = format!("round {}, {gone}", self.kills + self.stops);
        let back = |seen: &Seen, index: usize| {
            seen.rows
                .get(index)
                .is_some_and(|(node, since, runs)| *runs && *since > at && node.as_deref() != Some(gone))
        };
        match until(cluster, |seen| had.iter().all(|index| back(seen, *index))).await {
            Some(seen) => {
                for index in had {
                    let since = seen.rows.get(*index).map_or(at, |row| row.1);
                    self.again.record(Duration::from_micros(since.saturating_sub(at)));
                }
            }
            None => self.problem(format!("{round}: of {had:?} some do not run again")),
        }
    }

    /// Kills or stops the host of some, and lets it come back.
    async fn strike(&mut self, cluster: &mut Cluster, kill: bool, rng: &mut StdRng) -> anyhow::Result<()> {
        let seen = self.whole(cluster, "before a fault").await?;
        let hosts: Vec<usize> = (0..cluster.nodes.len())
            .filter(|nth| cluster.nodes.get(*nth).is_some_and(|node| !seen.on(&node.name).is_empty()))
            .collect();
        let nth = *hosts.get(rng.random_range(0..hosts.len().max(1))).context("no node has daemons")?;
        let member = cluster.nodes.get_mut(nth).context("a node")?;
        let (name, had) = (member.name.clone(), seen.on(&member.name));
        if kill {
            let at = micros();
            if let Some(running) = member.running.take() {
                running.kill().await?;
            }
            self.kills += 1;
            self.taken_over(cluster, &had, &name, at).await;
            cluster.nodes.get_mut(nth).context("a node")?.start().await?;
            return Ok(());
        }
        // It may not be asked meanwhile: its process takes connections and never answers.
        let running = member.running.take().context("it runs")?;
        let (at, begin) = (micros(), Instant::now());
        running.pause(true)?;
        let stands = STOPPED.mul_f64(rng.random_range(1.0..3.0));
        self.stops += 1;
        if stands > LEASE + AFTER_LEASE {
            self.taken_over(cluster, &had, &name, at).await;
        }
        sleep(stands.saturating_sub(begin.elapsed())).await;
        running.pause(false)?;
        cluster.nodes.get_mut(nth).context("a node")?.running = Some(running);
        Ok(())
    }

    /// Every room node is replaced by one of the other build, as a rolling update does it.
    async fn deploy(&mut self, args: &RunArgs, cluster: &mut Cluster, named: &mut u32) -> anyhow::Result<()> {
        let before = self.whole(cluster, "before a deploy").await?;
        let old: Vec<Member> = std::mem::take(&mut cluster.nodes);
        let mut ended = Instant::now();
        for mut going in old {
            *named += 1;
            let new = cluster.node(args, *named).await?;
            cluster.nodes.push(new);
            sleep(args.min_ready).await;
            if let Some(running) = going.running.take()
                && !running.stop().await?
            {
                self.problem(format!("{} did not end with 0", going.name));
            }
            ended = Instant::now();
        }
        self.deploys += 1;
        let seen = match until(cluster, |seen| seen.is_whole() && seen.agreed != before.agreed).await {
            Some(seen) => seen,
            None => {
                self.problem(format!("deploy {}: the number did not change: {}", self.deploys, before.agreed));
                look(cluster).await?
            }
        };
        self.changed.record(ended.elapsed());
        self.numbers.push(seen.rows.len());
        Ok(())
    }

    /// Reads the books of all.
    async fn audit(&mut self, cluster: &Cluster) -> anyhow::Result<()> {
        let seen = self.whole(cluster, "at an audit").await?;
        for index in 0..seen.rows.len() {
            let report = ask(cluster, index, "%22Report%22").await?;
            let more = self.books.take(&report)?;
            more.into_iter().for_each(|text| self.problem(text));
        }
        Ok(())
    }
}

impl Plot for Hosts {
    async fn disturb(&mut self, args: &RunArgs, cluster: &mut Cluster, _counts: &Counts) -> anyhow::Result<()> {
        let mut rng = StdRng::seed_from_u64(args.seed);
        let first = self.whole(cluster, "at the start").await?;
        self.numbers.push(first.rows.len());
        for index in 0..first.rows.len() {
            ask(cluster, index, &format!("%7B%22Every%22%3A{}%7D", ENTRY.as_millis())).await?;
        }
        let mut faults = vec![true; args.kills as usize];
        faults.extend(vec![false; args.stops as usize]);
        faults.shuffle(&mut rng);
        for kill in faults {
            self.strike(cluster, kill, &mut rng).await?;
            sleep(args.between.mul_f64(rng.random_range(0.2..1.0))).await;
        }
        self.audit(cluster).await?;
        let Some(other) = args.to_bin.clone() else { return Ok(()) };
        let (programs, mut named) = ([other, cluster.program.clone()], args.nodes);
        for (revision, program) in (2..).zip(programs.iter().cycle()).take(args.deploys as usize) {
            cluster.program.clone_from(program);
            self.deploy(&with_revision(args, revision), cluster, &mut named).await?;
            self.audit(cluster).await?;
        }
        Ok(())
    }

    fn check(&self, outcome: &Outcome, verdict: &mut Verdict) {
        verdict.busy.extend(verdict::busy(outcome.idle, &outcome.stats.own_lag));
        let bound = (LEASE + AFTER_LEASE).as_secs_f64() * 1000.0;
        if self.kills + self.stops > 0 {
            verdict.check("daemons that lost their host", self.again.count() > 0, self.again.count(), "some");
            verdict.check_time("each runs again, slowest", self.again.max_ms(), bound);
        }
        if self.deploys > 0 {
            let changes = self.numbers.windows(2).filter(|pair| pair.first() != pair.last()).count();
            verdict.check(
                "numbers of daemons",
                changes == self.deploys as usize,
                format!("{:?}", self.numbers),
                "another after each deploy",
            );
            verdict.check_time("all of a new number run, slowest", self.changed.max_ms(), bound);
        }
        verdict.check("entries in books", self.books.entries > 0, self.books.entries, "some");
        verdict.check("doubled, missing or late daemons", self.problems.is_empty(), self.problems.len(), 0);
        verdict.check_time("longest without an entry, beyond the time between two", self.books.gaps.max_ms(), bound);
    }

    fn told(&self) -> (String, Value) {
        let Self { kills, stops, deploys, again, changed, numbers, books, problems } = self;
        let line = format!(
            "{kills} kills and {stops} stops of hosts: {} daemons ran again, p50 {:.0} ms, max {:.0} ms; {deploys} deploys, {numbers:?} daemons, \
             changed in {:.0} ms at most; {} activations, {} entries, longest gap {:.0} ms",
            again.count(),
            again.quantile_ms(0.5),
            again.max_ms(),
            changed.max_ms(),
            books.spells,
            books.entries,
            books.gaps.max_ms(),
        );
        let figures = json!({
            "kills": kills, "stops": stops, "deploys": deploys, "numbers": numbers, "again_ms": report::times(again),
            "changed_ms": report::times(changed), "gaps_ms": report::times(&books.gaps), "spells": books.spells,
            "entries": books.entries, "problems": problems,
        });
        (line, figures)
    }
}
