//! Creates the files.
//!
//! Two threads: one makes content, the other writes it, so that an emulated disk whose store costs
//! nothing is filled as fast as memory goes.

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

use crate::block::{self, BLOCK_BYTES, Block};
use crate::error::{FillError, gibibytes, io_error};
use crate::{MANIFEST, Manifest, Progress};

/// Blocks on their way from the thread that makes them to the one that writes them.
const BLOCKS: usize = 4;

/// When the files say that they were written, in time since 1970: 1 January 2020. A library of
/// titles is old; servers treat a file of the last seconds with care (no strong tag, nothing shared
/// between readers), and its tags are the same wherever it is filled.
const MODIFIED: Duration = Duration::from_secs(1_577_836_800);

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Filled {
    /// Files that were written.
    pub files_written: u64,
    /// Files that were there already.
    pub files_kept: u64,
    /// Bytes that were written.
    pub bytes_written: u64,
}

/// A file that is not there yet.
struct Missing {
    file: CatalogueFile,
    path: PathBuf,
}

/// Creates in `folder` what it lacks of `catalogue`, until `stop` is set. The folder is created,
/// too. `specification` is the name that the note beside the files gives.
///
/// # Errors
/// See [`FillError`]; what is complete stays.
pub fn fill(
    folder: &Path,
    specification: &str,
    catalogue: &Catalogue,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(Progress),
) -> Result<Filled, FillError> {
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
    let mut state = Progress {
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
            block::takes_direct(folder).map_err(io_error(folder, "cannot be written to"))?;
        write_all(&missing, is_direct, stop, &mut state, progress)?;
        let opened = File::open(folder).map_err(io_error(folder, "cannot be opened"))?;
        syncfs(&opened)
            .map_err(|error| io_error(folder, "cannot be synchronised")(error.into()))?;
    }
    manifest.write(folder)?;
    Ok(Filled {
        files_written: missing.len() as u64,
        files_kept: kept,
        bytes_written: state.bytes,
    })
}

/// Every file that is not there in its right size and with its right ends, in order of creation.
fn missing(folder: &Path, catalogue: &Catalogue) -> Result<Vec<Missing>, FillError> {
    let mut missing = Vec::new();
    let mut block = Block::new();
    for number in &catalogue.creation_order {
        let title = &catalogue.titles[*number as usize];
        for file in catalogue.files(title) {
            let path = folder.join(&file.path);
            let is_there = match fs::metadata(&path) {
                Ok(found) => {
                    let ends = [0, file.range.len().saturating_sub(block::ALIGNMENT as u64)];
                    found.len() == file.range.len()
                        && ends
                            .iter()
                            .all(|at| has_content(&path, &file, *at, &mut block))
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => false,
                Err(error) => return Err(io_error(&path, "cannot be looked at")(error)),
            };
            if !is_there {
                missing.push(Missing { file, path });
            }
        }
    }
    Ok(missing)
}

/// Whether a page of the file at `offset` is what it should be.
fn has_content(path: &Path, file: &CatalogueFile, offset: u64, block: &mut Block) -> bool {
    let Ok(opened) = File::open(path) else {
        return false;
    };
    let length = (file.range.len() - offset).min(block::ALIGNMENT as u64) as usize;
    let page = &mut block.bytes()[..length];
    let content = Content::of_title(u64::from(file.title));
    opened.read_exact_at(page, offset).is_ok()
        && content
            .first_wrong(file.content_offset + offset, page)
            .is_none()
}

fn check_room(folder: &Path, missing: &[Missing]) -> Result<(), FillError> {
    let stat =
        statvfs(folder).map_err(|error| io_error(folder, "cannot be looked at")(error.into()))?;
    let unit = stat.f_frsize.max(1);
    // Files to be replaced give back what they had; that is not counted, it is little.
    let needed = missing
        .iter()
        .map(|missing| missing.file.range.len().next_multiple_of(unit))
        .sum();
    let free = stat.f_bavail.saturating_mul(unit);
    let refuse = |text| Err(FillError::NoRoom(folder.to_path_buf(), text));
    if needed > free {
        return refuse(format!(
            "{} are needed and {} are free; free some, or fill less (--set title.GROUP.count=N)",
            gibibytes(needed),
            gibibytes(free)
        ));
    }
    let files = missing.len() as u64;
    // File systems without a limit say 0 of 0.
    if stat.f_files > 0 && files > stat.f_favail {
        return refuse(format!(
            "{files} files are needed and the file system has room for {}; make it with more inodes \
             (mkfs.ext4 -N {}), or with larger chunk files",
            stat.f_favail,
            files + files / 10
        ));
    }
    Ok(())
}

fn write_all(
    missing: &[Missing],
    is_direct: bool,
    stop: &AtomicBool,
    state: &mut Progress,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), FillError> {
    let (to_writer, full) = mpsc::sync_channel::<Block>(BLOCKS);
    let (to_maker, empty) = mpsc::sync_channel::<Block>(BLOCKS);
    for _ in 0..BLOCKS {
        // There is room for all of them.
        let _ = to_maker.send(Block::new());
    }
    thread::scope(|scope| {
        // It ends when the writer has gone and its channels with it.
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
                    return Err(tell(error, one, state));
                }
            }
        }
        progress(*state);
        Ok(())
    })
}

