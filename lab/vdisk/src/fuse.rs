//! The FUSE side: a root directory with one file; reads and writes of it go to the actuator.

use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request, WriteFlags,
};

use rustix::fs::FallocateFlags;

use crate::actuator::Actuator;

/// Name of the one file.
pub(crate) const FILE_NAME: &str = "disk";
const FILE: INodeNo = INodeNo(2);
/// Attributes never change.
const ATTRIBUTES_VALID: Duration = Duration::from_secs(3_600);
/// Largest request: 256 pages, the maximum of this protocol without a system setting.
const REQUEST_BYTES_MAX: u32 = 1 << 20;

pub(crate) struct SingleFileSystem {
    pub(crate) actuator: Arc<Actuator>,
    pub(crate) size_bytes: u64,
}

impl SingleFileSystem {
    fn attributes(&self, inode: INodeNo) -> Option<FileAttr> {
        let (kind, size, perm) = match inode {
            INodeNo::ROOT => (FileType::Directory, 0, 0o755),
            FILE => (FileType::RegularFile, self.size_bytes, 0o644),
            _ => return None,
        };
        Some(FileAttr {
            ino: inode,
            size,
            blocks: size.div_ceil(512),
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }
}

impl Filesystem for SingleFileSystem {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Direct requests are passed on without waiting for each other, so that the trace shows the
        // caller's outstanding requests and not the kernel's limit.
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        // Each of these returns the nearest allowed value on error, which is acceptable.
        let _ = config.set_max_write(REQUEST_BYTES_MAX);
        let _ = config.set_max_readahead(REQUEST_BYTES_MAX);
        let _ = config.set_max_background(1_024);
        let _ = config.set_congestion_threshold(1_024);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.attributes(FILE) {
            Some(attributes) if parent == INodeNo::ROOT && name == FILE_NAME => {
                reply.entry(&ATTRIBUTES_VALID, &attributes, Generation(0));
            }
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        match self.attributes(inode) {
            Some(attributes) => reply.attr(&ATTRIBUTES_VALID, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _request: &Request, _inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        // The page cache above this file would hide reads from the drive.
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let left = self.size_bytes.saturating_sub(offset);
        let length = u64::from(size).min(left) as u32;
        if length == 0 {
            return reply.data(&[]);
        }
        self.actuator.read(offset, length, reply);
    }

    fn write(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        if offset.saturating_add(data.len() as u64) > self.size_bytes {
            return reply.error(Errno::ENOSPC);
        }
        self.actuator.write(offset, data, reply);
    }

    fn flush(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        _owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        reply.ok();
    }

    fn fsync(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        _data_only: bool,
        reply: ReplyEmpty,
    ) {
        // Every write was answered after it took effect: there is nothing to flush.
        reply.ok();
    }

    fn fallocate(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let mode = FallocateFlags::from_bits_retain(mode as u32);
        // All of the disk's space exists.
        if mode.is_empty() && offset.saturating_add(length) <= self.size_bytes {
            return reply.ok();
        }
        // Zeroing is a shortcut for mkfs; no other mode is needed.
        if !mode.intersects(FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE) {
            return reply.error(Errno::EOPNOTSUPP);
        }
        match self.actuator.zero(offset, length) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn readdir(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let entries = [
            (INodeNo::ROOT, FileType::Directory, "."),
            (INodeNo::ROOT, FileType::Directory, ".."),
            (FILE, FileType::RegularFile, FILE_NAME),
        ];
        for (index, (inode, kind, name)) in entries.into_iter().enumerate().skip(offset as usize) {
            if reply.add(inode, index as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }
}
