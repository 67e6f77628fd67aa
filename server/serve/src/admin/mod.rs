//! The operator's listener: metrics, status and the pages.
//!
//! The one idea: everything shown is taken from one [`crate::disk::DeviceSnapshot`] per device,
//! made by the device's own thread at the moment of the question, so `/metrics`, `/status` and the
//! dashboard cannot disagree, and nothing is counted twice.
//!
//! | path | what |
//! |---|---|
//! | `/metrics` | for Prometheus: OpenMetrics, or the older text |
//! | `/status` | devices with their chains and queues, as JSON for the dashboard |
//! | `/library.json` | titles, as JSON for the library page |
//! | `/healthz` | 200 `ok`, or 503 and why not |
//! | `/`, ... | the pages |
//! | `POST /purge`, `POST /fill` | titles of an origin go, or come ahead of viewers |
//!
//! Invariants: GET and HEAD change nothing, and no other method does anything else; a page of another
//! site cannot read it through a name of its own that resolves to loopback (see `host.rs`).

mod counters;
mod device_metrics;
mod encode;
mod exemplars;
mod exposition;
mod fill;
mod flash_metrics;
mod host;
mod metrics;
mod pages;
mod pull_metrics;
mod purge;
mod router;
mod server_metrics;
mod state;
mod status;

pub use metrics::{RequestMetrics, RequestTotals};
pub use router::serve_admin;
pub use state::{AdminState, BoxFuture, Devices, Library, StreamName, StreamNames};
pub use status::device_status;

#[cfg(test)]
pub(crate) mod testing;
