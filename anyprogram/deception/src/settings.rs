//! Settings from the environment, read once before the program's `main`.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use headlong_protocol::environment;

/// Default minimum file size: the kernel reads smaller files in one request.
const FILE_BYTES_MIN_DEFAULT: u64 = 256 << 10;
/// Default limit of the wait for the daemon, milliseconds.
const WAIT_MS_DEFAULT: u64 = 10_000;
/// Default readahead of mode `prefetch` (libception 4).
const PREFETCH_BYTES_DEFAULT: u64 = 2 << 20;

/// Operating mode of the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Nothing.
    Off,
    /// Asks the daemon.
    Daemon,
    /// Makes the kernel read ahead, without a daemon (libception 3.2.2, prefetch only).
    Prefetch,
}

static MODE: AtomicU8 = AtomicU8::new(0);
static PREFETCH_BYTES: AtomicU64 = AtomicU64::new(PREFETCH_BYTES_DEFAULT);
static WAIT_MS: AtomicU64 = AtomicU64::new(WAIT_MS_DEFAULT);
static FILE_BYTES_MIN: AtomicU64 = AtomicU64::new(FILE_BYTES_MIN_DEFAULT);

/// Reads the environment. Invalid values are ignored.
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

/// The current mode.
pub(crate) fn mode() -> Mode {
    match MODE.load(Relaxed) {
        1 => Mode::Daemon,
        2 => Mode::Prefetch,
        _ => Mode::Off,
    }
}

/// Disables the library in this process.
pub(crate) fn turn_off() {
    MODE.store(0, Relaxed);
}

/// Readahead of mode `prefetch`, bytes.
pub(crate) fn prefetch_bytes() -> u64 {
    PREFETCH_BYTES.load(Relaxed)
}

/// Longest wait for the daemon, milliseconds.
pub(crate) fn wait_ms() -> u64 {
    WAIT_MS.load(Relaxed)
}

/// Minimum file size, bytes; smaller files are ignored.
pub(crate) fn file_bytes_min() -> u64 {
    FILE_BYTES_MIN.load(Relaxed)
}
