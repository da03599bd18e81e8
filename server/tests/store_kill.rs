//! kill -9 loses no acknowledged write of the embedded store, and never half of one. The lock of a killed process does not block.
#![expect(clippy::expect_used, reason = "a test stops at what it did not expect")]

use std::{
    collections::VecDeque,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use bytes::Bytes;
use tenure::{
    runtime::{Clock, Rng},
    store::{self, Batch, Checkpoint, Grant, GrantId, Key, MemberInfo, OpenError, Options, RoomSummary, Store},
};
use tenure_shared::{IncarnationId, PlayerId, RoomId, ShardId, Term, Tick};

const FOLDER: &str = "TENURE_TEST_STORE_KILL_FOLDER";
const TEST: &str = "an_acknowledged_write_survives_kill_9";
const ROUNDS: u32 = 12;

fn room() -> RoomId {
    RoomId::new("arena/eu/one").expect("valid")
}

fn open(folder: &Path) -> Store {
    store::embedded(folder, Clock::system(), Options::default()).expect("opens")
}

/// The process that is killed: commits version after version and prints each that was acknowledged.
async fn write_until_killed(folder: &Path) {
    let store = open(folder);
    store.agree("shards", "1").await.expect("agrees");
    let me = IncarnationId::new(&format!("child#{}", Rng::from_entropy().uuid())).expect("valid");
    let info = MemberInfo {
        node: "child".to_owned(),
        roles: vec![],
        version: String::new(),
        revision: 0,
        link: String::new(),
        public_url: String::new(),
        zone_data: String::new(),
    };
    store.register(&me, info, Duration::from_secs(3)).await.expect("registers");
    let key = Key::shard(ShardId(0));
    let seen = store.claim(&key).await.expect("claim").map(|claim| (claim.holder, claim.term));
    let fence = store.acquire(&key, &me, seen, Term(0)).await.expect("acquires");
    let mut version = store.load(&room()).await.expect("loads").map_or(0, |checkpoint| checkpoint.version);
    let outbox = store.outbox(ShardId(0), 0, 1_000).await.expect("outbox");
    let mut positions: VecDeque<u64> = outbox.iter().map(|entry| entry.position).collect();
    for number in 1.. {
        version += 1;
        let summary = RoomSummary {
            room: room(),
            seats: 0,
            max_seats: 1,
            metadata: Bytes::new(),
            dormant: false,
            private: false,
            locked: false,
        };
        let body = vec![version as u8; 4_096].into();
        let grant = Grant {
            id: GrantId(format!("g{version}").into()),
            player: PlayerId::new("p").expect("valid"),
            source: "chest".into(),
            scheduled_for: None,
            amounts: [("gold".into(), 1)].into(),
            cap: None,
            token: Bytes::new(),
        };
        let batch = Batch {
            checkpoints: vec![Checkpoint { summary, term: fence.term(), tick: Tick(version), version, body }],
            grants: vec![(room(), grant)],
            trimmed: positions.drain(..positions.len().saturating_sub(49)).collect(),
            ..Batch::default()
        };
        positions.extend(store.commit(&fence, 1, number, batch).await.expect("commits"));
        let mut out = std::io::stdout().lock();
        writeln!(out, "acknowledged {version}").and_then(|()| out.flush()).expect("the parent reads");
    }
}

#[tokio::test]
async fn an_acknowledged_write_survives_kill_9() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        write_until_killed(Path::new(&folder)).await;
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let rng = Rng::from_entropy();
    let mut former = 0;
    for round in 0..ROUNDS {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args([TEST, "--exact", "--nocapture"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let pid = child.id();
        let stop_after = 1 + rng.below(60);
        let mut acknowledged = former;
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut read = |count: u64, acknowledged: &mut u64| {
            let mut seen = 0;
            while seen < count
                && let Some(line) = lines.next()
            {
                if let Some(version) = line.expect("text").strip_prefix("acknowledged ") {
                    *acknowledged = version.parse().expect("a number");
                    seen += 1;
                }
            }
        };
        read(stop_after, &mut acknowledged);
        if round == 0 {
            let options = Options { lock_wait: Duration::ZERO, ..Options::default() };
            let refused = store::embedded(folder.path(), Clock::system(), options).expect_err("is held");
            let text = refused.to_string();
            assert!(matches!(refused, OpenError::InUse { .. }), "{text}");
            assert!(text.contains(&format!("process {pid},")), "{text} does not name process {pid}");
            assert!(text.contains(&folder.path().display().to_string()), "{text} does not name the folder");
        }
        child.kill().expect("kill -9");
        // What it had acknowledged before it died may still be in the pipe.
        read(u64::MAX, &mut acknowledged);
        child.wait().expect("ends");

        let store = open(folder.path());
        let version = store.load(&room()).await.expect("loads").expect("is there").version;
        assert!(version >= acknowledged, "{acknowledged} was acknowledged, {version} is stored");
        assert!(version <= acknowledged + 1, "{acknowledged} was acknowledged last, yet {version} is stored");
        assert!(version >= former + stop_after, "round {round} made no progress");
        // H6: checkpoint, grant and trimming are one step.
        let outbox = store.outbox(ShardId(0), 0, 1_000).await.expect("outbox");
        let grants: Vec<_> = outbox.iter().map(|entry| entry.grant.id.0.to_string()).collect();
        let want: Vec<_> = (version.saturating_sub(49).max(1)..=version).map(|version| format!("g{version}")).collect();
        assert_eq!(grants, want);
        assert_eq!(store.members().await.expect("members"), vec![], "the killed process is known to be gone");
        former = version;
    }
}
