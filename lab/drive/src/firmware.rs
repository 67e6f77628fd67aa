//! The part of a drive that its maker's program decides: how it queues requests, and what it keeps
//! in its own memory. Drives of the same mechanics differ in it.

use crate::hard::{HardDriveSpec, QueueOrder};
use crate::spec::DriveSpec;

/// Firmware that differs from a drive's own; what is `None` stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Firmware {
    /// Which of the queued requests is next. Of no matter to flash.
    pub order: Option<QueueOrder>,
    /// Most requests in the drive, the one being worked on included; 1 is a drive without a queue.
    pub depth: Option<u32>,
    /// A request that has waited so long goes first, milliseconds; 0 for no such bound.
    pub wait_ms_max: Option<u32>,
    /// Runs of sectors that are remembered; 0 switches reading ahead off.
    pub cache_segments: Option<u32>,
    /// How long each may be, and how far the drive reads on by itself, bytes.
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
    /// The same mechanics with other firmware; both arms of a drive with two have it.
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

    /// The order in which reads at these sectors end that come together while the first is read.
    fn order_of(drive: &mut Box<dyn Drive>, sectors: &[u64]) -> Vec<u64> {
        for (id, sector) in (0..).zip(sectors) {
            let request = Request {
                sector: *sector,
                sectors: 1024,
                direction: Direction::Read,
            };
            let taken = drive.handle_request(Instant::ZERO, RequestId(id), request);
            taken.expect("there is room in its queue");
        }
        let mut ended = Vec::new();
        while let Some(next) = drive.poll_timeout() {
            drive.handle_timeout(next);
            ended.extend(core::iter::from_fn(|| drive.poll_completion()).map(|done| done.id.0));
        }
        ended
    }

    #[test]
    fn the_same_mechanics_serve_in_the_order_of_their_firmware() {
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
        // The sector of 1 comes round sooner than that of 3, which is nearer.
        assert_eq!(ended(QueueOrder::Nearest), [0, 1, 3, 2]);
    }

    #[test]
    fn every_kind_of_drive_has_the_depth_that_it_is_given() {
        let firmware = Firmware {
            depth: Some(3),
            cache_segments: Some(0),
            ..Firmware::default()
        };
        for known in crate::presets() {
            let drive = known.spec().with_firmware(&firmware);
            assert_eq!(drive.build().queue_depth(), 3, "{}", known.name);
            drive.check().expect("it makes sense");
        }
    }

    #[test]
    fn firmware_that_says_nothing_changes_nothing() {
        let red = preset("wd-red-wd10efrx").expect("known");
        assert_eq!(red.with_firmware(&Firmware::default()), red);
    }
}
