//! What a set of samples must be before anything is said about it.

/// Why nothing can be said from these samples. `index` counts from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SampleError {
    /// Fewer than needed.
    #[error("{found} samples are too few; measure at least {needed}")]
    TooFew {
        /// How many there are.
        found: usize,
        /// How many are needed.
        needed: usize,
    },
    /// A value or a weight that is not a finite number.
    #[error("sample {index} is not a finite number")]
    NotFinite {
        /// Which.
        index: usize,
    },
    /// A weight below zero, or a value that must be above zero and is not.
    #[error("sample {index} is not above zero")]
    NotPositive {
        /// Which.
        index: usize,
    },
    /// Pairs need as many values on either side.
    #[error("{first} samples cannot be paired with {second}; measure both equally often")]
    Unpaired {
        /// On the first side.
        first: usize,
        /// On the second.
        second: usize,
    },
}
