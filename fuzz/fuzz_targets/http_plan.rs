//! `cargo +nightly fuzz run http_plan --features libfuzzer`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| headlong_fuzz::http_plan::run(data));
