//! Talk.

use tenure::prelude::*;

use super::parts::{Chat, Player, Say, clean};

/// Longest text, characters.
const TEXT: usize = 200;

/// Says it to all, or to the one who said it why not; whether it was said.
pub(crate) fn say(seat: Entity, player: &Player, Say { text }: &Say, out: &mut Out) -> bool {
    match clean(text, TEXT) {
        Ok(text) => {
            out.all(&Chat { from: player.name.clone(), text });
            true
        }
        Err(why) => {
            refuse(seat, why.reason(), out);
            false
        }
    }
}

/// Tells the one who said it why nobody heard it.
pub(crate) fn refuse(seat: Entity, why: &str, out: &mut Out) {
    out.to(seat, &Chat { from: String::new(), text: why.to_owned() });
}
