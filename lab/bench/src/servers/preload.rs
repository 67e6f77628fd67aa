//! The preloaded library in a server of others, and the reception that reads for it.

use std::path::PathBuf;

use headlong_units::{Bytes, MIB};

use super::launch::{Launch, Listens, Place, Status, scaled_ms, text};

/// As `headlong run` has it: how long a call waits for the reception, seconds of the model.
const WAIT_SECONDS: f64 = 10.0;
/// Of a limit on memory, page cache included, one part in so many is left to the kernel and to the
/// server: what is held cannot be evicted, and what programs read by themselves needs room.
const LEFT_PART: u64 = 4;

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
    let mut command = vec![
        text(&place.headlong),
        "reception".into(),
        "--socket".into(),
        text(&socket),
        "--time-scale".into(),
        place.time_scale.to_string(),
    ];
    if let Some(limit) = place.memory {
        let memory = Bytes((limit - limit / LEFT_PART).max(MIB) / MIB * MIB);
        command.extend(["--memory".into(), memory.to_string()]);
    }
    Launch {
        under: Vec::new(),
        command,
        files: Vec::new(),
        status: Status::Reception(socket.clone()),
        listens: Listens::Socket(socket),
    }
}
