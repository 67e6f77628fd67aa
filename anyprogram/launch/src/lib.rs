//! `headlong run`: starts a program with the preload library.
//!
//! Anything that would make the library ineffective is reported with its reason before the program
//! starts; unless the caller forbids it, the program starts anyway.

mod program;
mod start;

pub use program::{PreloadObstacle, find, why_unhelped};
pub use start::{Launch, LaunchError, launch, library_beside};
