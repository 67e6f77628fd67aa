//! An open SSD: a raw device or a file, with direct I/O, locked for this process.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek as _, SeekFrom};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use headlong_flash::RECORD_ALIGN_BYTES;
use headlong_flash::format::{ReadFailed, SUPER_BYTES, SUPER_COPIES, SuperRecord};
use headlong_units::Bytes;
use rustix::fs::{
    Access as Rights, FallocateFlags, FlockOperation, OFlags, access, fallocate, flock,
};
use rustix::io::Errno;

use super::aligned_bytes::AlignedBytes;
use super::error::{FlashError, FlashErrorKind};

/// Access mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AccessMode {
    /// Read-only, without a lock.
    Look,
    /// Read and write, exclusively.
    Own,
}

/// I/O counters of an SSD since the start.
#[derive(Debug, Default)]
pub(crate) struct SsdCounters {
    pub(crate) bytes_read: AtomicU64,
    pub(crate) bytes_written: AtomicU64,
    pub(crate) errors: AtomicU64,
}

/// An open SSD.
#[derive(Debug)]
pub(super) struct Medium {
    pub(super) path: PathBuf,
    /// Replaced when a removed device returns.
    file: RwLock<Arc<File>>,
    pub(super) bytes: u64,
    pub(super) is_device: bool,
    /// Whether the device does not support discards.
    keeps_all: AtomicBool,
}

impl Medium {
    pub(super) fn open(path: &Path, access: AccessMode) -> Result<Self, FlashError> {
        let refuse = |error| FlashErrorKind::Open(error).of(path);
        let kind = std::fs::metadata(path).map_err(refuse)?.file_type();
        let is_device = kind.is_block_device();
        if !is_device && !kind.is_file() {
            return Err(FlashErrorKind::Kind.of(path));
        }
        let own = access == AccessMode::Own;
        let mut flags = OFlags::DIRECT | OFlags::NONBLOCK;
        // Mounts, RAID and LVM hold their devices exclusively.
        if own && is_device {
            flags |= OFlags::EXCL;
        }
        let open = |flags: OFlags| {
            let flags = flags.bits().cast_signed();
            let mut options = OpenOptions::new();
            options.read(true).write(own).custom_flags(flags).open(path)
        };
        let opened = match open(flags) {
            // The file system does not support direct I/O.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::INVAL) => {
                open(flags - OFlags::DIRECT)
            }
            other => other,
        };
        let in_use = || FlashErrorKind::InUse.of(path);
        let mut file = match opened {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::BUSY) => return Err(in_use()),
            other => other.map_err(refuse)?,
        };
        if own {
            flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(
                |errno| match errno {
                    Errno::WOULDBLOCK => in_use(),
                    other => refuse(other.into()),
                },
            )?;
        }
        let bytes = file.seek(SeekFrom::End(0)).map_err(refuse)?;
        Ok(Self {
            path: path.to_path_buf(),
            file: RwLock::new(Arc::new(file)),
            bytes,
            is_device,
            keeps_all: AtomicBool::new(false),
        })
    }

    pub(super) fn file(&self) -> Arc<File> {
        let file = self.file.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&file)
    }

    /// Whether the SSD holds this tier.
    pub(super) fn has(&self, tier: &SuperRecord) -> io::Result<bool> {
        let mut last = Ok(false);
        for at in SUPER_COPIES {
            let mut copy = [0; SUPER_BYTES];
            match self.read(at, &mut copy) {
                Ok(()) if SuperRecord::decode(&copy, self.bytes).as_ref() == Ok(tier) => {
                    return Ok(true);
                }
                Ok(()) => {}
                Err(error) => last = Err(error),
            }
        }
        last
    }

    /// Reopens the SSD if it still holds this tier: a device that was removed and returns is a new
    /// one to the kernel.
    pub(super) fn reopen(&self, tier: &SuperRecord) -> bool {
        let opened = Self::open(&self.path, AccessMode::Own).ok();
        let Some(opened) = opened.filter(|opened| matches!(opened.has(tier), Ok(true))) else {
            return false;
        };
        let mut file = self.file.write().unwrap_or_else(PoisonError::into_inner);
        *file = opened.file();
        true
    }

    pub(super) fn error(&self, error: io::Error) -> FlashError {
        FlashErrorKind::Io(error).of(&self.path)
    }

    /// Reads through an aligned buffer, so that `into` need not be aligned.
    pub(super) fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        let mut buffer = AlignedBytes::new(into.len());
        self.file().read_exact_at(buffer.as_mut(), at)?;
        into.copy_from_slice(&buffer.as_ref()[..into.len()]);
        Ok(())
    }

    /// As `read`, in the form the format needs, with one buffer for many reads.
    pub(super) fn reader(&self) -> impl FnMut(u64, &mut [u8]) -> Result<(), ReadFailed> + '_ {
        let mut buffer = AlignedBytes::new(0);
        move |at, into| {
            if buffer.as_ref().len() < into.len() {
                buffer = AlignedBytes::new(into.len());
            }
            let length = into.len().next_multiple_of(RECORD_ALIGN_BYTES as usize);
            let part = &mut buffer.as_mut()[..length];
            let read = self.file().read_exact_at(part, at);
            read.map_err(|_| ReadFailed)?;
            into.copy_from_slice(&part[..into.len()]);
            Ok(())
        }
    }

    /// Tells a device that a range is no longer needed, if it supports that; a file keeps its
    /// space.
    pub(super) fn discard(&self, at: u64, bytes: u64) {
        if !self.is_device || self.keeps_all.load(Ordering::Relaxed) {
            return;
        }
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if let Err(error) = fallocate(self.file(), how, at, bytes) {
            self.keeps_all.store(true, Ordering::Relaxed);
            tracing::debug!(ssd = %self.path.display(), %error, "ssd does not support discard");
        }
    }

    /// Writes and counts.
    pub(super) fn write_counted(
        &self,
        counters: &SsdCounters,
        at: u64,
        bytes: &AlignedBytes,
    ) -> io::Result<()> {
        let written = self.file().write_all_at(bytes.as_ref(), at);
        counted(written, self, counters, "writing flash")?;
        let length = bytes.as_ref().len() as u64;
        counters.bytes_written.fetch_add(length, Ordering::Relaxed);
        Ok(())
    }

    /// Writes bytes, padded with zeros to the alignment.
    pub(super) fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file()
            .write_all_at(AlignedBytes::of(bytes).as_ref(), at)
    }

    pub(super) fn super_record(&self) -> Result<SuperRecord, FlashError> {
        let mut copies = [[0; SUPER_BYTES]; 2];
        for (copy, at) in copies.iter_mut().zip(SUPER_COPIES) {
            let fits = at + SUPER_BYTES as u64 <= self.bytes;
            // An unreadable copy is tolerated: that is what the second one is for.
            if fits && let Err(error) = self.read(at, copy) {
                tracing::warn!(ssd = %self.path.display(), %error, "super record cannot be read");
            }
        }
        let [first, second] = &copies;
        let tier = SuperRecord::of_copies([first, second], self.bytes);
        tier.map_err(|error| FlashErrorKind::Super(error).of(&self.path))
    }
}

