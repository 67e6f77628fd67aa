use super::spec::tests::small_drive;
use super::*;
use alloc::vec::Vec;

const MIB: u32 = 2_048;

/// Runs requests one at a time, each sent when the previous one has completed.
fn one_by_one(drive: &mut HardDrive, requests: &[Request]) -> Vec<Completion> {
    let mut now = Instant(drive.now_ns);
    let mut done = Vec::new();
    for (index, request) in requests.iter().enumerate() {
        let id = RequestId(index as u64);
        drive.handle_request(now, id, *request).expect("room");
        let completion = loop {
            if let Some(completion) = drive.poll_completion() {
                break completion;
            }
            let next = drive.poll_timeout().expect("a pending event");
            drive.handle_timeout(next);
        };
        now = completion.ended;
        done.push(completion);
    }
    done
}

fn read(sector: u64, sectors: u32) -> Request {
    Request {
        sector,
        sectors,
        direction: Direction::Read,
    }
}

fn write(sector: u64, sectors: u32) -> Request {
    Request {
        direction: Direction::Write,
        ..read(sector, sectors)
    }
}

/// Bytes per second from the start of the first to the end of the last.
fn rate(done: &[Completion]) -> f64 {
    let bytes: u64 = done
        .iter()
        .map(|c| u64::from(c.request.sectors) * SECTOR_BYTES)
        .sum();
    let (first, last) = (done.first().expect("one"), done.last().expect("one"));
    bytes as f64 / last.ended.since(first.started).as_secs_f64()
}

#[test]
fn sequential_reading_costs_no_seek_or_rotation() {
    let mut drive = HardDrive::new(&small_drive());
    let requests: Vec<Request> = (0..100).map(|i| read(i * u64::from(MIB), MIB)).collect();
    let done = one_by_one(&mut drive, &requests);
    assert!(
        done[1..]
            .iter()
            .all(|c| c.is_sequential && c.parts.seek == Duration::ZERO)
    );
    let rate = rate(&done[1..]);
    assert!((rate / 100e6 - 1.0).abs() < 0.01, "{rate}");
}

#[test]
fn paused_reader_finds_readahead_in_memory() {
    let mut drive = HardDrive::new(&small_drive());
    one_by_one(&mut drive, &[read(0, MIB)]);
    drive.handle_timeout(Instant(drive.now_ns + 500_000_000));
    let done = one_by_one(&mut drive, &[read(u64::from(MIB), MIB)]);
    let service = done[0].ended.since(done[0].started);
    assert_eq!(service.0, 100_000 + drive.interface_ns(MIB));
}

#[test]
fn distant_read_ends_readahead() {
    let mut drive = HardDrive::new(&small_drive());
    let done = one_by_one(
        &mut drive,
        &[read(0, MIB), read(1_000_000, 8), read(u64::from(MIB), MIB)],
    );
    assert!(!done[2].is_sequential && done[2].parts.seek > Duration::ZERO);
}

#[test]
fn interleaved_readers_profit_from_cache_segments() {
    let mut drive = HardDrive::new(&small_drive());
    let mut requests = Vec::new();
    for i in 0..64u64 {
        requests.extend([read(i * 256, 256), read(1_000_000 + i * 256, 256)]);
    }
    // Each reader waits a little before its next request, so that the drive reads ahead for it.
    let mut hits = 0;
    for request in requests {
        let done = one_by_one(&mut drive, &[request]);
        hits += u32::from(done[0].parts.seek == Duration::ZERO);
        drive.handle_timeout(done[0].ended + Duration::from_millis(10));
    }
    assert!(hits > 64, "{hits}");
}

#[test]
fn writes_are_absorbed_until_the_cache_is_full() {
    let mut spec = small_drive();
    spec.write_cache.bytes = 8 << 20;
    let mut drive = HardDrive::new(&spec);
    let requests: Vec<Request> = (0..150).map(|i| write(i * u64::from(MIB), MIB)).collect();
    let done = one_by_one(&mut drive, &requests);
    let first = done[0].ended.since(done[0].started);
    assert_eq!(first.0, 100_000 + drive.interface_ns(MIB));
    let rate = rate(&done[50..]);
    assert!((rate / 100e6 - 1.0).abs() < 0.02, "{rate}");
}

#[test]
fn an_idle_drive_empties_its_write_cache() {
    let mut spec = small_drive();
    spec.write_cache.bytes = 8 << 20;
    let mut drive = HardDrive::new(&spec);
    one_by_one(&mut drive, &[write(5_000, 8), write(900_000, 8)]);
    while let Some(next) = drive.poll_timeout() {
        drive.handle_timeout(next);
    }
    assert!(drive.write_cache.is_empty() && drive.destage.is_none());
    assert!(drive.now_ns < 100_000_000, "{}", drive.now_ns);
}

