//! Carrying out the effects of the step machine against the store; the outcome of each is the next event.

use tenure_shared::{IncarnationId, ShardId, ids::ID_HASH_VERSION};

use super::event::{Call, Effect, Event, Times};
use crate::{
    link,
    runtime::{Clock, Shutdown, Wall},
    store::{
        Claim, Command, Error, Fence, Key, MemberInfo, Reply, Store,
        model::{AGREED_LINKS, AGREED_SHARDS},
    },
};

/// Claims read at once.
const CLAIMS: usize = 1_000;

/// What one call needs.
pub(super) struct Caller {
    pub(super) store: Store,
    pub(super) clock: Clock,
    pub(super) times: Times,
    pub(super) shards: u32,
    /// Stops the node when the cluster has other constants than it.
    pub(super) stop: Shutdown,
}

/// What a member and its cluster must have in common. Proposed in every life, before its registration: a store that forgot everything has
/// the constants again before anything in it is claimed.
pub(super) fn constants(shards: u32) -> [(&'static str, String); 3] {
    [
        (AGREED_SHARDS, shards.to_string()),
        ("id-hash version", ID_HASH_VERSION.to_string()),
        (AGREED_LINKS, link::net::PROTOCOL.to_string()),
    ]
}

impl Caller {
    async fn ask(&self, command: Command) -> Result<Reply, Error> {
        self.ask_when(command).await.map(|(_, reply)| reply)
    }

    async fn ask_when(&self, command: Command) -> Result<(Wall, Reply), Error> {
        tokio::select! {
            biased;
            stamped = self.store.execute(command) => stamped.reply.map(|reply| (stamped.at, reply)),
            () = self.clock.sleep(self.times.deadline) => Err(Error::Unavailable("no answer within the deadline".to_owned())),
        }
    }

    pub(super) async fn call(&self, effect: Effect, register: Option<(IncarnationId, MemberInfo)>) -> Event {
        if matches!(effect, Effect::Register)
            && let Err(error) = self.agree().await
        {
            return failed(Call::Register, &error);
        }
        let (ttl, sent) = (self.times.ttl, self.clock.now());
        match effect {
            Effect::Register => {
                let Some((incarnation, info)) = register else { return Event::Failed(Call::Register) };
                match self.ask(Command::Register { incarnation: incarnation.clone(), info, ttl }).await {
                    Ok(_) => Event::Registered { incarnation, sent },
                    Err(error) => failed(Call::Register, &error),
                }
            }
            Effect::Beat { incarnation, floor } => {
                match self.ask(Command::Heartbeat { incarnation: incarnation.clone(), ttl, floor }).await {
                    Ok(Reply::Beat { floor, .. }) => Event::Beat { incarnation, sent, floor },
                    Err(Error::Tombstoned(_)) => Event::Gone { incarnation },
                    Ok(other) => odd(Call::Beat, &other),
                    Err(error) => failed(Call::Beat, &error),
                }
            }
            Effect::Expire { incarnation, stood_still } => {
                match self.ask(Command::Expire { incarnation: incarnation.clone(), stood_still }).await {
                    Ok(Reply::Expired(gone)) => Event::Expired { incarnation, gone },
                    Ok(other) => odd(Call::Expire(incarnation), &other),
                    Err(error) => failed(Call::Expire(incarnation), &error),
                }
            }
            Effect::ReadMembers => match self.ask_when(Command::Members).await {
                Ok((at, Reply::Members(members))) => Event::Members { members, at },
                Ok((_, other)) => odd(Call::Members, &other),
                Err(error) => failed(Call::Members, &error),
            },
            Effect::ReadRoutes { since } => match self.ask(Command::Routes { since }).await {
                Ok(Reply::Routes { counter, changed }) => Event::Routes { since, counter, changed },
                Ok(other) => odd(Call::Routes, &other),
                Err(error) => failed(Call::Routes, &error),
            },
            Effect::Tell { incarnation, status } => {
                match self.ask(Command::SetStatus { incarnation: incarnation.clone(), status }).await {
                    Ok(_) => Event::Told { incarnation, status },
                    Err(error) => failed(Call::Status, &error),
                }
            }
            Effect::ReadClaims { shards } => self.claims(shards).await,
            Effect::Acquire { shard, caller, seen, floor } => {
                let key = Key::shard(shard);
                match self.ask(Command::Acquire { key, caller: caller.clone(), seen: seen.clone(), floor }).await {
                    Ok(Reply::Granted(term)) => Event::Granted { shard, incarnation: caller, seen, term },
                    Err(Error::Held { term, .. }) => Event::Refused { shard, incarnation: caller, term },
                    Err(Error::Tombstoned(_)) => Event::Gone { incarnation: caller },
                    Ok(other) => odd(Call::Acquire(shard), &other),
                    Err(error) => failed(Call::Acquire(shard), &error),
                }
            }
            Effect::Release { shard, incarnation, term } => {
                let fence = Fence::new(Key::shard(shard), incarnation, term);
                match self.ask(Command::Release { fence }).await {
                    // Refused: the claim is not this one's any more, which is what was asked for.
                    Ok(_) | Err(Error::Fenced { .. }) => Event::Released { shard, term },
                    Err(error) => failed(Call::Release(shard), &error),
                }
            }
            Effect::Give { shard, incarnation, term, to, floor } => {
                let fence = Fence::new(Key::shard(shard), incarnation, term);
                let (package, manifest) = (0, Vec::new());
                let give = Command::Transfer { fence: fence.clone(), to: to.clone(), package, manifest, floor };
                match self.ask(give).await {
                    Ok(Reply::Granted(new)) => Event::Given { shard, term, to, new },
                    Ok(other) => odd(Call::Release(shard), &other),
                    Err(Error::Fenced { .. }) => Event::Released { shard, term },
                    // Nobody is to wait for a member that is gone.
                    Err(Error::Tombstoned(_)) => match self.ask(Command::Release { fence }).await {
                        Ok(_) | Err(Error::Fenced { .. }) => Event::Released { shard, term },
                        Err(error) => failed(Call::Release(shard), &error),
                    },
                    Err(error) => failed(Call::Release(shard), &error),
                }
            }
            Effect::Transfer { shard, incarnation, term, to, package, manifest, floor } => {
                let fence = Fence::new(Key::shard(shard), incarnation, term);
                match self.ask(Command::Transfer { fence, to: to.clone(), package, manifest, floor }).await {
                    Ok(Reply::Granted(new)) => Event::Given { shard, term, to, new },
                    Ok(reply) => {
                        tracing::error!(%shard, ?reply, "an answer of another verb came to a transfer");
                        Event::NotGiven { shard, term }
                    }
                    Err(error) => {
                        tracing::warn!(%shard, %to, %error, "a shard could not be transferred: its claim is asked for anew");
                        Event::NotGiven { shard, term }
                    }
                }
            }
            Effect::Publish { shard, incarnation, term } => {
                let fence = Fence::new(Key::shard(shard), incarnation, term);
                match self.ask(Command::Publish { fence }).await {
                    Err(Error::Fenced { .. }) => return Event::Fenced { shard, term },
                    Err(error) => {
                        tracing::warn!(%shard, %error, "a route could not be published; the next check finds it");
                    }
                    Ok(_) => {}
                }
                Event::Tick
            }
            Effect::Deregister { incarnation } => match self.ask(Command::Deregister { incarnation }).await {
                Ok(_) => Event::Tick,
                Err(error) => failed(Call::Deregister, &error),
            },
        }
    }

    /// Before a registration: the constants of the cluster. Another cluster's node has no business in this one.
    async fn agree(&self) -> Result<(), Error> {
        for (name, value) in constants(self.shards) {
            let answer = self.ask(Command::Agree { name: name.to_owned(), value }).await;
            if let Err(error @ Error::Disagreement { .. }) = &answer {
                tracing::error!(%error, "the store is another cluster's now: the node stops");
                self.stop.stop();
            }
            answer?;
        }
        Ok(())
    }

    async fn claims(&self, shards: Vec<ShardId>) -> Event {
        let mut claims: Vec<Claim> = Vec::new();
        for page in shards.chunks(CLAIMS) {
            let keys = page.iter().map(|shard| Key::shard(*shard)).collect();
            match self.ask(Command::Claims { keys }).await {
                Ok(Reply::Claims(page)) => claims.extend(page),
                Ok(other) => return odd(Call::Claims(shards), &other),
                Err(error) => return failed(Call::Claims(shards), &error),
            }
        }
        Event::Claims { shards, claims }
    }
}

fn failed(call: Call, error: &Error) -> Event {
    match &call {
        // Many shards in one line would hide the rest of the log.
        Call::Claims(shards) => {
            tracing::warn!(shards = shards.len(), %error, "reading claims failed; it is made again");
        }
        call => tracing::warn!(?call, %error, "a call of the lease failed; it is made again"),
    }
    Event::Failed(call)
}

fn odd(call: Call, reply: &Reply) -> Event {
    tracing::error!(?call, ?reply, "an answer of another verb came");
    Event::Failed(call)
}
