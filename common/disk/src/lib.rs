//! Disk requests, and the seek test that measures a disk.
//!
//! A real disk and a disk model receive the same requests, so that their results can be compared
//! directly. This crate neither sends requests nor measures time.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod request;
mod seek_test;

pub use request::{Direction, Request, SECTOR_BYTES};
pub use seek_test::{Measurements, Phase, Rates, Timings, step_sectors};
