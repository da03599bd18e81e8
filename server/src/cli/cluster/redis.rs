//! The private store of a cluster: a `redis-server` on a free loopback port, durable at every write.

use std::{
    ffi::OsString,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    Settings,
    child::{self, Process},
};
use crate::runtime::Clock;

/// Programs that will do.
const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];
/// Longest time until it answers: it may have a large log to read.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time for a question whether it answers.
const ASK: Duration = Duration::from_millis(500);
/// Time between two such questions.
const PAUSE: Duration = Duration::from_millis(20);
/// Most bytes of such an answer.
const INFO_BYTES: u64 = 64 * 1024;
/// Ports tried: another process may take one between the look and the start.
const TRIES: usize = 5;

/// The store's process, and how to start it again.
pub(super) struct Redis {
    pub(super) process: Option<Process>,
    program: PathBuf,
    port: u16,
    folder: PathBuf,
    pub(super) log: PathBuf,
    with: PathBuf,
}

/// Starts it; its URL and itself.
pub(super) fn start(settings: &Settings, program: PathBuf) -> Result<(String, Redis), String> {
    let folder = settings.folder.join("redis");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let (log, with) = (settings.folder.join("redis.log"), settings.program.clone());
    let mut redis = Redis { process: None, program, port: 0, folder, log, with };
    let mut why = String::new();
    for _ in 0..TRIES {
        redis.port = free_port()?;
        match redis.begin() {
            Ok(()) => return Ok((format!("redis://127.0.0.1:{}/0", redis.port), redis)),
            Err(text) => why = text,
        }
    }
    Err(why)
}

impl Redis {
    /// Starts it on its port and waits until it answers.
    pub(super) fn begin(&mut self) -> Result<(), String> {
        let text = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let mut line = vec![OsString::from(&self.program)];
        line.extend(text(&["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--protected-mode", "yes"]));
        line.extend(text(&["--appendonly", "yes", "--appendfsync", "always", "--save", "", "--daemonize", "no"]));
        line.extend(text(&["--maxmemory-policy", "noeviction", "--dir"]));
        line.push(self.folder.clone().into());
        let mut process = child::start(&self.with, &line, &self.log, true)?;
        let clock = Clock::system();
        let end = clock.now().plus(PATIENCE);
        let address = SocketAddr::from(([127, 0, 0, 1], self.port));
        loop {
            if let Some(status) = process.ended() {
                let (how, last) = (child::words(status), child::last_words(&self.log, 3));
                return Err(format!("{} ended with {how}:\n{last}", self.program.display()));
            }
            if answers(address, process.id()) {
                self.process = Some(process);
                return Ok(());
            }
            if clock.now() >= end {
                return Err(format!("{} does not answer; its log: {}", self.program.display(), self.log.display()));
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// Whether our child takes commands there: another server may have got the port, and one that is still loading its data does not.
fn answers(address: SocketAddr, child: u32) -> bool {
    let ask = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect_timeout(&address, ASK)?;
        stream.set_read_timeout(Some(ASK))?;
        // INFO is answered while data is loaded, PING is not.
        stream.write_all(b"PING\r\nINFO server\r\nQUIT\r\n")?;
        let mut answer = Vec::new();
        stream.take(INFO_BYTES).read_to_end(&mut answer)?;
        let answer = String::from_utf8_lossy(&answer);
        let pid = answer.lines().find_map(|line| line.strip_prefix("process_id:")?.trim().parse().ok());
        Ok(answer.starts_with("+PONG") && pid == Some(child))
    };
    ask().unwrap_or(false)
}

fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    listener.map(|address| address.port()).map_err(|error| format!("a free port: {error}"))
}

/// Where it is installed, if it is.
pub(super) fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let in_path = |name: &str| {
        std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file: &PathBuf| is_program(file))
    };
    PROGRAMS.iter().find_map(|name| in_path(name))
}

fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    file.metadata().is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_child_itself_counts_as_an_answer() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("bound");
        let server = std::thread::spawn(move || {
            for loading in [false, false, true] {
                let (mut stream, _) = listener.accept().expect("asked");
                let mut question = [0; 25];
                stream.read_exact(&mut question).expect("whole");
                assert_eq!(&question, b"PING\r\nINFO server\r\nQUIT\r\n");
                let first = if loading { "-LOADING" } else { "+PONG" };
                write!(stream, "{first}\r\n$26\r\n# Server\r\nprocess_id:4711\r\n\r\n+OK\r\n").expect("answered");
            }
        });
        assert!(answers(address, 4711));
        assert!(!answers(address, 4712), "somebody else has the port");
        assert!(!answers(address, 4711), "it still loads its data");
        server.join().expect("asked three times");
    }
}
