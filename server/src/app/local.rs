//! `cluster` where no redis-server is installed: the nodes are parts of this process and share the embedded store.
//!
//! They are whole nodes all the same: each has its lease, its shards and its links over loopback, and runs on threads of its own. One that
//! is killed is dropped as it stands; nothing of it is saved, and its lease ends as a dead process' would. What needs processes, such as
//! SIGSTOP, is not there.

use std::{
    io::Write as _,
    process::ExitCode,
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::Duration,
};

use tokio::{runtime::Runtime, task::JoinHandle};

use super::{App, Server, StartError, StopOutcome, run, server::Parts, source::NodeSource};
use crate::{
    cli::{self, Cli, ClusterArgs, Exit, Said},
    config::{Config, LogConfig, Sources},
    ops::Source as _,
    runtime::{Clock, Rng, Shutdown},
    store::Store,
    telemetry::{self, Recent},
};

/// Time between two looks at nodes that end.
const LOOK: Duration = Duration::from_millis(50);
/// Most nodes: each has threads of its own.
const NODES: usize = 16;
/// What stands in `store.url`: shared, and opened by nobody.
const STORE: &str = "store.url=redis://in-process";
/// What a second stop may leave behind.
const HURRY: Duration = Duration::from_millis(200);

const HELP: &str = "\
  map          members, and how many shards each holds
  kill N       drop node N as it stands, as a crash would
  drain N      its shards move to the others, then it ends
  start N      start it again after its end
  add          one more room node
  quit         stop everything in order (as Ctrl-C does)
N is the number of a room node, or gateway-1. To pause nodes install redis-server: then they are processes.";

struct Node {
    name: String,
    set: Vec<String>,
    running: Option<Running>,
}

struct Running {
    server: std::sync::Arc<Server>,
    stopping: Option<JoinHandle<StopOutcome>>,
    runtime: Runtime,
}

struct Local<'a> {
    app: App,
    cli: &'a Cli,
    store: Store,
    recent: Recent,
    nodes: Vec<Node>,
}

/// Runs the cluster until it is told to stop.
pub(super) fn run(app: App, cli: &Cli, args: &ClusterArgs) -> ExitCode {
    match begin(app, cli, args) {
        Ok(true) => Exit::Good.into(),
        Ok(false) => Exit::Problem.into(),
        Err(text) => run::could_not_run(text),
    }
}

fn begin(app: App, cli: &Cli, args: &ClusterArgs) -> Result<bool, String> {
    let mut config = Config::load(&cli.common.sources()).map_err(|mistakes| mistakes.to_string())?;
    if config.log.filter == LogConfig::default().filter {
        // All nodes log to one place, between the lines of this command.
        config.log.filter = "warn".to_owned();
    }
    let clock = Clock::system();
    let recent = Recent::new(clock.clone());
    telemetry::init_logging(&config.log, &recent).map_err(|error| error.to_string())?;
    if let Some(folder) = &args.dir {
        config.store.path.clone_from(folder);
    } else {
        config.store.path.push("cluster");
    }
    config.store.path.push("embedded");
    let opening = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let opening = opening.map_err(|error| format!("no runtime: {error}"))?;
    let store = opening.block_on(cli::open_store(&config, &clock))?;
    say(&format!("redis-server is not installed: all nodes run in this process, on {}", config.store.path.display()));
    let mut local = Local { app, cli, store, recent, nodes: Vec::new() };
    let both = args.gateways == 0;
    for number in 1..=args.nodes {
        local.plan(format!("node-{number}"), if both { "gateway,room" } else { "room" }, both && number == 1);
    }
    for number in 1..=args.gateways {
        local.plan(format!("gateway-{number}"), "gateway", number == 1);
    }
    let said = cli::listen()?;
    for at in 0..local.nodes.len() {
        local.start(at)?;
    }
    local.map();
    say("type help for what can be done to it");
    local.obey_until_the_end(&said);
    Ok(local.stop(&said))
}

