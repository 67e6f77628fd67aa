//! `cargo +nightly fuzz run manifest_hls --features libfuzzer`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| headlong_fuzz::manifest_hls::run(data));
