//! End-to-end tests that compare latencies, or a machine with its model: a program of their own, so
//! that no other test disturbs them.

mod bench;
mod hostile_roots;
mod neighbours;
