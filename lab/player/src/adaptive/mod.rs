//! Players that adapt their bit rate, as those of DASH and HLS do, and as the thesis found Netflix's
//! (5.1.3, 5.4): a title in several renditions, a playout buffer, a rule, and a viewer with a mind
//! of its own.

mod meter;
mod plan;
mod player;
mod rule;
mod screen;
mod title;
mod window;

pub use plan::{Act, AdaptivePlan, Estimate, Make, PlanError, Probing, Rule, Shape};
pub use title::{Place, Rendition, Segments, Title};

pub(crate) use player::{AdaptivePlayer, Moment, Turn};
