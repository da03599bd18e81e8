//! The server as a child process: started, killed, stopped in good order.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    process::{Child, Command},
    time::{sleep, timeout},
};

use crate::{report, run};

/// Time for a server to become ready.
const READY_TIME: Duration = Duration::from_secs(60);
/// Time for a server to save everything after SIGTERM.
const STOP_TIME: Duration = Duration::from_secs(40);

/// The environment variable that arms fault points.
pub(crate) const FAULTS: &str = "TENURE_FAULT";

/// How to start a server.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    /// Written by the server once it is ready.
    pub(crate) ready_file: PathBuf,
    /// Takes its output.
    pub(crate) log: PathBuf,
    /// Processor to keep to.
    pub(crate) cpu: Option<u32>,
    /// Fault points that are armed in it; development builds alone have any.
    pub(crate) faults: Option<String>,
}

impl Launch {
    /// `PATH serve` on a data folder inside of `folder`, with all ports on loopback; `port` 0 takes any.
    pub(crate) fn server(program: &Path, folder: &Path, port: u16, more: &[String]) -> Self {
        let ready_file = folder.join("ready.json");
        let mut args: Vec<String> = vec!["serve".into(), "--ready-file".into(), ready_file.display().to_string()];
        let store = format!("store.path={}", folder.join("data").display());
        let play = format!("gateway.listen=127.0.0.1:{port}");
        for setting in [store, play, "admin.listen=127.0.0.1:0".into(), "link.listen=127.0.0.1:0".into()] {
            args.extend(["--set".to_owned(), setting]);
        }
        args.extend_from_slice(more);
        Self { program: program.to_owned(), args, ready_file, log: folder.join("server.log"), cpu: None, faults: None }
    }

    /// `PATH serve` as a part of a cluster on the store at `store`, with all ports on loopback and any port.
    pub(crate) fn member(program: &Path, folder: &Path, name: &str, role: &str, store: &str, more: &[String]) -> Self {
        let ready_file = folder.join(format!("{name}.json"));
        let mut args: Vec<String> = vec!["serve".into(), "--ready-file".into(), ready_file.display().to_string()];
        let settings = [
            format!("node.name={name}"),
            format!("node.roles={role}"),
            format!("store.url={store}"),
            "gateway.listen=127.0.0.1:0".into(),
            "admin.listen=127.0.0.1:0".into(),
            "link.listen=127.0.0.1:0".into(),
        ];
        for setting in settings {
            args.extend(["--set".to_owned(), setting]);
        }
        args.extend_from_slice(more);
        Self {
            program: program.to_owned(),
            args,
            ready_file,
            log: folder.join(format!("{name}.log")),
            cpu: None,
            faults: None,
        }
    }

    /// Starts it and waits until it is ready.
    ///
    /// # Errors
    /// When it cannot be started, ends, or is not ready in time; the text has the end of its output.
    pub(crate) async fn start(&self) -> anyhow::Result<Running> {
        self.start_armed().await?.context("the server came to its fault point before it was ready")
    }

    /// The same; `None` when it came to its fault point, and died there, before it was ready.
    ///
    /// # Errors
    /// As [`Launch::start`].
    pub(crate) async fn start_armed(&self) -> anyhow::Result<Option<Running>> {
        if let Err(error) = std::fs::remove_file(&self.ready_file)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            return Err(error.into());
        }
        let log = std::fs::File::options().create(true).append(true).open(&self.log)?;
        let mut command = pinned(&self.program, self.cpu);
        command.envs(self.faults.iter().map(|faults| (FAULTS, faults)));
        command.args(&self.args).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).kill_on_drop(true);
        let child = command.spawn().with_context(|| format!("cannot start {}", self.program.display()))?;
        let mut running = Running { child, url: String::new(), pid: None, link: None, admin: None };
        let begin = Instant::now();
        loop {
            if let Some(status) = running.child.try_wait()? {
                if self.faults.is_some() && status.code().is_none() {
                    return Ok(None);
                }
                anyhow::bail!("the server ended ({status}) before it was ready: {}", self.last_words());
            }
            // A file that is half written is read again.
            if let Ok(text) = std::fs::read_to_string(&self.ready_file)
                && let Ok(file) = serde_json::from_str::<serde_json::Value>(&text)
            {
                // A room node has no port for players.
                (running.url, running.pid) = run::ready(&text).unwrap_or_default();
                let address = |key: &str| file[key].as_str().and_then(|text| text.rsplit('/').next()?.parse().ok());
                (running.link, running.admin) = (address("link"), address("admin"));
                running.pid = running.pid.or(file["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()));
                return Ok(Some(running));
            }
            anyhow::ensure!(begin.elapsed() < READY_TIME, "the server was not ready in time: {}", self.last_words());
            sleep(Duration::from_millis(20)).await;
        }
    }

    fn last_words(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = text.lines().rev().take(3).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
    }
}

