//! `cargo +nightly fuzz run server_config --features libfuzzer`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| headlong_fuzz::server_config::run(data));
