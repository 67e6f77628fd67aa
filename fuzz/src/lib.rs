//! Fuzz targets: functions that panic if an input violates an invariant of a parser.
//!
//! A target is a plain function of bytes, so the same function serves a fuzzer (`fuzz_targets/`,
//! nightly toolchain) and an ordinary test (`tests/smoke.rs`, any toolchain). Inputs are text where
//! possible, so that a corpus can be written by hand.
//!
//! To add a target: a module with `pub fn run(data: &[u8])`, a line in [`TARGETS`], at least one
//! input in `corpus/<name>/`, a `fuzz_targets/<name>.rs` and a `[[bin]]`. The smoke test names the
//! missing ones.

pub mod http_cmcd;
pub mod http_date;
pub mod http_path;
pub mod http_plan;
pub mod http_range;
mod input;
mod manifest;
pub mod manifest_dash;
pub mod manifest_hls;
pub mod mp4_header;
pub mod mp4_package;
pub mod server_config;
pub mod trace_format;
pub mod trace_line;
pub mod trace_recognise;
pub mod units_quantity;
pub mod workload_specification;
pub mod workload_trace;

/// A fuzz target.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Name of the module, the binary and the folder in `corpus/`.
    pub name: &'static str,
    /// Panics if the input violates an invariant.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: &[Target] = &[
    target("http_cmcd", http_cmcd::run),
    target("http_date", http_date::run),
    target("http_path", http_path::run),
    target("http_plan", http_plan::run),
    target("http_range", http_range::run),
    target("manifest_dash", manifest_dash::run),
    target("manifest_hls", manifest_hls::run),
    target("mp4_header", mp4_header::run),
    target("mp4_package", mp4_package::run),
    target("server_config", server_config::run),
    target("trace_format", trace_format::run),
    target("trace_line", trace_line::run),
    target("trace_recognise", trace_recognise::run),
    target("units_quantity", units_quantity::run),
    target("workload_specification", workload_specification::run),
    target("workload_trace", workload_trace::run),
];

const fn target(name: &'static str, run: fn(&[u8])) -> Target {
    Target { name, run }
}
