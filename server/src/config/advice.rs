//! Advice: what is allowed and probably not meant. Logged at the start, printed by `config check`.

use std::time::Duration;

use super::{Config, Role};

/// A failover by Sentinel takes two to three seconds: leases of this length live through it.
const SENTINEL_TTL: Duration = Duration::from_secs(10);
/// How addresses of a store under Sentinel begin.
const SENTINEL: &str = "redis+sentinel://";

impl Config {
    /// What should be looked at, for people; empty when there is nothing.
    pub fn advice(&self) -> Vec<String> {
        let mut advice = Vec::new();
        let ttl = self.lease.ttl;
        if self.store.url.starts_with(SENTINEL) && ttl < SENTINEL_TTL {
            advice.push(format!(
                "lease.ttl = {ttl:?} under Sentinel: a failover takes 2-3 s, in which every lease would lapse and every room stand still; \
                 {SENTINEL_TTL:?} is advised"
            ));
        }
        if self.store.url == "embedded" && self.store.accept_loss {
            advice.push("store.accept_loss has no meaning with the embedded store, which forgets nothing".to_owned());
        }
        if self.store.url == "embedded" && self.store.password_file.is_some() {
            advice.push("store.password_file has no meaning with the embedded store".to_owned());
        }
        if self.link.advertise.is_some() && !self.node.has(Role::Room) {
            advice.push(
                "link.advertise has no meaning without the role room: gateways call, nobody calls them".to_owned(),
            );
        }
        advice
    }
}
