//! The preloaded library in a third-party server, and its reception daemon.

use std::path::PathBuf;

use super::launch::{LaunchSpec, ListenAddress, ServerEnvironment, StatusSource, scaled_ms};
use crate::command_builder::CommandBuilder;

/// Default of `headlong run`: how long a call waits for the reception, seconds of model time.
const WAIT_SECONDS: f64 = 10.0;

fn socket(place: &ServerEnvironment) -> PathBuf {
    place.folder.join("reception.sock")
}

/// Prefix of the server's command.
pub(super) fn words(place: &ServerEnvironment) -> Vec<String> {
    let wait = scaled_ms(WAIT_SECONDS, place);
    let words = CommandBuilder::of(&place.headlong, "run")
        .option("--socket", socket(place).display())
        .option("--wait", format_args!("{wait}ms"));
    words.plain("--only-if-helped --").0
}

/// The daemon, within the server's memory limit.
pub(super) fn reception(place: &ServerEnvironment) -> LaunchSpec {
    let socket = socket(place);
    let (file, keys) = place.reader_file();
    let CommandBuilder(command) = CommandBuilder::of(&place.headlong, "reception")
        .option("--socket", socket.display())
        .option("--time-scale", place.time_scale)
        .option("--config", file.display());
    LaunchSpec {
        under: Vec::new(),
        command,
        files: vec![(file, keys)],
        status: StatusSource::Reception(socket.clone()),
        listens: ListenAddress::Socket(socket),
    }
}
