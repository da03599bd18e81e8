//! A node's ownership on a clock moved by hand: it fences itself, comes back as a new life, and its terms grow.
#![expect(clippy::expect_used, reason = "a test stops at what it did not expect")]

use std::{
    future::ready,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tenure::{
    ownership::{Options, Ownership, Times},
    runtime::{Clock, ManualClock, Rng, Shutdown, Tasks, Wall},
    store::{self, Backend, Batch, BoxFuture, Command, Error, Key, MemberInfo, Memory, Stamped, Status, Store},
};
use tenure_shared::ShardId;

const START: Wall = Wall(1_764_446_400_123_456);
const SHARDS: u32 = 8;

/// A store that can be away.
struct Switch {
    inner: Memory,
    away: Arc<AtomicBool>,
}

impl Backend for Switch {
    fn execute(&self, command: Command) -> BoxFuture<'_, Stamped> {
        if self.away.load(Ordering::SeqCst) {
            return Box::pin(ready(Stamped { at: Wall(0), reply: Err(Error::Unavailable("away".to_owned())) }));
        }
        self.inner.execute(command)
    }
}

struct World {
    clock: Clock,
    hand: ManualClock,
    store: Store,
    away: Arc<AtomicBool>,
    tasks: Tasks,
}

impl World {
    fn new() -> Self {
        let (clock, hand) = Clock::manual(START);
        let away = Arc::new(AtomicBool::new(false));
        let inner = Memory::new(clock.clone(), store::model::Rules::default());
        let store = Store::new(Switch { inner, away: away.clone() }, clock.clone());
        Self { clock, hand, store, away, tasks: Tasks::new(Shutdown::new()) }
    }

    async fn start(&self, node: &str) -> Result<Ownership, Error> {
        start(&self.store, &self.clock, node, &self.tasks).await
    }

    fn set_away(&self, away: bool) {
        self.away.store(away, Ordering::SeqCst);
    }
}

fn info(node: &str) -> MemberInfo {
    MemberInfo {
        node: node.to_owned(),
        roles: vec!["room".to_owned()],
        version: "1".to_owned(),
        revision: 1,
        link: String::new(),
        public_url: String::new(),
        zone_data: String::new(),
    }
}

async fn start(store: &Store, clock: &Clock, node: &str, tasks: &Tasks) -> Result<Ownership, Error> {
    let options = Options { shards: SHARDS, times: Times::default(), ..Options::default() };
    Ownership::start(store.clone(), clock.clone(), Rng::from_entropy(), options, info(node), tasks).await
}

/// Waits in real time for something that another thread does; the clock of the test stands still.
async fn until(what: &str, mut is: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !is().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), waiting).await.unwrap_or_else(|_| panic!("waited in vain: {what}"));
}

async fn beats(store: &Store) -> u64 {
    store.members().await.expect("members").iter().map(|member| member.beats).sum()
}

#[tokio::test]
async fn a_node_holds_all_shards_and_its_writes_are_accepted() {
    let world = World::new();
    let ownership = world.start("a").await.expect("starts");
    assert!(ownership.holds(world.clock.now()));
    assert_eq!(ownership.shards().len(), SHARDS as usize);
    let fence = ownership.fence(ShardId(3)).expect("held");
    world.store.commit(&fence, SHARDS, 1, Batch::default()).await.expect("commits");
    assert!(ownership.incarnation().expect("registered").as_str().starts_with("a#"));
    until("serving", async || {
        world.store.members().await.expect("members").iter().all(|member| member.status == Status::Serving)
    })
    .await;

    ownership.drain().await;
    until("draining", async || {
        world.store.members().await.expect("members").iter().all(|member| member.status == Status::Draining)
    })
    .await;
    ownership.leave().await;
    assert!(!ownership.holds(world.clock.now()) && ownership.fence(ShardId(3)).is_none());
    assert_eq!(world.store.members().await.expect("members"), vec![]);
    let claim = world.store.claim(&Key::shard(ShardId(3))).await.expect("claim").expect("known");
    assert_eq!((claim.holder, claim.term), (None, fence.term()));
    ownership.leave().await;
}

