//! The driver: runs the step machine, its calls to the store, and the tasks of the daemons.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
};

use tenure_shared::Term;
use tokio::{
    sync::oneshot,
    task::{AbortHandle, Id, JoinError, JoinSet},
};

use super::{
    call::Caller,
    context::{Context, Mark, Timers},
    event::{At, Effect, Event, How, Lease, Said},
    handle::{Daemons, Request, Shared},
    metrics, runner,
    state::State,
    table::{Local, Row, Table},
};
use crate::{
    runtime::{Mono, Rng, Shutdown, mailbox},
    store::Fence,
};

/// Most calls under way at once.
const IN_FLIGHT: usize = 64;

/// What ends the process (exit code 70); called at most once per daemon, with its name.
pub type Kill = Box<dyn Fn(&str) + Send>;

/// An activation.
struct Live {
    local: Local,
    stop: Shutdown,
    cut: AbortHandle,
}

pub(super) struct Driver {
    pub(super) shared: Arc<Shared>,
    pub(super) caller: Caller,
    pub(super) rng: Rng,
    pub(super) kill: Kill,
    /// Where daemons run.
    pub(super) threads: tokio::runtime::Handle,
    pub(super) state: State,
    pub(super) work: Work,
}

/// What is under way.
#[derive(Default)]
pub(super) struct Work {
    waiting: VecDeque<Effect>,
    running: JoinSet<How>,
    ids: HashMap<Id, (At, Term)>,
    live: BTreeMap<At, Live>,
    left: Vec<oneshot::Sender<()>>,
}

impl Driver {
    /// Runs until the signal is given. Dropped or ended it drops every daemon where it awaits.
    pub(super) async fn run(mut self, mut inbox: mailbox::Receiver<Request>, stop: Shutdown) {
        let mut calls: JoinSet<Event> = JoinSet::new();
        let ownership = self.shared.ownership.clone();
        let (mut views, mut held) = (ownership.views(), ownership.changes());
        self.take_in(Event::Cluster(ownership.view()));
        loop {
            while calls.len() < IN_FLIGHT
                && let Some(effect) = self.work.waiting.pop_front()
            {
                calls.spawn(self.caller.clone().call(effect));
            }
            self.publish();
            let clock = &self.shared.clock;
            let event = tokio::select! {
                biased;
                () = stop.stopped() => break,
                () = clock.sleep_until(self.state.wake(clock.now())) => Event::Tick,
                Some(ended) = self.work.running.join_next_with_id() => self.ended(ended),
                Some(event) = calls.join_next() => outcome(event),
                changed = views.changed() => match changed { Ok(()) => Event::Cluster(ownership.view()), Err(_) => break },
                changed = held.changed() => match changed { Ok(()) => Event::Cluster(ownership.view()), Err(_) => break },
                request = inbox.recv() => match request { Some(request) => self.requested(request), None => break },
            };
            let ticks = matches!(event, Event::Tick);
            self.take_in(event);
            if ticks {
                // Who drains is not told apart: it is looked at.
                self.take_in(Event::Cluster(ownership.view()));
            }
            if ticks {
                metrics::away(&self.shared.table.load(), self.shared.clock.now());
            }
            if ticks && self.state.runs_any() {
                let marks =
                    self.work.live.iter().map(|(at, live)| (*at, live.local.term, live.local.mark.get())).collect();
                self.take_in(Event::Marks(marks));
            }
            // What else is ready is taken in before readers are told: a takeover of many is few tables.
            while let Some(event) = calls.try_join_next() {
                self.take_in(outcome(event));
            }
        }
        // Nothing is released: whoever ends in order has called `leave`, and otherwise the lease ends them.
        self.work.running.abort_all();
    }

    fn requested(&mut self, request: Request) -> Event {
        let at = |state: &State, set: usize, index: u32| {
            let generation = state.sets.get(set).and_then(|set| set.agreed).map_or(0, |agreed| agreed.generation);
            At { set, generation, index }
        };
        match request {
            Request::HandOver { set, index, to } => Event::HandOver { at: at(&self.state, set, index), to },
            Request::Unpark { set, index } => Event::Unpark { at: at(&self.state, set, index) },
            Request::Agreement { set } => {
                self.state.ask_soon(set);
                Event::Tick
            }
            Request::Drain => Event::Drain,
            Request::Leave(done) => {
                self.work.left.push(done);
                Event::Leave
            }
        }
    }

    fn ended(&mut self, ended: Result<(Id, How), JoinError>) -> Event {
        let (id, how) = match ended {
            Ok(done) => done,
            Err(error) => {
                let id = error.id();
                let how = match error.try_into_panic() {
                    Ok(panic) => How::Panicked(text_of(&*panic)),
                    Err(_) => How::Cut,
                };
                (id, how)
            }
        };
        let Some((at, term)) = self.work.ids.remove(&id) else { return Event::Tick };
        if self.work.live.get(&at).is_some_and(|live| live.local.term == term) {
            self.work.live.remove(&at);
        }
        Event::Ended { at, term, how }
    }

    /// The lease and this life, as they are at this moment.
    fn lease(&self, now: Mono) -> Lease {
        let ownership = &self.shared.ownership;
        Lease { life: ownership.incarnation(), until: ownership.held_until(now).unwrap_or_default() }
    }

    fn take_in(&mut self, event: Event) {
        let now = self.shared.clock.now();
        for effect in self.state.step(now, self.lease(now), event) {
            match effect {
                Effect::Run { at, incarnation, term, state } => {
                    let fence = Fence::new(self.caller.key(at), incarnation, term);
                    self.start(at, fence, state.map(|state| (state.version, state.body)));
                }
                Effect::Stop { at, term } => self.end(at, term, false),
                Effect::Cut { at, term } => self.end(at, term, true),
                Effect::Kill { at } => {
                    let name = self.caller.key(at).to_string();
                    tracing::error!(daemon = %name, "a daemon does not end: the process must");
                    (self.kill)(&name);
                }
                Effect::Say { at, said } => self.say(at, &said),
                effect => self.work.waiting.push_back(effect),
            }
        }
    }

