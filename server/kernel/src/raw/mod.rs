//! The only module with unsafe code: memory that disks write to and sockets read from, `io_uring`,
//! and socket options without a safe wrapper.
//!
//! Its interface is safe. A slot of the [`Pool`] is either filled by one [`Lease`] or read through
//! any number of [`PieceView`]s, never both, and the pool enforces that. A lease given to the
//! [`Ring`] stays with the ring until the kernel has completed the read. So no mistake of a caller
//! can change bytes under a reply or write to freed memory.
#![expect(
    unsafe_code,
    reason = "memory that the kernel writes to behind the compiler's back"
)]

mod inherited_descriptors;
#[cfg(not(miri))]
mod mapping;
#[cfg(miri)]
#[path = "mapping_in_miri.rs"]
mod mapping;
mod pool;
mod ring;
mod sendfile_cache;
mod socket;

pub use sendfile_cache::SendfileCacheUse;
pub use sendfile_cache::{BlockPin, PieceIdentity, SendfileCacheSize};

pub use inherited_descriptors::passed_descriptor;
pub use pool::{FileRange, Lease, PieceView, Pool};
pub use ring::{CompletedRead, QUIESCE_TIME, RUNS_MAX, ReadTarget, Ring};
pub use socket::{delivery_rate, is_reset, unconfirmed_bytes};
