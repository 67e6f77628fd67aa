//! Checkpoints: the summaries of a group of blocks in one place, so that recovery needs few reads.
//!
//! Blocks form groups of [`GROUP_BLOCKS`], each with a place for its checkpoint. The checkpoint is
//! voided before a block of the group is refilled, and written again when no block of the group is
//! being filled; blocks are mostly filled in order, so this costs few writes. A readable checkpoint
//! therefore describes its blocks, and after a crash only the few groups being filled must be read
//! block by block.
//!
//! Invariant: voiding a checkpoint is durable before the next summary of its group is written. A
//! torn checkpoint is void by its checksum.

use alloc::vec::Vec;

use super::bytes::{ByteReader, ByteWriter, checksum};
use super::layout::{CHECKPOINT_HEAD_BYTES, Layout};
use super::summary::Summary;

const MAGIC: &[u8; 8] = b"HLCHECK\0";

/// Encodes the checkpoint of a group, without padding; `None` if it does not fit its place.
pub fn encode_checkpoint<'a>(
    group: u32,
    summaries: impl Iterator<Item = &'a Summary>,
    device: u128,
    layout: &Layout,
) -> Option<Vec<u8>> {
    let (_, room) = layout.checkpoint_place(group)?;
    let mut bytes = alloc::vec![0; CHECKPOINT_HEAD_BYTES];
    for summary in summaries {
        bytes.extend_from_slice(&summary.encode(device));
        if bytes.len() as u64 > room {
            return None;
        }
    }
    let mut head = Vec::with_capacity(CHECKPOINT_HEAD_BYTES);
    head.extend_from_slice(MAGIC);
    head.u32(super::FORMAT_VERSION);
    head.u32(group);
    head.u128(device);
    head.u64((bytes.len() - CHECKPOINT_HEAD_BYTES) as u64);
    let sum = checksum(&[&head, &bytes[CHECKPOINT_HEAD_BYTES..]]);
    head.u64(sum);
    bytes[..head.len()].copy_from_slice(&head);
    Some(bytes)
}

/// Length of the checkpoint that starts with `head`; `None` if there is none. Not verified yet.
pub fn checkpoint_bytes(head: &[u8], group: u32, device: u128, layout: &Layout) -> Option<u64> {
    let (bytes, _) = read_head(head, group, device)?;
    let (_, room) = layout.checkpoint_place(group)?;
    let length = bytes.checked_add(CHECKPOINT_HEAD_BYTES as u64)?;
    (length <= room).then_some(length)
}

fn read_head(bytes: &[u8], group: u32, device: u128) -> Option<(u64, u64)> {
    let mut reader = ByteReader(bytes);
    reader.is(MAGIC)?;
    let is_it = (reader.u32()?, reader.u32()?, reader.u128()?);
    (is_it == (super::FORMAT_VERSION, group, device)).then_some(())?;
    Some((reader.u64()?, reader.u64()?))
}

/// Decodes the summaries of a checkpoint; `None` if it is void, damaged, or of another group.
pub fn decode_checkpoint(
    bytes: &[u8],
    group: u32,
    device: u128,
    layout: &Layout,
) -> Option<Vec<Summary>> {
    let (length, sum) = read_head(bytes, group, device)?;
    let body = bytes.get(CHECKPOINT_HEAD_BYTES..)?;
    let mut rest = body.get(..usize::try_from(length).ok()?)?;
    let fields = bytes.get(..CHECKPOINT_HEAD_BYTES - 8)?;
    if checksum(&[fields, rest]) != sum && !mutated!(TornCheckpointTaken) {
        return None;
    }
    let blocks = layout.group_blocks(group);
    let mut summaries = Vec::with_capacity(blocks.len());
    while !rest.is_empty() {
        let decoded = Summary::decode(rest, device, layout);
        if decoded.is_none() && mutated!(TornCheckpointTaken) {
            break;
        }
        let (summary, length) = decoded?;
        if !blocks.contains(&summary.head.block) {
            return None;
        }
        rest = &rest[length..];
        summaries.push(summary);
    }
    Some(summaries)
}

#[cfg(test)]
mod tests {
    use super::super::layout::GROUP_BLOCKS;
    use super::super::summary::tests::{layout, summary};
    use super::*;

    fn blocks(group: u32, count: u32) -> Vec<Summary> {
        let first = group * GROUP_BLOCKS;
        (first..first + GROUP_BLOCKS)
            .map(|block| summary(block, count))
            .collect()
    }

    #[test]
    fn checkpoint_round_trips_only_for_its_group_and_ssd() {
        let layout = layout();
        for count in [0, 3] {
            let summaries = blocks(2, count);
            let bytes = encode_checkpoint(2, summaries.iter(), 9, &layout).expect("fits");
            let length = checkpoint_bytes(&bytes, 2, 9, &layout);
            assert_eq!(length, Some(bytes.len() as u64));
            assert_eq!(decode_checkpoint(&bytes, 2, 9, &layout), Some(summaries));
            assert_eq!(decode_checkpoint(&bytes, 1, 9, &layout), None);
            assert_eq!(decode_checkpoint(&bytes, 2, 8, &layout), None);
        }
        let of_others = blocks(1, 1);
        let bytes = encode_checkpoint(2, of_others.iter(), 9, &layout).expect("fits");
        assert_eq!(decode_checkpoint(&bytes, 2, 9, &layout), None);
    }

    #[test]
    fn bit_flip_or_truncation_voids_checkpoint() {
        let layout = layout();
        let summaries = blocks(0, 1);
        let bytes = encode_checkpoint(0, summaries.iter(), 9, &layout).expect("fits");
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let read = decode_checkpoint(&bytes, 0, 9, &layout);
            assert_eq!(read, None, "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert_eq!(decode_checkpoint(&bytes[..length], 0, 9, &layout), None);
        }
    }

    #[test]
    fn oversized_checkpoint_is_not_encoded() {
        let layout = layout();
        let is_written = |count| {
            let summaries = blocks(0, count);
            encode_checkpoint(0, summaries.iter(), 9, &layout).is_some()
        };
        assert!(is_written(3), "whole pieces");
        assert!(!is_written(layout.records_max()));
    }
}
