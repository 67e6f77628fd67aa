//! Requirements on samples.

/// Why no result can be computed from these samples. `index` counts from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SampleError {
    /// Too few samples.
    #[error("{found} samples are too few; measure at least {needed}")]
    TooFew {
        /// Number of samples.
        found: usize,
        /// Number of samples needed.
        needed: usize,
    },
    /// A value or a weight that is not a finite number.
    #[error("sample {index} is not a finite number")]
    NotFinite {
        /// Index of the sample.
        index: usize,
    },
    /// A negative weight, or a value that must be above zero.
    #[error("sample {index} is not above zero")]
    NotPositive {
        /// Index of the sample.
        index: usize,
    },
    /// Paired samples must have the same number of values on both sides.
    #[error("{first} samples cannot be paired with {second}; measure both equally often")]
    Unpaired {
        /// Number on the first side.
        first: usize,
        /// Number on the second side.
        second: usize,
    },
}
