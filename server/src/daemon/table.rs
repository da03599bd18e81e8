//! What readers see of the daemons: where each index is, and what runs of it here.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tenure_shared::{IncarnationId, Term};

use super::{agreed::Agreed, context::Mark, letter::Letter};
use crate::runtime::{Wall, mailbox};

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
}

/// One set.
#[derive(Clone)]
pub(super) struct Table {
    pub(super) name: String,
    pub(super) agreed: Option<Agreed>,
    pub(super) rows: Vec<Row>,
}

/// One index, for people and tools. What is known of one on another node is where it is; how it is doing is known there.
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
    /// `running`, `starting`, `stopping`, `waiting`, `parked` on this node; `elsewhere` or `nowhere`.
    pub stage: String,
    /// When it started, by the store's clock; on this node.
    pub since: Option<Wall>,
    /// How often it was started again after a failure; on this node.
    pub restarts: u64,
    /// How long ago it last made progress, milliseconds; on this node.
    pub progress_ms: Option<u64>,
    /// Why it is parked.
    pub reason: Option<String>,
}

/// A set, for people and tools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetStatus {
    /// Its name.
    pub name: String,
    /// What the cluster has agreed on: number, role, generation.
    pub agreed: String,
    /// By index.
    pub daemons: Vec<DaemonStatus>,
}
