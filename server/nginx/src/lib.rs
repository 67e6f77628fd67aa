//! Meaning of an nginx.conf: the settings of Headlong that do the same, and a remedy for each
//! directive that has no place here.
//!
//! [`parse`] makes directives of a text, the caller replaces `include`, and [`convert`] does the
//! rest. Invariant: a restriction of access that cannot be converted closes its path; a conversion
//! never opens what nginx does not serve.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod access;
mod convert;
mod finding;
mod known;
mod limits;
mod listen;
mod location;
mod origin;
mod quantity;
mod roots;
mod scope;
mod syntax;
mod table;

pub use convert::{Conversion, convert};
pub use finding::Finding;
pub use syntax::{Directive, SyntaxError, parse};
