//! The quantities that all crates use: time, bytes, ranges, bit rates and paths.
//!
//! A number in an interface has a type that states its meaning. Time is in nanoseconds since an
//! origin chosen by the caller, so the same code runs on a real clock and on a simulated one. Sizes
//! are in bytes and are written as `2MiB`; durations are written as `5s`; values of small enums are
//! written by name ([`names!`]); and for a wrong name the nearest valid one is suggested
//! ([`nearest`]). A path of a file is text that keeps every byte ([`path_text()`]).
//!
//! Invariants: no clock, no I/O, no floating point in stored values; parsing never panics; the
//! output of [`Bytes`] and [`Duration`] parses back to the same value.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod bit_rate;
mod byte_rate;
mod named;
mod names;
mod parse;
mod path_text;
mod range;
mod size;
mod time;

pub use bit_rate::BitRate;
pub use byte_rate::ByteRate;
pub use names::{nearest, nearest_three};
pub use parse::ParseError;
pub use path_text::{path_bytes, path_text, shown_path};
pub use range::ByteRange;
pub use size::{Bytes, GIB, KIB, MIB, RoundedBytes, TIB};
pub use time::{Duration, Instant};
