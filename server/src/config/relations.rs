//! Relations between keys: what must hold for two values that are each right alone. The defaults are checked by a test.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use super::{Config, Diagnostic, Guests, section::Reader};

/// Checks every relation; a relation with a key that was refused is left out.
pub(super) fn check(config: &Config, reader: &mut Reader<'_>) {
    store(config, reader);
    lease(config, reader);
    gateway(config, reader);
    room(config, reader);
    handoff(config, reader);
    link(config, reader);
    binds(config, reader);
    roles(config, reader);
}

/// A process alone must be everything.
fn roles(config: &Config, reader: &mut Reader<'_>) {
    let node = &config.node;
    if config.store.url == "embedded" && !(node.has(super::Role::Gateway) && node.has(super::Role::Room)) {
        relate(
            reader,
            "node.roles",
            "store.url",
            "both roles with store.url (embedded): no other process shares that store, so nobody would do the rest",
        );
    }
}

/// What `store.url` may be.
const STORES: &str = "\"embedded\", \"redis://host:port/db\", \"redis+sentinel://host:port,host:port/master\" or \
                      \"redis+cluster://host:port,host:port\"";

fn store(config: &Config, reader: &mut Reader<'_>) {
    let url = config.store.url.as_str();
    let servers =
        ["redis://", "redis+sentinel://", "redis+cluster://"].iter().find_map(|scheme| url.strip_prefix(scheme));
    if url != "embedded" && servers.is_none_or(|servers| servers.is_empty() || servers.starts_with('/')) {
        complain(reader, "store.url", STORES);
    }
}

fn lease(config: &Config, reader: &mut Reader<'_>) {
    let lease = &config.lease;
    let usable = lease.ttl.saturating_sub(lease.margin);
    below(reader, ("lease.margin", lease.margin), ("lease.ttl", lease.ttl), "the margin is taken off the lease");
    // A margin that leaves nothing of the lease was complained about; the heartbeat is not at fault.
    if !usable.is_zero() {
        heartbeat(config, usable, reader);
    }
    at_most(
        reader,
        ("lease.call_deadline", lease.call_deadline),
        ("lease.margin", lease.margin),
        "an answer that comes after the margin proves nothing",
    );
}

fn heartbeat(config: &Config, usable: Duration, reader: &mut Reader<'_>) {
    let lease = &config.lease;
    below(
        reader,
        ("lease.heartbeat", lease.heartbeat),
        ("lease.ttl less lease.margin", usable),
        "a heartbeat must come before the lease is over",
    );
    let two = (lease.heartbeat + lease.call_deadline) * 2;
    if lease.heartbeat < usable && lease.call_deadline <= lease.margin {
        at_most(
            reader,
            ("lease.heartbeat", two),
            ("lease.ttl", lease.ttl),
            "two heartbeats with their deadlines must fit into the lease, so that one may fail",
        );
    }
}

fn gateway(config: &Config, reader: &mut Reader<'_>) {
    let gateway = &config.gateway;
    below(
        reader,
        ("gateway.ping_every", gateway.ping_every),
        ("gateway.idle_timeout", gateway.idle_timeout),
        "a socket that answers pings must not be taken for idle",
    );
    below(
        reader,
        ("gateway.resync_after", gateway.resync_after),
        ("gateway.close_after", gateway.close_after),
        "a slow client gets a fresh snapshot before it loses its socket",
    );
    count_at_most(
        reader,
        ("gateway.login_message", gateway.login_message),
        ("gateway.client_message", gateway.client_message),
        "limits are smaller before login",
    );
    count_at_most(
        reader,
        ("gateway.messages_per_second", gateway.messages_per_second as usize),
        ("gateway.messages_burst", gateway.messages_burst as usize),
        "a burst holds at least one second's messages",
    );
    count_at_most(
        reader,
        ("gateway.client_message", gateway.client_message),
        ("gateway.bytes_per_second", gateway.bytes_per_second),
        "one message must fit into a second's bytes",
    );
    if gateway.auth_secret_file.is_some() && gateway.auth_public_key_file.is_some() {
        complain(
            reader,
            "gateway.auth_public_key_file",
            "one kind of signature, not two: a key must not be usable as a secret",
        );
    }
    // A server that nobody can join is a mistake, not a choice.
    let tokens = gateway.auth_secret_file.is_some() || gateway.auth_public_key_file.is_some();
    let guests = match gateway.guests {
        Guests::Never => false,
        Guests::Loopback => gateway.listen.ip().is_loopback(),
        Guests::Always => true,
    };
    if !tokens && !guests && config.node.roles.contains(&super::Role::Gateway) {
        let key = if gateway.guests == Guests::Never { "gateway.guests" } else { "gateway.listen" };
        complain(
            reader,
            key,
            "a way to log in: gateway.auth_secret_file or gateway.auth_public_key_file, or gateway.guests = \"always\"",
        );
    }
}

