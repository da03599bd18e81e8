//! Which room: by name, any of a kind that a node finds, or a new one.
//!
//! Nodes are asked one after another, in an order that is the same at every gateway, whether they have a free seat; then the first of
//! them for the name of a new room. One that does not answer in time is passed over.

use std::time::Duration;

use bytes::Bytes;
use tenure_shared::{Filter, RoomId, codes::ErrorCode, wire::Wanted};

use super::{
    Effect, Machine, Phase, View,
    attaching::{ANSWER, Attaching, Then},
    enter::millis,
    error,
    seek::read_filter,
};
use crate::{
    gateway::router,
    link::{Address, Mode, ToNode},
    runtime::Mono,
};

/// How often another room is looked for, or another name tried.
pub(super) const TRIES: u32 = 3;
/// Nodes that are asked for a free seat.
const NODES: usize = 8;
/// How long one of them may take.
const NODE_TIME: Duration = Duration::from_millis(500);
/// Pause before a node that is busy, or not reached yet, is asked again; and before it is looked again whether any node serves.
const PAUSE: Duration = Duration::from_millis(20);
/// Letters of a generated name: no two that look alike.
const LETTERS: &[u8; 32] = b"abcdefghjkmnpqrstuvwxyz023456789";
/// Letters in a generated name: 50 random bits.
const NAME_LETTERS: usize = 10;

/// Any room of a kind.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    pub(super) id: u32,
    pub(super) kind: String,
    pub(super) region: String,
    pub(super) options: Bytes,
    /// What its metadata must hold.
    pub(super) filter: Filter,
    /// The same for all questions to the coordinator until one of its rooms cannot be joined.
    pub(super) request: u64,
    /// The room that could not be joined, and why.
    pub(super) refused: Option<(RoomId, ErrorCode)>,
    pub(super) tries: u32,
    /// Until when the coordinator is asked.
    pub(super) until: Mono,
}

impl Wish {
    /// What a room that is made for it begins with.
    pub(super) fn metadata(&self) -> Bytes {
        if self.filter.is_empty() { Bytes::new() } else { self.filter.encode().into() }
    }

    pub(super) fn fits(&self, room: &RoomId) -> bool {
        room.kind() == self.kind && room.region() == self.region
    }
}

/// The nodes are asked for a room.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) wish: Wish,
    /// Whom to ask, in order.
    nodes: Vec<Address>,
    /// Which of them is asked now.
    at: usize,
    /// Whether for the name of a new room.
    make: bool,
    /// Number of the question that is open.
    asked: Option<u32>,
    /// When the node is passed over.
    by: Mono,
    /// When it is asked again.
    again_at: Option<Mono>,
}

impl Finding {
    pub(super) fn due(&self) -> Mono {
        self.again_at.unwrap_or(self.by)
    }
}

impl Machine {
    pub(super) fn join_or_create(
        &mut self,
        view: &View<'_>,
        id: u32,
        wanted: &Wanted<'_>,
        options: Bytes,
        out: &mut Vec<Effect>,
    ) {
        match self.target(view, id, wanted, options, out) {
            // Joined first: only what creates a room counts as a create.
            Some(Target::Room(room, options, metadata)) => {
                let attaching = Attaching { metadata, ..Attaching::new(id, room, options, Then::Create) };
                self.attach(view, attaching, Mode::Join, out);
            }
            Some(Target::Any(wish)) if view.is_coordinated(&wish.region) => self.seek_first(view, wish, out),
            Some(Target::Any(wish)) if wish.filter.is_empty() => self.find(view, wish, out),
            Some(Target::Any(wish)) => {
                let text = format!("filters need a coordinator: daemons.regions does not name {:?}", wish.region);
                out.push(error(id, ErrorCode::Refused, &text, None));
            }
            None => {}
        }
    }

    pub(super) fn create(
        &mut self,
        view: &View<'_>,
        id: u32,
        wanted: &Wanted<'_>,
        options: Bytes,
        out: &mut Vec<Effect>,
    ) {
        let Some(target) = self.target(view, id, wanted, options, out) else { return };
        if !self.may_create(view, id, out) {
            return;
        }
        match target {
            Target::Room(room, options, metadata) => {
                let attaching = Attaching { metadata, ..Attaching::new(id, room, options, Then::Tell) };
                self.attach(view, attaching, Mode::Create, out);
            }
            Target::Any(wish) => self.create_some(view, wish, out),
        }
    }

    /// What is wanted, unless the request is refused.
    fn target(
        &mut self,
        view: &View<'_>,
        id: u32,
        wanted: &Wanted<'_>,
        options: Bytes,
        out: &mut Vec<Effect>,
    ) -> Option<Target> {
        if !self.may_enter(view, id, &options, out) {
            return None;
        }
        let options = self.with_claims(options);
        let region = wanted.region.unwrap_or(&view.rules.region);
        let filter = read_filter(id, wanted.filter, out)?;
        let (kind, request) = (wanted.kind.to_owned(), view.rng.next_u64());
        let (region_of, until) = (region.to_owned(), view.now.plus(ANSWER));
        let wish = Wish { id, kind, region: region_of, options, filter, request, refused: None, tries: 0, until };
        match wanted.name {
            Some(name) => {
                let metadata = wish.metadata();
                Some(Target::Room(room_id(id, wanted.kind, region, name, out)?, wish.options, metadata))
            }
            None => Some(Target::Any(wish)),
        }
    }

