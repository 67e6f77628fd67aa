//! Distributions, confidence intervals, and the comparison of two of them.
//!
//! The one idea: a figure without its spread is not a result. What is measured several times is told
//! as a mean with a confidence interval ([`Summary`]), what has a distribution as one ([`Cdf`]), and
//! two sets of measurements as a ratio with an interval ([`Comparison`]).
//!
//! Invariants: no answer is made of numbers that are not finite (they are refused, or counted as
//! rejected); same samples, same answer, on every machine; what cannot be said from so few samples
//! is not said (`None`, or an error that says why).
//!
//! Confidence is a share: 0.95 is what people call 95 %; [`USUAL_CONFIDENCE`] is it.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod cdf;
mod comparison;
mod interval;
mod kl;
mod normal;
mod order;
mod samples;
mod sequence;
mod student;
mod summary;

pub use cdf::Cdf;
pub use comparison::Comparison;
pub use interval::{ConfidenceInterval, USUAL_CONFIDENCE};
pub use kl::{BINS, RESOLUTION, kl_divergence, kl_of_shares};
pub use order::out_of_order;
pub use samples::SampleError;
pub use sequence::{Access, Sequences};
pub use summary::Summary;
