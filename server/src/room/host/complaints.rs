//! What game code did wrong, for the log, pure. A client may cause it at will, so a room speaks at once and then rarely, with a count.

use super::config::COMPLAIN_EVERY;
use crate::runtime::Mono;

/// Of one room.
#[derive(Debug, Default)]
pub(super) struct Complaints {
    next: Mono,
    unsaid: u64,
}

impl Complaints {
    /// Takes what was wrong in one tick. Gives the line that is due, if one is: a text, and how many others nobody was told of.
    pub(super) fn take(&mut self, texts: Vec<String>, now: Mono) -> Option<(String, u64)> {
        self.unsaid += texts.len() as u64;
        let text = texts.into_iter().next()?;
        if now < self.next {
            return None;
        }
        self.next = now.plus(COMPLAIN_EVERY);
        Some((text, std::mem::take(&mut self.unsaid) - 1))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_first_is_said_at_once_and_the_rest_is_counted() {
        let mut complaints = Complaints::default();
        let mut now = Mono(5);
        let texts = |n: usize| (0..n).map(|n| format!("fault {n}")).collect::<Vec<_>>();
        assert_eq!(complaints.take(texts(3), now), Some(("fault 0".to_owned(), 2)));
        let mut lines = 0;
        for _ in 0..450 {
            now = now.plus(Duration::from_millis(50));
            lines += u64::from(complaints.take(texts(16), now).is_some());
        }
        assert_eq!(lines, 2, "one in ten seconds");
        assert_eq!(complaints.take(Vec::new(), now.plus(COMPLAIN_EVERY)), None, "there is nothing to say");
        let (_, unsaid) = complaints.take(texts(1), now.plus(COMPLAIN_EVERY)).expect("a line");
        assert!(unsaid < 450 * 16 && unsaid > 0, "{unsaid}");
    }
}