    fn start(&mut self, at: At, fence: Fence, state: Option<(u64, bytes::Bytes)>) {
        let (Some(set), Some(agreed)) =
            (self.caller.sets.get(at.set), self.state.sets.get(at.set).and_then(|set| set.agreed))
        else {
            return;
        };
        let Some(make) = set.make.clone() else { return };
        let (name, term) = (Arc::<str>::from(set.name.as_str()), fence.term());
        let (mark, stop) = (Arc::<Mark>::default(), Shutdown::new());
        mark.set(self.shared.clock.now());
        let (sender, inbox) = mailbox::channel("daemon", set.mailbox);
        let (version, body) = state.map_or((0, None), |(version, body)| (version, Some(body).filter(|_| version > 0)));
        let ctx = Context {
            name: name.clone(),
            single: set.single,
            index: at.index,
            count: agreed.count,
            generation: at.generation,
            fence,
            store: self.shared.store.clone(),
            clock: self.shared.clock.clone(),
            rng: self.rng.fork(),
            ownership: self.shared.ownership.clone(),
            daemons: Daemons(self.shared.clone()),
            deadline: self.caller.times.deadline,
            mark: mark.clone(),
            stop: stop.clone(),
            state: (version, body),
            timers: Timers::default(),
            ends: false,
            fenced: false,
        };
        let (index, liveness) = (at.index, set.liveness);
        // The factory is the game's too: its panic is the daemon's.
        let task = async move { runner::run(make(index), ctx, inbox, liveness).await };
        let cut = self.work.running.spawn_on(task, &self.threads);
        self.work.ids.insert(cut.id(), (at, term));
        let local = Local { term, since: self.shared.store.now(), mark, inbox: sender, open: true };
        self.work.live.insert(at, Live { local, stop, cut });
        metrics::started(&name);
        tracing::debug!(daemon = %self.caller.key(at), %term, "a daemon starts");
    }

    fn end(&mut self, at: At, term: Term, cut: bool) {
        let Some(live) = self.work.live.get_mut(&at).filter(|live| live.local.term == term) else { return };
        live.local.open = false;
        if cut { live.cut.abort() } else { live.stop.stop() }
    }

    fn say(&self, at: At, said: &Said) {
        let (daemon, name) = (self.caller.key(at), self.caller.sets.get(at.set).map_or("", |set| set.name.as_str()));
        match said {
            Said::Restarts { why, text, wait } => {
                metrics::failed(name, why);
                let seconds = wait.as_secs_f64();
                tracing::warn!(%daemon, why, text, seconds, "a daemon is started again");
            }
            Said::Parked { text } => {
                metrics::failed(name, "parked");
                tracing::error!(%daemon, reason = text, "a daemon failed too often: it is parked");
            }
        }
    }

    /// Shows readers what the state says.
    fn publish(&mut self) {
        let before = self.shared.table.load_full();
        let tables: Vec<Arc<Table>> = (0..self.state.sets.len()).map(|set| Arc::new(self.table(set))).collect();
        let same = before.len() == tables.len() && before.iter().zip(&tables).all(|(a, b)| same(a, b));
        if !same {
            metrics::shown(&tables);
            self.shared.table.store(Arc::new(tables));
            self.shared.changes.tell();
        }
        if !self.work.left.is_empty() && self.state.is_empty() {
            // Nobody may be waiting any more.
            self.work.left.drain(..).for_each(|done| done.send(()).unwrap_or_default());
        }
    }

    fn table(&self, set: usize) -> Table {
        let Some(state) = self.state.sets.get(set) else {
            return Table { name: String::new(), agreed: None, rows: Vec::new() };
        };
        let generation = state.agreed.map_or(0, |agreed| agreed.generation);
        let slots = state.fleets.get(&generation).map_or(&[][..], |fleet| &fleet.slots);
        let row = |(index, slot): (usize, &super::slot::Slot)| {
            let at = At { set, generation, index: u32::try_from(index).unwrap_or(u32::MAX) };
            let (stage, reason) = self.state.stage(slot);
            let local = self.work.live.get(&at).map(|live| live.local.clone());
            let (owner, term, restarts) = (slot.holder().cloned(), slot.term(), slot.restarts);
            Row { owner, term, local, restarts, stage, reason, last: slot.last.clone(), down: slot.down }
        };
        Table { name: state.spec.name.clone(), agreed: state.agreed, rows: slots.iter().enumerate().map(row).collect() }
    }
}

/// Whether readers would see the same.
fn same(a: &Table, b: &Table) -> bool {
    let local = |row: &Row| row.local.as_ref().map(|local| (local.term, local.open));
    let row = |(a, b): (&Row, &Row)| {
        (a.stage, a.term, &a.owner, a.restarts, &a.reason) == (b.stage, b.term, &b.owner, b.restarts, &b.reason)
            && (&a.last, a.down, local(a)) == (&b.last, b.down, local(b))
    };
    a.agreed == b.agreed && a.rows.len() == b.rows.len() && a.rows.iter().zip(&b.rows).all(row)
}

/// What a call gave; its panic goes on.
fn outcome(event: Result<Event, JoinError>) -> Event {
    event.unwrap_or_else(|error| {
        std::panic::resume_unwind(error.try_into_panic().unwrap_or_else(|_| Box::new("a call was cancelled")))
    })
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no text".to_owned())
}
