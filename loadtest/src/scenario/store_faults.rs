//! The store of a cluster forgets, fails over, stands still and restarts while bots play. What survives must be as if nothing had been: terms
//! never repeat, nobody is shown anything older, no room stays mute, nothing is done twice. What a store forgot is told, with its cause.

use std::{
    collections::BTreeMap,
    fmt, fs,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::on_cluster::{self, Plot};
use crate::{
    args::RunArgs, cluster::Cluster, fleet::Counts, redis::Kind, report, run::Outcome, stats::Times, verdict::Verdict,
};

/// The lease of the default configuration.
const LEASE: Duration = Duration::from_secs(3);
/// Rooms play on between two faults, so that each is seen by itself; a bot that hears nothing in the end of that time is mute.
const BETWEEN: Duration = Duration::from_secs(8);
/// How long the store stands still.
const STILL: Duration = Duration::from_secs(6);
/// How long a killed store is away.
const AWAY: Duration = Duration::from_secs(4);
/// What a primary acknowledges in this time is lost in the failover that follows.
const LAST_WRITES: Duration = Duration::from_secs(3);
/// What a power cut takes away: a second at most, says Redis' documentation, and two where its disk is slow.
const UNSYNCED: Duration = Duration::from_secs(2);
/// A bot that heard nothing for so long is waiting.
const SILENCE: Duration = Duration::from_secs(1);
/// All bots hear again so long after the end of a fault: a lease for those who had to settle, one for a connection that is looked for.
const BACK: Duration = Duration::from_secs(6);
const LOOK: Duration = Duration::from_millis(50);
/// A grant every other second, so that each fault meets some.
const REWARDS: &str = "[[schedule]]\nid = \"often\"\nevery = \"2s\"\nrooms = \"arena/*/*\"\naudience = \"present\"\ngrant = { gold = 1 }\n";

/// Runs the scenario.
///
/// # Errors
/// When it cannot run.
pub(crate) async fn run(args: &RunArgs) -> anyhow::Result<u8> {
    let rewards = crate::child::scratch("store-faults-rewards")?;
    let file = rewards.join("rewards.toml");
    fs::write(&file, REWARDS)?;
    let mut with = args.clone();
    with.server_arg.extend(["--rewards".to_owned(), file.display().to_string()]);
    let result =
        on_cluster::run(&with, "store-faults", &mut StoreFaults { kind: args.store, ..Default::default() }).await;
    fs::remove_dir_all(rewards)?;
    result
}

/// What is done to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    /// SCRIPT FLUSH.
    ScriptsLost,
    /// SIGSTOP of the primary, and SIGCONT. Under Sentinel there is another one by then.
    StoodStill,
    /// SIGKILL, and a start with what is on disk.
    Restarted,
    /// SIGKILL without the last seconds of the file.
    PowerCut,
    /// A failover to a replica that missed the last writes.
    FailedOver,
    /// The same with a room node killed, and its rooms taken over, in the time that is then forgotten.
    WentBack,
    /// FLUSHALL.
    Emptied,
}

impl Fault {
    /// Those that a store can have.
    const fn of(kind: Kind) -> &'static [Self] {
        match kind {
            Kind::Always => &[Self::ScriptsLost, Self::StoodStill, Self::Restarted, Self::Emptied],
            Kind::Everysec => &[Self::ScriptsLost, Self::StoodStill, Self::Restarted, Self::PowerCut, Self::Emptied],
            Kind::Sentinel => &[
                Self::ScriptsLost,
                Self::FailedOver,
                Self::StoodStill,
                Self::WentBack,
                Self::Emptied,
                Self::FailedOver,
            ],
        }
    }

    /// One of these is in a log of a node afterwards: the alarm that names the cause.
    const fn alarms(self) -> &'static [&'static str] {
        match self {
            Self::ScriptsLost => &[],
            Self::StoodStill | Self::Restarted => {
                &["the connection to the store is made anew", "a call of the lease failed"]
            }
            Self::PowerCut | Self::FailedOver => &["the connection to the store is made anew"],
            Self::WentBack | Self::Emptied => &["the store has forgotten"],
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ScriptsLost => "scripts lost",
            Self::StoodStill => "stood still",
            Self::Restarted => "killed and started",
            Self::PowerCut => "power cut",
            Self::FailedOver => "failed over, last writes lost",
            Self::WentBack => "failed over to an older state",
            Self::Emptied => "emptied",
        })
    }
}

