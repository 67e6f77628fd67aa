//! Every byte is correct with many viewers and little memory, and memory stays bounded.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use headlong_e2e_tests::{Library, bounded};
use headlong_testkit::client::{Asking, ClientError, Viewer, ViewerReport};
use headlong_testkit::server::{ProcessMemory, ServerBuilder};
use headlong_testkit::{Seed, Server};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Ends a test that hangs.
const LIMIT: Duration = Duration::from_secs(300);

/// Runs all viewers concurrently; returns the sum of their reports, or the first failure.
async fn watch_all(viewers: Vec<Viewer>) -> Result<ViewerReport, ClientError> {
    let tasks: Vec<_> = viewers
        .into_iter()
        .map(|viewer| tokio::spawn(async move { viewer.watch().await }))
        .collect();
    let mut total = ViewerReport::default();
    for task in tasks {
        let report = task.await.expect("a viewer panicked")?;
        total.bytes += report.bytes;
        total.requests += report.requests;
        total.first_byte_max = total.first_byte_max.max(report.first_byte_max);
    }
    Ok(total)
}

/// Samples the memory of a process in a thread; returns the peak of anonymous memory.
struct MemoryWatch {
    stop: Arc<AtomicBool>,
    most: Arc<AtomicU64>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl MemoryWatch {
    fn start(server: &Server) -> Self {
        let (stop, most) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let (pid, end, seen) = (server.pid(), Arc::clone(&stop), Arc::clone(&most));
        let thread = std::thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                if let Ok(memory) = ProcessMemory::of(pid) {
                    seen.fetch_max(memory.anonymous_bytes, Ordering::Relaxed);
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        Self {
            stop,
            most,
            thread: Some(thread),
        }
    }

    fn most_bytes(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.most.load(Ordering::Relaxed)
    }
}

#[test]
fn three_hundred_paced_viewers_fit_into_32_mib() {
    let library = Library::new(300, 3 * MIB / 2).expect("a library");
    let server = ServerBuilder::new([library.root()])
        .memory("32MiB")
        // No viewer may be refused: memory is short, not the disk.
        .config("admission = \"accept\"")
        .start();
    let mut seed = Seed::announced("three_hundred_paced_viewers", 300);
    let address = server.address();
    let viewers = library.titles.iter().map(|title| {
        let asking = match seed.below(3) {
            0 => Asking::OpenEnded,
            1 => Asking::Chunks(100_000),
            _ => Asking::Chunks(512 * KIB),
        };
        Viewer {
            asking,
            bytes_per_second: Some(100_000 + seed.below(100_000)),
            start: seed.below(title.size_bytes / 4),
            watch_bytes: MIB,
            ..title.viewer(address).with_session(title.number)
        }
    });
    let viewers: Vec<Viewer> = viewers.collect();
    let watch = MemoryWatch::start(&server);
    let total = bounded(LIMIT, watch_all(viewers)).expect("all bytes are correct");
    let most = watch.most_bytes();
    assert_eq!(total.bytes, 300 * MIB);
    // A budget this small has no room in its 20 % for the fixed costs of a server: threads, tables
    // of titles, relocated code. 9 MiB for that.
    let bound = 32 * MIB * 12 / 10 + 9 * MIB + 300 * 16 * KIB;
    assert!(
        most <= bound,
        "{most} bytes of anonymous memory, more than {bound}"
    );
    let status = server.status();
    let classes = ["free", "filling", "sending", "unread", "read"];
    let pool: u64 = classes
        .iter()
        .map(|class| status.memory(&format!("{class}_bytes")))
        .sum();
    assert_eq!(pool, 32 * MIB, "the pool holds {pool} bytes");
}

#[test]
fn random_ranges_are_correct_during_eviction() {
    // 96 MiB of titles through 4 MiB of memory: nearly every piece is evicted in between.
    let library = Library::new(12, 8 * MIB).expect("a library");
    let server = ServerBuilder::new([library.root()])
        .memory("4MiB")
        .config("admission = \"accept\"\npiece = \"64KiB\"\nprefetch = \"512KiB\"")
        .start();
    let mut seed = Seed::announced("random_ranges_of_few_titles", 12);
    let address = server.address();
    let viewers: Vec<Viewer> = (0..48)
        .flat_map(|session| {
            let title = &library.titles[seed.below(12) as usize];
            // A seek is a new viewer elsewhere in the title.
            let seek = |start, bytes| Viewer {
                asking: Asking::Chunks(bytes),
                start,
                watch_bytes: 3 * bytes,
                ..title.viewer(address).with_session(session)
            };
            [
                seek(seed.below(title.size_bytes), 1 + seed.below(300_000)),
                seek(seed.below(title.size_bytes), 1 + seed.below(3_000)),
            ]
        })
        .collect();
    let wanted: u64 = viewers
        .iter()
        .map(|viewer| viewer.watch_bytes.min(viewer.size_bytes - viewer.start))
        .sum();
    let total = bounded(LIMIT, watch_all(viewers)).expect("all bytes are correct");
    assert_eq!(total.bytes, wanted);
    let status = server.status();
    assert!(status.counter("bytes_sent") >= wanted);
}

#[test]
fn viewers_of_one_title_share_its_reads() {
    let library = Library::new(1, 16 * MIB).expect("a library");
    let server = ServerBuilder::new([library.root()]).memory("64MiB").start();
    let title = &library.titles[0];
    let viewers: Vec<Viewer> = (0..20)
        .map(|session| Viewer {
            asking: Asking::Chunks(MIB),
            ..title.viewer(server.address()).with_session(session)
        })
        .collect();
    let total = bounded(LIMIT, watch_all(viewers)).expect("all bytes are correct");
    assert_eq!(total.bytes, 20 * 16 * MIB);
    // Memory holds the title four times over: no byte has to be read twice.
    let read = server.status().counter("bytes_read");
    assert!(
        (16 * MIB..=20 * MIB).contains(&read),
        "{read} bytes read of a title of 16 MiB"
    );
}
