//! Where files and titles lie on a disk (thesis 3.5.1 to 3.5.3).
//!
//! The one idea: results of two file sets can be compared only if their titles lie at comparable
//! places. So this says where each title lies, whether titles made later lie behind those made
//! earlier, how far files are torn apart, and how far two sets are from one another.
//!
//! Positions are sectors of 512 bytes from the start of the whole disk, as the kernel's FIEMAP
//! tells them; the thesis had to watch the disk while reading everything. Nothing is read here.

mod compare;
mod error;
mod walk;

use std::path::{Path, PathBuf};

use headlong_library::{DeviceInfo, Extent};
use headlong_stats::out_of_order;
use serde::Serialize;

pub use compare::{Divergence, TitleDivergence};
pub use error::LayoutError;
pub use walk::TitleRule;

/// Bytes of a sector: the unit of addresses, whatever the disk has inside.
const SECTOR_BYTES: f64 = 512.0;
/// A title is an outlier if it is out of sequence by more than this share of the disk's sectors
/// (thesis 3.5.3).
pub const OUTLIER_SHARE: f64 = 0.01;

/// One file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FileLayout {
    /// Its path below the folder.
    pub path: String,
    /// How long it is.
    pub bytes: u64,
    /// Its extents in file order. Empty if it has no place of its own.
    pub extents: Vec<ExtentLayout>,
}

/// A run of bytes of a file that is contiguous on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ExtentLayout {
    /// First byte in the file.
    pub offset_bytes: u64,
    /// Its place on the disk, in sectors.
    pub lba: u64,
    /// How long it is.
    pub length_bytes: u64,
}

impl From<&Extent> for ExtentLayout {
    fn from(extent: &Extent) -> Self {
        Self {
            offset_bytes: extent.offset,
            lba: extent.physical / 512,
            length_bytes: extent.length,
        }
    }
}

/// One title: a file, or a folder of chunk files.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TitleLayout {
    /// Its path below the folder, without the ending.
    pub name: String,
    /// All its bytes.
    pub bytes: u64,
    /// Runs that are contiguous on the disk when its files are read in order: one means a title
    /// that is read without a seek.
    pub runs: u64,
    /// Mean address of its bytes, in sectors; `None` if it has no place.
    pub mean_lba: Option<f64>,
    /// How far that is from where the titles made before and after it lie, in sectors.
    pub out_of_sequence_lba: f64,
    /// Whether that is more than [`OUTLIER_SHARE`] of the disk.
    pub is_outlier: bool,
    /// Its files, in order.
    pub files: Vec<FileLayout>,
}

/// Where everything below a folder lies.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Layout {
    /// Which folder.
    pub directory: PathBuf,
    /// The disk, as the kernel names it.
    pub device: String,
    /// Sectors of the whole disk.
    pub device_sectors: u64,
    /// What the order of titles is: `created`, or `name` on a file system that does not keep the
    /// time of creation.
    pub order: &'static str,
    /// Titles, in that order.
    pub titles: Vec<TitleLayout>,
    /// Files on other disks, which were left out.
    pub files_elsewhere: u64,
}

/// What a layout comes to.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LayoutSummary {
    /// Titles.
    pub titles: u64,
    /// Their files.
    pub files: u64,
    /// All bytes.
    pub bytes: u64,
    /// Files in more than one extent.
    pub fragmented_files: u64,
    /// Titles that are read without a seek.
    pub contiguous_titles: u64,
    /// Mean of bytes per contiguous run of a title.
    pub bytes_per_run: f64,
    /// Titles without a place.
    pub titles_without_place: u64,
    /// Titles out of sequence by more than [`OUTLIER_SHARE`].
    pub outliers: u64,
}

impl Layout {
    /// Looks where everything below `directory` lies.
    ///
    /// # Errors
    /// If it cannot be looked at, is empty, or its file system says nothing.
    pub fn of(directory: &Path, rule: TitleRule) -> Result<Self, LayoutError> {
        let found = walk::walk(directory, rule)?;
        let mut titles: Vec<TitleLayout> = found.titles.into_iter().map(title).collect();
        if titles.is_empty() {
            return Err(LayoutError::Empty(directory.to_path_buf()));
        }
        if titles
            .iter()
            .all(|title| title.mean_lba.is_none() && title.bytes > 0)
        {
            return Err(LayoutError::NoPositions(directory.to_path_buf()));
        }
        let device_sectors = sectors(&found.device, &titles);
        mark_outliers(&mut titles, device_sectors);
        Ok(Self {
            directory: directory.to_path_buf(),
            device: found.device.name,
            device_sectors,
            order: found.order,
            titles,
            files_elsewhere: found.files_elsewhere,
        })
    }

    /// What it comes to.
    pub fn summary(&self) -> LayoutSummary {
        let titles = || self.titles.iter();
        let count =
            |test: fn(&TitleLayout) -> bool| titles().filter(|title| test(title)).count() as u64;
        let files = || titles().flat_map(|title| &title.files);
        let bytes: u64 = titles().map(|title| title.bytes).sum();
        let runs: u64 = titles().map(|title| title.runs).sum();
        LayoutSummary {
            titles: self.titles.len() as u64,
            files: files().count() as u64,
            bytes,
            fragmented_files: files().filter(|file| file.extents.len() > 1).count() as u64,
            contiguous_titles: count(|title| title.runs == 1),
            bytes_per_run: bytes as f64 / runs.max(1) as f64,
            titles_without_place: count(|title| title.mean_lba.is_none()),
            outliers: count(|title| title.is_outlier),
        }
    }
}

