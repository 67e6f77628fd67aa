//! Everything that a run needs on this machine: drive, files, network, control group, processes.
//!
//! The one idea: all of it is started as a person would, as programs, and all of it belongs to one
//! folder with a guardian beside it, so that it is gone however the bench ends.
//!
//! Invariants: only processes that were recorded are signalled; nothing outside the folder, the store
//! and the control groups of this bench is changed; every wait has a bound.

mod control;
mod disk;
mod disks;
mod emulated;
mod error;
mod group;
mod guard;
mod mount;
mod network;
mod playlist;
mod pool;
mod process;
mod queue;
mod ssd;
mod store;

pub(crate) use disk::{Disk, DiskSetup};
pub(crate) use disks::{Disks, LINKED};
pub(crate) use emulated::Emulated;
pub use error::RigError;
pub(crate) use group::Group;
pub use group::MemoryUse;
pub(crate) use guard::{Guard, Start};
pub(crate) use network::PrivateNetwork;
pub(crate) use process::{Output, Process};
pub use queue::QueueSettings;
pub(crate) use queue::set_scheduler;
pub(crate) use ssd::{Holds, Ssd, SsdSetup};
use store::Store;

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::experiment::{Cell, Experiment};
use crate::servers;

/// Programs of the system that the rig itself needs, with Debian's packages.
const PROGRAMS: &[(&str, &str)] = &[
    ("unshare", "util-linux"),
    ("nsenter", "util-linux"),
    ("mount", "mount"),
    ("umount", "mount"),
    ("ip", "iproute2"),
];

/// What is missing on this machine to run some of an experiment's cells; empty if nothing is. A server
/// that the experiment describes and nobody wants now need not be installed.
pub fn missing(experiment: &Experiment, cells: &[Cell]) -> Vec<String> {
    let mut missing = Vec::new();
    if !rustix::process::geteuid().is_root() {
        missing.push(
            "root: drives are mounted and memory is limited; run it as root (`--plan` and \
             `headlong simulate` work without)"
                .to_owned(),
        );
    }
    if !Path::new("/dev/fuse").exists() {
        missing.push("/dev/fuse: drives are emulated with FUSE; load the module `fuse`".to_owned());
    }
    if group::version().is_none() {
        missing.push(
            "the memory controller of control groups: mount /sys/fs/cgroup with it".to_owned(),
        );
    }
    let is_warm = |cell: &&Cell| cell.flash.as_ref().is_some_and(|tier| tier.is_warm);
    if let Some(cell) = cells.iter().find(is_warm) {
        missing.push(format!(
            "a tier for {} that begins warm: only `headlong simulate` has one; write `warm = false` \
             in [flash], and let `ramp_up` fill it",
            cell.server_name
        ));
    }
    let make_file_system = format!("mkfs.{}", experiment.files.file_system);
    let package = match experiment.files.file_system.as_str() {
        "xfs" => "xfsprogs",
        _ => "e2fsprogs",
    };
    let of_servers = cells
        .iter()
        .filter_map(|cell| servers::program(&cell.server.kind));
    let caches = cells.iter().filter_map(|cell| cell.server.cache);
    let caches = caches.map(|cache| servers::cache_program(cache.kind));
    let fronts = cells.iter().filter_map(|cell| cell.server.front);
    let fronts = fronts.map(|front| -> (&str, &str) { servers::front_program(front) });
    let of_servers = of_servers.chain(caches).chain(fronts);
    let own = PROGRAMS
        .iter()
        .copied()
        .chain([(make_file_system.as_str(), package)]);
    let mut seen = Vec::new();
    for (program, package) in own.chain(of_servers) {
        if seen.contains(&program) || find_program(program).is_some() {
            continue;
        }
        seen.push(program);
        missing.push(match package {
            "" => format!("the program {program}"),
            _ => format!("the program {program}: install Debian's {package}"),
        });
    }
    missing
}

/// Makes a folder and those around it.
pub(crate) fn make_folder(folder: &Path) -> Result<(), RigError> {
    std::fs::create_dir_all(folder).map_err(|error| RigError::io(folder.display(), error))
}

/// Whether a folder is on another file system than the one around it.
pub(crate) fn is_mounted(point: &Path) -> bool {
    let look = |path: Option<&Path>| path.and_then(|path| path.metadata().ok());
    let (own, around) = (look(Some(point)), look(point.parent()));
    own.zip(around)
        .is_some_and(|(own, around)| own.dev() != around.dev())
}

/// Where a program is.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Path::new(name).exists().then(|| name.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    let folders = std::env::split_paths(&path).chain(system);
    folders
        .map(|folder| folder.join(name))
        .find(|program| program.is_file())
}

/// The words of a command with its program's whole path: not every user's path has all folders.
pub(crate) fn with_path(mut words: Vec<String>) -> Vec<String> {
    if let Some(first) = words.first_mut()
        && let Some(program) = find_program(first)
    {
        *first = program.display().to_string();
    }
    words
}

/// What to write before a command so that it runs when its time has come, whatever else this machine
/// does: the viewers are an instrument, as the emulated drive is, which does the same by itself.
/// Nothing if that is not allowed here; then a busy machine makes runs that do not count.
pub(crate) fn on_time() -> Vec<String> {
    static WORDS: OnceLock<Vec<String>> = OnceLock::new();
    let find = || {
        let chrt = find_program("chrt")?.display().to_string();
        let mut command = Command::new(&chrt);
        command
            .args(["--fifo", "1", "true"])
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        let works = command.status().is_ok_and(|status| status.success());
        works.then(|| vec![chrt, "--fifo".to_owned(), "1".to_owned()])
    };
    WORDS.get_or_init(|| find().unwrap_or_default()).clone()
}
