//! An experiment with a fleet: its viewers, boxes, drives and failures, to be run with any balancing
//! rule and any seed.

use headlong_drive::DriveSpec;
use headlong_fleet::BalancingRule;
use headlong_units::{Duration, Instant, MIB};
use headlong_workload::specification::{ArrivalRate, TraceExtent};
use headlong_workload::{Catalogue, SessionStream, Specification};

use crate::fleet::figures::FleetFigures;
use crate::fleet::placed::PlacedFleet;
use crate::fleet::setup::FleetSetup;
use crate::setup::{SetupError, WorldSetup};
use crate::world::World;

/// An experiment with a fleet.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetExperiment {
    /// Its name.
    pub name: String,
    /// The fleet. Rule and seed are replaced by those of the run.
    pub fleet: FleetSetup,
    /// The viewers. Rate and extent are replaced by those of the run.
    pub workload: Specification,
    /// The drive of each disk.
    pub drive: DriveSpec,
    /// One box, the network and the measurement.
    pub setup: WorldSetup,
    /// What all viewers request together, MiB/s.
    pub rate_mib_s: f64,
}

impl FleetExperiment {
    /// Runs the fleet with a rule and returns its figures.
    ///
    /// # Errors
    /// If the world cannot be built.
    pub fn run(&self, rule: BalancingRule, seed: u64) -> Result<FleetFigures, SetupError> {
        let rate = ArrivalRate::Bytes(self.rate_mib_s * MIB as f64);
        let extent = TraceExtent::Time(self.length());
        let specification = self.workload.clone().at_rate(rate, extent);
        let catalogue = Catalogue::of(&specification);
        let sessions = SessionStream::new(&specification, &catalogue, seed);
        let mut setup = self.setup.clone();
        setup.identity = specification.requests.identity;
        let fleet = FleetSetup {
            rule,
            seed,
            ..self.fleet.clone()
        };
        let disks = setup.disks;
        let placed = match rule {
            BalancingRule::Placed => Some(self.place(&fleet, &catalogue, &specification)?),
            _ => None,
        };
        let drives = fleet.boxes.len() * disks as usize;
        let drives = (0..drives).map(|_| self.drive.build()).collect();
        let classes = &specification.classes;
        let placed = placed.as_ref();
        let world = World::of_fleet(setup, &fleet, placed, &catalogue, classes, sessions, drives)?;
        let seen = world.run();
        let of = (disks, self.rate_mib_s);
        let expected = placed.map_or(&[][..], |placed| &placed.expected);
        Ok(FleetFigures::new(&self.name, &fleet, of, expected, &seen))
    }

    /// Plans where the titles live.
    fn place(
        &self,
        fleet: &FleetSetup,
        catalogue: &Catalogue,
        specification: &Specification,
    ) -> Result<PlacedFleet, SetupError> {
        let space = fleet.pull_space(self.drive.capacity_bytes(), self.setup.disks);
        let hashes = FleetSetup::hashes(catalogue);
        PlacedFleet::new(
            fleet,
            &self.setup,
            (&self.drive, space.first),
            (catalogue, specification, &hashes),
            self.rate_mib_s * MIB as f64,
        )
    }

    /// From the start until the last viewers arrive.
    fn length(&self) -> Duration {
        self.setup.window.to.since(Instant::ZERO) + self.setup.ramp_down
    }
}
