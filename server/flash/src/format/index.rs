//! The index that a clean stop saves: all summaries in one row, read back in one go.
//!
//! The head is written after the body is durable, and taken away before the next write to any block;
//! so an index that can be read is that of the SSD as it is.

use alloc::vec::Vec;

use super::bytes::{Reader, Writer, checksum};
use super::layout::Layout;
use super::summary::Summary;

/// Bytes of the head; the body follows.
pub const INDEX_HEAD_BYTES: usize = 4096;

const MAGIC: &[u8; 8] = b"HLINDEX\0";

/// What says that an index was saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexHead {
    /// Bytes of the body.
    pub body_bytes: u64,
    sum: u64,
}

/// Head and body, not padded, of an index of these summaries; `None` if the SSD has no room for it.
pub fn encode_index<'a>(
    summaries: impl Iterator<Item = &'a Summary>,
    device: u128,
    layout: &Layout,
) -> Option<(Vec<u8>, Vec<u8>)> {
    let room = layout.index_place().1 - INDEX_HEAD_BYTES as u64;
    let mut body = Vec::new();
    for summary in summaries {
        body.extend_from_slice(&summary.encode(device));
        if body.len() as u64 > room {
            return None;
        }
    }
    let mut head = Vec::with_capacity(INDEX_HEAD_BYTES);
    head.extend_from_slice(MAGIC);
    head.u32(super::FORMAT_VERSION);
    head.u32(0);
    head.u128(device);
    head.u64(body.len() as u64);
    head.u64(checksum(&[&body]));
    let sum = checksum(&[&head]);
    head.u64(sum);
    head.resize(INDEX_HEAD_BYTES, 0);
    Some((head, body))
}

impl IndexHead {
    /// The head of an index of this SSD; `None` if none was saved.
    pub fn decode(bytes: &[u8], device: u128, layout: &Layout) -> Option<Self> {
        let mut reader = Reader(bytes);
        reader.is(MAGIC)?;
        let (version, _) = (reader.u32()?, reader.u32()?);
        let whose = reader.u128()?;
        let (body_bytes, sum) = (reader.u64()?, reader.u64()?);
        let fields = bytes.len() - reader.0.len();
        let right = reader.u64()? == checksum(&[&bytes[..fields]])
            && version == super::FORMAT_VERSION
            && whose == device
            && body_bytes <= layout.index_place().1 - INDEX_HEAD_BYTES as u64;
        right.then_some(Self { body_bytes, sum })
    }
}

/// All summaries of a body; `None` if it is not the one that the head was written for.
pub fn decode_index(
    head: &IndexHead,
    body: &[u8],
    device: u128,
    layout: &Layout,
) -> Option<Vec<Summary>> {
    let mut rest = body.get(..usize::try_from(head.body_bytes).ok()?)?;
    if checksum(&[rest]) != head.sum {
        return None;
    }
    let mut summaries = Vec::new();
    while !rest.is_empty() {
        let (summary, length) = Summary::decode(rest, device, layout)?;
        rest = &rest[length..];
        summaries.push(summary);
    }
    Some(summaries)
}

#[cfg(test)]
mod tests {
    use super::super::summary::tests::{layout, summary};
    use super::*;

    #[test]
    fn an_index_is_read_as_saved_and_not_with_another_body_or_ssd() {
        let layout = layout();
        let summaries: Vec<_> = (0..20).map(|block| summary(block, block % 5)).collect();
        let (head, body) = encode_index(summaries.iter(), 9, &layout).expect("fits");
        let read = IndexHead::decode(&head, 9, &layout).expect("a head");
        assert_eq!(decode_index(&read, &body, 9, &layout), Some(summaries));
        assert_eq!(IndexHead::decode(&head, 8, &layout), None);
        assert_eq!(decode_index(&read, &body[1..], 9, &layout), None);
        for bit in 0..body.len() * 8 {
            let mut body = body.clone();
            body[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode_index(&read, &body, 9, &layout), None, "bit {bit}");
        }
        for bit in 0..56 * 8 {
            let mut head = head.clone();
            head[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(IndexHead::decode(&head, 9, &layout), None, "bit {bit}");
        }
    }

    #[test]
    fn an_index_without_room_is_not_saved() {
        let layout = Layout::new(512 << 20, 256 << 10, 64 << 10).expect("fits");
        let blocks = |count| -> Vec<_> {
            let most = layout.records_max();
            (0..count).map(|block| summary(block, most)).collect()
        };
        let is_saved = |count| encode_index(blocks(count).iter(), 9, &layout).is_some();
        assert!(is_saved(layout.block_count() / 10));
        assert!(!is_saved(layout.block_count()));
    }
}
