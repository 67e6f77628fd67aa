//! Loom models of the server's synchronization code.
//!
//! The mailbox and the delegation lock of a device are compiled here from the server's own files,
//! with loom's locks, atomics and an event instead of the standard library's. Loom repeats each
//! model until every order of steps has been tried (up to a number of preemptions), and fails if a
//! thread could sleep indefinitely, as after a lost message or wake-up.
//!
//! Not covered: effects of weak memory on locks (loom serializes them), and the engine's work under
//! the lock.

// Compiled as tests, the files would include their own tests, which use the real types.
#[cfg(not(test))]
mod disk;
#[cfg(not(test))]
mod sync;

#[cfg(not(test))]
pub use disk::models;
