//! The commands that every binary built on the framework has.
//!
//! `serve`, and a cluster in one process, belong to the application; all others run here, to their end, and answer with an exit code: 0 all is well, 1 a problem was
//! found, 2 the command could not run. Commands on stored data ask a running node, since it holds the lock of the embedded store, and
//! open the store themselves when none runs.

mod args;
mod client;
mod cluster;
mod commands;
mod daemons;
mod ready_file;
mod schedule;
mod show;
mod stores;

use std::{io::Write as _, process::ExitCode};

pub use args::{
    Cli, ClusterArgs, Command, Common, ConfigCommand, DeployArgs, HistoryCommand, LedgerCommand, RoomCommand,
    ScheduleCommand, WithParentArgs, WorkCommand,
};
pub(crate) use cluster::{Said, listen};
pub use commands::run;
pub use daemons::DaemonsCommand;
pub use ready_file::{ReadyFile, write as write_ready_file};
pub(crate) use schedule::{limits as schedule_limits, text as schedules_text};
pub(crate) use show::cluster as show_cluster;
pub(crate) use stores::{is_shared, open as open_store};

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All is well.
    Good,
    /// The command ran and found a problem.
    Problem,
    /// The command could not run.
    CouldNotRun,
}

impl Exit {
    /// The number.
    pub const fn code(self) -> u8 {
        match self {
            Exit::Good => 0,
            Exit::Problem => 1,
            Exit::CouldNotRun => 2,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.code())
    }
}

/// What a command says, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// For standard output (standard error when it could not run).
    pub text: String,
    /// How it ended.
    pub exit: Exit,
}

impl Outcome {
    fn new(exit: Exit, text: impl Into<String>) -> Self {
        Self { text: text.into(), exit }
    }

    fn could_not_run(text: impl std::fmt::Display) -> Self {
        Self::new(Exit::CouldNotRun, text.to_string())
    }

    /// Prints the text and gives the exit code. A reader that went away (`| head`) is no fault.
    pub fn finish(self) -> ExitCode {
        let text = self.text.trim_end();
        let written = if self.exit == Exit::CouldNotRun {
            writeln!(std::io::stderr(), "{text}")
        } else {
            writeln!(std::io::stdout(), "{text}")
        };
        match written {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
            Err(_) => return Exit::CouldNotRun.into(),
        }
        self.exit.into()
    }
}
