//! Files of the server in which threads meet, under every order of their steps.
//!
//! The mailbox and the lock with hand-over of a device are built here as they are, not copied, with
//! locks, atomics and an event of loom instead of the standard library's. Loom runs each model again
//! and again until every order has been tried (up to so many preemptions), and ends with an error if a
//! thread could sleep for ever: which is what a lost message or wake would be.
//!
//! What loom cannot show: effects of locks on weak memory (it runs those one after the other), and
//! what the engine does under the lock.

// Built as a test, the files would bring tests of their own, which are for the real thing.
#[cfg(not(test))]
mod disk;
#[cfg(not(test))]
mod sync;

#[cfg(not(test))]
pub use disk::models;
