//! Readahead for programs that traverse a tree of small files: a diff, a copy, a search.
//!
//! A small file is read by one call, so readahead within it gains nothing; the next file of its
//! folder, then the next folder, comes next. A program that waited for the disk at several
//! consecutive small files, in order of names or of the listing, is assumed to walk, and the files
//! before it are read in one sweep of the disk. The sweeps grow while they are used. A server with
//! viewers at many places does not walk. For larger numbered files, [`Chunks`] finds which belong
//! together, and [`RunHistory`] whether they are read consecutively; other crates read those.
//!
//! Invariants: bytes go to the kernel's page cache only; only files and folders with the owner,
//! group and read permissions of the file that the program has open are inspected; symbolic links
//! are not followed; every sweep is bounded in bytes, files and folders.
#![forbid(unsafe_code)]

mod chunks;
mod next_files;
mod run_history;
mod sweep;
mod window;

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use headlong_library::BlockMap;
use rustix::fs::fstat;

pub use chunks::{Chunks, run_name, run_of_file};
pub use next_files::{FILES_MAX, SMALL_BYTES};
use next_files::{VisitOrder, WaitedFile};
pub use run_history::RunHistory;
pub use sweep::SweepResult;
use window::{SweepWindow, WindowStep};

/// Programs remembered.
const PROGRAMS_MAX: usize = 1024;
/// A program walks after this many consecutive steps: three files are a walk, two are not.
const STEPS_MIN: u32 = 2;
/// Positions remembered for each program: a comparison traverses several trees at a time.
const PLACES_MAX: usize = 8;

/// Reads ahead for the programs of one device, one sweep at a time.
#[derive(Debug)]
pub struct Walker {
    places: Arc<BlockMap>,
    /// Files outside this folder are never opened.
    beneath: PathBuf,
    programs: HashMap<u64, WalkingProgram>,
    sweeps: u64,
}

#[derive(Debug)]
struct WalkingProgram {
    window: SweepWindow,
    order: VisitOrder,
    /// The common ancestor of all files that it waited for.
    root: PathBuf,
    /// Positions, newest last.
    places: VecDeque<WalkPosition>,
    last: u64,
}

/// A position from which a program may continue.
#[derive(Debug)]
struct WalkPosition {
    /// Inodes read ahead, and those that follow.
    inodes: HashSet<u64>,
    /// Number of consecutive steps so far.
    steps: u32,
}

impl WalkingProgram {
    /// The number of consecutive steps that led to this file; 0 if it continues none.
    fn steps_to(&mut self, inode: u64) -> u32 {
        let is_here = |place: &WalkPosition| place.inodes.contains(&inode);
        let here = self.places.iter().position(is_here);
        let place = here.and_then(|index| self.places.remove(index));
        place.map_or(0, |place| place.steps.saturating_add(1))
    }

    fn remember(&mut self, steps: u32, inodes: HashSet<u64>) {
        if self.places.len() >= PLACES_MAX {
            self.places.pop_front();
        }
        self.places.push_back(WalkPosition { inodes, steps });
    }
}

impl Walker {
    /// A walker that opens nothing outside `beneath`.
    pub fn new(places: Arc<BlockMap>, beneath: &Path) -> Self {
        Self {
            places,
            beneath: beneath.to_path_buf(),
            programs: HashMap::new(),
            sweeps: 0,
        }
    }

