//! What is on an SSD at the start: by the index that a clean stop saved, or by its summaries.

use std::io;
use std::ops::Range;
use std::time::{SystemTime, UNIX_EPOCH};

use headlong_flash::format::{
    INDEX_HEAD_BYTES, IndexHead, Summary, Super, decode_index, encode_index, scan,
};

use super::medium::Medium;

/// Blocks are looked at by so many at once: an SSD answers them side by side.
const SCANS: u32 = 16;

/// Takes the saved index, if there is one, and takes it away from the SSD, which will differ from it
/// soon. To be called before anything is written.
pub(super) fn take_index(medium: &Medium, tier: &Super) -> io::Result<Option<Vec<Summary>>> {
    let (at, _) = tier.layout.index_place();
    let mut head = vec![0; INDEX_HEAD_BYTES];
    medium.read(at, &mut head)?;
    if head.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let summaries = read_index(medium, tier, at, &head);
    medium.write(at, &vec![0; INDEX_HEAD_BYTES])?;
    medium.file().sync_data()?;
    Ok(summaries)
}

fn read_index(medium: &Medium, tier: &Super, at: u64, head: &[u8]) -> Option<Vec<Summary>> {
    let head = IndexHead::decode(head, tier.device, &tier.layout)?;
    let mut body = vec![0; usize::try_from(head.body_bytes).ok()?];
    let part = 4 << 20;
    for (number, part_of) in body.chunks_mut(part).enumerate() {
        let at = at + (INDEX_HEAD_BYTES + number * part) as u64;
        medium.read(at, part_of).ok()?;
    }
    decode_index(&head, &body, tier.device, &tier.layout)
}

/// Saves the index, so that the next start need not look at every block. Nothing may be written to
/// blocks after it.
pub(super) fn save_index(medium: &Medium, tier: &Super) -> io::Result<()> {
    let found = look_at_all(medium, tier, 0..tier.layout.block_count());
    let encoded = encode_index(found.iter(), tier.device, &tier.layout);
    let Some((head, body)) = encoded else {
        return Ok(());
    };
    let (at, _) = tier.layout.index_place();
    let part = 4 << 20;
    for (number, bytes) in body.chunks(part).enumerate() {
        let at = at + (INDEX_HEAD_BYTES + number * part) as u64;
        medium.write(at, bytes)?;
    }
    medium.file().sync_data()?;
    medium.write(at, &head)?;
    medium.file().sync_data()
}

/// The summaries of blocks, in order.
pub(super) fn look_at_all(medium: &Medium, tier: &Super, blocks: Range<u32>) -> Vec<Summary> {
    let share = (blocks.end.saturating_sub(blocks.start))
        .div_ceil(SCANS)
        .max(1);
    std::thread::scope(|scope| {
        let starts = blocks.clone().step_by(share as usize);
        let scans: Vec<_> = starts
            .map(|start| {
                let blocks = start..(start + share).min(blocks.end);
                let job = move || scan(tier, blocks, medium.reader());
                std::thread::Builder::new().spawn_scoped(scope, job)
            })
            .collect();
        let mut summaries = Vec::new();
        for thread in scans {
            let found = thread.ok().and_then(|thread| thread.join().ok());
            summaries.extend(found.unwrap_or_default().summaries);
        }
        summaries
    })
}

/// Seconds since 1970.
pub(super) fn now_s() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}

/// Blocks sealed within the last day: what the budget of writes has lost already. One that says that
/// it was sealed in the future counts too.
pub(super) fn sealed_lately(summaries: &[Summary]) -> u64 {
    let day_before = now_s().saturating_sub(24 * 3600);
    let lately = summaries
        .iter()
        .filter(|summary| summary.head.sealed_s >= day_before);
    lately.count() as u64
}
