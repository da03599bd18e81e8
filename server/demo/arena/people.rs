//! Coming, going, and what one is called.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure::prelude::*;

use super::{
    board::Stale,
    parts::{COLORS, Heading, Inputs, Player, Pos, Wallet, clean},
};

/// Longest name, characters.
const NAME: usize = 20;
/// Who is gone for so long leaves the field until he is back.
const ASLEEP_AFTER: Duration = Duration::from_secs(10);

/// Join options: `{name?}`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Options {
    name: Option<String>,
}

pub(crate) fn joined(
    In(join): In<Join>,
    mut commands: Commands,
    mut rng: RoomRng,
    seats: Seats,
    mut board: ResMut<Stale>,
) -> Result<(), Refuse> {
    let options: Options = join.options()?;
    let name = match options.name.as_deref().map(str::trim) {
        None | Some("") => guest_name(&join.player),
        Some(name) => clean(name, NAME)?,
    };
    let number = seats.get(join.seat).map_or(0, |seat| u64::from(seat.id().0));
    let player = Player { name, color: (number % COLORS) as u8, score: 0, hat: 0 };
    let at = Pos::anywhere(&mut rng, 100.0);
    commands.entity(join.seat).insert((at, player, Wallet::default(), Inputs::default(), Heading::default()));
    board.0 = true;
    Ok(())
}

fn guest_name(player: &PlayerId) -> String {
    let id = player.as_str();
    match id.strip_prefix("guest:") {
        Some(id) => format!("Guest {}", id.chars().take(4).collect::<String>()),
        None => id.chars().take(NAME).collect(),
    }
}

/// The socket is lost: stand still, and leave the field if it lasts.
pub(crate) fn dropped(In(seat): In<Entity>, mut headings: Query<&mut Heading>, seats: Seats, mut timers: Timers) {
    if let Ok(mut heading) = headings.get_mut(seat) {
        heading.set_if_neq(Heading::default());
    }
    if let Some(seat) = seats.get(seat) {
        timers.after("asleep", u64::from(seat.id().0), ASLEEP_AFTER);
    }
}

/// Asked when the timer fires: is he still gone?
pub(crate) fn still_gone(In(fired): In<Fired>, seats: Seats) -> bool {
    seat_of(&fired, &seats).and_then(|seat| seats.get(seat)).is_some_and(|seat| !seat.connected())
}

pub(crate) fn fall_asleep(In(fired): In<Fired>, seats: Seats, mut commands: Commands) {
    if let Some(seat) = seat_of(&fired, &seats) {
        commands.entity(seat).remove::<Pos>();
    }
}

fn seat_of(fired: &Fired, seats: &Seats) -> Option<Entity> {
    seats.by_id(SeatId(u32::try_from(fired.key).ok()?))
}

pub(crate) fn back(
    In(seat): In<Entity>,
    seats: Seats,
    positions: Query<&Pos>,
    mut timers: Timers,
    mut commands: Commands,
    mut rng: RoomRng,
) {
    if let Some(seat) = seats.get(seat) {
        timers.cancel("asleep", u64::from(seat.id().0));
    }
    if !positions.contains(seat) {
        commands.entity(seat).insert(Pos::anywhere(&mut rng, 100.0));
    }
}

pub(crate) fn left(In(leave): In<Leave>, seats: Seats, mut timers: Timers, mut board: ResMut<Stale>) {
    board.0 = true;
    if let Some(seat) = seats.get(leave.seat) {
        let key = u64::from(seat.id().0);
        timers.cancel("asleep", key);
        timers.cancel("boost_end", key);
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Rename {
    name: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct Renamed {
    name: String,
}

pub(crate) fn rename(
    In(request): In<Request<Rename>>,
    mut players: Query<&mut Player>,
) -> Result<Answer<Renamed>, Refuse> {
    let name = clean(&request.body.name, NAME)?;
    let mut player = players.get_mut(request.seat).map_err(|_| Refuse::from("you are not here"))?;
    if player.name != name {
        player.name.clone_from(&name);
    }
    Ok(Renamed { name }.into())
}
