//! `headlong mount` for a third-party server, which reads the titles through it.

use std::path::PathBuf;

use super::launch::{Launch, Listens, Place, Status};
use crate::words::Words;

/// The mount point, which the server uses as its root.
pub(super) fn point(place: &Place) -> PathBuf {
    place.folder.join("mounted")
}

/// The daemon, within the server's memory limit.
pub(super) fn launch(place: &Place) -> Launch {
    let point = point(place);
    let (file, keys) = place.reader_file();
    let Words(command) = Words::of(&place.headlong, "mount")
        .word(place.root.display())
        .word(point.display())
        .option("--time-scale", place.time_scale)
        .option("--config", file.display());
    Launch {
        under: Vec::new(),
        command,
        files: vec![(file, keys)],
        status: Status::Mount(point.clone()),
        listens: Listens::Mount(point),
    }
}
