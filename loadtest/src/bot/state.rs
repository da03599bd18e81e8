//! What a bot knows of its seat, and what each message of the server changes. No I/O here.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tenure_shared::{
    PlayerId, RoomId, Seq, Term, Tick,
    codes::ErrorCode,
    delta::View,
    limits::PROTOCOL,
    msgpack::Bounds,
    wire::{ClientMessage, Granted, Joined, ServerMessage, ServerMessages, TableRow, Wanted},
};

mod former;
pub(super) mod going;

use super::{End, inputs::Inputs, names::Names, noted::Noted, watch::Watched};
use crate::stats::{Stats, count};

/// Most grants that a bot remembers for the audit.
const GRANTS: usize = 4096;
/// Wait before a refused request is tried again when the server does not say, ms.
const RETRY_MS: u32 = 500;

/// The request that is open; a bot has one at a time.
const REQUEST: u32 = 1;

/// A seat in a room.
#[derive(Debug)]
pub(crate) struct Seat {
    room: RoomId,
    session: String,
    pub(crate) names: Arc<Names>,
    period: Duration,
    shown: (Term, Tick),
    /// Count of resumes, above the number of its last attachment.
    resumes: u32,
}

#[derive(Debug)]
pub(crate) struct State {
    wanted: (String, String, String),
    pub(crate) player: Option<PlayerId>,
    token: Option<String>,
    table: Option<(u64, Arc<Names>)>,
    pub(crate) seat: Option<Seat>,
    pub(crate) inputs: Inputs,
    /// When to move to a new connection, because the server asked for it, and to one of which addresses; none: to any gateway.
    pub(crate) moving: Option<Instant>,
    pub(crate) move_to: Vec<String>,
    pub(crate) noted: Noted,
    /// In the room on this connection.
    pub(crate) playing: bool,
    resuming: bool,
    /// It gave its former seat up by itself: what it sent there is no concern of the next one.
    anew: bool,
    opened: Instant,
    dropped: Option<Instant>,
    last_frame: Option<Instant>,
    /// The next frame is the first on this connection: its distance says nothing about ticks.
    fresh: bool,
    /// No frame has come on this connection yet.
    reconnected: bool,
    /// Term whose takeover was announced last.
    rolled_back_in: Option<Term>,
    /// One bot per room follows the state as a client would.
    view: Option<View>,
    /// Remember grants and the count of inputs, and compare frames with other bots'.
    audit: Option<Watched>,
    pub(crate) grants: Vec<Granted>,
    pub(crate) input_count: Option<u64>,
    /// Inputs that the room refused.
    pub(crate) refused: u64,
}

impl State {
    pub(crate) fn new(wanted: (String, String, String), inputs: Inputs, follow: bool, audit: Option<Watched>) -> Self {
        Self {
            wanted,
            player: None,
            token: None,
            table: None,
            seat: None,
            inputs,
            moving: None,
            move_to: Vec::new(),
            noted: Noted::default(),
            playing: false,
            resuming: false,
            anew: false,
            opened: Instant::now(),
            dropped: None,
            last_frame: None,
            fresh: true,
            reconnected: true,
            rolled_back_in: None,
            view: follow.then(View::default),
            audit,
            grants: Vec::new(),
            input_count: None,
            refused: 0,
        }
    }

    /// A connection begins: the first message.
    pub(crate) fn hello(&mut self, now: Instant) -> Vec<u8> {
        (self.opened, self.playing, self.fresh, self.moving) = (now, false, true, None);
        (self.reconnected, self.noted.moved) = (true, false);
        let table = self.table.as_ref().map(|(hash, _)| *hash);
        encoded(&ClientMessage::Hello { protocol: PROTOCOL, token: self.token.as_deref(), table })
    }

    /// A connection ended.
    pub(crate) fn closed(&mut self, now: Instant) {
        if self.playing {
            self.dropped = Some(now);
        }
        self.playing = false;
    }

