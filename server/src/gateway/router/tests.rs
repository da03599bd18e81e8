//! Links that are dialled, end, and are let go.

use super::*;
use crate::{
    gateway::{conn::Conn, fanout, metrics::Metrics, slab::Slab, tables::Tables},
    link::{Downlink, Owner, ToNode, Uplink},
    runtime::{Changes, ManualClock, Wall, Watcher, mailbox::Refused},
};
use tenure_shared::Term;

#[derive(Default)]
struct World {
    owner: Mutex<Option<Owner>>,
    listed: Mutex<Vec<Address>>,
    dialled: Mutex<Vec<(Address, Arc<dyn Downlink>)>>,
    changes: Changes,
}

struct Line;

impl Uplink for Line {
    fn send(&self, _: ToNode) -> Result<(), Refused<ToNode>> {
        Ok(())
    }
}

impl Directory for World {
    fn shards(&self) -> u32 {
        16
    }
    fn owner(&self, _: ShardId) -> Option<Owner> {
        self.owner.lock().clone()
    }
    fn nodes(&self) -> Vec<Address> {
        self.listed.lock().clone()
    }
    fn changes(&self) -> Watcher {
        self.changes.watch()
    }
    fn refresh(&self) {}
}

impl Dial for World {
    fn dial(&self, address: &Address, gateway: Arc<dyn Downlink>) -> Arc<dyn Uplink> {
        self.dialled.lock().push((address.clone(), gateway));
        Arc::new(Line)
    }
}

fn router() -> (Arc<World>, Arc<Router>, ManualClock) {
    let world = Arc::new(World::default());
    *world.owner.lock() = Some(Owner { term: Term(5), address: Some("a".into()) });
    let (clock, hand) = Clock::manual(Wall(0));
    let shared = Arc::new(fanout::Shared {
        conns: Arc::new(Slab::<Conn>::new(0)),
        clock: clock.clone(),
        metrics: Metrics::new(),
        tables: Tables::default(),
        shards: 16,
    });
    let (fan_out, _) = FanOut::new(1, &shared);
    let router = Router::new(world.clone(), world.clone(), clock, Rng::seeded(5), Arc::new(fan_out));
    (world, router, hand)
}

const SHARD: ShardId = ShardId(3);

#[test]
fn a_node_is_dialled_once_and_again_after_a_pause_that_grows() {
    let (world, router, hand) = router();
    let first = router.to_owner(SHARD).expect("a link");
    assert_eq!(router.to_owner(SHARD).expect("the same").id, first.id);
    assert_eq!(world.dialled.lock().len(), 1);
    let mut waited = Duration::ZERO;
    for n in 1..=12 {
        let down = world.dialled.lock().last().map(|(_, down)| down.clone()).expect("one");
        down.broken("cannot be reached");
        while router.to_owner(SHARD).is_none() {
            hand.advance(Duration::from_millis(1));
            waited += Duration::from_millis(1);
        }
        assert_eq!(world.dialled.lock().len(), n + 1);
    }
    assert!(waited > Duration::from_secs(1) && waited < Duration::from_secs(12), "{waited:?}");
    assert!(first.is_broken());
    assert!(matches!(first.send(ToNode::TermSeen { shard: SHARD, term: Term(1) }), Err(Refused::Closed(_))));
}

#[test]
fn links_are_let_go_when_nobody_holds_them_and_no_directory_lists_them() {
    let (world, router, _hand) = router();
    let place = router.to_owner(SHARD).expect("a link").place(SHARD, crate::link::ConnId(1));
    assert!(router.let_go(), "somebody is on it");
    drop(place);
    *world.listed.lock() = vec!["a".into()];
    assert!(!router.let_go());
    assert_eq!(router.peers.lock().len(), 1);
    world.listed.lock().clear();
    assert!(!router.let_go());
    assert_eq!(router.peers.lock().len(), 0);
    let down = world.dialled.lock().pop().expect("one").1;
    let late = ToGateway::Left { conn: crate::link::ConnId(1) };
    assert!(matches!(down.send(late), Err(Refused::Closed(_))), "the link has ended");
}

#[test]
fn a_node_that_serves_is_dialled_before_anybody_needs_it() {
    let (world, router, _hand) = router();
    *world.listed.lock() = vec!["a".into(), "b".into()];
    router.to_owner(SHARD).expect("a link");
    router.reach();
    let dialled = || world.dialled.lock().iter().map(|(address, _)| address.to_string()).collect::<Vec<_>>();
    assert_eq!(dialled(), ["a", "b"]);
    world.dialled.lock()[1].1.broken("cannot be reached");
    router.reach();
    assert_eq!(dialled(), ["a", "b"], "not again and again");
    assert!(!router.let_go());
}

#[test]
fn a_former_owner_names_the_next_one_and_a_wrong_name_is_forgotten() {
    let (world, router, _hand) = router();
    router.to_owner(SHARD).expect("a link");
    let down = |n: usize| world.dialled.lock()[n].1.clone();
    let moved = ToGateway::Moved { shard: SHARD, term: Term(5), to: Some("b".into()) };
    drop(down(0).send(moved));
    assert_eq!(&*router.to_owner(SHARD).expect("a link").address, "b");
    assert_eq!(&*router.to_owner(ShardId(4)).expect("a link").address, "a", "another shard");
    let not_owner = ToGateway::NotOwner { conn: crate::link::ConnId(1), attempt: 1, shard: SHARD, term: Term(0) };
    drop(down(1).send(not_owner));
    assert_eq!(&*router.to_owner(SHARD).expect("a link").address, "a");
    *world.owner.lock() = None;
    assert!(router.to_owner(SHARD).is_none());
}

#[test]
fn a_node_is_told_of_a_higher_term_once_a_second() {
    let (_world, router, hand) = router();
    let link = router.to_owner(SHARD).expect("a link");
    assert!(link.term_seen(SHARD, Term(9), router.clock.now()));
    assert!(!link.term_seen(SHARD, Term(9), router.clock.now()));
    assert!(link.term_seen(ShardId(4), Term(9), router.clock.now()));
    hand.advance(Duration::from_secs(1));
    assert!(link.term_seen(SHARD, Term(9), router.clock.now()));
}
