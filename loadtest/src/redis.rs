//! Real Redis servers of a run, on free ports of loopback: one, or a primary with replicas under Sentinel; and what can be done to them.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use clap::ValueEnum;
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    process::{Child, Command},
    time::{sleep, timeout},
};

/// Time for a server to answer after its start, and for replicas and Sentinels to find one another.
const READY_TIME: Duration = Duration::from_secs(20);
/// Time for a failover.
const FAILOVER_TIME: Duration = Duration::from_secs(40);
/// Ports tried for a server, which cannot choose one itself.
const PORTS: usize = 10;
/// From one look to the next.
const LOOK: Duration = Duration::from_millis(20);
/// The name by which the Sentinels know the primary.
const NAME: &str = "m1";
/// A server that is silent for so long is down, the Sentinels say. They promote no replica that heard nothing of its primary for ten times that.
const DOWN_AFTER: Duration = Duration::from_millis(1500);

/// What the servers are, and what they forget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// One, that forgets nothing it acknowledged (appendfsync always).
    #[default]
    Always,
    /// One, whose last second a power cut takes away (appendfsync everysec).
    Everysec,
    /// A primary, two replicas and three Sentinels: a failover may forget.
    Sentinel,
}

impl Kind {
    /// For reports.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Always => "appendfsync always",
            Self::Everysec => "appendfsync everysec",
            Self::Sentinel => "Sentinel, min-replicas-to-write 0",
        }
    }
}

/// The store of a cluster; dropped, its processes are killed.
#[derive(Debug)]
pub(crate) struct Redis {
    pub(crate) kind: Kind,
    servers: Vec<Server>,
    sentinels: Vec<Server>,
}

impl Redis {
    /// Starts it, its data and logs under `folder`.
    ///
    /// # Errors
    /// When `redis-server` is not installed or does not answer.
    pub(crate) async fn start(folder: &Path, kind: Kind) -> anyhow::Result<Self> {
        let fsync = if kind == Kind::Always { "always" } else { "everysec" };
        let args = ["--save", "", "--appendonly", "yes", "--appendfsync", fsync, "--repl-diskless-sync-delay", "0"];
        let first = Server::start(folder, "redis", &args, None).await?;
        let mut this = Self { kind, servers: vec![first], sentinels: Vec::new() };
        if kind == Kind::Sentinel {
            this.replicate(folder, &args).await?;
        }
        Ok(this)
    }

    async fn replicate(&mut self, folder: &Path, args: &[&str]) -> anyhow::Result<()> {
        let port = self.primary().await?.addr.port();
        for nth in 1..=2 {
            let replica = Server::start(folder, &format!("redis-{nth}"), args, None).await?;
            replica.tell(&format!("REPLICAOF 127.0.0.1 {port}")).await?;
            self.servers.push(replica);
        }
        self.replicated().await?;
        let down = DOWN_AFTER.as_millis();
        let config = format!(
            "bind 127.0.0.1\nsentinel monitor {NAME} 127.0.0.1 {port} 2\nsentinel down-after-milliseconds {NAME} {down}\n\
             sentinel failover-timeout {NAME} 4000\n"
        );
        for nth in 1..=3 {
            self.sentinels.push(Server::start(folder, &format!("sentinel-{nth}"), &[], Some(&config)).await?);
        }
        self.watched().await
    }

    /// Waits until the primary has its replicas, with all that it holds.
    async fn replicated(&self) -> anyhow::Result<()> {
        until("both replicas follow the primary", READY_TIME, async || {
            let Ok(primary) = self.primary().await else { return false };
            primary.ask("INFO replication").await.is_some_and(|info| info.matches("state=online").count() == 2)
        })
        .await
    }

    /// Waits until each Sentinel knows the primary, its replicas and the others.
    async fn watched(&self) -> anyhow::Result<()> {
        for sentinel in &self.sentinels {
            until("the Sentinels know one another", READY_TIME, async || {
                let info = sentinel.ask("INFO sentinel").await.unwrap_or_default();
                info.contains("status=ok") && info.contains("slaves=2") && info.contains("sentinels=3")
            })
            .await?;
        }
        Ok(())
    }

    /// Where it is reached without a network in between.
    pub(crate) fn addr(&self) -> Option<SocketAddr> {
        self.servers.first().filter(|_| self.sentinels.is_empty()).map(|server| server.addr)
    }

    /// `store.url` of a member; `near` leads to [`Redis::addr`].
    pub(crate) fn url(&self, near: SocketAddr) -> String {
        if self.sentinels.is_empty() {
            return format!("redis://{near}");
        }
        let hosts: Vec<String> = self.sentinels.iter().map(|sentinel| sentinel.addr.to_string()).collect();
        format!("redis+sentinel://{}/{NAME}", hosts.join(","))
    }

    /// The server that is the primary now, for all that the Sentinels say.
    async fn primary(&self) -> anyhow::Result<&Server> {
        let at = self.primary_at().await?;
        self.servers.get(at).context("no server")
    }

