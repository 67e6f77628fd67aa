//! Small vanilla servers with known reads.

use headlong_drive::preset;
use headlong_player::{CallId, ObjectId};
use headlong_units::{BitRate, ByteRange, Duration, MIB};

use super::*;
use crate::layout::{DiskArray, LayoutFile, Placement};
use crate::link::Link;
use crate::origin::Origin;

const LINE: BitRate = BitRate(3_500_000);
const DELAY: Duration = Duration::from_millis(50);

struct ServerRig {
    server: PageCacheServer,
    link: Link,
    now: Instant,
    sent: u64,
    wakes: Vec<(Instant, RequestId)>,
}

impl ServerRig {
    fn new(setup: &PageCacheServerSetup, line: Option<BitRate>) -> Self {
        let drive = preset("wd-red-wd10efrx").expect("a preset").build();
        let files: Vec<LayoutFile> = (0..40)
            .map(|index| LayoutFile {
                object: Some(ObjectId(index)),
                size_bytes: 64 * MIB,
                bit_rate: None,
                part: None,
                disk: 0,
            })
            .collect();
        let disks = DiskArray {
            count: 1,
            capacity_bytes: 1 << 40,
            placement: Placement::Packed,
        };
        let layout = Layout::new(&files, disks).expect("it fits");
        let server =
            PageCacheServer::new(setup, layout, QueuedDrive::new(drive, None, Duration::ZERO));
        let socket_bytes = server.socket_bytes(line, DELAY);
        Self {
            server,
            link: Link::new(line, DELAY, socket_bytes),
            now: Instant::ZERO,
            sent: 0,
            wakes: Vec::new(),
        }
    }

    fn ask(&mut self, session: u32, object: u32, start: u64, length: u64) -> RequestId {
        let call = CallId(0);
        let range = ByteRange::new(start, start + length);
        let asker = Requester {
            session,
            call,
            is_whole: false,
        };
        let asked = self
            .server
            .ask(self.now, asker, ObjectId(object), Some(range));
        self.pass_on();
        asked.expect("taken on")
    }

    fn pass_on(&mut self) {
        while let Some(outcome) = self.server.poll_outcome() {
            let OriginEvent::Piece(piece) = outcome else {
                panic!("unexpected failure");
            };
            let taken = self.link.give(self.now, piece.bytes).taken;
            let told_at = self.server.handed(self.now, &piece, &self.link, taken);
            self.sent += piece.bytes;
            self.wakes.push((told_at, piece.request));
        }
    }

    /// Runs until there are no more events.
    fn run(&mut self) {
        for _ in 0..1_000_000 {
            let wake = self.wakes.iter().map(|(at, _)| *at).min();
            let Some(next) = [wake, self.server.poll_timeout()]
                .into_iter()
                .flatten()
                .min()
            else {
                assert_eq!(self.server.reply_count(), 0, "all requests were served");
                return;
            };
            self.now = self.now.max(next);
            self.server.handle_timeout(self.now);
            self.pass_on();
            let due = self.wakes.iter().position(|(at, _)| *at <= self.now);
            if let Some(index) = due {
                let (_, request) = self.wakes.swap_remove(index);
                self.server.taken(self.now, request, Slot(0));
                self.pass_on();
            }
        }
        panic!("the run does not end");
    }

    fn disk(&self) -> (u64, u64) {
        let stats = self.server.state().stats;
        (stats.reads, stats.bytes_read)
    }
}

#[test]
fn file_is_read_in_growing_windows_past_the_range() {
    let mut rig = ServerRig::new(&PageCacheServerSetup::default(), None);
    rig.ask(0, 0, 0, MIB);
    rig.run();
    assert_eq!(rig.sent, MIB);
    // Windows of 128 KiB, each read when the previous one is entered.
    assert_eq!(rig.disk(), (9, MIB + 128 * KIB));
    let state = rig.server.state();
    assert_eq!(state.memory.unread_bytes, 128 * KIB);
    assert_eq!(state.stats.bytes_sent, MIB);
}

#[test]
fn next_request_continues_from_readahead() {
    let mut rig = ServerRig::new(&PageCacheServerSetup::default(), None);
    rig.ask(0, 0, 0, MIB);
    rig.run();
    rig.ask(0, 0, MIB, MIB);
    rig.run();
    let (_, bytes) = rig.disk();
    assert!(
        (2 * MIB + 128 * KIB..=2 * MIB + 256 * KIB).contains(&bytes),
        "{bytes}"
    );
    assert_eq!(
        rig.server.state().stats.bytes_reused,
        0,
        "each byte was sent once"
    );
}

