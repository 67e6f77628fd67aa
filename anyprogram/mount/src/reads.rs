//! Reads of programs: through the engine of their disk, or directly.
//!
//! Data in memory is returned on the thread that received the request; disk reads complete
//! elsewhere. The bytes of one reply belong to one version: engine streams guarantee this, and
//! everything else is read by a single call, as the program's own read would be.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fuser::{Errno, ReplyData};
use headlong_engine::{ConnectionId, Failure, Hints, ReaderIdentity, Refusal, Request, ViewerId};
use headlong_storage::Piece;
use tokio::runtime::Handle;

use crate::open::{FileOpener, OpenFile};
use crate::reply_deadline::{ReplyDeadlines, errno};
use crate::small_file_walks::read_now;
use crate::stream::Stream;

/// One viewer for all programs: chains are distinguished by position, since many programs open a
/// file anew for each range that they read.
const PROGRAMS: ViewerId = ViewerId(0);

/// Context of reads.
pub(crate) struct ReadContext {
    pub(crate) runtime: Handle,
    pub(crate) late: Arc<ReplyDeadlines>,
    pub(crate) opening: Arc<FileOpener>,
    /// How long the attributes of a file are trusted.
    pub(crate) revalidate: Duration,
}

/// One read request of a program.
struct ReadRequest {
    open: Arc<OpenFile>,
    offset: u64,
    size: u32,
    /// Whether the kernel stores the result in its page cache.
    for_pages: bool,
    /// Process id.
    program: u64,
    reply: ReplyData,
}

/// Data from the engine.
enum EngineData {
    Piece(Piece),
    Copied(Vec<u8>),
}

/// Why the engine returned no data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EngineError {
    /// A direct read may succeed, or fails with the same error.
    ReadPlainly,
    /// The disk does not answer: no further thread waits for it.
    Failed,
}

impl ReadContext {
    /// Answers a read, immediately or later.
    pub(crate) fn read(
        self: &Arc<Self>,
        open: Arc<OpenFile>,
        (offset, size, for_pages): (u64, u32, bool),
        program: u64,
        reply: ReplyData,
    ) {
        let known = open.fresh(self.revalidate);
        if let Some(stream) = known {
            let asked = ReadRequest {
                open,
                offset,
                size,
                for_pages,
                program,
                reply,
            };
            return self.read_by(stream, asked);
        }
        let reading = Arc::clone(self);
        let (opening, looked_at) = (Arc::clone(&self.opening), Arc::clone(&open));
        let disk = Arc::clone(&open.disk);
        let look = move || opening.revalidate(&looked_at).map_err(errno);
        self.late
            .run(&disk.names, reply, look, move |reply, stream| {
                let asked = ReadRequest {
                    open,
                    offset,
                    size,
                    for_pages,
                    program,
                    reply,
                };
                reading.read_by(stream, asked);
            });
    }

    fn read_by(self: &Arc<Self>, stream: Option<Arc<Stream>>, asked: ReadRequest) {
        let Some(stream) = stream else {
            return self.read_plainly(asked);
        };
        let left = stream.identity.size.saturating_sub(asked.offset);
        let length = left.min(asked.size.into());
        if length == 0 {
            return asked.reply.data(&[]);
        }
        let (open, reading) = (&asked.open, Arc::clone(self));
        let reader = open.reader;
        let found = move |part: Stream| reading.read_on(part, reader);
        self.opening.look_around(open, asked.offset, &stream, found);
        let request = request(&stream, reader, asked.offset, length);
        let mut fetching = Box::pin(fetch(stream, request));
        let _runtime = self.runtime.enter();
        let mut nobody = Context::from_waker(Waker::noop());
        match pin!(&mut fetching).poll(&mut nobody) {
            Poll::Ready(done) => self.answer(asked, done),
            Poll::Pending => {
                let reading = Arc::clone(self);
                self.runtime.spawn(async move {
                    let done = fetching.await;
                    reading.answer(asked, done);
                });
            }
        }
    }

    /// A file being read on its own was found to be part of a title: reads ahead in the title as if
    /// a viewer had requested the file's last byte.
    fn read_on(self: &Arc<Self>, part: Stream, reader: ConnectionId) {
        let Some(last) = part.identity.size.checked_sub(1) else {
            return;
        };
        let request = request(&part, reader, last, 1);
        self.runtime.spawn(async move {
            // The outcome is ignored: no request depends on it.
            let _ = fetch(Arc::new(part), request).await;
        });
    }

