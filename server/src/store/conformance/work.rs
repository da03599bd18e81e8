//! Checks of work items.

use std::time::Duration;

use bytes::Bytes;
use tenure_shared::{RoomId, ShardId};

use super::{Outcome, SHARDS, Subject, checkpoint, commit, equal, grant, item, ok, owner, refused, room, work_id};
use crate::{
    runtime::Wall,
    store::{
        Again, Batch, Command, Fence, Ignored, OWED_CHARGE, REFUSED_GRANT, Reply, Store, WorkId, WorkItem,
        model::limits,
    },
};

const SHARD: ShardId = ShardId(1);

fn schedules(scheduled: Vec<WorkItem>) -> Batch {
    Batch { scheduled, ..Batch::default() }
}

async fn now(store: &Store) -> Wall {
    store.execute(Command::Members).await.at
}

async fn due(store: &Store, before: Wall) -> Result<Vec<String>, String> {
    let items = ok("due", store.due(SHARD, before, None, 10).await)?;
    Ok(items.into_iter().map(|item| item.id.key.to_string()).collect())
}

async fn only(store: &Store) -> Result<WorkItem, String> {
    let mut items = ok("work", store.work(SHARD, None, 10).await)?;
    equal("items", items.len(), 1)?;
    items.pop().ok_or_else(|| "no item".to_owned())
}

pub(super) async fn work_comes_due_in_order(subject: Subject) -> Outcome {
    let store = &subject.store;
    let fence = owner(store, "a#1", 1).await?;
    let (a, b) = (room(1, "a")?, room(1, "b")?);
    let now = now(store).await;
    let at = |seconds: u64| now.plus(Duration::from_secs(seconds));
    let items = vec![item(&a, "third", at(30)), item(&b, "first", at(10)), item(&a, "second", at(20))];
    commit(store, &fence, 1, schedules(items)).await?;
    equal("before all", due(store, at(9)).await?, Vec::<String>::new())?;
    equal("at the due time", due(store, at(10)).await?, vec!["first".to_owned()])?;
    let all = ["first", "second", "third"].map(str::to_owned).to_vec();
    equal("earliest first", due(store, at(30)).await?, all)?;
    equal("limit", ok("due", store.due(SHARD, at(30), None, 2).await)?.len(), 2)?;
    equal("not overdue", ok("overdue", store.overdue(SHARD).await)?, 0)?;
    subject.advance(Duration::from_secs(21)).await;
    equal("overdue by the store's clock", ok("overdue", store.overdue(SHARD).await)?, 2)?;
    let page = ok("work", store.work(SHARD, None, 2).await)?;
    let after = page.last().map(|item| item.id.clone());
    let rest = ok("work", store.work(SHARD, after, 2).await)?;
    equal("pages", (page.len(), rest.len()), (2, 1))?;
    let keys = |items: Vec<WorkItem>| items.into_iter().map(|item| item.id.key.to_string()).collect::<Vec<_>>();
    let first = ok("work of a room", store.room_work(SHARD, &a, None, 1).await)?;
    let after = first.last().map(|item| item.id.clone());
    let others = ok("work of a room", store.room_work(SHARD, &a, after, 10).await)?;
    equal(
        "of one room, by identity",
        (keys(first), keys(others)),
        (vec!["second".to_owned()], vec!["third".to_owned()]),
    )?;
    equal(
        "of the other",
        keys(ok("work of a room", store.room_work(SHARD, &b, None, 10).await)?),
        vec!["first".to_owned()],
    )
}