    /// A program waited for the disk to read this small file, after it found `found` small files in
    /// memory. If the program walks, reads the next files and waits until they are in memory.
    pub fn waited(&mut self, program: u64, file: &File, found: u32) -> SweepResult {
        let origin = WaitedFile::of(file, &self.beneath);
        let Some(origin) = origin.filter(WaitedFile::is_small) else {
            return SweepResult::default();
        };
        self.sweeps += 1;
        self.make_room();
        let program = self
            .programs
            .entry(program)
            .or_insert_with(|| WalkingProgram {
                window: SweepWindow::default(),
                order: VisitOrder::Name,
                root: origin.folder().to_path_buf(),
                places: VecDeque::new(),
                last: 0,
            });
        program.last = self.sweeps;
        while !origin.folder().starts_with(&program.root) && program.root.pop() {}
        let steps = program.steps_to(origin.file.st_ino);
        let next = match steps {
            STEPS_MIN.. => program.window.next(found),
            _ => WindowStep::Nothing,
        };
        let bytes = match next {
            WindowStep::Nothing => {
                let follow = |order| next_files::next(&origin, &program.root, order, 0).after;
                let place = [VisitOrder::Name, VisitOrder::Listing]
                    .into_iter()
                    .flat_map(follow);
                program.remember(steps, place.collect());
                return SweepResult::default();
            }
            WindowStep::Bytes(bytes) => bytes,
            WindowStep::Otherwise(bytes) => {
                program.order = program.order.other();
                bytes
            }
        };
        let next = next_files::next(&origin, &program.root, program.order, bytes);
        let read = next.files.iter().filter_map(|(file, _)| fstat(file).ok());
        let place = read.map(|stat| stat.st_ino).chain(next.after);
        program.remember(steps, place.collect());
        let swept = sweep::read(&self.places, next.files);
        program.window.swept(swept.files);
        swept
    }

    fn make_room(&mut self) {
        if self.programs.len() < PROGRAMS_MAX {
            return;
        }
        let oldest = self.programs.iter().min_by_key(|(_, known)| known.last);
        if let Some(oldest) = oldest.map(|(program, _)| *program) {
            self.programs.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOLDERS: [&str; 4] = ["a", "b", "b/c", "d"];

    fn tree(folders: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        for folder in folders {
            std::fs::create_dir(root.path().join(folder)).expect("a folder");
            for file in 0..40 {
                let path = root.path().join(folder).join(format!("{file:02}"));
                std::fs::write(path, vec![7; 10_000]).expect("written");
            }
        }
        root
    }

    fn waited(walker: &mut Walker, root: &Path, name: &str, found: u32) -> SweepResult {
        let file = File::open(root.join(name)).expect("there");
        walker.waited(1, &file, found)
    }

    #[test]
    fn sweeps_grow_while_a_program_walks() {
        let root = tree(&FOLDERS);
        let places = Arc::new(BlockMap::beneath(root.path()));
        let mut walker = Walker::new(places, Path::new("/"));
        let mut go = |name, found| waited(&mut walker, root.path(), name, found).files;
        assert_eq!(
            [go("a/00", 0), go("a/01", 0)],
            [0, 0],
            "two files are not a walk"
        );
        let first = go("a/02", 0);
        assert!((20..30).contains(&first), "{first}");
        let next = format!("a/{:02}", 2 + first);
        assert_eq!(go(&next, first), 38 - first, "the rest below its root");
        assert_eq!([go("b/00", 0), go("b/01", 0)], [0, 0]);
        assert!(go("b/02", 0) > 40, "past the end of its folder");
    }

    #[test]
    fn interleaved_viewers_are_not_a_walk() {
        let titles: Vec<String> = (0..20).map(|title| format!("t{title}")).collect();
        let root = tree(&titles.iter().map(String::as_str).collect::<Vec<_>>());
        let places = Arc::new(BlockMap::beneath(root.path()));
        let mut walker = Walker::new(places, Path::new("/"));
        // Each viewer continues in its own title.
        for step in 0..400 {
            let name = format!("t{}/{:02}", step % 20, step / 20);
            let swept = waited(&mut walker, root.path(), &name, 3);
            assert_eq!(swept.files, 0, "{step}: {name}");
        }
    }

    #[test]
    fn alternating_between_two_trees_is_two_walks() {
        let root = tree(&FOLDERS);
        let places = Arc::new(BlockMap::beneath(root.path()));
        let mut walker = Walker::new(places, Path::new("/"));
        let mut go = |name: &str| waited(&mut walker, root.path(), name, 0).files;
        let first = ["a/00", "d/00", "a/01", "d/01"].map(&mut go);
        assert_eq!(first, [0; 4]);
        assert!(go("a/02") > 20 && go("d/02") > 20);
    }

    #[test]
    fn files_outside_the_folder_are_not_read() {
        let root = tree(&FOLDERS);
        let places = Arc::new(BlockMap::beneath(root.path()));
        let mut walker = Walker::new(places, &root.path().join("b"));
        for name in ["a/00", "a/01", "a/02", "a/03"] {
            assert_eq!(
                waited(&mut walker, root.path(), name, 0),
                SweepResult::default()
            );
        }
    }
}
