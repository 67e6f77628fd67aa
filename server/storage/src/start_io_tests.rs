//! Tests of both I/O interfaces on real files.

use std::collections::HashMap;
use std::fs::File;
use std::io::PipeWriter;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use headlong_device::{FileRead, IoFailure, OpenJob, ReadJob};
use headlong_engine::{PartSpec, ReadCommand, ReadId, ReadOutcome, Slot, StreamId, StreamSpec};
use headlong_kernel::raw::{Lease, Pool};
use headlong_units::MIB;

use super::*;
use crate::StreamSource;
use crate::completion::Completion;
use crate::disk_read::DiskRead;
use crate::mailbox::{Mailbox, Waker};
use crate::opener::{Opener, THREADS_MAX};
use crate::rig::{FileSource, ScratchDir, noise};

const PIECE: u64 = 4096;
const MODES: [IoMode; 2] = [IoMode::IoUring, IoMode::Pread];

/// A read whose file is not open yet.
struct PendingOpen {
    memory: Arc<Lease>,
    job: ReadJob,
    source: Arc<dyn StreamSource>,
}

/// A device without a core: every read opens its file; refused direct reads are repeated buffered.
struct StartIoRig {
    io: Box<dyn DiskIo>,
    pool: Arc<Pool>,
    opener: Arc<Opener>,
    completions: Arc<Mailbox<Completion>>,
    pending: Vec<PendingOpen>,
    is_direct: bool,
    reads: u64,
}

impl StartIoRig {
    fn new(mode: IoMode, slot_count: u32) -> Self {
        let parts = parts();
        let (opener, completions) = (Arc::clone(&parts.opener), Arc::clone(&parts.completions));
        Self {
            io: start_io(mode, 4, parts).expect("starts"),
            pool: Pool::new(slot_count, PIECE as usize).expect("maps"),
            opener,
            completions,
            pending: Vec::new(),
            is_direct: true,
            reads: 0,
        }
    }

    fn submit(
        &mut self,
        source: &Arc<dyn StreamSource>,
        (offset, length): (u64, u64),
        slots: impl IntoIterator<Item = u32>,
    ) -> ReadId {
        let slots: Vec<Slot> = slots.into_iter().map(Slot).collect();
        let id = ReadId(self.reads);
        self.reads += 1;
        let memory = Arc::new(self.pool.lease(&slots).expect("free slots"));
        let job = ReadJob::new(&ReadCommand {
            id,
            stream: source.spec().id,
            part: 0,
            offset,
            length,
            slots,
        });
        let source = Arc::clone(source);
        self.open(PendingOpen {
            memory,
            job,
            source,
        });
        id
    }

    fn open(&mut self, pending: PendingOpen) {
        let job = OpenJob {
            id: pending.job.file,
            source: Arc::clone(&pending.source),
            is_direct: self.is_direct,
        };
        self.opener.open(job, &self.completions);
        self.pending.push(pending);
    }

    /// Waits once and handles the completions.
    fn turn(&mut self, timeout: Option<Duration>, ended: &mut HashMap<ReadId, ReadOutcome>) {
        let mut completions = Vec::new();
        self.io.wait(timeout, &mut completions).expect("waits");
        for completion in completions {
            match completion {
                Completion::Ended(end) => {
                    ended.insert(end.id, end.outcome);
                }
                Completion::Refused(read) => {
                    self.is_direct = false;
                    let FileRead {
                        memory,
                        job,
                        source,
                        ..
                    } = read;
                    self.open(PendingOpen {
                        memory,
                        job,
                        source,
                    });
                }
                Completion::Located(..) => panic!("no look-up was started"),
                Completion::Opened(id, opened) => {
                    let place = self.pending.iter().position(|of| of.job.file == id);
                    let mut of = self.pending.remove(place.expect("read is pending"));
                    match opened {
                        Ok(opened) if opened.is_current => {
                            of.job.begin(self.is_direct);
                            let read = FileRead {
                                memory: of.memory,
                                job: of.job,
                                file: opened.file,
                                source: of.source,
                            };
                            self.io.submit(DiskRead::new(read, &self.completions));
                        }
                        Ok(_) => drop(ended.insert(of.job.id, ReadOutcome::Changed)),
                        Err(IoFailure::Refused) if self.is_direct => {
                            self.is_direct = false;
                            self.open(of);
                        }
                        Err(failure) => drop(ended.insert(of.job.id, failure.outcome())),
                    }
                }
            }
        }
    }

