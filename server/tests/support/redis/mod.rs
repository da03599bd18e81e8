//! Real Redis servers for tests: one, a Cluster, a primary under Sentinel; on free ports, in folders of their own, dead with their handles.
#![allow(dead_code, unused_imports, reason = "each test uses its part")]
#![expect(clippy::expect_used, reason = "a test says what it expected")]
#![expect(clippy::disallowed_methods, reason = "real processes are waited for in real time")]
#![expect(clippy::print_stderr, reason = "a test that is skipped says so")]

mod cluster;
mod sentinel;

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

pub(crate) use cluster::Cluster;
pub(crate) use sentinel::Sentinels;
use tenure::{
    runtime::Clock,
    store::{self, RedisOptions, Store},
};

/// Longest that a test waits for a condition.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where the time of a store under test starts, microseconds since 1970.
pub(crate) const START: u64 = 1_764_446_400_123_456;

/// Durable at every answer: no write that was acknowledged is ever forgotten by a crash.
pub(crate) const DURABLE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

/// Whether there is a Redis to test with. A machine without one skips; CI must have one.
pub(crate) fn available() -> bool {
    let found = Command::new("redis-server").arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        assert!(std::env::var_os("CI").is_none(), "redis-server is not installed; .ci/deps installs it");
        eprintln!("SKIPPED: redis-server is not installed (apt-get install redis-server)");
    }
    found
}

/// Waits for a condition.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "waited too long: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A port that was free a moment ago: Redis cannot choose one by itself.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").port()
}

/// One line of Redis' protocol as an answer to one command.
pub(crate) fn call(port: u16, words: &[&str]) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut text = format!("*{}\r\n", words.len());
    for word in words {
        text.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    stream.write_all(text.as_bytes())?;
    // The end of an answer is known only to who reads its form; a server closes what will ask no more.
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// A process that ends with its handle, also when a test fails while it waits for it.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // A process that stands still is killed all the same.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A running server.
pub(crate) struct Server {
    process: Process,
    /// Where it listens.
    pub(crate) port: u16,
    bus: u16,
    dir: Arc<tempfile::TempDir>,
    args: Vec<String>,
    sentinel: bool,
}

impl Server {
    /// A server with these arguments, in a folder of its own. `{port}` and `{bus}` in them stand for its own ports.
    pub(crate) fn start(args: &[&str]) -> Self {
        let dir = Arc::new(tempfile::tempdir().expect("temp folder"));
        let args: Vec<String> = ["--bind", "127.0.0.1", "--save", "", "--dir", &dir.path().display().to_string()]
            .iter()
            .chain(args)
            .map(|arg| (*arg).to_owned())
            .collect();
        Self::on_free_port(dir, args, false)
    }

    /// A Sentinel with this configuration.
    pub(crate) fn sentinel(config: &str) -> Self {
        let dir = Arc::new(tempfile::tempdir().expect("temp folder"));
        let path = dir.path().join("sentinel.conf");
        std::fs::write(&path, config).expect("written");
        Self::on_free_port(dir, vec![path.display().to_string()], true)
    }

    fn on_free_port(dir: Arc<tempfile::TempDir>, args: Vec<String>, sentinel: bool) -> Self {
        // Another process may have taken the port meanwhile: then the server ends at once, and there are other ports.
        for _ in 0..20 {
            let (port, bus) = (free_port(), free_port());
            let mut process = spawn(dir.path(), &args, [port, bus], sentinel);
            if answers(&mut process, port) {
                return Self { process, port, bus, dir, args, sentinel };
            }
        }
        panic!("no server came up: {}", std::fs::read_to_string(dir.path().join("log")).unwrap_or_default());
    }

    /// `redis://…`
    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The answer to a command, as Redis writes it.
    pub(crate) fn call(&self, words: &[&str]) -> String {
        call(self.port, words).unwrap_or_else(|error| panic!("{words:?} at {}: {error}", self.port))
    }

    /// Ends it as a power cut would.
    pub(crate) fn kill(&mut self) {
        self.signal("CONT");
        self.process.0.kill().expect("killed");
        self.process.0.wait().expect("ended");
    }

    /// Starts it again with what it has on disk.
    pub(crate) fn again(&mut self) {
        self.process = spawn(self.dir.path(), &self.args, [self.port, self.bus], self.sentinel);
        assert!(answers(&mut self.process, self.port), "it came up again");
    }

    /// Stands still, with all its connections open.
    pub(crate) fn pause(&self) {
        self.signal("STOP");
    }

    /// Goes on.
    pub(crate) fn resume(&self) {
        self.signal("CONT");
    }

    fn signal(&self, name: &str) {
        let done = Command::new("kill").args([&format!("-{name}"), &self.process.0.id().to_string()]).status();
        assert!(done.is_ok_and(|status| status.success()) || name == "CONT", "kill -{name}");
    }
}

fn spawn(dir: &Path, args: &[String], ports: [u16; 2], sentinel: bool) -> Process {
    let log = std::fs::File::create(dir.join("log")).expect("a log");
    let [port, bus] = ports.map(|port| port.to_string());
    let mut command = Command::new("redis-server");
    command.args(args.iter().map(|arg| arg.replace("{port}", &port).replace("{bus}", &bus)));
    command.args(["--port", &port]);
    if sentinel {
        command.arg("--sentinel");
    }
    command.current_dir(dir).stdin(Stdio::null()).stdout(log.try_clone().expect("a log")).stderr(log);
    Process(command.spawn().expect("redis-server starts"))
}

/// Waits until it, and nobody else at its port, answers; `false` if it ended.
fn answers(process: &mut Process, port: u16) -> bool {
    let mut ended = false;
    let own = format!("process_id:{}\r\n", process.0.id());
    until("the server answers", || {
        ended = process.0.try_wait().expect("a child").is_some();
        // One with a password says no more than that.
        let is_own = |answer: String| answer.contains(&own) || answer.starts_with("-NOAUTH");
        ended || call(port, &["INFO", "server"]).is_ok_and(is_own)
    });
    !ended
}

/// Options whose time stands at [`START`] until it is moved, and the hand that moves it.
pub(crate) fn timed() -> (RedisOptions, Arc<AtomicU64>) {
    let time = Arc::new(AtomicU64::new(START));
    let options = RedisOptions {
        deadline: Duration::from_secs(10),
        test_time: Some(time.clone()),
        accept_loss: true,
        ..RedisOptions::default()
    };
    (options, time)
}

/// Moves such a time.
pub(crate) fn pass(time: &AtomicU64, by: Duration) {
    time.fetch_add(u64::try_from(by.as_micros()).expect("short"), Ordering::SeqCst);
}

/// Opens a store, or says why it does not open.
pub(crate) fn open(url: &str, options: RedisOptions) -> Store {
    store::redis(url, Clock::system(), options).unwrap_or_else(|error| panic!("{error}"))
}