pub(super) async fn due_work_is_read_on_behind_a_cursor(subject: Subject) -> Outcome {
    let store = &subject.store;
    let fence = owner(store, "a#1", 1).await?;
    let (a, b) = (room(1, "a")?, room(1, "b")?);
    // Of one moment as well as of several, of rooms in any order.
    let items: Vec<_> =
        (0..9_u64).map(|n| item(if n % 2 == 0 { &a } else { &b }, &n.to_string(), Wall(5 + n / 3))).collect();
    commit(store, &fence, 1, schedules(items.clone())).await?;
    let all = ok("due", store.due(SHARD, Wall(9), None, 100).await)?;
    equal("all", all.len(), items.len())?;
    let mut read: Vec<WorkItem> = Vec::new();
    loop {
        let after = read.last().map(|item| (item.due, item.id.clone()));
        let page = ok("page", store.due(SHARD, Wall(9), after, 2).await)?;
        if page.is_empty() {
            break;
        }
        read.extend(page);
    }
    equal("pages give each item once, in the order of the whole", read, all.clone())?;
    // The item at the cursor may be gone by now, or may never have been.
    let at = all.get(4).map(|item| (item.due, item.id.clone())).ok_or("no fifth item")?;
    commit(store, &fence, 2, Batch { cancelled: vec![at.1.clone()], ..Batch::default() }).await?;
    let rest = ok("behind what is gone", store.due(SHARD, Wall(9), Some(at), 100).await)?;
    equal("behind what is gone", rest, all.get(5..).unwrap_or_default().to_vec())?;
    let before = Some((Wall(6), work_id(&b, "none")));
    let rest = ok("behind a moment", store.due(SHARD, Wall(9), before, 100).await)?;
    equal("all that is due later", rest.iter().filter(|item| item.due > Wall(6)).count(), 3)?;
    let after = all.last().map(|item| (item.due, item.id.clone()));
    equal("behind the last", ok("due", store.due(SHARD, Wall(9), after, 100).await)?, vec![])?;
    let beyond = ok("cursor after the bound", store.due(SHARD, Wall(5), Some((Wall(6), work_id(&a, "0"))), 9).await)?;
    equal("nothing is due before it", beyond, vec![])
}

pub(super) async fn what_is_owed_to_players_outlives_its_room(subject: Subject) -> Outcome {
    // H6: what a ledger refused, or took and nobody has handed over, is owed, whether or not its room is still there.
    let store = &subject.store;
    let fence = owner(store, "a#1", 1).await?;
    let room = room(1, "r")?;
    let kept = |key: &str| WorkItem {
        id: WorkId { job: REFUSED_GRANT.into(), ..work_id(&room, key) },
        ..item(&room, key, Wall(0))
    };
    let (parked, again) = (kept("7"), kept("8"));
    let why = vec![(parked.id.clone(), "too old".to_owned())];
    let job = format!("{OWED_CHARGE}shop").into();
    let charge = WorkItem { id: WorkId { job, ..work_id(&room, "9") }, ..item(&room, "9", Wall(u64::from(u32::MAX))) };
    let first = Batch {
        checkpoints: vec![checkpoint(&room, &fence, 1, 1, 1)],
        scheduled: vec![parked.clone(), again.clone(), item(&room, "k", Wall(5)), charge.clone()],
        parked: why.clone(),
        ..Batch::default()
    };
    commit(store, &fence, 1, first).await?;
    commit(store, &fence, 2, Batch { deleted: vec![room.clone()], ..Batch::default() }).await?;
    let left = ok("work", store.work(SHARD, None, 10).await)?;
    let parked = WorkItem { parked: Some("too old".to_owned()), ..parked };
    equal("they stay, the rest goes", left, vec![charge.clone(), parked.clone(), again.clone()])?;
    commit(store, &fence, 3, Batch { cancelled: vec![charge.id], ..Batch::default() }).await?;
    ok("retry", store.retry(&fence, &parked.id).await)?;
    let due = ok("due", store.due(SHARD, now(store).await, None, 10).await)?;
    equal("due again", due.len(), 2)?;
    // Without a checkpoint: there is no world.
    let paid = Batch {
        completed: vec![parked.id.clone(), again.id.clone()],
        grants: vec![(room.clone(), grant("g", "p", &[("gold", 5)])?)],
        ..Batch::default()
    };
    equal("into the outbox", commit(store, &fence, 4, paid).await?.len(), 1)?;
    commit(store, &fence, 5, Batch { scheduled: vec![again], ..Batch::default() }).await?;
    equal("once", ok("work", store.work(SHARD, None, 10).await)?, vec![])
}

