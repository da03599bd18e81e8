//! A whole cluster as child processes on loopback: Redis, room nodes, gateways.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    process::{Child, Command},
    time::{sleep, timeout},
};

use crate::{
    args::RunArgs,
    child::{Launch, Running},
    net::Target,
    proxy::Proxy,
};

/// Time for Redis to answer after its start.
const REDIS_TIME: Duration = Duration::from_secs(10);
/// Ports tried for Redis, which cannot choose one itself.
const PORTS: usize = 10;

/// A Redis server that forgets nothing it acknowledged; dropped, it is killed.
#[derive(Debug)]
pub(crate) struct Redis {
    child: Child,
    folder: PathBuf,
    pub(crate) addr: SocketAddr,
}

impl Redis {
    /// Starts one on a free port, its data under `folder`.
    ///
    /// # Errors
    /// When `redis-server` is not installed or does not answer.
    pub(crate) async fn start(folder: &Path) -> anyhow::Result<Self> {
        for _ in 0..PORTS {
            let addr = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
            // Another process may have taken the port in between: then this one ends, and the next port is tried.
            if let Some(child) = serve(folder, addr).await? {
                return Ok(Self { child, folder: folder.to_owned(), addr });
            }
        }
        anyhow::bail!("redis-server ended {PORTS} times at its start; see redis.log")
    }

    /// Kills it (SIGKILL), waits a while and starts it again on the same port and data.
    ///
    /// # Errors
    /// When it does not come back.
    pub(crate) async fn restart(&mut self, away: Duration) -> anyhow::Result<()> {
        self.child.kill().await?;
        sleep(away).await;
        self.child = serve(&self.folder, self.addr).await?.context("redis-server did not come back; see redis.log")?;
        Ok(())
    }

    /// Forgets all scripts, as a restart does; the data stays.
    ///
    /// # Errors
    /// When it does not answer.
    pub(crate) async fn flush_scripts(&self) -> anyhow::Result<()> {
        let answer = ask(self.addr, "SCRIPT FLUSH").await.context("no answer to SCRIPT FLUSH")?;
        anyhow::ensure!(answer.starts_with("+OK"), "SCRIPT FLUSH: {answer}");
        Ok(())
    }

    /// Stops it where it stands (SIGSTOP), or lets it go on (SIGCONT): connections stay open and nobody answers.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn pause(&self, stopped: bool) -> anyhow::Result<()> {
        let id = self.child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let pid = id.context("redis-server has ended")?;
        Ok(kill_process(pid, if stopped { Signal::STOP } else { Signal::CONT })?)
    }
}

/// Starts `redis-server` and waits until that very process answers; `None` if it ended before.
async fn serve(folder: &Path, addr: SocketAddr) -> anyhow::Result<Option<Child>> {
    let data = folder.join("redis");
    std::fs::create_dir_all(&data)?;
    let log = std::fs::File::options().create(true).append(true).open(folder.join("redis.log"))?;
    let mut command = Command::new("redis-server");
    let port = addr.port().to_string();
    command.args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes"]);
    command.args(["--appendfsync", "always", "--dir"]).arg(&data);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).kill_on_drop(true);
    let mut child = command.spawn().context("redis-server cannot be started: is it installed?")?;
    let ours = format!("process_id:{}\r", child.id().unwrap_or_default());
    let begin = Instant::now();
    while child.try_wait()?.is_none() {
        if ask(addr, "INFO server").await.is_some_and(|info| info.contains(&ours)) {
            return Ok(Some(child));
        }
        anyhow::ensure!(begin.elapsed() < REDIS_TIME, "redis-server did not answer in time");
        sleep(Duration::from_millis(20)).await;
    }
    Ok(None)
}

/// Sends an inline command; the first bytes of the answer.
async fn ask(addr: SocketAddr, command: &str) -> Option<String> {
    let ask = async {
        let mut stream = TcpStream::connect(addr).await.ok()?;
        stream.write_all(format!("{command}\r\n").as_bytes()).await.ok()?;
        let mut answer = vec![0; 4096];
        let mut filled = 0;
        // What is looked for stands in the first part; the end of a longer answer is not waited for.
        while filled < answer.len() {
            let count = stream.read(answer.get_mut(filled..)?).await.ok()?;
            filled += count;
            let text = String::from_utf8_lossy(answer.get(..filled)?).into_owned();
            if count == 0 || text.starts_with('+') || text.starts_with('-') || text.contains("process_id:") {
                return Some(text);
            }
        }
        None
    };
    timeout(Duration::from_millis(500), ask).await.ok().flatten()
}

/// One member: how it is started, the process while it runs, and the networks around it.
pub(crate) struct Member {
    pub(crate) launch: Launch,
    pub(crate) running: Option<Running>,
    /// Between it and the store.
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
    pub(crate) async fn start(args: &RunArgs, program: &Path, folder: &Path) -> anyhow::Result<Self> {
        let redis = Redis::start(folder).await?;
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
        self.member(args, &format!("node-{nth}"), "room").await
    }

    /// Starts one more gateway.
    ///
    /// # Errors
    /// When it is not ready in time.
    pub(crate) async fn gateway(&self, args: &RunArgs, nth: u32) -> anyhow::Result<Member> {
        self.member(args, &format!("gateway-{nth}"), "gateway").await
    }

    async fn member(&self, args: &RunArgs, name: &str, role: &str) -> anyhow::Result<Member> {
        let (store, links) = (Proxy::start(Some(self.redis.addr)).await?, Proxy::start(None).await?);
        let url = format!("redis://{}", store.addr);
        let mut more = vec!["--set".to_owned(), format!("link.advertise={}", links.addr)];
        more.extend_from_slice(&args.server_arg);
        let launch = Launch::member(&self.program, &self.folder, name, role, &url, &more);
        let mut member = Member { launch, running: None, store, links };
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
