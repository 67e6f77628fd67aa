//! Distributions, confidence intervals, and the comparison of two of them.
//!
//! The one idea: a figure without its spread is not a result. What is measured several times is told
//! as a mean with a confidence interval, what has a distribution as one.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;