/// Sectors of the disk; if the kernel does not say, up to the last one that is known to be there.
fn sectors(device: &DeviceInfo, titles: &[TitleLayout]) -> u64 {
    let extents = titles
        .iter()
        .flat_map(|title| &title.files)
        .flat_map(|file| &file.extents);
    let ends = extents.map(|extent| extent.lba + extent.length_bytes.div_ceil(512));
    (device.capacity_bytes / 512).max(ends.max().unwrap_or(0))
}

fn title(found: walk::FoundTitle) -> TitleLayout {
    let all = || found.files.iter().flat_map(|file| &file.extents);
    let placed: f64 = all().map(|extent| extent.length as f64).sum();
    let middles = all().map(|extent| {
        let middle = extent.physical as f64 + extent.length as f64 / 2.0;
        middle * extent.length as f64
    });
    let mean_lba = (placed > 0.0).then(|| middles.sum::<f64>() / placed / SECTOR_BYTES);
    let mut runs = 0;
    let mut next = None;
    for extent in all() {
        // A file's last block is longer than what is in it, so the next file begins behind that.
        let is_near =
            next.is_some_and(|next| (next..=next + BLOCK_BYTES_MAX).contains(&extent.physical));
        runs += u64::from(!is_near);
        next = Some(extent.physical + extent.length);
    }
    let files = found.files.iter().map(|file| FileLayout {
        path: file.path.clone(),
        bytes: file.bytes,
        extents: file.extents.iter().map(ExtentLayout::from).collect(),
    });
    TitleLayout {
        bytes: found.files.iter().map(|file| file.bytes).sum(),
        runs,
        mean_lba,
        out_of_sequence_lba: 0.0,
        is_outlier: false,
        files: files.collect(),
        name: found.name,
    }
}

/// Largest block of a file system that files are padded to.
const BLOCK_BYTES_MAX: u64 = 65_536;

fn mark_outliers(titles: &mut [TitleLayout], device_sectors: u64) {
    let row: Vec<f64> = titles
        .iter()
        .map(|title| title.mean_lba.unwrap_or(f64::NAN))
        .collect();
    let limit = OUTLIER_SHARE * device_sectors as f64;
    for (title, off) in titles.iter_mut().zip(out_of_order(&row)) {
        // What has no place is not out of place; it is counted on its own.
        title.out_of_sequence_lba = if off.is_finite() { off } else { 0.0 };
        title.is_outlier = off > limit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::walk::{FoundFile, FoundTitle};

    fn file(path: &str, extents: &[(u64, u64)]) -> FoundFile {
        let mut offset = 0;
        let extents = extents.iter().map(|(physical, length)| {
            let extent = Extent {
                offset,
                physical: *physical,
                length: *length,
            };
            offset += length;
            extent
        });
        FoundFile {
            path: path.into(),
            extents: extents.collect(),
            bytes: offset,
        }
    }

    pub(super) fn layout(titles: &[(&str, u64)]) -> Layout {
        let found = |(name, start): &(&str, u64)| FoundTitle {
            name: name.to_string(),
            files: vec![file(name, &[(*start, 8192)])],
        };
        let mut titles: Vec<TitleLayout> = titles.iter().map(found).map(title).collect();
        mark_outliers(&mut titles, 1_000_000);
        Layout {
            directory: "d".into(),
            device: "sdz".into(),
            device_sectors: 1_000_000,
            order: "created",
            titles,
            files_elsewhere: 0,
        }
    }

    #[test]
    fn a_title_lies_at_the_mean_of_its_bytes() {
        let found = FoundTitle {
            name: "t".into(),
            files: vec![
                file("0", &[(512 * 100, 512 * 10)]),
                file("1", &[(512 * 1000, 512 * 30), (512 * 5000, 512 * 40)]),
            ],
        };
        let title = title(found);
        let expected = (105.0 * 10.0 + 1015.0 * 30.0 + 5020.0 * 40.0) / 80.0;
        assert_eq!(title.mean_lba, Some(expected));
        assert_eq!((title.bytes, title.runs), (512 * 80, 3));
    }

    #[test]
    fn chunks_one_behind_the_other_are_one_run_in_spite_of_their_padding() {
        let found = FoundTitle {
            name: "t".into(),
            files: vec![
                file("0", &[(4096, 5000)]),
                file("1", &[(4096 + 8192, 5000)]),
                file("2", &[(4096, 100)]),
            ],
        };
        assert_eq!(title(found).runs, 2);
    }

    #[test]
    fn titles_far_out_of_sequence_are_outliers_and_those_near_are_not() {
        // One per cent of the disk is 10,000 sectors of 512 bytes.
        let at = |sector: u64| sector * 512;
        let layout = layout(&[
            ("a", at(1_000)),
            ("b", at(50_000)),
            ("c", at(2_000)),
            ("d", at(3_000)),
            ("e", at(2_500)),
        ]);
        let outliers: Vec<&str> = layout
            .titles
            .iter()
            .filter(|title| title.is_outlier)
            .map(|title| title.name.as_str())
            .collect();
        assert_eq!(outliers, ["b"]);
        let summary = layout.summary();
        assert_eq!(
            (summary.titles, summary.outliers, summary.contiguous_titles),
            (5, 1, 5)
        );
        assert_eq!(summary.bytes_per_run, 8192.0);
    }
}
