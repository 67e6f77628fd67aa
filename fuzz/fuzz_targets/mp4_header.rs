//! `cargo +nightly fuzz run mp4_header --features libfuzzer`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| headlong_fuzz::mp4_header::run(data));
