//! Is the address that this node is to be called at really its own?

use std::time::Duration;

use tenure_shared::IncarnationId;

use super::server::StartError;
use crate::{
    config::Role,
    runtime::Clock,
    store::{MemberInfo, Store},
};

/// Time between two looks at the members.
const LOOK: Duration = Duration::from_millis(250);

/// Refuses an address under which another room node lives: a configuration that was copied with its `link.advertise`. Whoever calls one of the two would
/// reach rooms of the other. An address may have been that of a process that has just died: then its lease ends within its time, with no more heartbeats.
///
/// # Errors
/// [`StartError::Unreachable`] with both names; the store's own errors.
///
/// Cancel safe: it only reads.
pub(super) async fn is_own(store: &Store, clock: &Clock, info: &MemberInfo) -> Result<(), StartError> {
    let is_room = |one: &MemberInfo| one.roles.iter().any(|role| role == Role::Room.name());
    if !is_room(info) || info.link == super::settings::LOCAL {
        return Ok(());
    }
    let mut first: Option<(IncarnationId, u64)> = None;
    loop {
        let (members, now) = (store.members().await?, store.now());
        let same = |info_of: &MemberInfo| is_room(info_of) && info_of.link == info.link && info_of.node != info.node;
        let Some(other) = members.into_iter().find(|one| !one.tombstone && now < one.lease_until && same(&one.info))
        else {
            return Ok(());
        };
        match &first {
            Some((incarnation, beats)) if *incarnation == other.incarnation && *beats < other.beats => {
                return Err(StartError::Unreachable(format!(
                    "link.advertise = {:?} is the address of node {:?}, which lives: each room node needs one of its own",
                    info.link, other.info.node
                )));
            }
            Some((incarnation, _)) if *incarnation == other.incarnation => {}
            _ => {
                tracing::info!(
                    link = info.link,
                    other = other.info.node,
                    "another node has this address: does it live?"
                );
                first = Some((other.incarnation, other.beats));
            }
        }
        clock.sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_shared::Term;

    use crate::{runtime::Wall, store::memory};

    const TTL: Duration = Duration::from_secs(3);

    fn id(text: &str) -> IncarnationId {
        IncarnationId::new(text).expect("valid")
    }

    fn info(node: &str, role: Role, link: &str) -> MemberInfo {
        MemberInfo {
            node: node.to_owned(),
            roles: vec![role.name().to_owned()],
            version: "1".to_owned(),
            revision: 0,
            link: link.to_owned(),
            public_url: String::new(),
            zone_data: String::new(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_of_a_node_that_lives_is_refused_and_one_of_a_dead_node_is_waited_for() {
        let clock = Clock::of_runtime(Wall(1_800_000_000_000_000));
        let store = memory(clock.clone());
        let (alive, dead) = (id("a#1"), id("b#1"));
        store.register(&alive, info("a", Role::Room, "10.0.0.7:7779"), TTL).await.expect("registered");
        store.register(&dead, info("b", Role::Room, "10.0.0.8:7779"), TTL).await.expect("registered");
        let beats = async {
            loop {
                clock.sleep(Duration::from_secs(1)).await;
                store.heartbeat(&alive, TTL, Term::default()).await.expect("beats");
            }
        };
        let looks = async {
            let refused = is_own(&store, &clock, &info("c", Role::Room, "10.0.0.7:7779")).await;
            let text = refused.expect_err("two nodes with one address").to_string();
            assert!(text.contains("10.0.0.7:7779") && text.contains("\"a\""), "{text}");
            let before = clock.now();
            is_own(&store, &clock, &info("c", Role::Room, "10.0.0.8:7779")).await.expect("its lease is over");
            assert!(clock.now().since(before) < TTL, "no longer than a lease");
            is_own(&store, &clock, &info("a", Role::Room, "10.0.0.7:7779")).await.expect("an earlier life of its own");
            is_own(&store, &clock, &info("g", Role::Gateway, "10.0.0.7:7779")).await.expect("nobody calls a gateway");
        };
        tokio::select! { () = beats => {}, () = looks => {} }
    }
}
