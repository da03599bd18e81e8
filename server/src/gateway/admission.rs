//! How many connections there may be: in all, and from one address.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;

/// Connections that are told that there are too many, at the same time; more are closed without a word.
const REFUSALS: usize = 64;

/// Counts connections.
#[derive(Debug)]
pub(super) struct Admission {
    most: usize,
    per_address: usize,
    count_loopback: bool,
    total: AtomicUsize,
    refusals: AtomicUsize,
    addresses: Mutex<HashMap<IpAddr, usize>>,
    draining: AtomicBool,
}

/// What a new connection gets.
#[derive(Debug)]
pub(super) enum Verdict {
    /// A place, kept until it is dropped.
    Place(Place),
    /// Only the answer that there are too many: from this address (429) or in all (503).
    Refused { status: u16, place: Place },
    /// Nothing.
    Closed,
}

/// A counted connection.
#[derive(Debug)]
pub(super) struct Place {
    admission: Arc<Admission>,
    address: Option<IpAddr>,
    counts: Counts,
}

/// What a place counts as, beside one of its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counts {
    /// A connection.
    Connection,
    /// A refusal.
    Refusal,
    /// Nothing: the connection is counted already.
    Nothing,
}

impl Admission {
    pub(super) fn new(most: usize, per_address: usize, count_loopback: bool) -> Arc<Self> {
        Arc::new(Self {
            most,
            per_address,
            count_loopback,
            total: AtomicUsize::new(0),
            refusals: AtomicUsize::new(0),
            addresses: Mutex::new(HashMap::new()),
            draining: AtomicBool::new(false),
        })
    }

    /// No more sockets: this gateway goes away.
    pub(super) fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    pub(super) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// A connection of this peer. `behind`: it is a proxy, and its clients are counted when they have said who they are.
    pub(super) fn admit(self: &Arc<Self>, peer: IpAddr, behind: bool) -> Verdict {
        if self.total.fetch_add(1, Ordering::AcqRel) >= self.most {
            self.total.fetch_sub(1, Ordering::AcqRel);
            return self.refuse(503);
        }
        if behind {
            return Verdict::Place(self.place(None, Counts::Connection));
        }
        match self.count(peer) {
            Some(address) => Verdict::Place(self.place(address, Counts::Connection)),
            None => {
                self.total.fetch_sub(1, Ordering::AcqRel);
                self.refuse(429)
            }
        }
    }

    /// The client of a proxy; `None` when there are too many of its address.
    pub(super) fn admit_client(self: &Arc<Self>, client: IpAddr) -> Option<Place> {
        self.count(client).map(|address| self.place(address, Counts::Nothing))
    }

    /// The address that it was counted for, if it is counted; `None` when there are too many of it.
    #[expect(clippy::option_option, reason = "whether it may come, and for what it counts")]
    fn count(&self, peer: IpAddr) -> Option<Option<IpAddr>> {
        let peer = peer.to_canonical();
        if peer.is_loopback() && !self.count_loopback {
            return Some(None);
        }
        let address = network(peer);
        let mut addresses = self.addresses.lock();
        let count = addresses.entry(address).or_insert(0);
        if *count >= self.per_address {
            return None;
        }
        *count += 1;
        Some(Some(address))
    }

    fn place(self: &Arc<Self>, address: Option<IpAddr>, counts: Counts) -> Place {
        Place { admission: self.clone(), address, counts }
    }

    fn refuse(self: &Arc<Self>, status: u16) -> Verdict {
        if self.refusals.fetch_add(1, Ordering::AcqRel) >= REFUSALS {
            self.refusals.fetch_sub(1, Ordering::AcqRel);
            return Verdict::Closed;
        }
        Verdict::Refused { status, place: self.place(None, Counts::Refusal) }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let admission = &self.admission;
        match self.counts {
            Counts::Connection => drop(admission.total.fetch_sub(1, Ordering::AcqRel)),
            Counts::Refusal => drop(admission.refusals.fetch_sub(1, Ordering::AcqRel)),
            Counts::Nothing => {}
        }
        let Some(address) = self.address else { return };
        let mut addresses = admission.addresses.lock();
        if let Some(count) = addresses.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                addresses.remove(&address);
            }
        }
    }
}

/// Who counts as one: an IPv4 address, or an IPv6 network of /64, which is what one customer gets.
fn network(peer: IpAddr) -> IpAddr {
    match peer {
        IpAddr::V4(_) => peer,
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(verdict: Verdict) -> Place {
        match verdict {
            Verdict::Place(place) => place,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_address_cannot_take_all_places() {
        let admission = Admission::new(10, 2, false);
        let peer: IpAddr = "203.0.113.7".parse().expect("ip");
        let first = place(admission.admit(peer, false));
        let _second = place(admission.admit("::ffff:203.0.113.7".parse().expect("ip"), false));
        assert!(matches!(admission.admit(peer, false), Verdict::Refused { status: 429, .. }));
        let _other = place(admission.admit("203.0.113.8".parse().expect("ip"), false));
        drop(first);
        let _again = place(admission.admit(peer, false));
        assert_eq!(admission.total.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn an_ipv6_network_counts_as_one() {
        let admission = Admission::new(10, 1, false);
        let _first = place(admission.admit("2001:db8:1:2::1".parse().expect("ip"), false));
        assert!(matches!(admission.admit("2001:db8:1:2:ffff::9".parse().expect("ip"), false), Verdict::Refused { .. }));
        let _other = place(admission.admit("2001:db8:1:3::1".parse().expect("ip"), false));
    }

    #[test]
    fn the_total_is_bounded_and_so_are_the_refusals() {
        let admission = Admission::new(1, 100, false);
        let local: IpAddr = "127.0.0.1".parse().expect("ip");
        let first = place(admission.admit(local, false));
        let refused: Vec<Verdict> = (0..REFUSALS).map(|_| admission.admit(local, false)).collect();
        assert!(refused.iter().all(|v| matches!(v, Verdict::Refused { status: 503, .. })));
        assert!(matches!(admission.admit(local, false), Verdict::Closed));
        drop(refused);
        assert!(matches!(admission.admit(local, false), Verdict::Refused { .. }));
        drop(first);
        let _again = place(admission.admit(local, false));
    }

    #[test]
    fn clients_of_a_proxy_are_counted_by_their_own_address() {
        let admission = Admission::new(10, 1, true);
        let proxy: IpAddr = "10.0.0.1".parse().expect("ip");
        let (one, two) = ("203.0.113.7".parse().expect("ip"), "203.0.113.8".parse().expect("ip"));
        let _connections = [0; 3].map(|_| place(admission.admit(proxy, true)));
        let first = admission.admit_client(one).expect("a place");
        assert!(admission.admit_client(one).is_none());
        let _second = admission.admit_client(two).expect("a place");
        assert_eq!(admission.total.load(Ordering::Relaxed), 3);
        drop(first);
        assert!(admission.admit_client(one).is_some());
        assert_eq!(admission.total.load(Ordering::Relaxed), 3);
    }
}
