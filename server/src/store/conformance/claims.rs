//! Checks of claims: compare-and-set, terms, transfer, release, routes, history.

use std::time::Duration;

use bytes::Bytes;
use tenure_shared::{IncarnationId, ShardId, Term};

use super::{
    Outcome, Subject, TTL, again, checkpoint, commit, equal, holds, incarnation, member, ok, owner, refused, room,
};
use crate::store::{Batch, Error, Fence, Key, KeyState, Store, model::limits};

fn shard(n: u32) -> Key {
    Key::shard(ShardId(n))
}

fn seen(fence: &Fence) -> Option<(Option<IncarnationId>, Term)> {
    Some((Some(fence.incarnation().clone()), fence.term()))
}

pub(super) async fn a_claim_is_compare_and_set(subject: Subject) -> Outcome {
    let store = &subject.store;
    let (a, b) = (member(store, "a#1").await?, member(store, "b#1").await?);
    let wrong = Some((Some(a.clone()), Term(7)));
    refused("a claim that is not there", "Held", store.acquire(&shard(1), &a, wrong, Term(0)).await)?;
    equal("nothing was written", ok("claim", store.claim(&shard(1)).await)?, None)?;
    let fence = ok("acquire", store.acquire(&shard(1), &a, None, Term(0)).await)?;
    match store.acquire(&shard(1), &b, None, Term(0)).await {
        Err(Error::Held { holder, term, .. }) => {
            equal("who holds it", (holder, term), (a.to_string(), fence.term()))?;
        }
        other => return Err(format!("another view was accepted: {other:?}")),
    }
    let (claim, term) = (ok("claim", store.claim(&shard(1)).await)?, fence.term());
    equal("claim", claim.map(|c| (c.holder, c.term, c.package)), Some((Some(a), term, None)))
}

pub(super) async fn only_live_members_acquire(subject: Subject) -> Outcome {
    let store = &subject.store;
    let stranger = incarnation("x#1")?;
    refused("stranger", "Tombstoned", store.acquire(&shard(1), &stranger, None, Term(0)).await)?;
    let a = member(store, "a#1").await?;
    ok("deregister", store.deregister(&a).await)?;
    refused("buried", "Tombstoned", store.acquire(&shard(1), &a, None, Term(0)).await)
}

pub(super) async fn a_live_holder_is_not_overrun(subject: Subject) -> Outcome {
    let store = &subject.store;
    let fence = owner(store, "a#1", 1).await?;
    let b = member(store, "b#1").await?;
    refused("live holder", "Held", store.acquire(&shard(1), &b, seen(&fence), Term(0)).await)?;
    // Lapsed alone is not enough: the tombstone counts, and it is written by the store's clock.
    subject.advance(TTL + Duration::from_secs(1)).await;
    ok("beat", store.heartbeat(&b, TTL, Term(0)).await)?;
    refused("lapsed holder", "Held", store.acquire(&shard(1), &b, seen(&fence), Term(0)).await)?;
    equal("expire", ok("expire", store.expire(fence.incarnation(), None).await)?, true)?;
    let taken = ok("takeover", store.acquire(&shard(1), &b, seen(&fence), Term(0)).await)?;
    holds("the term grew", taken.term() > fence.term())?;
    let history = ok("history", store.history(&shard(1)).await)?;
    equal("causes", history.into_iter().map(|h| h.cause).collect(), vec!["acquire".to_owned(), "takeover".to_owned()])
}

pub(super) async fn a_holder_acquires_its_own_claim_anew(subject: Subject) -> Outcome {
    // F5: the answer to a takeover was lost; its own lease is live.
    let store = &subject.store;
    let fence = owner(store, "a#1", 1).await?;
    let newer = again(store, &fence).await?;
    holds("the term grew", newer.term() > fence.term())?;
    refused("the old fence", "Fenced", store.release(&fence).await)
}

pub(super) async fn an_absent_holder_is_taken_over(subject: Subject) -> Outcome {
    // F6: no record is a tombstone. A deregistered holder has none any more.
    let store = &subject.store;
    let fence = owner(store, "a#1", 1).await?;
    ok("deregister", store.deregister(fence.incarnation()).await)?;
    let b = member(store, "b#1").await?;
    ok("takeover", store.acquire(&shard(1), &b, seen(&fence), Term(0)).await).map(drop)
}

