//! Whether an SSD that failed is well again.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use headlong_flash::format::PROBE_PLACE;
use headlong_flash::{Probed, RECORD_ALIGN_BYTES};

use super::medium::Medium;
use super::random::random;
use super::ssd::Ssd;
use super::stopwatch::Stopwatch;

/// Bytes that are read: as many as a reply has read at a time.
const READ_BYTES: u64 = 1 << 20;

/// A probe that fails.
pub(super) const FAILED: Probed = Probed {
    reads: false,
    writes: false,
    took: None,
};

/// Looks on a thread of its own, and says what it found and how long the SSD took.
pub(super) fn probe(ssd: &Ssd, say: impl FnOnce(Probed, Duration) + Send + 'static) {
    let (medium, tier) = (Arc::clone(&ssd.medium), ssd.tier);
    let is_other = Arc::clone(&ssd.is_other);
    ssd.prober.run(move || {
        let stopwatch = Stopwatch::start();
        let is_ours = match medium.has(&tier) {
            Err(_) => medium.reopen(&tier),
            Ok(is_ours) => {
                if is_ours {
                    is_other.store(false, Ordering::Relaxed);
                } else if !is_other.swap(true, Ordering::Relaxed) {
                    tracing::error!(
                        ssd = %medium.path.display(),
                        "something else is on the SSD than was: it is left alone until that is \
                         back; or format it anew and start the server anew"
                    );
                }
                is_ours
            }
        };
        let layout = tier.layout;
        let block = (random() % u64::from(layout.block_count())) as u32;
        let reads = is_ours
            && layout
                .block_start(block)
                .is_some_and(|at| read(&medium, at));
        let writes = reads && write(&medium).is_ok_and(|is_kept| is_kept);
        let probed = Probed {
            reads,
            writes,
            took: None,
        };
        say(probed, stopwatch.elapsed());
    });
}

fn read(medium: &Medium, at: u64) -> bool {
    let bytes = READ_BYTES.min(medium.bytes.saturating_sub(at));
    medium.read(at, &mut vec![0; bytes as usize]).is_ok()
}

/// Whether what is written is kept.
fn write(medium: &Medium) -> io::Result<bool> {
    let number = random().to_le_bytes();
    let written = number.repeat(RECORD_ALIGN_BYTES as usize / number.len());
    medium.write(PROBE_PLACE, &written)?;
    medium.file().sync_data()?;
    let mut found = vec![0; written.len()];
    medium.read(PROBE_PLACE, &mut found)?;
    Ok(found == written)
}
