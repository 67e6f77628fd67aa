//! Settings in TOML files and flags: parsed, checked, printed and documented.
//!
//! A setting is one [`Row`] (name, [`ValueKind`], field of a struct, text), and everything else
//! iterates over the rows: reading a [`Document`], the flags of a command line, printing the
//! current values, the page of the manual. So a setting is defined once, and its default is the
//! value in the `Default` of the struct.
//!
//! Invariants: all mistakes are reported, not only the first, each with its position and its
//! remedy; after an invalid value the default remains in effect, so that later checks still run;
//! [`ValueKind::read`] parses the output of [`ValueKind::show`] to the same value. No text causes a
//! panic.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod combine;
mod document;
mod kind;
mod kinds;
mod mistake;
mod row;
mod unknown;
mod value;

pub use document::Document;
pub use kind::{Rejection, ValueKind};
pub use kinds::{
    bit_rate, choice, flag, named, number, parsed, rate, seconds, share, size, text, time, whole,
};
pub use mistake::{Mistake, Mistakes, ValueLocation, one_line};
pub use row::{ManualEntry, Row, Rows, Tier, document, toml_line};
pub use unknown::suggestion;
pub use value::{Value, key_part, quote};
