//! What the end-to-end tests share: sample libraries, nginx, HAProxy and Prometheus, the table of HTTP
//! conformance, viewers beside some trouble, servers with a flash tier, a bucket of S3, and a runtime with a bound on time.
//!
//! Every test starts a server of its own over titles of its own, and ends with it.

pub mod conformance;
pub mod haproxy;
pub mod history;
pub mod library;
pub mod loop_fs;
pub mod mount;
pub mod neighbours;
pub mod nginx;
pub mod origin;
pub mod preload;
mod program;
pub mod prometheus;
pub mod runtime;
pub mod s3;
pub mod tier;

pub use haproxy::HaProxy;
pub use library::{Library, Title};
pub use mount::Mount;
pub use neighbours::Neighbours;
pub use nginx::Nginx;
pub use prometheus::Prometheus;
pub use runtime::{bounded, eventually, have_or_skip};
