//! The last events of a node, for the admin page: a bounded copy of what went to the log at `info` and above.

use std::{collections::VecDeque, fmt::Write as _, sync::Arc};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tracing::{
    Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{Layer, layer::Context};

use crate::runtime::{Clock, Wall};

/// Events kept.
const EVENTS: usize = 200;
/// Longest text of one, bytes.
const EVENT_BYTES: usize = 400;

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When.
    pub at: Wall,
    /// `error`, `warn` or `info`.
    pub level: String,
    /// The message and its fields.
    pub text: String,
}

/// The last events; cheap to clone.
#[derive(Clone)]
pub struct Recent {
    clock: Clock,
    events: Arc<Mutex<VecDeque<Event>>>,
}

impl Recent {
    /// Nothing yet.
    pub fn new(clock: Clock) -> Self {
        Self { clock, events: Arc::new(Mutex::new(VecDeque::with_capacity(EVENTS))) }
    }

    /// Adds an event; the oldest one goes when there are too many.
    pub fn push(&self, level: &str, text: &str) {
        let end = text.floor_char_boundary(EVENT_BYTES);
        let cut = if end < text.len() { "…" } else { "" };
        let text = format!("{}{cut}", text.get(..end).unwrap_or_default());
        let event = Event { at: self.clock.wall(), level: level.to_owned(), text };
        let mut events = self.events.lock();
        if events.len() >= EVENTS {
            events.pop_front();
        }
        events.push_back(event);
    }

    /// The newest ones first, at most `limit`.
    pub fn newest(&self, limit: usize) -> Vec<Event> {
        self.events.lock().iter().rev().take(limit).cloned().collect()
    }

    /// A layer that copies log events here.
    pub(super) fn layer<S: Subscriber>(&self) -> impl Layer<S> + use<S> {
        Copying(self.clone())
    }
}

impl std::fmt::Debug for Recent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Recent")
    }
}

struct Copying(Recent);

impl<S: Subscriber> Layer<S> for Copying {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let level = match *event.metadata().level() {
            Level::ERROR => "error",
            Level::WARN => "warn",
            Level::INFO => "info",
            _ => return,
        };
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.push(level, text.0.trim());
    }
}

/// The message first, then `name=value`; never longer than is kept.
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if self.0.len() > EVENT_BYTES {
            return;
        }
        let written = if field.name() == "message" {
            let rest = std::mem::take(&mut self.0);
            write!(self.0, "{value:?}{rest}")
        } else {
            write!(self.0, " {}={value:?}", field.name())
        };
        debug_assert!(written.is_ok(), "writing into a string does not fail");
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[test]
    fn events_are_kept_newest_first_and_bounded() {
        let (clock, hand) = Clock::manual(Wall(1_000_000));
        let recent = Recent::new(clock);
        let subscriber = tracing_subscriber::registry().with(recent.layer());
        tracing::subscriber::with_default(subscriber, || {
            for room in 0..EVENTS {
                tracing::info!(room, "opened");
            }
            hand.advance(std::time::Duration::from_secs(1));
            tracing::debug!("not kept");
            tracing::warn!(room = "a/b/c", error = %"x".repeat(1_000), "parked");
        });
        let kept = recent.newest(1_000);
        assert_eq!(kept.len(), EVENTS);
        assert_eq!((kept[0].at, kept[0].level.as_str()), (Wall(2_000_000), "warn"));
        assert!(kept[0].text.starts_with("parked room=a/b/c error=xxx"), "{}", kept[0].text);
        assert!(kept[0].text.len() <= EVENT_BYTES + "…".len());
        assert_eq!(kept[1].text, format!("opened room={}", EVENTS - 1));
        assert_eq!(kept[EVENTS - 1].text, "opened room=1");
        recent.push("info", &"ü".repeat(EVENT_BYTES));
        assert!(recent.newest(1)[0].text.ends_with('…'));
    }
}
