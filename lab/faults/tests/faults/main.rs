//! Random faults against the server's decisions, and against mutants of them.

#[cfg(feature = "mutants")]
mod mutants;
mod seeds;
