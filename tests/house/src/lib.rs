//! Checks that the workspace follows ARCHITECTURE.md: dependencies between crates, contents of the
//! pure crates, and no unfinished work.
//!
//! Each check is a function from facts (manifests, dependency trees, texts) to a list of failures
//! with remedies. The checks run on this workspace in `tests/house`, and on bad examples beside
//! their code, so that a check that examines nothing cannot pass.

pub mod arrows;
pub mod dependencies;
pub mod documents;
pub mod features;
pub mod map;
pub mod purity;
pub mod source;
pub mod tidy;
pub mod units;
pub mod watching;
pub mod workspace;
