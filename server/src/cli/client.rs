//! Asks the admin port of a running node: one plain HTTP request, with bounds in time and size.

use std::{
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use base64::Engine as _;

use super::ready_file;
use crate::{
    cli::Common,
    config::{Config, Secret},
};

/// Time for each step: connecting, sending, each read; unless the caller has another.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Largest answer, bytes.
const ANSWER_BYTES: u64 = 16 * 1024 * 1024;

/// The node could not be asked, or refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// Nobody listens there: no node runs.
    #[error("no node answers on {0}")]
    NotRunning(SocketAddr),
    /// The connection failed.
    #[error("asking {0} failed: {1}")]
    Io(SocketAddr, io::Error),
    /// What came back is no answer of an admin port.
    #[error("{0} is not an admin port: {1}")]
    Strange(SocketAddr, &'static str),
    /// The node refused.
    #[error("the node answered {status}: {text}")]
    Refused {
        /// HTTP status.
        status: u16,
        /// Its reason.
        text: String,
    },
}

/// Where the running node is and what it wants to see.
pub(super) struct Node {
    address: SocketAddr,
    token: Option<Secret>,
    timeout: Duration,
}

impl Node {
    /// From the configuration, or from the ready-file when the port was left to the system.
    pub(super) fn find(common: &Common, config: &Config) -> Result<Self, String> {
        let mut address = config.admin.listen;
        if let Some(path) = &common.ready_file {
            let content = ready_file::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
            address = content.admin.ok_or_else(|| format!("{}: no admin port in it", path.display()))?;
        } else if address.port() == 0 {
            return Err("admin.listen leaves the port to the system: name the node's --ready-file".to_owned());
        }
        if address.ip().is_unspecified() {
            address.set_ip(if address.is_ipv4() {
                [127, 0, 0, 1].into()
            } else {
                std::net::Ipv6Addr::LOCALHOST.into()
            });
        }
        Ok(Self { address, token: config.secrets.admin.clone(), timeout: TIMEOUT })
    }

    /// At an address that is known, with a time for each step.
    pub(super) fn at(address: SocketAddr, config: &Config, timeout: Duration) -> Self {
        Self { address, token: config.secrets.admin.clone(), timeout }
    }

    /// Reads a page.
    pub(super) fn get(&self, target: &str) -> Result<String, Error> {
        self.ask("GET", target)
    }

    /// Asks for a change.
    pub(super) fn post(&self, target: &str) -> Result<String, Error> {
        self.ask("POST", target)
    }

    fn ask(&self, method: &str, target: &str) -> Result<String, Error> {
        let failed = |error| Error::Io(self.address, error);
        let mut stream = TcpStream::connect_timeout(&self.address, self.timeout).map_err(|error| {
            if error.kind() == io::ErrorKind::ConnectionRefused {
                Error::NotRunning(self.address)
            } else {
                failed(error)
            }
        })?;
        stream.set_read_timeout(Some(self.timeout)).map_err(failed)?;
        stream.set_write_timeout(Some(self.timeout)).map_err(failed)?;
        let mut head = format!("{method} {target} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.address);
        if let Some(token) = &self.token {
            // As Basic, since that carries any bytes.
            let mut pair = b":".to_vec();
            pair.extend_from_slice(token.expose());
            head.push_str("Authorization: Basic ");
            base64::engine::general_purpose::STANDARD.encode_string(pair, &mut head);
            head.push_str("\r\n");
        }
        head.push_str("Content-Length: 0\r\n\r\n");
        stream.write_all(head.as_bytes()).map_err(failed)?;
        let mut answer = Vec::new();
        stream.take(ANSWER_BYTES).read_to_end(&mut answer).map_err(failed)?;
        self.read(&answer)
    }

    fn read(&self, answer: &[u8]) -> Result<String, Error> {
        let strange = |what| Error::Strange(self.address, what);
        let answer = std::str::from_utf8(answer).map_err(|_| strange("the answer is not text"))?;
        let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| strange("the answer has no end of its head"))?;
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok());
        let status: u16 = status.ok_or_else(|| strange("the answer is not HTTP"))?;
        let length = lines.find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
        });
        // The admin port always says how long an answer is; one that was cut must not pass for whole.
        if length != Some(body.len()) {
            return Err(strange("the answer is not whole"));
        }
        if (200..300).contains(&status) {
            return Ok(body.to_owned());
        }
        let reason = serde_json::from_str::<serde_json::Value>(body).ok();
        let reason = reason.as_ref().and_then(|value| value.get("error")?.as_str());
        Err(Error::Refused { status, text: reason.unwrap_or(body).to_owned() })
    }
}

/// A value for a query: everything but letters, digits and a few marks as `%XX`.
pub(super) fn encode(value: &str) -> String {
    use std::fmt::Write as _;
    value.bytes().fold(String::with_capacity(value.len()), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~' | b'/' | b':') {
            out.push(char::from(byte));
        } else {
            let written = write!(out, "%{byte:02X}");
            debug_assert!(written.is_ok(), "writing into a string does not fail");
        }
        out
    })
}
