//! The preloaded library in a server of others, and the reception that reads for it.

use std::path::PathBuf;

use super::launch::{Launch, Listens, Place, Status, scaled_ms};
use crate::words::Words;

/// As `headlong run` has it: how long a call waits for the reception, seconds of the model.
const WAIT_SECONDS: f64 = 10.0;

fn socket(place: &Place) -> PathBuf {
    place.folder.join("reception.sock")
}

/// What stands before the server's own command.
pub(super) fn words(place: &Place) -> Vec<String> {
    let wait = scaled_ms(WAIT_SECONDS, place);
    let words = Words::of(&place.headlong, "run")
        .option("--socket", socket(place).display())
        .option("--wait", format_args!("{wait}ms"));
    words.plain("--only-if-helped --").0
}

/// The daemon, within the server's limit on memory.
pub(super) fn reception(place: &Place) -> Launch {
    let socket = socket(place);
    let (file, keys) = place.reader_file();
    let Words(command) = Words::of(&place.headlong, "reception")
        .option("--socket", socket.display())
        .option("--time-scale", place.time_scale)
        .option("--config", file.display());
    Launch {
        under: Vec::new(),
        command,
        files: vec![(file, keys)],
        status: Status::Reception(socket.clone()),
        listens: Listens::Socket(socket),
    }
}
