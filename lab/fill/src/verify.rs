//! Verifies the files by reading them.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use headlong_random::Generator;
use headlong_workload::content::Content;
use headlong_workload::{Catalogue, CatalogueFile};

use crate::direct_io::{self, AlignedBuffer, BLOCK_BYTES};
use crate::error::{FillError, io_error};
use crate::{FillProgress, MANIFEST, Manifest};

/// How much to verify.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerifyScope {
    /// Every file.
    Everything,
    /// A random sample of files.
    Sample {
        /// Number of files.
        files: u64,
        /// Seed of the sample.
        seed: u64,
    },
}

/// Verified files and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VerifyResult {
    /// Files.
    pub files: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Reads files of `catalogue` in `folder` and verifies every byte, until `stop` is set.
///
/// # Errors
/// The first file that is missing, of the wrong size, or with wrong content.
pub fn verify(
    folder: &Path,
    specification: &str,
    catalogue: &Catalogue,
    extent: VerifyScope,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(FillProgress),
) -> Result<VerifyResult, FillError> {
    let wanted = Manifest::of(specification, catalogue);
    match Manifest::read(folder)? {
        Some(found) if found.is_same(&wanted) => {}
        found => {
            let found = found.map_or("of an unfinished run".to_string(), |found| found.label());
            let note = folder.join(MANIFEST);
            return Err(FillError::other(&note, &found, &wanted.label()));
        }
    }
    let files = chosen(catalogue, extent);
    let bytes_total = files.iter().map(|file| file.range.len()).sum();
    let files_total = files.len() as u64;
    let mut state = FillProgress {
        files: 0,
        files_total,
        bytes: 0,
        bytes_total,
    };
    let mut block = AlignedBuffer::new();
    for file in &files {
        if stop.load(Ordering::Relaxed) {
            return Err(FillError::Stopped {
                done: state.files,
                total: files_total,
            });
        }
        verify_one(folder, file, &mut block)?;
        state.files += 1;
        state.bytes += file.range.len();
        progress(state);
    }
    Ok(VerifyResult {
        files: state.files,
        bytes: state.bytes,
    })
}

fn chosen(catalogue: &Catalogue, extent: VerifyScope) -> Vec<CatalogueFile> {
    let files = catalogue
        .creation_order
        .iter()
        .flat_map(|number| catalogue.files(&catalogue.titles[*number as usize]));
    let mut files: Vec<CatalogueFile> = files.collect();
    if let VerifyScope::Sample { files: count, seed } = extent {
        Generator::new(seed).fork("verify").shuffle(&mut files);
        files.truncate(usize::try_from(count).unwrap_or(usize::MAX));
    }
    files
}

fn verify_one(
    folder: &Path,
    file: &CatalogueFile,
    block: &mut AlignedBuffer,
) -> Result<(), FillError> {
    let path = folder.join(&file.path);
    let found = fs::metadata(&path)
        .map_err(io_error(&path, "cannot be inspected"))?
        .len();
    let wanted = file.range.len();
    if found != wanted {
        return Err(FillError::size(&path, found, wanted));
    }
    let opened = direct_io::open(&path).map_err(io_error(&path, "cannot be opened"))?;
    let content = Content::of_title(u64::from(file.title));
    let mut at = 0;
    while at < wanted {
        // Requests aligned lengths; the last read of a file returns fewer bytes.
        let length = direct_io::aligned((wanted - at).min(BLOCK_BYTES as u64) as usize);
        let buffer = &mut block.bytes()[..length];
        let read = opened
            .read_at(buffer, at)
            .map_err(io_error(&path, "cannot be read"))?;
        if read == 0 {
            return Err(FillError::size(&path, at, wanted));
        }
        if let Some(wrong) = content.first_wrong(file.content_offset + at, &buffer[..read]) {
            let at = at + wrong as u64;
            let text = format!("byte {at} is wrong; delete the file and fill the folder again");
            return Err(FillError::of(&path, text));
        }
        at += read as u64;
    }
    Ok(())
}
