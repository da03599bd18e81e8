//! Carrying out the effects of the step machine against the store; the outcome of each is the next event.

use tenure_shared::{IncarnationId, ShardId, Term};

use super::event::{Call, Effect, Event, Times};
use crate::{
    runtime::Clock,
    store::{Claim, Command, Error, Fence, Key, MemberInfo, Reply, Store},
};

/// Claims read at once.
const CLAIMS: u32 = 1_000;

/// What one call needs.
pub(super) struct Caller {
    pub(super) store: Store,
    pub(super) clock: Clock,
    pub(super) times: Times,
    pub(super) shards: u32,
}

impl Caller {
    async fn ask(&self, command: Command) -> Result<Reply, Error> {
        tokio::select! {
            biased;
            stamped = self.store.execute(command) => stamped.reply,
            () = self.clock.sleep(self.times.deadline) => Err(Error::Unavailable("no answer within the deadline".to_owned())),
        }
    }

    pub(super) async fn call(&self, effect: Effect, register: Option<(IncarnationId, MemberInfo)>) -> Event {
        let (ttl, sent) = (self.times.ttl, self.clock.now());
        match effect {
            Effect::Register => {
                let Some((incarnation, info)) = register else { return Event::Failed(Call::Register) };
                match self.ask(Command::Register { incarnation: incarnation.clone(), info, ttl }).await {
                    Ok(_) => Event::Registered { incarnation, sent },
                    Err(error) => failed(Call::Register, &error),
                }
            }
            Effect::Beat { incarnation } => {
                match self.ask(Command::Heartbeat { incarnation: incarnation.clone(), ttl, floor: Term(0) }).await {
                    Ok(Reply::Beat { floor, .. }) => Event::Beat { incarnation, sent, floor },
                    Err(Error::Tombstoned(_)) => Event::Gone { incarnation },
                    Ok(other) => odd(Call::Beat, &other),
                    Err(error) => failed(Call::Beat, &error),
                }
            }
            Effect::Expire { incarnation } => {
                match self.ask(Command::Expire { incarnation: incarnation.clone(), stood_still: None }).await {
                    Ok(Reply::Expired(gone)) => Event::Expired { incarnation, gone },
                    Ok(other) => odd(Call::Expire, &other),
                    Err(error) => failed(Call::Expire, &error),
                }
            }
            Effect::Tell { incarnation, status } => {
                match self.ask(Command::SetStatus { incarnation: incarnation.clone(), status }).await {
                    Ok(_) => Event::Told { incarnation, status },
                    Err(error) => failed(Call::Status, &error),
                }
            }
            Effect::ReadClaims => self.claims().await,
            Effect::Acquire { shard, caller, seen, floor } => {
                let key = Key::shard(shard);
                match self.ask(Command::Acquire { key, caller: caller.clone(), seen: seen.clone(), floor }).await {
                    Ok(Reply::Granted(term)) => Event::Granted { shard, incarnation: caller, seen, term },
                    Err(Error::Held { holder, .. }) => Event::Refused { shard, incarnation: caller, holder },
                    Err(Error::Tombstoned(_)) => Event::Gone { incarnation: caller },
                    Ok(other) => odd(Call::Acquire(shard), &other),
                    Err(error) => failed(Call::Acquire(shard), &error),
                }
            }
            Effect::Release { shard, incarnation, term } => {
                let fence = Fence::new(Key::shard(shard), incarnation, term);
                self.give_up(Command::Release { fence }).await
            }
            Effect::Deregister { incarnation } => self.give_up(Command::Deregister { incarnation }).await,
        }
    }

    async fn claims(&self) -> Event {
        let mut claims: Vec<Claim> = Vec::new();
        for first in (0..self.shards).step_by(CLAIMS as usize) {
            let keys = (first..self.shards.min(first + CLAIMS)).map(|shard| Key::shard(ShardId(shard))).collect();
            match self.ask(Command::Claims { keys }).await {
                Ok(Reply::Claims(page)) => claims.extend(page),
                Ok(other) => return odd(Call::Claims, &other),
                Err(error) => return failed(Call::Claims, &error),
            }
        }
        Event::Claims(claims)
    }

    /// A last call: what it could not give up lapses by itself.
    async fn give_up(&self, command: Command) -> Event {
        if let Err(error) = self.ask(command).await {
            tracing::warn!(%error, "giving up at the end failed; the lease will lapse");
        }
        Event::Tick
    }
}

fn failed(call: Call, error: &Error) -> Event {
    tracing::warn!(?call, %error, "a call of the lease failed; it is made again");
    Event::Failed(call)
}

fn odd(call: Call, reply: &Reply) -> Event {
    tracing::error!(?call, ?reply, "an answer of another verb came");
    Event::Failed(call)
}