#[tokio::test]
async fn another_shard_count_is_refused_with_both_values() {
    // C30.
    let world = World::new();
    let _ownership = world.start("a").await.expect("starts");
    let options = Options { shards: SHARDS * 2, times: Times::default(), ..Options::default() };
    let other = Ownership::start(
        world.store.clone(),
        world.clock.clone(),
        Rng::from_entropy(),
        options,
        info("b"),
        &world.tasks,
    );
    let text = other.await.expect_err("is refused").to_string();
    assert!(text.contains("shards = 8") && text.contains("16"), "{text}");
}

#[tokio::test]
async fn heartbeats_keep_the_lease_while_the_wall_clock_jumps() {
    // C23: -1 h, +1 h and -2 days.
    let world = World::new();
    let ownership = world.start("a").await.expect("starts");
    let term = ownership.fence(ShardId(0)).expect("held").term();
    for round in 0..12_i64 {
        let step = [-3_600_i64, 3_600, -172_800, 0][usize::try_from(round % 4).expect("small")];
        world.hand.set_wall(Wall(START.0.saturating_add_signed(step * 1_000_000)));
        let before = beats(&world.store).await;
        world.hand.advance(Duration::from_secs(1));
        until("a heartbeat", async || beats(&world.store).await > before).await;
        until("the lease", async || ownership.holds(world.clock.now().plus(Duration::from_millis(2_400)))).await;
    }
    assert_eq!(ownership.fence(ShardId(0)).expect("held").term(), term, "nothing was taken anew");
}

#[tokio::test]
async fn an_owner_without_a_store_stops_by_itself_and_its_worlds_go_on_later() {
    // C26.
    let world = World::new();
    let ownership = world.start("a").await.expect("starts");
    let (first, life) = (ownership.fence(ShardId(5)).expect("held"), ownership.incarnation().expect("registered"));
    world.set_away(true);
    world.hand.advance(Duration::from_millis(2_499));
    assert!(ownership.holds(world.clock.now()), "the margin is not used up");
    world.hand.advance(Duration::from_millis(1));
    // Nobody said so, and the thread of the lease may not have run.
    assert!(!ownership.holds(world.clock.now()));
    world.hand.advance(Duration::from_secs(60));
    until("the lapse is told", async || ownership.fence(ShardId(5)).is_none()).await;
    assert!(!ownership.holds(world.clock.now()));

    world.set_away(false);
    world.hand.advance(Duration::from_secs(1));
    let all = || ownership.shards().len() == SHARDS as usize;
    until("the next life", async || all() && ownership.holds(world.clock.now())).await;
    assert_ne!(ownership.incarnation(), Some(life), "a lapsed life is over");
    let held = ownership.held(ShardId(5)).expect("held");
    assert!(held.fence.term() > first.term());
    assert_eq!(held.continues, Some(first.term()), "nobody owned it in between");
    // H1, H3: the fence of the life before is refused in the same step that would have written.
    let late = world.store.commit(&first, SHARDS, 1, Batch::default()).await;
    assert!(matches!(late, Err(Error::Fenced { .. })), "{late:?}");
}

#[tokio::test]
async fn a_process_that_was_stopped_takes_its_shards_anew_before_it_acts() {
    // SIGSTOP and SIGCONT: all clocks jump, the store still has the lease or not.
    for (stopped, same_life) in [(Duration::from_millis(2_700), true), (Duration::from_secs(9), false)] {
        let world = World::new();
        let ownership = world.start("a").await.expect("starts");
        let (first, life) = (ownership.fence(ShardId(1)).expect("held"), ownership.incarnation());
        world.hand.advance(stopped);
        assert!(!ownership.holds(world.clock.now()));
        // The fences are told shard by shard; acting begins when every shard was asked for.
        let anew = || ownership.fence(ShardId(1)).is_some_and(|fence| fence.term() > first.term());
        until("taken anew", async || anew() && ownership.holds(world.clock.now())).await;
        assert_eq!(ownership.incarnation() == life, same_life);
        assert_eq!(ownership.held(ShardId(1)).expect("held").continues, Some(first.term()));
    }
}

