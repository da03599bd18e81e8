//! Checks of the commit: fences, numbers, checkpoints, sizes, atomicity.

use tenure_shared::{ShardId, Term};

use super::{
    Outcome, SHARDS, Subject, again, checkpoint, commit, equal, grant, holds, item, ok, owner, refused, room, work_id,
};
use crate::{
    runtime::Wall,
    store::{Batch, Checkpoint, Key, model::limits},
};

fn stores(checkpoints: Vec<Checkpoint>) -> Batch {
    Batch { checkpoints, ..Batch::default() }
}

pub(super) async fn an_old_fence_is_refused_and_changes_nothing(subject: Subject) -> Outcome {
    let store = &subject.store;
    let old = owner(store, "a#1", 1).await?;
    let room = room(1, "r")?;
    commit(store, &old, 1, stores(vec![checkpoint(&room, &old, 1, 1, 10)])).await?;
    let new = again(store, &old).await?;
    let late = stores(vec![checkpoint(&room, &old, 2, 2, 10)]);
    refused("an old term", "Fenced", store.commit(&old, SHARDS, 2, late).await)?;
    refused("an old repeat", "Fenced", store.commit(&old, SHARDS, 1, Batch::default()).await)?;
    refused("an old retry", "Fenced", store.retry(&old, &work_id(&room, "k")).await)?;
    equal("checkpoint", ok("load", store.load(&room).await)?, Some(checkpoint(&room, &old, 1, 1, 10)))?;
    commit(store, &new, 1, stores(vec![checkpoint(&room, &new, 2, 2, 10)])).await.map(drop)
}

pub(super) async fn a_repeat_gives_the_same_answer_and_a_lower_number_is_refused(subject: Subject) -> Outcome {
    let store = &subject.store;
    let fence = owner(store, "a#1", 1).await?;
    let room = room(1, "r")?;
    let batch = Batch {
        checkpoints: vec![checkpoint(&room, &fence, 1, 1, 10)],
        grants: vec![
            (room.clone(), grant("g1", "p", &[("gold", 1)])?),
            (room.clone(), grant("g2", "p", &[("gold", 1)])?),
        ],
        ..Batch::default()
    };
    let first = commit(store, &fence, 1, batch.clone()).await?;
    equal("repeat", commit(store, &fence, 1, batch.clone()).await?, first)?;
    equal("outbox", ok("outbox", store.outbox(ShardId(1), 0, 10).await)?.len(), 2)?;
    refused("a gap", "OutOfOrder", store.commit(&fence, SHARDS, 3, Batch::default()).await)?;
    refused("number 0", "OutOfOrder", store.commit(&fence, SHARDS, 0, Batch::default()).await)?;
    commit(store, &fence, 2, stores(vec![checkpoint(&room, &fence, 2, 2, 10)])).await?;
    // F4: a save that timed out arrives after a newer one.
    refused("a lower number", "OutOfOrder", store.commit(&fence, SHARDS, 1, batch).await)?;
    equal("version", ok("load", store.load(&room).await)?.map(|c| c.version), Some(2))
}

pub(super) async fn numbers_begin_anew_with_a_term(subject: Subject) -> Outcome {
    let store = &subject.store;
    let fence = owner(store, "a#1", 1).await?;
    for number in 1..=3 {
        commit(store, &fence, number, Batch::default()).await?;
    }
    let next = again(store, &fence).await?;
    refused("the former count", "OutOfOrder", store.commit(&next, SHARDS, 4, Batch::default()).await)?;
    commit(store, &next, 1, Batch::default()).await.map(drop)
}

