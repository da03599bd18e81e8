//! The store that the configuration names, opened: for the node, and for commands that read while no node runs.

use std::time::Duration;

use crate::{
    config::Config,
    runtime::Clock,
    store::{self, Store, model::Rules},
};

/// How long a command waits for the lock of the embedded store: somebody who does not answer on the admin port holds it.
const LOCK_WAIT: Duration = Duration::from_secs(1);
/// Memory for pages of the file: a command reads little of it.
const CACHE_BYTES: usize = 16 * 1024 * 1024;

/// Whether several processes may use the store at once.
pub(crate) fn is_shared(config: &Config) -> bool {
    config.store.url != "embedded"
}

/// Opens the store. Waits for a lock or for a server, at most as long as is configured. The error is for people.
pub(crate) async fn open(config: &Config, clock: &Clock) -> Result<Store, String> {
    if is_shared(config) {
        return shared(config, clock, config.store.lock_wait).await;
    }
    let options =
        store::Options { rules: rules(config), lock_wait: config.store.lock_wait, ..store::Options::default() };
    embedded(config, clock, options).await
}

/// Opens the store if there is one: asking must not make an empty one.
pub(super) async fn open_for_reading(config: &Config) -> Result<Store, String> {
    let clock = Clock::system();
    if is_shared(config) {
        return shared(config, &clock, LOCK_WAIT).await;
    }
    let folder = &config.store.path;
    if !folder.is_dir() {
        return Err(format!("no node runs, and there is no data folder {}", folder.display()));
    }
    embedded(config, &clock, store::Options { rules: rules(config), lock_wait: LOCK_WAIT, cache: CACHE_BYTES }).await
}

fn rules(config: &Config) -> Rules {
    Rules { keep_identities: config.ledger.keep_identities, max_checkpoint: config.room.max_checkpoint }
}

/// Opening waits for a lock and may repair a file: not on a thread that serves sockets.
async fn embedded(config: &Config, clock: &Clock, options: store::Options) -> Result<Store, String> {
    let (path, clock) = (config.store.path.clone(), clock.clone());
    opened(move || store::embedded(&path, clock, options).map_err(|error| error.to_string())).await
}

async fn opened(open: impl FnOnce() -> Result<Store, String> + Send + 'static) -> Result<Store, String> {
    let opened = tokio::task::spawn_blocking(open).await;
    opened.unwrap_or_else(|error| Err(format!("the store could not be opened: {error}")))
}

/// Looking at the servers blocks too.
async fn shared(config: &Config, clock: &Clock, open_wait: Duration) -> Result<Store, String> {
    let options = store::RedisOptions {
        rules: rules(config),
        deadline: config.lease.call_deadline,
        open_wait,
        password: config.secrets.store.clone(),
        accept_loss: config.store.accept_loss,
        ..store::RedisOptions::default()
    };
    let (url, clock) = (config.store.url.clone(), clock.clone());
    opened(move || store::redis(&url, clock, options).map_err(|error| error.to_string())).await
}
