//! The demo as a child process on free ports and a folder of its own; it dies with its handle.

use std::{
    io::Read as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

/// Longest that a test waits for a condition.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A running demo.
pub(crate) struct Server {
    child: Child,
    /// `ws://…/ws`
    pub(crate) ws: String,
    /// `http://…` of the player port.
    pub(crate) play: String,
    /// `http://…` of the admin port.
    pub(crate) admin: String,
}

/// What a server needs to start: kept over restarts, so that the same data is found again.
pub(crate) struct Home {
    /// Folder of the test.
    pub(crate) dir: tempfile::TempDir,
    /// Further arguments of `serve`.
    pub(crate) args: Vec<String>,
    port: u16,
}

impl Home {
    /// A new folder.
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("temp folder"), args: Vec::new(), port: 0 }
    }

    /// Adds `--set key=value`.
    pub(crate) fn set(mut self, setting: &str) -> Self {
        self.args.extend(["--set".into(), setting.into()]);
        self
    }

    /// Uses these reward schedules.
    pub(crate) fn rewards(mut self, text: &str) -> Self {
        let path = self.dir.path().join("rewards.toml");
        std::fs::write(&path, text).expect("rewards file");
        self.args.extend(["--rewards".into(), path.display().to_string()]);
        self
    }

    /// The data folder.
    pub(crate) fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// `demo serve …` with free ports (the same play port again after the first start).
    pub(crate) fn command(&self, ready: &Path) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_demo"));
        command
            .arg("serve")
            .args(["--ready-file", &ready.display().to_string()])
            .args(["--set", &format!("store.path={}", self.data().display())])
            .args(["--set", &format!("gateway.listen=127.0.0.1:{}", self.port)])
            .args(["--set", "admin.listen=127.0.0.1:0"])
            .args(&self.args)
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Starts a server and waits until it is ready.
    pub(crate) fn start(&mut self) -> Server {
        let ready = self.dir.path().join("ready.json");
        drop(std::fs::remove_file(&ready));
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.dir.path().join("server.log"))
            .expect("log file");
        let mut child = self
            .command(&ready)
            .stdout(log.try_clone().expect("log file"))
            .stderr(log)
            .spawn()
            .expect("the demo starts");
        let start = Instant::now();
        let text = loop {
            if let Ok(text) = std::fs::read_to_string(&ready) {
                break text;
            }
            if let Some(status) = child.try_wait().expect("wait") {
                panic!("the server ended with {status}: {}", self.log());
            }
            assert!(start.elapsed() < PATIENCE, "the server is not ready: {}", self.log());
            std::thread::park_timeout(Duration::from_millis(5));
        };
        let ready: serde_json::Value = serde_json::from_str(&text).expect("ready file");
        let get = |key: &str| ready[key].as_str().unwrap_or_else(|| panic!("{key} in {text}")).to_owned();
        let (play, admin) = (get("play"), get("admin"));
        let address = play.trim_start_matches("http://").trim_end_matches('/').to_owned();
        self.port = address.rsplit(':').next().and_then(|p| p.parse().ok()).expect("a port");
        Server { child, ws: format!("ws://{address}/ws"), play, admin }
    }

    /// What the servers of this home have printed.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("server.log")).unwrap_or_default()
    }
}

impl Server {
    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// kill -9.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("kill");
        self.child.wait().expect("wait");
    }

    /// SIGTERM, and its exit status.
    pub(crate) fn terminate(mut self) -> ExitStatus {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("kill");
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("wait") {
                return status;
            }
            assert!(start.elapsed() < PATIENCE, "the server does not end after SIGTERM");
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Runs the demo with these arguments to its end: exit code, standard output, standard error.
pub(crate) fn run(args: &[&str], dir: &Path) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_demo"))
        .args(args)
        .current_dir(dir)
        .stdin(Stdio::null())
        .output()
        .expect("the demo starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// `GET url` of a plain HTTP server: status and body.
pub(crate) fn get(url: &str) -> (u16, String) {
    use std::io::Write as _;
    let rest = url.trim_start_matches("http://");
    let (address, path) = rest.split_once('/').unwrap_or((rest, ""));
    let mut stream = std::net::TcpStream::connect(address).expect("connect");
    stream.set_read_timeout(Some(PATIENCE)).expect("timeout");
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").expect("write");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("read");
    let status = text.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or_else(|| panic!("no status: {text}"));
    let body = text.split_once("\r\n\r\n").map_or(String::new(), |(_, body)| body.to_owned());
    (status, body)
}
