//! Checks of the outbox.

use tenure_shared::ShardId;

use super::{Outcome, Subject, again, commit, equal, grant, ok, owner, room};
use crate::store::{Batch, Fence};

pub(super) async fn positions_grow_and_are_never_reused(subject: Subject) -> Outcome {
    let store = &subject.store;
    let fence = owner(store, "a#1", 1).await?;
    let room = room(1, "r")?;
    let grants = |from: usize, to: usize| -> Result<Batch, String> {
        let all = (from..to).map(|n| Ok((room.clone(), grant(&format!("g{n}"), "p", &[("gold", 1)])?)));
        Ok(Batch { grants: all.collect::<Result<_, String>>()?, ..Batch::default() })
    };
    // Behind the term: where the store forgot some of them, none comes twice in the next one.
    let after = |fence: &Fence| fence.term().0;
    let first = after(&fence) + 1;
    equal("first", commit(store, &fence, 1, grants(0, 3)?).await?, (first..first + 3).collect())?;
    commit(store, &fence, 2, Batch { trimmed: (first..first + 3).collect(), ..Batch::default() }).await?;
    equal("empty", ok("outbox", store.outbox(ShardId(1), 0, 10).await)?, vec![])?;
    let next = again(store, &fence).await?;
    let fourth = after(&next).max(first + 2) + 1;
    equal("in a new term too", commit(store, &next, 1, grants(3, 5)?).await?, vec![fourth, fourth + 1])?;
    let rest = ok("outbox", store.outbox(ShardId(1), fourth, 10).await)?;
    equal("after a position", rest.into_iter().map(|entry| entry.position).collect(), vec![fourth + 1])
}

pub(super) async fn trimming_may_be_repeated(subject: Subject) -> Outcome {
    let store = &subject.store;
    let fence = owner(store, "a#1", 1).await?;
    let room = room(1, "r")?;
    let two = vec![(room.clone(), grant("a", "p", &[("gold", 1)])?), (room, grant("b", "p", &[("gold", 1)])?)];
    let positions = commit(store, &fence, 1, Batch { grants: two, ..Batch::default() }).await?;
    for number in 2..4 {
        commit(store, &fence, number, Batch { trimmed: vec![positions[0], 77], ..Batch::default() }).await?;
    }
    let rest = ok("outbox", store.outbox(ShardId(1), 0, 10).await)?;
    equal("the other stays", rest.into_iter().map(|entry| entry.position).collect::<Vec<_>>(), positions[1..].to_vec())
}
