//! How the daemons are doing: what this node knows, and what the other nodes say when they are asked.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use tenure_shared::IncarnationId;

use super::{
    agreed::Declared,
    handle::{Daemons, join_all},
    letter::Refused,
    table::{DaemonStatus, LastEnd, Row, SetStatus, Survey, Table},
    user::encode,
};
use crate::runtime::{Mono, Wall, Watcher};

/// How long a survey waits for the other nodes.
const ANSWERS: Duration = Duration::from_secs(1);
/// Most daemons of one set that one node is asked for; those that do not run come first.
const ASKED: usize = 2_000;
/// A page of an answer ends behind so many bytes: one more row fits into a message.
const PAGE_BYTES: usize = 48 * 1024;

/// A place in a node's answer: those that do not run come first.
pub(super) type Place = (bool, u32);

fn place(row: &DaemonStatus) -> Place {
    (row.is_live(), row.index)
}

/// Whether a node says something of its own of an index, not only who has the claim.
fn is_at_home(row: &DaemonStatus) -> bool {
    !matches!(row.stage.as_str(), "elsewhere" | "nowhere")
}

impl Daemons {
    /// Where each one is, and how those of this node are doing.
    pub fn status(&self) -> Vec<SetStatus> {
        let (view, now, wall) = (self.0.ownership.view(), self.0.clock.now(), self.0.store.now());
        let node = |life: &IncarnationId| {
            let member = view.members.iter().find(|member| member.incarnation == *life);
            member.map(|member| member.info.node.clone())
        };
        let own = self.0.ownership.incarnation().and_then(|life| node(&life)).unwrap_or_default();
        let millis = |since: Mono| u64::try_from(now.since(since).as_millis()).unwrap_or(u64::MAX);
        let ago = |at: Mono| Wall(wall.0.saturating_sub(u64::try_from(now.since(at).as_micros()).unwrap_or(u64::MAX)));
        let daemon = |(index, row): (usize, &Row)| DaemonStatus {
            index: u32::try_from(index).unwrap_or(u32::MAX),
            node: row.owner.as_ref().and_then(node),
            incarnation: row.owner.as_ref().map(ToString::to_string),
            term: row.term,
            stage: row.stage.to_owned(),
            since: row.local.as_ref().map(|local| local.since),
            restarts: row.restarts,
            progress_ms: row.local.as_ref().map(|local| millis(local.mark.get())),
            reason: row.reason.clone(),
            away_ms: row.down.map(millis),
            last: row.last.as_ref().map(|last| LastEnd {
                at: ago(last.at),
                node: own.clone(),
                what: last.what.to_owned(),
                text: last.text.clone(),
            }),
            figures: row.local.as_ref().map(|local| local.mark.figures()).unwrap_or_default(),
        };
        let set = |table: &Arc<Table>| SetStatus {
            name: table.name.clone(),
            agreed: table.agreed.map(|agreed| agreed.to_string()).unwrap_or_default(),
            stopped: table.agreed.is_some_and(|agreed| agreed.stopped),
            rescalable: self.find(&table.name).and_then(|set| self.0.sets.get(set)?.range),
            daemons: table.rows.iter().enumerate().map(daemon).collect(),
        };
        self.0.table.load().iter().map(set).collect()
    }

    /// As [`Daemons::status`], with what the other nodes say of theirs. They are asked all at once, and have a second. Cancel-safe.
    pub async fn survey(&self) -> Survey {
        let view = self.0.ownership.view();
        let own = self.0.ownership.incarnation();
        let deadline = self.0.clock.now().plus(ANSWERS);
        // Others than members of the role have none.
        let may_have = |roles: &[String], name: &str| {
            let role = self.find(name).and_then(|set| self.0.sets.get(set)).map(|spec| spec.role.name());
            let declares = roles.iter().filter_map(|word| Declared::parse(word)).any(|declared| declared.name == name);
            declares && role.is_some_and(|role| roles.iter().any(|word| word == role))
        };
        let mut sets = self.status();
        let others: Vec<_> = view.members.iter().filter(|member| Some(&member.incarnation) != own.as_ref()).collect();
        let mut asked = Vec::new();
        for member in &others {
            for (nth, set) in sets.iter().enumerate().filter(|(_, set)| may_have(&member.info.roles, &set.name)) {
                let (name, life, node) = (set.name.clone(), member.incarnation.clone(), member.info.node.clone());
                asked.push(Box::pin(async move { (nth, node, self.ask_node(&life, &name, deadline).await) }));
            }
        }
        let mut silent = BTreeSet::new();
        for (nth, node, rows) in join_all(asked).await {
            match (rows, sets.get_mut(nth)) {
                (Some(rows), Some(set)) => merge(set, rows),
                _ => {
                    silent.insert(node);
                }
            }
        }
        Survey { sets, silent: silent.into_iter().collect() }
    }

