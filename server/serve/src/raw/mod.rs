//! The only module with unsafe code: the memory that disks write into and sockets take from,
//! io_uring, and options of sockets that no library has.
//!
//! Nothing unsafe leaves it. A slot of the [`Pool`] is either filled by one [`Lease`] or looked
//! at through any number of [`View`]s, never both, and the pool itself checks that; a lease that
//! was given to the [`Ring`] stays with the ring until the kernel has said that it is done with
//! it. So whatever its callers get wrong, no reply sees bytes change and no freed memory is
//! written to.
#![expect(
    unsafe_code,
    reason = "memory that the kernel writes to behind the compiler's back"
)]

mod hot;
#[cfg(not(miri))]
mod mapping;
#[cfg(miri)]
#[path = "mapping_in_miri.rs"]
mod mapping;
mod passed;
mod pool;
mod ring;
mod socket;

pub use hot::CopiesUse;
pub(crate) use hot::{HotSize, PieceOf, Pinned};

pub(crate) use passed::passed_descriptor;
pub(crate) use pool::{InFile, Lease, Pool, View};
pub(crate) use ring::{Ended, QUIESCE_TIME, RUNS_MAX, Ring, Target};
pub(crate) use socket::{delivery_rate, is_reset, unconfirmed_bytes};
