//! A rolling deploy, again and again: which node is started and which is drained next. It decides; the loop of the cluster does.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{cli::DeployArgs, runtime::Mono};

/// A new node that is not ready by then ends the round: the old ones serve on.
const START: Duration = Duration::from_secs(20);
/// Time for the shards of a drained node to find their places, before the next node is replaced.
const PLACES: Duration = Duration::from_secs(20);

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Tell people.
    Say(String),
    /// Nodes are started from this program and under this revision from now on.
    Build { program: PathBuf, revision: u64 },
    /// Start one more node, and tell its name by [`Roll::started`].
    Start,
    /// Let this one drain and end.
    Drain(String),
    /// It has ended for good.
    Forget(String),
    /// As many rounds as were asked for are done: end everything.
    End,
}

#[derive(Debug)]
enum Phase {
    /// Between rounds; when the next one begins, if nobody has to say so.
    Waiting(Option<Mono>),
    /// This one is about to be replaced.
    Next,
    /// The new node is not ready yet.
    Starting { new: String, until: Mono },
    /// The old node is not gone yet.
    Draining(String),
    /// Shards are not at their places yet.
    Placing(Mono),
}

/// A rolling deploy.
#[derive(Debug)]
pub(super) struct Roll {
    every: Option<Duration>,
    rounds: Option<u32>,
    /// What is deployed in turn; the first of them runs now.
    programs: Vec<PathBuf>,
    round: u32,
    begin: bool,
    /// Nodes that are still to be replaced in this round, the next one last.
    old: Vec<String>,
    phase: Phase,
}

impl Roll {
    pub(super) fn new(args: &DeployArgs, program: &Path) -> Result<Self, String> {
        let mut programs = vec![program.to_owned()];
        if let Some(version) = &args.to {
            let mut name = program.file_name().unwrap_or_default().to_owned();
            name.push(format!("-{version}"));
            let other = program.with_file_name(name);
            if !other.is_file() {
                return Err(format!("{} is not there: build it first", other.display()));
            }
            programs.push(other);
        }
        Ok(Self {
            every: args.every,
            rounds: args.rounds,
            programs,
            round: 0,
            begin: args.yes,
            old: Vec::new(),
            phase: Phase::Waiting(None),
        })
    }

