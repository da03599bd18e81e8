//! Where rooms run: one server, or a cluster. What the plot does to one it does to the other.

use std::time::Duration;

use anyhow::Context as _;

use crate::{
    child::{Launch, Running},
    cluster::{Cluster, Member},
};

/// The owner that dies is the server, or the first node.
pub(super) enum Place<'a> {
    One(&'a mut Launch, &'a mut Option<Running>),
    Cluster(&'a mut Cluster),
}

impl Place<'_> {
    pub(super) const fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }

    /// Starts the owner again, with a point armed at which it ends; whether it was ready before it came there.
    pub(super) async fn start(&mut self, fault: Option<String>) -> anyhow::Result<bool> {
        match self {
            Self::One(launch, running) => {
                launch.faults = fault;
                **running = launch.start_armed().await?;
                Ok(running.is_some())
            }
            Self::Cluster(cluster) => {
                let node = cluster.nodes.first_mut().context("no node")?;
                node.launch.faults = fault;
                node.running = node.launch.start_armed().await?;
                if let Some(link) = node.running.as_ref().and_then(|running| running.link) {
                    node.links.lead(link);
                }
                Ok(node.running.is_some())
            }
        }
    }

    /// Among how many the rooms are spread.
    pub(super) fn owners(&self) -> u32 {
        match self {
            Self::One(..) => 1,
            Self::Cluster(cluster) => u32::try_from(cluster.nodes.len()).unwrap_or(u32::MAX).max(1),
        }
    }

    fn owner(&mut self) -> anyhow::Result<&mut Option<Running>> {
        match self {
            Self::One(_, running) => Ok(*running),
            Self::Cluster(cluster) => Ok(&mut cluster.nodes.first_mut().context("no node")?.running),
        }
    }

    /// Ends it at once.
    pub(super) async fn kill(&mut self) -> anyhow::Result<()> {
        match self.owner()?.take() {
            Some(running) => running.kill().await,
            None => Ok(()),
        }
    }

    /// The owner has none of the rooms, or too few: another node dies and comes back, and what it had is the others'. Whether there is another.
    pub(super) async fn shift(&mut self, nth: usize, away: Duration) -> anyhow::Result<bool> {
        let Self::Cluster(cluster) = self else { return Ok(false) };
        let others = cluster.nodes.len().saturating_sub(1).max(1);
        let Some(node) = cluster.nodes.get_mut(1 + nth % others) else { return Ok(false) };
        if let Some(running) = node.running.take() {
            running.kill().await?;
        }
        tokio::time::sleep(away).await;
        node.start().await?;
        Ok(true)
    }

    /// Waits until it dies of itself; whether it did so in time.
    pub(super) async fn died(&mut self, limit: Duration) -> anyhow::Result<bool> {
        let owner = self.owner()?;
        let died = owner.as_mut().context("it does not run")?.died(limit).await?;
        if died {
            *owner = None;
        }
        Ok(died)
    }

    /// Kills the store and starts it again, where it is a process of its own.
    pub(super) async fn restart_store(&mut self, away: Duration) -> anyhow::Result<bool> {
        match self {
            Self::One(..) => Ok(false),
            Self::Cluster(cluster) => cluster.redis.restart(away).await.map(|()| true),
        }
    }

    /// Those that have rooms and run.
    pub(super) fn nodes(&self) -> Vec<Launch> {
        match self {
            Self::One(launch, _) => vec![(*launch).clone()],
            Self::Cluster(cluster) => {
                let runs = |node: &&Member| node.running.is_some();
                cluster.nodes.iter().filter(runs).map(|node| node.launch.clone()).collect()
            }
        }
    }

    /// Who answers questions about the store.
    pub(super) fn asked(&self) -> anyhow::Result<Launch> {
        Ok(match self {
            Self::One(launch, _) => (*launch).clone(),
            Self::Cluster(cluster) => {
                let member = cluster.gateways.iter().chain(&cluster.nodes).next();
                member.context("the cluster has no member")?.launch.clone()
            }
        })
    }
}
