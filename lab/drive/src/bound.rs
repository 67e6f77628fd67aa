//! Upper bounds on the performance of a drive, for bounds on servers.
//!
//! In any order of requests, a byte on the medium crosses a head once for each time it is read, at
//! the speed of its track, and a head that moves over more than a cylinder transfers no wanted data
//! for at least the shortest seek. Everything else (longer seeks, rotation, overhead) only adds
//! time.

use alloc::vec;
use alloc::vec::Vec;

use crate::hard::{HardDriveSpec, track_bytes_by_zone};
use crate::{DriveSpec, SECTOR_BYTES};

/// The best performance of a medium.
#[derive(Debug, Clone, PartialEq)]
pub struct MediumLimits {
    /// First byte of each zone, and bytes per second under one head within a track of it.
    zones: Vec<(u64, f64)>,
    /// Arms that work concurrently.
    pub arms: u32,
    /// Bytes of the largest cylinder; two addresses further apart are in different cylinders.
    pub cylinder_bytes_max: u64,
    /// Shortest time without wanted data when moving over more than a cylinder, seconds: a seek, or
    /// reading all that lies between.
    pub seek_s: f64,
    /// The drive's own read cache.
    pub cache_bytes: u64,
}

impl MediumLimits {
    /// Transfer rate at a byte address, bytes per second.
    pub fn rate_at(&self, byte: u64) -> f64 {
        let behind = self.zones.partition_point(|(from, _)| *from <= byte);
        let zone = self.zones.get(behind.saturating_sub(1));
        zone.map_or(f64::INFINITY, |(_, rate)| *rate)
    }

    /// Least transfer time of bytes from an address on, seconds; uses the faster of the rates at
    /// both ends, because zones only get slower towards the end of an arm's range.
    pub fn seconds_for(&self, from: u64, bytes: u64) -> f64 {
        let rate = self
            .rate_at(from)
            .max(self.rate_at(from + bytes.saturating_sub(1)));
        bytes as f64 / rate
    }
}

impl DriveSpec {
    /// The best read performance of a drive of this kind.
    pub fn medium(&self) -> MediumLimits {
        match self {
            Self::HardDrive(spec) => of_disk(spec),
            Self::DualActuator(spec) => {
                let half = of_disk(&spec.half);
                let offset = spec.half.capacity_bytes / SECTOR_BYTES * SECTOR_BYTES;
                let second = half.zones.iter().map(|(from, rate)| (from + offset, *rate));
                let zones = half.zones.iter().copied().chain(second).collect();
                MediumLimits {
                    zones,
                    arms: 2,
                    cache_bytes: 2 * half.cache_bytes,
                    ..half
                }
            }
            Self::SolidState(spec) => MediumLimits {
                zones: vec![(0, spec.read.bytes_per_s.max(1) as f64)],
                arms: 1,
                cylinder_bytes_max: 0,
                seek_s: 0.0,
                cache_bytes: 0,
            },
        }
    }
}

fn of_disk(spec: &HardDriveSpec) -> MediumLimits {
    let turns_per_s = 1e9 / spec.turn_ns() as f64;
    let tracks = track_bytes_by_zone(spec);
    let rates = tracks
        .iter()
        .map(|(from, bytes)| (*from, *bytes as f64 * turns_per_s));
    let track_bytes_max = tracks.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
    let heads = spec.heads.max(1);
    MediumLimits {
        zones: rates.collect(),
        arms: 1,
        cylinder_bytes_max: track_bytes_max * u64::from(heads),
        seek_s: spec.seek.least_ns().min(spec.turn_ns() * u64::from(heads)) as f64 / 1e9,
        cache_bytes: u64::from(spec.read_cache.segments) * spec.read_cache.segment_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Direction, Request, RequestId, presets};
    use headlong_units::Instant;

    /// Seconds to read `bytes` from a sector on, 1 MiB at a time, with up to four outstanding.
    fn read_on(spec: &DriveSpec, sector: u64, bytes: u64) -> f64 {
        const SECTORS: u32 = 2048;
        let mut drive = spec.build();
        let count = bytes / SECTOR_BYTES / u64::from(SECTORS);
        let outstanding = drive.queue_depth().min(4) as u64;
        let (mut asked, mut done, mut now) = (0, 0, Instant::ZERO);
        while done < count {
            while asked < count && asked < done + outstanding {
                let request = Request {
                    sector: sector + asked * u64::from(SECTORS),
                    sectors: SECTORS,
                    direction: Direction::Read,
                };
                let taken = drive.handle_request(now, RequestId(asked), request);
                taken.expect("room in the queue");
                asked += 1;
            }
            while drive.poll_completion().is_some() {
                done += 1;
            }
            if let Some(next) = drive.poll_timeout() {
                now = now.max(next);
                drive.handle_timeout(now);
            }
        }
        now.0 as f64 / 1e9
    }

    #[test]
    fn no_drive_reads_faster_than_its_medium() {
        for known in presets() {
            let spec = known.spec();
            let medium = spec.medium();
            for part in [0.0, 0.3, 0.9] {
                let from = (spec.capacity_bytes() as f64 * part) as u64;
                let bytes = 256 << 20;
                let took = read_on(&spec, from / SECTOR_BYTES, bytes);
                let least = medium.seconds_for(from, bytes);
                let name = known.name;
                assert!(took >= least * 0.999, "{name} at {part}: {took} < {least}");
                if spec.rpm().is_some() {
                    assert!(took <= least * 1.3, "{name} at {part}: {took}, {least}");
                }
            }
        }
    }

    #[test]
    fn zones_are_consecutive_and_get_slower() {
        let medium = crate::preset("wd-red-wd10efrx").expect("known").medium();
        assert_eq!(medium.zones[0].0, 0);
        let falls = medium
            .zones
            .windows(2)
            .all(|z| z[0].0 < z[1].0 && z[0].1 >= z[1].1);
        assert!(falls);
        let outer = medium.rate_at(0) / 1e6;
        assert!((133.0..160.0).contains(&outer), "{outer}");
        assert_eq!((medium.arms, medium.cache_bytes), (1, 32 << 20));
    }
}
