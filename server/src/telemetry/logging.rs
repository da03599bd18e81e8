//! Logs: levels have a meaning, lines are for people or machines, and the last ones are kept for the admin page.
//!
//! `error`: a person must act. `warn`: the node helped itself, but somebody should know. `info`: what an operator wants to read of a
//! healthy node, a few lines a minute. `debug`: one line per connection, room or client fault. `trace`: per message or tick.
//! What a client can cause at will is never above `debug`, so that no client can flood the log. Secrets and tokens are never logged.

use std::io::IsTerminal as _;

use tracing_subscriber::{EnvFilter, Layer as _, layer::SubscriberExt as _, util::SubscriberInitExt as _};

use super::recent::Recent;
use crate::config::{LogConfig, LogFormat};

/// Logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `log.filter` is wrong. A loaded configuration does not have this.
    #[error("log.filter: {0}")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
}

/// Sends logs to standard error (standard output is for what commands answer) and to `recent`. Only the first call of a process counts:
/// a second server in it logs through the first one's.
///
/// # Errors
/// When the filter cannot be read.
pub fn init_logging(config: &LogConfig, recent: &Recent) -> Result<(), Error> {
    let filter = EnvFilter::builder().parse(&config.filter)?;
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = match config.format {
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_current_span(true).with_span_list(false).boxed(),
    };
    if tracing_subscriber::registry().with(filter).with(lines).with(recent.layer()).try_init().is_err() {
        tracing::debug!("logging is set up already");
    }
    Ok(())
}
