//! What readers see of the daemons: where each index is, and what runs of it here.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};
use tenure_shared::{IncarnationId, Term};

use super::{agreed::Agreed, context::Mark, letter::Letter, slot::Last};
use crate::runtime::{Mono, Wall, mailbox};

/// An activation on this node.
#[derive(Clone)]
pub(super) struct Local {
    pub(super) term: Term,
    pub(super) since: Wall,
    pub(super) mark: Arc<Mark>,
    pub(super) inbox: mailbox::Sender<Letter>,
    /// Takes messages: it was not told to end.
    pub(super) open: bool,
}

/// One index.
#[derive(Clone)]
pub(super) struct Row {
    pub(super) owner: Option<IncarnationId>,
    pub(super) term: Term,
    pub(super) local: Option<Local>,
    pub(super) restarts: u64,
    pub(super) stage: &'static str,
    pub(super) reason: Option<String>,
    pub(super) last: Option<Last>,
    /// Since when it is not live.
    pub(super) down: Option<Mono>,
}

/// One set.
#[derive(Clone)]
pub(super) struct Table {
    pub(super) name: String,
    pub(super) agreed: Option<Agreed>,
    pub(super) rows: Vec<Row>,
}

/// How an index ended last, other than by plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastEnd {
    /// When, by the store's clock as the node knew it.
    pub at: Wall,
    /// The node that says so.
    pub node: String,
    /// `ended` by itself, `failed` with an error, `panicked`, `hung`, `cut off`, or `lost its node`.
    pub what: String,
    /// The daemon's error or panic, or what else is known.
    pub text: String,
}

/// One index, for people and tools. What [`super::Daemons::status`] knows of one on another node is where it is; how it is doing is known
/// there, and [`super::Daemons::survey`] asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonStatus {
    /// Which.
    pub index: u32,
    /// Name of the node that has it; `None`: nobody does.
    pub node: Option<String>,
    /// Its life.
    pub incarnation: Option<String>,
    /// The claim's term.
    pub term: Term,
    /// `running`, `starting`, `stopping`, `waiting` for its restart, `parked`; `elsewhere`: its node was not asked or gave no answer;
    /// `nowhere`.
    pub stage: String,
    /// When it started, by the store's clock; of its own node.
    pub since: Option<Wall>,
    /// How often it was started again after a failure; on its own node.
    pub restarts: u64,
    /// How long ago it last made progress, milliseconds; of its own node.
    pub progress_ms: Option<u64>,
    /// Why it is parked.
    pub reason: Option<String>,
    /// For how long it has not been live, milliseconds.
    #[serde(default)]
    pub away_ms: Option<u64>,
    /// How it ended last.
    #[serde(default)]
    pub last: Option<LastEnd>,
    /// What it shows of itself ([`super::Context::show`]).
    #[serde(default)]
    pub figures: BTreeMap<String, i64>,
}

impl DaemonStatus {
    /// Whether it runs, as far as is known.
    pub fn is_live(&self) -> bool {
        self.node.is_some() && matches!(self.stage.as_str(), "running" | "elsewhere")
    }
}

/// A set, for people and tools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetStatus {
    /// Its name.
    pub name: String,
    /// What the cluster has agreed on: number, role, generation.
    pub agreed: String,
    /// It is stopped on all nodes, on purpose.
    #[serde(default)]
    pub stopped: bool,
    /// The first and the last number that the set may be rescaled to by command, with the build of this node.
    #[serde(default)]
    pub rescalable: Option<(u32, u32)>,
    /// By index.
    pub daemons: Vec<DaemonStatus>,
}

impl SetStatus {
    /// Those that should run and do not.
    pub fn missing(&self) -> impl Iterator<Item = &DaemonStatus> {
        self.daemons.iter().filter(|row| !self.stopped && !row.is_live())
    }
}

/// The sets of this build, as all nodes that have them say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survey {
    /// The sets.
    pub sets: Vec<SetStatus>,
    /// Names of nodes that gave no answer in time: of daemons there it is only known that they have the claim.
    pub silent: Vec<String>,
}