#[test]
fn recently_written_data_is_read_from_memory() {
    let mut spec = small_drive();
    spec.write_cache.bytes = 8 << 20;
    let mut drive = HardDrive::new(&spec);
    let done = one_by_one(&mut drive, &[write(5_000, 64), read(5_010, 8)]);
    assert_eq!(done[1].parts.seek, Duration::ZERO);
    assert_eq!(done[1].parts.rotation, Duration::ZERO);
}

#[test]
fn write_waits_for_sector_without_cache() {
    let mut drive = HardDrive::new(&small_drive());
    let done = one_by_one(&mut drive, &[write(0, 8), write(8, 8)]);
    // The second sector passed while its command was decoded: almost a whole turn.
    let turn = Duration(small_drive().turn_ns());
    let waited = done[1].parts.rotation;
    assert!(
        waited < turn && waited > turn - Duration::from_micros(300),
        "{waited:?}"
    );
}

#[test]
fn overdue_request_goes_first() {
    let mut spec = small_drive();
    spec.queue.wait_ms_max = 50;
    let mut drive = HardDrive::new(&spec);
    let far = 1_900_000;
    drive
        .handle_request(Instant::ZERO, RequestId(0), read(0, 8))
        .expect("room");
    drive
        .handle_request(Instant::ZERO, RequestId(1), read(far, 8))
        .expect("room");
    let mut id = 2;
    let mut order = Vec::new();
    while order.len() < 40 {
        while drive.queue.len() < 8 {
            let near = read(id * 4_000 % 60_000, 8);
            drive
                .handle_request(Instant(drive.now_ns), RequestId(id), near)
                .expect("room");
            id += 1;
        }
        let next = drive.poll_timeout().expect("a pending event");
        drive.handle_timeout(next);
        order.extend(core::iter::from_fn(|| drive.poll_completion()));
    }
    let far = order.iter().find(|c| c.id == RequestId(1)).expect("served");
    assert!(
        far.started.0 >= 50_000_000 && far.started.0 < 80_000_000,
        "{far:?}"
    );
}

/// Order in which a drive with this queue reads requests that arrive together, as indices of
/// `sectors`.
fn order_of(queue: QueueSpec, sectors: &[u64]) -> Vec<u64> {
    let mut drive = HardDrive::new(&HardDriveSpec {
        queue,
        ..small_drive()
    });
    for (id, sector) in (0..).zip(sectors) {
        let asked = drive.handle_request(Instant::ZERO, RequestId(id), read(*sector, 8));
        asked.expect("room");
    }
    let mut order = Vec::new();
    while let Some(next) = drive.poll_timeout() {
        drive.handle_timeout(next);
        order.extend(core::iter::from_fn(|| drive.poll_completion()).map(|c| c.id.0));
    }
    order
}

#[test]
fn sweep_goes_upwards_then_restarts_at_lowest() {
    let queue = QueueSpec {
        order: QueueOrder::Sweep,
        ..small_drive().queue
    };
    let order = order_of(queue, &[800_000, 1_500_000, 10, 900_000, 400_000]);
    assert_eq!(order, [0, 3, 1, 2, 4]);
}

#[test]
fn far_request_waits_for_near_ones_without_age_limit() {
    let near = (0..30).map(|i| i * 2_000);
    let sectors: Vec<u64> = [0, 1_900_000].into_iter().chain(near).collect();
    let with_bound = |wait_ms_max| {
        let queue = QueueSpec {
            wait_ms_max,
            ..small_drive().queue
        };
        let order = order_of(queue, &sectors);
        order.iter().position(|id| *id == 1).expect("served")
    };
    assert!(with_bound(20) < 10, "{}", with_bound(20));
    assert_eq!(with_bound(0), sectors.len() - 1);
}

#[test]
fn full_queue_and_out_of_range_are_refused() {
    let mut spec = small_drive();
    spec.queue.depth = 2;
    let mut drive = HardDrive::new(&spec);
    let end = drive.capacity_sectors();
    let ask = |drive: &mut HardDrive, id, request| {
        drive.handle_request(Instant::ZERO, RequestId(id), request)
    };
    assert_eq!(ask(&mut drive, 0, read(end, 1)), Err(Refusal::OutOfRange));
    assert_eq!(ask(&mut drive, 0, read(0, 0)), Err(Refusal::OutOfRange));
    assert_eq!(
        ask(&mut drive, 0, read(u64::MAX, 2)),
        Err(Refusal::OutOfRange)
    );
    assert_eq!(ask(&mut drive, 0, read(0, 8)), Ok(()));
    assert_eq!(ask(&mut drive, 1, read(end - 1, 1)), Ok(()));
    assert_eq!(ask(&mut drive, 2, read(80, 8)), Err(Refusal::QueueFull));
}
