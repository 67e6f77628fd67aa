//! Firmware: the order of queued requests, and the use of the cache. Drives with the same mechanics
//! differ in it.

use crate::hard::{HardDriveSpec, QueueOrder};
use crate::spec::DriveSpec;

/// Changes to a drive's firmware; `None` keeps the drive's own setting.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Firmware {
    /// Order of queued requests. Ignored for flash.
    pub order: Option<QueueOrder>,
    /// Most requests in the drive, including the active one; 1 disables queueing.
    pub depth: Option<u32>,
    /// Age at which a request goes first, milliseconds; 0 for no limit.
    pub wait_ms_max: Option<u32>,
    /// Number of cache segments; 0 disables readahead.
    pub cache_segments: Option<u32>,
    /// Size of a segment, and readahead of the drive, bytes.
    pub cache_segment_bytes: Option<u64>,
}

impl Firmware {
    fn put_into(&self, disk: &HardDriveSpec) -> HardDriveSpec {
        let mut disk = disk.clone();
        let (queue, cache) = (&mut disk.queue, &mut disk.read_cache);
        queue.order = self.order.unwrap_or(queue.order);
        queue.depth = self.depth.unwrap_or(queue.depth);
        queue.wait_ms_max = self.wait_ms_max.unwrap_or(queue.wait_ms_max);
        cache.segments = self.cache_segments.unwrap_or(cache.segments);
        cache.segment_bytes = self.cache_segment_bytes.unwrap_or(cache.segment_bytes);
        disk
    }
}

impl DriveSpec {
    /// The same mechanics with other firmware; applied to both arms of a dual-actuator drive.
    pub fn with_firmware(&self, firmware: &Firmware) -> Self {
        let mut drive = self.clone();
        match &mut drive {
            Self::HardDrive(disk) => *disk = firmware.put_into(disk),
            Self::DualActuator(dual) => dual.half = firmware.put_into(&dual.half),
            Self::SolidState(flash) => {
                flash.queue_depth = firmware.depth.unwrap_or(flash.queue_depth);
            }
        }
        drive
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Direction, Drive, Request, RequestId, preset};
    use alloc::boxed::Box;
    use alloc::vec::Vec;
    use headlong_units::Instant;

    /// Order of completion of reads at these sectors that arrive while the first is being read.
    fn order_of(drive: &mut Box<dyn Drive>, sectors: &[u64]) -> Vec<u64> {
        for (id, sector) in (0..).zip(sectors) {
            let request = Request {
                sector: *sector,
                sectors: 1024,
                direction: Direction::Read,
            };
            let taken = drive.handle_request(Instant::ZERO, RequestId(id), request);
            taken.expect("room in the queue");
        }
        let mut ended = Vec::new();
        while let Some(next) = drive.poll_timeout() {
            drive.handle_timeout(next);
            ended.extend(core::iter::from_fn(|| drive.poll_completion()).map(|done| done.id.0));
        }
        ended
    }

    #[test]
    fn firmware_determines_order_of_service() {
        let red = preset("wd-red-wd10efrx").expect("known");
        let sectors = [1_000_000_000, 1_500_000_000, 500_000_000, 1_400_000_000];
        let ended = |order| {
            let firmware = Firmware {
                order: Some(order),
                wait_ms_max: Some(0),
                ..Firmware::default()
            };
            order_of(&mut red.with_firmware(&firmware).build(), &sectors)
        };
        assert_eq!(ended(QueueOrder::Fcfs), [0, 1, 2, 3]);
        assert_eq!(ended(QueueOrder::Sweep), [0, 3, 1, 2]);
        // Sector 1 passes the head earlier than sector 3, although that is nearer.
        assert_eq!(ended(QueueOrder::Nearest), [0, 1, 3, 2]);
    }

    #[test]
    fn firmware_sets_depth_of_every_kind_of_drive() {
        let firmware = Firmware {
            depth: Some(3),
            cache_segments: Some(0),
            ..Firmware::default()
        };
        for known in crate::presets() {
            let drive = known.spec().with_firmware(&firmware);
            assert_eq!(drive.build().queue_depth(), 3, "{}", known.name);
            drive.check().expect("a valid drive");
        }
    }

    #[test]
    fn empty_firmware_changes_nothing() {
        let red = preset("wd-red-wd10efrx").expect("known");
        assert_eq!(red.with_firmware(&Firmware::default()), red);
    }
}
