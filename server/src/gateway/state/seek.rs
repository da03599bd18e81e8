//! What the coordinator of a region is asked: any room of a kind, and pages of its list of rooms.
//!
//! It is asked through any node, which waits while the coordinator moves. A node that does not answer in time is passed over for another;
//! that is safe, since a player who asks twice is given the same room. Whatever happens the client has an answer when the time for asking
//! is over, and that of one attach behind it: no room is asked for any more then.

use std::time::Duration;

use bytes::Bytes;
use tenure_shared::{
    Filter, PlayerId, RoomId,
    codes::ErrorCode,
    limits,
    msgpack::{self, Bounds},
    wire::{ListedRoom, ServerMessage},
};

use super::{
    Effect, Machine, Phase, View,
    attaching::{ANSWER, Attaching, Then},
    enter::{RETRY_MS, millis},
    error,
    find::Wish,
};
use crate::{
    gateway::{conn::encode, rate::Gcra, router},
    link::{
        Mode, ToNode,
        lobby::{self, Answer, Listed, Question, Seek},
    },
    runtime::Mono,
};

/// How long a node may wait for the coordinator, and how much longer its answer may take.
const NODE_TIME: Duration = Duration::from_secs(1);
const NODE_GRACE: Duration = Duration::from_millis(250);
/// Rooms that turn out to be full or gone, one after another, before the client is told to try again.
const SEEKS: u32 = 6;
/// Lists of rooms that a client may ask for, per second and at once.
const LISTS: (u64, u64) = (2, 5);
/// Rooms that it may have looked for: each is a question to the one coordinator of all gateways.
const WISHES: (u64, u64) = (4, 10);

/// A question on its way.
#[derive(Debug)]
struct Asking {
    /// How often it was asked.
    turn: u32,
    /// Number of the question that is open.
    asked: Option<u32>,
    /// When the node that is asked is passed over.
    by: Mono,
    /// When it is asked again.
    again_at: Option<Mono>,
}

impl Asking {
    fn new(now: Mono) -> Self {
        Self { turn: 0, asked: None, by: now, again_at: None }
    }

    fn due(&self) -> Mono {
        self.again_at.unwrap_or(self.by)
    }

    /// There was no answer, or none that says anything: after a pause, which grows.
    fn again(&mut self, view: &View<'_>) {
        self.asked = None;
        self.again_at = Some(view.now.plus(router::pause(self.turn, view.rng)));
    }
}

/// The coordinator is asked for a room.
#[derive(Debug)]
pub(super) struct Seeking {
    pub(super) wish: Wish,
    asking: Asking,
}

impl Seeking {
    pub(super) fn due(&self) -> Mono {
        self.asking.due()
    }
}

/// A list of rooms that the client waits for.
#[derive(Debug)]
pub(super) struct Listing {
    id: u32,
    region: String,
    question: Question,
    asking: Asking,
    until: Mono,
}

impl Listing {
    pub(super) fn due(&self) -> Mono {
        self.asking.due().min(self.until)
    }
}

/// A page of the list of rooms, as a client asks for it.
pub(super) struct ListWish<'a> {
    pub(super) kind: Option<&'a str>,
    pub(super) region: Option<&'a str>,
    pub(super) filter: &'a [u8],
    pub(super) open: bool,
    pub(super) after: Option<RoomId>,
    pub(super) limit: u32,
}

/// How often a client may ask for lists.
pub(super) fn list_rate() -> Gcra {
    let (per_second, at_once) = LISTS;
    Gcra::new(Duration::from_secs(1), per_second, at_once)
}

/// How often a client may have a room looked for.
pub(super) fn wish_rate() -> Gcra {
    let (per_second, at_once) = WISHES;
    Gcra::new(Duration::from_secs(1), per_second, at_once)
}

/// A filter of a client, or the error that it gets.
pub(super) fn read_filter(id: u32, filter: &[u8], out: &mut Vec<Effect>) -> Option<Filter> {
    if filter.is_empty() {
        return Some(Filter::default());
    }
    let read = Filter::read(filter);
    read.inspect_err(|fault| out.push(error(id, ErrorCode::BadPayload, &format!("filter: {fault}"), None))).ok()
}

impl View<'_> {
    /// Whether the region has a coordinator.
    pub(super) fn is_coordinated(&self, region: &str) -> bool {
        self.rules.coordinated.iter().any(|known| known == region)
    }
}

impl Wish {
    fn question(&self, player: PlayerId) -> Question {
        let refused = self.refused.clone().map(|(room, code)| (room, code.as_str().to_owned()));
        let (kind, filter, request) = (self.kind.clone(), self.filter.clone(), self.request);
        Question::Seek(Seek { player, kind, filter, request, refused })
    }
}

