//! What operators see of a running node: logs, metrics, the last events.

mod logging;
mod metrics_names;
mod process;
mod recent;
mod recorder;

pub use logging::{Error, init_logging};
pub use metrics_names::{Kind, METRICS, Metric};
pub use recent::{Event, Recent};
pub use recorder::Metrics;
