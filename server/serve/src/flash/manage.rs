//! `headlong flash`: making a tier, looking at it, and taking it away.
//!
//! Nothing is written before everything has been looked at; what is made is complete with its last
//! write, which is the first copy of the super record.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use headlong_flash::format::{
    BLOCKS_MIN, Layout, LayoutError, SUPER_BYTES, SUPER_COPIES, Super, verify_block,
};
use headlong_units::{Bytes, KIB, MIB};
use rustix::fs::{FallocateFlags, fallocate, major, minor};

use super::error::{FlashError, Trouble};
use super::medium::{Access, Medium};
use super::recognise::recognise;
use super::recover::look_at_all;

/// Blocks are this large where that leaves enough of them: drives of today write 16 MiB as fast as
/// more.
const BLOCK_BYTES: u64 = 16 * MIB;
/// Larger ones are made where the drive says that it erases or writes so much at a time.
const BLOCK_BYTES_MAX: u64 = 256 * MIB;
const BLOCK_BYTES_MIN: u64 = 256 * KIB;

/// What is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Formatting {
    /// Bytes of a file that is to be made, or that there is.
    pub size: Option<u64>,
    /// Bytes of a block.
    pub block: Option<u64>,
    /// Bytes of a piece, as the server's setting has it.
    pub piece: u64,
    /// Whether what is recognised is overwritten.
    pub is_forced: bool,
}

/// Makes a tier of a device or a file, and says what it is.
///
/// # Errors
/// Why not; then what is there is what was there.
pub fn format(path: &Path, formatting: &Formatting) -> Result<String, FlashError> {
    let is_there = path.exists();
    let refuse = |text: &str| Trouble::Size(text.to_owned()).of(path);
    if !is_there {
        let size = formatting
            .size
            .ok_or_else(|| refuse("is not there; say --size to make a file"))?;
        // Before there is a file.
        divide(path, size - size % 4096, formatting, None)?;
        make_file(path, size - size % 4096)?;
    }
    let made = format_what_is_there(path, formatting);
    if made.is_err() && !is_there {
        // It was made a moment ago, and nothing is in it.
        let _ = std::fs::remove_file(path);
    }
    made
}

fn format_what_is_there(path: &Path, formatting: &Formatting) -> Result<String, FlashError> {
    let medium = Medium::open(path, Access::Own)?;
    if let Some(size) = formatting.size
        && (medium.is_device || size - size % 4096 != medium.bytes)
    {
        let text = format!(
            "has {} already; leave out --size, or name a file that is not there",
            Bytes(medium.bytes)
        );
        return Err(Trouble::Size(text).of(path));
    }
    let hint = medium.is_device.then(|| hint(path)).flatten();
    let layout = divide(path, medium.bytes, formatting, hint)?;
    let what = recognise(&medium).map_err(|error| medium.error(error))?;
    if let Some(what) = what.filter(|_| !formatting.is_forced) {
        return Err(Trouble::Recognised(what).of(path));
    }
    let reserved = reserve(&medium);
    let tier = Super {
        device: random_id().map_err(|error| medium.error(error))?,
        layout,
    };
    reserved
        .and_then(|()| write_super(&medium, &tier))
        .map_err(|error| medium.error(error))?;
    Ok(format!(
        "{}: a flash tier of {} blocks of {}, for pieces of {}; name it in the configuration: \
         flash = [\"{}\"]\n",
        path.display(),
        layout.block_count(),
        Bytes(layout.block_bytes().into()),
        Bytes(layout.piece_bytes().into()),
        path.display(),
    ))
}

/// The layout that was asked for, or the one with the largest blocks of which there are enough.
fn divide(
    path: &Path,
    bytes: u64,
    formatting: &Formatting,
    hint: Option<u64>,
) -> Result<Layout, FlashError> {
    let wrong = |error| Trouble::Layout(error).of(path);
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

/// The block size that a drive's hint asks for.
fn proposed_block(hint: Option<u64>) -> u64 {
    let whole = hint.map_or(Some(BLOCK_BYTES), u64::checked_next_power_of_two);
    whole
        .unwrap_or(BLOCK_BYTES_MAX)
        .clamp(BLOCK_BYTES, BLOCK_BYTES_MAX)
}

/// What a device says that it erases or writes best at a time, the larger of both; `None` if it does
/// not say.
fn hint(path: &Path) -> Option<u64> {
    let device = std::fs::metadata(path).ok()?.rdev();
    let place = format!("/sys/dev/block/{}:{}", major(device), minor(device));
    // A partition has what its disk has.
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
    let refuse = |error: io::Error| Trouble::Open(error).of(path);
    let mut options = OpenOptions::new();
    let file = options
        .write(true)
        .create_new(true)
        .open(path)
        .map_err(refuse)?;
    let room = fallocate(&file, FallocateFlags::empty(), 0, size);
    room.map_err(|errno| {
        let _ = std::fs::remove_file(path);
        let size = Bytes(size);
        let text =
            format!("there is no room for {size}: {errno}; make room, or say a smaller --size");
        Trouble::Size(text).of(path)
    })
}

/// Room for all of a file that has holes, so that no write finds the file system full.
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

fn write_super(medium: &Medium, tier: &Super) -> io::Result<()> {
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

/// What is on a tier, whoever has it.
///
/// # Errors
/// If it is none, or cannot be read.
pub fn status(path: &Path) -> Result<String, FlashError> {
    let medium = Medium::open(path, Access::Look)?;
    let tier = medium.super_record()?;
    let summaries = look_at_all(&medium, &tier, 0..tier.layout.block_count());
    let entries = summaries.iter().flat_map(|summary| &summary.entries);
    let (records, bytes) = entries.fold((0_u64, 0_u64), |(records, bytes), entry| {
        (records + 1, bytes + u64::from(entry.length))
    });
    let mut text = String::new();
    // Writing to a String cannot fail.
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

/// Reads every record of a tier that no server has; what was found, and whether all of it is right.
///
/// # Errors
/// If it is none, is in use, or cannot be read.
pub fn verify(path: &Path) -> Result<(String, bool), FlashError> {
    let medium = Medium::open(path, Access::Own)?;
    let tier = medium.super_record()?;
    let summaries = look_at_all(&medium, &tier, 0..tier.layout.block_count());
    let (mut right, mut wrong) = (0_u64, 0_u64);
    for summary in &summaries {
        let (good, bad) = verify_block(&tier, summary, medium.reader());
        right += u64::from(good);
        wrong += u64::from(bad);
    }
    let text = format!(
        "{}: {} sealed blocks, {right} records are right, {wrong} are damaged\n",
        path.display(),
        summaries.len()
    );
    Ok((text, wrong == 0))
}

/// Takes a tier away: what was a tier is free for anything then.
///
/// # Errors
/// If it is none, is in use, or cannot be written.
pub fn drop_tier(path: &Path) -> Result<String, FlashError> {
    let medium = Medium::open(path, Access::Own)?;
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
    Ok(format!(
        "{}: no flash tier any more; {what}\n",
        path.display()
    ))
}

#[cfg(test)]
#[path = "manage_tests.rs"]
mod tests;
