//! Disk geometry: zones of tracks, and the time at which each sector passes the head.
//!
//! *Stream time* is when a head that reads the whole disk in order without ever stopping reaches a
//! sector. It is at once a position and an angle: sectors `a` and `b` are `stream(b) - stream(a)`
//! apart for a drive that reads sequentially, and `stream(a)` modulo one turn is the angle of `a`,
//! because the skew between tracks equals the time of a switch. Rotation and transfer are then
//! arithmetic on one number, in whole nanoseconds, whatever range a request spans.

use alloc::vec::Vec;

use super::spec::HardDriveSpec;
use crate::SECTOR_BYTES;

/// Tracks of equal length.
#[derive(Debug, Clone, Copy)]
struct Zone {
    sector: u64,
    cylinder: u64,
    stream_ns: u64,
    sectors_per_track: u64,
}

/// A track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Track {
    /// Number from the outer edge.
    pub(crate) cylinder: u64,
    /// Number within the cylinder, `0..heads`.
    pub(crate) head: u64,
}

/// The layout of one drive.
#[derive(Debug, Clone)]
pub(crate) struct Geometry {
    zones: Vec<Zone>,
    /// Zones have about the same number of sectors; gives the first guess of a zone's index.
    zones_per_sector: f64,
    sectors: u64,
    stroke_per_cylinder: f64,
    heads: u64,
    turn_ns: u64,
    head_switch_ns: u64,
    cylinder_switch_ns: u64,
}

impl Geometry {
    /// The layout of a specification. Zones are whole cylinders, so a small drive has fewer of
    /// them.
    pub(crate) fn new(spec: &HardDriveSpec) -> Self {
        let heads = u64::from(spec.heads.max(1));
        let head_switch_ns = u64::from(spec.head_switch_us) * 1_000;
        let mut geometry = Self {
            zones: Vec::new(),
            zones_per_sector: 0.0,
            sectors: (spec.capacity_bytes / SECTOR_BYTES).max(1),
            stroke_per_cylinder: 0.0,
            heads,
            turn_ns: spec.turn_ns(),
            head_switch_ns,
            cylinder_switch_ns: u64::from(spec.cylinder_switch_us) * 1_000,
        };
        let count = u64::from(spec.zones.clamp(1, 1_000));
        let mut sector = 0;
        let (mut cylinder, mut stream_ns) = (0, 0);
        for index in 0..count {
            if sector >= geometry.sectors {
                break;
            }
            let sectors_per_track = geometry.sectors_per_track(spec.zone_rate(index, count));
            let per_cylinder = sectors_per_track * heads;
            let end = part(geometry.sectors, index + 1, count);
            let wanted = end.saturating_sub(sector);
            let cylinders = if index + 1 == count {
                wanted.div_ceil(per_cylinder)
            } else {
                (wanted + per_cylinder / 2) / per_cylinder
            };
            if cylinders == 0 {
                continue;
            }
            geometry.zones.push(Zone {
                sector,
                cylinder,
                stream_ns,
                sectors_per_track,
            });
            sector += cylinders * per_cylinder;
            cylinder += cylinders;
            stream_ns += cylinders * geometry.cylinder_ns();
        }
        geometry.stroke_per_cylinder = 1.0 / (cylinder.max(2) - 1) as f64;
        geometry.zones_per_sector = geometry.zones.len() as f64 / sector.max(1) as f64;
        geometry
    }

    /// Sectors of a track such that a whole cylinder, switches included, streams at this rate.
    fn sectors_per_track(&self, bytes_per_s: u64) -> u64 {
        let bytes = u128::from(bytes_per_s) * u128::from(self.cylinder_ns()) / 1_000_000_000;
        let per_track = u128::from(self.heads * SECTOR_BYTES);
        u64::try_from((bytes + per_track / 2) / per_track).map_or(1 << 24, |n| n.clamp(1, 1 << 24))
    }

    /// Time to stream a whole cylinder and switch to the next.
    fn cylinder_ns(&self) -> u64 {
        self.heads * self.turn_ns + (self.heads - 1) * self.head_switch_ns + self.cylinder_switch_ns
    }

    /// First sector of each zone, and sectors of a track in it.
    pub(crate) fn zones(&self) -> impl Iterator<Item = (u64, u64)> {
        let zones = self.zones.iter();
        zones.map(|zone| (zone.sector, zone.sectors_per_track))
    }

    /// Sectors of the drive.
    pub(crate) fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Time of a switch between heads of a cylinder.
    pub(crate) fn head_switch_ns(&self) -> u64 {
        self.head_switch_ns
    }

    /// The distance between two cylinders, as a fraction of the full stroke.
    pub(crate) fn stroke(&self, from: u64, to: u64) -> f64 {
        from.abs_diff(to) as f64 * self.stroke_per_cylinder
    }

    fn zone_of(&self, sector: u64) -> &Zone {
        let guess = (sector as f64 * self.zones_per_sector) as usize;
        self.last_zone(guess, |zone| zone.sector <= sector)
    }

    /// The last zone for which `begins` holds, searched from a guess. The first begins at sector 0
    /// and time 0, so there always is one.
    fn last_zone(&self, guess: usize, begins: impl Fn(&Zone) -> bool) -> &Zone {
        let mut index = guess.min(self.zones.len() - 1);
        while index > 0 && !begins(&self.zones[index]) {
            index -= 1;
        }
        while self.zones.get(index + 1).is_some_and(&begins) {
            index += 1;
        }
        &self.zones[index]
    }

