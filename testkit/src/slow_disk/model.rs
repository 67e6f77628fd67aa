//! How long a request takes: a plain drive with one arm. No clock in here.
//!
//! A request that begins where the last one ended costs only its transfer. Any other pays the
//! seek, whose curve is `settle + (full - settle) * sqrt(distance / capacity)`, and half a turn
//! (or a seeded share of one turn). There are no zones, no track buffer and no command reordering.

use std::time::Duration;

use crate::seed::Seed;

/// What kind of drive. The capacity is that of the emulated file, whatever its size: a small
/// file is stretched over the whole stroke, so that its ends are as far apart as a big drive's.
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
    /// Time of one turn.
    pub turn: Duration,
    /// How long to wait for the sector to come round.
    pub rotation: Rotation,
}

/// Rotational delay of a request that does not continue the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rotation {
    /// Always half a turn.
    HalfTurn,
    /// Evenly distributed over a turn, from this seed.
    Seeded(u64),
}

impl DriveModel {
    /// About a WD10EFRX (1 TB, 5400 rpm): diskinfo measured 32.6 ms full and 18.9 ms quarter
    /// stroke and 115 MB/s in the middle (libception, Table 1); its seek figures contain half a
    /// turn, 5.6 ms, which is taken off here.
    pub const WD_RED: Self = Self {
        capacity_bytes: 1_000_000_000_000,
        bytes_per_second: 115_000_000,
        settle: Duration::from_millis(1),
        full_stroke: Duration::from_millis(27),
        turn: Duration::from_micros(11_111),
        rotation: Rotation::HalfTurn,
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

/// A drive with its arm somewhere.
#[derive(Debug, Clone)]
pub struct Drive {
    model: DriveModel,
    head: u64,
    seed: Seed,
}

impl Drive {
    /// A drive with its arm at the outer edge.
    pub fn new(model: DriveModel) -> Self {
        let seed = match model.rotation {
            Rotation::HalfTurn => 0,
            Rotation::Seeded(seed) => seed,
        };
        Self {
            model,
            head: 0,
            seed: Seed::new(seed),
        }
    }

    /// Where the last request ended.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// Serves one request and says how long that takes.
    pub fn serve(&mut self, offset: u64, length: u64) -> Duration {
        let distance = offset.abs_diff(self.head);
        self.head = offset.saturating_add(length);
        let transfer = self.model.transfer_time(length);
        if distance == 0 {
            return transfer;
        }
        let rotation = match self.model.rotation {
            Rotation::HalfTurn => self.model.turn / 2,
            Rotation::Seeded(_) => self.model.turn.mul_f64(self.seed.unit()),
        };
        self.model.seek_time(distance) + rotation + transfer
    }

    /// Moves the arm without taking time: requests served with the timing switched off.
    pub fn skip(&mut self, offset: u64, length: u64) {
        self.head = offset.saturating_add(length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: DriveModel = DriveModel {
        capacity_bytes: 1 << 30,
        ..DriveModel::WD_RED
    };

    #[test]
    fn a_continued_read_pays_its_transfer_only() {
        let mut drive = Drive::new(MODEL);
        drive.serve(0, 1 << 20);
        assert_eq!(drive.serve(1 << 20, 1 << 20), MODEL.transfer_time(1 << 20));
    }

    #[test]
    fn a_seek_grows_with_distance_up_to_the_full_stroke() {
        let distances = [1, 1 << 10, 1 << 20, 1 << 25, 1 << 29, 1 << 30];
        let times = distances.map(|distance| MODEL.seek_time(distance));
        assert!(times.is_sorted(), "{times:?}");
        assert!(times[0] >= MODEL.settle);
        assert_eq!(times[5], MODEL.full_stroke);
        assert_eq!(MODEL.seek_time(1 << 40), MODEL.full_stroke);
    }

    #[test]
    fn a_seeded_rotation_stays_within_a_turn_and_can_be_had_again() {
        let model = DriveModel {
            rotation: Rotation::Seeded(9),
            ..MODEL
        };
        let run = || {
            let mut drive = Drive::new(model);
            (1..100u64)
                .map(|n| drive.serve((n * 7_919) % 1_000 * 4096, 4096))
                .collect::<Vec<_>>()
        };
        assert_eq!(run(), run());
        let most = model.full_stroke + model.turn + model.transfer_time(4096);
        assert!(run().iter().all(|time| *time <= most));
    }
}
