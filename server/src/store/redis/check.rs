//! What is looked at when the store is opened: that it forgets nothing by itself, and how much a failover may lose.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use ::redis::{
    ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _, RedisResult, Value, aio::MultiplexedConnection,
};

use super::{
    Options,
    engine::together,
    fault::{Fault, of_login},
    link::{named, plain},
    topology::{Topology, tcp},
};

/// Most servers of a kind that are looked at.
const SERVERS: usize = 128;
/// The oldest version whose scripts, index ranges and replication are what this backend was made for.
const OLDEST: (u32, u32) = (6, 2);

/// What a look at the servers says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The store may be used.
    Fit {
        /// What the servers are, and what may be lost with them: for the log.
        summary: String,
        /// What an operator should know.
        warnings: Vec<String>,
    },
    /// It may not: the text says what to change.
    Unfit(String),
}

/// What one server says of itself; `None` where it does not let us read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Server {
    address: String,
    version: Option<String>,
    policy: Option<String>,
    cluster: Option<bool>,
    append_only: Option<bool>,
    fsync: Option<String>,
    min_replicas: Option<u64>,
}

/// Looks at all primaries, and at those replicas that can be reached: each of them may be a primary tomorrow.
pub(super) async fn look(topology: &Topology, options: &Options) -> Result<Verdict, Fault> {
    let limit = options.deadline.max(Duration::from_secs(1));
    let (primaries, replicas) = named_servers(topology, limit).await?;
    let said = |infos: Vec<ConnectionInfo>| infos.into_iter().map(|info| ask(info, limit)).collect();
    let servers = together(said(primaries)).await.into_iter().collect::<Result<Vec<_>, _>>()?;
    let replicas: Vec<Server> = together(said(replicas)).await.into_iter().filter_map(Result::ok).collect();
    let mut verdict = judge(topology, &servers, options.accept_loss);
    if let Verdict::Fit { warnings, .. } = &mut verdict {
        warnings.extend(replicas.iter().filter_map(|replica| {
            let unfit = unfit(replica, true, options.accept_loss)?;
            Some(format!("a replica is not fit to become the primary: {unfit}"))
        }));
    }
    Ok(verdict)
}

async fn ask(info: ConnectionInfo, limit: Duration) -> Result<Server, Fault> {
    let mut connection = plain(&info, limit).await?;
    server(info.addr().to_string(), &mut connection).await
}

/// Primaries and replicas.
type Servers = (Vec<ConnectionInfo>, Vec<ConnectionInfo>);

async fn named_servers(topology: &Topology, limit: Duration) -> Result<Servers, Fault> {
    match topology {
        Topology::Single(info) => Ok((vec![(**info).clone()], Vec::new())),
        Topology::Sentinel { .. } => {
            let primary = named(topology, 0, limit).await?;
            // Who cannot be asked for them has none to be looked at.
            let replicas = replicas(topology, limit).await.unwrap_or_default();
            Ok((vec![primary], replicas))
        }
        Topology::Cluster(nodes) => {
            let mut fault = Fault::Lasting("no host".to_owned());
            for node in nodes {
                match cluster(node, limit).await {
                    Ok(servers) => return Ok(servers),
                    Err(error) => fault = error,
                }
            }
            Err(fault)
        }
    }
}

/// The servers of a Cluster, as one of its nodes knows them.
async fn cluster(node: &ConnectionInfo, limit: Duration) -> Result<Servers, Fault> {
    let mut connection = plain(node, limit).await?;
    let slots: Value = ::redis::cmd("CLUSTER").arg("SLOTS").query_async(&mut connection).await?;
    let (mut found, mut replicas) = (BTreeSet::new(), BTreeSet::new());
    let Value::Array(slots) = slots else { return Err(Fault::Lasting("CLUSTER SLOTS gave no list".to_owned())) };
    for slot in slots {
        // first, last, primary (host, port, …), replicas
        let Value::Array(parts) = slot else { continue };
        for (n, server) in parts.into_iter().skip(2).enumerate() {
            let Value::Array(server) = server else { continue };
            let mut server = server.into_iter();
            if let (Some(Value::BulkString(host)), Some(Value::Int(port))) = (server.next(), server.next())
                && let Ok(port) = u16::try_from(port)
            {
                let host = if host.is_empty() { own_host(node) } else { String::from_utf8_lossy(&host).into_owned() };
                if n == 0 {
                    found.insert((host, port))
                } else {
                    replicas.insert((host, port))
                };
            }
        }
    }
    if found.is_empty() {
        return Err(Fault::Passing {
            text: "the Cluster has no slots yet".to_owned(),
            reconnect: true,
            unknown: false,
        });
    }
    let info = |(host, port): (String, u16)| node.clone().set_addr(ConnectionAddr::Tcp(host, port));
    let infos = |servers: BTreeSet<(String, u16)>| servers.into_iter().take(SERVERS).map(info).collect();
    Ok((infos(found), infos(replicas)))
}

