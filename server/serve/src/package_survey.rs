//! Files below packaged paths of which no HLS or DASH can be made, for `headlong check`: their headers
//! are read as a request would read them.
//!
//! Bounds: the caller's time, one index in memory at a time, and [`FOLDERS_MAX`] folders to visit.
//! Symbolic links are not followed.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use headlong_config::Config;
use headlong_library::MountedRoot;
use headlong_package::{HeaderReader, PackageFault, ReadStep, WHOLE_BYTES_MAX};
use headlong_units::path_text;

use crate::http::{AccessRules, split_extension};

/// Problems that are listed; a library may have thousands of unusual files.
const LISTED_MAX: usize = 20;
/// Most folders whose names are known and whose files are not yet checked.
const FOLDERS_MAX: usize = 100_000;

/// The result of a survey.
#[derive(Debug, Default)]
pub struct PackageSurvey {
    /// The first files that cannot be packaged, with the reason, in the order of their paths.
    pub problems: BTreeSet<(PathBuf, String)>,
    /// How many files cannot be packaged.
    pub problem_count: usize,
    /// How many files were checked.
    pub file_count: usize,
    /// Whether there were more files than could be checked in time.
    pub is_cut: bool,
}

impl PackageSurvey {
    fn add(&mut self, path: PathBuf, reason: Option<String>) {
        self.file_count += 1;
        let Some(reason) = reason else {
            return;
        };
        self.problem_count += 1;
        self.problems.insert((path, reason));
        if self.problems.len() > LISTED_MAX {
            self.problems.pop_last();
        }
    }
}

/// The outcome of one file, or the end of the walk and whether it was complete.
enum Finding {
    File(PathBuf, Option<String>),
    End(bool),
}

/// Checks the files below packaged paths, for so long. A disk that does not answer holds up its
/// thread, not the caller.
pub fn survey(config: &Config, within: Duration) -> PackageSurvey {
    let mut survey = PackageSurvey::default();
    if !config.packages() {
        return survey;
    }
    let walk = PackagedTree {
        rules: AccessRules::new(config),
        roots: config.served(),
        pulls: config.pull.keys().cloned().collect(),
        segment: config.package_segment,
    };
    let (sender, receiver) = channel();
    let until = Instant::now() + within;
    // It ends with the process, or when no one listens any more.
    thread::spawn(move || walk.run(&sender));
    loop {
        match receiver.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Finding::File(path, reason)) => survey.add(path, reason),
            Ok(Finding::End(is_whole)) => {
                survey.is_cut = !is_whole;
                return survey;
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                survey.is_cut = true;
                return survey;
            }
        }
    }
}

/// The served folders, and the rules of their paths.
struct PackagedTree {
    rules: AccessRules,
    roots: Vec<MountedRoot>,
    /// Prefixes of paths that come from origins, with a slash in front.
    pulls: Vec<String>,
    segment: headlong_units::Duration,
}

impl PackagedTree {
    fn run(&self, sender: &Sender<Finding>) {
        let mut is_whole = true;
        for root in &self.roots {
            match self.walk(root, sender) {
                Some(whole) => is_whole &= whole,
                None => return,
            }
        }
        let _ = sender.send(Finding::End(is_whole));
    }

