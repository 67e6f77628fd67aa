//! Experiments: set up, run, search, compare, reproduce.
