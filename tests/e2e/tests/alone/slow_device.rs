//! Serialized reads of a rotating disk: one read at a time, each as large as the policy says.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use headlong_e2e_tests::library::fill_root;
use headlong_e2e_tests::{Title, bounded};
use headlong_testkit::block_device::FileExtent;
use headlong_testkit::client::{Asking, Viewer};
use headlong_testkit::server::{ServerBuilder, Status};
use headlong_testkit::slow_disk::{DriveModel, Trace};
use headlong_testkit::{BlockDevice, Seed, SlowDisk};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const PREFETCH: u64 = 4 * MIB;
const VIEWERS: u64 = 8;
const DISK_BYTES: u64 = 512 * MIB;
/// A drive's second is a quarter of a second of wall time: the drive is busy but not late.
const COMPRESSION: f64 = 4.0;
/// Distance of the titles in the address space in which their reads are examined.
const TITLE_STRIDE: u64 = 1 << 40;

/// Counts between the ramp and the first end of a title.
struct Observed {
    before: Status,
    after: Status,
    trace: Trace,
    whole_trace: Trace,
}

impl Observed {
    fn counted(&self, name: &str) -> u64 {
        self.after.counter(name) - self.before.counter(name)
    }
}

/// Positions of the titles on the disk.
struct Places(Vec<(FileExtent, u64)>);

impl Places {
    fn of(device: &BlockDevice, titles: &[Title]) -> Self {
        let mut places = Vec::new();
        for (number, title) in (0..).zip(titles) {
            let extents = device.extents(&title.path).expect("extents");
            places.extend(
                extents
                    .into_iter()
                    .map(|extent| (extent, number * TITLE_STRIDE)),
            );
        }
        Self(places)
    }

    /// Maps a position on the disk to one in a title; `None` for the file system's own tables.
    fn title_of(&self, offset: u64) -> Option<u64> {
        let holds = |extent: &FileExtent| {
            (extent.physical..extent.physical + extent.length).contains(&offset)
        };
        let (extent, base) = self.0.iter().find(|(extent, _)| holds(extent))?;
        Some(base + extent.offset + (offset - extent.physical))
    }
}

/// Paced viewers of different titles, with different offsets, on a slow rotating device.
fn observe(policy: &str, asking: Asking) -> Observed {
    let device = BlockDevice::new(DISK_BYTES, DriveModel::WD_RED, COMPRESSION).expect("a device");
    let titles: Vec<Title> = fill_root(device.root(), VIEWERS, 48 * MIB).expect("titles");
    let places = Places::of(&device, &titles);
    device.start().expect("start");
    let server = ServerBuilder::new([device.root()])
        .memory("128MiB")
        .config(&format!(
            "policy = \"{policy}\"\nprefetch = \"4MiB\"\nadmission = \"accept\"\n\
             outstanding_reads_rotating = 1\n\
             [device.\"{}\"]\nrotational = true",
            device.device_name()
        ))
        .start();
    let mut seed = Seed::announced("slow_device", 8);
    bounded(Duration::from_secs(300), async {
        let viewers: Vec<_> = titles
            .iter()
            .map(|title| {
                let viewer = Viewer {
                    asking,
                    bytes_per_second: Some(2 * MIB),
                    watch_bytes: 32 * MIB,
                    ..title.viewer(server.address())
                };
                // Not all at once, so that their prefetches do not fall into step.
                let delay = Duration::from_millis(seed.below(2_000));
                tokio::spawn(async move {
                    tokio::time::sleep(delay).await;
                    viewer.watch().await
                })
            })
            .collect();
        tokio::time::sleep(Duration::from_secs(5)).await;
        let (before, from) = (server.status(), device.disk().now());
        tokio::time::sleep(Duration::from_secs(8)).await;
        let after = server.status();
        let whole_trace = device
            .disk()
            .trace()
            .reads(0)
            .mapped(|offset| places.title_of(offset));
        let trace = whole_trace.since(from);
        for viewer in viewers {
            viewer
                .await
                .expect("no panic")
                .expect("all bytes are correct");
        }
        Observed {
            before,
            after,
            trace,
            whole_trace,
        }
    })
}

fn check(observed: &Observed) {
    assert_eq!(
        observed.after.devices()[0].get("rotational"),
        Some(&true.into())
    );
    // The next run's first request is queued when the drive reaches the end of one.
    let at_once = observed.whole_trace.outstanding_runs_max();
    assert!(at_once <= 2, "{at_once} runs at a time");

    let (jobs, reads) = (observed.counted("jobs"), observed.counted("reads"));
    assert!(
        jobs >= VIEWERS && reads > 0,
        "{jobs} jobs, {reads} reads: too few to judge"
    );
    let job_bytes = observed.counted("job_bytes");
    let wanted = observed.counted("job_bytes_wanted");
    assert!(
        job_bytes * 10 >= wanted * 9,
        "{job_bytes} bytes of {wanted} wanted"
    );
    let mean = job_bytes / jobs;
    assert!(
        mean * 10 >= PREFETCH * 9,
        "mean job {mean} of a policy of {PREFETCH}"
    );
    let mean = observed.counted("bytes_read") / reads;
    assert!(
        mean * 10 >= PREFETCH * 9,
        "mean read {mean} of a policy of {PREFETCH}"
    );
    // The bytes that the server counts equal those that the disk counts, apart from reads in flight
    // at either end.
    let (seen, said) = (observed.trace.bytes(), observed.counted("bytes_read"));
    assert!(
        seen.abs_diff(said) <= 4 * PREFETCH,
        "the disk saw {seen}, the server says {said}"
    );
}

/// Serialized: two emulated drives with their servers and viewers would disturb each other.
static DRIVE: Mutex<()> = Mutex::new(());

#[test]
fn chunked_requests_are_prefetched_at_policy_size() {
    if !SlowDisk::available_or_skip("viewers_who_ask_in_chunks") {
        return;
    }
    let _turn = DRIVE.lock().unwrap_or_else(PoisonError::into_inner);
    let observed = observe("fixed", Asking::Chunks(256 * KIB));
    check(&observed);

    // Each viewer's request alone would have cost a seek over an eighth of the stroke (eight titles
    // are adjacent), half a turn, and its transfer.
    let model = DriveModel {
        capacity_bytes: DISK_BYTES,
        ..DriveModel::WD_RED
    };
    let alone = model.seek_time(DISK_BYTES / 8) + model.turn / 2 + model.transfer_time(256 * KIB);
    let requests = u32::try_from(observed.trace.bytes() / (256 * KIB)).expect("few");
    let (spent, alone) = (observed.trace.service_time(), alone * requests);
    assert!(
        spent * 2 < alone,
        "{spent:?} for what would have taken {alone:?}"
    );
}

#[test]
fn open_ended_requests_are_prefetched_at_policy_size() {
    if !SlowDisk::available_or_skip("open_ended_viewers") {
        return;
    }
    let _turn = DRIVE.lock().unwrap_or_else(PoisonError::into_inner);
    check(&observe("fixed", Asking::OpenEnded));
}

#[test]
fn growing_chain_reaches_full_policy_size() {
    if !SlowDisk::available_or_skip("a_chain_that_grows") {
        return;
    }
    let _turn = DRIVE.lock().unwrap_or_else(PoisonError::into_inner);
    // Small reads for viewers that may leave; none of these does, so all reads after the ramp are
    // large.
    check(&observe("first-grow", Asking::Chunks(256 * KIB)));
}
