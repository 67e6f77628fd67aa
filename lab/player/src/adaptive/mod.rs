//! Players with adaptive bit rate, as for DASH and HLS and as the thesis describes Netflix's
//! (5.1.3, 5.4): a title in several renditions, a playout buffer, an adaptation rule, and a viewer
//! that pauses, skips and leaves.

mod meter;
mod plan;
mod playback;
mod player;
mod rule;
mod title;
mod window;

pub use plan::{AdaptivePlan, PlanError, PlayerConfig, RateRule, RequestExtent, ViewerAction};
pub use title::{ObjectRange, Rendition, SegmentTable, Title};

pub(crate) use player::{AdaptivePlayer, EventContext, EventTime};
