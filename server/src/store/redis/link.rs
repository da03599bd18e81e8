//! One connection to the store's primary (or to a Cluster): made when it is needed, dropped when a call on it fails or gets no answer,
//! and made anew with addresses resolved again, after a pause that grows and is jittered.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ::redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _, RedisError, Value,
    aio::{ConnectionLike, MultiplexedConnection},
    cluster::ClusterClient,
    cluster_async::ClusterConnection,
};
use tokio::sync::{Mutex, Notify};

use super::{
    fault::{Fault, of_login},
    script::{Script, Words},
    topology::{Topology, tcp},
};
use crate::runtime::{Clock, Mono, Rng};

/// First pause before a connection is tried again, and the longest.
const PAUSE: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(1)];
/// Redirects and pauses that one call may make inside a Cluster; what lasts longer is tried again from outside.
const CLUSTER_RETRIES: u32 = 3;
/// Calls of one slot in a row that get no answer in time before the connection to a Cluster is taken for a dead one: one server that stands
/// still must not cost the others their connections at each call.
const STANDSTILLS: u32 = 2;
/// Most slots that are counted so.
const SLOTS: usize = 1_024;
/// From one alarm about refusals to the next.
const ALARM_EVERY: Duration = Duration::from_secs(1);

#[derive(Clone)]
enum Connection {
    One(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Connection {
    async fn send(&mut self, cmd: &Cmd) -> Result<Value, RedisError> {
        match self {
            Self::One(connection) => connection.req_packed_command(cmd).await,
            Self::Cluster(connection) => connection.req_packed_command(cmd).await,
        }
        .and_then(Value::extract_error)
    }
}

#[derive(Default)]
struct State {
    live: Option<Connection>,
    /// Counts connections, so that a late fault of an old one does not drop a new one.
    number: u64,
    failures: u32,
    not_before: Mono,
    /// The Sentinel that is asked first.
    sentinel: usize,
}

/// A connection that comes back.
pub(super) struct Link {
    topology: Arc<Topology>,
    clock: Clock,
    rng: Rng,
    /// Longest time of one call: bounds each step of connecting too.
    deadline: Duration,
    state: Mutex<State>,
    /// Slots of a Cluster whose last calls got no answer in time, and how many.
    still: parking_lot::Mutex<BTreeMap<Vec<u8>, u32>>,
    alarmed: parking_lot::Mutex<Option<Mono>>,
    /// Told of each new connection.
    connected: Arc<Notify>,
}

impl Link {
    pub(super) fn new(
        topology: Arc<Topology>,
        clock: Clock,
        rng: Rng,
        deadline: Duration,
        connected: Arc<Notify>,
    ) -> Self {
        let (still, alarmed) = (parking_lot::Mutex::default(), parking_lot::Mutex::default());
        Self { topology, clock, rng, deadline, state: Mutex::default(), still, alarmed, connected }
    }

    /// Calls a script: by its name, and with its text if the server does not know it.
    pub(super) async fn call(&self, script: &Script, words: &Words, until: Mono) -> Result<Value, Fault> {
        let answer = match self.send(&script.call(words, false), words.slot(), until).await {
            Err(Fault::NoScript) => self.send(&script.call(words, true), words.slot(), until).await,
            answer => answer,
        };
        if let Err(Fault::Refused(text)) = &answer {
            self.alarm(text);
        }
        answer
    }

    fn alarm(&self, text: &str) {
        metrics::counter!("tenure_store_refusals_total").increment(1);
        let now = self.clock.now();
        let mut alarmed = self.alarmed.lock();
        if alarmed.is_none_or(|last| now.since(last) >= ALARM_EVERY) {
            *alarmed = Some(now);
            tracing::error!(store = %self.topology, fault = text, "the store refuses what it should not");
        }
    }

    async fn send(&self, cmd: &Cmd, slot: &[u8], until: Mono) -> Result<Value, Fault> {
        let (number, mut connection) = tokio::select! {
            biased;
            connection = self.connection() => connection?,
            () = self.clock.sleep_until(until) => {
                return Err(Fault::Passing { text: "no connection within the deadline".to_owned(), reconnect: false, unknown: false });
            }
        };
        let sent = self.clock.now();
        let answer = tokio::select! {
            biased;
            answer = connection.send(cmd) => match answer {
                Err(error) if error.is_timeout() => Err(Fault::timeout(self.stands_still(slot))),
                answer => answer.map_err(Fault::from),
            },
            // One that came shortly before the deadline says nothing of the connection.
            () = self.clock.sleep_until(until) => {
                let long = self.clock.now().since(sent) >= self.deadline / 2;
                Err(Fault::timeout(long && self.stands_still(slot)))
            }
        };
        match &answer {
            Ok(_) => {
                self.still.lock().remove(slot);
            }
            Err(Fault::Passing { reconnect: true, text, .. }) => self.broken(number, text).await,
            // Another login is tried with another connection.
            Err(Fault::Refused(text)) if of_login(text) => self.broken(number, text).await,
            Err(_) => {}
        }
        answer
    }

    /// Notes that a call of this slot had no answer in time; whether the connection is to be given up for it.
    fn stands_still(&self, slot: &[u8]) -> bool {
        if !matches!(*self.topology, Topology::Cluster(_)) {
            return true;
        }
        let mut still = self.still.lock();
        if still.len() >= SLOTS && !still.contains_key(slot) {
            still.clear();
        }
        let count = still.entry(slot.to_vec()).or_default();
        *count += 1;
        let dead = *count >= STANDSTILLS;
        if dead {
            still.clear();
        }
        dead
    }

    async fn broken(&self, number: u64, text: &str) {
        let mut state = self.state.lock().await;
        if state.number == number && state.live.take().is_some() {
            metrics::counter!("tenure_store_reconnects_total").increment(1);
            tracing::warn!(store = %self.topology, fault = text, "the connection to the store is made anew");
        }
    }

    async fn connection(&self) -> Result<(u64, Connection), Fault> {
        let mut state = self.state.lock().await;
        if let Some(connection) = &state.live {
            return Ok((state.number, connection.clone()));
        }
        self.clock.sleep_until(state.not_before).await;
        // Set before the attempt: one that is given up in the middle counts as failed.
        let [first, longest] = PAUSE;
        let pause = first.saturating_mul(1 << state.failures.min(10)).min(longest);
        state.failures = state.failures.saturating_add(1);
        let jitter = Duration::from_micros(self.rng.below(u64::try_from(pause.as_micros()).unwrap_or(u64::MAX)));
        state.not_before = self.clock.now().plus(pause / 2 + jitter / 2);
        state.sentinel = state.sentinel.wrapping_add(1);
        let connection = self.connect(state.sentinel).await?;
        state.live = Some(connection.clone());
        state.number += 1;
        state.failures = 0;
        self.connected.notify_one();
        Ok((state.number, connection))
    }

    async fn connect(&self, turn: usize) -> Result<Connection, Fault> {
        match &*self.topology {
            Topology::Single(info) => {
                let mut connection = plain(info, self.deadline).await?;
                primary(&mut connection).await?;
                Ok(Connection::One(connection))
            }
            Topology::Sentinel { .. } => {
                let info = named(&self.topology, turn, self.deadline / 2).await?;
                let mut connection = plain(&info, self.deadline).await?;
                primary(&mut connection).await?;
                Ok(Connection::One(connection))
            }
            Topology::Cluster(nodes) => {
                let client = ClusterClient::builder(nodes.clone())
                    .retries(CLUSTER_RETRIES)
                    .min_retry_wait(10)
                    .max_retry_wait(100)
                    // One node that stands still must not use up the time of the call that connects to all of them.
                    .connection_timeout(self.deadline / 4)
                    .response_timeout(self.deadline)
                    .tcp_settings(tcp())
                    .build()?;
                Ok(Connection::Cluster(client.get_async_connection().await?))
            }
        }
    }
}

/// A connection to one server; its name is resolved anew.
pub(super) async fn plain(info: &ConnectionInfo, limit: Duration) -> Result<MultiplexedConnection, Fault> {
    let config = AsyncConnectionConfig::new().set_connection_timeout(Some(limit)).set_response_timeout(Some(limit));
    let client = Client::open(info.clone())?;
    Ok(client.get_multiplexed_async_connection_with_config(&config).await?)
}

/// Refuses a server that is not the primary: it would answer with what it had heard of.
async fn primary(connection: &mut MultiplexedConnection) -> Result<(), Fault> {
    let role = match connection.req_packed_command(&::redis::cmd("ROLE")).await.and_then(Value::extract_error) {
        Ok(Value::Array(role)) => role,
        // Not every managed server lets us ask. A replica refuses each call all the same.
        Ok(_) => return Ok(()),
        Err(error) => match Fault::from(error) {
            Fault::Refused(text) if !of_login(&text) => return Ok(()),
            fault => return Err(fault),
        },
    };
    match role.first() {
        Some(Value::BulkString(role)) if role != b"master" => {
            let text = "the server is a replica, not the primary".to_owned();
            Err(Fault::Passing { text, reconnect: true, unknown: false })
        }
        _ => Ok(()),
    }
}

/// Asks the Sentinels, one after another from `turn` on, which server is the primary.
pub(super) async fn named(topology: &Topology, turn: usize, limit: Duration) -> Result<ConnectionInfo, Fault> {
    let Topology::Sentinel { sentinels, master, settings } = topology else {
        return Err(Fault::Lasting("no Sentinels".to_owned()));
    };
    let mut said = format!("no Sentinel knows {master}");
    for n in 0..sentinels.len() {
        let Some(sentinel) = sentinels.get((turn.wrapping_add(n)) % sentinels.len()) else { continue };
        match ask(sentinel, master, limit).await {
            Ok(Some((host, port))) => {
                let info = ConnectionAddr::Tcp(host, port).into_connection_info()?;
                return Ok(info.set_tcp_settings(tcp()).set_redis_settings((**settings).clone()));
            }
            Ok(None) => {}
            Err(Fault::Passing { text, .. } | Fault::Refused(text) | Fault::Lasting(text)) => {
                said = format!("{}: {text}", sentinel.addr());
            }
            Err(Fault::NoScript) => {}
        }
    }
    Err(Fault::Passing { text: said, reconnect: true, unknown: false })
}

async fn ask(sentinel: &ConnectionInfo, master: &str, limit: Duration) -> Result<Option<(String, u16)>, Fault> {
    let mut connection = plain(sentinel, limit).await?;
    let mut cmd = ::redis::cmd("SENTINEL");
    cmd.arg("get-master-addr-by-name").arg(master);
    Ok(cmd.query_async(&mut connection).await?)
}
