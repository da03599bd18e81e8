//! This machine: the file limit, source addresses, and what `/proc` says about processors and processes.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::atomic::{AtomicBool, Ordering},
};

use rustix::process::{Resource, Rlimit, getrlimit, setpriority_process, setrlimit};

/// Most connections from one loopback address: below the server's own limit of 256 sockets per address.
pub(crate) const PER_SOURCE: u32 = 200;
/// The niceness that threads of bots ask for. They use a small part of a processor and must look at the clock in time: on a machine where servers
/// start beside them they would measure how long they waited for a processor.
const NICENESS: i32 = -10;
/// Files that this process needs beside its sockets.
const SPARE_FILES: u64 = 64;
/// Ticks per second of the times in `/proc`; the kernel's interface has this value on every Linux that Rust runs on.
const CLOCK_TICKS: f64 = 100.0;

/// Raises the limit of open files so that `sockets` fit.
///
/// # Errors
/// When the hard limit is lower; the text says how many sockets would fit.
pub(crate) fn raise_file_limit(sockets: u32) -> Result<(), String> {
    let wanted = u64::from(sockets) + SPARE_FILES;
    let limit = getrlimit(Resource::Nofile);
    let enough = |limit: Option<u64>| limit.is_none_or(|n| n >= wanted);
    if enough(limit.current) {
        return Ok(());
    }
    if !enough(limit.maximum) {
        let fit = limit.maximum.unwrap_or(u64::MAX).saturating_sub(SPARE_FILES);
        return Err(format!("the hard limit of open files allows {fit} connections, {sockets} are wanted"));
    }
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).map_err(|e| format!("cannot raise the limit of open files: {e}"))
}

/// The local address for connection number `index` to `target`: loopback targets get one address per 200 connections.
pub(crate) fn source(target: SocketAddr, group: Group, index: u32) -> Option<SocketAddr> {
    let IpAddr::V4(ip) = target.ip() else { return None };
    if !ip.is_loopback() {
        return None;
    }
    let nth = index / PER_SOURCE;
    let host = Ipv4Addr::new(127, group as u8, (nth / 250) as u8, (nth % 250 + 1) as u8);
    Some(SocketAddr::from((host, 0)))
}

/// Who uses a source address: honest and bad clients never share one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Group {
    Bots = 0,
    Bad = 1,
}

/// CPU time of a process, seconds.
pub(crate) fn process_cpu(pid: u32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let after_name = stat.rsplit(')').next()?;
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / CLOCK_TICKS)
}

/// Resident memory of a process, MiB.
pub(crate) fn process_rss(pid: u32) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"))?;
    let kib: f64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kib / 1024.0)
}

/// Processor time of the whole machine: (idle, all), seconds.
pub(crate) fn machine_cpu() -> Option<(f64, f64)> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let fields: Vec<f64> =
        stat.lines().next()?.split_ascii_whitespace().skip(1).take(8).filter_map(|f| f.parse().ok()).collect();
    let idle = fields.get(3)? + fields.get(4)?;
    Some((idle / CLOCK_TICKS, fields.iter().sum::<f64>() / CLOCK_TICKS))
}

/// Whether threads of bots were put before others.
static BEFORE_OTHERS: AtomicBool = AtomicBool::new(false);

/// Puts the calling thread before others that want a processor, where that is permitted (to root, mostly). Of Linux threads each has a niceness of
/// its own.
pub(crate) fn take_priority() {
    if setpriority_process(None, NICENESS).is_ok() {
        BEFORE_OTHERS.store(true, Ordering::Relaxed);
    }
}

/// What reports say of it.
pub(crate) fn priority() -> String {
    if BEFORE_OTHERS.load(Ordering::Relaxed) { format!(" of niceness {NICENESS}") } else { String::new() }
}

/// Processors of this machine.
pub(crate) fn processors() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_200_connections_share_a_source() {
        let target = SocketAddr::from(([127, 0, 0, 1], 7777));
        let of = |index| source(target, Group::Bots, index).expect("loopback").ip();
        assert_eq!(of(0), of(199));
        assert_ne!(of(199), of(200));
        let mut all: Vec<_> = (0..100_000).map(of).collect();
        all.dedup();
        assert_eq!(all.len(), 500);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 500, "an address came back");
        assert_eq!(source(SocketAddr::from(([192, 0, 2, 1], 80)), Group::Bots, 0), None);
        assert_ne!(source(target, Group::Bad, 0).map(|a| a.ip()), Some(of(0)));
    }

    #[test]
    fn a_file_limit_that_is_too_low_says_what_fits() {
        // Where there is no hard limit there is nothing to refuse.
        let Some(hard) = getrlimit(Resource::Nofile).maximum else { return };
        let refused = u32::try_from(hard).map(|sockets| raise_file_limit(sockets).expect_err("too many"));
        if let Ok(text) = refused {
            assert!(text.contains(&format!("allows {} connections", hard - SPARE_FILES)), "{text}");
        }
        assert_eq!(raise_file_limit(1), Ok(()));
    }

    #[test]
    fn the_machine_can_be_read() {
        let me = std::process::id();
        assert!(process_rss(me).expect("VmRSS") > 0.5);
        assert!(process_cpu(me).is_some());
        let (idle, all) = machine_cpu().expect("/proc/stat");
        assert!(all > 0.0 && idle <= all);
        assert_eq!(process_cpu(u32::MAX), None);
    }
}
