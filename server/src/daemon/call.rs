//! Carrying out the effects of the step machine against the store; the outcome of each is the next event.

use std::{future::Future, sync::Arc};

use bytes::Bytes;
use tenure_shared::Term;

use super::{
    agreed::{Agreed, agreement, key},
    context::{ENDED, LIVE},
    event::{At, Call, Effect, Event, Seen, Times},
    spec::ShardedDaemonProcess,
};
use crate::{
    runtime::Clock,
    store::{Error, Fence, Key, KeyState, Store},
};

/// Claims read at once.
const CLAIMS: usize = 1_000;

/// What calls need.
#[derive(Clone)]
pub(super) struct Caller {
    pub(super) store: Store,
    pub(super) clock: Clock,
    pub(super) times: Times,
    pub(super) sets: Arc<Vec<ShardedDaemonProcess>>,
}

/// What the cluster has agreed on about a set; this build's own words, if nobody said anything yet.
pub(super) async fn read_agreed(store: &Store, set: &ShardedDaemonProcess) -> Result<Agreed, Error> {
    let text = store.agree_or_get(&agreement(&set.name), &Agreed::first(set).to_string()).await?;
    Agreed::parse(&text).ok_or_else(|| Error::Broken(format!("the agreement on daemons {:?} says {text:?}", set.name)))
}

/// Agrees with the cluster on every set, before the node is a member.
///
/// # Errors
/// [`Error::Disagreement`] with both values when another number or role was agreed on that this build does not take over; what the store met.
pub async fn agree(store: &Store, sets: &[ShardedDaemonProcess]) -> Result<(), Error> {
    for set in sets {
        let agreed = read_agreed(store, set).await?;
        if !agreed.fits(set) {
            let hint = if agreed.role == set.role { " (rescale_from takes it over)" } else { "" };
            let proposed = format!("{} on {}{hint}", set.count, set.role.name());
            return Err(Error::Disagreement { name: agreement(&set.name), agreed: agreed.to_string(), proposed });
        }
    }
    Ok(())
}

impl Caller {
    pub(super) fn key(&self, at: At) -> Key {
        let set = self.sets.get(at.set);
        set.map_or_else(|| Key::named("?"), |set| key(&set.name, set.single, at.generation, at.index))
    }

    async fn within<T>(&self, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        tokio::select! {
            biased;
            answer = call => answer,
            () = self.clock.sleep(self.times.deadline) => Err(Error::Unavailable("no answer within the deadline".to_owned())),
        }
    }

    pub(super) async fn call(self, effect: Effect) -> Event {
        match effect {
            Effect::ReadAgreed { set } => self.agreed(set).await,
            Effect::Reagree { set, from, to } => {
                let Some(spec) = self.sets.get(set) else { return Event::Failed(Call::Agreement(set)) };
                let name = agreement(&spec.name);
                match self.within(self.store.reagree(&name, &from.to_string(), &to.to_string())).await {
                    Ok(()) => Event::Agreed { set, agreed: to },
                    // Another was first: what it said counts.
                    Err(Error::Disagreement { .. }) => self.agreed(set).await,
                    Err(error) => failed(Call::Agreement(set), &error),
                }
            }
            Effect::Acquire { at, caller, seen, floor } => {
                // Above what the store's clock says too: terms grow whatever a failover forgets (F12).
                let floor = floor.max(Term(self.store.now().0));
                match self.within(self.store.acquire(&self.key(at), &caller, seen, floor)).await {
                    Ok(fence) => Event::Granted { at, incarnation: caller, term: fence.term() },
                    Err(Error::Held { .. } | Error::Tombstoned(_)) => Event::Refused { at },
                    Err(error) => failed(Call::Acquire(at), &error),
                }
            }
            Effect::Load { at, term } => match self.within(self.store.state(&self.key(at))).await {
                Ok(state) => {
                    let (ended, state) = opened(state);
                    Event::Loaded { at, term, ended, state }
                }
                Err(error) => failed(Call::Load(at, term), &error),
            },
            Effect::Release { at, incarnation, term, to, floor } => {
                let fence = Fence::new(self.key(at), incarnation, term);
                let given = match &to {
                    Some(to) => self.within(self.store.transfer(&fence, to, 0, Vec::new(), floor)).await.map(Some),
                    None => Ok(None),
                };
                match (given, to) {
                    (Ok(Some(new)), Some(to)) => Event::Given { at, term, to, new },
                    // Nobody is to wait for a member that is gone.
                    (Ok(_) | Err(Error::Tombstoned(_)), _) => self.release(at, &fence).await,
                    (Err(Error::Fenced { .. }), _) => Event::Released { at, term },
                    (Err(error), _) => failed(Call::Release(at, term), &error),
                }
            }
            Effect::Close { at, incarnation, term } => {
                let fence = Fence::new(self.key(at), incarnation, term);
                match self.within(self.close(&fence)).await {
                    Ok(()) => Event::Closed { at, term },
                    Err(Error::Fenced { .. }) => Event::Released { at, term },
                    Err(error) => failed(Call::Close(at, term), &error),
                }
            }
            Effect::ReadClaims(look) => self.claims(look).await,
            Effect::Check { set, generation, count } => {
                for index in 0..count {
                    match self.within(self.store.state(&self.key(At { set, generation, index }))).await {
                        Ok(state) if opened(state.clone()).0 => {}
                        Ok(_) => return Event::Checked { set, generation, ended: false },
                        Err(error) => return failed(Call::Check(set), &error),
                    }
                }
                Event::Checked { set, generation, ended: true }
            }
            // Carried out by the driver itself.
            Effect::Run { .. }
            | Effect::Stop { .. }
            | Effect::Cut { .. }
            | Effect::Kill { .. }
            | Effect::Say { .. } => Event::Tick,
        }
    }

