//! A Redis Cluster: three primaries with a replica each.

use std::process::Command;

use super::{Server, until};

/// Six servers that know one another.
pub(crate) struct Cluster {
    /// The servers; the first three began as primaries.
    pub(crate) servers: Vec<Server>,
}

/// Number of hash slots.
const SLOTS: u32 = 16_384;

impl Cluster {
    /// Starts it, and waits until every server says that all slots are served.
    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    /// The same with further arguments for the servers.
    pub(crate) fn with(more: &[&str]) -> Self {
        let server = || {
            let common = [
                "--cluster-enabled",
                "yes",
                "--cluster-config-file",
                "nodes.conf",
                "--cluster-node-timeout",
                "2000",
                "--cluster-port",
                // By default the bus listens 10,000 ports higher, which a free port may not have.
                "{bus}",
                "--repl-diskless-sync-delay",
                "0",
            ];
            Server::start(&[&common, more].concat())
        };
        let servers: Vec<Server> = (0..6).map(|_| server()).collect();
        let addresses = servers.iter().map(|server| format!("127.0.0.1:{}", server.port));
        let made = Command::new("redis-cli")
            .args(["--cluster", "create"])
            .args(addresses)
            .args(["--cluster-replicas", "1", "--cluster-yes"])
            .output()
            .expect("redis-cli runs");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stdout));
        let this = Self { servers };
        for server in &this.servers {
            until("the Cluster is up", || {
                server.call(&["CLUSTER", "INFO"]).contains("cluster_state:ok")
                    && server.call(&["CLUSTER", "NODES"]).matches("slave").count() == 3
            });
        }
        for server in this.primaries() {
            until("a replica follows", || server.call(&["INFO", "replication"]).contains("state=online"));
        }
        this
    }

    /// `redis+cluster://…`
    pub(crate) fn url(&self) -> String {
        let hosts: Vec<String> = self.servers.iter().map(|server| format!("127.0.0.1:{}", server.port)).collect();
        format!("redis+cluster://{}", hosts.join(","))
    }

    /// Those that are primaries now.
    pub(crate) fn primaries(&self) -> Vec<&Server> {
        self.servers.iter().filter(|server| server.call(&["ROLE"]).contains("master\r\n")).collect()
    }

    /// The primary that has the slot of a hash.
    pub(crate) fn primary_of(&self, hash: &str) -> &Server {
        let owns = |server: &&Server| server.call(&["HLEN", hash]).starts_with(':');
        self.primaries().into_iter().find(owns).expect("one of them")
    }

    /// Forgets everything.
    pub(crate) fn flush(&self) {
        for server in self.primaries() {
            assert!(server.call(&["FLUSHALL"]).starts_with("+OK"), "flushed");
        }
    }

    /// The slot of a key.
    pub(crate) fn slot(&self, key: &str) -> u32 {
        let answer = self.servers[0].call(&["CLUSTER", "KEYSLOT", key]);
        answer.trim().trim_start_matches(':').parse().expect("a slot")
    }

    /// Moves the slot of a key to another primary, key by key, as an operator's resharding does.
    pub(crate) fn move_slot(&self, key: &str) {
        let slot = self.slot(key);
        assert!(slot < SLOTS, "a slot");
        let slot = slot.to_string();
        let id = |server: &Server| {
            let answer = server.call(&["CLUSTER", "MYID"]);
            answer.lines().nth(1).expect("an id").to_owned()
        };
        let primaries = self.primaries();
        let owner = |server: &&&Server| {
            // Where the slot is, a count of its keys is above 0.
            server.call(&["CLUSTER", "COUNTKEYSINSLOT", &slot]).trim() != ":0"
        };
        let from = *primaries.iter().find(owner).expect("an owner");
        let to = *primaries.iter().find(|server| server.port != from.port).expect("another");
        let good = |answer: String| assert!(answer.starts_with('+'), "{answer}");
        good(to.call(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &id(from)]));
        good(from.call(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &id(to)]));
        loop {
            let keys = from.call(&["CLUSTER", "GETKEYSINSLOT", &slot, "100"]);
            let keys: Vec<&str> = keys.lines().filter(|line| line.starts_with('{')).collect();
            if keys.is_empty() {
                break;
            }
            for key in keys {
                good(from.call(&["MIGRATE", "127.0.0.1", &to.port.to_string(), key, "0", "5000"]));
            }
        }
        for server in [to, from] {
            good(server.call(&["CLUSTER", "SETSLOT", &slot, "NODE", &id(to)]));
        }
    }
}
