//! The emulated disk and the removal of leftovers.

mod guardian;
mod slow_disk;
