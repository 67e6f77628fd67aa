//! The seeded pseudorandom generator, and the distributions sampled from it.
//!
//! Randomness is an input: code that needs it receives a [`Generator`] and creates separate
//! generators for parts of its work by name ([`Generator::fork`]), so that an additional draw in
//! one place does not change the numbers in another.
//!
//! Invariants: the same seed gives the same numbers on every machine (mathematical functions come
//! from `libm`, not from the processor); there is no global state; nothing here panics for any
//! seed.
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
