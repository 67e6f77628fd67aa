//! `cargo +nightly fuzz run http_date --features libfuzzer`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| headlong_fuzz::http_date::run(data));
