//! A whole cluster as child processes on loopback: Redis, room nodes, gateways.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::{
    args::RunArgs,
    child::{Launch, Running},
    net::Target,
    proxy::Proxy,
    redis::{Kind, Redis},
};

/// One member: how it is started, the process while it runs, and the networks around it.
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) launch: Launch,
    pub(crate) running: Option<Running>,
    /// Between it and the store, where that is one server.
    pub(crate) store: Proxy,
    /// Between gateways and its links.
    pub(crate) links: Proxy,
}

impl Member {
    /// Starts the process and leads its networks to it.
    ///
    /// # Errors
    /// When it is not ready in time.
    pub(crate) async fn start(&mut self) -> anyhow::Result<()> {
        let running = self.launch.start().await?;
        if let Some(link) = running.link {
            self.links.lead(link);
        }
        self.running = Some(running);
        Ok(())
    }
}

/// The name of a gateway.
pub(crate) fn gateway_name(nth: u32) -> String {
    format!("gateway-{nth}")
}

/// Redis, room nodes and gateways.
pub(crate) struct Cluster {
    pub(crate) redis: Redis,
    pub(crate) nodes: Vec<Member>,
    pub(crate) gateways: Vec<Member>,
    /// What the next members run.
    pub(crate) program: PathBuf,
    folder: PathBuf,
}

impl Cluster {
    /// Starts everything and waits until it is ready.
    ///
    /// # Errors
    /// When a part cannot be started; the text says which.
    pub(crate) async fn start(args: &RunArgs, store: Kind, program: &Path, folder: &Path) -> anyhow::Result<Self> {
        let redis = Redis::start(folder, store).await?;
        let (program, folder) = (program.to_owned(), folder.to_owned());
        let mut cluster = Self { redis, nodes: Vec::new(), gateways: Vec::new(), program, folder };
        for nth in 1..=args.nodes {
            let node = cluster.node(args, nth).await?;
            cluster.nodes.push(node);
        }
        for nth in 1..=args.gateways {
            let gateway = cluster.gateway(args, nth).await?;
            cluster.gateways.push(gateway);
        }
        Ok(cluster)
    }

    /// Starts one more room node.
    ///
    /// # Errors
    /// When it is not ready in time.
    pub(crate) async fn node(&self, args: &RunArgs, nth: u32) -> anyhow::Result<Member> {
        self.member(args, &format!("node-{nth}"), "room", None).await
    }

    /// The same with fault points that are armed in it.
    ///
    /// # Errors
    /// When it is not ready in time.
    pub(crate) async fn armed_node(&self, args: &RunArgs, nth: u32, faults: Option<String>) -> anyhow::Result<Member> {
        self.member(args, &format!("node-{nth}"), "room", faults).await
    }

    /// Starts one more gateway.
    ///
    /// # Errors
    /// When it is not ready in time.
    pub(crate) async fn gateway(&self, args: &RunArgs, nth: u32) -> anyhow::Result<Member> {
        self.member(args, &format!("gateway-{nth}"), "gateway", None).await
    }

    async fn member(&self, args: &RunArgs, name: &str, role: &str, faults: Option<String>) -> anyhow::Result<Member> {
        let (store, links) = (Proxy::start(self.redis.addr()).await?, Proxy::start(None).await?);
        let url = self.redis.url(store.addr);
        let mut more = vec!["--set".to_owned(), format!("link.advertise={}", links.addr)];
        if self.redis.kind == Kind::Sentinel {
            more.extend(["--set".to_owned(), "store.accept_loss=true".to_owned()]);
        }
        more.extend_from_slice(&args.server_arg);
        let launch = Launch { faults, ..Launch::member(&self.program, &self.folder, name, role, &url, &more) };
        let mut member = Member { name: name.to_owned(), launch, running: None, store, links };
        member.start().await.with_context(|| name.to_owned())?;
        Ok(member)
    }

    /// Where players connect.
    ///
    /// # Errors
    /// When an address makes no sense.
    pub(crate) async fn targets(&self) -> anyhow::Result<Vec<Target>> {
        let mut targets = Vec::new();
        for gateway in &self.gateways {
            let running = gateway.running.as_ref().context("a gateway has ended")?;
            targets.push(Target::resolve(&running.url).await?);
        }
        Ok(targets)
    }

    /// Asks all to stop, gateways first; the names of those that did not end with 0 in time.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) async fn stop(&mut self) -> anyhow::Result<Vec<PathBuf>> {
        let mut bad = Vec::new();
        for member in self.gateways.iter_mut().chain(&mut self.nodes) {
            if let Some(running) = member.running.take()
                && !running.stop().await?
            {
                bad.push(member.launch.log.clone());
            }
        }
        Ok(bad)
    }
}
