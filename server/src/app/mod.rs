//! A node, assembled: [`App`] is what a game's `main` calls, [`Server`] is a running node for tests and tools.

mod address;
mod daemons;
mod files;
mod local;
mod peers;
mod ports;
mod proof;
mod reload;
mod run;
mod schedules;
mod server;
mod settings;
mod source;
mod stop;

use std::{process::ExitCode, sync::Arc};

pub use files::open_files_wanted;
pub use server::{Server, StartError};
pub use stop::StopOutcome;

use crate::{daemon::ShardedDaemonProcess, gateway::Assets, plugin::RoomPlugin};

/// A game server: its rooms and its pages.
///
/// ```no_run
/// fn lobby(room: &mut tenure::RoomBuilder) {
///     room.tick_rate(5).max_seats(100);
/// }
///
/// fn main() -> std::process::ExitCode {
///     tenure::App::new("lobby-game", "1.0.0").room("lobby", lobby).main()
/// }
/// ```
#[derive(Clone)]
pub struct App {
    name: &'static str,
    version: &'static str,
    rooms: Vec<(String, Arc<dyn RoomPlugin>)>,
    pages: Arc<dyn Assets>,
    rewards: Option<(&'static str, &'static str)>,
    daemons: Vec<ShardedDaemonProcess>,
}

impl App {
    /// An app with no rooms yet. Name and version are for people: `--help`, logs, the admin page, the members' records.
    pub fn new(name: &'static str, version: &'static str) -> Self {
        Self { name, version, rooms: Vec::new(), pages: Arc::new(()), rewards: None, daemons: Vec::new() }
    }

    /// Adds a kind of room. A wrong registration is told at start, all mistakes at once.
    #[must_use]
    pub fn room(mut self, kind: &str, plugin: impl RoomPlugin) -> Self {
        self.rooms.push((kind.to_owned(), Arc::new(plugin)));
        self
    }

    /// Adds a set of daemons, or a [`Singleton`](crate::daemon::Singleton): background workers that run once in the cluster
    /// (docs/daemons.md). All nodes must agree on them.
    #[must_use]
    pub fn daemons(mut self, set: impl Into<ShardedDaemonProcess>) -> Self {
        self.daemons.push(set.into());
        self
    }

    /// Pages that the players' port serves beside `/ws`.
    #[must_use]
    pub fn pages(mut self, pages: impl Assets) -> Self {
        self.pages = Arc::new(pages);
        self
    }

    /// Schedules of rewards that count when `rewards.file` names none. `file` is their name in messages.
    #[must_use]
    pub fn rewards(mut self, file: &'static str, text: &'static str) -> Self {
        self.rewards = Some((file, text));
        self
    }

    /// Reads the command line, does what it says, and gives the exit code: 0 all is well, 1 a problem was found (or not everything could
    /// be saved), 2 it could not run. The process ends with 70 when a tick never returns.
    pub fn main(self) -> ExitCode {
        run::run(self)
    }
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kinds: Vec<&str> = self.rooms.iter().map(|(kind, _)| kind.as_str()).collect();
        f.debug_struct("App").field("name", &self.name).field("rooms", &kinds).finish_non_exhaustive()
    }
}
