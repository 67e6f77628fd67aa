//! An experiment: a workload, a drive and a setup, to be run at any rate with any seed.
//!
//! The catalogue is that of the specification and the same for every rate and seed; its files lie
//! consecutively in order of creation.

use std::collections::BTreeMap;

use headlong_drive::DriveSpec;
use headlong_player::ObjectId;
use headlong_units::{BitRate, Duration, Instant, MIB};
use headlong_workload::specification::{ArrivalRate, TraceExtent};
use headlong_workload::{Catalogue, SessionStream, Specification, Trace};

use crate::layout::{DiskArray, disk_of};
use crate::warm_flash::WarmInputs;
use crate::{LayoutFile, RunFigures, RunMeasurements, SetupError, World, WorldSetup};

/// Everything that defines a run except the rate and the seed.
#[derive(Debug, Clone)]
pub struct VirtualExperiment {
    /// The viewers. Rate and extent are replaced by those of the run.
    pub workload: Specification,
    /// The drive of each disk.
    pub drive: DriveSpec,
    /// Server, network and measurement.
    pub setup: WorldSetup,
    /// Factors on the rate and the time from which each applies; the rate stays constant if empty.
    pub steps: Vec<(Duration, f64)>,
}

impl VirtualExperiment {
    /// Runs one world until its window closes and returns its figures.
    ///
    /// # Errors
    /// If the world cannot be built.
    pub fn run(&self, rate_mib_s: f64, seed: u64) -> Result<RunFigures, SetupError> {
        let seen = self.observe(rate_mib_s, seed)?;
        Ok(RunFigures::new(rate_mib_s, seed, &seen))
    }

    /// Like [`Self::run`], with all raw observations.
    ///
    /// # Errors
    /// If the world cannot be built.
    pub fn observe(&self, rate_mib_s: f64, seed: u64) -> Result<RunMeasurements, SetupError> {
        let specification = self.specification(rate_mib_s);
        let catalogue = Catalogue::of(&specification);
        let sessions = SessionStream::new(&specification, &catalogue, seed);
        let sessions = sessions.with_steps(self.steps.iter().copied());
        let mut setup = self.setup.clone();
        let drives = (0..setup.disks).map(|_| self.drive.build()).collect();
        setup.identity = specification.requests.identity;
        if let Some(flash) = setup.flash.as_mut().filter(|flash| flash.is_warm) {
            if specification.has_adaptive_players() {
                return Err(SetupError::NotWarm);
            }
            let bytes = flash.bytes * u64::from(flash.ssds);
            let before = WarmInputs::new(&specification, seed, self.disks(), bytes);
            let found = flash.content.find(before, &catalogue);
            found.map_err(SetupError::Catalogue)?;
        }
        let world = World::drawn(setup, &catalogue, &specification.classes, sessions, drives)?;
        Ok(world.run())
    }

    /// The disks that hold the titles.
    pub(crate) fn disks(&self) -> DiskArray {
        DiskArray {
            count: self.setup.disks,
            capacity_bytes: self.drive.capacity_bytes(),
            placement: self.setup.placement,
        }
    }

    /// The workload at a rate, for the length of the run.
    pub(crate) fn specification(&self, rate_mib_s: f64) -> Specification {
        let rate = ArrivalRate::Bytes(rate_mib_s * MIB as f64);
        let length = self.setup.window.to.since(Instant::ZERO) + self.setup.ramp_down;
        self.workload
            .clone()
            .at_rate(rate, TraceExtent::Time(length))
    }
}

/// All files of a catalogue in order of creation, with their names in a trace, distributed over
/// `disks` disks.
pub fn files_of(catalogue: &Catalogue, trace: &Trace, disks: u32) -> Vec<LayoutFile> {
    let named: BTreeMap<&str, ObjectId> = trace
        .objects
        .iter()
        .zip(0..)
        .map(|(path, index)| (path.as_str(), ObjectId(index)))
        .collect();
    let titles = catalogue.creation_order.iter();
    let titles = titles.filter_map(|number| catalogue.titles.get(*number as usize));
    let files = titles.flat_map(|title| {
        let bit_rate = BitRate(title.bit_rate() as u64);
        (0..)
            .zip(catalogue.files(title))
            .map(move |(place, file)| (file, place, bit_rate))
    });
    let is_split = catalogue.form.is_split();
    files
        .map(|(file, place, bit_rate)| LayoutFile {
            object: named.get(file.path.as_str()).copied(),
            size_bytes: file.range.len(),
            bit_rate: Some(bit_rate),
            part: is_split.then_some((file.title, place)),
            disk: disk_of(file.title, disks),
        })
        .collect()
}
