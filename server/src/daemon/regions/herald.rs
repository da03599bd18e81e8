//! A node tells the coordinators what its rooms are: what changed, a moment after it did, and everything when another coordinator listens.

use std::time::Duration;

use super::{Region, RegionAnswer, RegionQuestion, region_daemon};
use crate::{
    daemon::Daemons,
    room::host::{Reports, RoomNews},
    runtime::{Clock, Tasks, tasks::Kind},
};

/// What comes so shortly after one another goes in one message.
const GATHER: Duration = Duration::from_millis(20);
/// About how many bytes of rooms one message carries.
const NEWS_BYTES: usize = 24 * 1024;
/// How long the coordinator may take to note them.
const NOTE_TIME: Duration = Duration::from_secs(5);
/// Before news are told again that were not noted.
const AGAIN: Duration = Duration::from_millis(200);
/// However quiet it is, the coordinator is asked so often whether it is still the same one.
const LOOK: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug)]
pub struct Herald;

impl Herald {
    /// Begins to tell the coordinators of these regions, on a task for each.
    pub fn start(daemons: &Daemons, reports: &Reports, regions: &[String], clock: &Clock, tasks: &Tasks) {
        for region in regions {
            let (daemons, reports) = (daemons.clone(), reports.clone());
            let (clock, region, stop) = (clock.clone(), region.clone(), tasks.shutdown().clone());
            tasks.spawn("region herald", Kind::Job, async move {
                tokio::select! {
                    biased;
                    () = stop.stopped() => {}
                    () = tell(&daemons, &reports, &region, &clock) => {}
                }
            });
        }
    }
}

async fn tell(daemons: &Daemons, reports: &Reports, region: &str, clock: &Clock) {
    let name = region_daemon(region);
    let mut changes = reports.changes();
    let (mut listener, mut news): (Option<u64>, Vec<RoomNews>) = (None, Vec::new());
    let mut look_at = clock.now();
    loop {
        if news.is_empty() {
            news = reports.take(region, NEWS_BYTES);
        }
        if news.is_empty() && clock.now() < look_at {
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return },
                () = clock.sleep_until(look_at) => {}
            }
            clock.sleep(GATHER).await;
            continue;
        }
        // What was not noted is told again as it is: it comes before what is newer.
        let told = daemons.ask::<Region>(&name, 0, &RegionQuestion::News(news.clone()), NOTE_TIME).await;
        match told {
            Ok(RegionAnswer::Noted(term)) => {
                news.clear();
                look_at = clock.now().plus(LOOK);
                if listener.replace(term).is_some_and(|before| before != term) {
                    reports.again(region);
                }
            }
            Ok(_) | Err(_) => clock.sleep(AGAIN).await,
        }
    }
}
