//! Nodes of one cluster as child processes, on a redis-server of their own.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tenure_shared::RoomId;

use crate::support::process::{PATIENCE, get};

/// Shards of these clusters: few, so that the tests are quick, and more than nodes.
pub(crate) const SHARDS: u32 = 24;

/// Where a program is, if it is installed.
pub(crate) fn installed(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Whether these tests can run here; where they must, a missing server is a failure.
pub(crate) fn can_run() -> bool {
    let found = installed("redis-server").is_some();
    if !found {
        assert!(std::env::var_os("CI").is_none(), "redis-server is not installed");
        eprintln!("skipped: redis-server is not installed");
    }
    found
}

/// Waits for a condition, in real time.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "{what} did not come");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

/// A cluster: its folder and its store. Nodes die with their handles, the store with this.
pub(crate) struct Cluster {
    pub(crate) dir: tempfile::TempDir,
    redis: Option<Child>,
    pub(crate) url: String,
}

impl Cluster {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        // The port may be taken between the look and the start: then another one.
        let (redis, port) = until("redis-server", || start_redis(dir.path()));
        Self { dir, redis: Some(redis), url: format!("redis://127.0.0.1:{port}/0") }
    }

    /// One whose store is another's.
    pub(crate) fn on(url: String) -> Self {
        Self { dir: tempfile::tempdir().expect("a folder"), redis: None, url }
    }

    /// The store stands still for so long, with its connections open.
    pub(crate) fn pause_store(&self, time: Duration) {
        let pid = Pid::from_child(self.redis.as_ref().expect("its own store"));
        kill_process(pid, Signal::STOP).expect("a signal");
        std::thread::sleep(time);
        kill_process(pid, Signal::CONT).expect("a signal");
    }

    /// The settings of every node and command.
    pub(crate) fn settings(&self, more: &[&str]) -> Vec<String> {
        let all = [format!("store.url={}", self.url), format!("shards.count={SHARDS}")];
        let all = all.into_iter().chain(more.iter().map(|setting| (*setting).to_owned()));
        all.flat_map(|setting| ["--set".to_owned(), setting]).collect()
    }

    /// `demo serve` for a node of this name.
    pub(crate) fn command(&self, name: &str, roles: &str, more: &[&str]) -> Command {
        let log = File::options().create(true).append(true).open(self.log_file(name)).expect("a log");
        let mut command = Command::new(env!("CARGO_BIN_EXE_demo"));
        command.arg("serve").arg("--ready-file").arg(self.ready_file(name));
        let own = [
            format!("node.name={name}"),
            format!("node.roles={roles}"),
            "gateway.listen=127.0.0.1:0".into(),
            "admin.listen=127.0.0.1:0".into(),
            "link.listen=127.0.0.1:0".into(),
            "drain.endpoint_lag=200ms".into(),
        ];
        command.args(own.into_iter().flat_map(|setting| ["--set".to_owned(), setting]));
        command.args(self.settings(more)).current_dir(self.dir.path()).stdin(Stdio::null());
        command.stdout(log.try_clone().expect("a log")).stderr(log);
        command
    }

    /// Starts a node and waits until it is ready.
    pub(crate) fn start(&self, name: &str, roles: &str, more: &[&str]) -> Node {
        let file = self.ready_file(name);
        drop(std::fs::remove_file(&file));
        let mut child = self.command(name, roles, more).spawn().expect("the demo starts");
        let ready: Value = until(name, || {
            if let Some(status) = child.try_wait().expect("wait") {
                panic!("{name} ended with {status}: {}", self.log(name));
            }
            serde_json::from_str(&std::fs::read_to_string(&file).ok()?).ok()
        });
        Node { name: name.to_owned(), child, ready }
    }

    /// Tells the store something.
    pub(crate) fn call(&self, line: &str) {
        let answer = self.ask(line);
        assert!(answer.starts_with("+OK"), "{line}: {answer}");
    }

    /// What the store says to a command.
    pub(crate) fn ask(&self, line: &str) -> String {
        let address = self.url.trim_start_matches("redis://").trim_end_matches("/0");
        let mut stream = TcpStream::connect(address).expect("it listens");
        write!(stream, "{line}\r\nQUIT\r\n").expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answered");
        answer
    }

    pub(crate) fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.log_file(name)).unwrap_or_default()
    }

    fn log_file(&self, name: &str) -> PathBuf {
        self.dir.path().join(format!("{name}.log"))
    }

    fn ready_file(&self, name: &str) -> PathBuf {
        self.dir.path().join(format!("{name}.json"))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(redis) = &mut self.redis {
            drop(redis.kill());
            drop(redis.wait());
        }
        if std::thread::panicking() {
            for entry in std::fs::read_dir(self.dir.path()).into_iter().flatten().flatten() {
                if entry.path().extension().is_some_and(|end| end == "log") {
                    let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
                    eprintln!("---- {}\n{text}", entry.path().display());
                }
            }
        }
    }
}