    fn outcomes(&mut self, count: usize) -> HashMap<ReadId, ReadOutcome> {
        let mut ended = HashMap::new();
        while ended.len() < count {
            self.turn(None, &mut ended);
        }
        assert_eq!(ended.len(), count);
        ended
    }

    fn read(
        &mut self,
        source: &Arc<dyn StreamSource>,
        span: (u64, u64),
        slots: impl IntoIterator<Item = u32>,
    ) -> ReadOutcome {
        let id = self.submit(source, span, slots);
        self.outcomes(1)[&id]
    }

    /// The bytes in these slots, which must be free.
    fn bytes(&self, slots: impl IntoIterator<Item = u32>, length: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for slot in slots {
            let view = self.pool.view(Slot(slot), 0, PIECE as u32).expect("filled");
            bytes.extend_from_slice(view.as_ref());
        }
        bytes.truncate(length as usize);
        bytes
    }
}

fn source_of(path: std::path::PathBuf) -> Arc<dyn StreamSource> {
    Arc::new(FileSource::new(1, [path]))
}

/// A source of one part with an open function provided by the test.
struct ClosureSource<F>(F);

impl<F: Fn() -> io::Result<File> + Send + Sync> StreamSource for ClosureSource<F> {
    fn spec(&self) -> StreamSpec {
        StreamSpec {
            id: StreamId(99),
            parts: vec![PartSpec {
                size_bytes: MIB,
                extents: Vec::new(),
                flash_key: None,
                is_absent: false,
            }],
            bit_rate: None,
        }
    }

    fn open(&self, _part: u32, _direct: bool) -> io::Result<File> {
        (self.0)()
    }

    fn unchanged(&self, _part: u32, _file: &File) -> bool {
        true
    }
}

#[test]
fn bytes_land_in_their_slots_and_last_read_ends_at_file_end() {
    let scratch = ScratchDir::new();
    let bytes = noise(1, 64 * 4096 + 777);
    let path = scratch.file("film", &bytes);
    for mode in MODES {
        for refusing in [false, true] {
            let source = FileSource::new(1, [path.clone()]);
            let source: Arc<dyn StreamSource> = match refusing {
                true => Arc::new(source.refusing_direct()),
                false => Arc::new(source),
            };
            let mut rig = StartIoRig::new(mode, 80);
            // Scattered slots with runs of neighbours, out of order; the last one is partly filled.
            let slots: Vec<u32> = (0..65).map(|n| (n * 17 + n / 5) % 80).collect();
            let mut unique = slots.clone();
            unique.sort_unstable();
            unique.dedup();
            let slots = if unique.len() == 65 {
                slots
            } else {
                (0..65).rev().collect()
            };
            let outcome = rig.read(&source, (0, bytes.len() as u64), slots.clone());
            assert_eq!(outcome, ReadOutcome::Done, "{mode:?} {refusing}");
            assert!(
                rig.bytes(slots, bytes.len() as u64) == bytes,
                "{mode:?} {refusing}"
            );
            // From the middle, with the file already open.
            let outcome = rig.read(&source, (8192, 3 * 4096), [70, 2, 71]);
            assert_eq!(outcome, ReadOutcome::Done);
            assert!(rig.bytes([70, 2, 71], 3 * 4096) == bytes[8192..8192 + 3 * 4096]);
        }
    }
}

#[test]
fn splits_reads_with_more_runs_than_one_call_accepts() {
    let scratch = ScratchDir::new();
    let bytes = noise(1, 2500 * 4096);
    let source = source_of(scratch.file("film", &bytes));
    for mode in MODES {
        let mut rig = StartIoRig::new(mode, 5000);
        // Every second slot, so that no two are adjacent.
        let slots: Vec<u32> = (0..2500).map(|n| 2 * n).collect();
        let outcome = rig.read(&source, (0, bytes.len() as u64), slots.clone());
        assert_eq!(outcome, ReadOutcome::Done, "{mode:?}");
        assert!(rig.bytes(slots, bytes.len() as u64) == bytes, "{mode:?}");
    }
}

