//! A shard's durable side: its commits, its due work, its outbox.

pub(super) mod near;
pub(super) mod pending;
