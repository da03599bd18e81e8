//! Configuration: which layer wins, and that the defaults are the contract's (config/default.toml).

use std::time::Duration;

use tenure::config::{Config, Guests, LogFormat, Role, Sources};

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);

#[test]
fn the_defaults_agree_with_each_other_and_with_the_contract() {
    let config = Config::load(&Sources::default()).expect("the defaults have no mistake");
    assert_eq!(config, Config::default());
    assert_eq!(config.shards.count, 256);
    let lease = &config.lease;
    assert_eq!((lease.ttl, lease.heartbeat), (3 * SECOND, SECOND));
    assert_eq!((lease.call_deadline, lease.margin), (SECOND / 2, SECOND / 2));
    let room = &config.room;
    assert_eq!((room.tick_rate, room.catch_up_ticks, room.inputs_per_tick), (20, 5, 8));
    assert_eq!((room.checkpoint_every, room.reconnect_grace), (5 * SECOND, 30 * SECOND));
    assert_eq!((room.idle_after, room.dispose_after), (60 * SECOND, 7 * DAY));
    assert_eq!((room.max_checkpoint, room.max_commit), (1 << 20, 256 << 10));
    assert_eq!((room.restarts, room.restart_window, room.kill_after), (3, 60 * SECOND, 10 * SECOND));
    assert_eq!((room.unsaved_inputs, room.unsaved_bytes, room.unsaved_age), (512, 32 << 10, 15 * SECOND));
    assert_eq!((room.max_rooms, room.max_grants_per_step, room.max_known), (20_000, 500, 1_000));
    let gateway = &config.gateway;
    assert_eq!((gateway.client_message, gateway.login_message), (4096, 1024));
    assert_eq!((gateway.messages_per_second, gateway.messages_burst, gateway.bytes_per_second), (60, 120, 64 << 10));
    assert_eq!((gateway.nesting_depth, gateway.collection_length), (16, 1024));
    assert_eq!((gateway.outgoing_bytes, gateway.resync_after, gateway.close_after), (256 << 10, SECOND, 10 * SECOND));
    assert_eq!((gateway.handshake_timeout, gateway.login_timeout), (5 * SECOND, 5 * SECOND));
    assert_eq!((gateway.ping_every, gateway.idle_timeout), (10 * SECOND, 25 * SECOND));
    assert_eq!((gateway.sockets_per_address, gateway.creates_per_minute), (256, 6));
    assert_eq!(gateway.guests, Guests::Loopback);
    assert_eq!((config.drain.shutdown_grace, config.drain.endpoint_lag), (25 * SECOND, 5 * SECOND));
    let handoff = &config.handoff;
    // The contract says eight at a time; docs/decisions/0004 has why it is three.
    assert_eq!((handoff.concurrent, handoff.prepare_ttl), (3, 5 * SECOND));
    assert_eq!((handoff.step_deadline, lease.claim_check), (2 * SECOND, 10 * SECOND));
    assert_eq!((config.ledger.keep_identities, config.rewards.catch_up_max_age), (45 * DAY, 30 * DAY));
    let ports = [gateway.listen, config.admin.listen, config.link.listen].map(|address| address.to_string());
    assert_eq!(ports, ["127.0.0.1:7777", "127.0.0.1:7778", "127.0.0.1:7779"]);
    assert_eq!(config.store.path.to_str(), Some("./tenure-data"));
    assert_eq!(config.node.roles, [Role::Gateway, Role::Room]);
}

#[test]
fn file_then_environment_then_flags() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tenure.toml");
    let text = "[room]\ntick_rate = 10\ncatch_up_ticks = 1\nrestarts = 1\n[log]\nformat = \"json\"\n";
    std::fs::write(&path, text).expect("written");
    let sources = Sources {
        file: Some(path),
        environment: vec![
            ("TENURE_ROOM__CATCH_UP_TICKS".to_owned(), "2".to_owned()),
            ("TENURE_ROOM__RESTARTS".to_owned(), "2".to_owned()),
            ("HOME".to_owned(), "/root".to_owned()),
        ],
        set: vec!["room.restarts=3".to_owned(), "room.restarts=4".to_owned(), "gateway.listen=127.0.0.1:0".to_owned()],
    };
    let config = Config::load(&sources).expect("no mistake");
    assert_eq!((config.room.tick_rate, config.room.catch_up_ticks, config.room.restarts), (10, 2, 4));
    assert_eq!(config.log.format, LogFormat::Json);
    assert_eq!(config.gateway.listen.port(), 0);
    assert_eq!(config.lease, Config::default().lease, "what no layer names keeps its default");
}
