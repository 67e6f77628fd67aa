//! The preloaded library in a server of others, and the reception that reads for it.

use std::path::PathBuf;

use super::launch::{Launch, Listens, Place, Status, scaled_ms, text};

/// As `headlong run` has it: how long a call waits for the reception, seconds of the model.
const WAIT_SECONDS: f64 = 10.0;

fn socket(place: &Place) -> PathBuf {
    place.folder.join("reception.sock")
}

/// What stands before the server's own command.
pub(super) fn words(place: &Place) -> Vec<String> {
    let wait = scaled_ms(WAIT_SECONDS, place);
    vec![
        text(&place.headlong),
        "run".into(),
        "--socket".into(),
        text(&socket(place)),
        "--wait".into(),
        format!("{wait}ms"),
        "--only-if-helped".into(),
        "--".into(),
    ]
}

/// The daemon, within the server's limit on memory.
pub(super) fn reception(place: &Place) -> Launch {
    let socket = socket(place);
    let (file, keys) = place.reader_file();
    let command = vec![
        text(&place.headlong),
        "reception".into(),
        "--socket".into(),
        text(&socket),
        "--time-scale".into(),
        place.time_scale.to_string(),
        "--config".into(),
        text(&file),
    ];
    Launch {
        under: Vec::new(),
        command,
        files: vec![(file, keys)],
        status: Status::Reception(socket.clone()),
        listens: Listens::Socket(socket),
    }
}
