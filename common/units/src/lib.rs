//! The quantities every other crate speaks in: time, bytes, ranges and bit rates.
//!
//! The one idea: a number that leaves a function says what it is. Time is nanoseconds since an
//! origin the caller chose, so the same code runs on a real clock and on a simulated one. Sizes
//! are bytes, and people write them as `2MiB`; durations are written as `5s`; what is chosen from a
//! few is written by name ([`names!`]); and what they write wrongly gets the name they probably meant
//! ([`nearest`]).
//!
//! Invariants: no clock, no I/O, no floating point in what is stored; parsing never panics; what
//! [`Bytes`] and [`Duration`] print, they parse back to the same value.
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
mod range;
mod size;
mod time;

pub use bit_rate::BitRate;
pub use byte_rate::ByteRate;
pub use names::{nearest, nearest_three};
pub use parse::ParseError;
pub use range::ByteRange;
pub use size::{Bytes, GIB, KIB, MIB, TIB};
pub use time::{Duration, Instant};
