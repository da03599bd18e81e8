//! `cluster`: a whole cluster on this machine, of processes that can be killed, paused, drained and started again one by one.
//!
//! ```text
//! cluster ─┬─ redis-server   private, durable at every write; not started when store.url names a store
//!          ├─ node-1 … N     role room
//!          └─ gateway-1 … M  role gateway; the first has the players' and the admin port of the configuration
//! ```
//!
//! Children are in process groups of their own, so that Ctrl-C reaches this process alone, which then ends them in order. They die with it:
//! each is started through `with-parent`, which asks the system to end it when its parent is gone, however that ends.

mod child;
mod control;
mod deploy;
mod folder;
mod guard;
mod input;
mod members;
mod redis;

use std::path::PathBuf;

pub(super) use guard::with_parent;
pub(crate) use input::{Said, listen};

use super::{ClusterArgs, Common, DeployArgs, Exit, Outcome, stores};
use crate::config::Config;

/// What all children are started with.
struct Settings {
    common: Common,
    config: Config,
    /// This program, as it was called when the cluster began: a new build at that path counts from a child's next start.
    program: PathBuf,
    /// Data of the private store, logs and ready-files.
    folder: PathBuf,
    /// What the children get as `store.url`.
    store: String,
    /// Deploys so far: the children's `node.revision`, if there were any.
    revision: u64,
}

/// Runs the cluster until it is told to stop; `None` where no store can be started that processes share: then the application runs it in
/// one process.
pub(super) fn run(common: &Common, args: &ClusterArgs) -> Option<Outcome> {
    let config = match Config::load(&common.sources()) {
        Ok(config) => config,
        Err(mistakes) => return Some(Outcome::could_not_run(mistakes)),
    };
    let server = if stores::is_shared(&config) { None } else { Some(redis::find()?) };
    Some(finish(prepare(common, args, config, server).and_then(|(control, lock)| Ok((control.run()?, lock)))))
}

/// Runs a cluster whose room nodes are replaced again and again.
pub(super) fn demo_deploy(common: &Common, args: &DeployArgs) -> Outcome {
    let config = match Config::load(&common.sources()) {
        Ok(config) => config,
        Err(mistakes) => return Outcome::could_not_run(mistakes),
    };
    let server = match (stores::is_shared(&config), redis::find()) {
        (true, _) => None,
        (false, Some(server)) => Some(server),
        (false, None) => {
            return Outcome::could_not_run(
                "a deploy needs processes that share a store: install redis-server, or name a Redis by store.url",
            );
        }
    };
    let done = prepare(common, &args.cluster, config, server).and_then(|(mut control, lock)| {
        control.deploy(args)?;
        Ok((control.run()?, lock))
    });
    finish(done)
}

fn finish(done: Result<(bool, folder::Lock), String>) -> Outcome {
    match done {
        Ok((true, _lock)) => Outcome::new(Exit::Good, "the cluster has stopped; everything is saved"),
        Ok((false, _lock)) => Outcome::new(Exit::Problem, "the cluster has stopped, and not every part ended well"),
        Err(text) => Outcome::could_not_run(text),
    }
}

/// The folder, the store (`server` is the program of a private one), and whoever is to run; the lock keeps the folder for this process.
fn prepare(
    common: &Common,
    args: &ClusterArgs,
    config: Config,
    server: Option<PathBuf>,
) -> Result<(control::Control, folder::Lock), String> {
    let program = std::env::current_exe().map_err(|error| format!("where this program is: {error}"))?;
    let folder = args.dir.clone().unwrap_or_else(|| config.store.path.join("cluster"));
    let lock = folder::take(&folder)?;
    // The children run in the same directory, but redis-server goes into its own.
    let folder = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut settings = Settings { common: common.clone(), config, program, folder, store: String::new(), revision: 0 };
    let store = match server {
        Some(server) => {
            let (url, child) = redis::start(&settings, server)?;
            settings.store = url;
            Some(child)
        }
        None => {
            settings.store.clone_from(&settings.config.store.url);
            None
        }
    };
    let members = members::plan(&settings, args.nodes, args.gateways);
    Ok((control::Control::new(settings, store, members), lock))
}
