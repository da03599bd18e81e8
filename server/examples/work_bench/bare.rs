//! The same calls to the store that a node makes, without a node: fills it, and fires what is due as fast as the calls go.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tenure::{
    room::world::{RoomWorld, WorldSettings},
    runtime::{Clock, Mono, Rng, Wall},
    store::{Batch, Checkpoint, Fence, Key, MemberInfo, Store, WorkId, WorkItem},
};
use tenure_shared::{IncarnationId, RoomId, ShardId, Term, Tick};
use tokio::{sync::Semaphore, task::JoinSet};

use crate::{
    SHARDS, field,
    node::{Fired, quantiles},
    size,
};

/// Longest lease, so that nothing here has to beat.
const LEASE: Duration = Duration::from_secs(3_600);
/// Items in one commit.
const ITEMS: usize = 2_000;
/// Rooms read at a time, as a node does.
const LOADS: usize = 64;
/// Items of a room that a load reads at most at a time.
const PAGE: usize = 500;

/// Who holds all shards.
pub(crate) struct Owner {
    store: Store,
    me: IncarnationId,
    fences: Vec<Fence>,
    numbers: Vec<u64>,
    rooms: BTreeMap<u32, Vec<RoomId>>,
}

impl Owner {
    /// Takes them all.
    pub(crate) async fn take(store: &Store, name: &str) -> anyhow::Result<Self> {
        let me = IncarnationId::new(&format!("{name}#{}", Rng::from_entropy().uuid()))?;
        let info = MemberInfo {
            node: name.to_owned(),
            roles: vec![],
            version: String::new(),
            revision: 0,
            link: String::new(),
            public_url: String::new(),
            zone_data: String::new(),
        };
        store.register(&me, info, LEASE).await?;
        let mut fences = Vec::new();
        for shard in (0..SHARDS).map(ShardId) {
            let key = Key::shard(shard);
            let seen = store.claim(&key).await?.map(|claim| (claim.holder, claim.term));
            fences.push(store.acquire(&key, &me, seen, Term(0)).await?);
        }
        let mut rooms: BTreeMap<u32, Vec<RoomId>> = BTreeMap::new();
        for room in field::rooms() {
            let room = room?;
            rooms.entry(room.shard(SHARDS).0).or_default().push(room);
        }
        let numbers = vec![0; fences.len()];
        Ok(Self { store: store.clone(), me, fences, numbers, rooms })
    }

    /// Others may take them.
    pub(crate) async fn leave(self) -> anyhow::Result<()> {
        Ok(self.store.deregister(&self.me).await?)
    }

    async fn commit(&mut self, shard: u32, batch: Batch) -> anyhow::Result<()> {
        let at = shard as usize;
        self.numbers[at] += 1;
        self.store.commit(&self.fences[at], SHARDS, self.numbers[at], batch).await?;
        Ok(())
    }

    /// Every room, dormant.
    pub(crate) async fn make_rooms(&mut self) -> anyhow::Result<()> {
        let kind = field::kind()?;
        for (shard, rooms) in self.rooms.clone() {
            let term = self.fences[shard as usize].term();
            let now = self.store.now();
            let mut checkpoints = Vec::new();
            for room in rooms {
                let mut world =
                    RoomWorld::create(&kind, room, &WorldSettings::default(), term, 7, now, Default::default())?;
                checkpoints.push(world.checkpoint(true));
            }
            self.commit(shard, Batch { checkpoints, ..Batch::default() }).await?;
        }
        Ok(())
    }