#[test]
fn resident_pages_are_not_read_again() {
    let mut rig = ServerRig::new(&PageCacheServerSetup::default(), None);
    rig.ask(0, 3, 0, MIB);
    rig.run();
    let before = rig.disk();
    rig.ask(1, 3, 0, 512 * KIB);
    rig.run();
    assert_eq!(rig.disk(), before);
    assert_eq!(rig.server.state().stats.bytes_reused, 512 * KIB);
}

#[test]
fn full_socket_releases_thread_until_third_is_free() {
    let setup = PageCacheServerSetup {
        workers: 1,
        threads: 1,
        ..PageCacheServerSetup::default()
    };
    let mut rig = ServerRig::new(&setup, Some(LINE));
    rig.ask(0, 0, 0, 2 * MIB);
    while rig.wakes.is_empty() || rig.wakes.iter().any(|(at, _)| *at <= rig.now) {
        let at = rig.wakes.iter().map(|(at, _)| *at).min();
        rig.now = [at, rig.server.poll_timeout()]
            .into_iter()
            .flatten()
            .min()
            .expect("another event");
        rig.server.handle_timeout(rig.now);
        rig.pass_on();
        if let Some(index) = rig.wakes.iter().position(|(at, _)| *at <= rig.now) {
            let (_, request) = rig.wakes.swap_remove(index);
            rig.server.taken(rig.now, request, Slot(0));
            rig.pass_on();
        }
    }
    let socket = rig.server.socket_bytes(Some(LINE), DELAY);
    assert!(
        (socket..socket + 96 * KIB).contains(&rig.sent),
        "{}",
        rig.sent
    );
    assert_eq!(rig.server.workers[0].free, 1);
    rig.run();
    assert_eq!(rig.sent, 2 * MIB);
}

#[test]
fn concurrent_reads_equal_number_of_threads() {
    let outstanding = |threads| {
        let setup = PageCacheServerSetup {
            workers: 1,
            threads,
            ..PageCacheServerSetup::default()
        };
        let mut rig = ServerRig::new(&setup, Some(LINE));
        for session in 0..16 {
            rig.ask(session, session, 0, 64 * KIB);
        }
        let outstanding = rig.server.state().queue.outstanding_reads;
        rig.run();
        assert_eq!(rig.sent, 16 * 64 * KIB);
        outstanding
    };
    assert_eq!((outstanding(1), outstanding(64)), (1, 16));
}

#[test]
fn disconnect_releases_thread() {
    let setup = PageCacheServerSetup {
        workers: 1,
        threads: 1,
        ..PageCacheServerSetup::default()
    };
    let mut rig = ServerRig::new(&setup, Some(LINE));
    let first = rig.ask(0, 0, 0, 2 * MIB);
    rig.ask(1, 1, 0, 64 * KIB);
    rig.server.gone(rig.now, first);
    rig.run();
    assert_eq!(rig.sent, 64 * KIB);
    assert_eq!(rig.server.workers[0].free, 1);
}

#[test]
fn mapped_files_are_read_around_fault() {
    let setup = PageCacheServerSetup {
        access: AccessMethod::Mapped,
        ..PageCacheServerSetup::default()
    };
    let mut rig = ServerRig::new(&setup, None);
    rig.ask(0, 0, 4 * MIB, 32 * KIB);
    rig.run();
    assert_eq!(rig.disk(), (1, 128 * KIB));
    assert!(
        rig.server.cache.find(0, 1008).is_some(),
        "pages before it are read, too"
    );
}

#[test]
fn large_folios_become_active_when_sent_once() {
    let active = |cache| {
        let setup = PageCacheServerSetup {
            cache,
            ..PageCacheServerSetup::default()
        };
        let mut rig = ServerRig::new(&setup, None);
        rig.ask(0, 0, 0, 8 * MIB);
        rig.run();
        rig.server.cache().expect("one").active_bytes
    };
    assert!(active(CacheKind::LargeFolios) > 6 * MIB);
    assert_eq!(active(CacheKind::Pages), 0);
    assert_eq!(active(CacheKind::Lru), 0);
}
