//! Talk.

use std::time::Duration;

use tenure::prelude::*;

use super::parts::{Chat, Player, Say, clean};

/// Longest text, characters.
const TEXT: usize = 200;
/// One may speak so often.
const COOLDOWN: Duration = Duration::from_millis(700);

/// Room time at which one may speak again. It is registered nowhere: a move forgets it, and that is fine.
#[derive(Component, Clone, Copy)]
pub(crate) struct Silenced(Duration);

pub(crate) fn talk(
    inbox: Inbox<Say>,
    players: Query<(&Player, Option<&Silenced>)>,
    tick: Tick,
    mut out: Out,
    mut commands: Commands,
) {
    let mut spoke: Vec<Entity> = Vec::new();
    for (seat, Say { text }) in inbox.iter() {
        let Ok((player, silenced)) = players.get(seat) else { continue };
        let early = spoke.contains(&seat) || silenced.is_some_and(|until| tick.now < until.0);
        let said = if early { Err("not so fast".into()) } else { clean(text, TEXT) };
        match said {
            Ok(text) => {
                out.all(&Chat { from: player.name.clone(), text });
                spoke.push(seat);
                commands.entity(seat).insert(Silenced(tick.now + COOLDOWN));
            }
            Err(why) => out.to(seat, &Chat { from: String::new(), text: why.reason().to_owned() }),
        }
    }
}
