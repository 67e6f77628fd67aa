//! `cargo +nightly fuzz run mp4_package --features libfuzzer`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| headlong_fuzz::mp4_package::run(data));
