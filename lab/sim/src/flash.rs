//! Setup of a flash tier, empty or with the content of a long-running one ([`WarmContent`]).

use headlong_drive::DriveSpec;

pub use crate::warm_flash::WarmContent;

/// Setup of a tier.
#[derive(Debug, Clone, PartialEq)]
pub struct FlashSetup {
    /// Model of the SSDs, the same for all.
    pub drive: DriveSpec,
    /// Number of SSDs.
    pub ssds: u16,
    /// Bytes used of each.
    pub bytes: u64,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Whether the tier starts with the content of a long-running one.
    pub is_warm: bool,
    /// Initial content; the experiment computes it if the tier is warm.
    pub content: WarmContent,
}

#[cfg(test)]
mod tests {
    use headlong_device::flash::{FlashResult, SsdJob};
    use headlong_engine::EngineConfig;
    use headlong_flash::SsdId;
    use headlong_units::Instant;

    use super::*;
    use crate::tier::SimulatedTier;

    #[test]
    fn ssd_answers_probe() {
        let setup = FlashSetup {
            drive: headlong_drive::preset("ssd-ocz-core-v2").expect("known"),
            ssds: 1,
            bytes: 4 << 30,
            block_bytes: 16 << 20,
            is_warm: false,
            content: WarmContent::default(),
        };
        let piece_bytes = EngineConfig::default().piece_bytes;
        let mut tier = SimulatedTier::new(1, piece_bytes, &setup, false).expect("a valid tier");
        tier.submit(Instant::ZERO, 0, SsdId(0), SsdJob::Probe(SsdId(0)));
        assert!(tier.take_ended(0).is_none(), "it takes time");
        while let Some(at) = tier.poll_timeout() {
            tier.handle_timeout(at);
            if let Some(end) = tier.take_ended(0) {
                assert!(matches!(end, FlashResult::Probed { ssd: SsdId(0), .. }));
                return;
            }
        }
        panic!("no answer");
    }
}