fn remove(path: &Path, state: &mut Progress, bytes: u64) {
    // What cannot be removed is too short, and the next run replaces it.
    let _ = fs::remove_file(path);
    state.bytes = bytes;
}

fn tell(error: io::Error, one: &Missing, state: &Progress) -> FillError {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            let text = format!(
                "the disk is full after {} of {} files; {} more are needed. What is complete stays, and \
                 the same command goes on from there",
                state.files,
                state.files_total,
                gibibytes(state.bytes_total - state.bytes)
            );
            FillError::of(&one.path, text)
        }
        _ => io_error(&one.path, "cannot be written")(error),
    }
}

/// Makes the content of one file after another, block by block.
fn make(missing: &[Missing], empty: &mpsc::Receiver<Block>, full: &mpsc::SyncSender<Block>) {
    for one in missing {
        let content = Content::of_title(u64::from(one.file.title));
        let start = one.file.content_offset;
        let end = start + one.file.range.len();
        for start in (start..end).step_by(BLOCK_BYTES) {
            let Ok(mut block) = empty.recv() else {
                return;
            };
            let length = (end - start).min(BLOCK_BYTES as u64) as usize;
            // Past the end up to a whole block of the disk: it is cut off again.
            content.fill(start, &mut block.bytes()[..block::aligned(length)]);
            if full.send(block).is_err() {
                return;
            }
        }
    }
}

/// Writes one file; `false` if `next`, which is told of each block, wants no more.
fn write_one(
    one: &Missing,
    is_direct: bool,
    full: &mpsc::Receiver<Block>,
    to_maker: &mpsc::SyncSender<Block>,
    next: &mut dyn FnMut(usize) -> bool,
) -> io::Result<bool> {
    let file = match block::create(&one.path, is_direct) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(one.path.parent().unwrap_or(Path::new("")))?;
            block::create(&one.path, is_direct)?
        }
        other => other?,
    };
    let bytes = one.file.range.len();
    if bytes > BLOCK_BYTES as u64 {
        // In one piece, if the file system can: but without the size, which tells a complete file
        // from one whose writer was killed.
        match fallocate(&file, FallocateFlags::KEEP_SIZE, 0, bytes) {
            Ok(()) | Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mut at = 0;
    while at < bytes {
        let mut block = full
            .recv()
            .map_err(|_| io::Error::other("nothing more to write"))?;
        let length = (bytes - at).min(BLOCK_BYTES as u64) as usize;
        let written = if is_direct {
            block::aligned(length)
        } else {
            length
        };
        file.write_all_at(&block.bytes()[..written], at)?;
        // The maker may have made all there is, and gone.
        let _ = to_maker.send(block);
        at += length as u64;
        if !next(length) {
            return Ok(false);
        }
    }
    if is_direct && !bytes.is_multiple_of(block::ALIGNMENT as u64) {
        file.set_len(bytes)?;
    }
    file.set_modified(UNIX_EPOCH + MODIFIED)?;
    Ok(true)
}