#[test]
fn concurrent_reads_do_not_mix() {
    let scratch = ScratchDir::new();
    let bytes = noise(1, 512 * 4096);
    let source = source_of(scratch.file("film", &bytes));
    for mode in MODES {
        let mut rig = StartIoRig::new(mode, 512);
        for n in 0..128_u64 {
            let slots = (0..4).map(|slot| (511 - n * 4 - slot) as u32);
            rig.submit(&source, (n * 4 * 4096, 4 * 4096), slots);
        }
        let outcomes = rig.outcomes(128);
        assert!(
            outcomes
                .values()
                .all(|outcome| *outcome == ReadOutcome::Done)
        );
        assert!(
            rig.bytes((0..512).rev(), bytes.len() as u64) == bytes,
            "{mode:?}"
        );
    }
}

#[test]
fn truncated_written_or_removed_file_is_reported_changed() {
    for mode in MODES {
        let scratch = ScratchDir::new();
        let mut rig = StartIoRig::new(mode, 8);
        let path = scratch.file("film", &noise(1, 5 * 4096));
        let source = source_of(path.clone());
        assert_eq!(rig.read(&source, (0, 4096), [0]), ReadOutcome::Done);
        let file = File::options().write(true).open(&path).expect("opens");
        file.set_len(4096 + 100).expect("cuts");
        for offset in [0, 4096, 16_384] {
            let outcome = rig.read(&source, (offset, 4096), [0]);
            assert_eq!(outcome, ReadOutcome::Changed, "{mode:?} {offset}");
        }

        let path = scratch.file("other", &noise(1, 4096));
        let source = source_of(path.clone());
        std::fs::remove_file(&path).expect("removes");
        let mut rig = StartIoRig::new(mode, 8);
        assert_eq!(rig.read(&source, (0, 4096), [0]), ReadOutcome::Changed);
    }
}

#[test]
fn failed_read_is_an_error_and_releases_its_memory() {
    let scratch = ScratchDir::new();
    // The first fails with `EISDIR`; the second has no memory at offset zero and fails with `EIO`.
    for path in [scratch.path(), Path::new("/proc/self/mem")] {
        for mode in MODES {
            let mut rig = StartIoRig::new(mode, 8);
            let path = path.to_owned();
            let source: Arc<dyn StreamSource> = Arc::new(ClosureSource(move || File::open(&path)));
            let outcome = rig.read(&source, (0, 8192), [0, 1]);
            assert_eq!(outcome, ReadOutcome::Error, "{mode:?}");
            assert!(rig.pool.lease(&[Slot(0), Slot(1)]).is_some());
        }
    }
}

#[test]
fn refused_direct_read_is_done_through_page_cache() {
    let scratch = ScratchDir::new();
    let bytes = noise(1, 3 * 4096);
    let source = source_of(scratch.file("film", &bytes));
    for mode in MODES {
        let mut rig = StartIoRig::new(mode, 8);
        // Most file systems refuse a direct read at this offset; the others perform it.
        let outcome = rig.read(&source, (100, 8192), [3, 1]);
        assert_eq!(outcome, ReadOutcome::Done, "{mode:?}");
        assert!(rig.bytes([3, 1], 8192) == bytes[100..8292], "{mode:?}");
    }
}

#[test]
fn panicking_source_fails_only_its_own_read() {
    let scratch = ScratchDir::new();
    let good = source_of(scratch.file("film", &noise(1, 4096)));
    for mode in MODES {
        let mut rig = StartIoRig::new(mode, 8);
        let bad: Arc<dyn StreamSource> = Arc::new(ClosureSource(|| {
            std::panic::resume_unwind(Box::new("on purpose"))
        }));
        assert_eq!(rig.read(&bad, (0, 4096), [0]), ReadOutcome::Error);
        assert_eq!(rig.read(&good, (0, 4096), [0]), ReadOutcome::Done);
    }
}

#[test]
fn hanging_open_does_not_block_other_reads() {
    let scratch = ScratchDir::new();
    let good = source_of(scratch.file("film", &noise(1, 4096)));
    for mode in MODES {
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        let hang = Arc::clone(&gate);
        let hanging: Arc<dyn StreamSource> = Arc::new(ClosureSource(move || {
            let is_open = hang.0.lock().expect("whole");
            let is_open = hang.1.wait_while(is_open, |is_open| !*is_open);
            drop(is_open.expect("whole"));
            Err(rustix::io::Errno::IO.into())
        }));
        let mut rig = StartIoRig::new(mode, 64);
        let hung = THREADS_MAX as u32 - 1;
        for slot in 0..hung {
            rig.submit(&hanging, (0, 4096), [slot]);
        }
        for _ in 0..10 {
            assert_eq!(
                rig.read(&good, (0, 4096), [63]),
                ReadOutcome::Done,
                "{mode:?}"
            );
        }
        *gate.0.lock().expect("whole") = true;
        gate.1.notify_all();
        let outcomes = rig.outcomes(hung as usize);
        assert!(
            outcomes
                .values()
                .all(|outcome| *outcome == ReadOutcome::Error)
        );
    }
}

