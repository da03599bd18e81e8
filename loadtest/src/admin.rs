//! The admin port of a node on loopback: one request, one connection, JSON.

use std::{net::SocketAddr, time::Duration};

use anyhow::Context as _;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

/// Time for an answer.
const ANSWER: Duration = Duration::from_secs(8);
/// Most bytes of an answer that are read.
const BYTES: u64 = 4 * 1024 * 1024;

/// Asks for a page (`GET`), or for a change (`POST`).
///
/// # Errors
/// No answer in time, one that is no JSON, or a refusal: the text has its reason.
pub(crate) async fn ask(node: SocketAddr, method: &str, path: &str) -> anyhow::Result<Value> {
    timeout(ANSWER, exchange(node, method, path)).await.with_context(|| format!("{node} gives no answer to {path}"))?
}

async fn exchange(node: SocketAddr, method: &str, path: &str) -> anyhow::Result<Value> {
    let mut stream = TcpStream::connect(node).await?;
    let request = format!("{method} {path} HTTP/1.1\r\nHost: {node}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(BYTES).read_to_end(&mut answer).await?;
    let text = String::from_utf8(answer)?;
    let (head, body) = text.split_once("\r\n\r\n").context("no HTTP")?;
    anyhow::ensure!(head.starts_with("HTTP/1.1 200"), "{path}: {body}");
    Ok(serde_json::from_str(body)?)
}
