//! What is tried with any input, and what must hold whatever the input was.
//!
//! The one idea: a target is a plain function of bytes, so the same function serves a fuzzer
//! (`fuzz_targets/`, nightly toolchain) and an ordinary test (`tests/smoke.rs`, any toolchain).
//! Inputs are text wherever that is possible: a corpus that can be read can be written by hand.
//!
//! To add a target: a module with `pub fn run(data: &[u8])`, a line in [`TARGETS`], an input or
//! more in `corpus/<name>/`, a `fuzz_targets/<name>.rs` and a `[[bin]]`. The smoke test says which
//! of these is missing.

pub mod http_cmcd;
pub mod http_date;
pub mod http_path;
pub mod http_plan;
pub mod http_range;
mod manifest;
pub mod manifest_dash;
pub mod manifest_hls;
pub mod mp4_header;
pub mod server_config;
pub mod trace_format;
pub mod trace_line;
pub mod trace_recognise;
pub mod units_quantity;
pub mod workload_specification;
pub mod workload_trace;

/// Something to be fuzzed.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Name of the module, the binary and the folder in `corpus/`.
    pub name: &'static str,
    /// Panics if the input breaks something.
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

/// The first line of an input, which sets the scene, and the rest of it.
fn split_line(data: &[u8]) -> (&[u8], &[u8]) {
    match data.iter().position(|byte| *byte == b'\n') {
        Some(at) => (&data[..at], &data[at + 1..]),
        None => (data, &[]),
    }
}

/// The number that a text is, or a number made from it.
fn number(text: &[u8]) -> u64 {
    let digits = str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    let mixed = |sum: u64, byte: &u8| sum.wrapping_mul(257).wrapping_add(u64::from(*byte));
    digits.unwrap_or_else(|| text.iter().fold(0, mixed))
}

/// A moment from the number in a text; the epoch if HTTP cannot spell it.
fn moment(text: &[u8]) -> headlong_http::HttpDate {
    let seconds = number(text).cast_signed();
    headlong_http::HttpDate::from_unix_seconds(seconds).unwrap_or(headlong_http::HttpDate::EPOCH)
}
