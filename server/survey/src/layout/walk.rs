//! Finds files and makes titles of them.

use std::cmp::Ordering;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::SystemTime;

use headlong_library::{DeviceInfo, Extent, Places};

use super::error::LayoutError;

/// Deepest folder looked into below the one that was named.
const DEPTH_MAX: usize = 32;
/// Endings of files that say how others belong together.
const MANIFESTS: [&str; 2] = ["m3u8", "mpd"];

/// What makes a title.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TitleRule {
    /// A folder is one title if it holds a manifest, or if it has a number for a name and only
    /// files with numbers for names; any other file is a title of its own.
    #[default]
    Automatic,
    /// Every file is a title.
    Files,
    /// Every folder that holds files is a title.
    Folders,
}

/// A file that was found.
#[derive(Debug)]
pub(super) struct FoundFile {
    pub(super) path: String,
    pub(super) bytes: u64,
    pub(super) extents: Vec<Extent>,
}

/// A title that was found.
#[derive(Debug)]
pub(super) struct FoundTitle {
    pub(super) name: String,
    pub(super) files: Vec<FoundFile>,
}

/// Everything below a folder.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) titles: Vec<FoundTitle>,
    pub(super) device: DeviceInfo,
    pub(super) order: &'static str,
    pub(super) files_elsewhere: u64,
}

/// A file before it was asked where it lies.
#[derive(Debug)]
struct Entry {
    /// Below the folder that was named, with `/` between.
    path: String,
    metadata: Metadata,
}

impl Entry {
    fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    fn stem(&self) -> &str {
        stem(self.name())
    }

    fn is_manifest(&self) -> bool {
        let ending = self.name().rsplit_once('.').map(|(_, ending)| ending);
        ending.is_some_and(|ending| MANIFESTS.contains(&ending))
    }
}

/// When a file was made, and its inode for those made in the same tick of the clock.
type Age = (Option<SystemTime>, u64);

pub(super) fn walk(directory: &Path, rule: TitleRule) -> Result<Found, LayoutError> {
    let mut titles: Vec<(String, Vec<Entry>)> = Vec::new();
    look_into(directory, "", rule, DEPTH_MAX, &mut titles)?;
    let age = |entry: &Entry| -> Age { (entry.metadata.created().ok(), entry.metadata.ino()) };
    let is_dated = titles
        .iter()
        .flat_map(|title| &title.1)
        .all(|entry| age(entry).0.is_some());
    let oldest = |title: &(String, Vec<Entry>)| title.1.iter().map(age).min();
    if is_dated {
        titles.sort_by_cached_key(oldest);
    } else {
        titles.sort_by(|a, b| by_number(&a.0, &b.0));
    }
    let places = Places::beneath(directory);
    let home = look(directory, &places)?;
    let mut files_elsewhere = 0;
    let mut found = Vec::with_capacity(titles.len());
    for (name, entries) in titles {
        let mut files = Vec::with_capacity(entries.len());
        for entry in entries {
            let path = directory.join(&entry.path);
            // Opening a file that has a name only costs nothing; its bytes are not touched.
            let place = File::open(&path).and_then(|file| places.of(&file));
            let place = place.map_err(unreadable(&path))?;
            if place.device != home {
                files_elsewhere += 1;
                continue;
            }
            files.push(FoundFile {
                bytes: entry.metadata.len(),
                path: entry.path,
                extents: place.extents,
            });
        }
        if !files.is_empty() {
            found.push(FoundTitle { name, files });
        }
    }
    let device = places.devices().into_iter().nth(home);
    Ok(Found {
        titles: found,
        device: device.ok_or_else(|| LayoutError::NoPositions(directory.to_path_buf()))?,
        order: if is_dated { "created" } else { "name" },
        files_elsewhere,
    })
}

/// The device that a folder itself lies on.
fn look(directory: &Path, places: &Places) -> Result<usize, LayoutError> {
    let open = File::open(directory).map_err(unreadable(directory))?;
    // Of a folder only its device is wanted; not every file system maps folders.
    let place = places.device_of(&open).map_err(unreadable(directory))?;
    Ok(place)
}

fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> LayoutError {
    let path = path.to_path_buf();
    move |source| LayoutError::Unreadable { path, source }
}

/// Adds the titles of a folder and of those below it. Links are passed over: what they point at is
/// found under its own name, or is not here.
fn look_into(
    directory: &Path,
    path: &str,
    rule: TitleRule,
    depth: usize,
    titles: &mut Vec<(String, Vec<Entry>)>,
) -> Result<(), LayoutError> {
    let (mut files, mut folders) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(directory).map_err(unreadable(directory))? {
        let entry = entry.map_err(unreadable(directory))?;
        let metadata = entry.metadata().map_err(unreadable(&entry.path()))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let below = if path.is_empty() {
            name
        } else {
            format!("{path}/{name}")
        };
        if metadata.is_dir() {
            folders.push((entry.path(), below));
        } else if metadata.is_file() {
            files.push(Entry {
                path: below,
                metadata,
            });
        }
    }
    files.sort_by(|a, b| by_number(&a.path, &b.path));
    if is_title(path, &files, rule) {
        titles.push((path.to_string(), files));
    } else {
        let each = files.into_iter().map(|entry| {
            let name = entry.path[..entry.path.len() - entry.name().len() + entry.stem().len()]
                .to_string();
            (name, vec![entry])
        });
        titles.extend(each);
    }
    folders.sort();
    for (folder, below) in folders {
        if let Some(depth) = depth.checked_sub(1) {
            look_into(&folder, &below, rule, depth, titles)?;
        }
    }
    Ok(())
}