/// The replicas that a Sentinel knows and can reach.
async fn replicas(topology: &Topology, limit: Duration) -> Result<Vec<ConnectionInfo>, Fault> {
    let Topology::Sentinel { sentinels, master, settings } = topology else { return Ok(Vec::new()) };
    for sentinel in sentinels {
        let Ok(mut connection) = plain(sentinel, limit).await else { continue };
        let mut cmd = ::redis::cmd("SENTINEL");
        let said: RedisResult<Vec<BTreeMap<String, String>>> =
            cmd.arg("replicas").arg(master).query_async(&mut connection).await;
        let Ok(said) = said else { continue };
        let mut infos = Vec::new();
        for replica in said.iter().take(SERVERS) {
            let said = |name: &str| replica.get(name).map(String::as_str).unwrap_or_default();
            if let (false, Ok(port)) = (said("flags").contains("down"), said("port").parse()) {
                let info = ConnectionAddr::Tcp(said("ip").to_owned(), port).into_connection_info()?;
                infos.push(info.set_tcp_settings(tcp()).set_redis_settings((**settings).clone()));
            }
        }
        return Ok(infos);
    }
    Ok(Vec::new())
}

fn own_host(node: &ConnectionInfo) -> String {
    if let ConnectionAddr::Tcp(host, _) = node.addr() { host.clone() } else { String::new() }
}

async fn server(address: String, connection: &mut MultiplexedConnection) -> Result<Server, Fault> {
    let info: RedisResult<String> = ::redis::cmd("INFO").query_async(connection).await;
    let info = allowed(info)?.unwrap_or_default();
    let info: BTreeMap<&str, &str> = info.lines().filter_map(|line| line.split_once(':')).collect();
    let said = |name: &str| info.get(name).map(|value| (*value).to_owned());
    let mut server = Server {
        address,
        version: said("redis_version"),
        policy: said("maxmemory_policy"),
        cluster: said("cluster_enabled").map(|on| on == "1"),
        append_only: said("aof_enabled").map(|on| on == "1"),
        ..Server::default()
    };
    server.fsync = setting(connection, "appendfsync").await?;
    // Its name before Redis 5.
    for name in ["min-replicas-to-write", "min-slaves-to-write"] {
        if server.min_replicas.is_none() {
            server.min_replicas = setting(connection, name).await?.and_then(|value| value.parse().ok());
        }
    }
    Ok(server)
}

async fn setting(connection: &mut MultiplexedConnection, name: &str) -> Result<Option<String>, Fault> {
    let pairs: RedisResult<Vec<String>> = ::redis::cmd("CONFIG").arg("GET").arg(name).query_async(connection).await;
    Ok(allowed(pairs)?.and_then(|pairs| pairs.into_iter().nth(1)))
}