    /// Cylinder and head of a sector.
    pub(crate) fn place(&self, sector: u64) -> Track {
        let zone = self.zone_of(sector);
        let track = (sector - zone.sector) / zone.sectors_per_track;
        Track {
            cylinder: zone.cylinder + track / self.heads,
            head: track % self.heads,
        }
    }

    /// Stream time of a sector: when its first bit passes the head of a drive that started to read
    /// at sector 0 at time 0 and never stopped.
    pub(crate) fn stream_ns(&self, sector: u64) -> u64 {
        self.stream_ns_in(self.zone_of(sector), sector)
    }

    fn stream_ns_in(&self, zone: &Zone, sector: u64) -> u64 {
        let within = sector - zone.sector;
        let track = within / zone.sectors_per_track;
        let in_track = within % zone.sectors_per_track;
        let cylinder = track / self.heads;
        let head = track % self.heads;
        zone.stream_ns
            + cylinder * self.cylinder_ns()
            + head * (self.turn_ns + self.head_switch_ns)
            + in_track * self.turn_ns / zone.sectors_per_track
    }

    /// Stream time at which the last bit before `sector` has passed: unlike [`Self::stream_ns`]
    /// without the switch to the track of `sector`.
    pub(crate) fn stream_end_ns(&self, sector: u64) -> u64 {
        let Some(last) = sector.checked_sub(1) else {
            return 0;
        };
        let zone = self.zone_of(last);
        self.stream_ns_in(zone, last) + self.turn_ns.div_ceil(zone.sectors_per_track)
    }

    /// The sector under the head at a stream time.
    pub(crate) fn sector_at(&self, stream_ns: u64) -> u64 {
        // Inner zones have fewer sectors per turn, so the right index exceeds the guess by one or
        // two.
        let guess = self.zones.last().map_or(0.0, |last| {
            stream_ns as f64 / last.stream_ns.max(1) as f64 * self.zones.len() as f64
        });
        let zone = self.last_zone(guess as usize, |zone| zone.stream_ns <= stream_ns);
        let within = stream_ns - zone.stream_ns;
        let cylinder = within / self.cylinder_ns();
        let rest = within % self.cylinder_ns();
        let track_ns = self.turn_ns + self.head_switch_ns;
        let head = (rest / track_ns).min(self.heads - 1);
        let in_track = ((rest - head * track_ns) * zone.sectors_per_track / self.turn_ns)
            .min(zone.sectors_per_track);
        let track = cylinder * self.heads + head;
        (zone.sector + track * zone.sectors_per_track + in_track).min(self.sectors)
    }

    /// Angle of a sector of this stream time, in time from the start of the turn.
    pub(crate) fn angle_ns(&self, stream_ns: u64) -> u64 {
        stream_ns % self.turn_ns
    }

    /// Rotational delay from `now_ns` to a sector at this angle.
    pub(crate) fn rotation_ns(&self, angle_ns: u64, now_ns: u64) -> u64 {
        let spindle = now_ns % self.turn_ns;
        if angle_ns >= spindle {
            angle_ns - spindle
        } else {
            angle_ns + self.turn_ns - spindle
        }
    }
}

/// `index` parts out of `count` of `whole`, rounded down.
fn part(whole: u64, index: u64, count: u64) -> u64 {
    u64::try_from(u128::from(whole) * u128::from(index) / u128::from(count)).unwrap_or(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hard::spec::tests::small_drive;
    use proptest::prelude::*;

    #[test]
    fn zone_streams_at_specified_rate() {
        let spec = small_drive();
        let geometry = Geometry::new(&spec);
        let sectors = 100 << 11;
        let span = geometry.stream_ns(sectors) - geometry.stream_ns(0);
        let rate = (sectors * SECTOR_BYTES) as f64 / span as f64 * 1e9;
        let asked = spec.rates.outer_bytes_per_s as f64;
        assert!((rate / asked - 1.0).abs() < 0.01, "{rate} {asked}");
    }

    #[test]
    fn sector_passes_head_once_per_turn() {
        let geometry = Geometry::new(&small_drive());
        let sector_ns = geometry.stream_ns(12_345);
        let angle_ns = geometry.angle_ns(sector_ns);
        let wait = geometry.rotation_ns(angle_ns, 1_000_000);
        assert!(wait < geometry.turn_ns);
        assert_eq!(geometry.rotation_ns(angle_ns, 1_000_000 + wait), 0);
        assert_eq!(
            geometry.rotation_ns(angle_ns, 1_000_000 + wait + geometry.turn_ns),
            0
        );
    }

    proptest! {
        #[test]
        fn stream_time_is_increasing_and_invertible(a in 0u64..1_900_000, step in 1u64..99_000) {
            let geometry = Geometry::new(&small_drive());
            let here = geometry.stream_ns(a);
            prop_assert!(geometry.stream_ns(a + step) > here);
            prop_assert!(geometry.stream_end_ns(a + 1) > here);
            prop_assert!(geometry.stream_end_ns(a + 1) <= geometry.stream_ns(a + 1) + 1);
            let found = geometry.sector_at(here);
            prop_assert!(found == a || found + 1 == a, "{} {}", found, a);
        }
    }
}
