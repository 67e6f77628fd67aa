//! End-to-end tests that compare latencies, or a machine with its model: Cargo runs this program
//! after the other one has ended, so that other tests do not disturb them.

mod bench;
mod hostile_roots;
mod neighbours;
mod slow_device;
