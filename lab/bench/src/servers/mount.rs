//! `headlong mount` for a third-party server, which reads the titles through it.

use std::path::PathBuf;

use super::launch::{LaunchSpec, ListenAddress, ServerEnvironment, StatusSource};
use crate::command_builder::CommandBuilder;

/// The mount point, which the server uses as its root.
pub(super) fn point(place: &ServerEnvironment) -> PathBuf {
    place.folder.join("mounted")
}

/// The daemon, within the server's memory limit.
pub(super) fn launch(place: &ServerEnvironment) -> LaunchSpec {
    let point = point(place);
    let (file, keys) = place.reader_file();
    let CommandBuilder(command) = CommandBuilder::of(&place.headlong, "mount")
        .word(place.root.display())
        .word(point.display())
        .option("--time-scale", place.time_scale)
        .option("--config", file.display());
    LaunchSpec {
        under: Vec::new(),
        command,
        files: vec![(file, keys)],
        status: StatusSource::Mount(point.clone()),
        listens: ListenAddress::Mount(point),
    }
}