pub(super) async fn an_identity_is_scheduled_once(subject: Subject) -> Outcome {
    let store = &subject.store;
    let fence = owner(store, "a#1", 1).await?;
    let room = room(1, "r")?;
    commit(store, &fence, 1, schedules(vec![item(&room, "k", Wall(5))])).await?;
    commit(store, &fence, 2, schedules(vec![item(&room, "k", Wall(5))])).await?;
    equal("once", only(store).await?, item(&room, "k", Wall(5)))?;
    commit(store, &fence, 3, schedules(vec![item(&room, "k", Wall(7))])).await?;
    equal("a pending item that differs is replaced", only(store).await?, item(&room, "k", Wall(7)))?;
    equal("not at its old time", due(store, Wall(6)).await?, Vec::<String>::new())?;
    equal("at its new time", due(store, Wall(7)).await?, vec!["k".to_owned()])?;
    let parked = Batch { parked: vec![(work_id(&room, "k"), "broken".to_owned())], ..Batch::default() };
    commit(store, &fence, 4, parked).await?;
    let vain = ignored(store, &fence, 5, schedules(vec![item(&room, "k", Wall(9))])).await?;
    equal("said so", vain, vec![Ignored { id: work_id(&room, "k"), parked: true }])?;
    equal("a parked item stays", only(store).await?.parked, Some("broken".to_owned()))
}

/// What a commit scheduled in vain.
async fn ignored(store: &Store, fence: &Fence, number: u64, batch: Batch) -> Result<Vec<Ignored>, String> {
    let command = Command::Commit { fence: fence.clone(), shards: SHARDS, number, batch };
    match ok("commit", store.execute(command).await.reply)? {
        Reply::Committed { ignored, .. } => Ok(ignored),
        other => Err(format!("{other:?}")),
    }
}

pub(super) async fn a_completed_identity_never_comes_back(subject: Subject) -> Outcome {
    // H6, C15: a late repeat of the scheduling, or a second node's, must not make the work a second time.
    let store = &subject.store;
    let fence = owner(store, "a#1", 1).await?;
    let room = room(1, "r")?;
    commit(store, &fence, 1, schedules(vec![item(&room, "k", Wall(5))])).await?;
    let done = Batch { completed: vec![work_id(&room, "k")], ..Batch::default() };
    commit(store, &fence, 2, done.clone()).await?;
    refused("completed twice", "Conflict", store.commit(&fence, SHARDS, 3, done).await)?;
    let again = schedules(vec![item(&room, "k", Wall(9)), item(&room, "other", Wall(9))]);
    let vain = ignored(store, &fence, 3, again).await?;
    equal("said so", vain, vec![Ignored { id: work_id(&room, "k"), parked: false }])?;
    equal("only the other is pending", only(store).await?, item(&room, "other", Wall(9)))?;
    // Not even for a new room of the same name.
    commit(store, &fence, 4, Batch { checkpoints: vec![checkpoint(&room, &fence, 1, 1, 1)], ..Batch::default() })
        .await?;
    commit(store, &fence, 5, Batch { deleted: vec![room.clone()], ..Batch::default() }).await?;
    commit(store, &fence, 6, schedules(vec![item(&room, "k", Wall(9))])).await?;
    equal("nothing pending", ok("work", store.work(SHARD, None, 10).await)?, vec![])
}

