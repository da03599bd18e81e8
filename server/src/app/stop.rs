//! How a node ends: a drain, as far as there is somebody to give to, and a save of what is left (C45, C53).
//!
//! ```text
//! not ready, /ws 503, members see draining
//!   ├ daemons move to other nodes
//!   ├ shards move to other nodes, several at a time       while there is a node that takes them and time to save the rest
//!   └ the gateway serves on for drain.endpoint_lag        while load balancers may still send to it: only if there is another gateway
//! clients move to other gateways (`move`)                 if there are any; they have their seats there before they leave
//! what is left is saved → sockets are closed (4001, or 1012 where nobody else serves) → claims released, deregistered → admin port closed
//! ```

use std::{sync::atomic::Ordering, time::Duration};

use super::server::{LAST_STEPS, Server};
use crate::{config::Role, gateway::Farewell, room::host::StopReport, runtime::Mono, store::Status};

/// Time between two looks at how far a drain is, beside what ownership tells.
const LOOK: Duration = Duration::from_millis(50);
/// How long the admin port of a node that it told to drain stays after the end: five looks of `drain --wait`.
const LINGER: Duration = Duration::from_secs(1);
/// Time between two lines of the log about it.
const SAY: Duration = Duration::from_secs(2);

/// How a node ended.
#[derive(Debug)]
pub struct StopOutcome {
    /// What the room host could not save.
    pub rooms: StopReport,
    /// Shards that another node was to take and did not in time; they are saved and released.
    pub left: usize,
    /// Sockets that had to be cut off.
    pub cut_off: usize,
}

impl StopOutcome {
    /// Whether everything is in the store.
    pub fn is_clean(&self) -> bool {
        self.rooms.is_clean()
    }
}

/// When the phases of a stop end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Times {
    /// The gateway may close its sockets from here on.
    lag: Mono,
    /// No more shards are given away.
    give: Mono,
    /// How long clients have to move to other gateways, from the end of the giving on.
    moving: Duration,
    /// No more rooms are saved.
    save: Mono,
    /// Everything.
    end: Mono,
}

impl Times {
    /// The lag comes before the grace; clients have a quarter of what is left for rooms, where they can move (`moves`); giving has two thirds of the rest, so that what does not move can still be saved.
    fn new(now: Mono, lag: Duration, grace: Duration, moves: bool) -> Self {
        let rooms = grace.saturating_sub(LAST_STEPS * 2).max(grace / 2);
        let moving = if moves { rooms / 4 } else { Duration::ZERO };
        let lag_end = now.plus(lag);
        let give = lag_end.plus((rooms - moving) * 2 / 3);
        Self { lag: lag_end, give, moving, save: lag_end.plus(rooms), end: lag_end.plus(grace) }
    }
}

impl Server {
    /// Ends the node within `drain.shutdown_grace`, and `drain.endpoint_lag` before it where another gateway serves: not ready and no
    /// new sockets, shards given to other nodes, clients told to move to other gateways, the rest saved, the sockets that are left closed, claims released,
    /// admin port closed. Call it once.
    pub async fn stop(&self) -> StopOutcome {
        let inside = &self.inside;
        let (clock, drain) = (&inside.clock, &inside.config.drain);
        inside.stopping.store(true, Ordering::Release);
        if let Some(gateway) = &self.gateway {
            gateway.drain();
        }
        let begun = clock.now();
        inside.ownership.drain().await;
        // Who is to have what this node has may have been started a moment ago.
        tokio::select! {
            biased;
            () = inside.ownership.informed() => {}
            () = clock.sleep(inside.config.lease.call_deadline * 2) => tracing::warn!("the members could not be read: those known before count"),
        }
        let moves = self.gateway.is_some() && self.others(Role::Gateway);
        let lag = if moves { drain.endpoint_lag } else { Duration::ZERO };
        let times = Times::new(begun, lag, drain.shutdown_grace, moves);
        tracing::info!(phase = "draining", ?lag, grace = ?drain.shutdown_grace, sockets = inside.sockets(), shards = inside.ownership.shards().len(), "stopping");
        if let Some(daemons) = &inside.daemons {
            daemons.drain().await;
        }
        let left = self.give(times.give).await;
        if let Some(gateway) = self.gateway.as_ref().filter(|_| moves) {
            tracing::info!(phase = "serving on", left = ?times.lag.since(clock.now()), sockets = inside.sockets(), "draining");
            clock.sleep_until(times.lag).await;
            let urls = self.other_urls();
            tracing::info!(phase = "moving clients", ?urls, sockets = inside.sockets(), "draining");
            let stay = gateway.move_clients(&urls, times.moving).await;
            tracing::info!(phase = "moved clients", stay, "draining");
        }
        tracing::info!(phase = "saving", shards = inside.ownership.shards().len(), "stopping");
        let rooms = match &inside.host {
            Some(host) => host.stop(times.save).await,
            None => StopReport::default(),
        };
        if let Some(daemons) = &inside.daemons {
            let rest = times.end.since(clock.now()).min(LAST_STEPS);
            tokio::select! {
                () = daemons.leave() => {}
                () = clock.sleep(rest) => tracing::warn!("not every daemon has stopped in time: their claims end with the lease"),
            }
        }
        let mut cut_off = 0;
        if let Some(gateway) = &self.gateway {
            let farewell = if self.others(Role::Gateway) { Farewell::Elsewhere } else { Farewell::ComeBack };
            let rest = times.end.since(clock.now()).saturating_sub(LAST_STEPS / 2);
            cut_off = gateway.stop(rest.min(LAST_STEPS), farewell).await;
        }
        let released = tokio::select! {
            () = inside.ownership.leave() => true,
            () = clock.sleep(LAST_STEPS) => {
                tracing::warn!("claims could not be released in time: they end with the lease");
                false
            }
        };
        self.tasks.shutdown().stop();
        self.tasks.wait(LAST_STEPS).await;
        if released && rooms.is_clean() {
            self.say_ended().await;
        }
        self.admin.shutdown().stop();
        self.admin.wait(LAST_STEPS).await;
        tracing::info!(unsaved = rooms.unsaved.len(), left, cut_off, "stopped");
        StopOutcome { rooms, left, cut_off }
    }

