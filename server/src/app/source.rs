//! What the admin port is told of this node.

use std::{sync::Arc, time::Duration};

use tenure_shared::{IncarnationId, RoomId, ShardId};

use super::server::Inside;
use crate::{
    daemon::{self, Daemons},
    link::Directory,
    ops::{
        self, ClusterReport, Counts, DaemonError, DaemonOrder, DaemonsReport, MemberReport, OwnerReport, Readiness,
        ReloadError, ReloadReport, RewardsReport, RoomReport, ScheduleReport, ShardReport, Source, StatusReport,
    },
    runtime::{Tasks, Wall, tasks::Kind},
    store::{BoxFuture, Fence, Member, Store},
};

/// The node behind the admin port.
pub(super) struct NodeSource(pub(super) Arc<Inside>);

impl Source for NodeSource {
    fn readiness(&self) -> Readiness {
        let inside = &self.0;
        let now = inside.clock.now();
        Readiness {
            registered: inside.ownership.incarnation().is_some(),
            lease: inside.ownership.holds(now),
            store: inside.probe.is_fresh(),
            draining: inside.is_stopping(),
        }
    }

    fn status(&self) -> StatusReport {
        let inside = &self.0;
        let host = inside.host.as_ref().map(|host| host.status()).unwrap_or_default();
        let count = |stage: &str| host.stages.get(stage).copied().unwrap_or(0) as u64;
        let now = inside.store.now();
        let rooms: Vec<RoomReport> = host
            .list
            .iter()
            .map(|room| RoomReport {
                room: room.room.clone(),
                shard: room.room.shard(self.shards()),
                term: inside.ownership.fence(room.room.shard(self.shards())).map(|f| f.term()),
                tick: Some(room.tick),
                tick_rate: Some(room.tick_rate),
                seats: room.seats,
                connected: Some(room.connected),
                max_seats: Some(room.max_seats),
                state: room.stage.as_str().to_owned(),
                ticks_dropped: room.ticks_dropped,
                reason: room.reason.clone(),
            })
            .collect();
        StatusReport {
            node: inside.name.clone(),
            version: inside.version.to_owned(),
            incarnation: inside.ownership.incarnation().map(|incarnation| incarnation.to_string()),
            roles: inside.config.node.roles.iter().map(|role| role.name().to_owned()).collect(),
            pid: std::process::id(),
            started: inside.started,
            now,
            readiness: self.readiness(),
            ended: inside.say_ended(),
            addresses: *inside.addresses.lock(),
            counts: Counts {
                sockets: inside.sockets() as u64,
                seats: host.seats,
                rooms: host.rooms as u64,
                dormant: host.dormant as u64,
                parked_rooms: count("parked"),
                overdue: host.overdue,
            },
            shards: self.shard_reports(&host),
            rooms,
            rewards: Some(RewardsReport {
                file: inside.config.rewards.file.as_ref().map(|file| file.display().to_string()),
                hash: ops::hash_text(&inside.book.current()),
            }),
            daemons_missing: inside.daemons.as_ref().map(super::daemons::missing).unwrap_or_default(),
            schedules: self.schedules(now),
            events: Vec::new(),
        }
    }

    fn store(&self) -> &Store {
        &self.0.store
    }

    fn fence(&self, shard: ShardId) -> Option<Fence> {
        self.0.ownership.fence(shard)
    }

    fn shards(&self) -> u32 {
        self.0.config.shards.count
    }

    fn keep_identities(&self) -> Duration {
        self.0.config.ledger.keep_identities
    }

    fn unpark(&self, room: &RoomId) -> bool {
        self.0.host.as_ref().is_some_and(|host| host.unpark(room))
    }

    fn cluster(&self) -> ClusterReport {
        let inside = &self.0;
        let (view, now) = (inside.ownership.view(), inside.store.now());
        let me = inside.ownership.incarnation();
        let members = view.members.iter().map(|member| member_report(member, me.as_ref(), now)).collect();
        let owners = view.routes.iter().map(|(shard, owned)| OwnerReport {
            shard: *shard,
            term: owned.term,
            owner: owned.owner.as_ref().map(ToString::to_string),
        });
        let report = ClusterReport {
            node: inside.name.clone(),
            incarnation: me.as_ref().map(ToString::to_string),
            now,
            seen: view.at,
            shards: self.shards(),
            members,
            owners: owners.collect(),
            ownerless: Vec::new(),
            moves: inside.moves.newest(),
            daemons: inside.daemons.as_ref().map(Daemons::status).unwrap_or_default(),
        };
        report.counted()
    }

