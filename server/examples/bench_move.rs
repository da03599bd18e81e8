//! What a planned move costs one room beside the store: the last checkpoint, reading it, the world restored, seats attached again with their
//! snapshots. `bench_move [ENTITIES [SEATS]]`, by default 2,000 and 50.
#![expect(elided_lifetimes_in_paths, reason = "systems read better without them")]
#![expect(
    clippy::needless_pass_by_value,
    clippy::print_stdout,
    reason = "system parameters are values, and it prints its result"
)]
#![expect(clippy::expect_used, reason = "a measurement that cannot be made says so")]

use std::time::{Duration, Instant};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tenure::{
    link::{Attach, ConnId, GatewayId, Mode},
    prelude::*,
    room::world::{RoomWorld, WorldSettings},
    test::TestRoom,
};
use tenure_shared::{Seq, Term};

#[derive(Component, Clone, Serialize, Deserialize)]
struct Pos(f32, f32, f32);
#[derive(Component, Clone, Serialize, Deserialize)]
struct Health(u32);
#[derive(Component, Clone, Serialize, Deserialize)]
struct Name(String);

#[derive(Serialize, Deserialize)]
struct Fill(u32);

fn fill(inbox: Inbox<Fill>, mut commands: Commands) {
    for n in inbox.iter().flat_map(|(_, Fill(count))| 0..*count) {
        let at = n as f32;
        commands.spawn((Pos(at, at / 3.0, -at), Health(n), Name(format!("thing {n}"))));
    }
}

fn game(room: &mut RoomBuilder) {
    room.max_seats(1_000);
    room.component::<Pos>("pos").replicated().persisted();
    room.component::<Health>("health").replicated().persisted();
    room.component::<Name>("name").replicated().persisted();
    room.message::<Fill>("fill");
    room.systems(Apply, fill);
}

/// The middle of some runs.
fn median(runs: u32, mut run: impl FnMut()) -> Duration {
    let mut times: Vec<_> = (0..runs)
        .map(|_| {
            #[expect(clippy::disallowed_methods, reason = "it measures the machine")]
            let start = Instant::now();
            run();
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

fn main() {
    let mut args = std::env::args().skip(1).filter_map(|arg| arg.parse::<u32>().ok());
    let (entities, seats) = (args.next().unwrap_or(2_000), args.next().unwrap_or(50));
    let settings = WorldSettings { max_checkpoint: usize::MAX, ..WorldSettings::default() };
    let mut room = TestRoom::with("bench", game, settings.clone());
    let players: Vec<_> = (0..seats).map(|n| room.join(&format!("player{n}"))).collect();
    room.send(players[0], "fill", &Fill(entities));
    room.tick(2);
    let kind = room.world().kind().clone();
    let checkpoint = room.world().checkpoint(false);
    let encode = median(21, || drop(room.world().checkpoint(false)));
    let hash = median(21, || {
        std::hint::black_box(xxhash(&checkpoint.body));
    });
    let restore = median(21, || {
        drop(RoomWorld::restore(&kind, &settings, Term(2), &checkpoint).expect("it is sound"));
    });
    let members = room.world().attachments();
    let mut snapshot = 0;
    let attach = median(5, || {
        let mut world = RoomWorld::restore(&kind, &settings, Term(2), &checkpoint).expect("it is sound");
        for member in &members {
            let attached = world.attach(&Attach {
                gateway: GatewayId(1),
                conn: ConnId(u64::from(member.seat.0)),
                attempt: 1,
                room: world.room().clone(),
                mode: Mode::JoinOrCreate,
                player: member.player.clone(),
                options: Bytes::new(),
                metadata: Bytes::new(),
                seat: Some(member.seat),
                resumes: 0,
                rejoin: true,
                generation: member.generation,
                first: Seq(1),
                shown: (Term(1), world.tick_number()),
                table: Some(kind.table_hash()),
            });
            snapshot = attached.expect("a seat").snapshot.len();
        }
    });
    println!("{entities} entities, {seats} seats: checkpoint {} bytes", checkpoint.body.len());
    println!("encode {encode:?}, hash {hash:?}, restore {restore:?}");
    println!(
        "restore and attach all {attach:?}; a snapshot has {snapshot} bytes, all {}",
        snapshot as u64 * u64::from(seats)
    );
}

fn xxhash(body: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(body)
}