/// A source whose reads hang until the returned end of the pipe is dropped; `io_uring` only,
/// because `preadv` refuses pipes.
fn hanging_pipe() -> (Arc<dyn StreamSource>, PipeWriter) {
    let (reader, writer) = io::pipe().expect("pipe");
    let reader = File::from(OwnedFd::from(reader));
    (Arc::new(ClosureSource(move || reader.try_clone())), writer)
}

#[test]
fn hanging_read_does_not_block_other_reads() {
    let scratch = ScratchDir::new();
    let good = source_of(scratch.file("film", &noise(1, 4096)));
    let (hanging, writer) = hanging_pipe();
    let mut rig = StartIoRig::new(IoMode::IoUring, 8);
    let hung = rig.submit(&hanging, (0, 4096), [0]);
    for _ in 0..10 {
        assert_eq!(rig.read(&good, (0, 4096), [7]), ReadOutcome::Done);
        assert!(
            rig.pool.lease(&[Slot(0)]).is_none(),
            "the kernel may still write to it"
        );
    }
    drop(writer);
    // A pipe has no size: the early end is treated as a file that has shrunk.
    assert_eq!(rig.outcomes(1)[&hung], ReadOutcome::Changed);
}

#[test]
fn memory_of_hanging_read_is_never_released() {
    let (hanging, writer) = hanging_pipe();
    let mut rig = StartIoRig::new(IoMode::IoUring, 8);
    rig.submit(&hanging, (0, 4096), [0]);
    let mut ended = HashMap::new();
    // The first wait ends when the file is open; the second starts the read.
    for timeout in [None, Some(Duration::from_millis(1))] {
        rig.turn(timeout, &mut ended);
    }
    assert!(ended.is_empty());
    let StartIoRig { io, pool, .. } = rig;
    drop(io);
    let ours = Arc::downgrade(&pool);
    drop(pool);
    assert_eq!(ours.strong_count(), 1, "only the read holds it");
    drop(writer);
}

fn parts() -> IoParts {
    let waker = Waker::new().expect("eventfd");
    IoParts {
        opener: Opener::new("test").expect("starts"),
        completions: Mailbox::new(Arc::clone(&waker)),
        waker,
    }
}

#[test]
fn falls_back_to_threads_unless_io_uring_is_required() {
    let refused = || Err(io::ErrorKind::PermissionDenied.into());
    let io = ring_or_threads(IoMode::Auto, refused(), parts()).expect("falls back");
    assert_eq!(io.mode(), IoMode::Pread);
    let error = ring_or_threads(IoMode::IoUring, refused(), parts()).err();
    assert_eq!(
        error.map(|error| error.kind()),
        Some(io::ErrorKind::PermissionDenied)
    );
}

#[test]
fn wait_ends_by_wake_up_or_timeout() {
    for mode in MODES {
        let parts = parts();
        let waker = Arc::clone(&parts.waker);
        let mut io = start_io(mode, 4, parts).expect("starts");
        let mut completions = Vec::new();
        let (asleep, tell): (Sender<()>, Receiver<()>) = channel();
        let other = std::thread::spawn(move || {
            for () in tell {
                waker.wake();
            }
        });
        // Each wait would sleep indefinitely if a wake-up was lost.
        for _ in 0..1000 {
            asleep.send(()).expect("received");
            io.wait(None, &mut completions).expect("waits");
        }
        drop(asleep);
        other.join().expect("ends");
        let timeout = Some(Duration::from_millis(1));
        io.wait(timeout, &mut completions).expect("waits");
        assert!(completions.is_empty());
    }
}

#[test]
fn parses_io_mode_names() {
    for mode in IoMode::ALL {
        assert_eq!(IoMode::from_name(mode.name()), Some(*mode));
    }
    assert_eq!(IoMode::from_name("mmap"), None);
}
