//! The admin port over real sockets, and the commands that ask it: what they print and how they exit.
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

#[path = "admin_parts/books.rs"]
mod books;
#[path = "admin_parts/daemons.rs"]
mod daemons;

use std::{
    future::ready,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tenure::{
    cli::{Cli, Exit, Outcome, ReadyFile, run, write_ready_file},
    config::{AdminConfig, Config, Secret},
    ops::{
        AdminParts, ClusterReport, DaemonError, DaemonOrder, DaemonsReport, Readiness, ReloadError, ReloadReport,
        RoomReport, Source, StatusReport, start,
    },
    runtime::{Clock, Shutdown, Tasks},
    store::{self, BoxFuture, Fence, Grant, GrantId, Store},
    telemetry::{Metrics, Recent},
};
use tenure_shared::{PlayerId, ShardId, Term, Tick};

use books::{Books, room};

const SHARDS: u32 = 4;
const TOKEN: &[u8] = b"0123456789abcdef0123456789abcdef";

struct Node {
    ready: AtomicBool,
    drains: AtomicUsize,
    /// What was ordered of daemons.
    orders: Mutex<Vec<DaemonOrder>>,
    store: Store,
}

impl Source for Node {
    fn readiness(&self) -> Readiness {
        let ready = self.ready.load(Ordering::SeqCst);
        Readiness { registered: true, lease: true, store: ready, draining: false }
    }
    fn status(&self) -> StatusReport {
        let room = RoomReport {
            room: room(),
            shard: ShardId(3),
            term: Some(Term(1_764_446_400_123_457)),
            tick: Some(Tick(99)),
            tick_rate: Some(20),
            seats: 2,
            connected: Some(1),
            max_seats: Some(50),
            state: "running".into(),
            ticks_dropped: 3,
            reason: None,
        };
        StatusReport {
            node: "n1".into(),
            version: "0.1.0".into(),
            readiness: self.readiness(),
            rooms: vec![room],
            ..StatusReport::default()
        }
    }
    fn store(&self) -> &Store {
        &self.store
    }
    fn fence(&self, _: ShardId) -> Option<Fence> {
        None
    }
    fn shards(&self) -> u32 {
        SHARDS
    }
    fn keep_identities(&self) -> Duration {
        Duration::from_secs(60)
    }
    fn unpark(&self, room: &tenure_shared::RoomId) -> bool {
        room.name() == "parked"
    }
    fn cluster(&self) -> ClusterReport {
        ClusterReport { node: "n1".into(), shards: SHARDS, ..ClusterReport::default() }.counted()
    }
    fn daemons(&self) -> BoxFuture<'_, DaemonsReport> {
        Box::pin(ready(daemons::report(&self.orders.lock().expect("whole"))))
    }
    fn order(&self, order: DaemonOrder) -> BoxFuture<'_, Result<serde_json::Value, DaemonError>> {
        let answer = daemons::answer(&order);
        self.orders.lock().expect("whole").push(order);
        Box::pin(ready(answer))
    }
    fn drain(&self) {
        self.drains.fetch_add(1, Ordering::SeqCst);
    }
    fn reload(&self) -> BoxFuture<'_, Result<ReloadReport, ReloadError>> {
        let done = self.ready.load(Ordering::SeqCst);
        let report = ReloadReport { file: "r.toml".into(), changed: vec!["chest".into()], ..ReloadReport::default() };
        Box::pin(async move {
            if done { Ok(report) } else { Err(ReloadError::Mistakes("r.toml:3: a\nr.toml:4: b".into())) }
        })
    }
}

struct Running {
    node: Arc<Node>,
    address: SocketAddr,
    tasks: Tasks,
    recent: Recent,
}

async fn serve(token: Option<Secret>, damaged: bool, change: impl FnOnce(&mut AdminConfig)) -> Running {
    let node = Arc::new(Node {
        ready: AtomicBool::new(true),
        drains: AtomicUsize::new(0),
        orders: Mutex::default(),
        store: Store::new(Books { damaged }, Clock::system()),
    });
    let mut config = Config::default().admin;
    config.listen = "127.0.0.1:0".parse().expect("an address");
    change(&mut config);
    let (clock, tasks) = (Clock::system(), Tasks::new(Shutdown::new()));
    let recent = Recent::new(clock.clone());
    let parts = AdminParts {
        config,
        token,
        source: node.clone(),
        metrics: Metrics::install("n1", "7.1").expect("installed"),
        recent: recent.clone(),
        clock,
        tasks: tasks.clone(),
    };
    let address = start(parts).await.expect("bound");
    Running { node, address, tasks, recent }
}

