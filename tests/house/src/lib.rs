//! Checks that the house is as ARCHITECTURE.md says: who knows whom, what the cores are made of,
//! and that nothing was left lying about.
//!
//! The one idea: each check is a function from facts (manifests, trees of dependencies, texts) to
//! a list of failures, and each failure says what to do. The checks run on this workspace in
//! `tests/house.rs`, and on bad examples beside their code, so that none of them can pass by
//! looking at nothing.

pub mod arrows;
pub mod circles;
pub mod containerfile;
pub mod dependencies;
pub mod documents;
pub mod features;
pub mod map;
pub mod modules;
pub mod purity;
pub mod source;
pub mod tidy;
pub mod watching;
pub mod workspace;
