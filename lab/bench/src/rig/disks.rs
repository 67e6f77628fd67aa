//! Identical drives of an experiment, and the folder that a server serves.
//!
//! Each of several drives holds all titles. The served folder contains a link for each file that
//! points to one of them, so that no title is read from two drives or cached twice (libception
//! section 7).

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use headlong_workload::Catalogue;
use serde_json::Value;

use super::RigError;
use super::cleanup_guard::CleanupGuard;
use super::disk::{DiskSetup, RunningDisk};
use super::queue::QueueSettings;
use crate::experiment::BlockQueueSettings;
use crate::servers::PoolDevices;

/// Folder of the links, below the bench's own.
pub(crate) const LINKED: &str = "linked";

/// Running drives; at least one.
#[derive(Debug)]
pub(crate) struct RunningDisks {
    first: RunningDisk,
    others: Vec<RunningDisk>,
    /// The served folder.
    root: PathBuf,
}

impl RunningDisks {
    /// Starts the configured number of drives, and fills those with empty stores.
    pub(crate) fn start(guard: &CleanupGuard, setup: &DiskSetup<'_>) -> Result<Self, RigError> {
        let start = |number| RunningDisk::start(guard, &DiskSetup { number, ..*setup });
        let first = start(0)?;
        let others: Vec<RunningDisk> = (1..setup.drive.drives())
            .map(start)
            .collect::<Result<_, _>>()?;
        let mut root = first.root().to_path_buf();
        if !others.is_empty() {
            let catalogue = setup.files.catalogue().map_err(|errors| RigError::Failed {
                what: "reading the catalogue".into(),
                words: errors.join("; "),
            })?;
            root = guard.folder().join(LINKED);
            let drives = std::iter::once(&first).chain(&others);
            let drives: Vec<&Path> = drives.map(RunningDisk::root).collect();
            let linked = link(&root, &drives, &catalogue);
            linked.map_err(|error| RigError::io(root.display(), error))?;
        }
        Ok(Self {
            first,
            others,
            root,
        })
    }

    /// Folder of the titles.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    fn all(&self) -> impl Iterator<Item = &RunningDisk> {
        std::iter::once(&self.first).chain(&self.others)
    }

    fn each<T>(
        &mut self,
        does: impl FnMut(&mut RunningDisk) -> Result<T, RigError>,
    ) -> Result<Vec<T>, RigError> {
        let all = std::iter::once(&mut self.first).chain(&mut self.others);
        all.map(does).collect()
    }

    /// The commands that started them.
    pub(crate) fn commands(&self) -> Vec<String> {
        self.all().map(|disk| disk.command.join(" ")).collect()
    }

    /// See [`RunningDisk::pool_of`].
    pub(crate) fn pool_of(&self, ssd: Option<&Path>) -> Option<PoolDevices> {
        self.first.pool_of(ssd)
    }

    /// Process ids of the emulators.
    pub(crate) fn processes(&self) -> Vec<u32> {
        self.all().map(RunningDisk::process).collect()
    }

    /// See [`RunningDisk::prepare`].
    pub(crate) fn prepare(
        &mut self,
        kernel: &BlockQueueSettings,
        warm_metadata: bool,
    ) -> Result<Vec<QueueSettings>, RigError> {
        self.each(|disk| disk.prepare(kernel, warm_metadata))
    }

    /// See [`RunningDisk::begin`]; each has its own trace, the first at the given path.
    pub(crate) fn begin(&mut self, trace: &Path) -> Result<(), RigError> {
        let mut number = 0;
        let begin = |disk: &mut RunningDisk| {
            number += 1;
            match number {
                1 => disk.begin(trace),
                _ => disk.begin(&trace.with_extension(number.to_string())),
            }
        };
        self.each(begin).map(drop)
    }

    /// Their current counters.
    pub(crate) fn counters(&mut self) -> Result<Vec<Value>, RigError> {
        self.each(RunningDisk::counters)
    }

    /// Resets the counters of lateness.
    pub(crate) fn forget_lateness(&mut self) -> Result<(), RigError> {
        self.each(RunningDisk::forget_lateness).map(drop)
    }

    /// Ends the measurement that [`RunningDisks::begin`] started, and returns the counters.
    pub(crate) fn end(&mut self) -> Result<Vec<Value>, RigError> {
        self.each(RunningDisk::end)
    }

    /// See [`RunningDisk::queue`].
    pub(crate) fn queues(&self) -> Result<Vec<QueueSettings>, RigError> {
        self.all().map(RunningDisk::queue).collect()
    }
}

/// Creates a link for each file of the titles, assigned to the drives in turn: popular and long
/// titles are spread evenly.
fn link(root: &Path, drives: &[&Path], catalogue: &Catalogue) -> std::io::Result<()> {
    if root.exists() {
        std::fs::remove_dir_all(root)?;
    }
    for (title, drive) in catalogue.titles.iter().zip(drives.iter().cycle()) {
        for file in catalogue.files(title) {
            let path = root.join(&file.path);
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            symlink(drive.join(&file.path), path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use headlong_workload::Specification;

    use super::*;

    #[test]
    fn distributes_titles_round_robin_and_links_every_file() {
        let few = [
            ("title.sd.count".to_owned(), "5".to_owned()),
            ("catalogue.chunk".to_owned(), "4MiB".to_owned()),
        ];
        let specification = Specification::preset("youtube-2011", &few).expect("right");
        let catalogue = Catalogue::of(&specification);
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join(LINKED);
        std::fs::create_dir(&root).expect("the folder is new");
        std::fs::write(root.join("old"), "x").expect("written");
        let drives = [Path::new("/a"), Path::new("/b")];
        link(&root, &drives, &catalogue).expect("linked");
        assert!(!root.join("old").exists());
        for (number, title) in catalogue.titles.iter().enumerate() {
            for file in catalogue.files(title) {
                let target = std::fs::read_link(root.join(&file.path)).expect("a link");
                assert_eq!(target, drives[number % 2].join(&file.path));
            }
        }
    }
}
