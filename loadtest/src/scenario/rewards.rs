//! Schedules and due work pay everybody while the owner of rooms dies at the worst moments, the store is restarted and the file changes. Then
//! ledgers, completed work and the rooms' own books must agree: each occurrence decided once, each grant applied once, nothing too early.

use std::{
    path::Path,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::Context as _;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};
use tokio::time::sleep;

use self::{
    file::{File, PERIOD, Text},
    judge::Judge,
    place::Place,
};
use super::{
    kill::verb,
    on_cluster::{self, Plot},
};
use crate::{
    args::RunArgs,
    audit::Audit,
    child::{Launch, scratch},
    cluster::Cluster,
    fleet::Counts,
    report,
    run::Outcome,
    verdict::Verdict,
};

mod file;
mod judge;
mod place;
mod single;

/// Where the owner dies, and when it comes there for which time, if it has all rooms; and which file is read when it is back.
const POINTS: [(&str, u32, Option<Text>); 4] = [
    ("work.committing", 40, Some(Text::First)),
    ("work.committed", 40, Some(Text::Wrong)),
    ("grants.between", 100, Some(Text::Second)),
    ("grants.telling", 100, None),
];
/// The same of a short run.
const FEW: [(&str, u32, Option<Text>); 1] = [("work.committed", 40, Some(Text::Second))];
/// Time to come to such a point, and how often it is tried.
const REACH: Duration = Duration::from_secs(20);
const TRIES: usize = 4;
/// Rooms play on for so long between two things that happen to them.
const BETWEEN: Duration = Duration::from_secs(2);
/// A lease of the default configuration, and some more: then others have taken over.
const TAKEN_OVER: Duration = Duration::from_millis(3_500);
/// A bot that heard nothing for so long is waiting, and may wait so long.
const SILENCE: Duration = Duration::from_secs(1);
const HEARD_AGAIN: Duration = Duration::from_secs(20);
/// How long the store is away, longer than a lease; it goes within so long of an instant at which everything is due, while pages of
/// occurrences are on their way to it.
const AWAY: Duration = Duration::from_secs(3);
const ON_ITS_WAY: Duration = Duration::from_millis(250);
/// Rooms follow a new file within two seconds; one occurrence may be on its way.
const FOLLOWED: Duration = Duration::from_secs(4);
/// Time for everything that is pending to be cancelled or done, and from then to the last grant and the last word of the books.
const CANCELLED: Duration = Duration::from_secs(30);
const SETTLED: Duration = Duration::from_millis(2_500);

/// Runs the scenario.
///
/// # Errors
/// When it cannot run.
pub(crate) async fn run(args: &RunArgs) -> anyhow::Result<u8> {
    let program = args.server_bin.as_deref().context("--scenario rewards needs --server-bin PATH")?;
    anyhow::ensure!(args.players >= 4 * args.room_count(), "of each room some bots leave and some stay: four at least");
    let folder = scratch("rewards-file")?;
    let file = File::new(&folder, &args.kind, now_us());
    file.write(Text::First)?;
    let mut with = args.clone();
    // Small pages, so that a decision takes several ticks.
    let more = ["--rewards", &file.path(), "--set", "room.max_grants_per_step=3"];
    with.server_arg.extend(more.map(str::to_owned));
    let mut payday = Payday::new(args, file, has_points(program).await?);
    let result = if args.embedded {
        single::run(&with, program, &mut payday).await
    } else {
        on_cluster::run(&with, "rewards", &mut payday).await
    };
    std::fs::remove_dir_all(&folder)?;
    result
}

/// Whether this build can be ended at a point.
async fn has_points(program: &Path) -> anyhow::Result<bool> {
    let mut command = tokio::process::Command::new(program);
    command.args(["config", "check"]).env(crate::child::FAULTS, "work.committing=kill").kill_on_drop(true);
    let output = command.output().await.with_context(|| format!("cannot run {}", program.display()))?;
    Ok(output.status.success())
}

/// The time of this machine's clock, µs: the store's too, since it runs here.
fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// What happens, and what was seen of it.
struct Payday {
    file: File,
    points: bool,
    rng: StdRng,
    /// How the owner died, in order; and points to which it never came.
    deaths: Vec<String>,
    missed: Vec<&'static str>,
    stores_restarted: u32,
    judge: Judge,
    stayed_mute: u64,
    rounds: u32,
    few: bool,
}

impl Payday {
    fn new(args: &RunArgs, file: File, points: bool) -> Self {
        Self {
            file,
            points,
            rng: StdRng::seed_from_u64(args.seed),
            deaths: Vec::new(),
            missed: Vec::new(),
            stores_restarted: 0,
            judge: Judge::default(),
            stayed_mute: 0,
            rounds: args.rounds,
            few: args.few,
        }
    }

    async fn run(&mut self, place: &mut Place<'_>, counts: &Counts) -> anyhow::Result<()> {
        // All are known to their rooms by now.
        self.judge.known_since = now_us();
        sleep(BETWEEN).await;
        self.kill(place).await?;
        let (points, rounds): (&[_], _) = if self.few { (&FEW, 1) } else { (&POINTS, self.rounds) };
        for round in 0..rounds {
            for &(point, times, text) in points {
                if self.points {
                    self.die_at(point, times, place).await?;
                } else {
                    place.start(None).await?;
                    self.heard(counts).await;
                    self.kill(place).await?;
                }
                if let Some(text) = text.filter(|_| round == 0) {
                    self.again(place, counts, text).await?;
                }
            }
        }
        place.start(None).await?;
        self.heard(counts).await;
        let due = PERIOD - now_us() % PERIOD;
        sleep(Duration::from_micros(due) + ON_ITS_WAY.mul_f64(self.rng.random_range(0.0..1.0))).await;
        if place.restart_store(AWAY).await? {
            self.stores_restarted += 1;
            self.heard(counts).await;
        }
        self.stayed_mute = u64::from(counts.watch.longest_silence() >= SILENCE);
        self.reload(place, Text::Empty).await?;
        self.judge.pending = until_nothing_is_pending(&place.asked()?).await?;
        // The last grants are on their way, and the books are shown each second.
        sleep(SETTLED).await;
        self.judge.take_done(&ask(&place.asked()?, &["work", "done", "--json"]).await?)
    }

