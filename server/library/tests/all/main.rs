//! Trees of files, scanned and resolved.

mod common;
mod manifests;
mod mounted;
mod mp4;
mod out_of_order_scan;
mod refresh;
mod tree;
mod versions;
