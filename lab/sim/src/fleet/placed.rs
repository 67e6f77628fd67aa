//! A fleet whose titles live where a plan puts them, and what the plan expects of each disk.
//!
//! The plan is that of `headlong fleet plan` for the catalogue, its popularity, the boxes and their
//! drives; the balancer has the keys that `headlong fleet config --places` writes.

use std::collections::BTreeMap;

use headlong_drive::{DriveSpec, random_rate};
use headlong_engine::{DriveTimes, EngineConfig, SteadyState};
use headlong_fleet::{DiskId, DiskLoad, Fleet, FleetBox, FleetDisk, PlanDemand, PlanTitle, plan};
use headlong_units::{BitRate, Duration, MIB};
use headlong_workload::{Catalogue, Specification};

use crate::fleet::setup::FleetSetup;
use crate::setup::{SetupError, WorldSetup};

/// Sizes of the random reads by which the times of a drive are measured, as a probe of a real one
/// does, and their number.
const READ_BYTES: (u64, u64) = (MIB, 8 * MIB);
const READS: u64 = 400;
/// Viewers by whom the parts of titles that are watched are described.
const VIEWERS: usize = 20;

/// What a plan expects of a disk.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ExpectedDisk {
    pub(crate) id: DiskId,
    pub(crate) load: DiskLoad,
    pub(crate) work: SteadyState,
}

/// The places of titles by a plan.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct PlacedFleet {
    /// The disk of each title's first copy, out of those of all boxes, by number of title.
    pub(crate) disks: Vec<u32>,
    /// The disks of further copies.
    pub(crate) further: BTreeMap<u32, Vec<u32>>,
    /// Hashes of the keys of each title, by the hash of the title.
    pub(crate) keys: BTreeMap<u32, Vec<u32>>,
    pub(crate) expected: Vec<ExpectedDisk>,
}

/// The times of a drive of this kind: a line through random reads of two sizes, one at a time.
fn drive_times(drive: &DriveSpec) -> DriveTimes {
    let seconds = |bytes: u64| bytes as f64 / random_rate(&mut *drive.build(), bytes, READS, 1);
    let (few, many) = READ_BYTES;
    let (short, long) = (seconds(few), seconds(many));
    let per_mib = (long - short) / ((many - few) / MIB) as f64;
    let reposition = (short - per_mib * (few / MIB) as f64).max(0.0);
    DriveTimes {
        reposition: Duration((reposition * 1e9) as u64),
        transfer_per_mib: Duration((per_mib * 1e9) as u64),
    }
}

/// The titles of a plan, and the mean bit rate of what viewers read. All renditions of a work are
/// one title, and each is read as much as another.
fn plan_titles(
    catalogue: &Catalogue,
    specification: &Specification,
) -> Result<(Vec<PlanTitle>, BitRate), SetupError> {
    let shares = catalogue.session_shares(specification);
    let shares = shares.ok_or(SetupError::NotPlanned)?;
    let mut titles = Vec::new();
    let (mut bytes_read, mut seconds_read) = (0.0, 0.0);
    for first in catalogue.titles.iter().filter(|title| title.rendition == 0) {
        let renditions = catalogue.renditions(first);
        let bytes = renditions.iter().map(|title| title.file_bytes).sum();
        let share = shares[first.number as usize];
        let heat = share * bytes as f64 / renditions.len() as f64;
        bytes_read += heat;
        seconds_read += share * first.duration.as_secs_f64();
        titles.push(PlanTitle {
            name: first.number.to_string(),
            bytes,
            heat,
        });
    }
    let bit_rate = bytes_read * 8.0 / seconds_read.max(f64::MIN_POSITIVE);
    Ok((titles, BitRate(bit_rate as u64)))
}

impl PlacedFleet {
    /// Plans a fleet of boxes with `capacity_bytes` for titles on each disk, and a demand of
    /// `bytes_per_s`; `hashes` are those of [`FleetSetup::hashes`].
    ///
    /// # Errors
    /// If a title finds no room, or titles have no fixed popularity.
    pub(crate) fn new(
        fleet: &FleetSetup,
        setup: &WorldSetup,
        (drive, capacity_bytes): (&DriveSpec, u64),
        (catalogue, specification, hashes): (&Catalogue, &Specification, &[u32]),
        bytes_per_s: f64,
    ) -> Result<Self, SetupError> {
        let times = drive_times(drive);
        let disk = |number: u32| FleetDisk {
            name: format!("d{number}"),
            bytes: capacity_bytes,
            bytes_per_s: MIB * 1_000_000_000 / times.transfer_per_mib.0.max(1),
            reposition: times.reposition,
            root: String::new(),
        };
        let boxes = fleet.boxes.iter().map(|one| FleetBox {
            memory_bytes: setup.engine.memory_bytes,
            disks: (0..setup.disks).map(disk).collect(),
            ..one.clone()
        });
        let described = Fleet {
            replicas: fleet.replicas,
            boxes: boxes.collect(),
            ..Fleet::default()
        };
        let (titles, bit_rate) = plan_titles(catalogue, specification)?;
        let part = |viewer: usize| {
            let share = (viewer as f64 + 0.5) / VIEWERS as f64;
            specification.viewing.fraction.law.quantile(share)
        };
        let watched = (0..VIEWERS).map(part);
        let demand = PlanDemand {
            replicas: fleet.replicas,
            bytes_per_s,
            bit_rate,
            watched: watched.collect(),
        };
        let planned = plan(described.disks(&[]), &titles, &demand);
        let engine = EngineConfig {
            request_bytes_max: setup.request_bytes_max,
            ..setup.engine
        };
        let work = planned.expected_work(&titles, &demand, &engine);
        let disks = planned.disks.iter().zip(&planned.loads).zip(work);
        let expected = disks.map(|((disk, load), work)| ExpectedDisk {
            id: disk.id.clone(),
            load: *load,
            work,
        });
        let ids = planned.places.iter().map(|disks| {
            let ids = disks.iter().map(|disk| planned.disks[*disk].id.clone());
            ids.collect()
        });
        let ids: Vec<Vec<DiskId>> = ids.collect();
        let names = titles.iter().map(|title| title.name.as_str());
        let mut by_name = described.placed_keys(names.zip(ids.iter().map(Vec::as_slice)));
        let mut placed = Self {
            disks: vec![0; catalogue.titles.len()],
            expected: expected.collect(),
            ..Self::default()
        };
        for (title, places) in titles.iter().zip(&planned.places) {
            let first: u32 = title.name.parse().unwrap_or(0);
            let Some((disk, further)) = places.split_first() else {
                let text = format!(
                    "title {first} finds no room on {} disks; choose larger drives, more of them, \
                     or fewer titles",
                    planned.disks.len()
                );
                return Err(SetupError::Catalogue(text));
            };
            let keys = by_name.remove(&title.name).unwrap_or_default();
            placed.keys.insert(hashes[first as usize], keys);
            for rendition in catalogue.renditions(&catalogue.titles[first as usize]) {
                placed.disks[rendition.number as usize] = *disk as u32;
                if !further.is_empty() {
                    let further = further.iter().map(|disk| *disk as u32);
                    placed.further.insert(rendition.number, further.collect());
                }
            }
        }
        Ok(placed)
    }
}
