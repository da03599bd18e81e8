//! The arena: run, collect coins, wait for the chest, wear hats. It is an ordinary game and sees only the public API. What is here is
//! the same in all its versions; what differs is in `first` and `second`.
#![allow(elided_lifetimes_in_paths, clippy::needless_pass_by_value, reason = "systems read better so")]

mod board;
mod books;
pub(crate) mod chat;
mod chest;
mod coins;
pub(crate) mod drill;
pub(crate) mod parts;
mod people;
mod shop;
mod walk;

use tenure::prelude::*;

use self::parts::{
    Arena, Board, Boost, Chat, Chest, ChestPast, Heading, Host, Inputs, Picked, Player, Pos, Say, Steer, Token, Wallet,
};

/// Registers what all versions share; `C` is a coin. Names here are the contract with clients and stored rooms.
pub(crate) fn shared<C: Token>(room: &mut RoomBuilder) {
    room.tick_rate(20).max_seats(50);

    room.component::<Pos>("pos").replicated().persisted();
    room.component::<Player>("player").replicated().persisted();
    room.component::<Wallet>("wallet").to_owner().persisted();
    room.component::<Inputs>("inputs").to_owner().persisted();
    room.component::<Heading>("heading").persisted();
    room.component::<Boost>("boost").persisted();

    room.resource::<Arena>("arena").replicated().persisted();
    room.resource::<Chest>("chest").replicated().persisted();
    room.resource::<ChestPast>("chest_past").persisted();
    room.resource::<Board>("board").replicated().persisted();
    room.resource::<Host>("host").replicated();
    room.scratch::<coins::Field<C>>().scratch::<board::Stale>();

    room.message::<Steer>("steer");
    room.message::<Say>("chat");
    room.event::<Picked>("picked").event::<Chat>("chat");
    room.request("buy", shop::buy).charge(shop::SOURCE, shop::bought);
    room.request("rename", people::rename);

    room.on_join(people::joined).on_drop(people::dropped).on_reconnect(people::back).on_leave(people::left);
    room.timer("asleep", people::fall_asleep).guard(people::still_gone);
    room.timer("boost_end", shop::boost_ends);
    room.reward("chest", chest::opened);

    room.startup(coins::first_coins::<C>);
    room.systems(Apply, walk::steer);
    room.systems(Simulate, (walk::walk, coins::pick::<C>, coins::refill::<C>));
    room.systems(Collect, (shop::show_gold, chest::announce, board::rank, name_host));
}

/// Once in each life of the room at a node.
fn name_host(info: RoomInfo, mut host: ResMut<Host>) {
    if host.0 != info.node() {
        info.node().clone_into(&mut host.0);
    }
}