    async fn primary_at(&self) -> anyhow::Result<usize> {
        let Some(sentinel) = self.sentinels.first() else { return Ok(0) };
        let answer = sentinel.ask(&format!("SENTINEL get-master-addr-by-name {NAME}")).await;
        let answer = answer.context("a Sentinel does not answer")?;
        let port = answer.lines().last().and_then(|port| port.trim().parse::<u16>().ok());
        let at = self.servers.iter().position(|server| Some(server.addr.port()) == port);
        at.with_context(|| format!("the Sentinels name no server of ours: {answer:?}"))
    }

    /// Kills the server (SIGKILL), waits a while and starts it again on the same port and data.
    ///
    /// # Errors
    /// When it does not come back.
    pub(crate) async fn restart(&mut self, away: Duration) -> anyhow::Result<()> {
        let server = self.servers.first_mut().context("no server")?;
        server.kill().await?;
        sleep(away).await;
        server.again().await
    }

    /// A power cut: all that was written to the file in the last `unsynced` is lost with the process. SIGKILL alone loses nothing, since the
    /// system still writes what it was given.
    ///
    /// # Errors
    /// When it does not come back.
    pub(crate) async fn cut_power(&mut self, unsynced: Duration, away: Duration) -> anyhow::Result<u64> {
        let server = self.servers.first_mut().context("no server")?;
        let before = server.log_end()?;
        sleep(unsynced).await;
        server.kill().await?;
        let lost = match before {
            Some((file, length)) => {
                let end = std::fs::metadata(&file)?.len();
                std::fs::File::options().write(true).open(&file)?.set_len(length)?;
                end - length
            }
            None => anyhow::bail!("the server has no append-only file"),
        };
        sleep(away).await;
        server.again().await?;
        Ok(lost)
    }

    /// The replicas hear nothing any more; the primary goes on, and acknowledges what they will not have.
    ///
    /// # Errors
    /// When the primary does not answer.
    pub(crate) async fn part(&self) -> anyhow::Result<()> {
        let primary = self.primary_at().await?;
        for (_, replica) in self.servers.iter().enumerate().filter(|(at, _)| *at != primary) {
            replica.pause(true)?;
        }
        // Or what comes now would wait for them in their sockets.
        self.primary().await?.ask("CLIENT KILL TYPE replica").await.context("the primary does not answer")?;
        Ok(())
    }

    /// The primary dies and a replica that had been parted becomes the primary; the former one comes back as a replica.
    ///
    /// # Errors
    /// When the Sentinels do not do it in time.
    pub(crate) async fn fail_over(&mut self) -> anyhow::Result<()> {
        let former = self.primary_at().await?;
        self.servers.get_mut(former).context("no server")?.kill().await?;
        for (_, replica) in self.servers.iter().enumerate().filter(|(at, _)| *at != former) {
            replica.pause(false)?;
        }
        self.failed_over(former).await?;
        self.servers.get_mut(former).context("no server")?.again().await
    }

    /// Waits until another server than this one is the primary, also for itself.
    async fn failed_over(&self, former: usize) -> anyhow::Result<()> {
        until("a failover", FAILOVER_TIME, async || {
            let Ok(now) = self.primary_at().await else { return false };
            now != former && matches!(self.servers.get(now), Some(server) if server.is_primary().await)
        })
        .await
    }

    /// Waits until all is as at the start: nothing is left of a failover.
    ///
    /// # Errors
    /// When it is not in time.
    pub(crate) async fn healed(&self) -> anyhow::Result<()> {
        if self.kind == Kind::Sentinel {
            self.replicated().await?;
            self.watched().await?;
        }
        Ok(())
    }

    /// Forgets all scripts, as a restart does; the data stays.
    ///
    /// # Errors
    /// When it does not answer.
    pub(crate) async fn flush_scripts(&self) -> anyhow::Result<()> {
        self.primary().await?.tell("SCRIPT FLUSH").await
    }

    /// Forgets everything.
    ///
    /// # Errors
    /// When it does not answer.
    pub(crate) async fn flush_all(&self) -> anyhow::Result<()> {
        self.primary().await?.tell("FLUSHALL").await
    }

    /// The primary stands still for a while (SIGSTOP, SIGCONT): connections stay open and nobody answers. Under Sentinel another takes its
    /// place meanwhile, and it wakes up as one that does not know yet.
    ///
    /// # Errors
    /// When the system refuses, or it took much longer.
    pub(crate) async fn stand_still(&self, time: Duration) -> anyhow::Result<()> {
        let at = self.primary_at().await?;
        let server = self.servers.get(at).context("no server")?;
        server.pause(true)?;
        let begin = Instant::now();
        sleep(time).await;
        let moved = if self.sentinels.is_empty() { Ok(()) } else { self.failed_over(at).await };
        server.pause(false)?;
        moved?;
        let most = if self.sentinels.is_empty() { time * 2 } else { time * 2 + FAILOVER_TIME };
        anyhow::ensure!(begin.elapsed() < most, "the outage took {:?}", begin.elapsed());
        Ok(())
    }
}

