//! Rows on disk: one version byte, then MessagePack. Rows that only the rules know are defined here.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tenure_shared::{IncarnationId, Term, Tick};

use super::kv::Kv;
use crate::{
    runtime::Wall,
    store::{Applied, Claim, Error, RoomSummary, Session},
};

/// The version byte of every row written now.
const VERSION: u8 = 1;

/// A claim and what hangs on it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ClaimRow {
    pub(super) claim: Claim,
    /// Who released it, so that a release may be repeated.
    pub(super) released_by: Option<IncarnationId>,
    /// Number of the next line of the ownership history, from 1.
    pub(super) next_line: u64,
}

/// What is known of a checkpoint without reading its body.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct RoomRow {
    pub(super) summary: RoomSummary,
    pub(super) term: Term,
    pub(super) tick: Tick,
    pub(super) version: u64,
}

/// Counters of a shard.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct ShardRow {
    /// Term of the last commit.
    pub(super) term: Term,
    /// Its number in that term.
    pub(super) number: u64,
    /// What it answered.
    pub(super) positions: Vec<u64>,
    /// Last position of the outbox given out.
    pub(super) last_position: u64,
    /// Entries in the outbox now.
    pub(super) outbox: u64,
    /// Lines of completed work written so far.
    pub(super) completed: u64,
}

/// What the ledger did with a grant identity.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct GrantedRow {
    pub(super) applied: Applied,
}

/// Counters of a ledger: lines written and lines trimmed so far.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct LedgerRow {
    pub(super) lines: u64,
    pub(super) trimmed: u64,
}

/// What a source gave within one period.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct CapRow {
    pub(super) given: BTreeMap<Arc<str>, i64>,
}

/// A session and when it was last changed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SessionRow {
    pub(super) session: Session,
    pub(super) at: Wall,
}

pub(super) fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, Error> {
    let mut out = vec![VERSION];
    rmp_serde::encode::write(&mut out, value).map_err(|e| Error::Broken(format!("a row cannot be written: {e}")))?;
    Ok(out)
}

pub(super) fn decode<T: DeserializeOwned>(key: &[u8], bytes: &[u8]) -> Result<T, Error> {
    let name = || String::from_utf8_lossy(key).replace('\0', "|");
    match bytes.split_first() {
        Some((&VERSION, body)) => {
            rmp_serde::from_slice(body).map_err(|e| Error::Broken(format!("row {} is damaged: {e}", name())))
        }
        Some((version, _)) => {
            Err(Error::Broken(format!("row {} has version {version}; this build reads {VERSION}", name())))
        }
        None => Err(Error::Broken(format!("row {} is empty", name()))),
    }
}

/// The row of the store's highest time, for a backend that keeps it in a form of its own.
pub(in crate::store) fn encode_time(at: Wall) -> Result<Vec<u8>, Error> {
    encode(&at)
}

pub(super) fn get<T: DeserializeOwned>(kv: &dyn Kv, key: &[u8]) -> Result<Option<T>, Error> {
    kv.get(key)?.map(|bytes| decode(key, &bytes)).transpose()
}

pub(super) fn put<T: Serialize>(kv: &mut dyn Kv, key: &[u8], value: &T) -> Result<(), Error> {
    kv.put(key, &encode(value)?)
}

/// Decoded rows of a scan.
pub(super) fn list<T: DeserializeOwned>(
    kv: &dyn Kv,
    prefix: &[u8],
    after: Option<&[u8]>,
    limit: usize,
) -> Result<Vec<T>, Error> {
    kv.scan(prefix, after, limit)?.iter().map(|(key, bytes)| decode(key, bytes)).collect()
}
