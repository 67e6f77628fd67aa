//! What is asked of a disk, and the seek test that measures one.
//!
//! The one idea: a real disk and a model of one are asked the same requests, so that their figures
//! can be laid side by side. Nothing here sends a request or tells the time.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod request;
mod seek_test;

pub use request::{Direction, Request, SECTOR_BYTES};
pub use seek_test::{Measurements, Phase, Rates, Timings, step_sectors};
