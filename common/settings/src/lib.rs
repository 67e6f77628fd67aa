//! Settings that people write in TOML files and flags: read, checked, shown and documented.
//!
//! The one idea: a setting is one [`Row`] (name, [`Kind`], place in a struct, text), and everything
//! else walks the rows: reading a [`Document`], the flags of a command line, printing the values in
//! force, the manual's page. So a setting is written down once, and its default is what the
//! struct's `Default` holds.
//!
//! Invariants: every mistake is reported, not the first, each with its place and its remedy; a
//! wrong value leaves the default in force, so that the checks behind it still run; what
//! [`Kind::show`] prints, [`Kind::read`] reads back to the same value. No text makes it panic.
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
pub use kind::{Kind, Wrong};
pub use kinds::{
    bit_rate, choice, flag, named, number, parsed, rate, seconds, share, size, text, time, whole,
};
pub use mistake::{Mistake, Mistakes, Place, one_line};
pub use row::{Row, Rows, toml_line};
pub use unknown::suggestion;
pub use value::{Value, key_part, quote};
