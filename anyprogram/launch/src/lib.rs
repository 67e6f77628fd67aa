//! `headlong run`: starts a program with the preloaded library.
//!
//! The one idea: the program is started whatever is found out about it; what would keep the library
//! from helping is said before, with its reason, so that nobody wonders why nothing is faster.

mod program;
mod start;

pub use program::{Unhelped, find, why_unhelped};
pub use start::{Launch, LaunchError, launch, library_beside};
