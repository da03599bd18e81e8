//! Which file of schedules each node runs: this one says the hash of its own in the store and compares it with the others' (C17).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use super::server::Inside;
use crate::{
    link::Directory,
    ops,
    runtime::{Tasks, tasks::Kind},
    store::Member,
};

/// Longest time between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Says and compares as long as the node runs.
pub(super) fn compare(inside: &Arc<Inside>, tasks: &Tasks) {
    let (inside, shutdown) = (inside.clone(), tasks.shutdown().clone());
    tasks.spawn("schedules", Kind::Essential, async move {
        let mut changes = Directory::changes(&inside.ownership);
        let mut warned = BTreeSet::new();
        loop {
            changes.seen();
            say(&inside).await;
            look(&inside, &mut warned);
            tokio::select! {
                biased;
                () = shutdown.stopped() => return,
                changed = changes.changed() => if changed.is_err() { return },
                () = inside.clock.sleep(LOOK_EVERY) => {}
            }
        }
    });
}

/// Compares; warns once of what differs.
fn look(inside: &Inside, warned: &mut BTreeSet<String>) {
    let view = inside.ownership.view();
    let files = files(&view.members);
    let mine = ops::hash_text(&inside.book.current());
    let others: usize = files.iter().filter(|(hash, _)| **hash != mine).map(|(_, nodes)| nodes.len()).sum();
    metrics::gauge!("tenure_schedules_differ").set(others as f64);
    let hashes: BTreeSet<String> = files.keys().map(|hash| (*hash).to_owned()).collect();
    if hashes.len() > 1 && hashes != *warned {
        tracing::warn!(
            ?files,
            "nodes run different files of schedules: a room goes by the file of the node that it is on"
        );
    }
    *warned = hashes;
}

/// Says which file this node runs, if the store does not have it so.
pub(super) async fn say(inside: &Inside) {
    let Some(me) = inside.ownership.incarnation() else { return };
    let mine = ops::hash_text(&inside.book.current());
    let view = inside.ownership.view();
    if view.members.iter().any(|member| member.incarnation == me && member.schedules != mine)
        && let Err(error) = inside.store.set_schedules(&me, &mine).await
    {
        // The next look says it again.
        tracing::debug!(%error, "the hash of the schedules could not be said");
    }
}

/// The room nodes by the hash of the file that they run. Who has not said anything yet is left out.
fn files(members: &[Member]) -> BTreeMap<&str, Vec<&str>> {
    let mut files: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let rooms = members.iter().filter(|member| member.info.roles.iter().any(|role| role == "room"));
    for member in rooms.filter(|member| !member.schedules.is_empty()) {
        files.entry(&member.schedules).or_default().push(&member.info.node);
    }
    files
}
