//! Checks of members, leases, tombstones and agreements.

use std::time::Duration;

use tenure_shared::{IncarnationId, Term};

use super::{Outcome, Subject, TTL, equal, holds, incarnation, info, member, ok, refused};
use crate::store::Status;

pub(super) async fn a_lease_is_renewed_and_lapses(subject: Subject) -> Outcome {
    let store = &subject.store;
    let a = member(store, "a#1").await?;
    let (beats, _) = ok("beat", store.heartbeat(&a, TTL, Term(0)).await)?;
    equal("beats", beats, 1)?;
    subject.advance(TTL - Duration::from_secs(1)).await;
    equal("expire before the lease ends", ok("expire", store.expire(&a, None).await)?, false)?;
    let (beats, _) = ok("beat", store.heartbeat(&a, TTL, Term(0)).await)?;
    equal("beats", beats, 2)?;
    subject.advance(TTL - Duration::from_secs(1)).await;
    equal("expire after a renewal", ok("expire", store.expire(&a, None).await)?, false)?;
    // A heartbeat after the lapse is accepted as long as nobody wrote the tombstone.
    subject.advance(TTL + Duration::from_secs(1)).await;
    ok("late beat", store.heartbeat(&a, TTL, Term(0)).await)?;
    equal("expire after a late beat", ok("expire", store.expire(&a, None).await)?, false)?;
    subject.advance(TTL + Duration::from_secs(1)).await;
    equal("expire after the lapse", ok("expire", store.expire(&a, None).await)?, true)?;
    refused("beat of the buried", "Tombstoned", store.heartbeat(&a, TTL, Term(0)).await)
}

pub(super) async fn a_tombstone_is_for_ever(subject: Subject) -> Outcome {
    let store = &subject.store;
    let a = member(store, "a#1").await?;
    ok("deregister", store.deregister(&a).await)?;
    ok("deregister again", store.deregister(&a).await)?;
    refused("beat", "Tombstoned", store.heartbeat(&a, TTL, Term(0)).await)?;
    refused("register", "Tombstoned", store.register(&a, info("a#1"), TTL).await)?;
    refused("status", "Tombstoned", store.set_status(&a, Status::Serving).await)?;
    refused("schedules", "Tombstoned", store.set_schedules(&a, "17").await)?;
    equal("expire", ok("expire", store.expire(&a, None).await)?, true)
}

pub(super) async fn an_absent_member_counts_as_buried(subject: Subject) -> Outcome {
    let store = &subject.store;
    let a = incarnation("a#1")?;
    refused("beat", "Tombstoned", store.heartbeat(&a, TTL, Term(0)).await)?;
    refused("status", "Tombstoned", store.set_status(&a, Status::Serving).await)?;
    equal("expire", ok("expire", store.expire(&a, None).await)?, true)?;
    refused("register after that", "Tombstoned", store.register(&a, info("a#1"), TTL).await)
}

pub(super) async fn a_register_may_be_repeated(subject: Subject) -> Outcome {
    let store = &subject.store;
    let a = member(store, "a#1").await?;
    ok("status", store.set_status(&a, Status::Serving).await)?;
    ok("beat", store.heartbeat(&a, TTL, Term(0)).await)?;
    member(store, "a#1").await?;
    let members = ok("members", store.members().await)?;
    equal("after a late repeat", members.iter().map(|m| (m.status, m.beats)).collect(), vec![(Status::Serving, 1)])?;
    refused("another description", "Conflict", store.register(&a, info("b"), TTL).await)
}

pub(super) async fn members_are_listed_without_the_dead(subject: Subject) -> Outcome {
    let store = &subject.store;
    let (a, b) = (member(store, "a#1").await?, member(store, "b#1").await?);
    ok("status", store.set_status(&b, Status::Draining).await)?;
    ok("schedules", store.set_schedules(&b, "17").await)?;
    ok("other schedules", store.set_schedules(&b, "18").await)?;
    let list = ok("members", store.members().await)?;
    let list: Vec<_> = list.into_iter().map(|m| (m.incarnation, m.status, m.tombstone, m.schedules)).collect();
    let row = |member: &IncarnationId, status, hash: &str| (member.clone(), status, false, hash.to_owned());
    equal("members", list, vec![row(&a, Status::Joining, ""), row(&b, Status::Draining, "18")])?;
    ok("beat", store.heartbeat(&b, TTL, Term(0)).await)?;
    let hashes = ok("members", store.members().await)?.into_iter().map(|m| m.schedules).collect();
    equal("schedules after a heartbeat", hashes, vec![String::new(), "18".to_owned()])?;
    ok("deregister", store.deregister(&a).await)?;
    let list = ok("members", store.members().await)?;
    equal("members", list.into_iter().map(|m| m.incarnation).collect(), vec![b])
}

pub(super) async fn constants_are_agreed_once(subject: Subject) -> Outcome {
    let store = &subject.store;
    ok("first", store.agree("shards", "256").await)?;
    ok("repeat", store.agree("shards", "256").await)?;
    match store.agree("shards", "128").await {
        Err(error) => {
            let text = error.to_string();
            holds(&format!("{text:?} names both values"), text.contains("256") && text.contains("128"))?;
        }
        Ok(()) => return Err("another value was accepted".to_owned()),
    }
    equal("value", ok("get", store.agree_or_get("shards", "64").await)?, "256".to_owned())?;
    equal("new value", ok("get", store.agree_or_get("secret", "x").await)?, "x".to_owned())?;
    let a = member(store, "a#1").await?;
    let (_, floor) = ok("beat", store.heartbeat(&a, TTL, Term(0)).await)?;
    equal("floor before any claim", floor, Term(0))
}

pub(super) async fn an_agreement_is_changed_by_compare_and_set(subject: Subject) -> Outcome {
    let store = &subject.store;
    refused("of nothing", "Disagreement", store.reagree("daemons x", "8", "12").await)?;
    ok("first", store.agree("daemons x", "8").await)?;
    ok("changed", store.reagree("daemons x", "8", "12").await)?;
    ok("its repeat", store.reagree("daemons x", "8", "12").await)?;
    refused("of what is no more", "Disagreement", store.reagree("daemons x", "8", "9").await)?;
    refused("the former value", "Disagreement", store.agree("daemons x", "8").await)?;
    equal("value", ok("get", store.agree_or_get("daemons x", "8").await)?, "12".to_owned())
}
