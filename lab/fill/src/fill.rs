//! Creates the files.
//!
//! One thread generates content, another writes it, so that an emulated disk without storage cost
//! is filled at the speed of memory.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use headlong_workload::content::Content;
use headlong_workload::{Catalogue, CatalogueFile};
use rustix::fs::{FallocateFlags, fallocate, statvfs, syncfs};

use crate::direct_io::{self, AlignedBuffer, BLOCK_BYTES};
use crate::error::{FillError, gibibytes, io_error};
use crate::{FillProgress, MANIFEST, Manifest};

/// Blocks that circulate between the two threads.
const BLOCKS: usize = 4;

/// Modification time of the files, since 1970: 1 January 2020. Servers treat recently written files
/// with care (weak tags, no sharing between readers), which a library of old titles must not
/// trigger; and the tags are the same wherever it is filled.
const MODIFIED: Duration = Duration::from_secs(1_577_836_800);

/// Result of a fill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FillResult {
    /// Files written.
    pub files_written: u64,
    /// Files that existed already.
    pub files_kept: u64,
    /// Bytes written.
    pub bytes_written: u64,
}

/// A file to be written.
struct MissingFile {
    file: CatalogueFile,
    path: PathBuf,
}

/// Creates the missing files of `catalogue` in `folder`, which is created as well, until `stop` is
/// set. `specification` is the name in the manifest.
///
/// # Errors
/// See [`FillError`]; complete files stay.
pub fn fill(
    folder: &Path,
    specification: &str,
    catalogue: &Catalogue,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(FillProgress),
) -> Result<FillResult, FillError> {
    fs::create_dir_all(folder).map_err(io_error(folder, "cannot be created"))?;
    let manifest = Manifest::of(specification, catalogue);
    if let Some(found) = Manifest::read(folder)?
        && !found.is_same(&manifest)
    {
        let note = folder.join(MANIFEST);
        return Err(FillError::other(&note, &found.label(), &manifest.label()));
    }
    let missing = missing(folder, catalogue)?;
    let bytes_total = missing.iter().map(|missing| missing.file.range.len()).sum();
    let kept = manifest.files - missing.len() as u64;
    let mut state = FillProgress {
        files: kept,
        files_total: manifest.files,
        bytes: 0,
        bytes_total,
    };
    progress(state);
    if !missing.is_empty() {
        check_room(folder, &missing)?;
        Manifest::remove(folder)?;
        let is_direct =
            direct_io::takes_direct(folder).map_err(io_error(folder, "cannot be written to"))?;
        write_all(&missing, is_direct, stop, &mut state, progress)?;
        let opened = File::open(folder).map_err(io_error(folder, "cannot be opened"))?;
        syncfs(&opened)
            .map_err(|error| io_error(folder, "cannot be synchronised")(error.into()))?;
    }
    manifest.write(folder)?;
    Ok(FillResult {
        files_written: missing.len() as u64,
        files_kept: kept,
        bytes_written: state.bytes,
    })
}

