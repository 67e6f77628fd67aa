//! `headlong flash`: formats, inspects, verifies and drops a tier.
//!
//! Nothing is written before all checks have passed. The tier becomes valid with the last write,
//! the first copy of the super record.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use headlong_flash::format::{
    BLOCKS_MIN, Layout, LayoutError, SUPER_BYTES, SUPER_COPIES, SuperRecord, verify_block,
};
use headlong_units::{Bytes, KIB, MIB};
use rustix::fs::{FallocateFlags, fallocate, major, minor};

use super::error::{FlashError, FlashErrorKind};
use super::medium::{AccessMode, Medium};
use super::recover::look_at_all;
use super::signatures::recognise;

/// Default block size, if that leaves enough blocks: current SSDs write 16 MiB as fast as larger
/// blocks.
const BLOCK_BYTES: u64 = 16 * MIB;
/// Upper limit, used if the drive reports a larger erase or write unit.
const BLOCK_BYTES_MAX: u64 = 256 * MIB;
const BLOCK_BYTES_MIN: u64 = 256 * KIB;

/// Parameters of `format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Formatting {
    /// Size of the file in bytes, to create or to match.
    pub size: Option<u64>,
    /// Block size in bytes.
    pub block: Option<u64>,
    /// Piece size in bytes, as in the server's configuration.
    pub piece: u64,
    /// Whether recognised data is overwritten.
    pub is_forced: bool,
}

/// Formats a device or file as a tier and returns a description.
///
/// # Errors
/// If formatting fails; existing data is unchanged then.
pub fn format(path: &Path, formatting: &Formatting) -> Result<String, FlashError> {
    let is_there = path.exists();
    let refuse = |text: &str| FlashErrorKind::Size(text.to_owned()).of(path);
    if !is_there {
        let size = formatting
            .size
            .ok_or_else(|| refuse("does not exist; use --size to create a file"))?;
        // Check before the file is created.
        divide(path, size - size % 4096, formatting, None)?;
        make_file(path, size - size % 4096)?;
    }
    let made = format_what_is_there(path, formatting);
    if made.is_err() && !is_there {
        // This call created the file, and it is still empty.
        let _ = std::fs::remove_file(path);
    }
    made
}

fn format_what_is_there(path: &Path, formatting: &Formatting) -> Result<String, FlashError> {
    let medium = Medium::open(path, AccessMode::Own)?;
    if let Some(size) = formatting.size
        && (medium.is_device || size - size % 4096 != medium.bytes)
    {
        let text = format!(
            "has {} already; omit --size, or name a file that does not exist",
            Bytes(medium.bytes)
        );
        return Err(FlashErrorKind::Size(text).of(path));
    }
    let hint = medium.is_device.then(|| hint(path)).flatten();
    let layout = divide(path, medium.bytes, formatting, hint)?;
    let what = recognise(&medium).map_err(|error| medium.error(error))?;
    if let Some(what) = what.filter(|_| !formatting.is_forced) {
        return Err(FlashErrorKind::Recognised(what).of(path));
    }
    let reserved = reserve(&medium);
    let tier = SuperRecord {
        device: random_id().map_err(|error| medium.error(error))?,
        layout,
    };
    reserved
        .and_then(|()| write_super(&medium, &tier))
        .map_err(|error| medium.error(error))?;
    Ok(format!(
        "{}: flash tier of {} blocks of {}, for pieces of {}; add it to the configuration: \
         flash = [\"{}\"]\n",
        path.display(),
        layout.block_count(),
        Bytes(layout.block_bytes().into()),
        Bytes(layout.piece_bytes().into()),
        path.display(),
    ))
}

/// The requested layout, or the one with the largest blocks that still has enough of them.
fn divide(
    path: &Path,
    bytes: u64,
    formatting: &Formatting,
    hint: Option<u64>,
) -> Result<Layout, FlashError> {
    let wrong = |error| FlashErrorKind::Layout(error).of(path);
    if let Some(block) = formatting.block {
        return Layout::new(bytes, block, formatting.piece).map_err(wrong);
    }
    let mut block = proposed_block(hint);
    loop {
        match Layout::new(bytes, block, formatting.piece) {
            Err(LayoutError::TooSmall { .. }) if block > BLOCK_BYTES_MIN => block /= 2,
            Err(LayoutError::PieceBytes { .. }) => {
                let count = bytes / (2 * block);
                let block = 2 * block;
                return Err(wrong(LayoutError::TooSmall {
                    bytes,
                    block,
                    count: count.min(u64::from(BLOCKS_MIN) - 1),
                }));
            }
            other => return other.map_err(wrong),
        }
    }
}

/// The block size that the drive's hint suggests.
fn proposed_block(hint: Option<u64>) -> u64 {
    let whole = hint.map_or(Some(BLOCK_BYTES), u64::checked_next_power_of_two);
    whole
        .unwrap_or(BLOCK_BYTES_MAX)
        .clamp(BLOCK_BYTES, BLOCK_BYTES_MAX)
}

