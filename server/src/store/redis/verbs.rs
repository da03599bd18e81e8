//! A verb from its command to its answer: where its rows are, what is done after it, and what a lost answer means.

use tenure_shared::Term;

use super::{
    engine::{Done, Engine, STRIPES},
    pending::STEP,
    slots::{Home, Tag, home},
    view::View,
};
use crate::{
    runtime::{Mono, Wall},
    store::{
        Command, Error, Reply, Stamped,
        model::{self, After, apart},
    },
};

/// An answer of a command that the store never saw.
pub(super) fn unseen(error: Error) -> Stamped {
    Stamped { at: Wall(0), reply: Err(error) }
}

impl Engine {
    /// Carries a verb out, at the latest until the deadline of a call.
    pub(super) async fn execute(&self, command: Command) -> Stamped {
        let until = self.shared.clock.now().plus(self.shared.options.deadline);
        let command = match command {
            // What this process was given is spread by its own heartbeats; the step that gave it lies in another slot.
            Command::Heartbeat { incarnation, ttl, floor } => {
                Command::Heartbeat { incarnation, ttl, floor: floor.max(self.shared.pending.term()) }
            }
            command => command,
        };
        if matches!(command, Command::Routes { .. }) {
            // What this process was granted is among what it reads.
            self.publish(self.shared.clock.now().plus(self.shared.options.deadline / 2), true).await;
        }
        let home = match home(&command) {
            Home::Tag(tag) => tag,
            Home::Room(room) => match self.shards(until).await {
                Ok((_, Some(shards))) => Tag::shard(room.shard(shards.max(1))),
                // Rooms are stored only when their shards are counted.
                Ok((at, None)) => return Stamped { at, reply: Ok(Reply::Checkpoint(None)) },
                Err(error) => return unseen(error),
            },
        };
        let ordered = !command.is_read() && !command.is_urgent();
        let order = self.shared.order.get(home.stripe(STRIPES)).filter(|_| ordered);
        let guard = match order {
            Some(order) => tokio::select! {
                biased;
                guard = order.lock() => Some(guard),
                () = self.shared.clock.sleep_until(until) => {
                    return unseen(Error::Unavailable("no turn within the deadline".to_owned()));
                }
            },
            None => None,
        };
        let (rules, of) = (&self.shared.options.rules, &command);
        let work = |view: &mut View<'_>, now: Wall| model::apply_apart(view, rules, now, of.clone());
        let done = self.transact(&home, &model::needs(&command), !command.is_read(), until, &work).await;
        drop(guard);
        match done {
            Ok(done) => self.finish(&command, done),
            Err(error) => unseen(error),
        }
    }

    fn finish(&self, command: &Command, done: Done) -> Stamped {
        let Done { mut stamped, after, doubtful } = done;
        let forgotten = match &stamped.reply {
            Err(Error::Tombstoned(_) | Error::Disagreement { .. } | Error::Conflict(_) | Error::Unavailable(_)) => true,
            Err(Error::Fenced { term, .. }) => *term == Term(0),
            _ => false,
        };
        if forgotten {
            // The store may have forgotten what it was: what was agreed in it is read again.
            *self.shared.agreed.lock() = None;
        }
        if doubtful
            && let Err(error) = &stamped.reply
            && echo(command, error)
        {
            let text = format!("its answer was lost, and it seems to have been carried out: {error}");
            stamped.reply = Err(Error::Unavailable(text));
        }
        self.shared.pending.add(after);
        stamped
    }

    /// What may be done after the caller of a verb has its answer: nobody's claim waits for a hint in another slot. `routes`: see
    /// [`publishes`].
    pub(super) async fn afterwards(&self, routes: bool) {
        let until = || self.shared.clock.now().plus(self.shared.options.deadline);
        if routes {
            self.publish(until(), false).await;
        }
        self.note(until).await;
    }

    /// Publishes the routes that wait; those of others that came while one step was under way go with the next. Who does not `wait`
    /// leaves them to whoever is at it.
    async fn publish(&self, until: Mono, wait: bool) {
        while self.shared.pending.has_routes() {
            let _one = match self.shared.publishing.try_lock() {
                Ok(guard) => guard,
                Err(_) if !wait => return,
                Err(_) => tokio::select! {
                    biased;
                    guard = self.shared.publishing.lock() => guard,
                    () = self.shared.clock.sleep_until(until) => return,
                },
            };
            let routes = self.shared.pending.routes();
            if routes.is_empty() {
                return;
            }
            let rules = &self.shared.options.rules;
            let work = |view: &mut View<'_>, now: Wall| (apart::routes(view, rules, now, &routes), After::default());
            let done = self.transact(&Tag::routes(), &apart::routes_needs(&routes), true, until, &work).await;
            match done.and_then(|done| done.stamped.reply) {
                Ok(_) => self.shared.pending.published(&routes),
                Err(error) => {
                    tracing::debug!(%error, routes = routes.len(), "routes wait for the next heartbeat");
                    return;
                }
            }
        }
    }