/// Whether the folder at `path` is one title made of its files.
fn is_title(path: &str, files: &[Entry], rule: TitleRule) -> bool {
    if files.is_empty() {
        return false;
    }
    match rule {
        TitleRule::Files => false,
        TitleRule::Folders => true,
        TitleRule::Automatic => {
            let is_number =
                |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit());
            let name = path.rsplit('/').next().unwrap_or_default();
            let is_numbered = is_number(name) && files.iter().all(|file| is_number(file.stem()));
            is_numbered || (files.len() > 1 && files.iter().any(Entry::is_manifest))
        }
    }
}

fn stem(name: &str) -> &str {
    // A name that begins with its only point has no ending.
    match name.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem,
        _ => name,
    }
}

/// Order of names in which 10 comes after 9.
fn by_number(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a, b);
    loop {
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let (l, r) = (digits(left), digits(right));
        if l > 0 && r > 0 {
            let (x, y) = (
                left[..l].trim_start_matches('0'),
                right[..r].trim_start_matches('0'),
            );
            // Numbers without leading zeros are ordered by length, then as text.
            let order = x.len().cmp(&y.len()).then_with(|| x.cmp(y));
            if order.is_ne() {
                return order;
            }
            (left, right) = (&left[l..], &right[r..]);
            continue;
        }
        let (mut x, mut y) = (left.chars(), right.chars());
        match (x.next(), y.next()) {
            (None, None) => return a.cmp(b),
            (first, second) if first != second => return first.cmp(&second),
            _ => (left, right) = (x.as_str(), y.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn titles(paths: &[&str], rule: TitleRule) -> Vec<(String, usize)> {
        let folder = tempfile::tempdir().expect("a folder");
        for path in paths {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, "x").expect("written");
        }
        let found = walk(folder.path(), rule).expect("readable");
        let mut titles: Vec<_> = found
            .titles
            .into_iter()
            .map(|t| (t.name, t.files.len()))
            .collect();
        titles.sort();
        titles
    }

    #[test]
    fn a_title_is_a_file_or_a_folder_of_chunk_files() {
        let paths = [
            "sd/000001.bin",
            "sd/000002.bin",
            "hd/000003/00000.bin",
            "hd/000003/00001.bin",
            "film/index.m3u8",
            "film/a.ts",
            "loose.mp4",
        ];
        let expected = [
            ("film", 2),
            ("hd/000003", 2),
            ("loose", 1),
            ("sd/000001", 1),
            ("sd/000002", 1),
        ];
        let named = |list: &[(&str, usize)]| -> Vec<_> {
            list.iter()
                .map(|(name, count)| (name.to_string(), *count))
                .collect()
        };
        assert_eq!(titles(&paths, TitleRule::Automatic), named(&expected));
        assert_eq!(titles(&paths, TitleRule::Files).len(), paths.len());
        let folders = [("", 1), ("film", 2), ("hd/000003", 2), ("sd", 2)];
        assert_eq!(titles(&paths, TitleRule::Folders), named(&folders));
    }

    #[test]
    fn chunks_are_in_the_order_of_their_numbers() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["s10.ts", "s9.ts", "s1.ts", "a.m3u8"] {
            fs::write(folder.path().join(name), "x").expect("written");
        }
        let found = walk(folder.path(), TitleRule::Automatic).expect("readable");
        let names: Vec<&str> = found.titles[0]
            .files
            .iter()
            .map(|f| f.path.as_str())
            .collect();
        assert_eq!(names, ["a.m3u8", "s1.ts", "s9.ts", "s10.ts"]);
    }

    #[test]
    fn titles_are_in_the_order_in_which_they_were_made() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["c", "a", "b"] {
            fs::write(folder.path().join(name), "x").expect("written");
            // File systems tell times of creation by the tick of the kernel, 10 ms at most.
            std::thread::sleep(std::time::Duration::from_millis(30));
        }
        let found = walk(folder.path(), TitleRule::Files).expect("readable");
        let names: Vec<&str> = found.titles.iter().map(|t| t.name.as_str()).collect();
        let expected = if found.order == "created" {
            ["c", "a", "b"]
        } else {
            ["a", "b", "c"]
        };
        assert_eq!(names, expected);
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let error = walk(Path::new("/no/such"), TitleRule::Files).expect_err("not there");
        assert!(
            error.is_mistake() && error.to_string().starts_with("/no/such:"),
            "{error}"
        );
    }

    proptest! {
        #[test]
        fn the_order_of_names_is_an_order(a in "[a0-2]{0,5}", b in "[a0-2]{0,5}", c in "[a0-2]{0,5}") {
            prop_assert_eq!(by_number(&a, &b), by_number(&b, &a).reverse());
            prop_assert_eq!(by_number(&a, &b) == Ordering::Equal, a == b);
            if by_number(&a, &b).is_le() && by_number(&b, &c).is_le() {
                prop_assert!(by_number(&a, &c).is_le(), "{} {} {}", a, b, c);
            }
        }
    }
}
