//! Schedules that are read anew while the node runs: by SIGHUP, by the admin port, by `schedule reload`; and how much work waits.

use std::{sync::Arc, time::Duration};

use super::{server::Inside, settings};
use crate::{
    ops::{ReloadError, ReloadReport},
    runtime::{Tasks, tasks::Kind},
    timers::LiveBook,
};

/// Time between two counts of what waits.
const COUNT_EVERY: Duration = Duration::from_secs(5);

/// Reads the file again. With any mistake in it nothing changes; the log says the same as the answer.
pub(super) async fn reload(inside: &Inside) -> Result<ReloadReport, ReloadError> {
    let done = read(inside).await;
    let outcome = if done.is_ok() { "done" } else { "refused" };
    metrics::counter!("tenure_schedule_reloads_total", "outcome" => outcome).increment(1);
    match &done {
        Ok(report) => {
            report.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
            let ReloadReport { file, hash, unchanged, changed, added, removed, .. } = report;
            tracing::info!(file, hash, unchanged, ?changed, ?added, ?removed, "schedules were read again");
        }
        Err(error) => {
            error.to_string().lines().for_each(|line| tracing::error!("schedules were not read again: {line}"));
        }
    }
    done
}

async fn read(inside: &Inside) -> Result<ReloadReport, ReloadError> {
    let Some(path) = inside.config.rewards.file.clone() else { return Err(ReloadError::NoFile) };
    if inside.is_stopping() {
        return Err(ReloadError::Stopping);
    }
    // One reading and its replacement at a time: the file that was read last is the one that runs.
    let _turn = inside.reloading.lock().await;
    let (file, config) = (path.display().to_string(), inside.config.clone());
    let book = tokio::task::spawn_blocking(move || settings::read_book(&path, &config)).await;
    let book = book.map_err(|error| error.to_string()).flatten().map_err(ReloadError::Mistakes)?;
    let diff = inside.book.replace(book);
    say_hash(&inside.book);
    super::schedules::say(inside).await;
    Ok(ReloadReport::new(file, &inside.book.current(), &diff))
}

/// As a number that metrics carry whole: nodes that run different files differ in it.
pub(super) fn say_hash(book: &LiveBook) {
    metrics::gauge!("tenure_schedules_hash").set((book.current().hash() >> 16) as f64);
}

/// Counts now and then what is due and waits.
pub(super) fn count(inside: &Arc<Inside>, tasks: &Tasks) {
    let (inside, shutdown) = (inside.clone(), tasks.shutdown().clone());
    tasks.spawn("backlog", Kind::Essential, async move {
        loop {
            if let Some(host) = &inside.host {
                let (overdue, outbox) = host.backlog();
                metrics::gauge!("tenure_work_overdue").set(overdue as f64);
                metrics::gauge!("tenure_outbox_entries").set(outbox as f64);
            }
            tokio::select! {
                biased;
                () = shutdown.stopped() => return,
                () = inside.clock.sleep(COUNT_EVERY) => {}
            }
        }
    });
}
