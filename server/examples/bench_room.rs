//! The room of the peer benchmark (`loadtest/peers`): 20 Hz, speed 5 per tick, everybody who moves is sent to all.
//!
//! `bench_room serve --ready-file FILE …` serves it and prints `READY` once the file is there. On the first SIGUSR2 it starts to measure how late ticks are, on the second it
//! prints `LATE {…}`, as the peers do.
#![expect(elided_lifetimes_in_paths, reason = "systems read better without them")]
#![expect(clippy::needless_pass_by_value, reason = "system parameters are values")]

use std::{
    io::Write as _,
    process::ExitCode,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use tenure::prelude::*;

const TICK: Duration = Duration::from_millis(50);
const WORLD: f32 = 1000.0;
const SPEED: f32 = 5.0;

#[derive(Component, Clone, PartialEq, Serialize, Deserialize)]
struct Pos {
    x: f32,
    y: f32,
    ack: u32,
}

#[derive(Component, Default)]
struct Heading {
    dx: f32,
    dy: f32,
    seq: u32,
}

#[derive(Serialize, Deserialize)]
struct Input(u32, f32, f32);

fn bench(room: &mut RoomBuilder) {
    room.tick_rate(20).max_seats(50);
    room.component::<Pos>("pos").replicated().persisted();
    room.message::<Input>("input");
    room.on_join(joined).systems(Apply, steer).systems(Simulate, walk).systems(Stage::Send, late);
    room.scratch::<LastTick>();
}

fn joined(In(join): In<Join>, mut commands: Commands) -> Result<(), Refuse> {
    commands.entity(join.seat).insert((Pos { x: 500.0, y: 500.0, ack: 0 }, Heading::default()));
    Ok(())
}

fn steer(inbox: Inbox<Input>, mut headings: Query<&mut Heading>) {
    for (seat, Input(seq, dx, dy)) in inbox.iter() {
        if let Ok(mut heading) = headings.get_mut(seat) {
            *heading = Heading { dx: dx.clamp(-1.0, 1.0), dy: dy.clamp(-1.0, 1.0), seq: *seq };
        }
    }
}

fn walk(mut movers: Query<(&mut Pos, &Heading)>) {
    for (mut pos, heading) in &mut movers {
        if heading.dx != 0.0 || heading.dy != 0.0 {
            let x = (pos.x + heading.dx * SPEED).rem_euclid(WORLD);
            let y = (pos.y + heading.dy * SPEED).rem_euclid(WORLD);
            *pos = Pos { x, y, ack: heading.seq };
        }
    }
}

static MEASURE: AtomicBool = AtomicBool::new(false);
static LATE: Mutex<Vec<u32>> = Mutex::new(Vec::new());

#[derive(Resource, Default)]
struct LastTick(Option<Instant>);

#[expect(clippy::disallowed_methods, reason = "it measures the framework from outside: real time is the point")]
fn late(mut last: ResMut<LastTick>) {
    let now = Instant::now();
    let gap = last.0.replace(now).map(|before| now - before);
    if let (Some(gap), true) = (gap, MEASURE.load(Ordering::Relaxed))
        && let Ok(mut late) = LATE.lock()
    {
        late.push(u32::try_from(gap.saturating_sub(TICK).as_micros()).unwrap_or(u32::MAX));
    }
}

fn toggle() {
    let Ok(mut late) = LATE.lock() else { return };
    if !MEASURE.fetch_xor(true, Ordering::Relaxed) {
        late.clear();
        return;
    }
    late.sort_unstable();
    let at = |p: f64| late.get(((late.len().max(1) - 1) as f64 * p) as usize).map_or(0.0, |us| f64::from(*us) / 1000.0);
    let line =
        format!("LATE {{\"ticks\":{},\"p50\":{},\"p99\":{},\"max\":{}}}\n", late.len(), at(0.5), at(0.99), at(1.0));
    drop(std::io::stdout().write_all(line.as_bytes()));
}

/// Waits for the ready file, as a deploy script would, and says so in the peers' word.
async fn announce() {
    let mut line = std::env::args().skip_while(|arg| arg != "--ready-file");
    let Some(path) = line.nth(1) else { return };
    while !std::path::Path::new(&path).exists() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(std::io::stdout().write_all(b"READY\n"));
}

fn main() -> ExitCode {
    std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let Ok(runtime) = runtime else { return };
        runtime.block_on(async {
            announce().await;
            use tokio::signal::unix::{SignalKind, signal};
            let Ok(mut signals) = signal(SignalKind::user_defined2()) else { return };
            while signals.recv().await.is_some() {
                toggle();
            }
        });
    });
    App::new("bench", env!("CARGO_PKG_VERSION")).room("bench", bench).main()
}
