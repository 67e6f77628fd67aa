//! What the environment says, read once before the program begins.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use headlong_protocol::environment;

/// Smaller files are left alone unless told otherwise: one read of the kernel's brings them.
const FILE_BYTES_MIN_DEFAULT: u64 = 256 << 10;
/// How long a call waits for the reception unless told otherwise, milliseconds.
const WAIT_MS_DEFAULT: u64 = 10_000;
/// What mode `prefetch` reads at a time unless told otherwise (libception 4).
const PREFETCH_BYTES_DEFAULT: u64 = 2 << 20;

/// What the library does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Nothing.
    Off,
    /// Asks the reception.
    Daemon,
    /// Has the kernel read ahead by itself, without a reception (libception 3.2.2, prefetch only).
    Prefetch,
}

static MODE: AtomicU8 = AtomicU8::new(0);
static PREFETCH_BYTES: AtomicU64 = AtomicU64::new(PREFETCH_BYTES_DEFAULT);
static WAIT_MS: AtomicU64 = AtomicU64::new(WAIT_MS_DEFAULT);
static FILE_BYTES_MIN: AtomicU64 = AtomicU64::new(FILE_BYTES_MIN_DEFAULT);

/// Reads the environment. What cannot be read is as if it were not there.
pub(crate) fn read() {
    let mode = std::env::var(environment::MODE).unwrap_or_default();
    match mode.as_str() {
        "off" => return,
        "prefetch" => MODE.store(2, Relaxed),
        _ => MODE.store(1, Relaxed),
    }
    for (name, place) in [
        (environment::PREFETCH, &PREFETCH_BYTES),
        (environment::WAIT, &WAIT_MS),
        (environment::FILE_MIN, &FILE_BYTES_MIN),
    ] {
        let number = std::env::var(name).ok().and_then(|text| text.parse().ok());
        place.store(number.unwrap_or_else(|| place.load(Relaxed)), Relaxed);
    }
}

/// What to do.
pub(crate) fn mode() -> Mode {
    match MODE.load(Relaxed) {
        1 => Mode::Daemon,
        2 => Mode::Prefetch,
        _ => Mode::Off,
    }
}

/// Nothing more is done in this process.
pub(crate) fn turn_off() {
    MODE.store(0, Relaxed);
}

/// Bytes that mode `prefetch` reads at a time.
pub(crate) fn prefetch_bytes() -> u64 {
    PREFETCH_BYTES.load(Relaxed)
}

/// Longest wait, milliseconds.
pub(crate) fn wait_ms() -> u64 {
    WAIT_MS.load(Relaxed)
}

/// Smaller files are left alone.
pub(crate) fn file_bytes_min() -> u64 {
    FILE_BYTES_MIN.load(Relaxed)
}
