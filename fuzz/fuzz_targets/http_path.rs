//! `cargo +nightly fuzz run http_path --features libfuzzer`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| headlong_fuzz::http_path::run(data));
