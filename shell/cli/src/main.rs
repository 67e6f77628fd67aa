//! The one binary: it reads the command line, calls a shell, and turns the answer into an exit
//! code.
//!
//! Exit codes: 0 for done, 64 for a mistake in the command line or the configuration (nothing
//! was started), 2 for a failure while running. Results go to standard output, everything else
//! to standard error.

mod args;
mod bench;
mod check;
mod disk;
mod fill;
mod mistake;
mod reproduce;
mod serve;
mod workload;

use std::io::Write as _;
use std::process::ExitCode;

use args::{Args, Command};
use clap::Parser as _;
use headlong_bench::Ending;
use headlong_server::config::ConfigErrors;
use mistake::Mistakes;

/// A mistake of the operator's: EX_USAGE of sysexits.h.
const EXIT_USAGE: u8 = 64;
/// A failure while running.
const EXIT_FAILURE: u8 = 2;
/// A result that does not count.
const EXIT_REFUSED: u8 = 3;
/// A result below what was demanded.
const EXIT_MISSED: u8 = 4;

fn ending_code(ending: Ending) -> ExitCode {
    ExitCode::from(match ending {
        Ending::Done => 0,
        Ending::Refused => EXIT_REFUSED,
        Ending::Missed => EXIT_MISSED,
    })
}

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
        Command::Workload(command) => workload::workload(&command),
        Command::Reproduce(command) => match reproduce::again(&command) {
            Ok(ending) => return ending_code(ending),
            Err(error) => Err(error),
        },
        Command::Bench(command) => match bench::bench(&command) {
            Ok(ending) => return ending_code(ending),
            Err(error) => Err(error),
        },
        Command::Disk(command) => disk::disk(&command),
    };
    let Err(error) = result else {
        return ExitCode::SUCCESS;
    };
    let mut stderr = std::io::stderr().lock();
    // As above: an error that cannot be printed changes the exit code all the same.
    if let Some(errors) = error.downcast_ref::<ConfigErrors>() {
        for error in errors.iter() {
            let _ = writeln!(stderr, "headlong: {error}");
        }
        return ExitCode::from(EXIT_USAGE);
    }
    if let Some(headlong_vdisk::Error::Invalid(mistakes)) = error.downcast_ref() {
        for mistake in mistakes {
            let _ = writeln!(stderr, "headlong: {mistake}");
        }
        return ExitCode::from(EXIT_USAGE);
    }
    if let Some(Mistakes(mistakes)) = error.downcast_ref() {
        for mistake in mistakes {
            let _ = writeln!(stderr, "headlong: {mistake}");
        }
        return ExitCode::from(EXIT_USAGE);
    }
    let _ = writeln!(stderr, "headlong: {error}");
    ExitCode::from(EXIT_FAILURE)
}
