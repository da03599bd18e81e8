//! Which due items go into a tick, pure.

use std::collections::VecDeque;

use crate::room::world::DueWork;

/// The items of one tick: all but rewards beyond `rewards`, which wait for the next one, so that what a tick decides fits into one
/// commit.
pub(super) fn take(waiting: &mut VecDeque<DueWork>, rewards: usize) -> Vec<DueWork> {
    let (mut due, mut taken) = (Vec::new(), 0);
    for work in std::mem::take(waiting) {
        if work.reward.is_some() && taken == rewards {
            waiting.push_back(work);
        } else {
            taken += usize::from(work.reward.is_some());
            due.push(work);
        }
    }
    due
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bytes::Bytes;
    use tenure_shared::RoomId;

    use super::*;
    use crate::{
        plugin::{Audience, Reward},
        room::host::config::{REWARD_GRANTS, WORK_PER_ROOM, rewards_per_tick},
        runtime::Wall,
        store::{WorkId, WorkItem, model::limits},
    };

    fn work(job: &str, key: usize, reward: bool) -> DueWork {
        let room = RoomId::from_parts("lab", "eu", "a").expect("valid");
        let id = WorkId { room, job: job.into(), key: key.to_string().into() };
        let reward = reward.then(|| Reward {
            id: "daily".into(),
            scheduled_for: Wall(0),
            audience: Audience::AllKnown,
            amounts: BTreeMap::new(),
            cap: None,
            max_grants_per_step: 500,
            max_known: 10_000,
        });
        DueWork { item: WorkItem { id, due: Wall(0), attempt: 0, parked: None, payload: Bytes::new() }, reward }
    }

    #[test]
    fn as_many_rewards_as_fit_into_a_commit_and_every_other_item() {
        let rewards = rewards_per_tick(500);
        assert!(rewards * 500 <= REWARD_GRANTS && WORK_PER_ROOM * 500 > limits::BATCH_GRANTS);
        let mut waiting: VecDeque<_> = (0..WORK_PER_ROOM).map(|n| work("schedule/daily", n, true)).collect();
        waiting.push_back(work("job", 0, false));
        let (mut seen, mut ticks) = (Vec::new(), 0);
        while !waiting.is_empty() {
            let due = take(&mut waiting, rewards);
            assert_eq!(due.iter().any(|work| work.reward.is_none()), ticks == 0, "other items do not wait");
            assert!(due.iter().filter(|work| work.reward.is_some()).count() <= rewards);
            seen.extend(due.iter().filter(|w| w.reward.is_some()).map(|w| w.item.id.key.to_string()));
            ticks += 1;
        }
        assert_eq!(seen, (0..WORK_PER_ROOM).map(|n| n.to_string()).collect::<Vec<_>>(), "in order, each once");
        assert_eq!(ticks, WORK_PER_ROOM / rewards);
    }
}