    /// Asks the nodes for any room.
    pub(super) fn find(&mut self, view: &View<'_>, wish: Wish, out: &mut Vec<Effect>) {
        self.deadline = Some(view.now.plus(ANSWER));
        let (nodes, by) = (Vec::new(), view.now);
        self.ask(view, Finding { wish, nodes, at: 0, make: false, asked: None, by, again_at: None }, out);
    }

    /// Asks the node whose turn it is.
    fn ask(&mut self, view: &View<'_>, mut finding: Finding, out: &mut Vec<Effect>) {
        let Wish { kind, region, .. } = &finding.wish;
        if finding.nodes.is_empty() {
            finding.nodes = router::order(view.directory.nodes(), kind, region);
            finding.nodes.truncate(NODES);
            finding.make = finding.nodes.len() == 1;
        }
        match finding.nodes.get(finding.at).cloned() {
            Some(to) => {
                self.attempt = self.attempt.wrapping_add(1);
                let (attempt, make, kind, region) = (self.attempt, finding.make, kind.clone(), region.clone());
                let (gateway, conn) = (view.gateway, view.conn);
                out.push(Effect::Find { to, find: ToNode::Find { gateway, conn, attempt, kind, region, make } });
                finding.asked = Some(attempt);
                // Asked again, a node has what is left of its time.
                if finding.again_at.take().is_none() {
                    finding.by = view.now.plus(NODE_TIME);
                }
            }
            // No node serves: one may come.
            None => finding.again_at = Some(view.now.plus(PAUSE)),
        }
        self.phase = Phase::Finding(Box::new(finding));
    }

    /// The node whose turn it was has no room, or no answer.
    fn ask_next(&mut self, view: &View<'_>, mut finding: Finding, out: &mut Vec<Effect>) {
        finding.again_at = None;
        finding.at += 1;
        if finding.make {
            // Nobody names a new room: its name is made here.
            if self.may_create(view, finding.wish.id, out) {
                self.create_some(view, Wish { tries: 0, ..finding.wish }, out);
            } else {
                self.deadline = None;
            }
            return;
        }
        if finding.at == finding.nodes.len() {
            (finding.at, finding.make) = (0, true);
        }
        self.ask(view, finding, out);
    }

    /// The time of the node, or of the pause, is over.
    pub(super) fn find_on(&mut self, view: &View<'_>, mut finding: Finding, out: &mut Vec<Effect>) {
        if finding.nodes.is_empty() {
            finding.again_at = None;
            self.ask(view, finding, out);
        } else if view.now >= finding.by {
            self.ask_next(view, finding, out);
        } else {
            self.ask(view, finding, out);
        }
    }

    pub(super) fn found(
        &mut self,
        view: &View<'_>,
        attempt: u32,
        (room, new): (Option<RoomId>, bool),
        out: &mut Vec<Effect>,
    ) {
        let finding = match std::mem::replace(&mut self.phase, Phase::Lobby) {
            Phase::Finding(finding) if finding.asked == Some(attempt) => *finding,
            // The answer to a question that was given up.
            other => return self.phase = other,
        };
        let Some(room) = room.filter(|room| finding.wish.fits(room)) else {
            return self.ask_next(view, finding, out);
        };
        let wish = finding.wish;
        let (id, options) = (wish.id, wish.options.clone());
        if new && !self.may_create(view, id, out) {
            self.deadline = None;
            return;
        }
        let mode = if new { Mode::JoinOrCreate } else { Mode::Join };
        self.attach(view, Attaching::new(id, room, options, Then::FindAnother(wish)), mode, out);
    }

    /// The node did not take the question of this number: its queue is full, or it is not reached.
    pub(in crate::gateway) fn not_asked(&mut self, view: &View<'_>, attempt: u32) {
        self.question_not_asked(view, attempt);
        if let Phase::Finding(finding) = &mut self.phase
            && finding.asked == Some(attempt)
        {
            finding.asked = None;
            finding.again_at = Some(view.now.plus(PAUSE).min(finding.by));
        }
    }

    pub(super) fn create_some(&mut self, view: &View<'_>, wish: Wish, out: &mut Vec<Effect>) {
        let mut bits = view.rng.next_u64();
        let name: String = std::iter::repeat_with(|| {
            let letter = LETTERS[(bits % 32) as usize];
            bits /= 32;
            char::from(letter)
        })
        .take(NAME_LETTERS)
        .collect();
        let Some(room) = room_id(wish.id, &wish.kind, &wish.region, &name, out) else {
            self.deadline = None;
            return;
        };
        let (id, options, metadata) = (wish.id, wish.options.clone(), wish.metadata());
        let attaching = Attaching { metadata, ..Attaching::new(id, room, options, Then::AnotherName(wish)) };
        self.attach(view, attaching, Mode::Create, out);
    }

    pub(super) fn may_create(&mut self, view: &View<'_>, id: u32, out: &mut Vec<Effect>) -> bool {
        let Some(known) = &self.known else { return false };
        match view.creates.take(&known.player, view.now) {
            Ok(()) => true,
            Err(wait) => {
                out.push(error(id, ErrorCode::Limit, "too many rooms created in a minute", Some(millis(wait))));
                false
            }
        }
    }
}

/// What a request for a room wants.
enum Target {
    /// This one, with these options; made, with this metadata.
    Room(RoomId, Bytes, Bytes),
    /// Any of a kind, or a new one.
    Any(Wish),
}

fn room_id(id: u32, kind: &str, region: &str, name: &str, out: &mut Vec<Effect>) -> Option<RoomId> {
    match RoomId::from_parts(kind, region, name) {
        Ok(room) => Some(room),
        Err(fault) => {
            out.push(error(id, ErrorCode::BadPayload, &fault.to_string(), None));
            None
        }
    }
}
