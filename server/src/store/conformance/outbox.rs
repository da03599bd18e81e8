//! Checks of the outbox.

use tenure_shared::ShardId;

use super::{Outcome, Subject, again, commit, equal, grant, ok, owner, room};
use crate::store::Batch;

pub(super) async fn positions_grow_and_are_never_reused(subject: Subject) -> Outcome {
    let store = &subject.store;
    let fence = owner(store, "a#1", 1).await?;
    let room = room(1, "r")?;
    let grants = |from: usize, to: usize| -> Result<Batch, String> {
        let all = (from..to).map(|n| Ok((room.clone(), grant(&format!("g{n}"), "p", &[("gold", 1)])?)));
        Ok(Batch { grants: all.collect::<Result<_, String>>()?, ..Batch::default() })
    };
    equal("first", commit(store, &fence, 1, grants(0, 3)?).await?, vec![1, 2, 3])?;
    commit(store, &fence, 2, Batch { trimmed: vec![1, 2, 3], ..Batch::default() }).await?;
    equal("empty", ok("outbox", store.outbox(ShardId(1), 0, 10).await)?, vec![])?;
    let next = again(store, &fence).await?;
    equal("in a new term too", commit(store, &next, 1, grants(3, 5)?).await?, vec![4, 5])?;
    let rest = ok("outbox", store.outbox(ShardId(1), 4, 10).await)?;
    equal("after a position", rest.into_iter().map(|entry| entry.position).collect(), vec![5])
}

pub(super) async fn trimming_may_be_repeated(subject: Subject) -> Outcome {
    let store = &subject.store;
    let fence = owner(store, "a#1", 1).await?;
    let room = room(1, "r")?;
    let two = vec![(room.clone(), grant("a", "p", &[("gold", 1)])?), (room, grant("b", "p", &[("gold", 1)])?)];
    commit(store, &fence, 1, Batch { grants: two, ..Batch::default() }).await?;
    for number in 2..4 {
        commit(store, &fence, number, Batch { trimmed: vec![1, 77], ..Batch::default() }).await?;
    }
    let rest = ok("outbox", store.outbox(ShardId(1), 0, 10).await)?;
    equal("the other stays", rest.into_iter().map(|entry| entry.position).collect(), vec![2])
}