/// The larger of the erase and optimal I/O sizes that a device reports; `None` if it reports
/// neither.
fn hint(path: &Path) -> Option<u64> {
    let device = std::fs::metadata(path).ok()?.rdev();
    let place = format!("/sys/dev/block/{}:{}", major(device), minor(device));
    // A partition uses the queue of its disk.
    let queues = ["queue", "../queue"].map(|queue| Path::new(&place).join(queue));
    let queue = queues.into_iter().find(|queue| queue.is_dir())?;
    let read = |name: &str| {
        let text = std::fs::read_to_string(queue.join(name)).ok()?;
        text.trim().parse::<u64>().ok()
    };
    let said = [read("discard_granularity"), read("optimal_io_size")];
    said.into_iter().flatten().max().filter(|bytes| *bytes > 0)
}

fn make_file(path: &Path, size: u64) -> Result<(), FlashError> {
    let refuse = |error: io::Error| FlashErrorKind::Open(error).of(path);
    let mut options = OpenOptions::new();
    let file = options
        .write(true)
        .create_new(true)
        .mode(0o640)
        .open(path)
        .map_err(refuse)?;
    let room = fallocate(&file, FallocateFlags::empty(), 0, size);
    room.map_err(|errno| {
        let _ = std::fs::remove_file(path);
        let size = Bytes(size);
        let text = format!(
            "there is no room for {size}: {errno}; free some space, or use a smaller --size"
        );
        FlashErrorKind::Size(text).of(path)
    })
}

/// Allocates the holes of a file, so that no later write fails for lack of space.
fn reserve(medium: &Medium) -> io::Result<()> {
    match medium.is_device {
        true => Ok(()),
        false => Ok(fallocate(
            medium.file(),
            FallocateFlags::empty(),
            0,
            medium.bytes,
        )?),
    }
}

fn write_super(medium: &Medium, tier: &SuperRecord) -> io::Result<()> {
    for at in SUPER_COPIES.into_iter().rev() {
        medium.write(at, &tier.encode())?;
        medium.file().sync_all()?;
    }
    Ok(())
}

fn random_id() -> io::Result<u128> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u128::from_le_bytes(bytes))
}

/// Describes the content of a tier, even if another process uses it.
///
/// # Errors
/// If there is no tier, or it cannot be read.
pub fn status(path: &Path) -> Result<String, FlashError> {
    let medium = Medium::open(path, AccessMode::Look)?;
    let tier = medium.super_record()?;
    let summaries = look_at_all(&medium, &tier, 0..tier.layout.block_count());
    let entries = summaries.iter().flat_map(|summary| &summary.entries);
    let (records, bytes) = entries.fold((0_u64, 0_u64), |(records, bytes), entry| {
        (records + 1, bytes + u64::from(entry.length))
    });
    let mut text = String::new();
    // Writing to a `String` cannot fail.
    let _ = writeln!(
        text,
        "{}\n  size     {}\n  blocks   {} of {}\n  sealed   {}\n  records  {records}\n  bytes    {}\n  piece    {}\n  device   {:032x}",
        path.display(),
        Bytes(medium.bytes),
        tier.layout.block_count(),
        Bytes(tier.layout.block_bytes().into()),
        summaries.len(),
        Bytes(bytes),
        Bytes(tier.layout.piece_bytes().into()),
        tier.device,
    );
    Ok(text)
}

/// Reads every record of an unused tier. Returns a report and whether all records are intact.
///
/// # Errors
/// If there is no tier, it is in use, or it cannot be read.
pub fn verify(path: &Path) -> Result<(String, bool), FlashError> {
    let medium = Medium::open(path, AccessMode::Own)?;
    let tier = medium.super_record()?;
    let summaries = look_at_all(&medium, &tier, 0..tier.layout.block_count());
    let (mut right, mut wrong) = (0_u64, 0_u64);
    for summary in &summaries {
        let (good, bad) = verify_block(&tier, summary, medium.reader());
        right += u64::from(good);
        wrong += u64::from(bad);
    }
    let text = format!(
        "{}: {} sealed blocks, {right} records intact, {wrong} damaged\n",
        path.display(),
        summaries.len()
    );
    Ok((text, wrong == 0))
}

/// Removes a tier; its device or file can be used for anything afterwards.
///
/// # Errors
/// If there is no tier, it is in use, or it cannot be written.
pub fn drop_tier(path: &Path) -> Result<String, FlashError> {
    let medium = Medium::open(path, AccessMode::Own)?;
    medium.super_record()?;
    let gone = || {
        for at in SUPER_COPIES {
            medium.write(at, &[0; SUPER_BYTES])?;
        }
        medium.discard(0, medium.bytes - medium.bytes % 4096);
        medium.file().sync_all()
    };
    gone().map_err(|error: io::Error| medium.error(error))?;
    let what = match medium.is_device {
        true => "the device is free",
        false => "the file can be removed",
    };
    Ok(format!("{}: flash tier removed; {what}\n", path.display()))
}

#[cfg(test)]
#[path = "manage_tests.rs"]
mod tests;
