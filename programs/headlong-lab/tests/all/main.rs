//! Exit codes and output of `headlong-lab`.

use std::path::Path;
use std::process::{Command, Stdio};

use headlong_testkit::ProgramRun;

mod bench;
mod capacity;
mod disk;
mod disk_measured;
mod load;
mod simulate_chains;
mod simulate_faults;
mod simulate_plan;
mod trace_chains;
mod trace_logs;
mod trace_parts;
mod workload;

/// The program with these arguments, without input.
fn command<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headlong-lab"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Runs it with these words, in a folder.
fn run_in(folder: &Path, words: &str) -> ProgramRun {
    ProgramRun::of(command(words.split(' ')).current_dir(folder))
}

/// Runs it with these words.
fn run_words(words: &str) -> ProgramRun {
    ProgramRun::of(&mut command(words.split(' ')))
}

/// Runs it with these arguments.
fn run(arguments: &[&str]) -> ProgramRun {
    ProgramRun::of(&mut command(arguments.iter().copied()))
}