/// Waits for a condition.
async fn until(what: &str, limit: Duration, holds: impl AsyncFn() -> bool) -> anyhow::Result<()> {
    let begin = Instant::now();
    while !holds().await {
        anyhow::ensure!(begin.elapsed() < limit, "waited too long: {what}");
        sleep(LOOK).await;
    }
    Ok(())
}

/// A process of `redis-server`; dropped, it is killed.
#[derive(Debug)]
struct Server {
    child: Child,
    folder: PathBuf,
    name: String,
    args: Vec<String>,
    addr: SocketAddr,
}

impl Server {
    /// A server with these arguments on a free port, or a Sentinel with this configuration.
    async fn start(folder: &Path, name: &str, args: &[&str], sentinel: Option<&str>) -> anyhow::Result<Self> {
        let data = folder.join(name);
        std::fs::create_dir_all(&data)?;
        let mut args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        if let Some(config) = sentinel {
            let file = data.join("sentinel.conf");
            std::fs::write(&file, config)?;
            args.splice(0..0, [file.display().to_string()]);
            args.push("--sentinel".to_owned());
        }
        for _ in 0..PORTS {
            let addr = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
            // Another process may have taken the port in between: then this one ends, and the next port is tried.
            if let Some(child) = serve(folder, name, &args, addr).await? {
                return Ok(Self { child, folder: folder.to_owned(), name: name.to_owned(), args, addr });
            }
        }
        anyhow::bail!("redis-server ended {PORTS} times at its start; see {name}.log")
    }

    async fn kill(&mut self) -> anyhow::Result<()> {
        Ok(self.child.kill().await?)
    }

    async fn again(&mut self) -> anyhow::Result<()> {
        let child = serve(&self.folder, &self.name, &self.args, self.addr).await?;
        self.child = child.with_context(|| format!("redis-server did not come back; see {}.log", self.name))?;
        Ok(())
    }

    /// Stops it where it stands, or lets it go on.
    fn pause(&self, stopped: bool) -> anyhow::Result<()> {
        let id = self.child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let pid = id.context("redis-server has ended")?;
        Ok(kill_process(pid, if stopped { Signal::STOP } else { Signal::CONT })?)
    }

    /// The append-only file that grows, and its length.
    fn log_end(&self) -> anyhow::Result<Option<(PathBuf, u64)>> {
        let files = std::fs::read_dir(self.folder.join(&self.name).join("appendonlydir"))?;
        let files = files.filter_map(|entry| Some(entry.ok()?.path()));
        let growing = files.filter(|path| path.to_string_lossy().ends_with(".incr.aof")).max();
        growing.map(|path| anyhow::Ok((path.clone(), std::fs::metadata(&path)?.len()))).transpose()
    }

    async fn is_primary(&self) -> bool {
        self.ask("ROLE").await.is_some_and(|role| role.contains("master\r\n"))
    }

    /// Sends a command that is answered with OK.
    async fn tell(&self, command: &str) -> anyhow::Result<()> {
        let answer = self.ask(command).await.with_context(|| format!("no answer to {command}"))?;
        anyhow::ensure!(answer.starts_with("+OK"), "{command}: {answer}");
        Ok(())
    }

    async fn ask(&self, command: &str) -> Option<String> {
        ask(self.addr, command).await
    }
}

/// Starts `redis-server` and waits until that very process answers; `None` if it ended before.
async fn serve(folder: &Path, name: &str, args: &[String], addr: SocketAddr) -> anyhow::Result<Option<Child>> {
    let log = std::fs::File::options().create(true).append(true).open(folder.join(format!("{name}.log")))?;
    let mut command = Command::new("redis-server");
    let (port, data) = (addr.port().to_string(), folder.join(name));
    command.args(args).args(["--port", &port, "--bind", "127.0.0.1", "--dir"]).arg(&data);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).kill_on_drop(true);
    let mut child = command.spawn().context("redis-server cannot be started: is it installed?")?;
    let ours = format!("process_id:{}\r", child.id().unwrap_or_default());
    let begin = Instant::now();
    while child.try_wait()?.is_none() {
        if ask(addr, "INFO server").await.is_some_and(|info| info.contains(&ours)) {
            return Ok(Some(child));
        }
        anyhow::ensure!(begin.elapsed() < READY_TIME, "redis-server did not answer in time; see {name}.log");
        sleep(LOOK).await;
    }
    Ok(None)
}

/// Sends an inline command, and reads its answer to the end: the server closes what will ask no more.
async fn ask(addr: SocketAddr, command: &str) -> Option<String> {
    let ask = async {
        let mut stream = TcpStream::connect(addr).await.ok()?;
        stream.write_all(format!("{command}\r\n").as_bytes()).await.ok()?;
        stream.shutdown().await.ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.ok()?;
        (!answer.is_empty()).then(|| String::from_utf8_lossy(&answer).into_owned())
    };
    timeout(Duration::from_secs(1), ask).await.ok().flatten()
}