    fn answer(self: &Arc<Self>, asked: ReadRequest, done: Result<EngineData, EngineError>) {
        match done {
            Ok(got) => {
                let bytes = match &got {
                    EngineData::Piece(piece) => piece.as_ref(),
                    EngineData::Copied(bytes) => bytes,
                };
                let end = asked.offset + bytes.len() as u64;
                asked.reply.data(bytes);
                if asked.for_pages {
                    self.opening.handed(&asked.open, asked.offset..end);
                }
            }
            Err(EngineError::Failed) => asked.reply.error(Errno::EIO),
            Err(EngineError::ReadPlainly) => {
                asked.open.distrust();
                self.read_plainly(asked);
            }
        }
    }

    /// Reads directly, on a thread that may block on the disk.
    fn read_plainly(&self, asked: ReadRequest) {
        let ReadRequest {
            open,
            offset,
            size,
            program,
            reply,
            ..
        } = asked;
        let disk = Arc::clone(&open.disk);
        let small_bytes = open.small_bytes();
        let now = small_bytes.and_then(|bytes| read_now(&open.file, offset, size, bytes));
        let is_first = small_bytes.is_some() && offset == 0;
        if let Some(bytes) = now {
            if is_first {
                disk.walk.note_cached_file(program);
            }
            return reply.data(&bytes);
        }
        let for_walk = Arc::clone(&disk);
        let read = move || {
            if is_first {
                for_walk.walk.waits(program, &open.file);
            }
            read_at(&open.file, offset, size as usize).map_err(Errno::from)
        };
        let say = |reply: ReplyData, bytes: Vec<u8>| reply.data(&bytes);
        self.late.run(&disk.reads, reply, read, say);
    }
}

fn request(stream: &Stream, reader: ConnectionId, offset: u64, length: u64) -> Request {
    Request {
        viewer: ReaderIdentity::Unnamed {
            origin: PROGRAMS,
            connection: Some(reader),
        },
        stream: stream.title.id,
        part: stream.part,
        offset,
        length,
        open_ended: false,
        overlap_bytes: 0,
        holder: None,
        hints: Hints::default(),
    }
}

/// Reads through the engine; bytes in a single piece are not copied.
async fn fetch(stream: Arc<Stream>, request: Request) -> Result<EngineData, EngineError> {
    let asked = stream
        .title
        .device
        .request(request, &stream.title.source())
        .await;
    let mut reply = asked.map_err(refused)?;
    let mut copied = Vec::new();
    while let Some(next) = reply.next().await {
        let piece = next.map_err(failed)?;
        if copied.is_empty() {
            if reply.bytes_left() == 0 {
                return Ok(EngineData::Piece(piece));
            }
            copied.reserve_exact(usize::try_from(request.length).unwrap_or(0));
        }
        // Released at once: a held piece occupies the reply's window.
        copied.extend_from_slice(piece.as_ref());
    }
    match copied.len() as u64 == request.length {
        true => Ok(EngineData::Copied(copied)),
        false => Err(EngineError::ReadPlainly),
    }
}

fn refused(refusal: Refusal) -> EngineError {
    match refusal {
        Refusal::Offline { .. } => EngineError::Failed,
        Refusal::Overloaded { .. }
        | Refusal::Full
        | Refusal::UnknownStream
        | Refusal::OutOfBounds => EngineError::ReadPlainly,
    }
}

fn failed(failure: Failure) -> EngineError {
    match failure {
        Failure::TimedOut | Failure::Offline => EngineError::Failed,
        // The bad sector may lie outside the requested range.
        Failure::Device | Failure::Changed | Failure::NoResources => EngineError::ReadPlainly,
    }
}

/// Up to `size` bytes, fewer at the end of the file.
fn read_at(file: &File, offset: u64, size: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; size];
    let mut length = 0;
    while length < size {
        match file.read_at(&mut bytes[length..], offset + length as u64) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            // Bytes read before the error are returned, as by any read.
            Err(_) if length > 0 => break,
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(length);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unresponsive_disk_fails_and_other_errors_are_reread() {
        let retry_after = headlong_units::Duration::ZERO;
        assert_eq!(
            refused(Refusal::Offline { retry_after }),
            EngineError::Failed
        );
        assert_eq!(refused(Refusal::Full), EngineError::ReadPlainly);
        assert_eq!(failed(Failure::TimedOut), EngineError::Failed);
        assert_eq!(failed(Failure::Changed), EngineError::ReadPlainly);
        assert_eq!(failed(Failure::Device), EngineError::ReadPlainly);
    }

    #[test]
    fn direct_read_ends_at_end_of_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        std::fs::write(&path, "0123456789").expect("written");
        let file = File::open(&path).expect("there");
        assert_eq!(read_at(&file, 8, 5).expect("read"), b"89");
        assert_eq!(read_at(&file, 20, 5).expect("read"), b"");
        let folder = File::open(folder.path()).expect("there");
        assert!(read_at(&folder, 0, 5).is_err());
    }
}
