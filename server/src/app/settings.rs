//! From the configuration to the parts: which key means what to whom.

use std::path::Path;

use crate::{
    cli,
    config::{Config, Secret},
    gateway::{AuthConfig, UnsavedBounds},
    link::net,
    ownership::{self, Times},
    plugin::{RoomBuilder, RoomKind},
    room::{host::HostConfig, world::WorldSettings},
    runtime::{Rng, Tasks},
    store::MemberInfo,
    timers::{self, RewardBook},
};

use tenure_shared::ids::ID_HASH_VERSION;

use super::{
    App,
    ports::Ports,
    server::{Inside, StartError},
};

/// Link address of a process that nobody calls.
pub(super) const LOCAL: &str = "local";

pub(super) fn ownership(config: &Config) -> ownership::Options {
    let lease = &config.lease;
    ownership::Options {
        shards: config.shards.count,
        times: Times {
            ttl: lease.ttl,
            heartbeat: lease.heartbeat,
            deadline: lease.call_deadline,
            margin: lease.margin,
            claim_check: lease.claim_check,
        },
        concurrent: config.handoff.concurrent,
        ..ownership::Options::default()
    }
}

pub(super) fn node_name(config: &Config) -> String {
    config.node.name.clone().unwrap_or_else(|| {
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let plain: String = name.chars().filter(|c| c.is_ascii_alphanumeric() || "._-".contains(*c)).take(64).collect();
        if plain.is_empty() { "node".to_owned() } else { plain }
    })
}

/// What the node says about itself. The ports are the ones that were bound.
pub(super) fn member_info(config: &Config, app: &App, ports: &Ports) -> Result<MemberInfo, StartError> {
    let link = match (&config.link.advertise, ports.link()) {
        (Some(advertised), _) => advertised.clone(),
        (None, Some(bound)) if bound.ip().is_unspecified() => {
            return Err(StartError::Unreachable(format!(
                "link.listen = {bound}: other nodes cannot connect to \"any address\"; set link.advertise to this node's, like \
                 \"10.0.0.7:{}\"",
                bound.port()
            )));
        }
        (None, Some(bound)) => bound.to_string(),
        // Nobody dials it: a gateway calls, and one process alone has no links.
        (None, None) => LOCAL.to_owned(),
    };
    let play = ports.play().map(|bound| format!("http://{bound}")).unwrap_or_default();
    Ok(MemberInfo {
        node: node_name(config),
        roles: config.node.roles.iter().map(|role| role.name().to_owned()).collect(),
        version: app.version.to_owned(),
        revision: config.node.revision,
        link,
        public_url: config.node.public_url.clone().unwrap_or(play),
        zone_data: timers::zone_data_version().to_owned(),
    })
}

pub(super) fn host(config: &Config) -> HostConfig {
    let room = &config.room;
    HostConfig {
        shards: config.shards.count,
        threads: room.threads,
        catch_up_ticks: room.catch_up_ticks,
        checkpoint_every: room.checkpoint_every,
        max_commit: room.max_commit,
        idle_after: room.idle_after,
        dispose_after: room.dispose_after,
        max_rooms: room.max_rooms,
        restarts: room.restarts,
        restart_window: room.restart_window,
        stall_after: room.stall_after,
        kill_after: room.kill_after,
        give_deadline: config.handoff.step_deadline,
        retry_delay: config.rewards.retry_delay,
        max_attempts: config.rewards.max_attempts,
        regions: config.daemons.regions.clone(),
        world: WorldSettings {
            node: node_name(config).into(),
            inputs_per_tick: room.inputs_per_tick,
            reconnect_grace: room.reconnect_grace,
            unsaved_inputs: room.unsaved_inputs,
            unsaved_bytes: room.unsaved_bytes,
            max_checkpoint: room.max_checkpoint,
            max_grants_per_step: room.max_grants_per_step,
            max_known: room.max_known,
            max_tasks: room.max_tasks,
            max_timers: room.max_timers,
            max_pending_replies: room.max_pending_replies,
            max_out_bytes: room.max_out_bytes,
        },
    }
}

/// What links need, the same on both sides. Peers are of one cluster if they agree on what makes two of them understand each other.
pub(super) fn links(inside: &Inside, rng: &Rng, tasks: &Tasks) -> net::Common {
    let config = &inside.config;
    let agreed = format!("{} shards, id hash {ID_HASH_VERSION}, link protocol {}", config.shards.count, net::PROTOCOL);
    net::Common {
        name: inside.name.clone(),
        cluster: xxhash_rust::xxh3::xxh3_64(agreed.as_bytes()),
        secret: config.secrets.link.clone(),
        clock: inside.clock.clone(),
        rng: rng.fork(),
        tasks: tasks.clone(),
        limits: net::Limits::new(&config.link),
    }
}

pub(super) fn auth(config: &Config) -> AuthConfig {
    let text = |secret: &Secret| String::from_utf8_lossy(secret.expose()).into_owned();
    AuthConfig {
        secret: config.secrets.auth.as_ref().map(|secret| secret.expose().to_vec()),
        public_key: config.secrets.auth_public_key.as_ref().map(text),
        issuer: config.gateway.auth_issuer.clone(),
        audience: config.gateway.auth_audience.clone(),
        leeway: config.gateway.auth_leeway,
    }
}

pub(super) fn unsaved(config: &Config) -> UnsavedBounds {
    let room = &config.room;
    UnsavedBounds { count: room.unsaved_inputs, bytes: room.unsaved_bytes, age: room.unsaved_age }
}

pub(super) fn kinds(app: &App, config: &Config) -> Result<Vec<std::sync::Arc<RoomKind>>, StartError> {
    let (mut kinds, mut faults) = (Vec::new(), Vec::new());
    for (name, plugin) in &app.rooms {
        let (plugin, rate) = (plugin.clone(), config.room.tick_rate);
        let build = move |room: &mut RoomBuilder| {
            // A kind that names a rate of its own overrides this one.
            room.tick_rate(rate);
            plugin.build(room);
        };
        match RoomKind::new(name, build) {
            Ok(kind) => kinds.push(kind),
            Err(found) => faults.extend(found),
        }
    }
    if faults.is_empty() { Ok(kinds) } else { Err(StartError::Game(faults)) }
}

/// The schedules of the file that the configuration names, or else the game's own. Reads a file.
///
/// # Errors
/// Every mistake, a line each.
pub(super) fn book(app: &App, config: &Config) -> Result<RewardBook, String> {
    match (&config.rewards.file, app.rewards) {
        (Some(path), _) => read_book(path, config),
        (None, Some((file, text))) => parse_book(file, text, config),
        (None, None) => Ok(RewardBook::empty()),
    }
}

/// The schedules of a file.
///
/// # Errors
/// Every mistake, a line each.
pub(super) fn read_book(path: &Path, config: &Config) -> Result<RewardBook, String> {
    let name = path.display().to_string();
    let text = cli::schedules_text(path).map_err(|error| format!("{name}: {error}"))?;
    parse_book(&name, &text, config)
}

fn parse_book(file: &str, text: &str, config: &Config) -> Result<RewardBook, String> {
    RewardBook::parse_with(file, text, &cli::schedule_limits(config)).map_err(|mistakes| {
        let lines: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
        lines.join("\n")
    })
}
