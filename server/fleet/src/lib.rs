//! Several servers that are one service: the description of a fleet, and the configuration of the
//! balancer before it.
//!
//! Start at [`Fleet::read`]. A balancer hashes requests by *title* ([`TitleRule`]), so that all
//! requests for one title reach one box, whatever token precedes the path. No service of its own
//! runs: the description is a file, and everything made of it is text.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod agent;
mod balancer;
mod expected_work;
mod fleet;
mod haproxy;
mod hash_ring;
mod nginx;
mod placed_titles;
mod plan;
mod popularity;
mod rendezvous;
mod steering;
mod title_hash;
mod title_order;

pub use agent::{AgentAnswer, BearableShare, DiskSample};
pub use balancer::{Balancer, BalancingRule};
pub use fleet::{Fleet, FleetBox, FleetDisk, TitleRule};
pub use placed_titles::PlacedTitles;
pub use plan::{
    CopyStep, DiskId, DiskLoad, Plan, PlanChanges, PlanDemand, PlanDisk, PlanTitle, plan,
};
pub use steering::{Pathway, PathwayOrder, Steering};
pub use title_hash::title_hash;
pub use title_order::TitleOrder;