impl Machine {
    /// Asks the coordinator for a room, if the client does not ask too often.
    pub(super) fn seek_first(&mut self, view: &View<'_>, wish: Wish, out: &mut Vec<Effect>) {
        match self.wishes.take(view.now, 1) {
            Ok(()) => self.seek(view, wish, out),
            Err(wait) => out.push(error(wish.id, ErrorCode::Limit, "too many requests for a room", Some(millis(wait)))),
        }
    }

    /// Asks the coordinator for a room.
    fn seek(&mut self, view: &View<'_>, wish: Wish, out: &mut Vec<Effect>) {
        self.deadline = Some(wish.until);
        self.seek_on(view, Seeking { wish, asking: Asking::new(view.now) }, out);
    }

    /// The time of a node, or of a pause, is over.
    pub(super) fn seek_on(&mut self, view: &View<'_>, mut seeking: Seeking, out: &mut Vec<Effect>) {
        let Some(known) = &self.known else { return };
        let question = seeking.wish.question(known.player.clone());
        let until = self.deadline.unwrap_or(view.now);
        self.question(view, (&seeking.wish.region, &question), &mut seeking.asking, until, out);
        self.phase = Phase::Seeking(Box::new(seeking));
    }

    /// Puts a question to the node whose turn it is.
    fn question(
        &mut self,
        view: &View<'_>,
        (region, question): (&str, &Question),
        asking: &mut Asking,
        until: Mono,
        out: &mut Vec<Effect>,
    ) {
        let nodes = router::order(view.directory.nodes(), "", region);
        let first = (view.conn.0 % nodes.len().max(1) as u64) as usize;
        let node = nodes.get(first.wrapping_add(asking.turn as usize) % nodes.len().max(1)).cloned();
        asking.turn = asking.turn.saturating_add(1);
        let (Some(to), Ok(question)) = (node, lobby::encode(question)) else {
            // No node serves: one may come.
            return asking.again(view);
        };
        self.attempt = self.attempt.wrapping_add(1);
        (asking.asked, asking.again_at) = (Some(self.attempt), None);
        asking.by = view.now.plus(NODE_TIME + NODE_GRACE);
        let find = ToNode::Ask {
            gateway: view.gateway,
            conn: view.conn,
            attempt: self.attempt,
            region: region.to_owned(),
            within: millis(NODE_TIME.min(until.since(view.now))),
            question,
        };
        out.push(Effect::Find { to, find });
    }

    /// A node has the coordinator's answer to the question of this number, or none.
    pub(super) fn answered(&mut self, view: &View<'_>, attempt: u32, answer: Option<&Bytes>, out: &mut Vec<Effect>) {
        let answer = answer.and_then(|answer| lobby::decode::<Answer>(answer).ok());
        if let Some(listing) = self.listing.take_if(|listing| listing.asking.asked == Some(attempt)) {
            return self.listed(view, listing, answer, out);
        }
        let mut seeking = match std::mem::replace(&mut self.phase, Phase::Lobby) {
            Phase::Seeking(seeking) if seeking.asking.asked == Some(attempt) => *seeking,
            // The answer to a question that was given up.
            other => return self.phase = other,
        };
        let wish = &seeking.wish;
        match answer {
            Some(Answer::Room { room, make, new, metadata }) if wish.fits(&room) => {
                if new && !self.may_create(view, wish.id, out) {
                    self.deadline = None;
                    return;
                }
                let (id, options) = (wish.id, wish.options.clone());
                // Named for another, it is joined first: only whoever makes it creates a room.
                let (mode, then) = match (make, new) {
                    (_, true) => (Mode::JoinOrCreate, Then::SeekAnother(seeking.wish)),
                    (true, false) => (Mode::Join, Then::MakeOrSeek(seeking.wish)),
                    (false, false) => (Mode::Join, Then::SeekAnother(seeking.wish)),
                };
                self.attach(view, Attaching { metadata, ..Attaching::new(id, room, options, then) }, mode, out);
            }
            Some(Answer::Refused { code, message }) => {
                self.deadline = None;
                let code = ErrorCode::from_word(&code).unwrap_or(ErrorCode::MayRetry);
                out.push(error(wish.id, code, &message, None));
            }
            Some(Answer::Nobody) if wish.filter.is_empty() => self.find(view, seeking.wish, out),
            Some(Answer::Nobody) => {
                self.deadline = None;
                out.push(error(wish.id, ErrorCode::MayRetry, "the coordinator is stopped", Some(RETRY_MS)));
            }
            Some(Answer::Room { .. } | Answer::Rooms { .. }) | None => {
                seeking.asking.again(view);
                self.phase = Phase::Seeking(Box::new(seeking));
            }
        }
    }

