//! The loop of a cluster: what is typed, what the children do, and the end in order.

mod rolling;

use std::{
    io::Write as _,
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::Duration,
};

use super::{
    Settings, child,
    deploy::Roll,
    input::{self, Said},
    members::Member,
    redis::Redis,
};
use crate::{
    cli::{ReadyFile, client::Node, show, write_ready_file},
    ops::ClusterReport,
    runtime::{Clock, Mono},
};

/// Time between two looks at the children.
const LOOK: Duration = Duration::from_millis(50);
/// Time for a question to a member: one that stands still does not answer.
const ASK: Duration = Duration::from_secs(2);
/// How long the first map waits for shards to find their places.
const PLACES: Duration = Duration::from_secs(10);
/// What a node gets for its end beyond its own times.
const LAST_STEPS: Duration = Duration::from_secs(5);
/// Time for the store's end.
const STORE_END: Duration = Duration::from_secs(20);
/// Most members: a guard against a command in a loop.
const MEMBERS: usize = 64;

const HELP: &str = "\
  map          members, and how many shards each holds
  kill N       end node N at once, as a crash would (kill -9)
  pause N      make it stand still (SIGSTOP); resume N lets it go on
  drain N      its shards move to the others, then it ends; its players keep their sockets
  restart N    drain it and start it again
  start N      start it again after its end
  add          one more room node
  quit         stop everything in order (as Ctrl-C does)
N is the number of a room node, or a name: gateway-1, redis.";

/// A cluster that runs.
pub(super) struct Control {
    settings: Settings,
    store: Option<Redis>,
    members: Vec<Member>,
    clock: Clock,
    both: bool,
    /// Gateways were started: they are, once the room nodes are ready.
    opened: bool,
    /// Everybody was ready once; until when the first map may wait for shards to find their places.
    places_until: Option<Mono>,
    /// What there is to say at the start was said.
    announced: bool,
    /// A rolling deploy, again and again.
    roll: Option<Roll>,
    /// Number of the newest room node.
    newest: u16,
}

impl Control {
    pub(super) fn new(settings: Settings, store: Option<Redis>, members: Vec<Member>) -> Self {
        let both = members.iter().all(|member| !member.is_gateway);
        let newest = members.iter().filter(|member| !member.is_gateway).count();
        Self {
            settings,
            store,
            members,
            clock: Clock::system(),
            both,
            opened: false,
            places_until: None,
            announced: false,
            roll: None,
            newest: u16::try_from(newest).unwrap_or(u16::MAX),
        }
    }

