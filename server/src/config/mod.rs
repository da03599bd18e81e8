//! What people configure: `config/default.toml` < `--config FILE` < environment < `--set`, read strictly, all mistakes at once.

mod advice;
mod diagnostic;
mod gateway;
mod load;
mod network;
mod relations;
mod rule;
mod secret;
mod section;
mod sections;
mod tree;

pub use diagnostic::{Diagnostic, LineIndex, nearest, quoted};
pub use gateway::{GatewayConfig, Guests};
pub use load::{DEFAULTS, DEFAULTS_FILE, Errors, Sources, VARIABLE_PREFIX};
pub use network::Network;
pub(crate) use rule::parse_duration;
pub use secret::{Secret, Secrets};
pub use sections::{
    AdminConfig, DaemonsConfig, DrainConfig, HandoffConfig, LeaseConfig, LedgerConfig, LinkConfig, LogConfig,
    LogFormat, NodeConfig, RewardsConfig, Role, RoomConfig, ShardsConfig, StoreConfig,
};

/// Everything that can be configured. Made only by [`Config::load`], so that a value here is in its range and agrees with the others.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// `[node]`: who this process is.
    pub node: NodeConfig,
    /// `[gateway]`: players' sockets and their limits.
    pub gateway: GatewayConfig,
    /// `[link]`: streams between processes.
    pub link: LinkConfig,
    /// `[admin]`: probes, metrics, admin page.
    pub admin: AdminConfig,
    /// `[store]`: where durable state lives.
    pub store: StoreConfig,
    /// `[lease]`: proof of life.
    pub lease: LeaseConfig,
    /// `[shards]`: the unit of ownership.
    pub shards: ShardsConfig,
    /// `[room]`: ticks, checkpoints, dormancy, bounds of a room.
    pub room: RoomConfig,
    /// `[rewards]`: schedules.
    pub rewards: RewardsConfig,
    /// `[ledger]`: balances and what was already granted.
    pub ledger: LedgerConfig,
    /// `[handoff]`: planned moves between nodes.
    pub handoff: HandoffConfig,
    /// `[daemons]`: background workers of the cluster.
    pub daemons: DaemonsConfig,
    /// `[drain]`: how a node goes away.
    pub drain: DrainConfig,
    /// `[log]`: logs.
    pub log: LogConfig,
    /// What the `*_file` keys hold; never printed.
    pub secrets: Secrets,
}

impl Config {
    /// Every key, `section.key`, in the order of `config/default.toml`.
    pub fn keys() -> impl Iterator<Item = &'static str> {
        [
            NodeConfig::KEYS,
            GatewayConfig::KEYS,
            LinkConfig::KEYS,
            AdminConfig::KEYS,
            StoreConfig::KEYS,
            LeaseConfig::KEYS,
            ShardsConfig::KEYS,
            RoomConfig::KEYS,
            RewardsConfig::KEYS,
            LedgerConfig::KEYS,
            HandoffConfig::KEYS,
            DaemonsConfig::KEYS,
            DrainConfig::KEYS,
            LogConfig::KEYS,
        ]
        .into_iter()
        .flatten()
        .copied()
    }

    fn read(reader: &mut section::Reader<'_>) -> Option<Self> {
        // Each section is read before any `?`, so that one mistake does not hide those of the sections after it.
        let node = NodeConfig::read(reader);
        let gateway = GatewayConfig::read(reader);
        let link = LinkConfig::read(reader);
        let admin = AdminConfig::read(reader);
        let store = StoreConfig::read(reader);
        let lease = LeaseConfig::read(reader);
        let shards = ShardsConfig::read(reader);
        let room = RoomConfig::read(reader);
        let rewards = RewardsConfig::read(reader);
        let ledger = LedgerConfig::read(reader);
        let handoff = HandoffConfig::read(reader);
        let daemons = DaemonsConfig::read(reader);
        let drain = DrainConfig::read(reader);
        let log = LogConfig::read(reader);
        Some(Self {
            node: node?,
            gateway: gateway?,
            link: link?,
            admin: admin?,
            store: store?,
            lease: lease?,
            shards: shards?,
            room: room?,
            rewards: rewards?,
            ledger: ledger?,
            handoff: handoff?,
            daemons: daemons?,
            drain: drain?,
            log: log?,
            secrets: Secrets::default(),
        })
    }
}

impl Default for Config {
    /// The values of `config/default.toml`.
    fn default() -> Self {
        section::of_defaults(Self::read)
    }
}
