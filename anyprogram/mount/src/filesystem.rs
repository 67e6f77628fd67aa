//! The FUSE request handlers.
//!
//! Requests for data in memory are answered on the thread that received them; all others run on
//! threads of the disk that they need (`reply_deadline.rs`).

use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use fuser::{
    Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, IoctlFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyXattr, Request,
};
use rustix::fs::{SeekFrom, readlinkat, seek};

use crate::attributes::{Attributes, attributes};
use crate::disks::{Disks, FileSystemEngine};
use crate::extended_attributes;
use crate::folder::{FolderEntry, OpenFolder};
use crate::handles::Handles;
use crate::node_access::NodeAccess;
use crate::nodes::{LookupGuard, Nodes, ROOT};
use crate::open::{FileOpener, OpenFile};
use crate::reads::ReadContext;
use crate::reply_deadline::{ReplyDeadlines, errno};
use crate::status::StatusSources;
use crate::tree::Tree;

/// Largest read request of the kernel: 256 pages, the limit without a sysctl.
pub(crate) const READ_BYTES_MAX: u32 = 1 << 20;
/// Readahead requests of the kernel in flight, for all files together.
const BACKGROUND_MAX: u16 = 4096;

/// How long the kernel may cache entries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caching {
    /// Names and attributes.
    pub(crate) revalidate: Duration,
}

/// The file system.
pub(crate) struct HeadlongFilesystem {
    pub(crate) tree: Arc<Tree>,
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) disks: Arc<Disks>,
    pub(crate) late: Arc<ReplyDeadlines>,
    pub(crate) opening: Arc<FileOpener>,
    pub(crate) reading: Arc<ReadContext>,
    pub(crate) files: Arc<Handles<OpenFile>>,
    pub(crate) folders: Arc<Handles<OpenFolder>>,
    pub(crate) status: Arc<StatusSources>,
    pub(crate) caching: Caching,
}

type Result<T> = std::result::Result<T, Errno>;

impl HeadlongFilesystem {
    fn reach(&self, node: INodeNo) -> NodeAccess {
        NodeAccess {
            tree: Arc::clone(&self.tree),
            nodes: Arc::clone(&self.nodes),
            number: node.0,
        }
    }

    /// The file system whose threads may block on a node.
    fn disk(&self, node: INodeNo) -> Arc<FileSystemEngine> {
        let dev = self.nodes.find(node.0).map(|known| known.key.dev);
        self.disks.engine_of(dev.unwrap_or(0))
    }

    /// Runs `work` on a node's file, and then `say` with the result.
    fn about<R: crate::reply_deadline::ErrorReply, T>(
        &self,
        node: INodeNo,
        reply: R,
        work: impl FnOnce(NodeAccess) -> Result<T> + Send + 'static,
        say: impl FnOnce(R, T) + Send + 'static,
    ) {
        let reach = self.reach(node);
        let threads = self.disk(node);
        self.late
            .run(&threads.names, reply, move || work(reach), say);
    }
}