/// Every file without the right size and the right first and last page, in order of creation.
fn missing(folder: &Path, catalogue: &Catalogue) -> Result<Vec<MissingFile>, FillError> {
    let mut missing = Vec::new();
    let mut block = AlignedBuffer::new();
    for number in &catalogue.creation_order {
        let title = &catalogue.titles[*number as usize];
        for file in catalogue.files(title) {
            let path = folder.join(&file.path);
            let is_there = match fs::metadata(&path) {
                Ok(found) => {
                    let ends = [
                        0,
                        file.range.len().saturating_sub(direct_io::ALIGNMENT as u64),
                    ];
                    found.len() == file.range.len()
                        && ends
                            .iter()
                            .all(|at| has_content(&path, &file, *at, &mut block))
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => false,
                Err(error) => return Err(io_error(&path, "cannot be inspected")(error)),
            };
            if !is_there {
                missing.push(MissingFile { file, path });
            }
        }
    }
    Ok(missing)
}

/// Whether a page of the file at `offset` has the right content.
fn has_content(path: &Path, file: &CatalogueFile, offset: u64, block: &mut AlignedBuffer) -> bool {
    let Ok(opened) = File::open(path) else {
        return false;
    };
    let length = (file.range.len() - offset).min(direct_io::ALIGNMENT as u64) as usize;
    let page = &mut block.bytes()[..length];
    let content = Content::of_title(u64::from(file.title));
    opened.read_exact_at(page, offset).is_ok()
        && content
            .first_wrong(file.content_offset + offset, page)
            .is_none()
}

fn check_room(folder: &Path, missing: &[MissingFile]) -> Result<(), FillError> {
    let stat =
        statvfs(folder).map_err(|error| io_error(folder, "cannot be inspected")(error.into()))?;
    let unit = stat.f_frsize.max(1);
    // Space freed by replaced files is not counted; it is little.
    let needed = missing
        .iter()
        .map(|missing| missing.file.range.len().next_multiple_of(unit))
        .sum();
    let free = stat.f_bavail.saturating_mul(unit);
    let refuse = |text| Err(FillError::NoRoom(folder.to_path_buf(), text));
    if needed > free {
        return refuse(format!(
            "{} are needed and {} are free; free space, or fill less (--set title.GROUP.count=N)",
            gibibytes(needed),
            gibibytes(free)
        ));
    }
    let files = missing.len() as u64;
    // File systems without a limit report 0 of 0.
    if stat.f_files > 0 && files > stat.f_favail {
        return refuse(format!(
            "{files} files are needed and the file system has inodes for {}; format it with more \
             inodes (mkfs.ext4 -N {}), or use larger chunk files",
            stat.f_favail,
            files + files / 10
        ));
    }
    Ok(())
}

fn write_all(
    missing: &[MissingFile],
    is_direct: bool,
    stop: &AtomicBool,
    state: &mut FillProgress,
    progress: &mut dyn FnMut(FillProgress),
) -> Result<(), FillError> {
    let (to_writer, full) = mpsc::sync_channel::<AlignedBuffer>(BLOCKS);
    let (to_maker, empty) = mpsc::sync_channel::<AlignedBuffer>(BLOCKS);
    for _ in 0..BLOCKS {
        // The channel has room for all of them.
        let _ = to_maker.send(AlignedBuffer::new());
    }
    thread::scope(|scope| {
        // The thread ends when the writer drops its channels.
        scope.spawn(move || make(missing, &empty, &to_writer));
        let (full, to_maker) = (full, to_maker);
        for one in missing {
            if stop.load(Ordering::Relaxed) {
                return Err(FillError::Stopped {
                    done: state.files,
                    total: state.files_total,
                });
            }
            let before = state.bytes;
            let mut next = |length: usize| {
                state.bytes += length as u64;
                progress(*state);
                !stop.load(Ordering::Relaxed)
            };
            let written = write_one(one, is_direct, &full, &to_maker, &mut next);
            match written {
                Ok(true) => state.files += 1,
                Ok(false) => {
                    remove(&one.path, state, before);
                    return Err(FillError::Stopped {
                        done: state.files,
                        total: state.files_total,
                    });
                }
                Err(error) => {
                    remove(&one.path, state, before);
                    return Err(write_error(error, one, state));
                }
            }
        }
        progress(*state);
        Ok(())
    })
}

fn remove(path: &Path, state: &mut FillProgress, bytes: u64) {
    // A file that cannot be removed is too short, and the next run replaces it.
    let _ = fs::remove_file(path);
    state.bytes = bytes;
}

fn write_error(error: io::Error, one: &MissingFile, state: &FillProgress) -> FillError {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            let text = format!(
                "the disk is full after {} of {} files; {} more are needed; complete files stay, \
                 run the same command again to continue",
                state.files,
                state.files_total,
                gibibytes(state.bytes_total - state.bytes)
            );
            FillError::of(&one.path, text)
        }
        _ => io_error(&one.path, "cannot be written")(error),
    }
}

/// Generates the content of the files in order, block by block.
fn make(
    missing: &[MissingFile],
    empty: &mpsc::Receiver<AlignedBuffer>,
    full: &mpsc::SyncSender<AlignedBuffer>,
) {
    for one in missing {
        let content = Content::of_title(u64::from(one.file.title));
        let start = one.file.content_offset;
        let end = start + one.file.range.len();
        for start in (start..end).step_by(BLOCK_BYTES) {
            let Ok(mut block) = empty.recv() else {
                return;
            };
            let length = (end - start).min(BLOCK_BYTES as u64) as usize;
            // Fills beyond the end up to the alignment; the file is truncated afterwards.
            content.fill(start, &mut block.bytes()[..direct_io::aligned(length)]);
            if full.send(block).is_err() {
                return;
            }
        }
    }
}

/// Writes one file; returns `false` if `next`, called after each block, requests a stop.
fn write_one(
    one: &MissingFile,
    is_direct: bool,
    full: &mpsc::Receiver<AlignedBuffer>,
    to_maker: &mpsc::SyncSender<AlignedBuffer>,
    next: &mut dyn FnMut(usize) -> bool,
) -> io::Result<bool> {
    let file = match direct_io::create(&one.path, is_direct) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(one.path.parent().unwrap_or(Path::new("")))?;
            direct_io::create(&one.path, is_direct)?
        }
        other => other?,
    };
    let bytes = one.file.range.len();
    if bytes > BLOCK_BYTES as u64 {
        // Allocates the file in one piece if the file system supports it, but keeps the size, which
        // distinguishes a complete file from an interrupted one.
        match fallocate(&file, FallocateFlags::KEEP_SIZE, 0, bytes) {
            Ok(()) | Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mut at = 0;
    while at < bytes {
        let mut block = full
            .recv()
            .map_err(|_| io::Error::other("no more content to write"))?;
        let length = (bytes - at).min(BLOCK_BYTES as u64) as usize;
        let written = if is_direct {
            direct_io::aligned(length)
        } else {
            length
        };
        file.write_all_at(&block.bytes()[..written], at)?;
        // The generator may have finished and dropped its channel.
        let _ = to_maker.send(block);
        at += length as u64;
        if !next(length) {
            return Ok(false);
        }
    }
    if is_direct && !bytes.is_multiple_of(direct_io::ALIGNMENT as u64) {
        file.set_len(bytes)?;
    }
    file.set_modified(UNIX_EPOCH + MODIFIED)?;
    Ok(true)
}