    async fn agreed(&self, set: usize) -> Event {
        let Some(spec) = self.sets.get(set) else { return Event::Failed(Call::Agreement(set)) };
        match self.within(read_agreed(&self.store, spec)).await {
            Ok(agreed) => Event::Agreed { set, agreed },
            Err(error) => failed(Call::Agreement(set), &error),
        }
    }

    async fn release(&self, at: At, fence: &Fence) -> Event {
        let term = fence.term();
        match self.within(self.store.release(fence)).await {
            // Refused: the claim is not this one's any more, which is what was asked for.
            Ok(()) | Err(Error::Fenced { .. }) => Event::Released { at, term },
            Err(error) => failed(Call::Release(at, term), &error),
        }
    }

    /// Leaves the mark that ends an index for ever beside its last state, and releases the claim.
    async fn close(&self, fence: &Fence) -> Result<(), Error> {
        let state = self.store.state(fence.key()).await?;
        if !opened(state.clone()).0 {
            let (version, body) = state.map_or_else(|| (0, Bytes::new()), |state| (state.version, state.body));
            let mut ended = vec![ENDED];
            ended.extend_from_slice(body.get(1..).unwrap_or_default());
            self.store.put_state(fence, version, ended.into()).await?;
        }
        self.store.release(fence).await
    }

    async fn claims(&self, look: Vec<At>) -> Event {
        let mut claims: Vec<(At, Seen)> = Vec::new();
        for page in look.chunks(CLAIMS) {
            let keys: Vec<Key> = page.iter().map(|at| self.key(*at)).collect();
            match self.within(self.store.claims(keys.clone())).await {
                Ok(read) => {
                    // Those that nobody ever claimed are left out; the others come in the order of the question.
                    let mut rows = read.into_iter().peekable();
                    for (at, key) in page.iter().zip(&keys) {
                        if let Some(claim) = rows.next_if(|claim| claim.key == *key) {
                            claims.push((*at, Some((claim.holder, claim.term))));
                        }
                    }
                }
                Err(error) => return failed(Call::Claims(look), &error),
            }
        }
        Event::Claims { read: look, claims }
    }
}

/// Whether a stored state says that its index is ended, and the state without that.
fn opened(state: Option<KeyState>) -> (bool, Option<KeyState>) {
    let ended = state.as_ref().and_then(|state| state.body.first().copied()).is_some_and(|first| first != LIVE);
    (ended, state.map(|state| KeyState { body: state.body.slice(state.body.len().min(1)..), ..state }))
}

fn failed(call: Call, error: &Error) -> Event {
    match &call {
        // Many in one line would hide the rest of the log.
        Call::Claims(look) => {
            tracing::warn!(claims = look.len(), %error, "reading claims of daemons failed; it is made again");
        }
        call => tracing::warn!(?call, %error, "a call for daemons failed; it is made again"),
    }
    Event::Failed(call)
}
