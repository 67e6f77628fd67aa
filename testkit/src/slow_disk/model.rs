//! A simple drive with one arm, whose times can be computed by hand.
//!
//! A request that begins where the last one ended costs only its transfer. Any other costs a seek,
//! with the curve `settle + (full - settle) * sqrt(distance / capacity)`, and half a turn. Requests
//! are served one at a time in order of arrival, except that one that continues the last goes first.
//! There are no zones and no track buffer.

use std::collections::VecDeque;
use std::time::Duration;

use headlong_drive::{Completion, Refusal, Request, RequestId, SECTOR_BYTES, ServiceTimeBreakdown};
use headlong_units::Instant;

/// Limit on consecutive requests that continue the previous one, before the oldest is served.
const CONTINUED_MAX: u32 = 64;
/// More than the kernel ever has outstanding, so that the drive sees the whole queue.
const QUEUE_MAX: usize = 4096;

/// Parameters of the drive. The capacity is that of the emulated file, whatever its size: a small
/// file spans the whole stroke, so that its ends are as far apart as a large drive's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DriveModel {
    /// Bytes that the stroke spans; set by [`super::SlowDisk`] to the file's size.
    pub capacity_bytes: u64,
    /// Transfer rate.
    pub bytes_per_second: u64,
    /// Shortest seek.
    pub settle: Duration,
    /// Longest seek.
    pub full_stroke: Duration,
    /// Time of one turn, of which a request that does not continue the last one waits half.
    pub turn: Duration,
}

impl DriveModel {
    /// About a WD10EFRX (1 TB, 5400 rpm): diskinfo measured 32.6 ms full and 18.9 ms quarter stroke
    /// and 115 MB/s in the middle (libception, Table 1); its seek figures contain half a turn, 5.6
    /// ms, which is subtracted here.
    pub const WD_RED: Self = Self {
        capacity_bytes: 1_000_000_000_000,
        bytes_per_second: 115_000_000,
        settle: Duration::from_millis(1),
        full_stroke: Duration::from_millis(27),
        turn: Duration::from_micros(11_111),
    };

    /// Time to move the arm over `distance` bytes.
    pub fn seek_time(&self, distance: u64) -> Duration {
        if distance == 0 {
            return Duration::ZERO;
        }
        let share = (distance as f64 / self.capacity_bytes.max(1) as f64).min(1.0);
        self.settle
            + self
                .full_stroke
                .saturating_sub(self.settle)
                .mul_f64(share.sqrt())
    }

    /// Time to transfer `bytes`.
    pub fn transfer_time(&self, bytes: u64) -> Duration {
        Duration::from_secs_f64(bytes as f64 / self.bytes_per_second.max(1) as f64)
    }
}

/// The state of a drive.
#[derive(Debug, Clone)]
pub struct Drive {
    model: DriveModel,
    head: u64,
    queue: VecDeque<(RequestId, Request, Instant)>,
    continued: u32,
    active: Option<Completion>,
    done: VecDeque<Completion>,
}

impl Drive {
    /// A drive with its arm at the outer edge.
    pub fn new(model: DriveModel) -> Self {
        Self {
            model,
            head: 0,
            queue: VecDeque::new(),
            continued: 0,
            active: None,
            done: VecDeque::new(),
        }
    }

    /// Serves one request; returns its parts, and whether it continued the last one.
    fn serve(&mut self, request: &Request) -> (ServiceTimeBreakdown, bool) {
        let offset = request.sector * SECTOR_BYTES;
        let length = u64::from(request.sectors) * SECTOR_BYTES;
        let distance = offset.abs_diff(self.head);
        self.head = offset.saturating_add(length);
        let mut parts = ServiceTimeBreakdown {
            transfer: model_duration(self.model.transfer_time(length)),
            ..ServiceTimeBreakdown::default()
        };
        if distance > 0 {
            parts.seek = model_duration(self.model.seek_time(distance));
            parts.rotation = model_duration(self.model.turn / 2);
        }
        (parts, distance == 0)
    }

