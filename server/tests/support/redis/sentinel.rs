//! A primary with two replicas, watched by three Sentinels.

use super::{Server, until};

/// The name by which the Sentinels know the primary.
pub(crate) const NAME: &str = "m1";

/// Six processes.
pub(crate) struct Sentinels {
    /// The servers; the first one began as the primary.
    pub(crate) servers: Vec<Server>,
    sentinels: Vec<Server>,
}

impl Sentinels {
    /// Starts them with further arguments for the servers, and waits until each knows the others.
    pub(crate) fn start(args: &[&str]) -> Self {
        let quick = ["--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"];
        let with = |more: &[&str]| Server::start(&[&quick, args, more].concat());
        let primary = with(&[]);
        let port = primary.port.to_string();
        let replica = || with(&["--replicaof", "127.0.0.1", &port]);
        let servers = vec![primary, replica(), replica()];
        until("both replicas follow", || {
            servers[0].call(&["INFO", "replication"]).matches("state=online").count() == 2
        });
        let config = format!(
            "bind 127.0.0.1\nsentinel monitor {NAME} 127.0.0.1 {port} 2\nsentinel down-after-milliseconds {NAME} 500\n\
             sentinel failover-timeout {NAME} 3000\n"
        );
        let sentinels: Vec<Server> = (0..3).map(|_| Server::sentinel(&config)).collect();
        let this = Self { servers, sentinels };
        for sentinel in &this.sentinels {
            until("the Sentinels know one another", || {
                let master = sentinel.call(&["INFO", "sentinel"]);
                master.contains("slaves=2") && master.contains("sentinels=3") && master.contains("status=ok")
            });
        }
        this
    }

    /// `redis+sentinel://…`
    pub(crate) fn url(&self) -> String {
        let hosts: Vec<String> = self.sentinels.iter().map(|sentinel| format!("127.0.0.1:{}", sentinel.port)).collect();
        format!("redis+sentinel://{}/{NAME}", hosts.join(","))
    }

    /// Where the Sentinels say that the primary is.
    pub(crate) fn named(&self) -> u16 {
        let answer = self.sentinels[0].call(&["SENTINEL", "get-master-addr-by-name", NAME]);
        answer.lines().last().and_then(|port| port.parse().ok()).expect("a port")
    }

    /// The server at this port.
    pub(crate) fn at(&self, port: u16) -> &Server {
        self.servers.iter().find(|server| server.port == port).expect("one of ours")
    }

    /// Waits until another server than the one at `port` is the primary, for all that the Sentinels say and for itself.
    pub(crate) fn failed_over(&self, port: u16) -> u16 {
        until("a failover", || {
            let now = self.named();
            now != port && self.at(now).call(&["ROLE"]).contains("master\r\n")
        });
        self.named()
    }

    /// Asks for a failover while the primary lives: it becomes a replica with its port open.
    pub(crate) fn fail_over(&self) {
        until("the Sentinel begins a failover", || {
            self.sentinels[0].call(&["SENTINEL", "FAILOVER", NAME]).starts_with("+OK")
        });
    }
}