/// What one fault led to.
#[derive(Debug)]
struct Seen {
    fault: Fault,
    /// From the end of the fault until every bot heard its room again; zero if none had to wait.
    back: Duration,
    /// The longest silence of a bot, the fault's own time included.
    silence: Duration,
    terms_begun: u64,
    rolled_back: u64,
    sockets_lost: u64,
    /// Grants shown in the quiet time behind it.
    grants: u64,
    /// Lines of the nodes' logs, without what differs from one to the next.
    alarms: BTreeMap<String, u64>,
}

#[derive(Debug, Default)]
struct StoreFaults {
    kind: Kind,
    seen: Vec<Seen>,
    mute: u64,
    unnamed: Vec<Fault>,
    between_terms: Times,
}

impl Plot for StoreFaults {
    fn store(&self) -> Kind {
        self.kind
    }

    fn forgets(&self) -> bool {
        true
    }

    async fn disturb(&mut self, args: &RunArgs, cluster: &mut Cluster, counts: &Counts) -> anyhow::Result<()> {
        sleep(BETWEEN).await;
        for _ in 0..args.rounds {
            for fault in Fault::of(self.kind) {
                self.one(*fault, cluster, counts).await.with_context(|| fault.to_string())?;
            }
        }
        self.between_terms = counts.terms();
        Ok(())
    }

    fn check(&self, outcome: &Outcome, verdict: &mut Verdict) {
        verdict.check("bots that stayed mute", self.mute == 0, self.mute, 0);
        let slowest = self.seen.iter().map(|seen| seen.back).max().unwrap_or_default();
        verdict.check(
            "rooms are heard again after a fault",
            slowest <= BACK,
            format!("{} ms", slowest.as_millis()),
            format!("at most {} ms", BACK.as_millis()),
        );
        let unpaid: Vec<String> =
            self.seen.iter().filter(|seen| seen.grants == 0).map(|seen| seen.fault.to_string()).collect();
        verdict.check("faults that no reward came behind", unpaid.is_empty(), format!("{unpaid:?}"), "none");
        let unnamed: Vec<String> = self.unnamed.iter().map(Fault::to_string).collect();
        verdict.check("faults that no log names", unnamed.is_empty(), format!("{unnamed:?}"), "none");
        let begun = outcome.stats.counters.terms_begun;
        verdict.check("terms that began", begun > 0, begun, "some");
    }

    fn told(&self) -> (String, Value) {
        let faults: Vec<Value> = self.seen.iter().map(Seen::json).collect();
        let times = &self.between_terms;
        let line = format!("{} faults of the store", self.seen.len());
        (
            line,
            json!({ "faults": faults, "between_terms": times.count(), "between_terms_p99_ms": times.quantile_ms(0.99) }),
        )
    }
}

impl StoreFaults {
    /// Does one, and watches until rooms play on.
    async fn one(&mut self, fault: Fault, cluster: &mut Cluster, counts: &Counts) -> anyhow::Result<()> {
        let (before, begun, marks) = (counts.totals(), counts.terms_begun(), log_ends(cluster));
        let mut silence = Duration::ZERO;
        {
            let doing = act(fault, cluster);
            tokio::pin!(doing);
            loop {
                silence = silence.max(counts.watch.longest_silence());
                tokio::select! {
                    biased;
                    done = &mut doing => break done?,
                    () = sleep(LOOK) => {}
                }
            }
        }
        let end = Instant::now();
        let (mut back, mut granted) = (Duration::ZERO, counts.grants());
        while end.elapsed() < BETWEEN + BACK {
            let now = counts.watch.longest_silence();
            silence = silence.max(now);
            if now >= SILENCE {
                (back, granted) = (end.elapsed(), counts.grants());
            } else if end.elapsed() >= back + BETWEEN {
                break;
            }
            sleep(LOOK).await;
        }
        self.mute += u64::from(counts.watch.longest_silence() >= SILENCE);
        cluster.redis.healed().await?;
        let alarms = alarms_since(cluster, &marks);
        let (after, wanted) = (counts.totals(), fault.alarms());
        if !wanted.is_empty() && !alarms.keys().any(|line| wanted.iter().any(|words| line.contains(words))) {
            self.unnamed.push(fault);
        }
        let grants = counts.grants() - granted;
        let (rolled_back, sockets_lost) = (after.0 - before.0, after.1 - before.1);
        let terms_begun = counts.terms_begun() - begun;
        let seen = Seen { fault, back, silence, terms_begun, rolled_back, sockets_lost, grants, alarms };
        report::say(&seen.to_string());
        self.seen.push(seen);
        Ok(())
    }
}

