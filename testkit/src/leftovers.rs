//! Resources that a test may have left in the system: mounts and loop devices.

use std::fs;
use std::path::{Path, PathBuf};

/// One line of the mount table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Mount point.
    pub point: PathBuf,
    /// File system type.
    pub kind: String,
}

/// All mounts at or below `path`.
pub fn mounts_below(path: &Path) -> Vec<Mount> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    text.lines()
        .filter_map(|line| {
            let (left, right) = line.split_once(" - ")?;
            let point = PathBuf::from(unescape(left.split(' ').nth(4)?));
            let kind = right.split(' ').next()?.to_owned();
            point.starts_with(path).then_some(Mount { point, kind })
        })
        .collect()
}

/// The kernel writes space, tab, newline and backslash as three octal digits.
fn unescape(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        result.push_str(before);
        let code = after
            .get(..3)
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                result.push(code as char);
                rest = &after[3..];
            }
            None => {
                result.push('\\');
                rest = after;
            }
        }
    }
    result + rest
}

/// Loop devices whose backing file is below `path`.
pub fn loop_devices_below(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir("/sys/block") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| {
            let file = fs::read_to_string(entry.path().join("loop/backing_file")).ok()?;
            let device = Path::new("/dev").join(entry.file_name());
            Path::new(file.trim_end())
                .starts_with(path)
                .then_some(device)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_with_spaces_are_unescaped() {
        assert_eq!(unescape(r"/a\040b\134c"), r"/a b\c");
        assert_eq!(unescape("/plain"), "/plain");
    }
}
