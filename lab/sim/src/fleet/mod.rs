//! A fleet in virtual time: a balancer, its boxes, and an origin for titles that a box lacks.
//!
//! The boxes are servers as in any world, and the balancer's decisions are those of
//! `headlong_fleet`. To the world and its viewers the fleet is one server.

mod description;
mod experiment;
mod figures;
mod placed;
mod pulled;
mod server;
mod setup;
mod usage;

pub use self::description::FleetSources;
pub use self::experiment::FleetExperiment;
pub use self::figures::{
    BoxFigures, FLEET_IMITATED, FLEET_SCHEMA, FleetFigures, PlannedDiskFigures,
};
pub(crate) use self::placed::PlacedFleet;
pub(crate) use self::server::FleetServer;
pub use self::setup::{BoxFailure, FleetSetup, OriginLink};
pub use self::usage::{BoxUse, FleetUse};
