//! `cargo +nightly fuzz run trace_recognise --features libfuzzer`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| headlong_fuzz::trace_recognise::run(data));