    /// Begins the request that continues the last one, within [`CONTINUED_MAX`]; otherwise the
    /// oldest.
    fn begin(&mut self, now: Instant) {
        if self.active.is_some() {
            return;
        }
        let continues = |(_, request, _): &(RequestId, Request, Instant)| {
            request.sector * SECTOR_BYTES == self.head
        };
        let index = self.queue.iter().position(continues);
        let next = match index {
            Some(index) if self.continued < CONTINUED_MAX => {
                self.continued += 1;
                self.queue.remove(index)
            }
            _ => {
                self.continued = 0;
                self.queue.pop_front()
            }
        };
        let Some((id, request, arrived)) = next else {
            return;
        };
        let started = now.max(arrived);
        let (parts, is_sequential) = self.serve(&request);
        self.active = Some(Completion {
            id,
            request,
            started,
            ended: started + headlong_vdisk::service(&parts),
            parts,
            is_sequential,
        });
    }
}

fn model_duration(length: Duration) -> headlong_units::Duration {
    headlong_units::Duration(length.as_nanos() as u64)
}

impl headlong_drive::Drive for Drive {
    fn capacity_sectors(&self) -> u64 {
        self.model.capacity_bytes / SECTOR_BYTES
    }

    fn queue_depth(&self) -> usize {
        QUEUE_MAX
    }

    fn handle_request(
        &mut self,
        now: Instant,
        id: RequestId,
        request: Request,
    ) -> Result<(), Refusal> {
        if request.end() > self.capacity_sectors() {
            return Err(Refusal::OutOfRange);
        }
        if self.queue.len() == QUEUE_MAX {
            return Err(Refusal::QueueFull);
        }
        self.queue.push_back((id, request, now));
        self.begin(now);
        Ok(())
    }

    fn handle_timeout(&mut self, now: Instant) {
        while let Some(active) = self.active.take_if(|active| active.ended <= now) {
            self.done.push_back(active);
            self.begin(active.ended);
        }
    }

    fn poll_completion(&mut self) -> Option<Completion> {
        self.done.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.active.map(|active| active.ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: DriveModel = DriveModel {
        capacity_bytes: 1 << 30,
        ..DriveModel::WD_RED
    };

    fn request(offset: u64, length: u64) -> Request {
        Request {
            sector: offset / SECTOR_BYTES,
            sectors: (length / SECTOR_BYTES) as u32,
            direction: headlong_drive::Direction::Read,
        }
    }

    fn service(drive: &mut Drive, offset: u64, length: u64) -> Duration {
        let (parts, _) = drive.serve(&request(offset, length));
        Duration::from_nanos(headlong_vdisk::service(&parts).0)
    }

    #[test]
    fn continued_read_costs_transfer_only() {
        let mut drive = Drive::new(MODEL);
        service(&mut drive, 0, 1 << 20);
        let time = service(&mut drive, 1 << 20, 1 << 20);
        assert_eq!(time, MODEL.transfer_time(1 << 20));
    }

    #[test]
    fn seek_time_grows_with_distance() {
        let distances = [1, 1 << 10, 1 << 20, 1 << 25, 1 << 29, 1 << 30];
        let times = distances.map(|distance| MODEL.seek_time(distance));
        assert!(times.is_sorted(), "{times:?}");
        assert!(times[0] >= MODEL.settle);
        assert_eq!(times[5], MODEL.full_stroke);
        assert_eq!(MODEL.seek_time(1 << 40), MODEL.full_stroke);
    }

    #[test]
    fn serves_one_request_at_a_time_continuing_first() {
        use headlong_drive::Drive as _;
        let mut drive = Drive::new(MODEL);
        let places = [512 << 20, 100 << 20, (512 << 20) + 4096];
        for (id, place) in (0..).zip(places) {
            let taken = drive.handle_request(Instant(0), RequestId(id), request(place, 4096));
            assert_eq!(taken, Ok(()));
        }
        drive.handle_timeout(Instant(1_000_000_000));
        let done: Vec<Completion> = std::iter::from_fn(|| drive.poll_completion()).collect();
        assert_eq!(
            done.iter().map(|one| one.id.0).collect::<Vec<_>>(),
            [0, 2, 1]
        );
        assert!(done.windows(2).all(|pair| pair[0].ended == pair[1].started));
    }
}
