//! Health check of a failed SSD.

use alloc::vec;

use headlong_flash::format::{PROBE_PLACE, ReadFailed, SUPER_BYTES, SUPER_COPIES, SuperRecord};
use headlong_flash::{ProbeResult, RECORD_ALIGN_BYTES};

use super::medium::ProbedMedium;

/// Size of the read: the amount that a reply reads at a time.
const READ_BYTES: u64 = 1 << 20;

/// The result of a failed probe.
pub const PROBE_FAILED: ProbeResult = ProbeResult {
    reads: false,
    writes: false,
    took: None,
};

/// Checks that the SSD is still the same, returns its data and keeps a write. `number` must be
/// random for each probe. The second result: whether the SSD holds something else.
pub fn probe(medium: &mut impl ProbedMedium, number: u64) -> (ProbeResult, bool) {
    let has_tier = has_tier(medium);
    let is_ours = match has_tier {
        Ok(is_ours) => is_ours,
        Err(ReadFailed) => medium.reopen(),
    };
    let reads = is_ours && reads(medium, number);
    let writes = reads && writes(medium, number);
    let probed = ProbeResult {
        reads,
        writes,
        took: None,
    };
    (probed, has_tier == Ok(false))
}

/// Whether the SSD holds this tier.
fn has_tier(medium: &mut impl ProbedMedium) -> Result<bool, ReadFailed> {
    let (tier, bytes) = (medium.tier(), medium.bytes());
    let mut read = medium.reader();
    let mut last = Ok(false);
    for at in SUPER_COPIES {
        let mut copy = [0; SUPER_BYTES];
        match read(at, &mut copy) {
            Ok(()) if SuperRecord::decode(&copy, bytes).as_ref() == Ok(&tier) => return Ok(true),
            Ok(()) => {}
            Err(failed) => last = Err(failed),
        }
    }
    last
}

fn reads(medium: &mut impl ProbedMedium, number: u64) -> bool {
    let layout = medium.tier().layout;
    let block = (number % u64::from(layout.block_count().max(1))) as u32;
    let Some(at) = layout.block_start(block) else {
        return false;
    };
    let bytes = READ_BYTES.min(medium.bytes().saturating_sub(at));
    let mut read = medium.reader();
    read(at, &mut vec![0; bytes as usize]).is_ok()
}

/// Whether the SSD returns what was written to it.
fn writes(medium: &mut impl ProbedMedium, number: u64) -> bool {
    let number = number.to_le_bytes();
    let written = number.repeat(RECORD_ALIGN_BYTES as usize / number.len());
    if medium.write(PROBE_PLACE, &written).is_err() || medium.flush().is_err() {
        return false;
    }
    let mut found = vec![0; written.len()];
    let mut read = medium.reader();
    read(PROBE_PLACE, &mut found).is_ok() && found == written
}
