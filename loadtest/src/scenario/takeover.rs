//! Room nodes are killed, stopped and cut off, and the store goes away, while bots play: rooms are back in time, nothing is lost or doubled.

use std::time::Duration;

use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::on_cluster::{self, Plot};
use crate::{
    args::RunArgs,
    cluster::{Cluster, gateway_name},
    fleet::Counts,
    run::Outcome,
    stats::Times,
    verdict::Verdict,
};

/// The lease of the default configuration, and how long after its end rooms must tick again.
const LEASE: Duration = Duration::from_secs(3);
const AFTER_LEASE: Duration = Duration::from_secs(1);
/// How long a stopped or cut off node stands still: three leases.
const STOPPED: Duration = Duration::from_secs(9);
/// How long the store stands still.
const OUTAGE: Duration = Duration::from_secs(10);
/// How long a killed store is away.
const RESTART: Duration = Duration::from_secs(4);
/// Rooms play on between two faults, so that each is seen by itself.
const BETWEEN: Duration = Duration::from_secs(6);

/// Runs the scenario.
///
/// # Errors
/// When it cannot run.
pub(crate) async fn run(args: &RunArgs) -> anyhow::Result<u8> {
    on_cluster::run(args, "takeover", &mut Faults::default()).await
}

/// What was done to the cluster.
#[derive(Debug, Default)]
struct Faults {
    kills: u32,
    stops: u32,
    cuts: u32,
    outages: u32,
    restarts: u32,
    /// Between terms, after kills and stops.
    between_terms: Times,
    /// Rollbacks announced, and connections lost, while only the store was away: none may be.
    in_outages: (u64, u64),
    /// Terms that began while one gateway could not reach one node: none may, since the owner lives.
    begun_in_cuts: u64,
}

impl Faults {
    /// Takes in what was announced and lost since `before`, while only the store was away.
    fn note_outage(&mut self, before: (u64, u64), counts: &Counts) {
        let after = counts.totals();
        self.in_outages = (self.in_outages.0 + after.0 - before.0, self.in_outages.1 + after.1 - before.1);
    }
}

impl Plot for Faults {
    async fn disturb(&mut self, args: &RunArgs, cluster: &mut Cluster, counts: &Counts) -> anyhow::Result<()> {
        let mut rng = StdRng::seed_from_u64(args.seed);
        sleep(BETWEEN).await;
        for _ in 0..args.kills {
            let nth = rng.random_range(0..cluster.nodes.len());
            let Some(member) = cluster.nodes.get_mut(nth) else { continue };
            if let Some(running) = member.running.take() {
                running.kill().await?;
            }
            self.kills += 1;
            // The others have taken over before it comes back, or its return would hide a takeover that fails.
            sleep(LEASE + AFTER_LEASE).await;
            member.start().await?;
            sleep(BETWEEN.mul_f64(rng.random_range(0.5..1.5))).await;
        }
        for _ in 0..args.stops {
            let nth = rng.random_range(0..cluster.nodes.len());
            let Some(running) = cluster.nodes.get(nth).and_then(|member| member.running.as_ref()) else { continue };
            running.pause(true)?;
            sleep(STOPPED).await;
            running.pause(false)?;
            self.stops += 1;
            sleep(BETWEEN).await;
        }
        // A pause that lasts as long as its network is cut, or the store away, has no place among those of takeovers.
        self.between_terms = counts.terms();
        for _ in 0..args.cuts {
            let nth = rng.random_range(0..cluster.nodes.len());
            let Some(member) = cluster.nodes.get(nth) else { continue };
            let begun = counts.terms_begun();
            // In turn the store, the gateways and one gateway cannot be reached from it, and everybody else can.
            let which = self.cuts % 3;
            match which {
                0 => member.store.hold(true),
                1 => member.links.hold(true),
                _ => member.links.hold_gateway(&gateway_name(rng.random_range(1..=args.gateways))),
            }
            sleep(STOPPED).await;
            member.store.hold(false);
            member.links.hold(false);
            self.cuts += 1;
            sleep(BETWEEN).await;
            if which == 2 {
                self.begun_in_cuts += counts.terms_begun() - begun;
            }
        }
        for _ in 0..args.outages {
            let before = counts.totals();
            cluster.redis.stand_still(OUTAGE).await?;
            sleep(BETWEEN + LEASE).await;
            self.note_outage(before, counts);
            self.outages += 1;
        }
        for _ in 0..args.restarts {
            let before = counts.totals();
            cluster.redis.flush_scripts().await?;
            sleep(LEASE).await;
            cluster.redis.restart(RESTART).await?;
            sleep(BETWEEN + LEASE).await;
            self.note_outage(before, counts);
            self.restarts += 1;
        }
        Ok(())
    }

    fn check(&self, outcome: &Outcome, verdict: &mut Verdict) {
        let bound = (LEASE + AFTER_LEASE).as_secs_f64() * 1000.0;
        if self.kills + self.stops > 0 {
            let p99 = self.between_terms.quantile_ms(0.99);
            verdict.check(
                "rooms tick again, p99",
                p99 <= bound,
                format!("{p99:.0} ms"),
                format!("at most {bound:.0} ms"),
            );
            let begun = outcome.stats.counters.terms_begun;
            verdict.check("terms that began", begun > 0, begun, "some");
        }
        if self.cuts > 2 {
            let begun = self.begun_in_cuts;
            verdict.check("terms that began while one gateway was cut off", begun == 0, begun, 0);
        }
        if self.outages + self.restarts > 0 {
            let (back, lost) = self.in_outages;
            verdict.check("rollbacks while the store was away", back == 0, back, 0);
            verdict.check("sockets closed while the store was away", lost == 0, lost, 0);
        }
    }

    fn told(&self) -> (String, Value) {
        let Self { kills, stops, cuts, outages, restarts, between_terms, .. } = self;
        let line = format!(
            "{kills} kills, {stops} stops and {cuts} cuts of {} s, {outages} outages of {} s, {restarts} kills of the store",
            STOPPED.as_secs(),
            OUTAGE.as_secs()
        );
        let figures = json!({
            "kills": kills, "stops": stops, "cuts": cuts, "outages": outages, "restarts": restarts,
            "between_terms": between_terms.count(), "between_terms_p99_ms": between_terms.quantile_ms(0.99),
        });
        (line, figures)
    }
}