pub(super) async fn terms_grow_over_owners_floors_and_time(subject: Subject) -> Outcome {
    // C27, F12: a floor that somebody saw is never fallen below, whatever this store remembers.
    let store = &subject.store;
    let a = member(store, "a#1").await?;
    let stamped = store.execute(crate::store::Command::Members).await;
    let first = ok("acquire", store.acquire(&shard(1), &a, None, Term(0)).await)?;
    holds("a term is at least the store's time", first.term().0 >= stamped.at.0)?;
    let ahead = Term(first.term().0 + 1_000_000_000_000);
    let second = ok("acquire", store.acquire(&shard(1), &a, seen(&first), ahead).await)?;
    equal("above the floor", second.term(), Term(ahead.0 + 1))?;
    let third = again(store, &second).await?;
    equal("above the former term", third.term(), Term(second.term().0 + 1))?;
    ok("release", store.release(&third).await)?;
    let fourth = store.acquire(&shard(1), &a, Some((None, third.term())), Term(0)).await;
    let fourth = ok("acquire", fourth)?;
    equal("above the released term", fourth.term(), Term(third.term().0 + 1))?;
    let (_, floor) = ok("beat", store.heartbeat(&a, TTL, Term(0)).await)?;
    equal("heartbeats spread the highest term", floor, fourth.term())?;
    let beyond = store.acquire(&shard(2), &a, None, Term(u64::MAX)).await;
    refused("a floor beyond all terms", "Invalid", beyond)
}

pub(super) async fn a_late_acquire_changes_nothing(subject: Subject) -> Outcome {
    // F1, F3: a command that sat in a buffer arrives after the claim moved on.
    let store = &subject.store;
    let fence = owner(store, "a#1", 1).await?;
    let newer = again(store, &fence).await?;
    let late = store.acquire(&shard(1), fence.incarnation(), seen(&fence), Term(0)).await;
    refused("late acquire", "Held", late)?;
    equal("term", ok("claim", store.claim(&shard(1)).await)?.map(|c| c.term), Some(newer.term()))
}

pub(super) async fn a_release_may_be_repeated_and_keeps_the_term(subject: Subject) -> Outcome {
    let store = &subject.store;
    let fence = owner(store, "a#1", 1).await?;
    ok("release", store.release(&fence).await)?;
    ok("release again", store.release(&fence).await)?;
    let claim = ok("claim", store.claim(&shard(1)).await)?;
    equal("claim", claim.map(|c| (c.holder, c.term)), Some((None, fence.term())))?;
    refused("commit after the release", "Fenced", store.commit(&fence, super::SHARDS, 1, Batch::default()).await)?;
    let newer = store.acquire(&shard(1), fence.incarnation(), Some((None, fence.term())), Term(0)).await;
    ok("acquire", newer)?;
    refused("a late release", "Fenced", store.release(&fence).await)
}

pub(super) async fn a_transfer_needs_its_manifest(subject: Subject) -> Outcome {
    let store = &subject.store;
    let fence = owner(store, "a#1", 1).await?;
    let b = member(store, "b#1").await?;
    let room = room(1, "r")?;
    let stored = Batch { checkpoints: vec![checkpoint(&room, &fence, 1, 3, 10)], ..Batch::default() };
    commit(store, &fence, 1, stored).await?;
    for version in [2, 4] {
        let result = store.transfer(&fence, &b, 9, vec![(room.clone(), version)], Term(0)).await;
        refused("another version", "Conflict", result)?;
    }
    let gone = incarnation("c#1")?;
    let result = store.transfer(&fence, &gone, 9, vec![(room.clone(), 3)], Term(0)).await;
    refused("a target that is gone", "Tombstoned", result)?;
    let floor = Term(fence.term().0 + 500_000_000_000);
    let term = ok("transfer", store.transfer(&fence, &b, 9, vec![(room, 3)], floor).await)?;
    holds("above the floor", term > floor)?;
    let claim = ok("claim", store.claim(&shard(1)).await)?;
    // F2: the target uses its package only if the checksum in the claim is its own.
    equal("claim", claim.map(|c| (c.holder, c.term, c.package)), Some((Some(b), term, Some(9))))
}

pub(super) async fn after_a_transfer_the_source_is_fenced_off(subject: Subject) -> Outcome {
    let store = &subject.store;
    let fence = owner(store, "a#1", 1).await?;
    let b = member(store, "b#1").await?;
    // F1: the source is in doubt and takes its claim anew; the transfer that arrives late is refused.
    let newer = again(store, &fence).await?;
    refused("late transfer", "Fenced", store.transfer(&fence, &b, 1, vec![], Term(0)).await)?;
    let term = ok("transfer", store.transfer(&newer, &b, 1, vec![], Term(0)).await)?;
    refused("repeat", "Fenced", store.transfer(&newer, &b, 1, vec![], Term(0)).await)?;
    refused("commit of the source", "Fenced", store.commit(&newer, super::SHARDS, 1, Batch::default()).await)?;
    refused("release of the source", "Fenced", store.release(&newer).await)?;
    let back = store.acquire(&shard(1), fence.incarnation(), seen(&newer), Term(0)).await;
    refused("the source's compare-and-set", "Held", back)?;
    let run = store.acquire(&shard(1), &b, Some((Some(b.clone()), term)), Term(0)).await;
    let run = ok("the target acquires anew", run)?;
    let claim = ok("claim", store.claim(&shard(1)).await)?;
    equal("the package belongs to the term it made", claim.map(|c| (c.term, c.package)), Some((run.term(), None)))
}