    /// So many items of a job in each room.
    pub(crate) async fn plant(&mut self, job: &str, each: usize, due: impl Fn(usize) -> Wall) -> anyhow::Result<()> {
        let job: Arc<str> = job.into();
        for (shard, rooms) in self.rooms.clone() {
            let item = |room: &RoomId, nth: usize| WorkItem {
                id: WorkId { room: room.clone(), job: job.clone(), key: nth.to_string().into() },
                due: due(nth),
                attempt: 0,
                parked: None,
                payload: vec![1].into(),
            };
            let items: Vec<WorkItem> = rooms
                .iter()
                .flat_map(|room| (0..each).map(move |nth| (room, nth)))
                .map(|(room, nth)| item(room, nth))
                .collect();
            for scheduled in items.chunks(ITEMS) {
                self.commit(shard, Batch { scheduled: scheduled.to_vec(), ..Batch::default() }).await?;
            }
        }
        Ok(())
    }

    /// Does everything that is due, all shards side by side.
    pub(crate) async fn fire(&self) -> anyhow::Result<Fired> {
        let (clock, loads) = (Clock::system(), Arc::new(Semaphore::new(LOADS)));
        let begun = clock.now();
        let mut shards = JoinSet::new();
        for (fence, number) in self.fences.iter().zip(&self.numbers) {
            let (store, fence, loads, number) = (self.store.clone(), fence.clone(), loads.clone(), *number);
            shards.spawn(fire(store, fence, number, loads));
        }
        let mut ends: Vec<Mono> = Vec::new();
        while let Some(done) = shards.join_next().await {
            ends.extend(done??);
        }
        let rooms = size().0;
        anyhow::ensure!(ends.len() == rooms, "{} of {rooms} items were done", ends.len());
        let all = clock.now().since(begun);
        let late = ends.iter().map(|end| end.since(begun).as_micros() as u64).collect();
        let (p50_ms, p99_ms) = quantiles(late);
        Ok(Fired { all_s: all.as_secs_f64(), p50_ms, p99_ms, ..Fired::default() })
    }
}

/// What is due in one shard; when each item was done.
async fn fire(store: Store, fence: Fence, mut number: u64, loads: Arc<Semaphore>) -> anyhow::Result<Vec<Mono>> {
    let clock = Clock::system();
    let shard = fence.key().as_shard().unwrap_or_default();
    let items = store.due(shard, store.now(), None, 1_000).await?;
    let mut rooms = JoinSet::new();
    for item in items {
        let (store, loads) = (store.clone(), loads.clone());
        rooms.spawn(async move {
            let _permit = loads.acquire().await?;
            let checkpoint = store.load(&item.id.room).await?;
            let pending = store.room_work(shard, &item.id.room, None, PAGE).await?;
            anyhow::Ok((item.id, checkpoint, pending.len()))
        });
    }
    let mut batch = Batch::default();
    while let Some(room) = rooms.join_next().await {
        let (id, checkpoint, _) = room??;
        let Some(old) = checkpoint else { anyhow::bail!("{} has no checkpoint", id.room) };
        batch.checkpoints.push(next(old, fence.term()));
        batch.completed.push(id);
    }
    let count = batch.completed.len();
    if count == 0 {
        return Ok(Vec::new());
    }
    let again = batch.checkpoints.iter().map(|old| next(old.clone(), fence.term())).collect::<Vec<_>>();
    number += 1;
    store.commit(&fence, SHARDS, number, batch).await?;
    let done = clock.now();
    // The room goes to sleep again, and is to be deleted one day.
    let dispose = |checkpoint: &Checkpoint| WorkItem {
        id: WorkId {
            room: checkpoint.summary.room.clone(),
            job: "tenure/dispose".into(),
            key: checkpoint.version.to_string().into(),
        },
        due: store.now().plus(LEASE * 24 * 7),
        attempt: 0,
        parked: None,
        payload: Default::default(),
    };
    let scheduled = again.iter().map(dispose).collect();
    store.commit(&fence, SHARDS, number + 1, Batch { checkpoints: again, scheduled, ..Batch::default() }).await?;
    Ok(vec![done; count])
}

fn next(old: Checkpoint, term: Term) -> Checkpoint {
    Checkpoint { term, tick: Tick(old.tick.0 + 1), version: old.version + 1, ..old }
}