fn start_redis(dir: &Path) -> Option<(Child, u16)> {
    let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its number").port();
    let mut child = Command::new(installed("redis-server").expect("it is installed"))
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes"])
        .args(["--appendfsync", "always", "--dir"])
        .arg(dir)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-server starts");
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let up = until("redis-server or its end", || {
        let ended = child.try_wait().expect("wait").is_some();
        (ended || TcpStream::connect(address).is_ok()).then_some(!ended)
    });
    up.then_some((child, port))
}

/// A node that runs; killed with its handle.
pub(crate) struct Node {
    pub(crate) name: String,
    child: Child,
    ready: Value,
}

impl Node {
    /// One that starts, and may never be ready.
    pub(crate) fn unready(name: &str, mut command: Command) -> Self {
        Self { name: name.to_owned(), child: command.spawn().expect("the demo starts"), ready: Value::Null }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("a signal");
    }

    /// What its ready-file says.
    pub(crate) fn ready(&self, key: &str) -> Option<&str> {
        self.ready[key].as_str()
    }

    /// `ws://…/ws`
    pub(crate) fn ws(&self) -> String {
        format!("{}/ws", self.ready("play").expect("a gateway").trim_end_matches('/').replace("http://", "ws://"))
    }

    /// A page of its admin port.
    pub(crate) fn page(&self, path: &str) -> (u16, String) {
        get(&format!("{}{path}", self.ready("admin").expect("an admin port").trim_end_matches('/')))
    }

    /// The cluster as it sees it.
    pub(crate) fn cluster(&self) -> Value {
        let (status, body) = self.page("/admin/cluster");
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).expect("JSON")
    }

    /// The life that holds the room's shard, if one of the members does.
    pub(crate) fn owner(&self, room: &RoomId) -> Option<String> {
        let (cluster, shard) = (self.cluster(), u64::from(room.shard(SHARDS).0));
        let row = cluster["owners"].as_array()?.iter().find(|row| row["shard"].as_u64() == Some(shard))?;
        let owner = row["owner"].as_str()?;
        let lives = cluster["members"].as_array()?.iter().any(|member| member["incarnation"].as_str() == Some(owner));
        lives.then(|| owner.to_owned())
    }

    /// The life of a node of this name, if it is a member.
    pub(crate) fn life(&self, name: &str) -> Option<String> {
        let cluster = self.cluster();
        let member =
            cluster["members"].as_array()?.iter().find(|member| member["node"].as_str() == Some(name))?.clone();
        member["incarnation"].as_str().map(str::to_owned)
    }

    /// kill -9.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("kill");
        self.child.wait().expect("wait");
    }

    /// SIGSTOP.
    pub(crate) fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// SIGCONT.
    pub(crate) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// SIGTERM.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// How it ended.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let name = self.name.clone();
        until(&format!("the end of {name}"), || self.child.try_wait().expect("wait"))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