pub(super) async fn an_older_checkpoint_never_replaces_a_newer_one(subject: Subject) -> Outcome {
    let store = &subject.store;
    let old = owner(store, "a#1", 1).await?;
    let fence = again(store, &old).await?;
    let room = room(1, "r")?;
    let newest = checkpoint(&room, &fence, 5, 5, 10);
    commit(store, &fence, 1, stores(vec![newest.clone()])).await?;
    let older = [
        ("an equal version", checkpoint(&room, &fence, 6, 5, 10)),
        ("a lower version", checkpoint(&room, &fence, 6, 4, 10)),
        ("a lower tick", checkpoint(&room, &fence, 4, 6, 10)),
        ("a lower term", checkpoint(&room, &old, 9, 6, 10)),
    ];
    for (what, checkpoint) in older {
        refused(what, "Conflict", store.commit(&fence, SHARDS, 2, stores(vec![checkpoint])).await)?;
    }
    let mut beyond = checkpoint(&room, &fence, 6, 6, 10);
    beyond.term = Term(fence.term().0 + 1);
    refused("a term above the fence", "Invalid", store.commit(&fence, SHARDS, 2, stores(vec![beyond])).await)?;
    equal("checkpoint", ok("load", store.load(&room).await)?, Some(newest))?;
    commit(store, &fence, 2, stores(vec![checkpoint(&room, &fence, 5, 6, 10)])).await.map(drop)
}

pub(super) async fn rooms_are_loaded_listed_and_deleted(subject: Subject) -> Outcome {
    let store = &subject.store;
    let fence = owner(store, "a#1", 1).await?;
    let mut rooms = [room(1, "a")?, room(1, "b")?, room(1, "c")?];
    rooms.sort();
    let checkpoints: Vec<_> = rooms.iter().map(|room| checkpoint(room, &fence, 1, 1, 10)).collect();
    let scheduled = vec![item(&rooms[0], "k", Wall(1)), item(&rooms[1], "k", Wall(1))];
    commit(store, &fence, 1, Batch { checkpoints: checkpoints.clone(), scheduled, ..Batch::default() }).await?;
    equal("load", ok("load", store.load(&rooms[1]).await)?.as_ref(), Some(&checkpoints[1]))?;
    let page = ok("rooms", store.rooms(ShardId(1), None, 2).await)?;
    equal("first page", page, vec![checkpoints[0].summary.clone(), checkpoints[1].summary.clone()])?;
    let page = ok("rooms", store.rooms(ShardId(1), Some(rooms[1].clone()), 2).await)?;
    equal("second page", page, vec![checkpoints[2].summary.clone()])?;
    equal("another shard", ok("rooms", store.rooms(ShardId(2), None, 2).await)?, vec![])?;
    commit(store, &fence, 2, Batch { deleted: vec![rooms[0].clone()], ..Batch::default() }).await?;
    equal("deleted", ok("load", store.load(&rooms[0]).await)?, None)?;
    let work = ok("work", store.work(ShardId(1), None, 10).await)?;
    equal("its work went with it", work.into_iter().map(|i| i.id.room).collect(), vec![rooms[1].clone()])?;
    equal("and is not due", ok("due", store.due(ShardId(1), Wall(2), None, 10).await)?.len(), 1)?;
    // A room of the same name is a new one.
    commit(store, &fence, 3, stores(vec![checkpoint(&rooms[0], &fence, 1, 1, 10)])).await.map(drop)
}

pub(super) async fn a_batch_belongs_to_the_shard_of_its_fence(subject: Subject) -> Outcome {
    let store = &subject.store;
    let fence = owner(store, "a#1", 1).await?;
    let foreign = room(2, "r")?;
    let batches = [
        ("checkpoint", stores(vec![checkpoint(&foreign, &fence, 1, 1, 10)])),
        ("deletion", Batch { deleted: vec![foreign.clone()], ..Batch::default() }),
        ("item", Batch { scheduled: vec![item(&foreign, "k", Wall(1))], ..Batch::default() }),
        ("cancelled", Batch { cancelled: vec![work_id(&foreign, "k")], ..Batch::default() }),
        ("grant", Batch { grants: vec![(foreign.clone(), grant("g", "p", &[("gold", 1)])?)], ..Batch::default() }),
    ];
    for (what, batch) in batches {
        refused(what, "Invalid", store.commit(&fence, SHARDS, 1, batch).await)?;
    }
    // C30: another shard count would put rooms into other shards.
    refused("another count", "Disagreement", store.commit(&fence, SHARDS + 1, 1, Batch::default()).await)?;
    let key = Key::named("daemon/x@1/0");
    let daemon = ok("acquire", store.acquire(&key, fence.incarnation(), None, Term(0)).await)?;
    refused("not a shard", "Invalid", store.commit(&daemon, SHARDS, 1, Batch::default()).await)
}

