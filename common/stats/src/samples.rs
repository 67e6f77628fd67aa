//! What a set of samples must be before anything is said about it.

use core::fmt;

/// Why nothing can be said from these samples. `index` counts from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleError {
    /// Fewer than needed.
    TooFew {
        /// How many there are.
        found: usize,
        /// How many are needed.
        needed: usize,
    },
    /// A value or a weight that is not a finite number.
    NotFinite {
        /// Which.
        index: usize,
    },
    /// A weight below zero, or a value that must be above zero and is not.
    NotPositive {
        /// Which.
        index: usize,
    },
    /// Pairs need as many values on either side.
    Unpaired {
        /// On the first side.
        first: usize,
        /// On the second.
        second: usize,
    },
}

impl fmt::Display for SampleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooFew { found, needed } => {
                write!(f, "{found} samples are too few; measure at least {needed}")
            }
            Self::NotFinite { index } => write!(f, "sample {index} is not a finite number"),
            Self::NotPositive { index } => write!(f, "sample {index} is not above zero"),
            Self::Unpaired { first, second } => write!(
                f,
                "{first} samples cannot be paired with {second}; measure both equally often"
            ),
        }
    }
}

impl core::error::Error for SampleError {}
