//! `headlong disk`: emulated drives, and measurements of real ones.

mod control;
mod emulate;
mod errors;
mod fit;
mod probe;

use clap::Subcommand;
use headlong_survey::ProbeOptions;

use errors::{mark_mistakes, mistake};

/// Verbs of `headlong disk`.
#[derive(Debug, Subcommand)]
pub(crate) enum DiskCommand {
    /// Create a block device with the timing of a modelled drive
    Emulate(Box<emulate::EmulateArgs>),
    /// Send a command or query to a running emulated disk
    Control(control::ControlArgs),
    /// Measure a drive or a model of one, and fit a model to it
    ///
    /// Measures a drive like FreeBSD's diskinfo -t: rates at the start, in the middle and at the end
    /// of its addresses (100 reads of 1 MiB each), and the time of a read over the full, half and
    /// quarter stroke and over short steps, half a turn and the command's overhead included. Prints
    /// the figures and a model fitted to them, which other commands take as a drive.
    ///
    /// A block device, or a file on one, is read with direct I/O; it takes about a minute. A preset
    /// or a file that describes a drive is measured in virtual time, at once.
    ///
    /// With --write, and always for the model of an SSD, it also finds the optimal block size for
    /// writes to an SSD: the smallest from which on latencies of random writes are distributed like
    /// those of sequential ones (flashstream 3.1: Kullback-Leibler divergence below 0.1, 640 writes
    /// each of 0.5 to 128 MiB). That destroys the content of a real device, and writes more than
    /// 300 GiB; --region and --writes reduce it.
    Probe(ProbeOptions),
    /// Fit a model to the measurements of `disk probe`
    ///
    /// Reads the measurements, an object of JSON, from standard input, and prints the model.
    /// `headlong disk probe` calls it for the model of a device.
    Fit(fit::FitArgs),
}

/// Runs the verb.
pub(crate) fn disk(command: &DiskCommand) -> anyhow::Result<()> {
    match command {
        DiskCommand::Emulate(emulating) => emulate::emulate(emulating),
        DiskCommand::Control(controlling) => control::control(controlling),
        DiskCommand::Probe(probing) => probe::probe(probing),
        DiskCommand::Fit(fitting) => fit::fit(fitting),
    }
}