pub(super) async fn routes_tell_changes(subject: Subject) -> Outcome {
    let store = &subject.store;
    let fence = owner(store, "a#1", 1).await?;
    let (one, changed) = ok("routes", store.routes(0).await)?;
    let owners: Vec<_> = changed.into_iter().map(|r| (r.key, r.owner, r.term)).collect();
    let a = fence.incarnation().clone();
    equal("routes", owners, vec![(shard(1), Some(a.clone()), fence.term())])?;
    let other = ok("acquire", store.acquire(&shard(2), &a, None, Term(0)).await)?;
    ok("release", store.release(&fence).await)?;
    let (two, changed) = ok("routes", store.routes(one).await)?;
    let mut owners: Vec<_> = changed.into_iter().map(|r| (r.key, r.owner, r.term)).collect();
    owners.sort();
    let want = vec![(shard(1), None, fence.term()), (shard(2), Some(a), other.term())];
    equal("each key once, at its last change", owners, want)?;
    holds("the counter grew", two > one)?;
    let (three, changed) = ok("routes", store.routes(two).await)?;
    equal("nothing new", (three, changed.len()), (two, 0))
}

pub(super) async fn claims_are_read_by_their_keys(subject: Subject) -> Outcome {
    let store = &subject.store;
    let a = member(store, "a#1").await?;
    for key in ["daemon/regions@8/1", "shard/1", "shard/3"] {
        ok("acquire", store.acquire(&Key::named(key), &a, None, Term(0)).await)?;
    }
    let wanted = ["shard/3", "shard/2", "daemon/regions@8/1"];
    let claims = ok("claims", store.claims(wanted.iter().map(|key| Key::named(key)).collect()).await)?;
    let keys = claims.into_iter().map(|claim| claim.key.to_string()).collect::<Vec<_>>();
    equal(
        "those ever claimed, in the order asked for",
        keys,
        vec!["shard/3".to_owned(), "daemon/regions@8/1".to_owned()],
    )?;
    let many = (0..=limits::LISTING as u32).map(|n| Key::shard(ShardId(n))).collect();
    refused("too many keys", "Invalid", store.claims(many).await)
}

pub(super) async fn history_is_bounded_and_in_order(subject: Subject) -> Outcome {
    let store: &Store = &subject.store;
    let mut fence = owner(store, "a#1", 1).await?;
    let mut terms = vec![fence.term()];
    for _ in 0..limits::HISTORY + 3 {
        fence = again(store, &fence).await?;
        terms.push(fence.term());
    }
    let history = ok("history", store.history(&shard(1)).await)?;
    let latest = terms[terms.len() - limits::HISTORY as usize..].to_vec();
    equal("the latest lines, oldest first", history.iter().map(|h| h.term).collect(), latest)?;
    holds("each with its owner", history.iter().all(|h| h.owner.as_ref() == Some(fence.incarnation())))
}

pub(super) async fn the_state_of_a_claim_is_written_under_its_fence(subject: Subject) -> Outcome {
    let (store, key) = (&subject.store, Key::named("daemon/x@1/3"));
    let (a, b) = (member(store, "a#1").await?, member(store, "b#1").await?);
    equal("none", ok("state", store.state(&key).await)?, None)?;
    let fence = ok("acquire", store.acquire(&key, &a, None, Term(0)).await)?;
    let body = |text: &'static str| Bytes::from_static(text.as_bytes());
    ok("first", store.put_state(&fence, 0, body("one")).await)?;
    ok("its repeat", store.put_state(&fence, 0, body("one")).await)?;
    refused("another in its place", "Conflict", store.put_state(&fence, 0, body("two")).await)?;
    ok("second", store.put_state(&fence, 1, body("two")).await)?;
    refused("the first one late", "Conflict", store.put_state(&fence, 0, body("one")).await)?;
    let large = vec![0; limits::STATE_BYTES + 1].into();
    refused("too large", "Invalid", store.put_state(&fence, 2, large).await)?;
    let term = ok("transfer", store.transfer(&fence, &b, 0, vec![], Term(0)).await)?;
    refused("under an old fence", "Fenced", store.put_state(&fence, 2, body("three")).await)?;
    let next = Fence::new(key.clone(), b, term);
    ok("under the new one", store.put_state(&next, 2, body("four")).await)?;
    ok("release", store.release(&next).await)?;
    refused("of nobody", "Fenced", store.put_state(&next, 3, body("five")).await)?;
    equal("state", ok("state", store.state(&key).await)?, Some(KeyState { version: 3, body: body("four") }))
}