    /// Runs until the end; whether everything ended well.
    pub(super) fn run(mut self) -> Result<bool, String> {
        let said = input::listen()?;
        say(&format!("store {}; logs in {}", self.settings.store, self.settings.folder.display()));
        if let Err(text) = self.start_all(false) {
            say(&text);
            self.stop(&said);
            return Err(text);
        }
        loop {
            match said.recv_timeout(LOOK) {
                Ok(Said::Line(line)) if line.is_empty() && self.roll.is_some() => {
                    self.roll.iter_mut().for_each(Roll::begin);
                }
                Ok(Said::Line(line)) => {
                    if !self.obey(&line) {
                        break;
                    }
                }
                Ok(Said::NoMoreLines) => {
                    say("nothing more is read from standard input: Ctrl-C or SIGTERM stops the cluster");
                }
                Ok(Said::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Err(text) = self.look() {
                // The others hold rooms: they are ended in order, not dropped.
                say(&text);
                self.stop(&said);
                return Err(text);
            }
            if self.announced && !self.step_deploy() {
                break;
            }
        }
        Ok(self.stop(&said))
    }

    fn start_all(&mut self, gateways: bool) -> Result<(), String> {
        let settings = &self.settings;
        self.members
            .iter_mut()
            .filter(|member| member.is_gateway == gateways)
            .try_for_each(|member| member.start(settings))
    }

    /// Sees what became of the children.
    fn look(&mut self) -> Result<(), String> {
        if let Some(redis) = &mut self.store
            && let Some(status) = redis.process.as_mut().and_then(child::Process::ended)
        {
            redis.process = None;
            let how = child::words(status);
            say(&format!(
                "redis ended: {how}; the nodes stand still until `start redis`. Its log: {}",
                redis.log.display()
            ));
        }
        for member in &mut self.members {
            if let Some(status) = member.process.as_mut().and_then(child::Process::ended) {
                ended(member, status, &self.settings);
                if member.again
                    && let Err(text) = member.start(&self.settings)
                {
                    // One that cannot come back is no reason to end the others.
                    say(&format!("{} could not be started again: {text}", member.name));
                }
            } else if let Some(ready) = member.look(&self.settings) {
                say(&format!("{} is ready: {}", member.name, places(&ready)));
            }
        }
        if self.announced {
            return Ok(());
        }
        if self.members.iter().all(|member| member.process.is_none() && (self.opened || !member.is_gateway)) {
            return Err("no member of the cluster could start".to_owned());
        }
        let done = |member: &Member| member.ready.is_some() || member.process.is_none();
        if !self.opened && self.members.iter().filter(|member| !member.is_gateway).all(done) {
            self.opened = true;
            self.start_all(true)?;
        } else if self.opened && self.members.iter().all(done) {
            let now = self.clock.now();
            let until = *self.places_until.get_or_insert(now.plus(PLACES));
            let ready = self.members.iter().filter(|member| member.ready.is_some()).count();
            // Whoever answers may have read the members before the last one came.
            let whole = |report: ClusterReport| report.members.len() >= ready && is_placed(&report);
            if now >= until || self.report().is_some_and(whole) {
                self.announced = true;
                self.announce()?;
            }
        }
        Ok(())
    }

    fn announce(&self) -> Result<(), String> {
        self.map();
        let playing = self.members.iter().filter_map(|member| member.ready);
        for ready in playing.clone() {
            if let Some(address) = ready.play {
                say(&format!("play  http://{address}/"));
            }
        }
        if let (Some(path), Some(first)) =
            (&self.settings.common.ready_file, playing.clone().find(|ready| ready.play.is_some()))
        {
            let ready = ReadyFile { pid: std::process::id(), ..first };
            write_ready_file(path, &ready).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        if let Some(roll) = &self.roll {
            say(roll.hint());
        }
        say("type help for what can be done to it");
        Ok(())
    }

    /// Does what a line says; whether to go on.
    fn obey(&mut self, line: &str) -> bool {
        let mut words = line.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (None, ..) => {}
            (Some("quit" | "exit"), None, None) => return false,
            (Some("help" | "?"), None, None) => say(HELP),
            (Some("map"), None, None) => self.map(),
            (Some("add"), None, None) => self.add(),
            (Some(verb @ ("kill" | "pause" | "resume" | "drain" | "start" | "restart")), Some(name), None) => {
                let done = if name == "redis" { self.command_store(verb) } else { self.command_member(verb, name) };
                say(&done.unwrap_or_else(|why| why));
            }
            _ => say(&format!("{line:?} is not known; this is:\n{HELP}")),
        }
        true
    }

    fn add(&mut self) {
        if self.members.len() >= MEMBERS {
            return say(&format!("{MEMBERS} members are as many as this command runs"));
        }
        if let Err(text) = self.start_another() {
            say(&text);
        }
    }

    fn command_member(&mut self, verb: &str, name: &str) -> Result<String, String> {
        let names: Vec<String> = self.members.iter().map(|member| member.name.clone()).collect();
        let member = self.members.iter_mut().find(|member| member.is_called(name));
        let member = member.ok_or_else(|| format!("there is no {name:?}; there are {}", names.join(", ")))?;
        let name = member.name.clone();
        let Some(process) = &mut member.process else {
            if verb == "start" || verb == "restart" {
                return member.start(&self.settings).map(|()| format!("{name} starts"));
            }
            return Err(format!("{name} does not run; `start {name}` starts it"));
        };
        match verb {
            "start" => return Err(format!("{name} runs already, pid {}", process.id())),
            "kill" => {
                member.ending = true;
                process.kill();
            }
            "pause" => {
                process.pause();
                return Ok(format!("{name} stands still; `resume {name}` lets it go on"));
            }
            "resume" => {
                process.resume();
                return Ok(format!("{name} goes on"));
            }
            "drain" => {
                let admin =
                    member.ready.and_then(|ready| ready.admin).ok_or_else(|| format!("{name} is not ready yet"))?;
                let node = Node::at(admin, &self.settings.config, ASK);
                node.post("/admin/drain").map_err(|error| format!("{name}: {error}"))?;
                member.ending = true;
                return Ok(format!("{name} drains, and ends when its shards are elsewhere"));
            }
            _ => {
                (member.ending, member.again) = (true, true);
                process.terminate();
                return Ok(format!("{name} drains and starts again"));
            }
        }
        Ok(format!("{name} is killed"))
    }

    fn command_store(&mut self, verb: &str) -> Result<String, String> {
        let redis =
            self.store.as_mut().ok_or_else(|| "the store is not this command's: store.url names it".to_owned())?;
        match (verb, &mut redis.process) {
            ("start" | "restart", None) => redis.begin().map(|()| "redis runs".to_owned()),
            ("kill", Some(process)) => {
                process.kill();
                Ok("redis is killed".to_owned())
            }
            ("pause", Some(process)) => {
                process.pause();
                Ok("redis stands still; `resume redis` lets it go on".to_owned())
            }
            ("resume", Some(process)) => {
                process.resume();
                Ok("redis goes on".to_owned())
            }
            (_, Some(_)) => Err("redis can be killed, paused and resumed".to_owned()),
            (_, None) => Err("redis does not run; `start redis` starts it".to_owned()),
        }
    }

    /// The cluster, as the first member sees it that answers.
    fn report(&self) -> Option<ClusterReport> {
        let mut asked = self.members.iter().filter(|m| m.process.as_ref().is_some_and(|process| !process.paused));
        asked.find_map(|member| {
            let node = Node::at(member.ready?.admin?, &self.settings.config, ASK);
            serde_json::from_str(&node.get("/admin/cluster").ok()?).ok()
        })
    }

    fn map(&self) {
        match self.report() {
            Some(report) => say(show::cluster(&report).trim_end()),
            None => say("no member answers"),
        }
    }

    /// Ends everything: gateways first, so that nobody new comes in, then the nodes with their rooms saved, the store last.
    fn stop(mut self, said: &Receiver<Said>) -> bool {
        let drain = &self.settings.config.drain;
        let limit = drain.endpoint_lag + drain.shutdown_grace + LAST_STEPS;
        say("stopping; once more ends it at once");
        let mut good = true;
        for gateways in [true, false] {
            good &= self.stop_some(gateways, limit, said);
        }
        if let Some(mut process) = self.store.as_mut().and_then(|redis| redis.process.take()) {
            process.terminate();
            let end = self.clock.now().plus(STORE_END);
            while process.ended().is_none() && self.clock.now() < end {
                std::thread::sleep(LOOK);
            }
        }
        good
    }

    fn stop_some(&mut self, gateways: bool, limit: Duration, said: &Receiver<Said>) -> bool {
        let mut good = true;
        let end = self.clock.now().plus(limit);
        let mut waited: Vec<&mut Member> = self
            .members
            .iter_mut()
            .filter(|member| member.is_gateway == gateways && member.process.is_some())
            .collect();
        for member in &mut waited {
            member.ending = true;
            if let Some(process) = &mut member.process {
                process.terminate();
            }
        }
        loop {
            waited.retain_mut(|member| match member.process.as_mut().and_then(child::Process::ended) {
                Some(status) => {
                    ended(member, status, &self.settings);
                    good &= status.success();
                    false
                }
                None => true,
            });
            if waited.is_empty() {
                return good;
            }
            let told = matches!(said.recv_timeout(LOOK), Ok(Said::Stop));
            if told || self.clock.now() >= end {
                for member in waited {
                    say(&format!("{} is ended at once", member.name));
                    member.process = None;
                }
                return false;
            }
        }
    }
}

/// Whether every shard has an owner, and no room node more than its share.
fn is_placed(report: &ClusterReport) -> bool {
    let nodes: Vec<_> = report.members.iter().filter(|member| member.roles.iter().any(|role| role == "room")).collect();
    let share = u64::from(report.shards).div_ceil(nodes.len().max(1) as u64);
    report.ownerless.is_empty() && nodes.iter().all(|node| node.status == "serving" && node.shards <= share)
}

fn ended(member: &mut Member, status: std::process::ExitStatus, settings: &Settings) {
    (member.process, member.ready) = (None, None);
    let how = child::words(status);
    if member.ending {
        return say(&format!("{} has ended: {how}", member.name));
    }
    let log = member.log(settings);
    say(&format!("{} has ended by itself: {how}; its log {} ends with", member.name, log.display()));
    say(&child::last_words(&log, 3));
}

fn places(ready: &ReadyFile) -> String {
    let place = |what: &str, address: Option<std::net::SocketAddr>, before: &str, after: &str| {
        address.map(|address| format!("{what} {before}{address}{after}"))
    };
    let places = [
        place("play", ready.play, "http://", "/"),
        place("admin", ready.admin, "http://", "/admin"),
        place("link", ready.link, "", ""),
        Some(format!("pid {}", ready.pid)),
    ];
    places.into_iter().flatten().collect::<Vec<_>>().join("  ")
}

/// A reader that went away is no reason to end.
fn say(text: &str) {
    drop(writeln!(std::io::stdout(), "{text}"));
}