    /// Takes one WebSocket message; answers go to `out`.
    pub(crate) fn receive(
        &mut self,
        bytes: &[u8],
        now: Instant,
        stats: &mut Stats,
        out: &mut Vec<u8>,
    ) -> Result<(), End> {
        stats.counters.messages += 1;
        stats.counters.bytes += bytes.len() as u64;
        for message in ServerMessages::new(bytes, &Bounds::SERVER) {
            match message {
                Ok(message) => self.message(message, now, stats, out)?,
                Err(_) => {
                    stats.counters.malformed += 1;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn message(
        &mut self,
        message: ServerMessage<'_>,
        now: Instant,
        stats: &mut Stats,
        out: &mut Vec<u8>,
    ) -> Result<(), End> {
        match message {
            ServerMessage::Frame { term, tick, ops } => {
                let differs = self.audit.as_ref().is_some_and(|others| others.differs((term, tick), ops));
                stats.counters.frames_differ += u64::from(differs);
                self.frame((term, tick), false, now, stats);
                self.follow(stats, out, |view| view.apply(ops));
            }
            ServerMessage::Quiet { term, tick } => self.frame((term, tick), true, now, stats),
            ServerMessage::Tail { applied, saved, ops } => {
                self.marks(applied, saved, now, stats);
                self.private(ops, stats);
                self.follow(stats, out, |view| view.apply(ops));
            }
            ServerMessage::Snapshot { term, tick, ops } => {
                stats.counters.snapshots += 1;
                stats.counters.snapshot_bytes += ops.len() as u64;
                self.fresh = true;
                self.frame((term, tick), true, now, stats);
                self.private(ops, stats);
                self.follow(stats, out, |view| view.snapshot(ops));
            }
            ServerMessage::Welcome(welcome) => {
                self.inputs.set_rate(welcome.rate);
                self.player = Some(welcome.player);
                self.token = welcome.token.or(self.token.take());
                self.ask_for_seat(out);
            }
            ServerMessage::Joined(joined) => self.joined(joined, now, stats)?,
            ServerMessage::Renewed { tick_rate, hash, table, .. } => {
                let names = self.names(table.as_deref(), hash)?;
                if let Some(seat) = &mut self.seat {
                    seat.period = Duration::from_secs_f64(1.0 / f64::from(tick_rate.max(1)));
                    seat.names = names;
                }
                out.extend(encoded(&ClientMessage::Table { hash }));
            }
            ServerMessage::Error { code, retry_after, .. } => return self.refused(code, retry_after, stats),
            ServerMessage::Session { session } => {
                out.extend(encoded(&ClientMessage::SessionAck { session }));
                if let Some(seat) = &mut self.seat {
                    session.clone_into(&mut seat.session);
                }
            }
            ServerMessage::Granted(granted) => {
                stats.counters.grants += 1;
                if self.audit.is_some() && self.grants.len() < GRANTS {
                    self.grants.push(granted);
                }
            }
            ServerMessage::Move { urls, after } => {
                self.moving = Some(now + Duration::from_millis(u64::from(after)));
                self.move_to = urls.into_iter().map(ToOwned::to_owned).collect();
            }
            ServerMessage::RolledBack { term, .. } => {
                stats.counters.rolled_back += 1;
                self.noted.rolled_back(term, stats);
                stats.counters.rolled_back_again += u64::from(self.rolled_back_in.replace(term) == Some(term));
            }
            ServerMessage::Refused { code, .. } => {
                stats.counters.refused += 1;
                self.refused += 1;
                count(&mut stats.refusals, code);
            }
            ServerMessage::Left { .. } => return Err(End::Left),
            ServerMessage::Message { kind, payload } => match self.seat.as_ref().map(|seat| seat.names.clone()) {
                Some(names) if names.beat == Some(kind) => self.noted.beat(payload, stats),
                Some(names) if names.books == Some(kind) => self.noted.books(payload, stats),
                _ => {}
            },
            ServerMessage::Reply { .. } | ServerMessage::Rooms { .. } | ServerMessage::Pong { .. } => {}
        }
        Ok(())
    }

    fn ask_for_seat(&mut self, out: &mut Vec<u8>) {
        self.resuming = self.seat.is_some();
        match &mut self.seat {
            Some(seat) => {
                seat.resumes = seat.resumes.saturating_add(1);
                ClientMessage::Resume {
                    id: REQUEST,
                    room: seat.room.clone(),
                    session: &seat.session,
                    shown: seat.shown,
                    first: Seq(self.inputs.first()),
                    resumes: seat.resumes,
                }
                .encode(out);
            }
            None => {
                let (kind, region, name) = &self.wanted;
                let wanted = Wanted { kind, region: Some(region), name: Some(name), filter: &[] };
                ClientMessage::JoinOrCreate { id: REQUEST, wanted, options: &[0xc0] }.encode(out);
            }
        }
    }

    /// What the numbers of this table mean.
    fn names(&mut self, table: Option<&[TableRow]>, hash: u64) -> Result<Arc<Names>, End> {
        let names = match (table, &self.table) {
            (Some(rows), _) => Arc::new(Names::new(rows).map_err(End::Fatal)?),
            (None, Some((known, names))) if *known == hash => names.clone(),
            (None, _) => return Err(End::Fatal("the server sent no name table for a hash that is not ours".into())),
        };
        self.table = Some((hash, names.clone()));
        Ok(names)
    }

    fn joined(&mut self, joined: Joined, now: Instant, stats: &mut Stats) -> Result<(), End> {
        let names = self.names(joined.table.as_deref(), joined.hash)?;
        // A numbering that starts again belongs to a new seat; one that was lost knowingly is counted already.
        if std::mem::take(&mut self.anew) {
            self.inputs.begin_anew(joined.owed.0);
            self.refused = 0;
        } else if joined.owed.0 == 1 && self.inputs.first() > 1 {
            stats.counters.seats_lost += u64::from(self.seat.is_some());
            self.inputs.restart();
            self.refused = 0;
        }
        if self.inputs.owed(joined.owed.0).is_err() {
            stats.counters.wanted_saved += 1;
            return Err(End::GaveUp("the room owes or wants numbers that were never sent or are saved".into()));
        }
        let rate = joined.tick_rate.max(1);
        stats.tick_rate = stats.tick_rate.max(rate);
        let period = Duration::from_secs_f64(1.0 / f64::from(rate));
        let (shown, counted) = self.seat.take().map_or(((Term(0), Tick(0)), 0), |seat| (seat.shown, seat.resumes));
        let resumes = counted.max(joined.generation.0);
        self.seat = Some(Seat { room: joined.room, session: joined.session, names, period, shown, resumes });
        self.playing = true;
        self.inputs.start(now);
        if self.noted.moved {
            stats.counters.moves += 1;
        } else if let Some(dropped) = self.dropped.take() {
            stats.counters.resumes += u64::from(self.resuming);
            stats.resume_time.record(now.saturating_duration_since(dropped));
        } else {
            stats.counters.joins += 1;
            stats.join_time.record(now.saturating_duration_since(self.opened));
        }
        stats.playing += 1;
        Ok(())
    }

    fn refused(&mut self, code: &str, retry_after: Option<u32>, stats: &mut Stats) -> Result<(), End> {
        stats.counters.errors += 1;
        count(&mut stats.refusals, code);
        if self.playing {
            return Ok(());
        }
        let wait = Duration::from_millis(u64::from(retry_after.unwrap_or(RETRY_MS)));
        Err(match ErrorCode::from_word(code) {
            Some(ErrorCode::UnknownKind) => {
                End::Fatal(format!("the server has no game of kind {:?}: bots play the arena demo", self.wanted.0))
            }
            Some(ErrorCode::ResumeFailed | ErrorCode::NoSuchRoom) if self.resuming => {
                stats.counters.seats_lost += 1;
                self.lose_seat();
                End::Again(wait)
            }
            Some(ErrorCode::Limit | ErrorCode::MayRetry | ErrorCode::RoomExists) => End::Again(wait),
            _ => End::GaveUp(code.to_owned()),
        })
    }

    /// A tick came; `quiet` says that ticks left out before it are not missing.
    fn frame(&mut self, this: (Term, Tick), quiet: bool, now: Instant, stats: &mut Stats) {
        let Some(seat) = &mut self.seat else { return };
        stats.counters.frames += 1;
        if this < seat.shown || (this == seat.shown && !self.fresh) {
            stats.counters.went_back += 1;
            return;
        }
        let (term, tick) = seat.shown;
        let steps = if term == this.0 { this.1.0 - tick.0 } else { 1 };
        if !self.fresh && !quiet {
            stats.counters.missed_ticks += steps.saturating_sub(1);
        }
        if let Some(last) = self.last_frame.filter(|_| stats.measuring) {
            let gap = now.saturating_duration_since(last);
            stats.pauses.record(gap);
            let (beyond, changed) = (gap.saturating_sub(seat.period), term != this.0 && term.0 > 0);
            if changed && !self.reconnected {
                stats.terms.record(gap);
                self.noted.switch(this.0, now, beyond, stats);
            }
            if self.reconnected && self.noted.moved {
                stats.moved.record(beyond);
            }
            if !self.fresh {
                let expected = seat.period.saturating_mul(u32::try_from(steps).unwrap_or(u32::MAX));
                stats.lateness.record(gap.saturating_sub(expected));
            }
        }
        stats.counters.terms_begun += u64::from(term != this.0 && term.0 > 0);
        (self.reconnected, self.noted.moved) = (false, false);
        seat.shown = this;
        self.last_frame = Some(now);
        if let Some(others) = &self.audit {
            others.heard(now);
        }
        self.fresh = false;
    }

    fn marks(&mut self, applied: Seq, saved: Seq, now: Instant, stats: &mut Stats) {
        let (latency, recent) = (&mut stats.latency, &mut stats.recent);
        let new = self.inputs.applied(applied.0.max(saved.0), now, |time| {
            latency.record(time);
            recent.record(time);
        });
        stats.counters.applied += new;
        self.inputs.saved(saved.0);
    }

    fn private(&mut self, ops: &[u8], stats: &mut Stats) {
        let Some(seat) = self.seat.as_ref().filter(|_| self.audit.is_some()) else { return };
        match seat.names.input_count(ops) {
            Ok(Some(count)) => self.input_count = Some(count),
            Ok(None) => {}
            Err(_) => stats.counters.malformed += 1,
        }
    }

    fn follow<E>(&mut self, stats: &mut Stats, out: &mut Vec<u8>, change: impl FnOnce(&mut View) -> Result<(), E>) {
        if let Some(view) = &mut self.view
            && change(view).is_err()
        {
            stats.counters.malformed += 1;
            ClientMessage::Resync.encode(out);
        }
    }
}

pub(crate) fn encoded(message: &ClientMessage<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    message.encode(&mut out);
    out
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
