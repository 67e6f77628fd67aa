//! The one binary: it reads the command line, calls a shell, and turns the answer into an exit
//! code.
//!
//! Exit codes: 0 for done, 64 for a mistake in the command line or the configuration (nothing
//! was started), 2 for a failure while running. Results go to standard output, everything else
//! to standard error.

mod args;
mod check;
mod serve;
mod simulate;

use std::io::Write as _;
use std::process::ExitCode;

use args::{Args, Command};
use clap::Parser as _;
use headlong_server::config::ConfigErrors;

/// A mistake of the operator's: EX_USAGE of sysexits.h.
const EXIT_USAGE: u8 = 64;
/// A failure while running.
const EXIT_FAILURE: u8 = 2;

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            // Nobody is left to tell if this cannot be printed either.
            let _ = error.print();
            let is_mistake = error.use_stderr();
            return ExitCode::from(if is_mistake { EXIT_USAGE } else { 0 });
        }
    };
    let result = match args.command {
        Command::Serve(serving) => serve::serve(&serving),
        Command::Check(serving) => check::check(&serving),
        Command::Simulate(simulating) => simulate::simulate(&simulating),
    };
    let Err(error) = result else {
        return ExitCode::SUCCESS;
    };
    if let Some(error) = error.downcast_ref::<clap::Error>() {
        let _ = error.print();
        return ExitCode::from(EXIT_USAGE);
    }
    let mut stderr = std::io::stderr().lock();
    // As above: an error that cannot be printed changes the exit code all the same.
    if let Some(errors) = error.downcast_ref::<ConfigErrors>() {
        for error in errors.iter() {
            let _ = writeln!(stderr, "headlong: {error}");
        }
        return ExitCode::from(EXIT_USAGE);
    }
    let _ = writeln!(stderr, "headlong: {error}");
    ExitCode::from(EXIT_FAILURE)
}
