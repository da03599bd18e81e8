//! Who owned which shard for which term, as a node tells on its admin port: gives a timeline of moves the names of its nodes.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::Value;
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};

use crate::admin;

/// How often a node is asked.
const EVERY: Duration = Duration::from_millis(500);
/// Time for its answer.
const ANSWER: Duration = Duration::from_secs(2);

/// What was told so far; dropped, nobody is asked any more.
#[derive(Debug)]
pub(crate) struct Owners {
    told: Arc<Mutex<Told>>,
    asking: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Told {
    /// Admin ports of those who may be asked; one after another is tried.
    nodes: Vec<SocketAddr>,
    shards: u32,
    names: BTreeMap<String, String>,
    /// (shard, term) to the name of the owner, or its life where the name is not known.
    owners: BTreeMap<(u32, u64), String>,
}

impl Told {
    fn take(&mut self, report: &Value) {
        let number = |value: &Value| value.as_u64().or_else(|| value.as_str()?.parse().ok());
        self.shards = number(&report["shards"]).and_then(|n| u32::try_from(n).ok()).unwrap_or(self.shards);
        for member in report["members"].as_array().into_iter().flatten() {
            if let (Some(life), Some(node)) = (member["incarnation"].as_str(), member["node"].as_str()) {
                self.names.insert(life.to_owned(), node.to_owned());
            }
        }
        let rows = ["owners", "moves"].map(|key| report[key].as_array().map(Vec::as_slice).unwrap_or_default());
        for row in rows.into_iter().flatten() {
            let shard = number(&row["shard"]).and_then(|n| u32::try_from(n).ok());
            let owner = row["owner"].as_str().or_else(|| row["to"].as_str());
            if let (Some(shard), Some(term), Some(life)) = (shard, number(&row["term"]), owner) {
                let name = self.names.get(life).map_or(life, String::as_str).to_owned();
                self.owners.insert((shard, term), name);
            }
        }
    }
}

impl Owners {
    /// Begins to ask.
    pub(crate) fn watch(nodes: Vec<SocketAddr>) -> Self {
        let told = Arc::new(Mutex::new(Told { nodes, ..Told::default() }));
        let asking = tokio::spawn(ask_again_and_again(told.clone()));
        Self { told, asking }
    }

    /// From now on these are asked.
    pub(crate) fn ask(&self, nodes: Vec<SocketAddr>) {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).nodes = nodes;
    }

    /// Into how many shards rooms are divided; 0 if nobody has answered.
    pub(crate) fn shards(&self) -> u32 {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).shards
    }

    /// The owner for this term, and the one before; who acquired again, on his own heels, is one owner.
    pub(crate) fn of(&self, shard: u32, term: u64) -> (Option<String>, Option<String>) {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let owner = told.owners.get(&(shard, term)).cloned();
        let mut former = told.owners.range((shard, 0)..(shard, term)).rev().map(|(_, name)| name);
        let before = former.find(|name| Some(*name) != owner.as_ref()).cloned();
        (owner, before)
    }
}

impl Drop for Owners {
    fn drop(&mut self) {
        self.asking.abort();
    }
}

async fn ask_again_and_again(told: Arc<Mutex<Told>>) {
    loop {
        let nodes = told.lock().unwrap_or_else(PoisonError::into_inner).nodes.clone();
        for node in nodes {
            if let Ok(Ok(report)) = timeout(ANSWER, admin::ask(node, "GET", "/admin/cluster")).await {
                told.lock().unwrap_or_else(PoisonError::into_inner).take(&report);
                break;
            }
        }
        sleep(EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;

    #[tokio::test]
    async fn owners_are_told_by_name_with_the_one_before() {
        let report = json!({
            "shards": 4,
            "members": [{"node": "node-1", "incarnation": "a#1"}, {"node": "node-2", "incarnation": "b#1"}],
            "owners": [{"shard": 3, "term": 20, "owner": "b#1"}, {"shard": 3, "term": 18, "owner": "b#1"}, {"shard": 2, "term": 21, "owner": null}],
            "moves": [{"shard": 3, "term": 10, "from": null, "to": "a#1"}],
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("port");
        let address = listener.local_addr().expect("address");
        // Nobody answers at the first address: the next one is asked.
        let nobody = TcpListener::bind("127.0.0.1:0").await.expect("port").local_addr().expect("address");
        let owners = Owners::watch(vec![nobody, address]);
        let (mut stream, _) = listener.accept().await.expect("asked");
        let mut asked = Vec::new();
        // To its end: bytes that were not read when a stream is closed take the answer with them.
        while !asked.ends_with(b"\r\n\r\n") {
            asked.push(stream.read_u8().await.expect("request"));
        }
        assert!(asked.starts_with(b"GET /admin/cluster HTTP/1.1\r\n"));
        let answer = format!("HTTP/1.1 200 OK\r\n\r\n{report}");
        stream.write_all(answer.as_bytes()).await.expect("answered");
        drop(stream);
        // The next question comes when the answer has been taken in.
        let _next = listener.accept().await.expect("asked again");
        assert_eq!((owners.shards(), owners.of(3, 20)), (4, (Some("node-2".into()), Some("node-1".into()))));
        assert_eq!(owners.of(2, 21), (None, None));
    }
}