pub(super) async fn a_decision_said_again_is_carried_out_where_it_is_not_known(subject: Subject) -> Outcome {
    // H6: a store that fell back to an older state is told what it had acknowledged.
    let store = &subject.store;
    let fence = owner(store, "a#1", 1).await?;
    let room = room(1, "r")?;
    let items = ["known", "pending", "other"].map(|key| item(&room, key, Wall(5)));
    commit(store, &fence, 1, schedules(items.to_vec())).await?;
    commit(store, &fence, 2, Batch { completed: vec![work_id(&room, "known")], ..Batch::default() }).await?;
    let paid = |id: &str| Ok::<_, String>((room.clone(), grant(id, "p", &[("gold", 5)])?));
    let said = |keys: &[&str], id: &str| {
        let completed = keys.iter().map(|key| work_id(&room, key)).collect();
        Ok::<_, String>(Again { completed, grants: vec![paid(id)?] })
    };
    let again = vec![said(&["known", "absent"], "g1")?, said(&["pending", "forgotten"], "g2")?, said(&[], "g3")?];
    let grants = vec![paid("g4")?];
    let told = Batch { again: again.clone(), grants, ..Batch::default() };
    equal("the position of what is new", commit(store, &fence, 3, told).await?.len(), 1)?;
    equal("what is left", only(store).await?.id, work_id(&room, "other"))?;
    let outbox = ok("outbox", store.outbox(SHARD, 0, 10).await)?;
    let ids: Vec<_> = outbox.iter().map(|entry| &*entry.grant.id.0).collect();
    equal("not of the known one", ids, vec!["g4", "g2", "g3"])?;
    let done = || async { Ok::<_, String>(ok("completed", store.completed(SHARD, 10).await)?.len()) };
    equal("each once", done().await?, 3)?;
    // Said once more, nothing happens but to what has no item: of that the ledger knows.
    commit(store, &fence, 4, Batch { again: again[..2].to_vec(), ..Batch::default() }).await?;
    equal("each once", done().await?, 3)?;
    equal("once", ok("outbox", store.outbox(SHARD, 0, 10).await)?.len(), 3)?;
    let twice = vec![again[1].clone(), again[1].clone()];
    refused("twice", "Invalid", store.commit(&fence, SHARDS, 5, Batch { again: twice, ..Batch::default() }).await)?;
    let late = schedules(vec![item(&room, "forgotten", Wall(9))]);
    let vain = ignored(store, &fence, 5, late).await?;
    equal("done for ever", vain, vec![Ignored { id: work_id(&room, "forgotten"), parked: false }])
}

pub(super) async fn a_completion_is_one_step_with_grants_and_next_occurrence(subject: Subject) -> Outcome {
    let store = &subject.store;
    let fence = owner(store, "a#1", 1).await?;
    let room = room(1, "r")?;
    commit(store, &fence, 1, schedules(vec![item(&room, "1", Wall(5))])).await?;
    let step = |room: &RoomId| -> Result<Batch, String> {
        Ok(Batch {
            checkpoints: vec![checkpoint(room, &fence, 1, 1, 10)],
            completed: vec![work_id(room, "1")],
            scheduled: vec![item(room, "2", Wall(9))],
            grants: vec![(room.clone(), grant("g", "p", &[("gold", 5)])?)],
            ..Batch::default()
        })
    };
    let positions = commit(store, &fence, 2, step(&room)?).await?;
    equal("one position", positions.len(), 1)?;
    equal("next occurrence", only(store).await?.id, work_id(&room, "2"))?;
    let outbox = ok("outbox", store.outbox(SHARD, 0, 10).await)?;
    let entries: Vec<_> = outbox.into_iter().map(|entry| (entry.position, entry.room, entry.grant)).collect();
    equal("outbox", entries, vec![(positions[0], room.clone(), grant("g", "p", &[("gold", 5)])?)])?;
    let done = ok("completed", store.completed(SHARD, 10).await)?;
    equal("log", done.into_iter().map(|line| (line.id, line.term)).collect(), vec![(work_id(&room, "1"), fence.term())])
}

pub(super) async fn a_failed_item_waits_and_counts(subject: Subject) -> Outcome {
    let store = &subject.store;
    let fence = owner(store, "a#1", 1).await?;
    let room = room(1, "r")?;
    commit(store, &fence, 1, schedules(vec![item(&room, "k", Wall(5))])).await?;
    commit(store, &fence, 2, Batch { failed: vec![(work_id(&room, "k"), Wall(50))], ..Batch::default() }).await?;
    equal("not before", due(store, Wall(49)).await?, Vec::<String>::new())?;
    equal("then", due(store, Wall(50)).await?, vec!["k".to_owned()])?;
    equal("attempts", only(store).await?.attempt, 1)?;
    let missing = Batch { failed: vec![(work_id(&room, "x"), Wall(50))], ..Batch::default() };
    refused("not pending", "Conflict", store.commit(&fence, SHARDS, 3, missing).await)
}

