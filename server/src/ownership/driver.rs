//! The driver: sends heartbeats and keeps the claims, on an OS thread of its own; it alone runs the step machine.

use std::{
    collections::{BTreeSet, VecDeque},
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use tenure_shared::{IncarnationId, Term};
use tokio::task::JoinSet;

use super::{
    call::{Caller, constants},
    event::{Effect, Event, Phase, Times},
    handle::{Request, Shared, Table},
    options::{Held, LeaseThread, Options},
    state::State,
    view::{ROOM, View},
    waiting::Waiting,
};
use crate::{
    runtime::{Clock, Mono, Rng, Shutdown, Tasks, mailbox, tasks::Kind},
    store::{Error, Fence, Key, MemberInfo, Status, Store},
};

/// Most calls under way at once.
const IN_FLIGHT: usize = 64;
/// From one alarm about a store that forgot to the next.
const ALARM_EVERY: Duration = Duration::from_secs(1);

mod leave;

pub(super) struct Driver {
    store: Store,
    clock: Clock,
    rng: Rng,
    info: MemberInfo,
    times: Times,
    shards: u32,
    stop: Shutdown,
    state: State,
    /// The handles keep it alive; the driver ends with the last of them.
    shared: Weak<Shared>,
    waiting: Waiting,
    /// Versions of zone data that were warned of.
    warned: BTreeSet<String>,
    /// When it was last said that the store forgot something.
    alarmed: Option<Mono>,
}

/// Tells the end: nothing is held any more, and unless it was an end on purpose the node stops.
struct End {
    shared: Weak<Shared>,
    stop: Shutdown,
    meant: bool,
}

impl Drop for End {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.lease.set(Mono(0));
        }
        if !self.meant && !self.stop.is_stopped() {
            tracing::error!("the keeper of the lease ended: the node stops");
            self.stop.stop();
        }
    }
}

impl Driver {
    pub(super) fn new(
        store: Store,
        clock: Clock,
        rng: Rng,
        info: MemberInfo,
        options: &Options,
        shared: &Arc<Shared>,
        stop: Shutdown,
    ) -> Self {
        let rooms = info.roles.iter().any(|role| role == ROOM);
        let state = State::new(options.times, options.shards, rooms, options.concurrent);
        let (times, shards, shared) = (options.times, options.shards, Arc::downgrade(shared));
        Self {
            store,
            clock,
            rng,
            info,
            times,
            shards,
            stop,
            state,
            shared,
            waiting: Waiting::default(),
            warned: BTreeSet::new(),
            alarmed: None,
        }
    }

    fn incarnation(&self) -> Result<IncarnationId, Error> {
        let text = format!("{}#{}", self.info.node, self.rng.uuid());
        IncarnationId::new(&text).map_err(|error| Error::Invalid(error.to_string()))
    }

    /// The constants of the cluster and the first registration: what they met is the answer to `start`.
    pub(super) async fn register(&self) -> Result<Event, Error> {
        for (name, value) in constants(self.shards) {
            self.store.agree(name, &value).await?;
        }
        let (incarnation, sent) = (self.incarnation()?, self.clock.now());
        self.store.register(&incarnation, self.info.clone(), self.times.ttl).await?;
        Ok(Event::Registered { incarnation, sent })
    }

    pub(super) fn spawn(
        mut self,
        inbox: mailbox::Receiver<Request>,
        first: Event,
        thread: LeaseThread,
        tasks: &Tasks,
    ) -> Result<(), Error> {
        let end = End { shared: self.shared.clone(), stop: self.stop.clone(), meant: false };
        match thread {
            LeaseThread::Task => tasks.spawn("lease", Kind::Job, async move {
                // Moved in as a whole, so that a panic or an abort drops it too.
                let mut end = end;
                self.work(inbox, first).await;
                end.meant = true;
                drop(end);
            }),
            LeaseThread::Own => {
                let work = move || {
                    let mut end = end;
                    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
                    match runtime {
                        Ok(runtime) => {
                            let work = AssertUnwindSafe(|| runtime.block_on(self.work(inbox, first)));
                            end.meant = catch_unwind(work).is_ok();
                        }
                        Err(error) => tracing::error!(%error, "no runtime for the lease"),
                    }
                    drop(end);
                };
                let spawned = std::thread::Builder::new().name("tenure-lease".to_owned()).spawn(work);
                spawned.map_err(|error| Error::Unavailable(format!("no thread for the lease: {error}")))?;
            }
        }
        Ok(())
    }

