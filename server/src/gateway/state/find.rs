//! Which room: by name, any of a kind that the node finds, or a new one.

use bytes::Bytes;
use tenure_shared::{RoomId, codes::ErrorCode, wire::Wanted};

use super::{
    Effect, Machine, Phase, View,
    enter::{ANSWER, Attaching, Then, millis},
    error,
};
use crate::link::{Mode, ToNode};

/// How often another room is looked for, or another name tried.
pub(super) const TRIES: u32 = 3;
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
    pub(super) tries: u32,
}

impl Wish {
    fn fits(&self, room: &RoomId) -> bool {
        room.kind() == self.kind && room.region() == self.region
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
        if !self.may_enter(view, id, &options, out) {
            return;
        }
        let region = wanted.region.unwrap_or(&view.rules.region);
        match wanted.name {
            Some(name) => {
                let Some(room) = room_id(id, wanted.kind, region, name, out) else { return };
                // Joined first: only what creates a room counts as a create.
                self.attach(view, Attaching::new(id, room, options, Then::Create), Mode::Join, out);
            }
            None => {
                let wish = Wish { id, kind: wanted.kind.to_owned(), region: region.to_owned(), options, tries: 0 };
                // Each region is a lobby of its own: naming ever new ones must not make rooms without end.
                if region == view.rules.region || self.may_create(view, id, out) {
                    self.find(view, wish, out);
                }
            }
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
        if !self.may_enter(view, id, &options, out) {
            return;
        }
        let region = wanted.region.unwrap_or(&view.rules.region);
        match wanted.name {
            Some(name) => {
                let Some(room) = room_id(id, wanted.kind, region, name, out) else { return };
                if self.may_create(view, id, out) {
                    self.attach(view, Attaching::new(id, room, options, Then::Tell), Mode::Create, out);
                }
            }
            None => {
                let wish = Wish { id, kind: wanted.kind.to_owned(), region: region.to_owned(), options, tries: 0 };
                if self.may_create(view, id, out) {
                    self.create_some(view, wish, out);
                }
            }
        }
    }

    pub(super) fn find(&mut self, view: &View<'_>, wish: Wish, out: &mut Vec<Effect>) {
        let (kind, region) = (wish.kind.clone(), wish.region.clone());
        self.deadline = Some(view.now.plus(ANSWER));
        self.phase = Phase::Finding(wish);
        out.push(Effect::Node(ToNode::Find { gateway: view.gateway, conn: view.conn, kind, region, make: true }));
    }

    pub(super) fn found(&mut self, view: &View<'_>, room: Option<RoomId>, out: &mut Vec<Effect>) {
        let wish = match std::mem::replace(&mut self.phase, Phase::Lobby) {
            // A room of another kind is the answer to a question that was given up.
            Phase::Finding(wish) if room.as_ref().is_none_or(|room| wish.fits(room)) => wish,
            other => return self.phase = other,
        };
        match room {
            Some(room) => {
                let attaching = Attaching::new(wish.id, room, wish.options.clone(), Then::FindAnother(wish));
                self.attach(view, attaching, Mode::Join, out);
            }
            None if self.may_create(view, wish.id, out) => self.create_some(view, Wish { tries: 0, ..wish }, out),
            None => self.deadline = None,
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
        let attaching = Attaching::new(wish.id, room, wish.options.clone(), Then::AnotherName(wish));
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

fn room_id(id: u32, kind: &str, region: &str, name: &str, out: &mut Vec<Effect>) -> Option<RoomId> {
    match RoomId::from_parts(kind, region, name) {
        Ok(room) => Some(room),
        Err(fault) => {
            out.push(error(id, ErrorCode::BadPayload, &fault.to_string(), None));
            None
        }
    }
}