    /// The owner comes back, and the file is read again while it runs.
    async fn again(&mut self, place: &mut Place<'_>, counts: &Counts, text: Text) -> anyhow::Result<()> {
        place.start(None).await?;
        self.heard(counts).await;
        self.reload(place, text).await?;
        if text == Text::Second {
            sleep(FOLLOWED).await;
        }
        self.kill(place).await
    }

    /// SIGKILL at a moment of its own.
    async fn kill(&mut self, place: &mut Place<'_>) -> anyhow::Result<()> {
        sleep(BETWEEN.mul_f64(self.rng.random_range(0.0..0.5))).await;
        place.kill().await?;
        self.deaths.push("at any moment".to_owned());
        self.mourn(place).await;
        Ok(())
    }

    /// SIGKILL when it comes to a point of its code.
    async fn die_at(&mut self, point: &'static str, times: u32, place: &mut Place<'_>) -> anyhow::Result<()> {
        let times = (times / place.owners()).max(1);
        let fault = format!("{point}=kill@{times}");
        let mut runs = place.start(Some(fault.clone())).await?;
        for nth in 0..TRIES {
            if !runs || place.died(REACH / place.owners()).await? {
                self.deaths.push(format!("at {point}"));
                self.mourn(place).await;
                return Ok(());
            }
            if !place.shift(nth, TAKEN_OVER).await? {
                place.kill().await?;
                runs = place.start(Some(fault.clone())).await?;
            }
        }
        place.kill().await?;
        self.mourn(place).await;
        self.missed.push(point);
        Ok(())
    }

    /// In a cluster others take over first.
    async fn mourn(&self, place: &Place<'_>) {
        if place.is_cluster() {
            sleep(TAKEN_OVER).await;
        }
    }

    /// Waits until all bots hear their rooms, and lets them play.
    async fn heard(&self, counts: &Counts) {
        let begin = Instant::now();
        while counts.watch.longest_silence() >= SILENCE && begin.elapsed() < HEARD_AGAIN {
            sleep(SILENCE / 20).await;
        }
        sleep(BETWEEN).await;
    }

    /// Another file, read by all nodes that run.
    async fn reload(&mut self, place: &Place<'_>, text: Text) -> anyhow::Result<()> {
        self.file.write(text)?;
        for launch in place.nodes() {
            let (code, answer) = verb(&launch, &["schedule", "reload", "--json"]).await?;
            if let Err(why) = text.is_answered(code, &answer) {
                self.judge.reloads.push(format!("{}: {why}: {answer}", text.name()));
            }
        }
        if text == Text::Wrong {
            // Who starts next reads it too.
            self.file.write(Text::First)?;
        }
        self.judge.read(text, now_us());
        Ok(())
    }

    fn conclude(&self, verdict: &mut Verdict) {
        verdict.check("points that the owner came to", self.missed.is_empty(), format!("not {:?}", self.missed), "all");
        verdict.check("bots that stayed mute", self.stayed_mute == 0, self.stayed_mute, 0);
    }

    fn figures(&self) -> (String, Value) {
        let restarts = self.stores_restarted;
        let line = format!(
            "{} deaths ({}), store restarted {restarts} times, file read again {} times; {}",
            self.deaths.len(),
            self.deaths.join(", "),
            self.judge.reads(),
            self.judge.line()
        );
        let more = json!({
            "deaths": self.deaths, "points missed": self.missed, "fault points": self.points, "stores restarted": restarts,
            "judged": self.judge.json(),
        });
        (line, more)
    }
}

impl Plot for Payday {
    async fn disturb(&mut self, _: &RunArgs, cluster: &mut Cluster, counts: &Counts) -> anyhow::Result<()> {
        self.run(&mut Place::Cluster(cluster), counts).await
    }

    fn check(&self, _: &Outcome, verdict: &mut Verdict) {
        self.conclude(verdict);
    }

    fn audited(&self, outcome: &Outcome, audit: &Audit, verdict: &mut Verdict) {
        self.judge.conclude(outcome, audit, verdict);
    }

    fn told(&self) -> (String, Value) {
        self.figures()
    }
}

/// What a command prints as JSON, whatever it thinks of it.
async fn ask(launch: &Launch, words: &[&str]) -> anyhow::Result<Value> {
    let (code, output) = verb(launch, words).await?;
    anyhow::ensure!(matches!(code, Some(0 | 1)), "{words:?}: {output}");
    Ok(serde_json::from_str(&output)?)
}

/// How many items of schedules and of the game are pending, or parked, when nothing changes any more.
async fn until_nothing_is_pending(launch: &Launch) -> anyhow::Result<usize> {
    let begin = Instant::now();
    loop {
        let report = ask(launch, &["work", "list", "--json"]).await?;
        let items = report["items"].as_array().context("a list of work")?;
        let ours = items.iter().filter(|item| !item["job"].as_str().unwrap_or_default().starts_with("tenure/"));
        let count = ours.count();
        if count == 0 || begin.elapsed() > CANCELLED {
            report::say(&format!("  nothing pending {:.1} s after the last file", begin.elapsed().as_secs_f64()));
            return Ok(count);
        }
        sleep(BETWEEN / 4).await;
    }
}
