//! Every room node is replaced while bots play, as a rolling update does it: a new process first, then SIGTERM to the old one.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::sleep;

use super::on_cluster::{self, Plot};
use crate::{
    args::RunArgs,
    cluster::{Cluster, Member},
    fleet::Counts,
    run::Outcome,
    stats::Times,
    verdict::Verdict,
};

/// Rooms play on between two replacements.
const BETWEEN: Duration = Duration::from_secs(4);

/// Runs the scenario.
///
/// # Errors
/// When it cannot run.
pub(crate) async fn run(args: &RunArgs) -> anyhow::Result<u8> {
    on_cluster::run(args, "rolling-deploy", &mut Deploys::default()).await
}

/// What was replaced.
#[derive(Debug, Default)]
struct Deploys {
    replaced: u32,
    /// Nodes that SIGTERM did not end with 0 in time.
    failed: u32,
    slowest_drain: Duration,
    between_terms: Times,
    rolled_back: u64,
}

impl Plot for Deploys {
    async fn disturb(&mut self, args: &RunArgs, cluster: &mut Cluster, counts: &Counts) -> anyhow::Result<()> {
        sleep(BETWEEN).await;
        let before = counts.totals();
        let mut named = args.nodes;
        for _ in 0..args.deploys {
            let mut old: Vec<Member> = std::mem::take(&mut cluster.nodes);
            while !old.is_empty() {
                let going: Vec<Member> = old.drain(..old.len().min(args.at_once as usize)).collect();
                for _ in &going {
                    named += 1;
                    let new = cluster.node(args, named).await?;
                    cluster.nodes.push(new);
                }
                let begin = Instant::now();
                let ends = going.into_iter().filter_map(|member| member.running).map(|running| running.stop());
                for end in futures_util::future::join_all(ends).await {
                    self.failed += u32::from(!end?);
                    self.replaced += 1;
                }
                self.slowest_drain = self.slowest_drain.max(begin.elapsed());
                sleep(BETWEEN).await;
            }
        }
        self.between_terms = counts.terms();
        self.rolled_back = counts.totals().0 - before.0;
        Ok(())
    }

    fn check(&self, outcome: &Outcome, verdict: &mut Verdict) {
        verdict.check("nodes that SIGTERM did not end with 0", self.failed == 0, self.failed, 0);
        verdict.check("rollbacks in planned moves", self.rolled_back == 0, self.rolled_back, 0);
        let begun = outcome.stats.counters.terms_begun;
        verdict.check("terms that began", begun > 0, begun, "some");
    }

    fn told(&self) -> (String, Value) {
        let Self { replaced, failed, slowest_drain, between_terms, rolled_back } = self;
        let (p50, p99) = (between_terms.quantile_ms(0.5), between_terms.quantile_ms(0.99));
        let line = format!(
            "{replaced} nodes replaced, slowest in {:.1} s; pause of a move p50 {p50:.0} ms, p99 {p99:.0} ms, max {:.0} ms ({} seen)",
            slowest_drain.as_secs_f64(),
            between_terms.max_ms(),
            between_terms.count(),
        );
        let figures = json!({
            "replaced": replaced, "failed": failed, "slowest_drain_s": slowest_drain.as_secs_f64(), "rolled_back": rolled_back,
            "moves_seen": between_terms.count(), "pause_p50_ms": p50, "pause_p99_ms": p99, "pause_max_ms": between_terms.max_ms(),
        });
        (line, figures)
    }
}
