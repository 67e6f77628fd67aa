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
    use headlong_device::flash::{FlashEnd, SsdJob};
    use headlong_engine::EngineConfig;
    use headlong_flash::SsdId;
    use headlong_units::Instant;

    use super::*;
    use crate::tier::Tier;

    #[test]
    fn an_ssd_that_is_probed_answers() {
        let setup = FlashSetup {
            drive: headlong_drive::preset("ssd-ocz-core-v2").expect("known"),
            ssds: 1,
            bytes: 4 << 30,
            block_bytes: 16 << 20,
            is_warm: false,
            content: WarmContent::default(),
        };
        let piece_bytes = EngineConfig::default().piece_bytes;
        let mut tier = Tier::new(1, piece_bytes, &setup, false).expect("a tier that can be");
        tier.submit(Instant::ZERO, 0, SsdId(0), SsdJob::Probe(SsdId(0)));
        assert!(tier.take_ended(0).is_none(), "it takes time");
        while let Some(at) = tier.poll_timeout() {
            tier.handle_timeout(at);
            if let Some(end) = tier.take_ended(0) {
                assert!(matches!(end, FlashEnd::Probed { ssd: SsdId(0), .. }));
                return;
            }
        }
        panic!("no answer");
    }
}