pub(super) async fn a_parked_item_waits_for_a_retry(subject: Subject) -> Outcome {
    let store = &subject.store;
    let fence = owner(store, "a#1", 1).await?;
    let room = room(1, "r")?;
    let id = work_id(&room, "k");
    commit(store, &fence, 1, schedules(vec![item(&room, "k", Wall(5))])).await?;
    let failed = vec![(id.clone(), Wall(6))];
    let long = "x".repeat(limits::REASON_BYTES - 1) + "é and on";
    commit(store, &fence, 2, Batch { failed, parked: vec![(id.clone(), long)], ..Batch::default() }).await?;
    equal("not due", due(store, Wall(u64::MAX)).await?, Vec::<String>::new())?;
    let parked = only(store).await?;
    equal("reason, cut", parked.parked.map(|reason| reason.len()), Some(limits::REASON_BYTES - 1))?;
    let done = Batch { completed: vec![id.clone()], ..Batch::default() };
    refused("completed while parked", "Conflict", store.commit(&fence, SHARDS, 3, done).await)?;
    ok("retry", store.retry(&fence, &id).await)?;
    ok("retry again", store.retry(&fence, &id).await)?;
    equal("due now", due(store, now(store).await).await?, vec!["k".to_owned()])?;
    equal("attempts count anew", only(store).await?.attempt, 0)?;
    refused("not there", "Conflict", store.retry(&fence, &work_id(&room, "x")).await)
}

pub(super) async fn a_cancelled_item_is_gone(subject: Subject) -> Outcome {
    let store = &subject.store;
    let fence = owner(store, "a#1", 1).await?;
    let room = room(1, "r")?;
    commit(store, &fence, 1, schedules(vec![item(&room, "k", Wall(5))])).await?;
    let cancel = Batch { cancelled: vec![work_id(&room, "k")], ..Batch::default() };
    commit(store, &fence, 2, cancel.clone()).await?;
    commit(store, &fence, 3, cancel.clone()).await?;
    equal("gone", due(store, Wall(9)).await?, Vec::<String>::new())?;
    // Cancelled is not completed: it may be scheduled again, even in the same batch.
    commit(store, &fence, 4, schedules(vec![item(&room, "k", Wall(5))])).await?;
    let moved = Batch { scheduled: vec![item(&room, "k", Wall(8))], ..cancel.clone() };
    commit(store, &fence, 5, moved).await?;
    equal("moved", only(store).await?.due, Wall(8))?;
    let both = Batch { completed: vec![work_id(&room, "k")], ..cancel };
    commit(store, &fence, 6, both).await?;
    equal("completed by the batch that cancels it", ok("completed", store.completed(SHARD, 9).await)?.len(), 1)
}

pub(super) async fn an_advanced_item_keeps_its_cursor(subject: Subject) -> Outcome {
    let store = &subject.store;
    let fence = owner(store, "a#1", 1).await?;
    let room = room(1, "r")?;
    commit(store, &fence, 1, schedules(vec![item(&room, "k", Wall(5))])).await?;
    let page = Batch {
        advanced: vec![(work_id(&room, "k"), Bytes::from_static(b"500"))],
        grants: vec![(room.clone(), grant("g", "p", &[("gold", 1)])?)],
        ..Batch::default()
    };
    commit(store, &fence, 2, page).await?;
    let item = only(store).await?;
    equal("cursor", (item.payload, item.attempt), (Bytes::from_static(b"500"), 0))?;
    equal("still due", due(store, Wall(5)).await?, vec!["k".to_owned()])
}

pub(super) async fn completed_work_is_listed_within_bounds(subject: Subject) -> Outcome {
    let store = &subject.store;
    let fence = owner(store, "a#1", 1).await?;
    let room = room(1, "r")?;
    let count = limits::COMPLETED as usize + 5;
    let items: Vec<_> = (0..count).map(|n| item(&room, &n.to_string(), Wall(5))).collect();
    let completed = items.iter().map(|item| item.id.clone()).collect();
    commit(store, &fence, 1, schedules(items)).await?;
    commit(store, &fence, 2, Batch { completed, ..Batch::default() }).await?;
    let latest = ok("completed", store.completed(SHARD, 2).await)?;
    let keys: Vec<_> = latest.into_iter().map(|line| line.id.key.to_string()).collect();
    equal("latest, oldest first", keys, vec![(count - 2).to_string(), (count - 1).to_string()])?;
    let all = ok("completed", store.completed(SHARD, usize::MAX).await)?;
    equal("bounded", all.len(), limits::COMPLETED as usize)
}
