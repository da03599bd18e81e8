//! `demo cluster`, driven by its standard input.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::{
    nodes::{Cluster, can_run, until},
    support::{client::Player, process::PATIENCE},
};

/// The command, its input, and what it prints.
struct Running {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    /// Everything so far.
    seen: Vec<String>,
}

impl Running {
    fn start(dir: &Path) -> Self {
        Self::start_with(dir, &mut Command::new(env!("CARGO_BIN_EXE_demo")))
    }

    fn start_with(dir: &Path, command: &mut Command) -> Self {
        let mut child = command
            .args(["cluster", "--nodes", "2", "--dir"])
            .arg(dir.join("c"))
            .args([
                "--set",
                "gateway.listen=127.0.0.1:0",
                "--set",
                "admin.listen=127.0.0.1:0",
                "--set",
                "shards.count=16",
            ])
            .arg("--ready-file")
            .arg(dir.join("ready.json"))
            .current_dir(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the demo starts");
        let (said, lines) = channel();
        let output = BufReader::new(child.stdout.take().expect("piped"));
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| said.send(line)));
        let input = child.stdin.take();
        Self { child, input, lines, seen: Vec::new() }
    }

    fn say(&mut self, line: &str) {
        writeln!(self.input.as_mut().expect("open"), "{line}").expect("it reads");
    }

    /// The next line that has this text.
    fn line(&mut self, text: &str) -> String {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => {
                    self.seen.push(line.clone());
                    if line.contains(text) {
                        return line;
                    }
                }
                Err(why) => panic!("no line with {text:?} ({why}) after:\n{}", self.seen.join("\n")),
            }
        }
    }

    /// Process ids of all members that got ready so far.
    fn pids(&self) -> Vec<i32> {
        let pids = self.seen.iter().filter_map(|line| line.rsplit_once("pid ")?.1.trim().parse().ok());
        pids.collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn lives(pid: i32) -> bool {
    Pid::from_raw(pid).is_some_and(|pid| test_kill_process(pid).is_ok())
}

fn store_answers(running: &Running) -> bool {
    let line = running.seen.iter().find_map(|line| line.strip_prefix("store redis://")).expect("it says where");
    let address = line.split('/').next().expect("an address");
    std::net::TcpStream::connect(address).is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_driven_by_lines() {
    if !can_run() {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let mut cluster = Running::start(dir.path());
    cluster.line("3 members, 2 of them room nodes; 16 shards");
    let play = cluster.line("play  http://");
    let url = format!("ws://{}ws", play.rsplit_once("http://").expect("a URL").1);
    cluster.line("help");
    assert!(dir.path().join("ready.json").exists());
    let second = Command::new(env!("CARGO_BIN_EXE_demo"))
        .args(["cluster", "--dir"])
        .arg(dir.path().join("c"))
        .stdin(Stdio::null())
        .output()
        .expect("it ran");
    assert_eq!(second.status.code(), Some(2), "{second:?}");

    let mut ada = Player::join(&url, "arena", "lines").await;
    cluster.say("kill 1");
    cluster.line("node-1 has ended: signal 9");
    cluster.say("kill 1");
    cluster.line("node-1 does not run");
    let shown = ada.shown;
    ada.until("news of the other node", |p| p.shown.0 >= shown.0 && p.shown > shown).await;
    cluster.say("start 1");
    cluster.line("node-1 is ready");
    cluster.say("add");
    cluster.line("node-3 is ready");
    // The new ones take their share first: a shard on its way has no owner.
    loop {
        cluster.say("map");
        if cluster.line(" members, ").contains("4 members, 3 of them room nodes; 16 shards, 0 without an owner") {
            break;
        }
    }
    cluster.say("drain 2");
    cluster.line("node-2 has ended: exit code 0");
    cluster.say("bogus");
    cluster.line("is not known");
    cluster.say("quit");
    assert_eq!(ada.closed().await, Some(1012), "a planned stop says: restart");
    let status = until("the end", || cluster.child.try_wait().expect("wait"));
    cluster.line("everything is saved");
    assert_eq!(status.code(), Some(0), "{}", cluster.seen.join("\n"));
    let pids = cluster.pids();
    assert!(pids.len() >= 5, "{pids:?}");
    assert_eq!(pids.into_iter().filter(|pid| lives(*pid)).count(), 0, "no orphans");
    assert!(!store_answers(&cluster));
}

#[test]
fn without_input_it_runs_until_a_signal_and_its_children_die_with_it() {
    if !can_run() {
        return;
    }
    for signal in [Signal::TERM, Signal::KILL] {
        if signal == Signal::KILL && !cfg!(target_os = "linux") {
            continue;
        }
        let dir = tempfile::tempdir().expect("a folder");
        let mut cluster = Running::start(dir.path());
        drop(cluster.input.take());
        cluster.line("nothing more is read");
        cluster.line("help");
        assert_eq!(cluster.child.try_wait().expect("wait"), None, "it goes on");
        kill_process(Pid::from_child(&cluster.child), signal).expect("a signal");
        let status = until("the end", || cluster.child.try_wait().expect("wait"));
        assert_eq!(status.code(), (signal == Signal::TERM).then_some(0), "{}", cluster.seen.join("\n"));
        let pids = cluster.pids();
        assert!(pids.len() >= 3, "{pids:?}");
        until("the end of the children", || pids.iter().all(|pid| !lives(*pid)).then_some(()));
        until("the end of the store", || (!store_answers(&cluster)).then_some(()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_redis_the_nodes_share_one_process() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_demo"));
    let mut cluster = Running::start_with(dir.path(), command.env("PATH", dir.path()));
    cluster.line("redis-server is not installed");
    let play = cluster.line("gateway-1 is ready: play http://");
    let address = play.split("play http://").nth(1).and_then(|rest| rest.split('/').next()).expect("an address");
    cluster.line("help");
    let mut ada = Player::join(&format!("ws://{address}/ws"), "arena", "one-process").await;
    cluster.say("kill 1");
    cluster.line("node-1 is killed");
    cluster.say("pause 2");
    cluster.line("install redis-server");
    loop {
        cluster.say("map");
        if cluster.line(" members, ").contains("2 members, 1 of them room nodes; 16 shards, 0 without an owner") {
            break;
        }
    }
    let shown = ada.shown;
    ada.until("news of the other node", |p| p.shown > shown).await;
    cluster.say("start 1");
    cluster.line("node-1 is ready");
    cluster.say("drain 2");
    cluster.line("node-2 has ended");
    cluster.say("quit");
    assert_eq!(ada.closed().await, Some(1012), "a planned stop says: restart");
    cluster.line("the cluster has stopped");
    let status = until("the end", || cluster.child.try_wait().expect("wait"));
    assert_eq!(status.code(), Some(0), "{}", cluster.seen.join("\n"));
}

#[test]
fn a_password_of_the_store_stays_in_its_file() {
    if !can_run() {
        return;
    }
    let store = Cluster::new();
    store.call("CONFIG SET requirepass s3cret");
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("password");
    std::fs::write(&file, "s3cret\n").expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_demo"));
    command.env("TENURE_STORE__URL", &store.url).env("TENURE_STORE__PASSWORD_FILE", &file);
    let mut cluster = Running::start_with(dir.path(), &mut command);
    cluster.line("3 members, 2 of them room nodes; 16 shards");
    let pids = cluster.pids();
    assert_eq!(pids.len(), 3, "{}", cluster.seen.join("\n"));
    for pid in pids {
        // Everybody on the machine may read it.
        if let Ok(line) = std::fs::read(format!("/proc/{pid}/cmdline")) {
            let line = String::from_utf8_lossy(&line).into_owned();
            assert!(line.contains("store.url") && !line.contains("s3cret"), "{line}");
        }
    }
    cluster.say("quit");
    cluster.line("everything is saved");
    assert!(!cluster.seen.iter().any(|line| line.contains("s3cret")), "{}", cluster.seen.join("\n"));
}