fn room(config: &Config, reader: &mut Reader<'_>) {
    let room = &config.room;
    below(
        reader,
        ("room.checkpoint_every", room.checkpoint_every),
        ("room.unsaved_age", room.unsaved_age),
        "regular checkpoints must come before inputs are too old",
    );
    count_at_most(
        reader,
        ("room.max_commit", room.max_commit),
        ("room.max_checkpoint", room.max_checkpoint),
        "a commit larger than the largest room would hold up heartbeats for nothing",
    );
    count_at_most(
        reader,
        ("gateway.client_message", config.gateway.client_message),
        ("room.unsaved_bytes", room.unsaved_bytes),
        "the largest message must fit into what is kept",
    );
    count_at_most(
        reader,
        ("room.inputs_per_tick", room.inputs_per_tick),
        ("room.unsaved_inputs", room.unsaved_inputs),
        "what one tick applies must fit into what is kept",
    );
    below(
        reader,
        ("rewards.catch_up_max_age", config.rewards.catch_up_max_age),
        ("ledger.keep_identities", config.ledger.keep_identities),
        "a late grant whose identity was forgotten could be given twice",
    );
}

/// A target waits through a step of its source, and what it made waits for the next one.
fn handoff(config: &Config, reader: &mut Reader<'_>) {
    let (step, kept) = (config.handoff.step_deadline, config.handoff.prepare_ttl);
    if kept < 2 * step {
        relate(
            reader,
            "handoff.prepare_ttl",
            "handoff.step_deadline",
            &format!(
                "at least two handoff.step_deadline ({:?}): worlds made ready must outlive the steps before their claim",
                2 * step
            ),
        );
    }
}

fn link(config: &Config, reader: &mut Reader<'_>) {
    let link = &config.link;
    below(
        reader,
        ("link.ping_every", link.ping_every),
        ("link.idle_timeout", link.idle_timeout),
        "a peer that pings must not be taken for gone",
    );
    let Some(advertise) = &link.advertise else { return };
    let parts = advertise.rsplit_once(':').filter(|(host, _)| !host.is_empty());
    let port = parts.and_then(|(_, port)| port.parse::<u16>().ok()).filter(|port| *port != 0);
    let host = parts.map(|(host, _)| host.trim_start_matches('[').trim_end_matches(']'));
    let anywhere =
        host.and_then(|host| host.parse::<IpAddr>().ok()).is_some_and(|ip| ip.to_canonical().is_unspecified());
    if port.is_none() || anywhere {
        complain(
            reader,
            "link.advertise",
            "\"host:port\" of this node alone: other nodes cannot connect to \"any address\" or port 0",
        );
    }
}

fn binds(config: &Config, reader: &mut Reader<'_>) {
    if needs_secret(config.link.listen) && config.link.secret_file.is_none() {
        complain(
            reader,
            "link.listen",
            "a loopback address, or link.secret_file: links carry players' inputs and rooms",
        );
    }
    if config.link.listen.ip().is_unspecified() && config.link.advertise.is_none() && !reader.refused("link.listen") {
        complain(
            reader,
            "link.listen",
            "one address, or link.advertise: other nodes cannot connect to \"any address\"",
        );
    }
    if needs_secret(config.admin.listen) && config.admin.token_file.is_none() {
        complain(reader, "admin.listen", "a loopback address, or admin.token_file: the admin port shows every player");
    }
    let binds = [
        ("gateway.listen", config.gateway.listen),
        ("admin.listen", config.admin.listen),
        ("link.listen", config.link.listen),
    ];
    for (at, (key, address)) in binds.iter().enumerate() {
        for (other, taken) in &binds[..at] {
            if address.port() != 0 && taken.port() == address.port() {
                let blamed = if reader.height(other) > reader.height(key) { other } else { key };
                complain(reader, blamed, "a port that no other key names");
            }
        }
    }
}

fn needs_secret(listen: SocketAddr) -> bool {
    !listen.ip().is_loopback()
}

fn below(reader: &mut Reader<'_>, (key, value): (&str, Duration), (bound, limit): (&str, Duration), why: &str) {
    if value >= limit {
        relate(reader, key, bound, &format!("less than {bound} ({limit:?}): {why}"));
    }
}

fn at_most(reader: &mut Reader<'_>, (key, value): (&str, Duration), (bound, limit): (&str, Duration), why: &str) {
    if value > limit {
        relate(reader, key, bound, &format!("a value that agrees with {bound} ({limit:?}): {why}"));
    }
}

fn count_at_most(reader: &mut Reader<'_>, (key, value): (&str, usize), (bound, limit): (&str, usize), why: &str) {
    if value > limit {
        relate(reader, key, bound, &format!("at most {bound} ({limit}): {why}"));
    }
}

/// Puts the mistake at that key of the two which was set by the higher layer: nobody looks for it in the defaults.
fn relate(reader: &mut Reader<'_>, key: &str, bound: &str, expected: &str) {
    let bound_key = bound.split_whitespace().next().unwrap_or(bound);
    if reader.refused(bound_key) {
        return;
    }
    if reader.height(bound_key) > reader.height(key) {
        let expected = format!("a value with which {key} ({}) is {expected}", reader.written(key));
        complain(reader, bound_key, &expected);
    } else {
        complain(reader, key, expected);
    }
}

fn complain(reader: &mut Reader<'_>, key: &str, expected: &str) {
    if reader.refused(key) {
        return;
    }
    let place = reader.place(key);
    let found = reader.written(key);
    reader.report(Diagnostic { key: key.to_owned(), found, expected: expected.to_owned(), ..place });
}
