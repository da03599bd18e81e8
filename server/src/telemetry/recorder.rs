//! The recorder of metrics: no listener of its own, `/metrics` renders it; its histograms are tidied by a timer.

use std::{sync::OnceLock, time::Duration};

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

use super::{
    metrics_names::{Kind, METRICS},
    process,
};
use crate::runtime::{Clock, Tasks, tasks};

/// Buckets of durations, seconds: a tick of 20 Hz is 0.05, a step of a move at most 2, a lease 3 and a takeover some more, lateness of work minutes.
const SECONDS: [f64; 21] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1.0, 2.0,
    3.0, 4.0, 10.0, 60.0, 600.0,
];
/// Buckets of sizes, bytes.
const BYTES: [f64; 9] = [64.0, 256.0, 1024.0, 4096.0, 16_384.0, 65_536.0, 262_144.0, 1_048_576.0, 4_194_304.0];
/// Buckets of counts: members of a frame, items of a commit.
const COUNTS: [f64; 9] = [1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 500.0, 5_000.0];
/// Time between upkeeps. Without them histograms keep every single observation.
const UPKEEP: Duration = Duration::from_secs(5);

// The library has one recorder per process; a second server in it shares the first one's.
static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();

/// The metrics of this process; cheap to clone.
#[derive(Clone)]
pub struct Metrics(PrometheusHandle);

impl Metrics {
    /// Installs the recorder, with the node's name on every metric and the version of the game in one of them. Only the first call of a process installs; later ones share it.
    ///
    /// # Errors
    /// When another library has installed a recorder.
    pub fn install(node: &str, version: &str) -> Result<Self, BuildError> {
        if let Some(handle) = HANDLE.get() {
            return Ok(Self(handle.clone()));
        }
        let recorder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)?
            .set_buckets_for_metric(Matcher::Suffix("_bytes".to_owned()), &BYTES)?
            .set_buckets(&COUNTS)?
            .add_global_label("node", node)
            .build_recorder();
        let handle = HANDLE.get_or_init(|| recorder.handle()).clone();
        if metrics::set_global_recorder(recorder).is_err() {
            tracing::debug!("a recorder of metrics is installed already");
        }
        for metric in METRICS {
            match metric.kind {
                Kind::Counter => metrics::describe_counter!(metric.name, metric.help),
                Kind::Gauge => metrics::describe_gauge!(metric.name, metric.help),
                Kind::Histogram => metrics::describe_histogram!(metric.name, metric.help),
            }
        }
        metrics::gauge!("tenure_build_info", "version" => version.to_owned(), "tenure" => env!("CARGO_PKG_VERSION"))
            .set(1.0);
        process::update();
        Ok(Self(handle))
    }

    /// The page `/metrics`, in Prometheus' text format.
    pub fn render(&self) -> String {
        self.0.render()
    }

    /// Tidies histograms and reads the process metrics, every few seconds until the shutdown.
    pub fn keep_up(&self, clock: Clock, tasks: &Tasks) {
        let (handle, shutdown) = (self.0.clone(), tasks.shutdown().clone());
        tasks.spawn("metrics-upkeep", tasks::Kind::Essential, async move {
            loop {
                tokio::select! {
                    biased;
                    () = shutdown.stopped() => return,
                    () = clock.sleep(UPKEEP) => {}
                }
                handle.run_upkeep();
                process::update();
            }
        });
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Metrics")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_carry_the_node_and_the_meaning() {
        let metrics = Metrics::install("n1", "7.1").expect("installed");
        assert!(Metrics::install("n2", "7.1").is_ok(), "a second server of the process shares the recorder");
        metrics::counter!("tenure_task_panics_total", "task" => "t").increment(2);
        metrics::histogram!("tenure_test_seconds").record(0.003);
        let page = metrics.render();
        assert!(page.contains("tenure_task_panics_total{node=\"n1\",task=\"t\"} 2"), "{page}");
        assert!(page.contains("# HELP tenure_task_panics_total Panics of supervised tasks."), "{page}");
        assert!(page.contains("tenure_test_seconds_bucket{node=\"n1\",le=\"0.005\"} 1"), "{page}");
        assert!(page.contains("tenure_build_info{node=\"n1\",version="), "{page}");
        if cfg!(target_os = "linux") {
            assert!(page.contains("tenure_process_resident_bytes{node=\"n1\"} "), "{page}");
            assert!(page.contains("tenure_process_cpu_seconds{node=\"n1\"} "), "{page}");
        }
    }
}