    fn daemons(&self) -> BoxFuture<'_, DaemonsReport> {
        let (node, daemons) = (self.0.name.clone(), self.0.daemons.clone());
        Box::pin(async move {
            let survey = match daemons {
                Some(daemons) => daemons.survey().await,
                None => daemon::Survey::default(),
            };
            DaemonsReport::new(node, self.0.store.now(), survey)
        })
    }

    fn order(&self, order: DaemonOrder) -> BoxFuture<'_, Result<serde_json::Value, DaemonError>> {
        Box::pin(super::daemons::order(self.0.daemons.clone(), order))
    }

    fn drain(&self) {
        self.0.asked.stop();
    }

    fn reload(&self) -> BoxFuture<'_, Result<ReloadReport, ReloadError>> {
        Box::pin(super::reload::reload(&self.0))
    }
}

/// Remembers what changes hands, for the admin page.
pub(super) fn watch_moves(inside: &Arc<Inside>, tasks: &Tasks) {
    let (inside, shutdown) = (inside.clone(), tasks.shutdown().clone());
    tasks.spawn("moves", Kind::Essential, async move {
        let mut changes = Directory::changes(&inside.ownership);
        loop {
            changes.seen();
            let view = inside.ownership.view();
            let owners = view.routes.iter().map(|(shard, owned)| (*shard, owned.owner.clone(), owned.term));
            inside.moves.look(inside.store.now(), owners);
            tokio::select! {
                biased;
                () = shutdown.stopped() => return,
                changed = changes.changed() => if changed.is_err() { return },
            }
        }
    });
}

fn member_report(member: &Member, me: Option<&IncarnationId>, now: Wall) -> MemberReport {
    let info = &member.info;
    let micros = |wall: Wall| i64::try_from(wall.0).unwrap_or(i64::MAX);
    MemberReport {
        node: info.node.clone(),
        incarnation: member.incarnation.to_string(),
        this: Some(&member.incarnation) == me,
        status: word(member.status),
        roles: info.roles.iter().filter(|word| !word.starts_with(daemon::ROLE_PREFIX)).cloned().collect(),
        version: info.version.clone(),
        revision: info.revision,
        link: info.link.clone(),
        public_url: info.public_url.clone(),
        zone_data: info.zone_data.clone(),
        schedules: member.schedules.clone(),
        beats: member.beats,
        lease_left_ms: micros(member.lease_until).saturating_sub(micros(now)) / 1_000,
        shards: 0,
    }
}

impl NodeSource {
    fn shard_reports(&self, host: &crate::room::host::HostStatus) -> Vec<ShardReport> {
        let mut rooms = std::collections::BTreeMap::new();
        for room in &host.list {
            *rooms.entry(room.room.shard(self.shards())).or_insert(0) += 1;
        }
        let held = (0..self.shards()).map(ShardId).filter_map(|shard| Some((shard, self.0.ownership.fence(shard)?)));
        held.map(|(shard, fence)| ShardReport {
            shard,
            term: fence.term(),
            rooms: rooms.get(&shard).copied().unwrap_or(0),
        })
        .collect()
    }

    fn schedules(&self, now: Wall) -> Vec<ScheduleReport> {
        let book = self.0.book.current();
        let mut rows: Vec<ScheduleReport> = book
            .live()
            .map(|schedule| ScheduleReport {
                id: schedule.id().to_string(),
                rooms: schedule.rooms_text(),
                rule: schedule.rule(),
                next: schedule.next_after(now),
            })
            .collect();
        rows.sort_by_key(|row| row.next.unwrap_or(Wall(u64::MAX)));
        rows
    }
}

/// A state as JSON has it.
fn word(state: impl serde::Serialize) -> String {
    let word = serde_json::to_value(state).ok();
    word.and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
}
