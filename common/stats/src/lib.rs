//! Distributions, confidence intervals, and comparisons of measurements.
//!
//! A figure without its spread is not a result. Repeated measurements are reported as a mean with a
//! confidence interval ([`Summary`]), distributions as a distribution function ([`Cdf`]), and two
//! sets of measurements as a ratio with an interval ([`Comparison`]).
//!
//! Invariants: no result is computed from numbers that are not finite (they are rejected, or
//! counted as rejected); the same samples give the same result on every machine; too few samples
//! give no result (`None`, or an error with the reason).
//!
//! Confidence is a fraction: 0.95 stands for 95 %, which is [`USUAL_CONFIDENCE`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod bootstrap;
mod cdf;
mod comparison;
mod interval;
mod kl;
mod normal;
mod sample_error;
mod sequence;
mod student;
mod summary;

pub use bootstrap::Resamples;
pub use cdf::Cdf;
pub use comparison::Comparison;
pub use interval::{ConfidenceInterval, USUAL_CONFIDENCE};
pub use kl::{BINS, RESOLUTION, kl_divergence, kl_of_shares};
pub use sample_error::SampleError;
pub use sequence::{Access, Sequences};
pub use summary::Summary;