#[tokio::test]
async fn a_tombstone_makes_a_new_life_without_the_shards_of_others() {
    let world = World::new();
    let a = world.start("a").await.expect("starts");
    let life = a.incarnation().expect("registered");
    let lost = a.fence(ShardId(2)).expect("held");
    // Another node wrote it off and took one shard over.
    world.store.deregister(&life).await.expect("tombstone");
    let b = tenure_shared::IncarnationId::new("b#1").expect("valid");
    world.store.register(&b, info("b"), Duration::from_secs(60)).await.expect("registers");
    let seen = Some((Some(life.clone()), lost.term()));
    let taken = world.store.acquire(&Key::shard(ShardId(2)), &b, seen, lost.term()).await.expect("takeover");
    world.hand.advance(Duration::from_secs(1));
    let rest = || a.shards().len() == SHARDS as usize - 1;
    until("the next life", async || rest() && a.holds(world.clock.now())).await;
    assert!(a.fence(ShardId(2)).is_none());
    world.store.commit(&taken, SHARDS, 1, Batch::default()).await.expect("the other owner is not disturbed");
}

#[tokio::test]
async fn a_refused_write_gives_up_the_shard() {
    let world = World::new();
    let ownership = world.start("a").await.expect("starts");
    let fence = ownership.fence(ShardId(2)).expect("held");
    let me = fence.incarnation().clone();
    // As after a failover that forgot the grant: the claim is under another term than the owner knows.
    let seen = Some((Some(me.clone()), fence.term()));
    let newer = world.store.acquire(fence.key(), &me, seen, fence.term()).await.expect("acquires");
    ownership.fenced(&fence);
    until("taken anew", async || ownership.fence(ShardId(2)).is_some_and(|fence| fence.term() > newer.term())).await;
    let now = ownership.fence(ShardId(2)).expect("held");
    ownership.fenced(&fence);
    world.store.commit(&now, SHARDS, 1, Batch::default()).await.expect("commits");
    assert_eq!(ownership.fence(ShardId(2)), Some(now), "an old refusal says nothing of the new fence");
}

#[tokio::test]
async fn h2_terms_grow_over_twenty_restarts_of_a_file() {
    let folder = tempfile::tempdir().expect("folder");
    let tasks = Tasks::new(Shutdown::new());
    let mut former = Vec::new();
    for restart in 0..20_u64 {
        // The clock is set back at each start, as far as it likes.
        let (clock, _hand) = Clock::manual(Wall(START.0 - restart * 3_600_000_000));
        let store = store::embedded(folder.path(), clock.clone(), store::Options::default()).expect("opens");
        let ownership = start(&store, &clock, "a", &tasks).await.expect("starts");
        let terms: Vec<_> = (0..SHARDS).map(|n| ownership.fence(ShardId(n)).expect("held").term()).collect();
        assert!(
            former.iter().zip(&terms).all(|(before, now)| before < now),
            "restart {restart}: {former:?}, {terms:?}"
        );
        former = terms;
        // As kill -9: nothing is released. The next one takes over at once, since the lock of the folder proves that this one is gone.
        drop((ownership, store));
    }
}

#[tokio::test]
async fn a_second_process_waits_for_the_folder_and_is_refused_then() {
    // C39.
    let folder = tempfile::tempdir().expect("folder");
    let (clock, _hand) = Clock::manual(START);
    let first = store::embedded(folder.path(), clock.clone(), store::Options::default()).expect("opens");
    let options = store::Options { lock_wait: Duration::from_millis(100), ..store::Options::default() };
    let text = store::embedded(folder.path(), clock.clone(), options).expect_err("is held").to_string();
    assert!(text.contains(&format!("process {}", std::process::id())), "{text}");
    assert!(text.contains("started 2025-11-29T20:00:00Z"), "{text}");
    assert!(text.contains(&folder.path().display().to_string()), "{text}");
    let (path, waiting_clock) = (folder.path().to_owned(), clock);
    let second = std::thread::spawn(move || store::embedded(&path, waiting_clock, store::Options::default()));
    drop(first);
    second.join().expect("no panic").expect("opens when the first has let go");
}