    /// Lets whoever told this node by the admin port to drain see that it has ended in order: a port that is closed says nothing.
    async fn say_ended(&self) {
        let (inside, clock) = (&self.inside, &self.inside.clock);
        inside.ended.stop();
        if !self.is_asked_to_drain() {
            return;
        }
        tokio::select! {
            // The answer is still on its way.
            () = inside.ended_told.stopped() => clock.sleep(LOOK * 2).await,
            () = clock.sleep(LINGER) => {}
        }
    }

    /// Whether another member of this role serves, as far as is known.
    fn others(&self, role: Role) -> bool {
        let (view, me) = (self.inside.ownership.view(), self.inside.ownership.incarnation());
        view.members.iter().any(|member| {
            Some(&member.incarnation) != me.as_ref()
                && member.status == Status::Serving
                && member.info.roles.iter().any(|name| name == role.name())
        })
    }

    /// Where clients find the other gateways that serve: sockets' addresses, each once.
    fn other_urls(&self) -> Vec<String> {
        let (view, me) = (self.inside.ownership.view(), self.inside.ownership.incarnation());
        let serves = |member: &&crate::store::Member| {
            Some(&member.incarnation) != me.as_ref()
                && member.status == Status::Serving
                && member.info.roles.iter().any(|name| name == Role::Gateway.name())
        };
        let urls = view.members.iter().filter(serves).filter_map(|member| socket_url(&member.info.public_url));
        urls.collect::<std::collections::BTreeSet<_>>().into_iter().collect()
    }

    /// Waits while the room host gives shards away; how many were to move and did not.
    async fn give(&self, until: Mono) -> usize {
        let inside = &self.inside;
        if inside.host.is_none() {
            return 0;
        }
        let (clock, ownership) = (&inside.clock, &inside.ownership);
        let (mut changes, mut say) = (ownership.changes(), clock.now().plus(SAY));
        loop {
            changes.seen();
            // Those in doubt too: a transfer whose answer is late may not have been carried out, and then they are nobody's but this node's.
            let left = ownership.undecided();
            if left == 0 {
                return 0;
            }
            if !self.others(Role::Room) {
                tracing::info!(shards = left, "nobody takes the shards: their rooms are saved here");
                return 0;
            }
            let now = clock.now();
            if now >= until {
                tracing::warn!(
                    shards = left,
                    "there is no more time to give shards away: their rooms are saved and released"
                );
                return left;
            }
            if now >= say {
                tracing::info!(shards = left, sockets = inside.sockets(), "draining");
                say = now.plus(SAY);
            }
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return left },
                () = clock.sleep(LOOK) => {}
            }
        }
    }
}

/// The socket's address at a gateway's public URL; `None` if nobody elsewhere can use it ("any address"), so that clients rather try the
/// address that they have.
fn socket_url(public: &str) -> Option<String> {
    let rest = public.strip_prefix("http").or_else(|| public.strip_prefix("ws"))?;
    let (scheme, place) = rest.split_once("://").filter(|(s, _)| matches!(*s, "" | "s"))?;
    let (host, path) = place.split_once('/').unwrap_or((place, ""));
    let any = host.parse::<std::net::SocketAddr>().is_ok_and(|addr| addr.ip().is_unspecified());
    if host.is_empty() || any {
        return None;
    }
    Some(format!("ws{scheme}://{host}/{}", if path.is_empty() { "ws" } else { path }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_at_public_urls() {
        for (public, url) in [
            ("https://play.example", Some("wss://play.example/ws")),
            ("http://127.0.0.1:7777", Some("ws://127.0.0.1:7777/ws")),
            ("https://example.org/game/ws", Some("wss://example.org/game/ws")),
            ("wss://play.example/", Some("wss://play.example/ws")),
            ("http://0.0.0.0:7777", None),
            ("http://[::]:7777", None),
            ("", None),
            ("https://", None),
            ("httpx://a", None),
            ("ftp://a", None),
        ] {
            assert_eq!(socket_url(public).as_deref(), url, "{public}");
        }
    }

    #[test]
    fn what_does_not_move_can_still_be_saved() {
        let now = Mono(1_000_000_000);
        for (lag, grace, moves) in
            [(5_000, 25_000, true), (0, 25_000, false), (0, 1_000, true), (0, 1_000, false), (5_000, 3_600_000, true)]
        {
            let (lag, grace) = (Duration::from_millis(lag), Duration::from_millis(grace));
            let times = Times::new(now, lag, grace, moves);
            assert!(
                now <= times.lag && times.lag < times.give && times.give < times.save && times.save < times.end,
                "{times:?}"
            );
            assert_eq!(
                times.end.since(now),
                lag + grace,
                "nothing takes longer than terminationGracePeriodSeconds allows"
            );
            assert!(times.save.since(times.give.plus(times.moving)) >= grace / 10, "{times:?}");
        }
    }
}