async fn act(fault: Fault, cluster: &mut Cluster) -> anyhow::Result<()> {
    let redis = &mut cluster.redis;
    match fault {
        Fault::ScriptsLost => redis.flush_scripts().await,
        Fault::StoodStill => redis.stand_still(STILL).await,
        Fault::Restarted => redis.restart(AWAY).await,
        Fault::PowerCut => redis.cut_power(UNSYNCED, AWAY).await.map(drop),
        Fault::Emptied => redis.flush_all().await,
        Fault::FailedOver => {
            redis.part().await?;
            sleep(LAST_WRITES).await;
            redis.fail_over().await
        }
        Fault::WentBack => {
            redis.part().await?;
            let node = cluster.nodes.first_mut().context("no node")?;
            if let Some(running) = node.running.take() {
                running.kill().await?;
            }
            // The others take over, which will be forgotten.
            sleep(LEASE * 2).await;
            cluster.redis.fail_over().await?;
            cluster.nodes.first_mut().context("no node")?.start().await
        }
    }
}

impl Seen {
    fn json(&self) -> Value {
        json!({
            "fault": self.fault.to_string(), "back_ms": self.back.as_millis() as u64, "silence_ms": self.silence.as_millis() as u64,
            "terms_begun": self.terms_begun, "rolled_back": self.rolled_back, "sockets_lost": self.sockets_lost, "grants_behind": self.grants, "alarms": self.alarms,
        })
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (fault, back, silence) = (self.fault, self.back.as_millis(), self.silence.as_millis());
        let (begun, rolled, lost, grants) = (self.terms_begun, self.rolled_back, self.sockets_lost, self.grants);
        write!(
            f,
            "  {fault}: heard again after {back} ms, longest silence {silence} ms, {begun} terms begun, {rolled} rollbacks, {lost} sockets lost, {grants} grants behind it"
        )?;
        self.alarms.iter().try_for_each(|(line, times)| write!(f, "\n    {times} x {line}"))
    }
}

/// How long the members' logs are.
fn log_ends(cluster: &Cluster) -> Vec<u64> {
    let members = cluster.nodes.iter().chain(&cluster.gateways);
    members.map(|member| fs::metadata(&member.launch.log).map_or(0, |log| log.len())).collect()
}

/// What members warned of since then, and how often.
fn alarms_since(cluster: &Cluster, marks: &[u64]) -> BTreeMap<String, u64> {
    let mut alarms = BTreeMap::new();
    for (member, mark) in cluster.nodes.iter().chain(&cluster.gateways).zip(marks) {
        let text = fs::read(&member.launch.log).unwrap_or_default();
        let new = text.get(usize::try_from(*mark).unwrap_or(0)..).unwrap_or_default();
        for line in String::from_utf8_lossy(new).lines().filter_map(alarm) {
            *alarms.entry(line).or_default() += 1;
        }
    }
    alarms
}

/// The words of a warning or an error: level and message, without fields and numbers.
fn alarm(line: &str) -> Option<String> {
    let (level, rest) =
        ["ERROR", "WARN"].iter().find_map(|level| Some((level, line.split_once(&format!(" {level} "))?.1)))?;
    let words =
        rest.split_whitespace().filter(|word| !word.contains('=') && !word.contains(|c: char| c.is_ascii_digit()));
    Some(format!("{level} {}", words.take(16).collect::<Vec<_>>().join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarms_are_counted_without_what_differs() {
        let line = "2026-11-30T05:00:00.000Z  WARN tenure::store: the connection to the store is made anew store=redis://x fault=\"gone\"";
        assert!(
            alarm(line).expect("an alarm").starts_with("WARN tenure::store: the connection to the store is made anew")
        );
        assert_eq!(alarm("2026-11-30T05:00:00.000Z  INFO tenure: ready"), None);
    }
}
