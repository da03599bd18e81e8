//! What the operating system says about this process, as metrics. Linux only; elsewhere they are absent.

/// Clock ticks per second in `/proc/self/stat`: fixed at 100 in the kernel's interface to programs.
const TICKS_PER_SECOND: f64 = 100.0;

/// Reads and sets the process metrics.
pub(super) fn update() {
    if let Some(kib) = resident_kib() {
        metrics::gauge!("tenure_process_resident_bytes").set(kib as f64 * 1024.0);
    }
    if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
        metrics::gauge!("tenure_process_open_files").set(files.count() as f64);
    }
    if let Some(ticks) = cpu_ticks() {
        metrics::gauge!("tenure_process_cpu_seconds").set(ticks as f64 / TICKS_PER_SECOND);
    }
}

fn resident_kib() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.trim().strip_suffix(" kB")?.parse().ok()
}

fn cpu_ticks() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The program's name is in brackets and may hold spaces; what follows does not. User and system time are fields 14 and 15.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}
