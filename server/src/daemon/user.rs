//! What a game writes: [`Daemon`], and the errors of its handlers.

use std::{fmt, future::Future};

use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};

use super::context::Context;
use crate::store::BoxFuture;

/// An error of a daemon's handler: it ends the daemon, which is started again after a while.
///
/// Anything that is an error can be one, so `?` works in a handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(pub(super) String);

impl Fault {
    /// An error with a text for people.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl<E: std::error::Error> From<E> for Fault {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One of a set of background workers. Its handlers run one at a time, on a task of its own; each may await.
///
/// A handler must not block its thread: a daemon whose handler does not come back is cut off, and if its thread does not come back
/// either, the process ends. Whenever a handler ends the daemon has made progress; a long one says so with [`Context::progress`].
pub trait Daemon: Send + 'static {
    /// What it is told and asked. Encoded by name, so that fields may be added.
    type Message: Serialize + DeserializeOwned + Send + 'static;
    /// What it answers.
    type Answer: Serialize + DeserializeOwned + Send + 'static;

    /// Before anything else: read [`Context::state`], set timers.
    fn start(&mut self, ctx: &mut Context) -> impl Future<Output = Result<(), Fault>> + Send {
        let _ = ctx;
        async { Ok(()) }
    }

    /// A message. The answer goes to who asked; of a message that was only told it is dropped.
    fn on_message(
        &mut self,
        ctx: &mut Context,
        message: Self::Message,
    ) -> impl Future<Output = Result<Self::Answer, Fault>> + Send;

    /// A timer of [`Context::after`] or [`Context::every`].
    fn on_timer(&mut self, ctx: &mut Context, timer: &str) -> impl Future<Output = Result<(), Fault>> + Send {
        let _ = (ctx, timer);
        async { Ok(()) }
    }

    /// Whether it does what it is there for, looked at a few times in each liveness interval. An error ends it as any other.
    ///
    /// # Errors
    /// What is wrong.
    fn check(&mut self, ctx: &Context) -> Result<(), Fault> {
        let _ = ctx;
        Ok(())
    }

    /// Before its end, if that is planned: it moves, its set is stopped or its node drains. It may still write under its fence. Cut off
    /// after three seconds.
    fn stop(&mut self, ctx: &mut Context) -> impl Future<Output = ()> + Send {
        let _ = ctx;
        async {}
    }
}

/// Why a message was not handled.
pub(super) enum Unhandled {
    /// The sender's fault.
    Unreadable(String),
    /// The daemon's.
    Fault(Fault),
}

/// A daemon as an object.
pub(super) trait Act: Send {
    fn start<'a>(&'a mut self, ctx: &'a mut Context) -> BoxFuture<'a, Result<(), Fault>>;
    fn on_message<'a>(&'a mut self, ctx: &'a mut Context, body: Bytes) -> BoxFuture<'a, Result<Bytes, Unhandled>>;
    fn on_timer<'a>(&'a mut self, ctx: &'a mut Context, timer: &'a str) -> BoxFuture<'a, Result<(), Fault>>;
    fn check(&mut self, ctx: &Context) -> Result<(), Fault>;
    fn stop<'a>(&'a mut self, ctx: &'a mut Context) -> BoxFuture<'a, ()>;
}

/// A daemon of a game.
pub(super) struct Typed<D>(pub(super) D);

pub(super) fn encode<T: Serialize>(value: &T) -> Result<Bytes, String> {
    rmp_serde::to_vec_named(value).map(Bytes::from).map_err(|error| error.to_string())
}

pub(super) fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    rmp_serde::from_slice(body).map_err(|error| error.to_string())
}

impl<D: Daemon> Act for Typed<D> {
    fn start<'a>(&'a mut self, ctx: &'a mut Context) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(self.0.start(ctx))
    }

    fn on_message<'a>(&'a mut self, ctx: &'a mut Context, body: Bytes) -> BoxFuture<'a, Result<Bytes, Unhandled>> {
        Box::pin(async move {
            let message = decode(&body).map_err(Unhandled::Unreadable)?;
            let answer = self.0.on_message(ctx, message).await.map_err(Unhandled::Fault)?;
            encode(&answer).map_err(|error| Unhandled::Fault(Fault(error)))
        })
    }

    fn on_timer<'a>(&'a mut self, ctx: &'a mut Context, timer: &'a str) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(self.0.on_timer(ctx, timer))
    }

    fn check(&mut self, ctx: &Context) -> Result<(), Fault> {
        self.0.check(ctx)
    }

    fn stop<'a>(&'a mut self, ctx: &'a mut Context) -> BoxFuture<'a, ()> {
        Box::pin(self.0.stop(ctx))
    }
}
