//! The shop: gold for hats and speed. What is bought is handed over when the ledger has taken the gold, once, whatever crashes.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure::prelude::*;

use super::parts::{Boost, Player, Wallet};

/// Name of the shop's charges.
pub(crate) const SOURCE: &str = "shop";
/// Name of what it gives back.
const REFUND: &str = "shop_refund";
/// Hats there are.
const HATS: u8 = 5;
/// How long a boost lasts.
const BOOST: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
enum Item {
    Hat,
    Boost,
}

impl Item {
    fn named(name: &str) -> Option<Self> {
        match name {
            "hat" => Some(Item::Hat),
            "boost" | "speed" => Some(Item::Boost),
            _ => None,
        }
    }

    fn price(self) -> i64 {
        match self {
            Item::Hat => 30,
            Item::Boost => 50,
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Buy {
    item: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct Bought {
    item: String,
    gold: i64,
}

fn not_enough() -> Refuse {
    Refuse::code("not_enough", "not enough gold")
}

/// What a charge carries: it comes back with the ledger's answer.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Purchase {
    item: Item,
    name: String,
    reply: ReplyTo,
}

pub(crate) fn buy(
    In(request): In<Request<Buy>>,
    balances: Balances,
    mut grants: Grants,
) -> Result<Answer<Bought>, Refuse> {
    let name = request.body.item;
    let item = Item::named(&name).ok_or("the shop does not have that")?;
    // The ledger decides. Asking it what the balance already says would only write a line for each refusal.
    if balances.get(&request.player, "gold").is_some_and(|gold| gold < item.price()) {
        return Err(not_enough());
    }
    let purchase = Purchase { item, name, reply: request.reply };
    grants.charge(&request.player, SOURCE, &[("gold", item.price())], &purchase);
    Ok(Answer::Later)
}

pub(crate) fn bought(
    In(charged): In<Charged<Purchase>>,
    mut players: Query<&mut Player>,
    (balances, seats): (Balances, Seats),
    mut grants: Grants,
    mut replies: Replies,
    mut timers: Timers,
    mut commands: Commands,
) {
    let Purchase { item, name, reply } = charged.purchase;
    if !charged.paid {
        replies.answer::<Bought>(reply, Err(not_enough()));
        return;
    }
    let handed = charged.seat.is_some_and(|seat| match (item, players.get_mut(seat), seats.get(seat)) {
        (Item::Hat, Ok(mut player), _) => {
            player.hat = player.hat % HATS + 1;
            true
        }
        (Item::Boost, _, Some(of)) => {
            commands.entity(seat).insert(Boost);
            timers.after("boost_end", u64::from(of.id().0), BOOST);
            true
        }
        (Item::Hat | Item::Boost, ..) => false,
    });
    if !handed {
        // Who left for good meanwhile gets his gold back: what is sold here is worn here.
        grants.give(&charged.player, REFUND, &[("gold", item.price())]);
        return;
    }
    let gold = balances.get(&charged.player, "gold").unwrap_or(0);
    replies.answer(reply, Ok(Bought { item: name, gold }));
}

pub(crate) fn boost_ends(In(fired): In<Fired>, seats: Seats, mut commands: Commands) {
    if let Some(seat) = u32::try_from(fired.key).ok().and_then(|id| seats.by_id(SeatId(id))) {
        commands.entity(seat).remove::<Boost>();
    }
}

/// Wallets show what the ledger last said.
pub(crate) fn show_gold(balances: Balances, mut wallets: Query<(&Seat, &mut Wallet)>) {
    if !balances.is_changed() {
        return;
    }
    for (seat, mut wallet) in &mut wallets {
        if let Some(gold) = balances.get(seat.player(), "gold") {
            wallet.set_if_neq(Wallet { gold });
        }
    }
}