    pub(super) fn hint(&self) -> &'static str {
        if self.every.is_some() { "a deploy begins by itself; Enter begins it now" } else { "Enter begins a deploy" }
    }

    /// Somebody says that the next round shall begin; within one it is forgotten.
    pub(super) fn begin(&mut self) {
        self.begin = matches!(self.phase, Phase::Waiting(_));
    }

    /// The answer to [`Order::Start`].
    pub(super) fn started(&mut self, name: String) {
        if let Phase::Starting { new, .. } = &mut self.phase {
            *new = name;
        }
    }

    /// Whether [`step`](Self::step) wants to know if all shards are at their places.
    pub(super) fn waits_for_places(&self) -> bool {
        matches!(self.phase, Phase::Placing(_))
    }

    /// The round cannot go on: what runs, runs on.
    pub(super) fn give_up(&mut self, now: Mono) {
        self.old.clear();
        self.phase = Phase::Waiting(self.every.map(|every| now.plus(every)));
    }

    /// What to do now. `nodes`: room nodes that run, and whether each is ready; `quiet`: all shards are at their places.
    pub(super) fn step(&mut self, now: Mono, nodes: Vec<(String, bool)>, quiet: bool) -> Vec<Order> {
        match &self.phase {
            Phase::Waiting(None) if self.every.is_some() && !self.begin => {
                self.phase = Phase::Waiting(self.every.map(|every| now.plus(every)));
                Vec::new()
            }
            Phase::Waiting(at) if self.begin || at.is_some_and(|at| now >= at) => {
                self.begin = false;
                self.round += 1;
                self.old = nodes.into_iter().rev().map(|(name, _)| name).collect();
                self.phase = Phase::Next;
                let program = self.programs[self.round as usize % self.programs.len()].clone();
                vec![Order::Build { program, revision: u64::from(self.round) }]
            }
            Phase::Waiting(_) => Vec::new(),
            Phase::Next if self.old.is_empty() => {
                self.give_up(now);
                let done = Order::Say(format!("round {} is done: every room node is a new one", self.round));
                if self.rounds.is_some_and(|rounds| self.round >= rounds) { vec![done, Order::End] } else { vec![done] }
            }
            Phase::Next => {
                self.phase = Phase::Starting { new: String::new(), until: now.plus(START) };
                vec![Order::Start]
            }
            Phase::Starting { new, until } => match nodes.iter().find(|(name, _)| name == new) {
                Some((_, true)) => match self.old.pop() {
                    Some(old) => {
                        self.phase = Phase::Draining(old.clone());
                        vec![Order::Drain(old)]
                    }
                    None => Vec::new(),
                },
                Some(_) if now < *until => Vec::new(),
                _ => {
                    let text = format!("{new} did not get ready: this round ends here, the others serve on");
                    self.give_up(now);
                    vec![Order::Say(text)]
                }
            },
            Phase::Draining(old) if nodes.iter().any(|(name, _)| name == old) => Vec::new(),
            Phase::Draining(old) => {
                let gone = Order::Forget(old.clone());
                self.phase = Phase::Placing(now.plus(PLACES));
                vec![gone]
            }
            Phase::Placing(until) if quiet || now >= *until => {
                self.phase = Phase::Next;
                Vec::new()
            }
            Phase::Placing(_) => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roll(rounds: u32, programs: &[&str]) -> Roll {
        Roll {
            every: None,
            rounds: Some(rounds),
            programs: programs.iter().map(PathBuf::from).collect(),
            round: 0,
            begin: true,
            old: Vec::new(),
            phase: Phase::Waiting(None),
        }
    }

    /// Obeys it at once; what it ordered until the end.
    fn play(roll: &mut Roll, nodes: &mut Vec<(String, bool)>) -> Vec<Order> {
        let (mut orders, mut newest) = (Vec::new(), nodes.len());
        for _ in 0..200 {
            for order in roll.step(Mono::default(), nodes.clone(), true) {
                match &order {
                    Order::Start => {
                        newest += 1;
                        nodes.push((format!("node-{newest}"), true));
                        roll.started(format!("node-{newest}"));
                    }
                    Order::Drain(name) => {
                        assert!(nodes.len() > 3, "one more runs while one drains");
                        nodes.retain(|(node, _)| node != name);
                    }
                    _ => {}
                }
                let end = order == Order::End;
                orders.push(order);
                if end {
                    return orders;
                }
            }
            roll.begin();
        }
        panic!("it does not end: {roll:?}");
    }

    #[test]
    fn each_node_is_replaced_once_by_one_that_is_ready_and_builds_take_turns() {
        let mut nodes: Vec<_> = (1..=3).map(|n| (format!("node-{n}"), true)).collect();
        let orders = play(&mut roll(2, &["demo", "demo-v2"]), &mut nodes);
        let drained = orders.iter().filter_map(|o| if let Order::Drain(n) = o { Some(n.as_str()) } else { None });
        assert_eq!(drained.collect::<Vec<_>>(), ["node-1", "node-2", "node-3", "node-4", "node-5", "node-6"]);
        assert_eq!(nodes.iter().map(|(n, _)| n.as_str()).collect::<Vec<_>>(), ["node-7", "node-8", "node-9"]);
        let builds = orders.iter().filter_map(|o| match o {
            Order::Build { program, revision } => Some((program.to_str().expect("text"), *revision)),
            _ => None,
        });
        assert_eq!(builds.collect::<Vec<_>>(), [("demo-v2", 1), ("demo", 2)], "a rollback has a higher revision, too");
    }

    #[test]
    fn a_node_that_does_not_get_ready_ends_the_round_and_drains_nobody() {
        let mut roll = roll(1, &["demo"]);
        let nodes = vec![("node-1".to_owned(), true), ("node-2".to_owned(), false)];
        assert!(matches!(roll.step(Mono::default(), nodes.clone(), true)[..], [Order::Build { .. }]));
        assert_eq!(roll.step(Mono::default(), nodes.clone(), true), [Order::Start]);
        roll.started("node-2".to_owned());
        assert_eq!(roll.step(Mono::default(), nodes.clone(), true), []);
        let late = roll.step(Mono::default().plus(START), nodes.clone(), true);
        assert!(matches!(&late[..], [Order::Say(text)] if text.contains("node-2")), "{late:?}");
        assert_eq!(roll.step(Mono::default().plus(START), nodes, true), []);
    }
}