/// A command that keeps to one processor where `taskset` exists.
pub(crate) fn pinned(program: &Path, cpu: Option<u32>) -> Command {
    let found = || {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).map(|folder| folder.join("taskset")).find(|file| file.is_file())
    };
    match cpu.and_then(|cpu| Some((cpu, found()?))) {
        Some((cpu, taskset)) => {
            let mut command = Command::new(taskset);
            command.arg("-c").arg(cpu.to_string()).arg(program);
            command
        }
        None => Command::new(program),
    }
}

/// A server that runs; dropped, it is killed.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    pub(crate) url: String,
    pub(crate) pid: Option<u32>,
    /// Where its links are reached, if it has any.
    pub(crate) link: Option<std::net::SocketAddr>,
    /// Its admin port.
    pub(crate) admin: Option<std::net::SocketAddr>,
}

impl Running {
    /// Kills it at once, as a crash would (SIGKILL).
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) async fn kill(mut self) -> anyhow::Result<()> {
        self.kill_now().await
    }

    /// The same, and what is known of it stays.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) async fn kill_now(&mut self) -> anyhow::Result<()> {
        Ok(self.child.kill().await?)
    }

    /// What the system says of it: `T` when it stands still (SIGSTOP), `Z` when it has ended; `None` if it says nothing.
    pub(crate) fn state(&self) -> Option<char> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()?)).ok()?;
        // Behind the name, which may have any character in it.
        stat.rsplit_once(')')?.1.trim_start().chars().next()
    }

    /// Waits until it dies of itself; whether it did so in time.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) async fn died(&mut self, limit: Duration) -> anyhow::Result<bool> {
        match timeout(limit, self.child.wait()).await {
            Ok(status) => Ok(status?.code().is_none()),
            Err(_) => Ok(false),
        }
    }

    /// Stops it where it stands (SIGSTOP), or lets it go on (SIGCONT).
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn pause(&self, stopped: bool) -> anyhow::Result<()> {
        let id = self.child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let pid = id.context("the process has ended")?;
        Ok(kill_process(pid, if stopped { Signal::STOP } else { Signal::CONT })?)
    }

    /// Asks it to stop (SIGTERM) and waits; returns whether it ended with 0 in time.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) async fn stop(self) -> anyhow::Result<bool> {
        self.ask_to_stop()?;
        self.ended().await
    }

    /// Asks it to stop (SIGTERM).
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn ask_to_stop(&self) -> anyhow::Result<()> {
        match self.child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)) {
            Some(pid) => Ok(kill_process(pid, Signal::TERM)?),
            None => Ok(()),
        }
    }

    /// Waits until it has ended; returns whether it did so with 0 in time.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) async fn ended(mut self) -> anyhow::Result<bool> {
        match timeout(STOP_TIME, self.child.wait()).await {
            Ok(status) => Ok(status?.success()),
            Err(_) => {
                self.child.kill().await?;
                Ok(false)
            }
        }
    }
}

/// A folder under the system's temporary one, for one run.
///
/// # Errors
/// When it cannot be made.
pub(crate) fn scratch(name: &str) -> anyhow::Result<PathBuf> {
    let folder = std::env::temp_dir().join(format!("tenure-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

/// What becomes of that folder at the end: nothing of it is needed where all was well; else the logs and data in it are.
///
/// # Errors
/// When it cannot be removed.
pub(crate) fn clear(folder: &Path, result: &anyhow::Result<u8>) -> anyhow::Result<()> {
    if matches!(result, Ok(0)) {
        std::fs::remove_dir_all(folder)?;
    } else {
        report::say(&format!("note: logs and data are kept in {}", folder.display()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(folder: &Path, body: &str) -> Launch {
        Launch {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), body.into()],
            ready_file: folder.join("ready.json"),
            log: folder.join("log"),
            cpu: None,
            faults: None,
        }
    }

    #[tokio::test]
    async fn a_server_that_ends_early_leaves_its_last_words() {
        let folder = tempfile::tempdir().expect("folder");
        let error = script(folder.path(), "echo port is taken >&2; exit 3").start().await.expect_err("ended");
        let text = error.to_string();
        assert!(text.contains("exit status: 3") && text.contains("port is taken"), "{text}");
    }

    #[tokio::test]
    async fn a_ready_server_can_be_stopped_and_killed() {
        let folder = tempfile::tempdir().expect("folder");
        // A pipe that nobody writes to: the shell waits by itself, so that nothing outlives it, whatever ends it.
        let body = format!(
            "mkfifo {0}/wait; trap 'exit 0' TERM; echo '{{\"play\":\"127.0.0.1:9\",\"pid\":7}}' > {0}/ready.json; read -r _ <> {0}/wait",
            folder.path().display()
        );
        let launch = script(folder.path(), &body);
        let running = launch.start().await.expect("ready");
        running.pause(true).expect("stopped");
        while running.state() != Some('T') {
            tokio::task::yield_now().await;
        }
        running.pause(false).expect("goes on");
        assert_eq!((running.url.as_str(), running.pid), ("ws://127.0.0.1:9/ws", Some(7)));
        assert!(running.stop().await.expect("stopped"), "SIGTERM ends it with 0");
        launch.start().await.expect("ready again").kill().await.expect("killed");
    }
}