pub(super) async fn sizes_are_bounded(subject: Subject) -> Outcome {
    let store = &subject.store;
    let fence = owner(store, "a#1", 1).await?;
    let (a, b) = (room(1, "a")?, room(1, "b")?);
    let half = limits::COMMIT_BYTES / 2;
    let two = |size| stores(vec![checkpoint(&a, &fence, 1, 1, size), checkpoint(&b, &fence, 1, 1, half)]);
    refused("several rooms", "Invalid", store.commit(&fence, SHARDS, 1, two(half + 1)).await)?;
    let one = |size| stores(vec![checkpoint(&a, &fence, 1, 1, size)]);
    let over = store.commit(&fence, SHARDS, 1, one(limits::CHECKPOINT_BYTES + 1)).await;
    match over {
        Err(error) => {
            let (text, limit) = (error.to_string(), limits::CHECKPOINT_BYTES);
            let both = text.contains(&limit.to_string()) && text.contains(&(limit + 1).to_string());
            holds(&format!("{text:?} names both numbers"), both)?;
        }
        Ok(_) => return Err("a checkpoint above the bound was stored".to_owned()),
    }
    let mut big = item(&a, "k", Wall(1));
    big.payload = vec![0; limits::WORK_PAYLOAD_BYTES + 1].into();
    let big = Batch { scheduled: vec![big], ..Batch::default() };
    refused("payload", "Invalid", store.commit(&fence, SHARDS, 1, big).await)?;
    let many = (0..=limits::BATCH_ITEMS).map(|n| item(&a, &n.to_string(), Wall(1))).collect();
    let many = Batch { scheduled: many, ..Batch::default() };
    refused("items", "Invalid", store.commit(&fence, SHARDS, 1, many).await)?;
    let odd = Batch { scheduled: vec![item(&a, "k\0x", Wall(1))], ..Batch::default() };
    refused("control characters", "Invalid", store.commit(&fence, SHARDS, 1, odd).await)?;
    let mut wide = checkpoint(&a, &fence, 1, 1, 10);
    wide.summary.metadata = vec![0; limits::METADATA + 1].into();
    refused("metadata", "Invalid", store.commit(&fence, SHARDS, 1, stores(vec![wide])).await)?;
    let twice = stores(vec![checkpoint(&a, &fence, 1, 1, 10), checkpoint(&a, &fence, 2, 2, 10)]);
    refused("a room twice", "Invalid", store.commit(&fence, SHARDS, 1, twice).await)?;
    commit(store, &fence, 1, two(half)).await?;
    let largest = stores(vec![checkpoint(&a, &fence, 2, 2, limits::CHECKPOINT_BYTES)]);
    commit(store, &fence, 2, largest).await?;
    let body = ok("load", store.load(&a).await)?.map(|c| c.body.len());
    equal("the largest checkpoint comes back", body, Some(limits::CHECKPOINT_BYTES))
}

pub(super) async fn a_refused_batch_changes_nothing(subject: Subject) -> Outcome {
    let store = &subject.store;
    let fence = owner(store, "a#1", 1).await?;
    let room = room(1, "r")?;
    // The last part is at fault: everything before it must be as if it had not been.
    let batch = Batch {
        checkpoints: vec![checkpoint(&room, &fence, 1, 1, 10)],
        scheduled: vec![item(&room, "new", Wall(1))],
        completed: vec![work_id(&room, "missing")],
        grants: vec![(room.clone(), grant("g", "p", &[("gold", 1)])?)],
        ..Batch::default()
    };
    refused("a missing item", "Conflict", store.commit(&fence, SHARDS, 1, batch).await)?;
    equal("no checkpoint", ok("load", store.load(&room).await)?, None)?;
    equal("no item", ok("work", store.work(ShardId(1), None, 10).await)?, vec![])?;
    equal("nothing due", ok("due", store.due(ShardId(1), Wall(9), None, 10).await)?, vec![])?;
    equal("no grant", ok("outbox", store.outbox(ShardId(1), 0, 10).await)?, vec![])?;
    equal("the number is free", commit(store, &fence, 1, Batch::default()).await?, vec![])
}
