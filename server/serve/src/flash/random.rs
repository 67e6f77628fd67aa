//! Numbers that differ from one process to the next.

/// A number that no process before has begun with.
pub(crate) fn random() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    // Its keys are drawn by the system for each process.
    RandomState::new().hash_one(std::time::SystemTime::now())
}