/// Sends bytes, gives all that comes back.
fn raw(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("connected");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

async fn ask(address: SocketAddr, method: &str, path: &str, headers: &str) -> String {
    let request = format!("{method} {path} HTTP/1.1\r\n{headers}\r\n");
    tokio::task::spawn_blocking(move || raw(address, &request)).await.expect("asked")
}

fn status_of(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0)
}

async fn command(address: SocketAddr, line: &[&str]) -> Outcome {
    let mut words = vec!["demo".to_owned(), "--set".to_owned(), format!("admin.listen={address}")];
    words.extend(["--set".to_owned(), format!("shards.count={SHARDS}")]);
    words.extend(line.iter().map(|word| (*word).to_owned()));
    tokio::task::spawn_blocking(move || {
        let cli = Cli::parse_from("demo", "0.1.0", words).expect("parsed");
        run(&cli).expect("not serve")
    })
    .await
    .expect("run")
}

const LOCAL: &str = "Host: localhost\r\n";

#[tokio::test(flavor = "multi_thread")]
async fn probes_are_bare_and_need_no_token() {
    let running = serve(Some(Secret::new(TOKEN)), false, |_| {}).await;
    for path in ["/live", "/ready"] {
        let answer = ask(running.address, "GET", path, "Host: any.example\r\n").await;
        assert_eq!(status_of(&answer), 200, "{answer}");
        assert!(answer.ends_with("\r\n\r\n"), "no body: {answer}");
    }
    running.node.ready.store(false, Ordering::SeqCst);
    assert_eq!(status_of(&ask(running.address, "GET", "/ready", "").await), 503);
    assert_eq!(status_of(&ask(running.address, "GET", "/live", "").await), 200, "a node without its store lives");
    assert_eq!(status_of(&ask(running.address, "POST", "/live", "").await), 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rest_needs_the_token() {
    let running = serve(Some(Secret::new(TOKEN)), false, |_| {}).await;
    let pages = ["/admin", "/admin/state", "/status", "/admin/ledger?player=a", "/admin/work", "/admin/daemons"];
    for path in pages.into_iter().chain(["/metrics", "/nothing"]) {
        assert_eq!(status_of(&ask(running.address, "GET", path, LOCAL).await), 401, "{path}");
    }
    let token = std::str::from_utf8(TOKEN).expect("text");
    let headers = format!("Authorization: Bearer {token}\r\nHost: tenure.example\r\n");
    let metrics = ask(running.address, "GET", "/metrics", &headers).await;
    assert_eq!(status_of(&metrics), 200);
    assert!(metrics.contains("tenure_build_info{node=\"n1\""));
    let outside = format!("{headers}Origin: https://evil.example\r\n");
    let orders = ["stop", "start", "rescale", "unpark", "ask"].map(|verb| format!("/admin/daemons/{verb}?set=work"));
    let changes =
        ["/admin/work/retry", "/admin/drain", "/admin/schedule/reload", "/admin/room/unpark"].map(str::to_owned);
    for change in changes.iter().chain(&orders) {
        assert_eq!(status_of(&ask(running.address, "POST", change, &outside).await), 403);
        assert_eq!(status_of(&ask(running.address, "GET", change, &headers).await), 405, "a link changes nothing");
    }
    assert_eq!(running.node.drains.load(Ordering::SeqCst), 0);
    assert!(running.node.orders.lock().expect("whole").is_empty());
    assert_eq!(
        status_of(&ask(running.address, "POST", "/admin/work/retry?room=a/b/c&job=j&key=k", &headers).await),
        409
    );
    assert_eq!(status_of(&ask(running.address, "POST", "/admin/work/retry?room=a", &headers).await), 400);
    assert_eq!(status_of(&ask(running.address, "POST", "/admin/room/unpark?room=a", &headers).await), 400);
    assert_eq!(status_of(&ask(running.address, "DELETE", "/admin", &headers).await), 405);
    assert_eq!(status_of(&ask(running.address, "GET", "/nothing", &headers).await), 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_and_its_state_are_served_on_loopback() {
    let running = serve(None, false, |_| {}).await;
    running.recent.push("info", "room <b>opened</b>");
    let page = ask(running.address, "GET", "/admin", LOCAL).await;
    assert_eq!(status_of(&page), 200);
    assert!(page.contains("content-security-policy: default-src 'none'") && page.contains("cache-control: no-store"));
    assert!(!page.contains("innerHTML"), "what the node says is set as text");
    let state = ask(running.address, "GET", "/admin/state", LOCAL).await;
    let body = state.split_once("\r\n\r\n").expect("a body").1;
    let report: StatusReport = serde_json::from_str(body).expect("a report");
    assert_eq!(report.events[0].text, "room <b>opened</b>");
    assert_eq!(report.rooms[0].term, Some(Term(1_764_446_400_123_457)));
    assert_eq!(status_of(&ask(running.address, "GET", "/admin/state", "Host: rebound.example\r\n").await), 403);
    let cluster = ask(running.address, "GET", "/admin/cluster", LOCAL).await;
    let body = cluster.split_once("\r\n\r\n").expect("a body").1;
    let report: ClusterReport = serde_json::from_str(body).expect("a report");
    assert_eq!(report.ownerless.len(), SHARDS as usize, "nobody holds them");
}

/// H11: what nobody has logged in for is bounded too.
#[tokio::test(flavor = "multi_thread")]
async fn connections_are_bounded_in_number_and_time() {
    let running = serve(None, false, |config| {
        config.max_connections = 2;
        config.request_timeout = Duration::from_millis(300);
    })
    .await;
    let address = running.address;
    let held = tokio::task::spawn_blocking(move || {
        let mut held: Vec<TcpStream> = (0..2).map(|_| TcpStream::connect(address).expect("connected")).collect();
        for stream in &mut held {
            stream.write_all(b"GET /live HTTP/1.1\r\n").expect("sent");
            stream.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
        }
        // Both heads never end: the server cuts them, and everybody is served again.
        for stream in &mut held {
            let mut rest = Vec::new();
            let ended = stream.read_to_end(&mut rest);
            assert!(ended.is_ok() || ended.is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionReset));
        }
        raw(address, "GET /live HTTP/1.1\r\n\r\n")
    });
    assert_eq!(status_of(&held.await.expect("ended")), 200);
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(100_000));
    let answer = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address).expect("connected");
        // The server may close before it has read everything.
        let _sent = stream.write_all(long.as_bytes());
        let mut answer = Vec::new();
        let _read = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    });
    assert!(matches!(status_of(&answer.await.expect("ended")), 0 | 414 | 431));
    running.tasks.shutdown().stop();
    assert!(running.tasks.wait(Duration::from_secs(10)).await, "the server ends with the node");
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_ask_the_running_node() {
    let running = serve(None, true, |_| {}).await;
    let at = running.address;
    let status = command(at, &["status"]).await;
    assert_eq!(status.exit, Exit::Good, "{}", status.text);
    assert!(
        status.text.contains("n1 0.1.0") && status.text.contains("arena/eu/k3 running: 1 of 2/50 seats"),
        "{}",
        status.text
    );
    running.node.ready.store(false, Ordering::SeqCst);
    let status = command(at, &["status", "--json"]).await;
    assert_eq!(status.exit, Exit::Problem);
    assert!(!serde_json::from_str::<StatusReport>(&status.text).expect("JSON").readiness.ready());

    let reload = command(at, &["schedule", "reload"]).await;
    let kept = "r.toml:3: a\nr.toml:4: b\nthe running schedules are kept";
    assert_eq!((reload.exit, &*reload.text), (Exit::Problem, kept), "every mistake, a line each");
    running.node.ready.store(true, Ordering::SeqCst);
    let reload = command(at, &["schedule", "reload"]).await;
    assert_eq!(reload.exit, Exit::Good, "{}", reload.text);
    assert!(reload.text.contains("changed chest\nr.toml was read again"), "{}", reload.text);
    running.node.ready.store(false, Ordering::SeqCst);

    let ledger = command(at, &["ledger", "show", "guest:1"]).await;
    assert_eq!(ledger.exit, Exit::Good);
    let lines: Vec<&str> = ledger.text.lines().collect();
    assert_eq!(lines[0], "guest:1: gold 130");
    assert_eq!(lines[1], "2027-01-15T08:00:00Z  +130 gold  chest  schedule/chest/1/arena/eu/k3/guest:1");
    assert_eq!(command(at, &["ledger", "show", "no one"]).await.exit, Exit::CouldNotRun);

    let work = command(at, &["work", "list"]).await;
    assert_eq!(work.exit, Exit::Problem, "parked work is a problem");
    assert!(work.text.contains("arena/eu/k3 harvest k 1&2: parked after 10 failures: no field"), "{}", work.text);
    assert_eq!(command(at, &["room", "unpark", "arena/eu/parked"]).await.exit, Exit::Good);
    assert_eq!(command(at, &["room", "unpark", "arena/eu/k3"]).await.exit, Exit::Problem);
    let retry = command(at, &["work", "retry", "arena/eu/k3", "harvest", "k 1&2"]).await;
    assert_eq!(retry.exit, Exit::Problem);
    assert!(retry.text.contains("does not hold shard"), "{}", retry.text);

    assert!(status.text.contains("n1"), "{}", status.text);
    running.node.ready.store(true, Ordering::SeqCst);
    let status = command(at, &["status"]).await;
    assert!(status.text.contains("0 members, 0 of them room nodes; 4 shards, 4 without an owner"), "{}", status.text);
    let drain = command(at, &["drain"]).await;
    assert_eq!((drain.exit, running.node.drains.load(Ordering::SeqCst)), (Exit::Good, 1), "{}", drain.text);

    let history = command(at, &["history", "check"]).await;
    assert_eq!(history.exit, Exit::Problem);
    for key in ["shard/0", "daemon/work@1/3"] {
        let text = format!("{key}: term 1 has two owners, a#1 and b#1");
        assert!(history.text.contains(&text), "{}", history.text);
    }
    assert!(history.text.contains("4 shards, 1 daemons"), "{}", history.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_node_commands_open_the_store() {
    // Port 1 (tcpmux) has had no listener for decades; a port that was free a moment ago may be taken by another test.
    let free: SocketAddr = "127.0.0.1:1".parse().expect("an address");
    let folder = tempfile::tempdir().expect("a folder");
    let data = format!("store.path={}", folder.path().join("data").display());
    let none = command(free, &["ledger", "show", "guest:1", "--set", &data]).await;
    assert_eq!(none.exit, Exit::CouldNotRun);
    assert!(none.text.contains("there is no data folder"), "{}", none.text);
    assert!(!folder.path().join("data").exists(), "asking makes no store");

    let open =
        || store::embedded(&folder.path().join("data"), Clock::system(), store::Options::default()).expect("opened");
    let held = open();
    let grant = Grant {
        id: GrantId("g1".into()),
        player: PlayerId::new("guest:1").expect("valid"),
        source: "shop".into(),
        scheduled_for: None,
        amounts: [("gold".into(), 5)].into(),
        cap: None,
        token: "".into(),
    };
    held.apply(grant).await.expect("applied");
    let locked = command(free, &["ledger", "show", "guest:1", "--set", &data]).await;
    assert_eq!(locked.exit, Exit::CouldNotRun);
    assert!(locked.text.contains("is in use by"), "{}", locked.text);
    drop(held);

    let ledger = command(free, &["ledger", "show", "guest:1", "--set", &data]).await;
    assert_eq!((ledger.exit, ledger.text.lines().next()), (Exit::Good, Some("guest:1: gold 5")), "{}", ledger.text);
    let history = command(free, &["history", "check", "--set", &data]).await;
    assert_eq!(history.exit, Exit::Good, "{}", history.text);
    assert!(
        history.text.contains("4 shards, 0 daemons, 0 changes of ownership, 0 completed items: 0 problems"),
        "{}",
        history.text
    );
    let status = command(free, &["status"]).await;
    assert_eq!(status.exit, Exit::CouldNotRun);
    assert!(status.text.starts_with("no node answers on "), "{}", status.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ready_file_and_the_token_file_lead_to_the_node() {
    let running = serve(Some(Secret::new(TOKEN)), false, |_| {}).await;
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| -> PathBuf { folder.path().join(name) };
    let content = ReadyFile { play: None, admin: Some(running.address), link: None, pid: 1 };
    write_ready_file(&path("ready.json"), &content).expect("written");
    std::fs::write(path("token"), TOKEN).expect("written");
    let ready = path("ready.json").display().to_string();
    let token = format!("admin.token_file={}", path("token").display());
    let zero: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    let refused = command(zero, &["status", "--ready-file", &ready]).await;
    assert_eq!(refused.exit, Exit::CouldNotRun);
    assert!(refused.text.contains("401"), "{}", refused.text);
    let answered = command(zero, &["status", "--ready-file", &ready, "--set", &token]).await;
    assert_eq!(answered.exit, Exit::Good, "{}", answered.text);
    assert_eq!(command(zero, &["status"]).await.exit, Exit::CouldNotRun, "port 0 names nobody");
}