    /// The room that was the answer cannot be joined: another one is asked for.
    pub(super) fn seek_another(
        &mut self,
        view: &View<'_>,
        wish: Wish,
        (room, code): (RoomId, ErrorCode),
        out: &mut Vec<Effect>,
    ) {
        let (id, tries) = (wish.id, wish.tries + 1);
        if tries >= SEEKS || view.now >= wish.until {
            return out.push(error(
                id,
                ErrorCode::MayRetry,
                "rooms fill up faster than they are found",
                Some(RETRY_MS),
            ));
        }
        // Another request: the name of a new room is another one too.
        let request = view.rng.next_u64();
        self.seek(view, Wish { tries, request, refused: Some((room, code)), ..wish }, out);
    }

    /// The client wants to know which rooms there are.
    pub(super) fn list(&mut self, view: &View<'_>, id: u32, wish: ListWish<'_>, out: &mut Vec<Effect>) {
        if self.check_login(view, out).is_none() {
            return;
        }
        if self.listing.is_some() {
            return Self::bad_state(id, "another list is open on this socket", out);
        }
        if let Err(wait) = self.lists.take(view.now, 1) {
            return out.push(error(id, ErrorCode::Limit, "too many lists of rooms", Some(millis(wait))));
        }
        let region = wish.region.unwrap_or(&view.rules.region).to_owned();
        if !view.is_coordinated(&region) {
            let text =
                format!("rooms are listed where there is a coordinator: daemons.regions does not name {region:?}");
            return out.push(error(id, ErrorCode::Refused, &text, None));
        }
        let Some(filter) = read_filter(id, wish.filter, out) else { return };
        let question = Question::Rooms {
            kind: wish.kind.map(str::to_owned),
            filter,
            open: wish.open,
            after: wish.after,
            limit: (wish.limit as usize).clamp(1, limits::LIST_ROOMS),
        };
        let until = view.now.plus(ANSWER);
        self.list_on(view, Listing { id, region, question, asking: Asking::new(view.now), until }, out);
    }

    /// Asks for the list, for the first time or again.
    pub(super) fn list_on(&mut self, view: &View<'_>, mut listing: Listing, out: &mut Vec<Effect>) {
        if view.now >= listing.until {
            return out.push(error(listing.id, ErrorCode::MayRetry, "no answer in time", Some(RETRY_MS)));
        }
        let until = listing.until;
        self.question(view, (&listing.region, &listing.question), &mut listing.asking, until, out);
        self.listing = Some(listing);
    }

    fn listed(&mut self, view: &View<'_>, mut listing: Listing, answer: Option<Answer>, out: &mut Vec<Effect>) {
        match answer {
            Some(Answer::Rooms { rooms, next }) => {
                let rooms = rooms.iter().take(limits::LIST_ROOMS).map(shown).collect();
                out.push(Effect::Send(encode(&ServerMessage::Rooms { id: listing.id, rooms, next })));
            }
            Some(Answer::Refused { code, message }) => {
                let code = ErrorCode::from_word(&code).unwrap_or(ErrorCode::MayRetry);
                out.push(error(listing.id, code, &message, None));
            }
            Some(Answer::Nobody) => {
                out.push(error(listing.id, ErrorCode::MayRetry, "the coordinator is stopped", Some(RETRY_MS)));
            }
            Some(Answer::Room { .. }) | None => {
                listing.asking.again(view);
                self.listing = Some(listing);
            }
        }
    }

    /// No node took the question of this number: its queue is full, or it is not reached.
    pub(super) fn question_not_asked(&mut self, view: &View<'_>, attempt: u32) {
        let seeking = match &mut self.phase {
            Phase::Seeking(seeking) => Some(&mut seeking.asking),
            _ => None,
        };
        let listing = self.listing.as_mut().map(|listing| &mut listing.asking);
        for asking in seeking.into_iter().chain(listing).filter(|asking| asking.asked == Some(attempt)) {
            asking.again(view);
        }
    }
}

/// What a client sees of a room. Metadata that is no MessagePack (of an earlier build) is left out.
fn shown(room: &Listed) -> ListedRoom<'_> {
    let readable = msgpack::check(&room.metadata, &Bounds::CLIENT).is_ok();
    ListedRoom {
        room: room.room.clone(),
        seats: room.seats,
        max_seats: room.max_seats,
        locked: room.locked,
        metadata: if readable { &room.metadata } else { &[0xc0] },
    }
}