impl Local<'_> {
    /// A node of this name; the first that has a players' port gets the configured ones.
    fn plan(&mut self, name: String, roles: &str, configured_ports: bool) {
        let mut set = self.cli.common.set.clone();
        set.extend([format!("node.name={name}"), format!("node.roles={roles}"), STORE.to_owned()]);
        set.extend([
            "link.listen=127.0.0.1:0".to_owned(),
            "link.advertise=".to_owned(),
            "drain.endpoint_lag=0s".to_owned(),
        ]);
        if !configured_ports {
            set.extend(["gateway.listen=127.0.0.1:0".to_owned(), "admin.listen=127.0.0.1:0".to_owned()]);
        }
        self.nodes.push(Node { name, set, running: None });
    }

    fn start(&mut self, at: usize) -> Result<(), String> {
        let common = &self.cli.common;
        let Some(node) = self.nodes.get_mut(at) else { return Ok(()) };
        let sources = Sources::from_process(common.config.clone(), node.set.clone());
        let config = Config::load(&sources).map_err(|mistakes| mistakes.to_string())?;
        let runtime = tokio::runtime::Builder::new_multi_thread().thread_name(&node.name).enable_all().build();
        let runtime = runtime.map_err(|error| format!("no threads for {}: {error}", node.name))?;
        let parts = Parts {
            config,
            clock: Clock::system(),
            rng: Rng::from_entropy(),
            recent: self.recent.clone(),
            kill: run::kill(),
            store: Some(self.store.clone()),
        };
        let server = runtime.block_on(async {
            let server = Server::start(self.app.clone(), parts, &Shutdown::new()).await?;
            server.until_ready().await;
            Ok::<_, StartError>(server)
        });
        let server = server.map_err(|error| format!("{}: {error}", node.name))?;
        let mut text = format!("{} is ready:", node.name);
        if let Some(address) = server.addresses().play {
            text.push_str(&format!(" play http://{address}/"));
        }
        if let Some(address) = server.addresses().admin {
            text.push_str(&format!(" admin http://{address}/admin"));
        }
        say(&text);
        node.running = Some(Running { server: std::sync::Arc::new(server), stopping: None, runtime });
        Ok(())
    }

    fn obey_until_the_end(&mut self, said: &Receiver<Said>) {
        loop {
            match said.recv_timeout(LOOK) {
                Ok(Said::Line(line)) => {
                    if !self.obey(&line) {
                        return;
                    }
                }
                Ok(Said::NoMoreLines) => {
                    say("nothing more is read from standard input: Ctrl-C or SIGTERM stops the cluster");
                }
                Ok(Said::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.look();
        }
    }

    /// Whether to go on.
    fn obey(&mut self, line: &str) -> bool {
        let words: Vec<&str> = line.split_whitespace().collect();
        let done = match words.as_slice() {
            [] => Ok(()),
            ["quit" | "exit"] => return false,
            ["map"] => {
                self.map();
                Ok(())
            }
            ["add"] if self.nodes.len() < NODES => {
                let rooms = self.nodes.iter().filter(|node| node.name.starts_with("node-")).count();
                self.plan(format!("node-{}", rooms + 1), "room", false);
                self.start(self.nodes.len() - 1)
            }
            ["add"] => Err(format!("{NODES} nodes are as many as one process runs")),
            [verb @ ("kill" | "drain" | "start"), name] => self.command_node(verb, name),
            _ => {
                say(HELP);
                Ok(())
            }
        };
        if let Err(text) = done {
            say(&text);
        }
        true
    }

    fn command_node(&mut self, verb: &str, name: &str) -> Result<(), String> {
        let called = |node: &Node| node.name == name || node.name.strip_prefix("node-") == Some(name);
        let at = self.nodes.iter().position(called).ok_or_else(|| format!("there is no {name:?}"))?;
        let Some(node) = self.nodes.get_mut(at) else { return Ok(()) };
        match (verb, &mut node.running) {
            ("start", None) => self.start(at),
            ("start", Some(_)) => Err(format!("{} runs already", node.name)),
            (_, None) => Err(format!("{} does not run; `start {name}` starts it", node.name)),
            ("kill", running) => {
                if let Some(running) = running.take() {
                    drop(running.server);
                    running.runtime.shutdown_background();
                }
                say(&format!("{} is killed", node.name));
                Ok(())
            }
            (_, Some(running)) => {
                running.stop();
                say(&format!("{} drains, and ends when its shards are elsewhere", node.name));
                Ok(())
            }
        }
    }

    /// Sees which nodes have ended, or were asked to by their admin port; whether all of those ended well.
    fn look(&mut self) -> bool {
        let mut good = true;
        for node in &mut self.nodes {
            let Some(running) = &mut node.running else { continue };
            if running.server.is_asked_to_drain() {
                running.stop();
            }
            if let Some(stopping) = running.stopping.take_if(|stopping| stopping.is_finished())
                && let Some(running) = node.running.take()
            {
                let clean = running.runtime.block_on(stopping).is_ok_and(|outcome| outcome.is_clean());
                good &= clean;
                say(&format!("{} has ended{}", node.name, if clean { "" } else { ", and not everything is saved" }));
                drop(running.server);
                running.runtime.shutdown_background();
            }
        }
        good
    }

    fn map(&self) {
        match self.nodes.iter().find_map(|node| node.running.as_ref()) {
            Some(running) => say(cli::show_cluster(&NodeSource(running.server.inside.clone()).cluster()).trim_end()),
            None => say("no node runs"),
        }
    }

    /// Gateways first, then the rooms; told a second time everything is dropped.
    fn stop(mut self, said: &Receiver<Said>) -> bool {
        say("stopping; once more ends it at once");
        let mut good = true;
        for gateways in [true, false] {
            for node in self.nodes.iter_mut().filter(|node| node.name.starts_with("gateway-") == gateways) {
                if let Some(running) = &mut node.running {
                    running.stop();
                }
            }
            let waits = |node: &Node| node.running.as_ref().is_some_and(|running| running.stopping.is_some());
            while self.nodes.iter().any(waits) {
                good &= self.look();
                if matches!(said.recv_timeout(LOOK), Ok(Said::Stop)) {
                    for running in self.nodes.iter_mut().filter_map(|node| node.running.take()) {
                        running.runtime.shutdown_timeout(HURRY);
                    }
                    return false;
                }
            }
        }
        say("the cluster has stopped");
        good
    }
}

impl Running {
    /// Begins its end, once.
    fn stop(&mut self) {
        if self.stopping.is_none() {
            let server = self.server.clone();
            self.stopping = Some(self.runtime.spawn(async move { server.stop().await }));
        }
    }
}

/// A reader that went away is no reason to end.
fn say(text: &str) {
    drop(writeln!(std::io::stdout(), "{text}"));
}
