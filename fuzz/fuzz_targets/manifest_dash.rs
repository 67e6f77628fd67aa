//! `cargo +nightly fuzz run manifest_dash --features libfuzzer`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| headlong_fuzz::manifest_dash::run(data));
