//! `cargo +nightly fuzz run http_cmcd --features libfuzzer`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| headlong_fuzz::http_cmcd::run(data));