    async fn work(&mut self, mut inbox: mailbox::Receiver<Request>, first: Event) {
        let mut calls: JoinSet<Event> = JoinSet::new();
        let mut waiting: VecDeque<Effect> = self.step(first).into();
        self.publish();
        loop {
            while calls.len() < IN_FLIGHT
                && let Some(effect) = waiting.pop_front()
            {
                calls.spawn(self.call(effect));
            }
            let event = tokio::select! {
                biased;
                () = self.clock.sleep_until(self.state.wake()) => Event::Tick,
                Some(event) = calls.join_next() => outcome(event),
                request = inbox.recv() => match request {
                    Some(Request::Leave(done)) => {
                        self.leave(calls).await;
                        // Nobody may be waiting any more.
                        done.send(()).unwrap_or_default();
                        return;
                    }
                    Some(request) => self.requested(request),
                    None => return,
                },
            };
            self.take_in(event, &mut calls, &mut waiting);
            // What else is ready is taken in before readers are told: a takeover of many shards is few tables.
            while let Some(event) = calls.try_join_next() {
                self.take_in(outcome(event), &mut calls, &mut waiting);
            }
            self.publish();
        }
    }

    fn take_in(&mut self, event: Event, calls: &mut JoinSet<Event>, waiting: &mut VecDeque<Effect>) {
        for effect in self.step(event) {
            // A heartbeat stands before everything that waits.
            if matches!(effect, Effect::Beat { .. } | Effect::Register) {
                calls.spawn(self.call(effect));
            } else {
                waiting.push_back(effect);
            }
        }
    }

    fn requested(&mut self, request: Request) -> Event {
        match request {
            Request::Fenced(shard, term) => Event::Fenced { shard, term },
            Request::Gave(shard, term, done) => {
                metrics::counter!("tenure_shard_gives_total").increment(1);
                self.waiting.for_release(shard, done);
                Event::Gave { shard, term }
            }
            Request::Transfer { shard, term, to, package, manifest, done } => {
                metrics::counter!("tenure_shard_gives_total").increment(1);
                self.waiting.for_transfer(shard, done, &self.state);
                Event::Transfer { shard, term, to, package, manifest }
            }
            Request::Expect(shard, until) => Event::Expect { shard, until },
            Request::Transferred { shard, incarnation, term, package } => {
                // As with terms that are seen: a wild number must not use them up. Of the store's clock this node may know a little less.
                let most = self.shared.upgrade().map_or(Term(0), |shared| shared.highest_term());
                if term > most {
                    tracing::warn!(%shard, %term, %most, "a transfer under a term that nobody can have given: not taken notice of");
                    return Event::Wanted { shard };
                }
                Event::Transferred { shard, incarnation, term, package }
            }
            Request::Kept(shard, term) => Event::Kept { shard, term },
            Request::TermSeen(shard, term) => {
                metrics::counter!("tenure_terms_seen_total").increment(1);
                // Terms follow the store's clock, and never go back: a wild number must not use them up.
                let most = self.state.floor().max(Term(self.store.now().0));
                if term > most {
                    tracing::warn!(%shard, %term, %most, "a term was seen that nobody can have given: taken for the highest known");
                }
                Event::TermSeen { shard, term: term.min(most) }
            }
            Request::Wanted(shard) => Event::Wanted { shard },
            Request::Sought(shard, done) => {
                self.waiting.for_look(shard, done);
                Event::Wanted { shard }
            }
            Request::Refresh => Event::Refresh,
            Request::Drain => Event::Drain,
            Request::Informed(done) => {
                self.waiting.for_news(done);
                Event::Tick
            }
            // Handled where the calls under way are.
            Request::Leave(_) => Event::Leave,
        }
    }

    fn step(&mut self, event: Event) -> Vec<Effect> {
        let (before, settles) = (self.state.phase(), self.state.settles());
        let taken = match &event {
            Event::Granted { incarnation, seen: Some((Some(holder), _)), shard, .. } => {
                (holder != incarnation && !self.state.in_doubt_of(*shard)).then_some(*shard)
            }
            _ => None,
        };
        if let Some(shard) = taken {
            metrics::counter!("tenure_shard_takeovers_total").increment(1);
            tracing::info!(%shard, "taken over");
        }
        let about = Waiting::before(&event);
        let effects = self.state.step(self.clock.now(), event);
        self.waiting.after(about, &self.state);
        let after = self.state.phase();
        if before != after {
            tracing::info!(from = ?before, to = ?after, incarnation = ?self.state.incarnation(), "ownership");
            if after == Phase::Lapsed {
                metrics::counter!("tenure_lease_lapses_total").increment(1);
            }
        }
        if self.state.settles() && !settles {
            metrics::counter!("tenure_settles_total").increment(1);
            tracing::info!("the store was away: what others held is left to them for one lease");
        }
        effects
    }

