//! The replacing itself: one deploy, one group of room nodes, one gateway, and the fault in the middle of it.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use rand::RngExt;
use tokio::time::sleep;

use super::{AFTER_LEASE, Deploys, Disturbance, Fault, HICCUP, LEASE, OUTAGE};
use crate::{
    args::RunArgs,
    child::Running,
    cluster::{Cluster, Member},
    fleet::Counts,
};

/// A fault comes at a random time of this length after SIGTERM: rooms move in it.
const MIDST: Duration = Duration::from_millis(400);
/// How long a killed store is away.
const RESTART: Duration = Duration::from_secs(1);

/// Names of faults that are judged in a way of their own.
pub(super) const GATEWAY_KILLED: &str = "kill of a gateway";
pub(super) const STORE_AWAY: &str = "store stood still";
pub(super) const HICCUP_OF_STORE: &str = "store stood still for a moment";

/// Where members can be asked, youngest first: gateways, whose memory is measured as long as they stay, only when nobody else answers.
pub(super) fn admin_ports(cluster: &Cluster) -> Vec<SocketAddr> {
    cluster.nodes.iter().rev().chain(&cluster.gateways).filter_map(|member| member.running.as_ref()?.admin).collect()
}

impl Deploys {
    /// All room nodes are replaced, and the gateways between them.
    pub(super) async fn deploy(
        &mut self,
        args: &RunArgs,
        cluster: &mut Cluster,
        counts: &Counts,
    ) -> anyhow::Result<()> {
        self.memory.begin_deploy();
        let mut old: Vec<Member> = std::mem::take(&mut cluster.nodes);
        let mut gateways = if args.with_gateways { cluster.gateways.len() } else { 0 };
        while !old.is_empty() || gateways > 0 {
            if !old.is_empty() {
                let going = old.drain(..old.len().min(args.at_once as usize)).collect();
                self.replace_nodes(args, cluster, going, counts).await?;
                self.ask_those_who_serve(cluster);
                self.play_on(args.between, counts).await;
            }
            if gateways > 0 {
                gateways -= 1;
                self.replace_gateway(args, cluster, counts).await?;
                self.ask_those_who_serve(cluster);
                self.play_on(args.between, counts).await;
            }
        }
        self.memory.note_gateways(&cluster.gateways);
        Ok(())
    }

    fn ask_those_who_serve(&self, cluster: &Cluster) {
        if let Some(owners) = &self.owners {
            owners.ask(admin_ports(cluster));
        }
    }

    async fn replace_nodes(
        &mut self,
        args: &RunArgs,
        cluster: &mut Cluster,
        going: Vec<Member>,
        counts: &Counts,
    ) -> anyhow::Result<()> {
        for _ in &going {
            self.named.0 += 1;
            let new = cluster.node(args, self.named.0).await?;
            cluster.nodes.push(new);
        }
        sleep(args.min_ready).await;
        // The networks of the old ones stay until they have ended.
        let (mut running, _networks): (Vec<Running>, Vec<_>) =
            going.into_iter().filter_map(|member| Some((member.running?, (member.store, member.links)))).unzip();
        running.iter().for_each(|one| self.memory.note_node(one));
        self.replaced += u32::try_from(running.len())?;
        let begin = Instant::now();
        for one in &running {
            one.ask_to_stop()?;
        }
        if let Some(fault) = self.faults.pop().flatten() {
            sleep(MIDST.mul_f64(self.rng.random_range(0.0..1.0))).await;
            self.bring_about(fault, &mut running, cluster, counts).await?;
        }
        for end in futures_util::future::join_all(running.into_iter().map(Running::ended)).await {
            self.failed += u32::from(!end?);
        }
        self.slowest_drain = self.slowest_drain.max(begin.elapsed());
        Ok(())
    }

    async fn replace_gateway(&mut self, args: &RunArgs, cluster: &mut Cluster, counts: &Counts) -> anyhow::Result<()> {
        self.named.1 += 1;
        let new = cluster.gateway(args, self.named.1).await?;
        sleep(args.min_ready).await;
        // As a Service does it: the new one is among those that get sockets, and the old one is not any more.
        let old = cluster.gateways.remove(0);
        cluster.gateways.push(new);
        counts.lead_to(cluster.targets().await?);
        if let Some(running) = old.running {
            let begin = Instant::now();
            self.failed += u32::from(!running.stop().await?);
            self.gateways_replaced += 1;
            self.slowest_drain = self.slowest_drain.max(begin.elapsed());
        }
        Ok(())
    }

    async fn bring_about(
        &mut self,
        fault: Fault,
        going: &mut Vec<Running>,
        cluster: &mut Cluster,
        counts: &Counts,
    ) -> anyhow::Result<()> {
        let from = Instant::now();
        let what = match fault {
            Fault::KillSource => "kill of a source",
            Fault::KillTarget => "kill of a target",
            Fault::KillGateway => GATEWAY_KILLED,
            Fault::Outage => STORE_AWAY,
            Fault::Hiccup => HICCUP_OF_STORE,
            Fault::Restart => "kill of the store",
        };
        match fault {
            Fault::KillSource => {
                if let Some(running) = going.pop() {
                    running.kill().await?;
                }
            }
            Fault::KillTarget => {
                if let Some(member) = cluster.nodes.last_mut() {
                    if let Some(running) = member.running.take() {
                        running.kill().await?;
                    }
                    // The others have taken over before it comes back, or its return would hide a takeover that fails.
                    sleep(LEASE + AFTER_LEASE).await;
                    member.start().await?;
                }
            }
            Fault::KillGateway => {
                let nth = self.rng.random_range(0..cluster.gateways.len());
                if let Some(member) = cluster.gateways.get_mut(nth) {
                    if let Some(running) = member.running.take() {
                        running.kill().await?;
                    }
                    member.start().await?;
                }
                counts.lead_to(cluster.targets().await?);
            }
            Fault::Outage => {
                cluster.redis.stand_still(OUTAGE).await?;
                anyhow::ensure!(from.elapsed() < OUTAGE * 2, "the outage took {:?}", from.elapsed());
            }
            Fault::Hiccup => cluster.redis.stand_still(HICCUP).await?,
            Fault::Restart => cluster.redis.restart(RESTART).await?,
        }
        // What it does to rooms is over when a lease has ended after it.
        sleep(LEASE + AFTER_LEASE).await;
        self.disturbances.push(Disturbance { what: what.to_owned(), from, until: Instant::now() });
        Ok(())
    }
}
