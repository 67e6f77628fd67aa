//! A flash tier to be made for a world.
//!
//! It begins empty, or as after long running ([`WarmContent`]).

use headlong_drive::DriveSpec;

pub use crate::flash_kept::WarmContent;

/// A tier to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct FlashSetup {
    /// The SSDs, all of one kind.
    pub drive: DriveSpec,
    /// How many there are.
    pub ssds: u16,
    /// Bytes of each that are used.
    pub bytes: u64,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Whether it begins as after long running.
    pub is_warm: bool,
    /// What is there from the beginning; an experiment finds it if the tier is warm.
    pub content: WarmContent,
}

#[cfg(test)]
mod tests {
    use headlong_engine::{EngineConfig, FlashCommand, Shard};
    use headlong_flash::SsdId;
    use headlong_units::Instant;

    use super::*;
    use crate::tier::Tier;

    #[test]
    fn an_ssd_that_is_probed_answers() {
        let config = EngineConfig::default();
        let mut shards = [Shard::new(config).expect("settings that can work")];
        let setup = FlashSetup {
            drive: headlong_drive::preset("ssd-ocz-core-v2").expect("known"),
            ssds: 1,
            bytes: 4 << 30,
            block_bytes: 16 << 20,
            is_warm: false,
            content: WarmContent::default(),
        };
        let mut tier = Tier::attach(&mut shards, &setup, false).expect("a tier that can be");
        tier.obey(Instant::ZERO, 0, FlashCommand::Probe(SsdId(0)));
        assert!(
            !tier.tell(Instant::ZERO, 0, &mut shards[0]),
            "it takes time"
        );
        while let Some(at) = tier.poll_timeout() {
            tier.handle_timeout(at);
            if tier.tell(at, 0, &mut shards[0]) {
                return;
            }
        }
        panic!("no answer");
    }
}
