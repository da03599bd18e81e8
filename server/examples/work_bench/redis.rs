//! A redis-server of its own, in a folder that goes with it.

use std::{
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// Time to answer.
const READY: Duration = Duration::from_secs(20);

/// Dropped, it is killed.
pub(crate) struct Server {
    child: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Server {
    /// Starts it; what it acknowledges is on disk.
    pub(crate) fn start() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let text = port.to_string();
        let mut command = Command::new("redis-server");
        command.args(["--port", &text, "--bind", "127.0.0.1", "--save", "", "--dir"]).arg(folder.path());
        command.args(["--appendonly", "yes", "--appendfsync", "always"]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
        let server = Self { child, port, _folder: folder };
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            anyhow::ensure!(begun.elapsed() < READY, "it does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    /// For `store.url`.
    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
