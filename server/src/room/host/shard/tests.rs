//! Rooms at the end of their shard or of their own life, run by hand so that the moment is exact.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
};

use bytes::Bytes;
use parking_lot::Mutex;
use tenure_shared::{RoomId, ShardId};

use super::Shard;
use crate::{
    ownership::{Options, Ownership, Times},
    plugin::{RoomBuilder, RoomKind},
    room::{
        host::{
            HostConfig,
            core::{Host, Parts},
            executor::{Activity, Busy, Executor, Next, Wake},
            inbox::Event,
        },
        world::DueWork,
    },
    runtime::{Clock, Rng, Shutdown, Tasks, Wall},
    store::{self, MemberInfo, WorkId, WorkItem},
    timers::LiveBook,
};

/// Keeps activities for the test to run.
#[derive(Default)]
struct ByHand(Mutex<Vec<Box<dyn Activity>>>);

struct NoWake;

impl Wake for NoWake {
    fn wake(&self) {}
}

impl Executor for ByHand {
    fn spawn(&self, _: Arc<str>, activity: Box<dyn Activity>) -> Arc<dyn Wake> {
        self.0.lock().push(activity);
        Arc::new(NoWake)
    }
    fn busy(&self) -> Vec<Busy> {
        Vec::new()
    }
    fn wakeups(&self) -> u64 {
        0
    }
    fn stop(&self) {}
}

struct Bench {
    host: Arc<Host>,
    hands: Arc<ByHand>,
    shard: Arc<Shard>,
    room: RoomId,
}

impl Bench {
    async fn new() -> Self {
        let clock = Clock::system();
        let (store, rng, tasks) = (store::memory(clock.clone()), Rng::seeded(1), Tasks::new(Shutdown::new()));
        let info = MemberInfo {
            node: "a".to_owned(),
            roles: vec!["room".to_owned()],
            version: String::new(),
            revision: 0,
            link: String::new(),
            public_url: String::new(),
            zone_data: String::new(),
        };
        let options = Options { shards: 1, times: Times::default(), ..Options::default() };
        let ownership = Ownership::start(store.clone(), clock.clone(), rng.clone(), options, info, &tasks);
        let ownership = ownership.await.expect("owned");
        let kind = RoomKind::new("lab", |room: &mut RoomBuilder| {
            room.max_seats(4);
        })
        .expect("a valid game");
        let hands = Arc::<ByHand>::default();
        let host = Arc::new(Host::new(Parts {
            kinds: BTreeMap::from([("lab".to_owned(), kind)]),
            store,
            ownership,
            clock,
            rng,
            config: HostConfig { shards: 1, ..HostConfig::default() },
            book: LiveBook::default(),
            tasks,
            executor: hands.clone(),
        }));
        let fence = host.ownership.fence(ShardId(0)).expect("held");
        let shard = Shard::start(&host, ShardId(0), fence, Vec::new());
        // Its writer does nothing: this test is the writer.
        host.shutdown.stop();
        Self { host, hands, shard, room: RoomId::from_parts("lab", "eu", "a").expect("valid") }
    }

    fn run(&self) -> Next {
        let mut activity = self.hands.0.lock().pop().expect("a room");
        let next = activity.run(self.host.clock.now());
        self.hands.0.lock().push(activity);
        next
    }
}

#[tokio::test]
async fn a_room_that_is_opened_while_its_shard_goes_does_not_stay() {
    let bench = Bench::new().await;
    bench.shard.lost.store(true, Ordering::Release);
    bench.host.open(&bench.room, &bench.shard).expect("a known kind");
    assert_eq!(bench.run(), Next::Done);
    assert_eq!(bench.host.rooms.len(), 0, "who comes now finds the next owner's");
}

#[tokio::test]
async fn a_room_that_ends_gives_back_what_it_was_handed() {
    let bench = Bench::new().await;
    let handle = bench.host.open(&bench.room, &bench.shard).expect("a known kind");
    let id = WorkId { room: bench.room.clone(), job: "job".into(), key: "x".into() };
    let item = WorkItem { id, due: Wall(0), attempt: 0, parked: None, payload: Bytes::new() };
    handle.tell(Event::Work(Box::new(DueWork { item, reward: None })));
    assert_eq!(bench.run(), Next::Wait, "it is being read");
    bench.shard.outbox.again.store(false, Ordering::Release);
    handle.tell(Event::Stop);
    assert_eq!(bench.run(), Next::Done);
    assert_eq!(*bench.shard.given_back.lock(), [(bench.room.clone(), vec![])]);
    assert!(!bench.shard.outbox.is_idle(), "its ledger answers come again");
}