    /// Checks the files of a root; returns whether that were all, and `None` if no one listens.
    fn walk(&self, root: &MountedRoot, sender: &Sender<Finding>) -> Option<bool> {
        let mut is_whole = true;
        let mut folders = vec![root.folder.clone()];
        while let Some(folder) = folders.pop() {
            // Folders that cannot be read are named by the scan.
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let Ok(kind) = entry.file_type() else {
                    continue;
                };
                let path = entry.path();
                if kind.is_dir() {
                    match folders.len() < FOLDERS_MAX {
                        true => folders.push(path),
                        false => is_whole = false,
                    }
                } else if kind.is_file() && self.is_packaged(root, &path) {
                    let reason = self.reason(&path);
                    sender.send(Finding::File(path, reason)).ok()?;
                }
            }
        }
        Some(is_whole)
    }

    /// Whether HLS and DASH are made from a file of a root.
    fn is_packaged(&self, root: &MountedRoot, file: &Path) -> bool {
        let Ok(below) = file.strip_prefix(&root.folder) else {
            return false;
        };
        let path = format!("{}{}", root.prefix, path_text(below.as_os_str().as_bytes()));
        let is_covered = self
            .roots
            .iter()
            .any(|other| other.prefix.len() > root.prefix.len() && path.starts_with(&other.prefix));
        let absolute = format!("/{path}");
        let mut pulls = self.pulls.iter();
        !is_covered
            && split_extension(&path).is_some()
            && self.rules.packages(&path)
            && !pulls.any(|prefix| absolute.starts_with(prefix.as_str()))
    }

    /// Why a file cannot be packaged, unless it can.
    fn reason(&self, path: &Path) -> Option<String> {
        match self.read(path) {
            Ok(Ok(())) => None,
            Ok(Err(fault)) => Some(fault.to_string()),
            Err(error) => Some(format!("it cannot be read: {error}")),
        }
    }

    fn read(&self, path: &Path) -> io::Result<Result<(), PackageFault>> {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        let mut reader = HeaderReader::new(size);
        let mut bytes = Vec::new();
        let mut step = reader.step(0, &bytes);
        loop {
            match step {
                Err(fault) => return Ok(Err(fault)),
                Ok(ReadStep::Ready(headers)) => match headers.index(self.segment) {
                    Err(PackageFault::FragmentIndex) => {
                        reader = HeaderReader::without_index(size);
                        step = reader.step(0, &[]);
                    }
                    made => return Ok(made.map(drop)),
                },
                Ok(ReadStep::Wants(range)) => {
                    bytes.resize(range.len().min(WHOLE_BYTES_MAX) as usize, 0);
                    file.read_exact_at(&mut bytes, range.start)?;
                    step = reader.step(range.start, &bytes);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use headlong_config::Flags;

    use super::*;

    #[test]
    fn names_only_files_below_packaged_paths() {
        let root = tempfile::tempdir().expect("a folder");
        let root = root.path();
        for folder in ["on", "on/off", "on/below", "other"] {
            fs::create_dir(root.join(folder)).expect("made");
            for name in ["text.mp4", "text.txt"] {
                fs::write(root.join(folder).join(name), "no film at all").expect("written");
            }
        }
        std::os::unix::fs::symlink("text.mp4", root.join("on/link.mp4")).expect("a link");
        let rules = "[path.\"/on/\"]\npackage = \"on\"\n[path.\"/on/off/\"]\npackage = \"off\"\n";
        let survey = |rules: &str| {
            let flags = Flags {
                roots: vec![root.to_path_buf()],
                ..Flags::default()
            };
            let config = Config::from_text(Path::new("/x.toml"), rules, &flags);
            survey(&config.expect(rules), Duration::from_secs(60))
        };
        let found = survey(rules);
        let names: Vec<_> = found
            .problems
            .iter()
            .map(|(path, _)| path.clone())
            .collect();
        let expected = ["on/below/text.mp4", "on/text.mp4"].map(|name| root.join(name));
        assert_eq!(names, expected);
        assert_eq!(
            (found.file_count, found.problem_count, found.is_cut),
            (2, 2, false)
        );
        for (_, reason) in &found.problems {
            assert!(reason.contains("no moov box"), "{reason}");
        }
        for number in 0..2 * LISTED_MAX {
            fs::write(root.join(format!("on/{number}.mp4")), "x").expect("written");
        }
        let found = survey(rules);
        assert_eq!(found.problems.len(), LISTED_MAX);
        assert_eq!(found.problem_count, 2 + 2 * LISTED_MAX);
        assert_eq!(survey("").file_count, 0);
    }
}
