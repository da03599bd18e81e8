//! Named bounds of the store (H11). What breaks one is refused as `Invalid`, with both numbers in the text.

use tenure_shared::limits::{JOIN_RECORD_BYTES, MAX_SAFE_INTEGER, METADATA_BYTES};

use crate::store::Error;

/// Most rows that one listing gives.
pub const LISTING: usize = 1_000;
/// Counting of overdue items stops here.
pub const OVERDUE_COUNT: usize = 10_000;
/// Longest claim key, bytes.
pub const KEY_BYTES: usize = 128;
/// Largest small state of a claim, bytes.
pub const STATE_BYTES: usize = 64 * 1024;
/// Longest name or value of an agreement, and longest text of a member about itself, bytes.
pub const TEXT_BYTES: usize = 256;
/// Most roles of a member: what it does, and the sets of daemons that its build has.
pub const ROLES: usize = 64;
/// Largest body of one room's checkpoint, bytes (default of `room.max_checkpoint`).
pub const CHECKPOINT_BYTES: usize = 1024 * 1024;
/// Checkpoint bodies of one commit, bytes; a commit of a single room may go up to [`CHECKPOINT_BYTES`].
pub use tenure_shared::limits::COMMIT_BYTES;
/// Most rooms (stored and deleted) in one batch, and in the manifest of a transfer.
pub const BATCH_ROOMS: usize = 1_024;
/// Most work items that one batch touches.
pub const BATCH_ITEMS: usize = 4_096;
/// Most grants in one batch.
pub const BATCH_GRANTS: usize = 4_096;
/// Most outbox positions trimmed by one batch.
pub const BATCH_TRIMMED: usize = 8_192;
/// Most pending or parked items of one room.
pub const ROOM_ITEMS: usize = 10_000;
/// Most entries of one shard's outbox.
pub const OUTBOX: u64 = 100_000;
/// Longest job name and longest key of an item, bytes (`schedule/` and a name; a time or a game's key).
pub const WORK_NAME_BYTES: usize = 128;
/// Largest payload of an item, bytes.
pub const WORK_PAYLOAD_BYTES: usize = 4 * 1024;
/// Longest reason of a parked item kept, bytes; a longer one is cut.
pub const REASON_BYTES: usize = 512;
/// Longest identity of a grant, bytes.
pub const GRANT_ID_BYTES: usize = 320;
/// Longest source of a grant, bytes.
pub const SOURCE_BYTES: usize = 128;
/// Longest name of a currency, bytes.
pub const CURRENCY_BYTES: usize = 48;
/// Most currencies in one grant or cap.
pub const GRANT_CURRENCIES: usize = 16;
/// Most currencies in one ledger.
pub const LEDGER_CURRENCIES: usize = 64;
/// Lines kept of one player's ledger, the newest; of older ones the identity stays as long as identities are kept.
pub const LEDGER_LINES: u64 = 1_000;
/// Largest token of a grant, bytes.
pub const TOKEN_BYTES: usize = 256;
/// Highest balance: what JavaScript holds exactly. A grant that would go above it gives what fits.
pub const BALANCE: i64 = MAX_SAFE_INTEGER as i64;
/// Highest term and store time: both must be safe integers wherever they are shown.
pub const TERM: u64 = MAX_SAFE_INTEGER - 1;
/// Metadata of a room, bytes.
pub const METADATA: usize = METADATA_BYTES;
/// Join options of a session, bytes.
pub const OPTIONS: usize = JOIN_RECORD_BYTES;
/// Longest session token, bytes.
pub const SESSION_TOKEN_BYTES: usize = 256;
/// Most sessions of one player; the one changed longest ago makes room for a new one.
pub const PLAYER_SESSIONS: usize = 32;
/// Lines kept of one key's ownership history.
pub const HISTORY: u64 = 256;
/// Lines kept of one shard's completed work.
pub const COMPLETED: u64 = 1_000;
/// Rows past their retention that one command may trim.
pub const TRIM: usize = 8;

/// Refuses what is above its bound.
pub(super) fn at_most(what: &str, value: usize, limit: usize, unit: &str) -> Result<(), Error> {
    if value > limit {
        return Err(Error::Invalid(format!("{what}: {value} {unit}; at most {limit}")));
    }
    Ok(())
}

/// Refuses a text that is empty, too long or has control characters (which separate the parts of a key).
pub(super) fn text(what: &str, value: &str, limit: usize) -> Result<(), Error> {
    if value.is_empty() {
        return Err(Error::Invalid(format!("{what} is empty")));
    }
    at_most(what, value.len(), limit, "bytes")?;
    if value.bytes().any(|c| c < b' ') {
        return Err(Error::Invalid(format!("{what} {value:?} has a control character")));
    }
    Ok(())
}
