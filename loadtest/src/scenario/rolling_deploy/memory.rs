//! Memory of the cluster's processes from deploy to deploy: nodes of the same age, and gateways that stay.

use serde_json::{Value, json};

use crate::{child::Running, cluster::Member, host, stats::growth};

/// MiB after each deploy.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Room nodes at the moment they are told to go, by deploy: each has lived for one deploy, those of the first for as long as the bots joined.
    nodes: Vec<Vec<f64>>,
    /// Gateways at the end of each deploy.
    gateways: Vec<Vec<f64>>,
}

/// Deploys of which the median is compared with that of as many at the end.
const ENDS: usize = 3;

impl Memory {
    pub(super) fn begin_deploy(&mut self) {
        self.nodes.push(Vec::new());
    }

    /// A node that is about to go.
    pub(super) fn note_node(&mut self, running: &Running) {
        if let (Some(deploy), Some(rss)) = (self.nodes.last_mut(), running.pid.and_then(host::process_rss)) {
            deploy.push(rss);
        }
    }

    pub(super) fn note_gateways(&mut self, gateways: &[Member]) {
        let rss = |member: &Member| host::process_rss(member.running.as_ref()?.pid?);
        self.gateways.push(gateways.iter().filter_map(rss).collect());
    }

    /// How much more the last deploys' processes took than the first ones', percent: (nodes, gateways). `None` with too few deploys to say.
    pub(super) fn growth(&self) -> (Option<f64>, Option<f64>) {
        // The nodes of the first deploy are older than all others when they go.
        (growth(self.nodes.get(1..).unwrap_or_default(), ENDS), growth(&self.gateways, ENDS))
    }

    pub(super) fn json(&self) -> Value {
        let (nodes, gateways) = self.growth();
        json!({
            "nodes_mib": self.nodes, "gateways_mib": self.gateways,
            "nodes_growth_percent": nodes, "gateways_growth_percent": gateways,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_compares_the_ends_and_says_nothing_of_too_few() {
        let deploys = |mib: &[f64]| mib.iter().map(|m| vec![*m, *m + 2.0, *m - 1.0]).collect::<Vec<_>>();
        assert_eq!(growth(&deploys(&[50.0; 5]), ENDS), None);
        assert_eq!(growth(&deploys(&[50.0; 6]), ENDS), Some(0.0));
        let grown = growth(&deploys(&[50.0, 50.0, 50.0, 60.0, 75.0, 75.0, 75.0]), ENDS).expect("enough");
        assert!((grown - 50.0).abs() < 0.01, "{grown}");
    }
}
