//! `cargo +nightly fuzz run units_quantity --features libfuzzer`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| headlong_fuzz::units_quantity::run(data));
