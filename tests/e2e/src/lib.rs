//! Shared parts of the end-to-end tests: sample libraries, nginx, HAProxy and Prometheus, the HTTP
//! conformance table, a client of HTTP/2 frames, background viewers, servers with a flash tier, S3
//! buckets, and a runtime with a time limit.
//!
//! Every test starts its own server over its own titles and stops it at the end.

pub mod acme;
pub mod cluster;
pub mod conformance;
pub mod edge;
pub mod haproxy;
pub mod history;
pub mod hostile_bucket;
pub mod http2;
pub mod library;
pub mod loop_fs;
pub mod mount;
pub mod neighbours;
pub mod nginx;
pub mod origin;
pub mod preload;
mod program;
pub mod prometheus;
mod python;
pub mod runtime;
pub mod s3;
pub mod side_by_side;
pub mod tier;

pub use cluster::Cluster;
pub use haproxy::HaProxy;
pub use library::{Library, Title};
pub use mount::Mount;
pub use neighbours::BackgroundViewers;
pub use nginx::Nginx;
pub use prometheus::Prometheus;
pub use runtime::{
    bounded, eventually, have_or_skip, logged_lines, processes_naming, until_logged,
};
