//! The operator's listener: metrics, status and web pages.
//!
//! Everything shown comes from one [`headlong_storage::DeviceSnapshot`] per device, made by the device's
//! own thread for each request, so `/metrics`, `/status` and the dashboard are consistent.
//!
//! | path | content |
//! |---|---|
//! | `/metrics` | OpenMetrics, or Prometheus text 0.0.4 |
//! | `/status` | devices with their chains and queues, as JSON for the dashboard |
//! | `/library.json` | titles, as JSON for the library page |
//! | `/healthz` | 200 `ok`, or 503 and the reason |
//! | `/`, ... | the web pages |
//! | `POST /purge`, `POST /fill` | removes titles of an origin, or fetches them ahead of viewers |
//!
//! Invariants: GET and HEAD have no side effects, and other methods are only accepted where listed;
//! a page of another site cannot read this listener through a name that resolves to loopback (see
//! `host.rs`).

mod agent;
mod counters;
mod current_share;
mod device_metrics;
mod encode;
mod exemplars;
mod exposition;
mod fill;
mod flash_metrics;
mod host;
mod library_document;
mod metrics;
mod pages;
mod pull_metrics;
mod purge;
mod roots;
mod router;
mod server_metrics;
mod state;
mod status;

pub use agent::serve_agent;
pub use current_share::{CurrentShare, sample_share};
pub use library_document::{LibraryDocument, LibraryRenderer};
pub use metrics::{RequestMetrics, RequestTotals};
pub use router::serve_admin;
pub use state::{AdminState, BoxFuture, Devices, StreamName, StreamNames};
pub use status::device_status;

#[cfg(test)]
pub(crate) mod testing;