/// What a server does not let us read is unknown; what passes is tried again.
fn allowed<T>(answer: RedisResult<T>) -> Result<Option<T>, Fault> {
    match answer.map_err(Fault::from) {
        Ok(value) => Ok(Some(value)),
        Err(Fault::Refused(text)) if !of_login(&text) => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// What makes a server unfit, whatever else it is.
fn unfit(server: &Server, fails_over: bool, accept_loss: bool) -> Option<String> {
    let Server { address: at, version, policy, min_replicas, .. } = server;
    let parts = version.as_deref().map(|version| version.split('.').map(str::parse::<u32>));
    if let Some((Some(Ok(major)), minor)) = parts.map(|mut parts| (parts.next(), parts.next()))
        && (major, minor.and_then(Result::ok).unwrap_or(0)) < OLDEST
    {
        let (version, (major, minor)) = (version.as_deref().unwrap_or_default(), OLDEST);
        return Some(format!("{at} has version {version}; {major}.{minor} is the oldest that will do"));
    }
    if let Some(policy) = policy.as_deref().filter(|policy| policy.starts_with("allkeys")) {
        return Some(format!(
            "{at} has maxmemory-policy {policy}: it would throw claims and rooms away when its memory is full; set noeviction"
        ));
    }
    (fails_over && *min_replicas == Some(0) && !accept_loss).then(|| {
        format!(
            "{at} has min-replicas-to-write 0: a failover can lose what it acknowledged. Set it to 1 or more, or say store.accept_loss = true"
        )
    })
}

fn judge(topology: &Topology, servers: &[Server], accept_loss: bool) -> Verdict {
    let mut warnings = Vec::new();
    for server in servers {
        let at = &server.address;
        if let Some(text) = unfit(server, topology.fails_over(), accept_loss) {
            return Verdict::Unfit(text);
        }
        if server.policy.is_none() {
            warnings.push(format!("{at} does not tell its maxmemory-policy; it must not be an allkeys one"));
        }
        if matches!(topology, Topology::Single(_)) && server.cluster == Some(true) {
            return Verdict::Unfit(format!("{at} belongs to a Cluster: name it as redis+cluster://{at}"));
        }
        match server.min_replicas {
            _ if !topology.fails_over() => {}
            Some(0) => warnings.push(format!("{at} has min-replicas-to-write 0; store.accept_loss allows it")),
            Some(_) => {}
            None => warnings.push(format!("{at} does not tell its min-replicas-to-write; it should be 1 or more")),
        }
        let durable = server.append_only == Some(true) && server.fsync.as_deref() == Some("always");
        if !durable && !topology.fails_over() {
            let (on, fsync) = (server.append_only, server.fsync.as_deref());
            let on = on.map_or("unknown", |on| if on { "yes" } else { "no" });
            let fsync = fsync.unwrap_or("unknown");
            warnings.push(format!(
                "{at} has appendonly {on} and appendfsync {fsync}: after a crash it may have forgotten what it acknowledged; only yes \
                 and always keep all of it"
            ));
        }
    }
    let versions: BTreeSet<&str> =
        servers.iter().map(|server| server.version.as_deref().unwrap_or("unknown")).collect();
    let versions = versions.into_iter().collect::<Vec<_>>().join(", ");
    let guarantee = match (topology.fails_over(), warnings.is_empty()) {
        (false, true) => "what was acknowledged is kept",
        (false, false) => "what was acknowledged may be lost in a crash",
        (true, _) => "what was acknowledged may be lost in a failover",
    };
    let summary = format!("{} primaries, version {versions}: {guarantee}", servers.len());
    Verdict::Fit { summary, warnings }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(verdict: Verdict) -> Vec<String> {
        match verdict {
            Verdict::Fit { warnings, .. } => warnings,
            Verdict::Unfit(text) => panic!("{text}"),
        }
    }

    #[test]
    fn what_a_managed_server_hides_is_a_warning_and_what_it_shows_may_be_a_refusal() {
        let single = Topology::parse("redis://h:1").expect("valid");
        let cluster = Topology::parse("redis+cluster://h:1").expect("valid");
        let hidden = [Server { address: "h:1".to_owned(), ..Server::default() }];
        assert_eq!(fit(judge(&single, &hidden, false)).len(), 2, "policy and durability");
        assert_eq!(fit(judge(&cluster, &hidden, false)).len(), 2, "policy and replicas");
        let good = Server {
            policy: Some("volatile-lru".to_owned()),
            append_only: Some(true),
            fsync: Some("always".to_owned()),
            min_replicas: Some(1),
            ..hidden[0].clone()
        };
        assert!(fit(judge(&single, std::slice::from_ref(&good), false)).is_empty());
        assert!(fit(judge(&cluster, std::slice::from_ref(&good), false)).is_empty());
        let none = [Server { min_replicas: Some(0), ..good.clone() }];
        assert!(matches!(judge(&cluster, &none, false), Verdict::Unfit(_)));
        assert_eq!(fit(judge(&cluster, &none, true)).len(), 1);
        assert!(fit(judge(&single, &none, false)).is_empty(), "one server has no failover");
        let evicts = [Server { policy: Some("allkeys-lru".to_owned()), ..good.clone() }];
        assert!(matches!(judge(&single, &evicts, true), Verdict::Unfit(_)));
        for (version, fits) in [("6.0.16", false), ("5.0", false), ("6.2.0", true), ("7", true), ("valkey", true)] {
            let server = [Server { version: Some(version.to_owned()), ..good.clone() }];
            assert_eq!(matches!(judge(&single, &server, false), Verdict::Fit { .. }), fits, "{version}");
        }
        let member = [Server { cluster: Some(true), ..good }];
        assert!(matches!(judge(&single, &member, true), Verdict::Unfit(_)));
    }
}
