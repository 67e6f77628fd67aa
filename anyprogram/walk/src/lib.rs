//! Reads ahead for programs that go through a tree of small files: a diff, a copy, a search.
//!
//! The one idea: a small file is read by one call, so reading ahead within it gains nothing; what
//! comes next is the next file of its folder, and then the next folder. A program that waited for
//! the disk at some small files, each soon after another in the order of names or of the listing, is
//! taken to walk, and what lies before it is read in one sweep of the disk. How much grows as long as
//! it is used. A server whose viewers are here and there does not walk. Of larger
//! files that are numbered, [`Chunks`] says which belong together, and [`Follows`] whether they are
//! read so; others read those.
//!
//! Invariants: bytes go to the kernel's page cache and to nobody; only files and folders with the
//! owner, group and rights to read of what the program has open itself are looked at; no link is
//! followed; every sweep has a bound in bytes, files and folders.
#![forbid(unsafe_code)]

mod ahead;
mod chunks;
mod follows;
mod sweep;
mod window;

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use headlong_library::Places;
use rustix::fs::fstat;

pub use ahead::{FILES_MAX, SMALL_BYTES};
use ahead::{Order, Origin};
pub use chunks::{Chunks, run_name, run_of_file};
pub use follows::Follows;
pub use sweep::Swept;
use window::{Next, Window};

/// Programs that are remembered.
const PROGRAMS_MAX: usize = 1024;
/// A program that has gone on so often walks: two files are no walk, three are.
const STEPS_MIN: u32 = 2;
/// Places of a program that are remembered: who compares is in several trees at a time.
const PLACES_MAX: usize = 8;

/// Reads ahead for the programs of one device, one sweep after the other.
#[derive(Debug)]
pub struct Walker {
    places: Arc<Places>,
    /// Nothing outside it is opened.
    beneath: PathBuf,
    programs: HashMap<u64, Program>,
    sweeps: u64,
}

#[derive(Debug)]
struct Program {
    window: Window,
    order: Order,
    /// Everything that it waited for lies below it.
    root: PathBuf,
    /// The newest last.
    places: VecDeque<Place>,
    last: u64,
}

/// Where a program may go on.
#[derive(Debug)]
struct Place {
    /// What was read ahead, and what follows.
    inodes: HashSet<u64>,
    /// How often it has gone on so.
    steps: u32,
}

impl Program {
    /// How often the program has gone on to come to this file; none if it comes from nowhere.
    fn steps_to(&mut self, inode: u64) -> u32 {
        let is_here = |place: &Place| place.inodes.contains(&inode);
        let here = self.places.iter().position(is_here);
        let place = here.and_then(|index| self.places.remove(index));
        place.map_or(0, |place| place.steps.saturating_add(1))
    }

    fn remember(&mut self, steps: u32, inodes: HashSet<u64>) {
        if self.places.len() >= PLACES_MAX {
            self.places.pop_front();
        }
        self.places.push_back(Place { inodes, steps });
    }
}

impl Walker {
    /// A walker that opens nothing outside a folder.
    pub fn new(places: Arc<Places>, beneath: &Path) -> Self {
        Self {
            places,
            beneath: beneath.to_path_buf(),
            programs: HashMap::new(),
            sweeps: 0,
        }
    }

    /// A program waited for the disk to read this small file; since it last did, it found so many in
    /// memory. Reads what it will read next, if it is known to walk, and waits until that is there.
    pub fn waited(&mut self, program: u64, file: &File, found: u32) -> Swept {
        let origin = Origin::of(file, &self.beneath);
        let Some(origin) = origin.filter(Origin::is_small) else {
            return Swept::default();
        };
        self.sweeps += 1;
        self.make_room();
        let program = self.programs.entry(program).or_insert_with(|| Program {
            window: Window::default(),
            order: Order::Name,
            root: origin.folder().to_path_buf(),
            places: VecDeque::new(),
            last: 0,
        });
        program.last = self.sweeps;
        while !origin.folder().starts_with(&program.root) && program.root.pop() {}
        let steps = program.steps_to(origin.file.st_ino);
        let next = match steps {
            STEPS_MIN.. => program.window.next(found),
            _ => Next::Nothing,
        };
        let bytes = match next {
            Next::Nothing => {
                let follow = |order| ahead::next(&origin, &program.root, order, 0).after;
                let place = [Order::Name, Order::Listing].into_iter().flat_map(follow);
                program.remember(steps, place.collect());
                return Swept::default();
            }
            Next::Bytes(bytes) => bytes,
            Next::Otherwise(bytes) => {
                program.order = program.order.other();
                bytes
            }
        };
        let next = ahead::next(&origin, &program.root, program.order, bytes);
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

    fn waited(walker: &mut Walker, root: &Path, name: &str, found: u32) -> Swept {
        let file = File::open(root.join(name)).expect("there");
        walker.waited(1, &file, found)
    }

    #[test]
    fn a_program_that_walks_has_more_and_more_read_for_it() {
        let root = tree(&FOLDERS);
        let places = Arc::new(Places::beneath(root.path()));
        let mut walker = Walker::new(places, Path::new("/"));
        let mut go = |name, found| waited(&mut walker, root.path(), name, found).files;
        assert_eq!(
            [go("a/00", 0), go("a/01", 0)],
            [0, 0],
            "two files are no walk"
        );
        let first = go("a/02", 0);
        assert!((20..30).contains(&first), "{first}");
        let next = format!("a/{:02}", 2 + first);
        assert_eq!(go(&next, first), 38 - first, "what is left below its root");
        assert_eq!([go("b/00", 0), go("b/01", 0)], [0, 0]);
        assert!(go("b/02", 0) > 40, "beyond the end of its folder");
    }

    #[test]
    fn who_reads_here_and_there_is_no_walk() {
        let titles: Vec<String> = (0..20).map(|title| format!("t{title}")).collect();
        let root = tree(&titles.iter().map(String::as_str).collect::<Vec<_>>());
        let places = Arc::new(Places::beneath(root.path()));
        let mut walker = Walker::new(places, Path::new("/"));
        // Each viewer goes on in its own title.
        for step in 0..400 {
            let name = format!("t{}/{:02}", step % 20, step / 20);
            let swept = waited(&mut walker, root.path(), &name, 3);
            assert_eq!(swept.files, 0, "{step}: {name}");
        }
    }

    #[test]
    fn two_trees_by_turns_are_two_walks() {
        let root = tree(&FOLDERS);
        let places = Arc::new(Places::beneath(root.path()));
        let mut walker = Walker::new(places, Path::new("/"));
        let mut go = |name: &str| waited(&mut walker, root.path(), name, 0).files;
        let first = ["a/00", "d/00", "a/01", "d/01"].map(&mut go);
        assert_eq!(first, [0; 4]);
        assert!(go("a/02") > 20 && go("d/02") > 20);
    }

    #[test]
    fn what_is_outside_is_not_read() {
        let root = tree(&FOLDERS);
        let places = Arc::new(Places::beneath(root.path()));
        let mut walker = Walker::new(places, &root.path().join("b"));
        for name in ["a/00", "a/01", "a/02", "a/03"] {
            assert_eq!(waited(&mut walker, root.path(), name, 0), Swept::default());
        }
    }
}
