//! What the cluster is told: lines from standard input, and signals.

use std::{
    io::{BufRead as _, Read as _},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
};

use tokio::signal::unix::{SignalKind, signal};

/// Things said that wait to be heard.
const WAITING: usize = 64;
/// Longest line, bytes.
const LINE: u64 = 1_024;

/// Something was said.
pub(crate) enum Said {
    /// A line.
    Line(String),
    /// Nobody will say more by standard input; signals still count.
    NoMoreLines,
    /// Ctrl-C, SIGTERM, or the terminal has gone.
    Stop,
}

/// Starts to listen. Both threads end with the process.
pub(crate) fn listen() -> Result<Receiver<Said>, String> {
    let (lines, said) = sync_channel(WAITING);
    let signals = lines.clone();
    let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
        thread.map(drop).map_err(|error| format!("a thread: {error}"))
    };
    spawn("signals", Box::new(move || hear_signals(&signals)))?;
    spawn("lines", Box::new(move || hear_lines(&lines)))?;
    Ok(said)
}

fn hear_lines(said: &SyncSender<Said>) {
    let mut input = std::io::stdin().lock();
    loop {
        let mut line = Vec::new();
        match input.by_ref().take(LINE).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => break,
            Ok(_) => {
                if said.send(Said::Line(String::from_utf8_lossy(&line).trim().to_owned())).is_err() {
                    return;
                }
            }
        }
    }
    drop(said.send(Said::NoMoreLines));
}

fn hear_signals(said: &SyncSender<Said>) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return tracing::error!(%error, "no runtime for signals"),
    };
    runtime.block_on(async {
        let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
        let [Ok(mut term), Ok(mut interrupt), Ok(mut hangup)] = kinds.map(signal) else {
            return tracing::error!("signals cannot be heard");
        };
        loop {
            tokio::select! {
                _ = term.recv() => {}
                _ = interrupt.recv() => {}
                _ = hangup.recv() => {}
            }
            if said.send(Said::Stop).is_err() {
                return;
            }
        }
    });
}
