//! The laboratory program: parses the command line, calls the library function, and converts the
//! result to an exit code.
//!
//! Exit codes: 0 for success, 64 for a usage error in the command line or the configuration
//! (nothing was started), 2 for a run-time failure, 3 for an invalid result, 4 for a result that
//! misses a goal, 5 for a log without requests or with more than a tenth of its lines
//! unreadable, or with too few sessions. Results go to standard output, everything else to standard error.

// A reader may close the pipe, and then `println!` panics: use `output::print`.
#![deny(clippy::print_stdout)]
// Standard error may be closed or full, and then `eprintln!` panics: use `headlong_report::say`.
#![cfg_attr(not(test), deny(clippy::print_stderr))]

mod args;
mod bench;
mod capacity;
mod characterise;
mod describe;
mod disk;
mod fill;
mod libception;
mod load;
#[cfg(test)]
mod manual_tests;
mod mistake;
mod output;
mod phased;
mod records;
mod reproduce;
mod reproduction_args;
mod request_logs;
mod simulate;
mod simulate_chains;
mod simulate_faults;
mod simulate_fleet;
mod simulate_plan;
mod spec_args;
mod stop;
mod trace;
mod trace_file;
mod trace_parts;
mod workload;

use std::io::Write as _;
use std::process::ExitCode;

use args::{Args, Command};
use clap::Parser as _;
use mistake::{Mistakes, Verdict};

/// A usage error: EX_USAGE of sysexits.h.
const EXIT_USAGE: u8 = 64;
/// A run-time failure.
const EXIT_FAILURE: u8 = 2;

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            // An error while printing an error is ignored.
            let _ = error.print();
            let is_mistake = error.use_stderr();
            return ExitCode::from(if is_mistake { EXIT_USAGE } else { 0 });
        }
    };
    let result = match args.command {
        Command::Disk(command) => disk::disk(&command),
        Command::Simulate(simulating) => simulate::simulate(&simulating),
        Command::Workload(command) => workload::workload(&command),
        Command::Trace(command) => trace::trace(&command),
        Command::Reproduce(command) => reproduce::again(&command),
        Command::Bench(command) => bench::bench(&command),
        Command::Load(command) => load::load(&command),
        Command::Capacity(arguments) => capacity::answer(&arguments),
    };
    let Err(error) = result else {
        return ExitCode::SUCCESS;
    };
    let (code, lines) = exit_code(&error);
    let mut stderr = std::io::stderr().lock();
    for line in lines {
        // Likewise: the exit code reports the error in any case.
        let _ = writeln!(stderr, "headlong: {line}");
    }
    ExitCode::from(code)
}

/// The exit code of an error, and its lines.
fn exit_code(error: &anyhow::Error) -> (u8, Vec<String>) {
    if let Some(headlong_vdisk::Error::Invalid(mistakes)) = error.downcast_ref() {
        (EXIT_USAGE, mistakes.clone())
    } else if let Some(Mistakes(mistakes)) = error.downcast_ref() {
        (EXIT_USAGE, mistakes.clone())
    } else if let Some(Verdict { code, reasons }) = error.downcast_ref() {
        (*code, reasons.clone())
    } else {
        (EXIT_FAILURE, vec![error.to_string()])
    }
}
