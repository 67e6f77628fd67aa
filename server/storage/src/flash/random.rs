//! Random numbers.

/// A random number that differs between processes.
pub(crate) fn random() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    // `RandomState` draws its keys from the system.
    RandomState::new().hash_one(std::time::SystemTime::now())
}
