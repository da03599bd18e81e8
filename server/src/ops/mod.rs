//! Operating one node: probes, metrics, the admin page, and what commands ask a running node.
//!
//! The server knows the node only through [`Source`]. Reports on the store are made here once, from a few verbs, so that a command gives
//! the same answer whether it asks a running node or opens the store itself.

mod access;
mod cluster;
mod daemons;
mod history;
mod http;
mod ledger;
mod probe;
mod reload;
mod server;
mod source;
mod work;

pub use cluster::{ClusterReport, MOVES_KEPT, MemberReport, MoveReport, Moves, OwnerReport};
pub use daemons::{DaemonError, DaemonOrder, DaemonsReport, SetReport};
pub use history::{HistoryReport, check_history};
pub use ledger::{LedgerCheck, LedgerLine, LedgerReport, check_ledger, show_ledger};
pub use probe::Probe;
pub use reload::{ReloadError, ReloadReport, hash_text};
pub use server::{AdminParts, start};
pub use source::{
    Addresses, Counts, Readiness, RewardsReport, RoomReport, ScheduleReport, ShardReport, Source, StatusReport,
};
pub use work::{DoneLine, DoneReport, ReportError, WorkLine, WorkReport, list_done, list_work, retry_work};