    /// Notes changed sessions, and forgets a few of those that nobody changed for too long.
    async fn note(&self, until: impl Fn() -> Mono) {
        let notes = self.shared.pending.notes();
        if notes.is_empty() {
            return;
        }
        let forgotten = self.forget_sessions(&until).await.unwrap_or_else(|error| {
            tracing::debug!(%error, "forgetting old sessions waits for the next change of a session");
            Vec::new()
        });
        let rules = &self.shared.options.rules;
        let work =
            |view: &mut View<'_>, now: Wall| (apart::notes(view, rules, now, &notes, &forgotten), After::default());
        let done = self.transact(&Tag::sessions(), &model::Needs::default(), true, until(), &work).await;
        match done.and_then(|done| done.stamped.reply) {
            Ok(_) => self.shared.pending.noted(&notes),
            Err(error) => tracing::debug!(%error, notes = notes.len().min(STEP), "notes of sessions wait"),
        }
    }

    /// The notes of sessions that are forgotten now.
    async fn forget_sessions(&self, until: &impl Fn() -> Mono) -> Result<Vec<Vec<u8>>, Error> {
        let rules = &self.shared.options.rules;
        let found = parking_lot::Mutex::new(Vec::new());
        let look = |view: &mut View<'_>, now: Wall| {
            let reply = apart::lapsed(view, rules, now).map(|lapsed| {
                *found.lock() = lapsed;
                Reply::Done
            });
            (Stamped { at: now, reply }, After::default())
        };
        self.transact(&Tag::sessions(), &apart::lapsed_needs(), false, until(), &look).await?.stamped.reply?;
        let lapsed = found.into_inner();
        let mut forgotten = Vec::with_capacity(lapsed.len());
        for (player, room, note) in lapsed {
            let forget =
                |view: &mut View<'_>, now: Wall| (apart::forget(view, rules, now, &player, &room), After::default());
            let needs = apart::forget_needs(&player, &room);
            self.transact(&Tag::player(&player), &needs, true, until(), &forget).await?.stamped.reply?;
            forgotten.push(note);
        }
        Ok(forgotten)
    }

    /// The agreed number of shards, and when it was read.
    async fn shards(&self, until: Mono) -> Result<(Wall, Option<u32>), Error> {
        let found = parking_lot::Mutex::new(None);
        let look = |view: &mut View<'_>, now: Wall| {
            let reply = apart::shards(view).map(|shards| {
                *found.lock() = shards;
                Reply::Done
            });
            (Stamped { at: now, reply }, After::default())
        };
        let needs = model::Needs { keys: vec![apart::shards_row()], scans: Vec::new() };
        // Agreed once: from then on it is known without asking.
        if let Some(row) = self.shared.agreed.lock().clone() {
            let rows = std::collections::BTreeMap::from([(apart::shards_row(), row)]);
            return apart::shards(&rows).map(|shards| (Wall(0), shards));
        }
        let done = self.transact(&Tag::members(), &needs, false, until, &look).await?;
        done.stamped.reply.map(|_| (done.stamped.at, found.into_inner()))
    }

    /// Checks the format of the store's rows, or sets it on a new one.
    pub(super) async fn format(&self) -> Result<(), Error> {
        let until = self.shared.clock.now().plus(self.shared.options.deadline);
        let rules = &self.shared.options.rules;
        let work = |view: &mut View<'_>, now: Wall| (apart::format(view, rules, now), After::default());
        let done = self.transact(&Tag::members(), &apart::format_needs(), true, until, &work).await?;
        done.stamped.reply.map(drop)
    }
}

/// Whether routes may wait after this verb, or it is time to try again with those that wait.
pub(super) fn publishes(command: &Command) -> bool {
    matches!(
        command,
        Command::Acquire { .. }
            | Command::Transfer { .. }
            | Command::Release { .. }
            | Command::Publish { .. }
            | Command::Heartbeat { .. }
    )
}

/// Whether the refusal is what a second sending would get of a verb whose first one was carried out. Other verbs answer a repeat alike.
fn echo(command: &Command, error: &Error) -> bool {
    match (command, error) {
        (Command::Acquire { caller, .. }, Error::Held { holder, .. }) => holder == caller.as_str(),
        (Command::Transfer { to, .. }, Error::Fenced { holder, .. }) => holder == to.as_str(),
        _ => false,
    }
}