    /// Shows readers what the state says; an end before anything else, a beginning after everything else.
    fn publish(&mut self) {
        let Some(shared) = self.shared.upgrade() else { return };
        let (until, touched) = (self.state.acts_until(), self.state.take_touched());
        if until == Mono(0) {
            shared.lease.set(until);
        }
        let mut changed = false;
        if touched.held {
            let table = self.table();
            changed = **shared.table.load() != table;
            if changed {
                metrics::gauge!("tenure_shards_held").set(table.held.len() as f64);
                shared.table.store(Arc::new(table));
            }
        }
        if touched.forgot {
            self.forgot();
        }
        if touched.members || touched.routes {
            self.publish_view(&shared, touched.routes);
        }
        shared.floor.store(self.state.floor().0, Ordering::Release);
        shared.lease.set(until);
        let told = shared.changes.count() > 0;
        // The first change is the beginning of acting, also of a node that takes no shards.
        if (changed && told) || (!told && self.state.phase() == Phase::Owning) {
            shared.changes.tell();
        }
        self.waiting.answer(&self.state);
    }

    /// The alarm of a store that lost what it had acknowledged: once in a while, however many claims say so.
    fn forgot(&mut self) {
        let now = self.clock.now();
        if self.alarmed.is_some_and(|last| now.since(last) < ALARM_EVERY) {
            return;
        }
        self.alarmed = Some(now);
        metrics::counter!("tenure_store_forgot_total").increment(1);
        tracing::error!(
            "the store has forgotten what it had acknowledged: it was emptied, came back with an older file, or a server that had not \
             heard all became its primary. Rooms go on from memory where they can; rewards of the lost time may be lost with it"
        );
    }

    fn table(&self) -> Table {
        let incarnation = self.state.incarnation().cloned();
        let held = self.state.holdings().into_iter().filter_map(|(shard, holding)| {
            let fence = Fence::new(Key::shard(shard), incarnation.clone()?, holding.term);
            Some((shard, Held { fence, continues: holding.continues, package: holding.package }))
        });
        let held = held.collect();
        let gives = self.state.gives().iter().map(|(shard, to)| (*shard, Some(to.clone()))).collect();
        Table { held, in_doubt: self.state.in_doubt(), gives, incarnation }
    }

    fn publish_view(&mut self, shared: &Shared, routes: bool) {
        let before = shared.view.load();
        let routes = if routes { Arc::new(self.state.routes()) } else { before.routes.clone() };
        let (members, at) = self.state.members();
        let mut view = View::new(members.clone(), routes, self.shards, at, !self.state.settles());
        view.named = self.state.named().clone();
        for status in [Status::Joining, Status::Serving, Status::Draining] {
            let label = match status {
                Status::Joining => "joining",
                Status::Serving => "serving",
                Status::Draining => "draining",
            };
            let count = view.members.iter().filter(|member| member.status == status).count();
            metrics::gauge!("tenure_members", "status" => label).set(count as f64);
        }
        metrics::gauge!("tenure_shards_ownerless").set(view.ownerless as f64);
        if view.zone_data.len() > 1 && view.zone_data != self.warned {
            tracing::warn!(versions = ?view.zone_data, "members have different time-zone data: schedules may differ between them");
        }
        self.warned.clone_from(&view.zone_data);
        let changed = !view.routes_as(&before);
        shared.view.store(Arc::new(view));
        if changed {
            shared.views.tell();
        }
    }

    /// Carries out one effect; its outcome is the next event.
    fn call(&self, effect: Effect) -> impl Future<Output = Event> + Send + 'static {
        let (store, clock, stop) = (self.store.clone(), self.clock.clone(), self.stop.clone());
        let caller = Caller { store, clock, times: self.times, shards: self.shards, stop };
        let register = match effect {
            Effect::Register => self.incarnation().ok().map(|incarnation| (incarnation, self.info.clone())),
            _ => None,
        };
        async move { caller.call(effect, register).await }
    }
}

/// What a call gave; its panic goes on.
fn outcome(event: Result<Event, tokio::task::JoinError>) -> Event {
    event.unwrap_or_else(|error| {
        std::panic::resume_unwind(error.try_into_panic().unwrap_or_else(|_| Box::new("a call was cancelled")))
    })
}