/// Counts an error and logs it.
pub(super) fn counted<T>(
    result: io::Result<T>,
    medium: &Medium,
    counters: &SsdCounters,
    what: &str,
) -> io::Result<T> {
    if let Err(error) = &result {
        // Log one in 1000 errors.
        if counters
            .errors
            .fetch_add(1, Ordering::Relaxed)
            .is_multiple_of(1000)
        {
            tracing::warn!(ssd = %medium.path.display(), %error, "{what} failed");
        }
    }
    result
}

/// Checks the SSDs of a configuration for `disks` disks, without taking them. Returns the errors
/// found.
pub fn check_ssds(paths: &[PathBuf], piece_bytes: u64, disks: usize) -> Vec<FlashError> {
    let mut errors = Vec::new();
    let mut first = None;
    let mut seen = Vec::new();
    for path in paths {
        let looked = Medium::open(path, AccessMode::Look).and_then(|medium| medium.super_record());
        let looked = looked.and_then(|tier| may_write(path).map(|()| tier));
        let tier = match looked {
            Ok(looked) => looked,
            Err(error) => {
                errors.push(error);
                continue;
            }
        };
        let few = too_few(path, &tier, disks);
        errors.extend(few.or_else(|| misfit(path, &tier, piece_bytes, &mut first, &mut seen)));
    }
    errors
}

/// Whether the server may write to it. Does not open it, because a running server may hold it.
fn may_write(path: &Path) -> Result<(), FlashError> {
    access(path, Rights::WRITE_OK).map_err(|errno| FlashErrorKind::Open(errno.into()).of(path))
}

/// Whether an SSD has fewer blocks than there are disks.
pub(super) fn too_few(path: &Path, tier: &SuperRecord, disks: usize) -> Option<FlashError> {
    let blocks = tier.layout.block_count();
    ((blocks as usize) < disks).then(|| FlashErrorKind::Disks { blocks, disks }.of(path))
}

/// Checks an SSD against the ones before it.
pub(super) fn misfit(
    path: &Path,
    tier: &SuperRecord,
    piece_bytes: u64,
    first: &mut Option<u64>,
    seen: &mut Vec<u128>,
) -> Option<FlashError> {
    let (was, block) = (tier.layout.piece_bytes(), tier.layout.block_bytes());
    let (was, is) = (u64::from(was), u64::from(block));
    if seen.contains(&tier.device) {
        return Some(FlashErrorKind::Twice.of(path));
    }
    seen.push(tier.device);
    if was != piece_bytes {
        let (was, is) = (Bytes(was), Bytes(piece_bytes));
        return Some(FlashErrorKind::Piece { was, is }.of(path));
    }
    let first = *first.get_or_insert(is);
    let (is, first) = (Bytes(is), Bytes(first));
    (is != first).then(|| FlashErrorKind::Block { is, first }.of(path))
}
