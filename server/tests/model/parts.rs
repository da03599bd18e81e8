//! What a modelled cluster is made of: bounds, rules that are taken out of the owner, states and actions.

use super::{handing::Hand, room::Room};

/// How much may happen.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Steps of time.
    pub time: u8,
    /// Calls that fail for their caller; the command stays on its way and may be carried out at any time or never.
    pub lost: u8,
    /// Answers that stay on their way while other things happen.
    pub slow: u8,
    pub crashes: u8,
    /// Whether a crashed node comes back.
    pub restarts: bool,
    /// Nodes that are told to give their shards away, and nodes that leave at once.
    pub drains: u8,
    pub leaves: u8,
    /// Things done in the room, each one commit.
    pub works: u8,
    /// Failovers of the store to an older state.
    pub failovers: u8,
    /// How many steps the clock of the new primary is behind.
    pub behind: u8,
    /// Whether a gateway watches terms.
    pub gateway: bool,
    /// Begin with the first node as owner, instead of with nobody registered.
    pub owned: bool,
    /// For so many steps at the beginning the owner sleeps, while the other does what is due at once, but for its last calls.
    pub asleep: u8,
    /// Heartbeats are messages of their own, which may be late.
    pub beats: bool,
    /// Moves that are begun: instead of giving without a word, the first node hands its shard over.
    pub hands: u8,
    /// Begin with worlds ready at the second node for a move that failed: the answer and the word of its end got lost.
    pub forgotten: bool,
    /// Begin with worlds ready at the second node for a move that the store has carried out, of which that node read and then slept: the first
    /// one came back and took the shard over.
    pub between: bool,
    /// Messages between nodes that get lost, and such that arrive twice. How late they are has no bound.
    pub mislaid: u8,
    pub repeats: u8,
    /// Nodes that never pause, as bits: time goes on when they have done what is due and heard the answers.
    pub prompt: u8,
}

impl Bounds {
    /// Nothing happens.
    pub const NONE: Self = Self {
        time: 0,
        lost: 0,
        slow: 0,
        crashes: 0,
        restarts: false,
        drains: 0,
        leaves: 0,
        works: 0,
        failovers: 0,
        behind: 0,
        gateway: false,
        owned: false,
        asleep: 0,
        beats: false,
        hands: 0,
        forgotten: false,
        between: false,
        mislaid: 0,
        repeats: 0,
        prompt: 0,
    };
}

/// Rules of the owner that are taken out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Careless {
    /// A thaw reads the claim instead of writing it.
    pub thaw_by_read: bool,
    /// The lease is counted from the answer to the heartbeat instead of from before it was sent.
    pub counts_from_answer: bool,
    /// What a gateway says of a higher term is not heard (F8, H7).
    pub deaf: bool,
    /// A world in memory goes on whoever owned the shard in between.
    pub keeps_worlds: bool,
    /// A source whose transfer has no answer reads the claim, and thaws if it is still its own (F1).
    pub thaws_after_transfer: bool,
    /// Worlds that stand ready run whatever package the claim names (F2).
    pub any_worlds: bool,
    /// Worlds that stand ready run when the node gets the shard, though another held it since the claim named their package (F2).
    pub keeps_package: bool,
    /// Messages for a former incarnation are heard (F3).
    pub strays: bool,
    /// A target takes the claim for its own when its worlds stand ready.
    pub eager: bool,
}

/// What went wrong, as bits.
pub const OVERWRITTEN: u16 = 1;
pub const UNFENCED: u16 = 2;
pub const SHARED_TERM: u16 = 4;
pub const TERM_WENT_BACK: u16 = 8;
pub const TWO_ACT: u16 = 16;
/// Worlds ran that are older than what is stored.
pub const STALE: u16 = 32;
/// Somebody acted under a term that the store had not given it.
pub const NOT_ITS_OWN: u16 = 64;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub now: u8,
    pub rows: u32,
    /// What the replica has, once it gets no more writes.
    pub old: Option<u32>,
    pub behind: u8,
    pub nodes: Vec<Node>,
    pub flights: Vec<Flight>,
    /// Messages between nodes: to whom, and which.
    pub posts: Vec<(u8, u32)>,
    pub left: Left,
    /// Highest term that the gateway showed.
    pub shown: u64,
    /// Terms under which somebody acted.
    pub terms: Vec<u64>,
    pub wrong: u16,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Node {
    /// `None`: crashed.
    pub machine: Option<u32>,
    pub process: u8,
    pub lives: u8,
    pub acting: Option<u64>,
    pub room: Option<Room>,
    pub hand: Hand,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Left {
    pub lost: u8,
    pub slow: u8,
    pub crashes: u8,
    pub drains: u8,
    pub leaves: u8,
    pub works: u8,
    pub failovers: u8,
    pub hands: u8,
    pub mislaid: u8,
    pub repeats: u8,
}

/// A command on its way, or its answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Flight {
    pub node: u8,
    pub process: u8,
    pub what: What,
    pub command: u32,
    pub sent: u8,
    /// Somebody waits for the answer.
    pub awaited: bool,
    /// The store has answered.
    pub answer: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum What {
    /// An effect of the machine.
    Own(u32),
    /// A commit of the room.
    Commit,
}

/// Which rows a failover takes back: members and the shard live in different slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Slots {
    Members,
    Shards,
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    Advance,
    Tick(u8),
    /// The store carries a command out, and its answer arrives.
    Serve(u8),
    /// The store carries it out; the answer is on its way.
    Slow(u8),
    Answer(u8),
    /// The caller gives up waiting; the command is still on its way.
    Lose(u8),
    Crash(u8),
    Restart(u8),
    Drain(u8),
    /// Everything of the shard is stored: it is released.
    Give(u8),
    Leave(u8),
    Load(u8),
    Work(u8),
    /// A move begins.
    Hand(u8),
    /// A deadline of a move passes.
    HandTick(u8),
    /// A message of a node arrives, is lost, or arrives and will once more.
    Deliver(u8),
    Mislay(u8),
    Repeat(u8),
    /// The replica gets no more writes.
    Cut,
    Failover(Slots),
    /// The gateway gets a frame of the node.
    Show(u8),
}
