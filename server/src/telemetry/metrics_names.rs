//! Every metric: its name, kind, labels and meaning. `docs/operations.md` lists the same, and `tests/tidy.rs` compares both with the code.
//!
//! Labels come from code and configuration only, never from players, rooms or sessions: the number of series must not grow with what
//! clients do (LESSONS C63).

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts observations in buckets.
    Histogram,
}

impl Kind {
    /// The word in the docs.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// One metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name, unit last.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Its labels, besides `node`.
    pub labels: &'static [&'static str],
    /// What it says.
    pub help: &'static str,
}

macro_rules! metrics {
    ($( $kind:ident $name:literal [$($label:literal),*] $help:literal; )*) => {
        /// Every metric.
        pub const METRICS: &[Metric] = &[
            $( Metric { name: $name, kind: Kind::$kind, labels: &[$($label),*], help: $help }, )*
        ];
    };
}

metrics! {
    Gauge "tenure_build_info" ["version"] "Always 1; the label says which version runs.";
    Gauge "tenure_process_resident_bytes" [] "Memory of the process that is in RAM.";
    Gauge "tenure_process_open_files" [] "Open file descriptors, sockets included.";
    Gauge "tenure_process_cpu_seconds" [] "Processor time used since the start.";
    Counter "tenure_admin_refused_total" ["why"] "Connections to the admin port that were refused or cut: over the bound, too slow, not accepted.";
    Counter "tenure_mailbox_full_total" ["mailbox"] "Messages that a full mailbox gave back to its sender.";
    Counter "tenure_task_panics_total" ["task"] "Panics of supervised tasks.";
}
