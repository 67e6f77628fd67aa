//! `cargo +nightly fuzz run workload_specification --features libfuzzer`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| headlong_fuzz::workload_specification::run(data));
