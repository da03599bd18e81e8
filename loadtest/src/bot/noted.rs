//! What a bot notes of its room beside the game: changes of the owner, and the beat of a local timer.

use std::time::{Duration, Instant};

use tenure_shared::{
    Term,
    msgpack::{Bounds, Error, Reader},
};

use crate::stats::{Stats, Switch};

/// Most changes of owners that one thread of bots keeps; further ones are counted.
const SWITCHES: usize = 200_000;

/// What a room has paid, by its own count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Books {
    /// Occurrences of schedules, and the sum of the instants at which they were due, ms.
    pub(crate) occurrences: u64,
    pub(crate) due: u64,
    /// Due work of its game, and the sum of its numbers.
    pub(crate) works: u64,
    pub(crate) numbers: u64,
}

/// What was seen so far.
#[derive(Debug, Default)]
pub(crate) struct Noted {
    /// Number of the bot's room.
    pub(crate) room: u32,
    /// This connection took the place of another at the server's wish, and no frame has come on it yet.
    pub(crate) moved: bool,
    /// Number of the last beat; none after a rollback, which repeats beats rightly.
    beat: Option<u64>,
    /// Beats at a wrong tick that the room itself has found.
    wrong: u64,
    /// As the room said last.
    pub(crate) books: Option<Books>,
}

impl Noted {
    /// The first frame of another owner: `beyond` is how much later than a tick after the last frame.
    pub(crate) fn switch(&mut self, term: Term, at: Instant, beyond: Duration, stats: &mut Stats) {
        if stats.switches.len() < SWITCHES {
            stats.switches.push(Switch { room: self.room, term: term.0, at, beyond });
        } else {
            stats.counters.switches_left_out += 1;
        }
    }

    /// A takeover was announced: what was shown since the checkpoint is shown again.
    pub(crate) fn rolled_back(&mut self, term: Term, stats: &mut Stats) {
        self.beat = None;
        if stats.rollbacks.len() < SWITCHES {
            stats.rollbacks.insert((self.room, term.0));
        }
    }

    /// The seat was given up: what the room does until the next one is not seen.
    pub(crate) fn left(&mut self) {
        self.beat = None;
    }

    /// The room's books: four numbers.
    pub(crate) fn books(&mut self, payload: &[u8], stats: &mut Stats) {
        let mut reader = Reader::new(payload);
        let mut read = || {
            reader.array(&Bounds::SERVER)?;
            let (occurrences, due) = (reader.u53()?, reader.u53()?);
            Ok::<_, Error>(Books { occurrences, due, works: reader.u53()?, numbers: reader.u53()? })
        };
        match read() {
            Ok(books) => self.books = Some(books),
            Err(_) => stats.counters.malformed += 1,
        }
    }

    /// The room's timer has fired: `[count, wrong]`.
    pub(crate) fn beat(&mut self, payload: &[u8], stats: &mut Stats) {
        let mut reader = Reader::new(payload);
        let read = reader.array(&Bounds::SERVER).and_then(|_| Ok((reader.u53()?, reader.u53()?)));
        let Ok((count, wrong)) = read else {
            stats.counters.malformed += 1;
            return;
        };
        stats.counters.beats += 1;
        if let Some(last) = self.beat {
            stats.counters.beats_again += u64::from(count <= last);
            stats.counters.beats_unseen += count.saturating_sub(last + 1);
        }
        stats.counters.beats_wrong += wrong.saturating_sub(self.wrong);
        (self.beat, self.wrong) = (Some(count), wrong);
    }
}

#[cfg(test)]
mod tests {
    use tenure_shared::msgpack::{array_head, uint};

    use super::*;

    fn beat(count: u64, wrong: u64) -> Vec<u8> {
        let mut out = Vec::new();
        array_head(&mut out, 2);
        uint(&mut out, count);
        uint(&mut out, wrong);
        out
    }

    #[test]
    fn a_beat_that_comes_again_is_a_double_fire_unless_a_rollback_was_announced() {
        let (mut noted, mut stats) = (Noted::default(), Stats::default());
        for count in [4, 5, 5, 6, 9] {
            noted.beat(&beat(count, 0), &mut stats);
        }
        assert_eq!((stats.counters.beats, stats.counters.beats_again, stats.counters.beats_unseen), (5, 1, 2));
        noted.rolled_back(Term(7), &mut stats);
        noted.beat(&beat(8, 1), &mut stats);
        assert_eq!((stats.counters.beats_again, stats.counters.beats_wrong), (1, 1));
        assert!(stats.rollbacks.contains(&(0, 7)));
        noted.beat(&[0xc1], &mut stats);
        assert_eq!(stats.counters.malformed, 1);
    }
}
