//! Resources of a run on this machine: drive, files, network, control group, processes.
//!
//! All parts run as separate programs, and all are recorded in one folder with a guardian, so that
//! they are removed however the bench ends.
//!
//! Invariants: only recorded processes are signalled; nothing outside the folder, the store and the
//! control groups of this bench is changed; every wait has a timeout.

mod block_drive;
mod cleanup_guard;
mod control_group;
mod disks;
mod emulated_drive;
mod error;
mod network;
mod pool;
mod process;
mod queue;
mod ssd;
mod store;

pub(crate) use cleanup_guard::{CleanupGuard, ProcessContext};
pub(crate) use control_group::ControlGroup;
pub use control_group::MemoryUse;
pub(crate) use disks::{DiskSetup, RunningDisks};
pub(crate) use emulated_drive::EmulatedDrive;
pub use error::RigError;
pub(crate) use network::PrivateNetwork;
pub(crate) use process::{ChildProcess, StderrHandling};
pub use queue::QueueSettings;
pub(crate) use queue::set_scheduler;
pub(crate) use ssd::{RunningSsd, SsdSetup, SsdUse};
use store::DriveStore;

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::experiment::{Experiment, ExperimentCell};
use crate::servers;

/// System programs needed by the rig, with their Debian packages.
const PROGRAMS: &[(&str, &str)] = &[
    ("unshare", "util-linux"),
    ("nsenter", "util-linux"),
    ("mount", "mount"),
    ("umount", "mount"),
    ("ip", "iproute2"),
];

/// Requirements that this machine lacks for some of an experiment's cells. Servers that are not
/// selected need not be installed.
pub fn missing(experiment: &Experiment, cells: &[ExperimentCell]) -> Vec<String> {
    let mut missing = Vec::new();
    if !rustix::process::geteuid().is_root() {
        missing.push(
            "root: mounting drives and limiting memory need it; run as root \
             (`headlong simulate` works without)"
                .to_owned(),
        );
    }
    let mut drives = cells.iter().map(|cell| &cell.workload.drive);
    let is_emulated = drives.clone().any(|drive| drive.device.is_none());
    if is_emulated && !Path::new("/dev/fuse").exists() {
        missing.push("/dev/fuse: drive emulation needs FUSE; load the module `fuse`".to_owned());
    }
    if control_group::version().is_none() {
        missing.push(
            "the memory controller of control groups: mount /sys/fs/cgroup with it".to_owned(),
        );
    }
    let is_warm = |cell: &&ExperimentCell| cell.flash.as_ref().is_some_and(|tier| tier.is_warm);
    if let Some(cell) = cells.iter().find(is_warm) {
        missing.push(format!(
            "a warm tier for {}: only `headlong simulate` supports it; write `warm = false` \
             in [flash], so that `ramp_up` fills it",
            cell.server_name
        ));
    }
    if let Some(cell) = cells.iter().find(|cell| !cell.server.engine.is_empty()) {
        let names = cell.server.engine.iter().map(|(name, _)| name.as_str());
        missing.push(format!(
            "an engine with other {}: only `headlong simulate` supports it; remove it from \
             [server.{}]",
            names.collect::<Vec<_>>().join(", "),
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
    let labels = match experiment.files.file_system.as_str() {
        "xfs" => ("xfs_admin", "xfsprogs"),
        _ => ("e2label", "e2fsprogs"),
    };
    let is_device = drives.any(|drive| drive.device.is_some());
    let on_device = [("blkid", "util-linux"), labels]
        .into_iter()
        .filter(|_| is_device);
    let own = PROGRAMS
        .iter()
        .copied()
        .chain([(make_file_system.as_str(), package)])
        .chain(on_device);
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

/// Creates a folder and its parents.
pub(crate) fn make_folder(folder: &Path) -> Result<(), RigError> {
    std::fs::create_dir_all(folder).map_err(|error| RigError::io(folder.display(), error))
}

/// Whether a folder is on another file system than its parent.
pub(crate) fn is_mounted(point: &Path) -> bool {
    let look = |path: Option<&Path>| path.and_then(|path| path.metadata().ok());
    let (own, around) = (look(Some(point)), look(point.parent()));
    own.zip(around)
        .is_some_and(|(own, around)| own.dev() != around.dev())
}

/// Path of a program.
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

/// Replaces the program of a command by its full path: a user's PATH may lack some folders.
pub(crate) fn with_path(mut words: Vec<String>) -> Vec<String> {
    if let Some(first) = words.first_mut()
        && let Some(program) = find_program(first)
    {
        *first = program.display().to_string();
    }
    words
}

/// A command prefix that runs a program with real-time priority: like the emulated drive, which
/// sets its own priority, the load generator is an instrument. Empty if not permitted; then a busy
/// machine produces refused runs.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_only_programs_of_selected_servers() {
        let text = "name = \"x\"\nmemory = \"1GiB\"\n[drive]\npreset = \"wd-red-wd10efrx\"\n\
                    [files]\ncatalogue = \"youtube-sd\"\n[workload.sd]\npreset = \"youtube-sd\"\n\
                    [server.own]\nkind = \"headlong\"\n\
                    [server.other]\nkind = \"command\"\ncommand = [\"absent-program\", \"{port}\", \"{root}\"]\n";
        let experiment = Experiment::from_text(Path::new("x.toml"), text, false).expect("right");
        let lacks = |server| {
            let cell = experiment
                .cell(Some(server), None)
                .expect("the server exists");
            missing(&experiment, &[cell]).join("; ")
        };
        assert!(lacks("other").contains("the program absent-program"));
        assert!(!lacks("own").contains("absent-program"));
    }
}
