//! Two versions of a source tree, generated from a seed.
//!
//! Readers depend only on sizes, folders and the order on the disk, so the text is random. Sizes
//! are those of Linux 3.7.1 (libception Figure 19): nine of ten files are below 16 KiB and hold
//! about half of the bytes. Files are written in the order of `cp -r`: folder by folder, in listing
//! order, which on ext4 is hash order.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use headlong_random::{Empirical, Generator};
use rustix::fs::{FallocateFlags, fallocate, syncfs};

/// Bytes of a file, and the share of files up to this size. The paper states that 10 % are above 16
/// KiB and hold about half; the other points are chosen so that 40,000 files are 500 MB.
const SIZES: [(f64, f64); 10] = [
    (60.0, 0.0),
    (400.0, 0.05),
    (2_900.0, 0.25),
    (6_600.0, 0.5),
    (11_500.0, 0.75),
    (16_384.0, 0.9),
    (38_000.0, 0.97),
    (120_000.0, 0.993),
    (500_000.0, 0.9994),
    (2_000_000.0, 1.0),
];
/// Mean number of files in a folder (3.7.1: 41,000 in 2,600).
const FILES_PER_FOLDER: f64 = 16.0;
/// One in this many files differs between the versions.
const FILES_PER_CHANGE: u64 = 40;
/// Size of the text that all files are cut from.
const TEXT_BYTES: usize = 4 << 20;
/// Gap before each tree, for other data on a disk in use.
const BETWEEN_BYTES: u64 = 60 << 30;

/// The four trees: two versions, and a copy of each.
pub(super) const TREES: [&str; 4] = ["a1", "b1", "a2", "b2"];

/// A file to be written.
#[derive(Debug, Clone, PartialEq)]
struct PlannedFile {
    bytes: usize,
    text_at: usize,
    is_changed: bool,
}

/// Entries of a folder.
#[derive(Debug, Default)]
struct FolderTree {
    folders: BTreeMap<String, FolderTree>,
    files: BTreeMap<String, PlannedFile>,
}

/// Writes all trees below `root`.
pub(super) fn write(root: &Path, files: u32, seed: u64) -> io::Result<()> {
    let generator = Generator::new(seed);
    let plan = plan(files, &generator)?;
    let text = text(&mut generator.fork("text"));
    for (index, tree) in TREES.iter().enumerate() {
        let between = File::create(root.join(format!("before-{tree}")))?;
        fallocate(&between, FallocateFlags::empty(), 0, BETWEEN_BYTES)?;
        syncfs(&between)?;
        let mut order = generator.fork("order").fork_at(index as u64);
        let is_second = tree.starts_with('b');
        plan.write(&root.join(tree), &text, is_second, &mut order)?;
        syncfs(&between)?;
    }
    Ok(())
}

fn plan(files: u32, generator: &Generator) -> io::Result<FolderTree> {
    let sizes = Empirical::new(SIZES.to_vec()).map_err(io::Error::other)?;
    let (mut draw, mut names) = (generator.fork("sizes"), generator.fork("names"));
    // Stratified sampling, so that a small number of files follows the distribution, too.
    let share = |index: u32, draw: &mut Generator| {
        (f64::from(index) + draw.unit()) / f64::from(files.max(1))
    };
    let mut bytes: Vec<f64> = (0..files)
        .map(|index| sizes.quantile(share(index, &mut draw)))
        .collect();
    draw.shuffle(&mut bytes);
    let mut root = FolderTree::default();
    let (mut path, mut left): (Vec<String>, u64) = (Vec::new(), 0);
    for (index, bytes) in bytes.into_iter().enumerate() {
        if left == 0 {
            let depth = names.below(5) as usize;
            path.truncate(depth);
            path.push(format!("{}{index:05}", word(&mut names)));
            left = 1 + names.exponential(FILES_PER_FOLDER - 1.0) as u64;
        }
        left -= 1;
        let folder = path.iter().fold(&mut root, |folder, name| {
            folder.folders.entry(name.clone()).or_default()
        });
        let planned = PlannedFile {
            bytes: bytes as usize,
            text_at: draw.below((TEXT_BYTES / 2) as u64) as usize,
            is_changed: draw.below(FILES_PER_CHANGE) == 0,
        };
        let name = format!("{}{index:05}.c", word(&mut names));
        folder.files.insert(name, planned);
    }
    Ok(root)
}

fn word(names: &mut Generator) -> String {
    let letter = |_| char::from(b'a' + names.below(26) as u8);
    (0..4).map(letter).collect()
}

fn text(draw: &mut Generator) -> Vec<u8> {
    const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyz_();    \n";
    let letter = |_| LETTERS[draw.below(LETTERS.len() as u64) as usize];
    (0..TEXT_BYTES).map(letter).collect()
}

impl FolderTree {
    fn write(
        &self,
        path: &Path,
        text: &[u8],
        is_second: bool,
        order: &mut Generator,
    ) -> io::Result<()> {
        fs::create_dir_all(path)?;
        let mut names: Vec<&String> = self.files.keys().chain(self.folders.keys()).collect();
        order.shuffle(&mut names);
        for name in names {
            let path = path.join(name);
            if let Some(folder) = self.folders.get(name) {
                folder.write(&path, text, is_second, order)?;
            } else if let Some(planned) = self.files.get(name) {
                planned.write(&path, text, is_second)?;
            }
        }
        Ok(())
    }
}

impl PlannedFile {
    fn write(&self, path: &Path, text: &[u8], is_second: bool) -> io::Result<()> {
        let text = &text[self.text_at..self.text_at + self.bytes];
        let mut file = File::create(path)?;
        match is_second && self.is_changed {
            true => {
                let (before, after) = text.split_at(self.bytes / 2);
                file.write_all(&[before, b"\nchanged\n", after].concat())
            }
            false => file.write_all(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all<'f>(folder: &'f FolderTree, into: &mut Vec<&'f PlannedFile>) {
        into.extend(folder.files.values());
        folder.folders.values().for_each(|below| all(below, into));
    }

    #[test]
    fn sizes_match_kernel_tree() {
        for files in [3_000, 40_000] {
            let plan = plan(files, &Generator::new(1)).expect("right");
            let mut planned = Vec::new();
            all(&plan, &mut planned);
            assert_eq!(planned.len(), files as usize);
            let sum = |of: &dyn Fn(&&&PlannedFile) -> bool| -> f64 {
                planned.iter().filter(of).map(|one| one.bytes as f64).sum()
            };
            let small = |one: &&&PlannedFile| one.bytes <= 16_384;
            let count = planned.iter().filter(small).count() as f64 / f64::from(files);
            assert!((count - 0.9).abs() < 0.005, "{count}");
            let share = sum(&small) / sum(&|_| true);
            assert!((share - 0.48).abs() < 0.02, "{share}");
            let mean = sum(&|_| true) / f64::from(files);
            assert!((12_000.0..12_800.0).contains(&mean), "{mean}");
        }
    }

    #[test]
    fn same_seed_makes_same_tree() {
        let folder = |seed| format!("{:?}", plan(500, &Generator::new(seed)).expect("right"));
        assert_eq!(folder(3), folder(3));
        assert_ne!(folder(3), folder(4));
    }
}