    /// All that a node says of its daemons of a set; `None`: it gave no answer.
    async fn ask_node(&self, life: &IncarnationId, name: &str, deadline: Mono) -> Option<Vec<DaemonStatus>> {
        let mut rows: Vec<DaemonStatus> = Vec::new();
        loop {
            let page = self.0.post.look(&self.0, life, name, rows.last().map(place), deadline).await?;
            let whole = page.is_empty();
            rows.extend(page);
            if whole || rows.len() >= ASKED {
                return Some(rows);
            }
        }
    }

    /// For another node that asks: the next of those that are here, or ended here.
    pub(super) fn page(&self, name: &str, after: Option<Place>) -> Result<Bytes, Refused> {
        let set = self.status().into_iter().find(|set| set.name == name);
        let set = set.ok_or_else(|| Refused::Unknown(name.to_owned(), 0))?;
        let mut rows: Vec<DaemonStatus> = set.daemons;
        rows.retain(|row| (is_at_home(row) || row.last.is_some()) && after.is_none_or(|after| place(row) > after));
        rows.sort_by_key(place);
        let (mut page, mut bytes) = (Vec::new(), 0);
        for row in rows {
            bytes += encode(&row).map_err(Refused::Unreadable)?.len();
            page.push(row);
            if bytes >= PAGE_BYTES {
                break;
            }
        }
        encode(&page).map_err(Refused::Unreadable)
    }

    /// Counts the changes of [`Daemons::status`].
    pub fn changes(&self) -> Watcher {
        self.0.changes.watch()
    }

    /// Whether all sets that run are up to the last index, on whatever node, and none of this node's is parked.
    pub fn is_whole(&self) -> bool {
        let up = |row: &Row| row.owner.is_some() && matches!(row.stage, "running" | "elsewhere");
        let whole = |table: &Arc<Table>| match table.agreed {
            Some(agreed) => agreed.stopped || (agreed.after.is_none() && table.rows.iter().all(up)),
            None => false,
        };
        self.0.table.load().iter().all(whole)
    }
}

/// Takes in what a node says of its daemons.
fn merge(set: &mut SetStatus, rows: Vec<DaemonStatus>) {
    let mut rows: BTreeMap<u32, DaemonStatus> = rows.into_iter().map(|row| (row.index, row)).collect();
    for known in &mut set.daemons {
        let Some(row) = rows.remove(&known.index) else { continue };
        let last = [known.last.take(), row.last.clone()].into_iter().flatten().max_by_key(|last| last.at);
        // Whoever has it tells more than who only knows where it is; of two who think so the higher term is right.
        if is_at_home(&row) && (row.term > known.term || row.term == known.term && !is_at_home(known)) {
            *known = row;
        }
        known.last = last;
    }
}

#[cfg(test)]
mod tests {
    use tenure_shared::Term;

    use super::*;

    fn row(stage: &str, term: u64, ended: Option<u64>) -> DaemonStatus {
        let last = |at| LastEnd { at: Wall(at), node: "n".into(), what: "failed".into(), text: String::new() };
        DaemonStatus {
            index: 3,
            node: Some("n".into()),
            incarnation: None,
            term: Term(term),
            stage: stage.into(),
            since: None,
            restarts: 0,
            progress_ms: None,
            reason: None,
            away_ms: None,
            last: ended.map(last),
            figures: BTreeMap::new(),
        }
    }

    #[test]
    fn whoever_has_it_knows_best_and_the_newest_end_counts() {
        let merged = |known: DaemonStatus, said: DaemonStatus| {
            let agreed = String::new();
            let mut set =
                SetStatus { name: "x".into(), agreed, stopped: false, rescalable: None, daemons: vec![known] };
            merge(&mut set, vec![said]);
            let row = set.daemons.remove(0);
            (row.stage, row.term.0, row.last.map(|last| last.at.0))
        };
        let says = |stage: &str, term, last| (stage.to_owned(), term, last);
        assert_eq!(merged(row("elsewhere", 5, None), row("parked", 5, Some(7))), says("parked", 5, Some(7)));
        assert_eq!(merged(row("elsewhere", 5, Some(9)), row("running", 6, Some(7))), says("running", 6, Some(9)));
        // A node that has not heard yet that it lost the claim.
        assert_eq!(merged(row("running", 6, None), row("running", 5, Some(7))), says("running", 6, Some(7)));
        assert_eq!(merged(row("running", 6, Some(1)), row("elsewhere", 6, Some(7))), says("running", 6, Some(7)));
    }
}
