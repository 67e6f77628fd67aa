//! The operator's program: serves, and passes the verbs of `headlong-lab` on to that program.
//!
//! Exit codes: 0 for success, 64 for a mistake in the command line or the configuration (nothing
//! was started), 65 for warnings with `check --strict`, 2 for a failure while running; for `run`, 127 if the program does not exist and
//! 126 if it cannot be executed, as in shells. Results go to standard output, everything else to
//! standard error.

#![forbid(unsafe_code)]
// A reader may close the pipe early, and `println!` panics then: `headlong_survey::print`.
#![deny(clippy::print_stdout)]
// Standard error may be full, and `eprintln!` panics: `headlong_report::say`.
#![cfg_attr(not(test), deny(clippy::print_stderr))]

mod admin_client;
mod anyprogram;
mod args;
mod check;
mod fill;
mod flash;
mod fleet;
mod fleet_plan;
mod health;
mod lab_delegation;
mod manual;
mod mount;
mod nginx;
mod root;
mod root_survey;
mod serve;
mod settings_page;
mod warnings;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

pub use args::command;
use args::{Args, Command, DiskCommand};
use clap::FromArgMatches as _;
use headlong_config::Mistakes;
use headlong_launch::LaunchError;
use headlong_serve::run::RunError;
use headlong_survey::{ProbeOptions, SurveyError, probe_page};
use warnings::StrictWarnings;

/// A mistake of the operator: EX_USAGE of sysexits.h.
const EXIT_USAGE: u8 = 64;
/// Warnings with `check --strict`: EX_DATAERR of sysexits.h.
const EXIT_WARNINGS: u8 = 65;
/// A failure while running.
const EXIT_FAILURE: u8 = 2;

/// The whole program: parses the command line, executes it, and returns the exit code.
pub fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    if lab_delegation::is_for_lab(&words) {
        return failed(lab_delegation::become_lab(&words));
    }
    let parsed = command()
        .try_get_matches()
        .and_then(|matches| Args::from_arg_matches(&matches));
    let args = match parsed {
        Ok(args) => args,
        Err(error) => {
            // If this cannot be printed either, there is no further channel.
            let _ = error.print();
            let is_mistake = error.use_stderr();
            return ExitCode::from(if is_mistake { EXIT_USAGE } else { 0 });
        }
    };
    let result = match args.command {
        Command::Serve(serving) => serve::serve(&serving),
        Command::Check(checking) => check::check(&checking),
        Command::Reception(receiving) => anyprogram::receive(&receiving),
        Command::Run(running) => return failed(anyprogram::run(&running)),
        Command::Mount(mounting) => mount::mount(&mounting),
        Command::MountKeeper(keeping) => mount::keep(&keeping),
        Command::Tune(tuning) => headlong_survey::tune(&tuning).map_err(Into::into),
        Command::Flash(command) => flash::flash(&command),
        Command::Fill(filling) => fill::fill(&filling),
        Command::Root(command) => root::root(&command),
        Command::Health(asking) => health::health(&asking),
        Command::Fleet(command) => fleet::fleet(&command),
        Command::Completions(completing) => manual::complete(&completing, command()),
        Command::Manual(documenting) => manual::write(&documenting, command()),
        Command::Disk(DiskCommand::Probe(probing)) => {
            if probing.is_of_model() {
                return failed(lab_delegation::become_lab(&words));
            }
            probe(&probing).map_err(Into::into)
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(error),
    }
}

/// `headlong disk probe` of a device.
fn probe(probing: &ProbeOptions) -> Result<(), SurveyError> {
    probing.check()?;
    headlong_survey::probe(
        probing,
        probing.device()?,
        &lab_delegation::fit,
        &probe_page,
    )
}

/// Prints an error and returns its exit code.
fn failed(error: anyhow::Error) -> ExitCode {
    let mut stderr = std::io::stderr().lock();
    let prefix = headlong_report::error_prefix();
    // An error that cannot be printed still sets the exit code.
    let at_start = error.downcast_ref::<RunError>();
    let found_late = at_start.and_then(RunError::mistakes);
    if let Some(errors) = found_late.or_else(|| error.downcast_ref::<Mistakes>()) {
        for error in errors.iter() {
            let _ = writeln!(stderr, "{prefix}headlong: {error}");
        }
        return ExitCode::from(EXIT_USAGE);
    }
    if let Some(error @ RunError::Tls(_)) = at_start {
        let _ = writeln!(stderr, "{prefix}headlong: {error}");
        return ExitCode::from(EXIT_USAGE);
    }
    if let Some(warnings) = error.downcast_ref::<StrictWarnings>() {
        let _ = writeln!(stderr, "{prefix}headlong: {warnings}");
        return ExitCode::from(EXIT_WARNINGS);
    }
    let of_launch = error.downcast_ref::<LaunchError>();
    if let Some(code) = of_launch.and_then(LaunchError::shell_code) {
        let _ = writeln!(stderr, "{prefix}headlong: {error}");
        return ExitCode::from(code);
    }
    let mistakes = error
        .downcast::<SurveyError>()
        .map(SurveyError::into_mistakes);
    let error = match mistakes {
        Ok(Ok(mistakes)) => {
            for mistake in mistakes {
                let _ = writeln!(stderr, "{prefix}headlong: {mistake}");
            }
            return ExitCode::from(EXIT_USAGE);
        }
        Ok(Err(error)) => error.into(),
        Err(error) => error,
    };
    let _ = writeln!(stderr, "{prefix}headlong: {error}");
    ExitCode::from(EXIT_FAILURE)
}
