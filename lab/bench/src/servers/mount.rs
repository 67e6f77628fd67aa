//! `headlong mount` below a server of others, which reads the titles there.

use std::path::PathBuf;

use headlong_units::{Bytes, MIB};

use super::launch::{Launch, Listens, Place, Status, text};

/// Of a limit on memory, page cache included, one part in so many is left to the kernel and to the
/// server: what programs read on a mount is in the page cache, too.
const LEFT_PART: u64 = 4;

/// Where the server finds the titles.
pub(super) fn point(place: &Place) -> PathBuf {
    place.folder.join("mounted")
}

/// The daemon, within the server's limit on memory.
pub(super) fn launch(place: &Place) -> Launch {
    let point = point(place);
    let mut command = vec![
        text(&place.headlong),
        "mount".into(),
        text(&place.root),
        text(&point),
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
        status: Status::Mount(point.clone()),
        listens: Listens::Mount(point),
    }
}
