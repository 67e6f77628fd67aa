//! `cargo +nightly fuzz run http_range --features libfuzzer`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| headlong_fuzz::http_range::run(data));
