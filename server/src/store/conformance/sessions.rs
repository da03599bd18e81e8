//! Checks of session records.

use std::time::Duration;

use bytes::Bytes;
use tenure_shared::{PlayerId, RoomId};

use super::{Outcome, Subject, equal, ok, player, refused, room};
use crate::store::{Session, model::limits};

fn session(player: &PlayerId, room: &RoomId, version: u64) -> Session {
    Session {
        player: player.clone(),
        room: room.clone(),
        seat: 1,
        options: Bytes::from_static(b"o"),
        current: format!("t{version}"),
        next: None,
        version,
    }
}

pub(super) async fn a_session_is_compare_and_set(subject: Subject) -> Outcome {
    let store = &subject.store;
    let (p, r) = (player("p")?, room(1, "r")?);
    equal("none", ok("get", store.session(&p, &r).await)?, None)?;
    let at = |version| Some(session(&p, &r, version));
    refused("one that is not there", "Conflict", store.put_session(&p, &r, 1, at(2)).await)?;
    ok("first", store.put_session(&p, &r, 0, at(1)).await)?;
    ok("its repeat", store.put_session(&p, &r, 0, at(1)).await)?;
    ok("second", store.put_session(&p, &r, 1, at(2)).await)?;
    refused("two at once", "Conflict", store.put_session(&p, &r, 1, at(3)).await)?;
    refused(
        "a version that stands still",
        "Invalid",
        store.put_session(&p, &r, 2, at(2).map(|s| Session { seat: 9, ..s })).await,
    )?;
    let large = Session { options: vec![0; limits::OPTIONS + 1].into(), ..session(&p, &r, 3) };
    refused("large options", "Invalid", store.put_session(&p, &r, 2, Some(large)).await)?;
    let foreign = session(&player("q")?, &r, 3);
    refused("of another player", "Invalid", store.put_session(&p, &r, 2, Some(foreign)).await)?;
    equal("stored", ok("get", store.session(&p, &r).await)?, at(2))
}

pub(super) async fn a_session_is_deleted_once(subject: Subject) -> Outcome {
    let store = &subject.store;
    let (p, r) = (player("p")?, room(1, "r")?);
    ok("put", store.put_session(&p, &r, 0, Some(session(&p, &r, 1))).await)?;
    refused("another version", "Conflict", store.put_session(&p, &r, 7, None).await)?;
    ok("delete", store.put_session(&p, &r, 1, None).await)?;
    ok("repeat", store.put_session(&p, &r, 1, None).await)?;
    equal("gone", ok("get", store.session(&p, &r).await)?, None)
}

pub(super) async fn sessions_of_a_player_are_bounded(subject: Subject) -> Outcome {
    let store = &subject.store;
    let p = player("p")?;
    for n in 0..=limits::PLAYER_SESSIONS {
        let r = room(1, &format!("r{n}"))?;
        ok("put", store.put_session(&p, &r, 0, Some(session(&p, &r, 1))).await)?;
        subject.advance(Duration::from_millis(1)).await;
    }
    let oldest = ok("get", store.session(&p, &room(1, "r0")?).await)?;
    equal("the oldest made room", oldest, None)?;
    let second = ok("get", store.session(&p, &room(1, "r1")?).await)?;
    equal("the next one stays", second.map(|s| s.version), Some(1))
}
