//! Links that leave a root, which the server follows only if their targets are listed.

use std::fs;
use std::path::{Path, PathBuf};

use headlong_settings::one_line;

/// Names that are listed of each kind; a library may have thousands.
const LISTED_MAX: usize = 20;

/// The links found.
#[derive(Default)]
struct Found {
    names: Vec<PathBuf>,
    count: usize,
}

impl Found {
    fn add(&mut self, path: PathBuf) {
        self.count += 1;
        if self.names.len() < LISTED_MAX {
            self.names.push(path);
        }
    }

    fn lines(self, text: &str) -> Vec<String> {
        let more = self.count - self.names.len();
        let shown = |path: &PathBuf| one_line(&format!("{}: {text}", path.display()));
        let mut lines: Vec<String> = self.names.iter().map(shown).collect();
        if more > 0 {
            lines.push(format!("and {more} more: {text}"));
        }
        lines
    }
}

/// A line for each link that the server would not follow. Unreadable folders are passed over.
pub(crate) fn survey(root: &Path) -> Vec<String> {
    let real_root = fs::canonicalize(root).unwrap_or_else(|_| root.to_path_buf());
    let mut links = Found::default();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries.flatten() {
            let (path, Ok(kind)) = (entry.path(), entry.file_type()) else {
                continue;
            };
            if kind.is_symlink() {
                if fs::canonicalize(&path).is_ok_and(|target| !target.starts_with(&real_root)) {
                    links.add(path);
                }
            } else if kind.is_dir() {
                folders.push(path);
            }
        }
    }
    links.lines(
        "a link out of its root is not followed; list the folder of its target in link_targets",
    )
}