impl Filesystem for HeadlongFilesystem {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let wanted = [
            // Drops pages of the previous version when attributes show a change.
            InitFlags::FUSE_AUTO_INVAL_DATA,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_ASYNC_DIO,
            // The kernel reads ACLs and enforces them.
            InitFlags::FUSE_POSIX_ACL,
            InitFlags::FUSE_CACHE_SYMLINKS,
            InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
            // No node is found again by its number once the kernel has forgotten it, so no handle
            // of a file is given out.
            InitFlags::FUSE_NO_EXPORT_SUPPORT,
        ];
        for flag in wanted {
            if config.add_capabilities(flag).is_err() {
                tracing::info!(
                    ?flag,
                    "the kernel does not support this FUSE feature; continuing without it"
                );
                if flag == InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP {
                    self.opening.manners.maps_need_pages();
                }
            }
        }
        // Each of these fails with the nearest allowed value, which is as good.
        let _ = config.set_max_write(READ_BYTES_MAX);
        let _ = config.set_max_readahead(READ_BYTES_MAX);
        let _ = config.set_max_background(BACKGROUND_MAX);
        let _ = config.set_congestion_threshold(BACKGROUND_MAX);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let (nodes, late) = (Arc::clone(&self.nodes), Arc::clone(&self.late));
        let (disks, others) = (Arc::clone(&self.disks), Arc::clone(&self.disks));
        let (name, ttl) = (name.to_owned(), self.caching.revalidate);
        let asked = name.clone();
        let look = move |reach: NodeAccess| {
            let named = reach.named(&asked)?;
            if named.found.is_some() {
                disks.meet(&named.file, named.dev);
            }
            Ok(named)
        };
        let say = move |reply: ReplyEntry, found: Attributes| {
            let number = nodes.met(parent.0, &name, &found);
            reply.entry(&ttl, &found.shown(number), Generation(0));
        };
        self.about(parent, reply, look, move |reply, named| {
            if let Some(found) = named.found {
                return say(reply, found);
            }
            // Queried on threads of its own.
            let threads = others.engine_of(named.dev);
            let ask = move || {
                others.meet(&named.file, named.dev);
                attributes(&named.file).map_err(errno)
            };
            late.run(&threads.names, reply, ask, say);
        });
    }

    fn forget(&self, _request: &Request, node: INodeNo, times: u64) {
        self.nodes.forget(node.0, times);
    }

    fn getattr(
        &self,
        _request: &Request,
        node: INodeNo,
        _handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        let ttl = self.caching.revalidate;
        let look = |reach: NodeAccess| reach.attributes();
        self.about(node, reply, look, move |reply, found| {
            let shown = match node.0 {
                // The kernel has its own number for the root, and need not show this one.
                ROOT => found.shown(found.key.ino),
                number => found.shown(number),
            };
            reply.attr(&ttl, &shown);
        });
    }

    fn readlink(&self, _request: &Request, node: INodeNo, reply: ReplyData) {
        let read = |reach: NodeAccess| {
            let link = reach.open_path()?;
            let target = readlinkat(&*link, "", Vec::new()).map_err(errno)?;
            Ok(target.into_bytes())
        };
        self.about(node, reply, read, |reply, target| reply.data(&target));
    }

    fn open(&self, request: &Request, node: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let (disks, opening) = (Arc::clone(&self.disks), Arc::clone(&self.opening));
        let (files, thread) = (Arc::clone(&self.files), request.pid());
        let open = move |reach: NodeAccess| {
            let (file, found, path) = reach.open(Tree::open_file)?;
            let disk = disks.meet(&file, found.key.dev);
            let opened = opening.open(node.0, path, file, disk, thread);
            let (open, identity) = opened.map_err(errno)?;
            let mut flags = FopenFlags::empty();
            // Direct I/O leaves the pages of `sendfile` and of other programs as they are.
            let keeps_pages = reach.nodes.keeps_pages(node.0, &identity);
            flags.set(FopenFlags::FOPEN_KEEP_CACHE, keeps_pages);
            flags.set(FopenFlags::FOPEN_DIRECT_IO, open.manner.is_direct);
            Ok((open, flags))
        };
        self.about(node, reply, open, move |reply, (open, flags)| {
            reply.opened(FileHandle(files.add(open)), flags);
        });
    }

    fn read(
        &self,
        request: &Request,
        _node: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.files.get(handle.0) {
            Some(open) => {
                // Reads for the page cache carry no lock owner.
                let for_pages = owner.is_none();
                self.opening.manners.asked(&open.manner, for_pages, size);
                let program = u64::from(request.pid());
                let place = (offset, size, for_pages);
                self.reading.read(open, place, program, reply);
            }
            None => reply.error(Errno::EBADF),
        }
    }

    fn flush(
        &self,
        _request: &Request,
        _node: INodeNo,
        _handle: FileHandle,
        _owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        // Nothing is ever written. The kernel stops sending flushes after this error.
        reply.error(Errno::ENOSYS);
    }

    fn ioctl(
        &self,
        _request: &Request,
        _node: INodeNo,
        _handle: FileHandle,
        _flags: IoctlFlags,
        _command: u32,
        _input: &[u8],
        _output_size: u32,
        reply: ReplyIoctl,
    ) {
        // There are no attributes or settings to query this way (`lsattr` tries).
        reply.error(Errno::ENOTTY);
    }

    fn release(
        &self,
        _request: &Request,
        _node: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        let open = self.files.remove(handle.0);
        reply.ok();
        if let Some(open) = open {
            self.opening.closed(&open);
            // Closing may block on the disk.
            let disk = Arc::clone(&open.disk);
            disk.names.run(move || drop(open));
        }
    }

    fn lseek(
        &self,
        _request: &Request,
        node: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let Some(open) = self.files.get(handle.0) else {
            return reply.error(Errno::EBADF);
        };
        let find = move |_: NodeAccess| {
            let offset = u64::try_from(offset).map_err(|_| Errno::ENXIO)?;
            // The kernel handles the other cases itself. The position of our descriptor is not
            // used.
            let place = match whence {
                SEEK_DATA => SeekFrom::Data(offset),
                SEEK_HOLE => SeekFrom::Hole(offset),
                _ => return Err(Errno::EINVAL),
            };
            let found = seek(&*open.file, place).map_err(errno)?;
            i64::try_from(found).map_err(|_| Errno::EOVERFLOW)
        };
        self.about(node, reply, find, |reply, found| reply.offset(found));
    }

    fn opendir(&self, _request: &Request, node: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let folders = Arc::clone(&self.folders);
        let open = move |reach: NodeAccess| {
            let (file, found, _) = reach.open(Tree::open_folder)?;
            let identity = found.identity.settling(FOLDER_SETTLE);
            let keep = match reach.nodes.keeps_pages(node.0, &identity) {
                true => FopenFlags::FOPEN_KEEP_CACHE,
                false => FopenFlags::empty(),
            };
            let folder = OpenFolder::new(node.0, found.key.dev, file);
            Ok((folder, FopenFlags::FOPEN_CACHE_DIR | keep))
        };
        self.about(node, reply, open, move |reply, (folder, flags)| {
            reply.opened(FileHandle(folders.add(folder)), flags);
        });
    }

    fn readdir(
        &self,
        _request: &Request,
        node: INodeNo,
        handle: FileHandle,
        offset: u64,
        reply: ReplyDirectory,
    ) {
        let list = self.list(handle, offset, false);
        self.about(node, reply, list, |mut reply, entries| {
            for entry in entries {
                let number = INodeNo(entry.number);
                if reply.add(number, entry.next, entry.kind, &entry.name) {
                    break;
                }
            }
            reply.ok();
        });
    }

    fn readdirplus(
        &self,
        _request: &Request,
        node: INodeNo,
        handle: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        let (list, ttl) = (self.list(handle, offset, true), self.caching.revalidate);
        self.about(node, reply, list, move |mut reply, entries| {
            let mut told = Vec::new();
            for entry in entries {
                let Some((found, node)) = entry.found else {
                    continue;
                };
                let number = INodeNo(entry.number);
                let ttl = if entry.is_sure { ttl } else { Duration::ZERO };
                let is_full =
                    reply.add(number, entry.next, &entry.name, &ttl, &found, Generation(0));
                if is_full {
                    break;
                }
                told.extend(node);
            }
            reply.ok();
            told.into_iter().for_each(LookupGuard::confirm);
        });
    }

    fn releasedir(
        &self,
        _request: &Request,
        node: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        let open = self.folders.remove(handle.0);
        reply.ok();
        self.disk(node).names.run(move || drop(open));
    }

    fn statfs(&self, _request: &Request, _node: INodeNo, reply: ReplyStatfs) {
        let look = |reach: NodeAccess| reach.tree.room().map_err(errno);
        self.about(INodeNo(ROOT), reply, look, |reply, room| {
            let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
            reply.statfs(
                room.f_blocks,
                room.f_bfree,
                room.f_bavail,
                room.f_files,
                room.f_ffree,
                small(room.f_bsize),
                small(room.f_namemax),
                small(room.f_frsize),
            );
        });
    }

    fn getxattr(
        &self,
        _request: &Request,
        node: INodeNo,
        name: &OsStr,
        size: u32,
        reply: ReplyXattr,
    ) {
        if node.0 == ROOT && name == crate::status::ATTRIBUTE {
            return self.status.answer(size, reply);
        }
        let name = name.to_owned();
        let read = move |reach: NodeAccess| {
            extended_attributes::value(&*reach.open_path()?, &name).map_err(errno)
        };
        self.about(node, reply, read, move |reply, value| {
            extended_attributes::answer(reply, size, &value);
        });
    }

    fn listxattr(&self, request: &Request, node: INodeNo, size: u32, reply: ReplyXattr) {
        let is_root = request.uid() == 0;
        let read = move |reach: NodeAccess| {
            extended_attributes::names(&*reach.open_path()?, is_root).map_err(errno)
        };
        self.about(node, reply, read, move |reply, names| {
            extended_attributes::answer(reply, size, &names);
        });
    }
}

impl HeadlongFilesystem {
    /// Lists an open folder.
    fn list(
        &self,
        handle: FileHandle,
        offset: u64,
        plus: bool,
    ) -> impl FnOnce(NodeAccess) -> Result<Vec<FolderEntry>> + Send + use<> {
        let folder = self.folders.get(handle.0);
        move |reach| {
            let folder = folder.ok_or(Errno::EBADF)?;
            let listed = folder.list(&reach.nodes, offset, LISTED_BYTES, plus);
            listed.map_err(errno)
        }
    }
}

const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;
/// The kernel requests at least a page at a time; `fuser` does not expose the exact size. Entries
/// that do not fit are listed again.
const LISTED_BYTES: usize = 4096;
/// As for files (`open.rs`), plus a second for the kernel's own clock granularity.
const FOLDER_SETTLE: Duration = Duration::from_secs(3);
