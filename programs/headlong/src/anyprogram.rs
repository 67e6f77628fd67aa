//! `headlong reception` and `headlong run`: reading ahead for unmodified programs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use headlong_launch::{Launch, launch, library_beside};
use headlong_protocol::environment;
use headlong_reception::{Flags, Settings};
use headlong_report::say;
use headlong_units::{Bytes, Duration as UnitsDuration};

/// Options of the read-ahead daemon for programs started with `headlong run`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ReceptionArgs {
    /// Settings in TOML; /usr/share/doc/headlong/reception.md lists the keys
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    flags: Flags,
    /// Print the counters of the running reception as JSON, and exit
    #[arg(long)]
    status: bool,
}

/// Options of `headlong run`: the program, and how it is helped.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct RunArgs {
    /// Path of the reception's socket
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Reader: the reception (daemon), or the program's own kernel calls (prefetch)
    #[arg(long, value_name = "NAME", default_value = "daemon", value_parser = ["daemon", "prefetch"])]
    mode: String,
    /// With --mode prefetch, how much is read at a time
    #[arg(long, value_name = "SIZE", default_value = "2MiB")]
    prefetch: Bytes,
    /// How long a call waits for the reception before it reads by itself: reads past its queue do
    /// not help a disk that is behind
    #[arg(long, value_name = "TIME", default_value = "10s")]
    wait: UnitsDuration,
    /// Smaller files are only considered at the first call
    #[arg(long, value_name = "SIZE", default_value = "256KiB")]
    file_min: Bytes,
    /// The library, if it is neither beside this program nor in ../lib
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
    /// Do not start a program that would not be helped
    #[arg(long)]
    only_if_helped: bool,
    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    command: Vec<OsString>,
}

/// Reads for programs until it is stopped, or prints the status of a running reception.
pub(crate) fn receive(receiving: &ReceptionArgs) -> anyhow::Result<()> {
    let settings = Settings::load(receiving.config.as_deref(), &receiving.flags)?;
    if receiving.status {
        let status = headlong_reception::status(Path::new(&settings.socket))?;
        return Ok(headlong_survey::print(&format!("{status}\n"))?);
    }
    Ok(headlong_reception::run(&settings)?)
}

/// Replaces this process by the program. Returns only if that fails.
pub(crate) fn run(running: &RunArgs) -> anyhow::Error {
    match to_launch(running) {
        Ok(what) => launch(&what, |text| say!("headlong: {text}")).into(),
        Err(error) => error,
    }
}

fn to_launch(running: &RunArgs) -> anyhow::Result<Launch> {
    let library = match &running.library {
        Some(library) => std::path::absolute(library).context("the path of --library")?,
        None => library_beside()?,
    };
    let wait = Duration::from_nanos(running.wait.0).as_millis();
    let mut environment = vec![
        (environment::MODE, running.mode.clone().into()),
        (environment::PREFETCH, running.prefetch.0.to_string().into()),
        (environment::WAIT, wait.to_string().into()),
        (environment::FILE_MIN, running.file_min.0.to_string().into()),
    ];
    if let Some(socket) = &running.socket {
        // The program may change its working directory.
        let socket = std::path::absolute(socket).context("the path of --socket")?;
        environment.push((environment::SOCKET, socket.into()));
    }
    let (program, arguments) = running.command.split_first().context("no program")?;
    Ok(Launch {
        program: program.clone(),
        arguments: arguments.to_vec(),
        library,
        environment,
        even_if_unhelped: !running.only_if_helped,
    })
}
