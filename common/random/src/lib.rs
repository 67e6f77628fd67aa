//! The one seeded generator, and what is drawn from it.
//!
//! The one idea: chance is an input. Whoever needs it is handed a [`Generator`], and gives parts of
//! the work generators of their own by name ([`Generator::fork`]), so that adding a draw in one
//! place changes nothing in another.
//!
//! Invariants: same seed, same numbers, on every machine (the maths come from `libm`, not from the
//! processor); no global state; nothing here panics on any seed.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod empirical;
mod generator;
mod zipf;

pub use empirical::{Empirical, EmpiricalError};
pub use generator::Generator;
pub use zipf::Zipf;
