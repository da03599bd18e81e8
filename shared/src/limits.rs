//! Named bounds of the wire that both sides know (H11 in docs/invariants.md). Everything configurable has its default here.

/// Version of the client protocol, sent in `hello`.
pub const PROTOCOL: u32 = 1;
/// Longest room id, bytes.
pub const ROOM_ID_BYTES: usize = 64;
/// Longest player id, bytes.
pub const PLAYER_ID_BYTES: usize = 64;
/// Largest integer that JavaScript holds exactly; every id on the wire stays at or below it.
pub const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;
/// Largest client message after login, bytes (default).
pub const CLIENT_MESSAGE_BYTES: usize = 4 * 1024;
/// Largest client message before login, bytes (default).
pub const LOGIN_MESSAGE_BYTES: usize = 1024;
/// Deepest nesting of MessagePack that is read from a client.
pub const NESTING_DEPTH: usize = 16;
/// Longest array or map that is read from a client, elements.
pub const COLLECTION_LENGTH: usize = 1024;
/// Unsaved inputs kept per seat, count (default).
pub const UNSAVED_INPUTS: usize = 512;
/// Unsaved inputs kept per seat, bytes (default).
pub const UNSAVED_INPUT_BYTES: usize = 32 * 1024;
/// Most ticks per second of a room.
pub const TICK_RATE: u32 = 120;
/// Checkpoints of several rooms in one commit to the store, bytes: Redis does nothing else while it takes them.
pub const COMMIT_BYTES: usize = 256 * 1024;
/// Metadata of a room, bytes.
pub const METADATA_BYTES: usize = 1024;
/// Keys of a filter.
pub const FILTER_KEYS: usize = 8;
/// Text that a filter compares, bytes.
pub const FILTER_TEXT_BYTES: usize = 64;
/// Rooms of one page of a list.
pub const LIST_ROOMS: usize = 50;
/// Join options, bytes.
pub const JOIN_OPTIONS_BYTES: usize = 1024;
/// Bytes of a login token's claims, as MessagePack, beside those that every token has.
pub const CLAIMS_BYTES: usize = 1024;
/// Join options and the claims behind them, as links and session records carry them.
pub const JOIN_RECORD_BYTES: usize = JOIN_OPTIONS_BYTES + CLAIMS_BYTES;
/// Longest name of a component, resource, message, request, job or timer, bytes.
pub const NAME_BYTES: usize = 48;
/// Most names in one table (components, resources, messages and requests together).
pub const TABLE_NAMES: usize = 512;
/// Longest text of an error or close reason, bytes (a close frame holds 123).
pub const REASON_BYTES: usize = 120;
