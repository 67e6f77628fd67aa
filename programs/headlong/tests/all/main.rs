//! Exit codes and output of `headlong`.

use std::process::{Command, Stdio};

use headlong_testkit::ProgramRun;

mod command_line;
mod talks_to_a_server;
mod tune;

/// The program with these arguments, without input.
fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headlong"));
    command.args(arguments).stdin(Stdio::null());
    command
}

fn headlong(arguments: &[&str]) -> ProgramRun {
    ProgramRun::of(&mut command(arguments))
}
