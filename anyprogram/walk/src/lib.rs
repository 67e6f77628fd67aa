//! Reads ahead for programs that go through a tree of small files: a diff, a copy, a search.
//!
//! The one idea: a small file is read by one call, so reading ahead within it gains nothing; what
//! comes next is the next file of its folder, and then the next folder. A program that waited for
//! the disk at some small files is taken to walk, and what lies before it in the order of names (or
//! of the listing) is read in one sweep of the disk. How much grows as long as it is used. Of larger
//! files that are numbered, [`Chunks`] says which belong together; others read those.
//!
//! Invariants: bytes go to the kernel's page cache and to nobody; only files and folders with the
//! owner, group and rights to read of what the program has open itself are looked at; no link is
//! followed; every sweep has a bound in bytes, files and folders.
#![forbid(unsafe_code)]

mod ahead;
mod chunks;
mod sweep;
mod window;

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use headlong_library::Places;

pub use ahead::{FILES_MAX, SMALL_BYTES};
use ahead::{Order, Origin};
pub use chunks::{Chunk, Chunks, run_name};
pub use sweep::Swept;
use window::{Next, Window};

/// Programs that are remembered.
const PROGRAMS_MAX: usize = 1024;

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
    last: u64,
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
            last: 0,
        });
        program.last = self.sweeps;
        while !origin.folder().starts_with(&program.root) && program.root.pop() {}
        let bytes = match program.window.next(found) {
            Next::Nothing => return Swept::default(),
            Next::Bytes(bytes) => bytes,
            Next::Otherwise(bytes) => {
                program.order = program.order.other();
                bytes
            }
        };
        let files = ahead::files(&origin, &program.root, program.order, bytes);
        let swept = sweep::read(&self.places, files);
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

    fn tree() -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        for folder in ["a", "b", "b/c", "d"] {
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
        let root = tree();
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
        assert!(go("b/30", first) > 10, "beyond the end of its folder");
    }

    #[test]
    fn what_is_outside_is_not_read() {
        let root = tree();
        let places = Arc::new(Places::beneath(root.path()));
        let mut walker = Walker::new(places, &root.path().join("b"));
        for name in ["a/00", "a/01", "a/02", "a/03"] {
            assert_eq!(waited(&mut walker, root.path(), name, 0), Swept::default());
        }
    }
}
