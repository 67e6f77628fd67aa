//! The tests of this crate that read logs.

mod held_out;
mod whole_answer;
