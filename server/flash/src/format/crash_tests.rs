//! Simulates power loss at every write of a small SSD, and checks what recovery finds.

use alloc::vec;
use alloc::vec::Vec;
use std::collections::BTreeMap;

use super::*;
use crate::names::{FileKey, PieceId, RECORD_ALIGN_BYTES};
use crate::spec::RecordEntry;

const PAGE: usize = RECORD_ALIGN_BYTES as usize;

/// An operation on an SSD.
#[derive(Clone)]
enum CrashStep {
    Write(u64, Vec<u8>),
    Flush,
    /// The block is sealed with this generation.
    Sealed(u32, u64),
    /// The block is abandoned; none of its content needs to be found any more.
    Dropped(u32),
}

fn tier() -> SuperRecord {
    let layout = Layout::new(40 << 20, 256 << 10, 16 << 10).expect("fits");
    SuperRecord { device: 77, layout }
}

/// The content of a piece, derived from its id.
fn content(piece: PieceId, length: u32) -> Vec<u8> {
    let seed = piece.file.0 as u32 * 31 + piece.piece * 7;
    (0..length)
        .map(|at| (seed + at * 13 + at / 256) as u8)
        .collect()
}

/// Blocks and generations, in order: two groups, one block alone in its group at the end.
const FILLINGS: [(u32, u64); 7] = [(0, 1), (1, 2), (16, 3), (0, 4), (17, 5), (1, 6), (16, 7)];

/// The steps that fill a block as the server does: void the group's checkpoint, write records,
/// flush, write the rest of the block with its summary, flush.
fn fill(block: u32, filling: u64) -> (Vec<CrashStep>, Summary) {
    let tier = tier();
    let start = tier.layout.block_start(block).expect("a block");
    let group = block / GROUP_BLOCKS;
    let (checkpoint, _) = tier.layout.checkpoint_place(group).expect("a group");
    let mut steps = vec![
        CrashStep::Dropped(block),
        CrashStep::Write(checkpoint, vec![0; PAGE]),
    ];
    let mut entries = Vec::new();
    let mut offset = 0;
    for number in 0..3 {
        let file = FileKey(u128::from(filling % 3));
        let piece = PieceId {
            file,
            piece: number + block,
        };
        let length = 3000 + number * 4000;
        let name = RecordName {
            device: tier.device,
            block,
            filling,
            offset,
            piece,
            length,
        };
        let mut bytes = vec![0; padded_bytes(length) as usize];
        encode_record(&name, &content(piece, length), &mut bytes).expect("fits");
        steps.push(CrashStep::Write(start + u64::from(offset), bytes));
        entries.push(RecordEntry {
            piece,
            offset,
            length,
        });
        offset += padded_bytes(length) as u32;
    }
    let head = SummaryHead {
        block,
        count: 3,
        filling,
        sequence: filling,
        owner: 1,
        sealed_s: 0,
    };
    let summary = Summary { head, entries };
    let (from, bytes) = summary.encode_tail(tier.device, &tier.layout);
    assert_eq!(from, offset);
    steps.extend([
        CrashStep::Flush,
        CrashStep::Write(start + u64::from(from), bytes),
        CrashStep::Flush,
        CrashStep::Sealed(block, filling),
    ]);
    (steps, summary)
}

/// All fills; a group's checkpoint is written when the next block belongs to the other group.
fn history() -> Vec<CrashStep> {
    let tier = tier();
    let (mut steps, mut summaries) = (Vec::new(), BTreeMap::new());
    let mut last = 0;
    for (block, filling) in FILLINGS {
        let group = block / GROUP_BLOCKS;
        if group != last {
            let of_group = summaries.values();
            let of_group = of_group.filter(|of: &&Summary| of.head.block / GROUP_BLOCKS == last);
            let bytes = encode_checkpoint(last, of_group, tier.device, &tier.layout);
            let mut bytes = bytes.expect("fits");
            bytes.resize(bytes.len().next_multiple_of(PAGE), 0);
            let (place, _) = tier.layout.checkpoint_place(last).expect("a group");
            steps.push(CrashStep::Write(place, bytes));
            last = group;
        }
        let (fill, summary) = fill(block, filling);
        steps.extend(fill);
        summaries.insert(block, summary);
    }
    steps
}

/// The pages of an SSD; missing pages are zeros.
type SsdImage = BTreeMap<u64, Vec<u8>>;

fn read(image: &SsdImage) -> impl FnMut(u64, &mut [u8]) -> Result<(), ReadFailed> + '_ {
    |at, into| {
        for (index, page) in into.chunks_mut(PAGE).enumerate() {
            match image.get(&(at + (index * PAGE) as u64)) {
                Some(bytes) => page.copy_from_slice(&bytes[..page.len()]),
                None => page.fill(0),
            }
        }
        Ok(())
    }
}

/// The SSD after a power loss following `steps`: of the unflushed pages, those selected by `keep`
/// survive. Also returns the generations that must be found and those that may be.
fn cut(
    steps: &[CrashStep],
    mut keep: impl FnMut(usize) -> bool,
) -> (SsdImage, BTreeMap<u32, u64>, Vec<(u32, u64)>) {
    let (mut image, mut loose) = (SsdImage::new(), Vec::new());
    let (mut must, mut may) = (BTreeMap::new(), FILLINGS.to_vec());
    for step in steps {
        match step {
            CrashStep::Write(at, bytes) => {
                let pages = bytes.chunks(PAGE).enumerate();
                loose
                    .extend(pages.map(|(index, page)| (at + (index * PAGE) as u64, page.to_vec())));
            }
            CrashStep::Flush => image.extend(loose.drain(..)),
            CrashStep::Sealed(block, filling) => {
                must.insert(*block, *filling);
            }
            CrashStep::Dropped(block) => {
                must.remove(block);
            }
        }
    }
    let begun = steps
        .iter()
        .filter(|step| matches!(step, CrashStep::Dropped(_)))
        .count();
    may.truncate(begun);
    for (index, (at, page)) in loose.into_iter().enumerate() {
        if keep(index) {
            image.insert(at, page);
        }
    }
    (image, must, may)
}

/// Checks that nothing wrong is found, everything durable is, and that repeating or reversing
/// recovery finds the same.
fn check(image: &SsdImage, must: &BTreeMap<u32, u64>, may: &[(u32, u64)]) {
    let tier = tier();
    let found = recover(&tier, 0..2, read(image));
    let again = recover(&tier, 0..2, read(image));
    assert_eq!(found, again);
    for block in &found.bare {
        let searched = search_block(&tier, *block, read(image)).expect("reads");
        let Some((filling, records)) = searched else {
            continue;
        };
        assert!(may.contains(&(*block, filling)), "{block} {filling}");
        // A found block is complete: it may be sealed as it is.
        let head = SummaryHead {
            block: *block,
            count: records.len() as u32,
            filling,
            sequence: 99,
            owner: 1,
            sealed_s: 0,
        };
        let entries = records;
        let sealed = Summary { head, entries };
        let count = sealed.entries.len() as u32;
        assert_eq!(verify_block(&tier, &sealed, read(image)), (count, 0));
    }
    for summary in &found.summaries {
        let head = summary.head;
        assert!(may.contains(&(head.block, head.filling)), "{head:?}");
        let (right, wrong) = verify_block(&tier, summary, read(image));
        if must.get(&head.block) == Some(&head.filling) {
            assert_eq!((right, wrong), (3, 0));
        }
        let start = tier.layout.block_start(head.block).expect("a block");
        for entry in &summary.entries {
            let mut bytes = vec![0; padded_bytes(entry.length) as usize];
            read(image)(start + u64::from(entry.offset), &mut bytes).expect("read");
            let name = RecordName {
                device: tier.device,
                block: head.block,
                filling: head.filling,
                offset: entry.offset,
                piece: entry.piece,
                length: entry.length,
            };
            if decode_record(&name, &bytes[..PAGE], &bytes[PAGE..]) {
                let wanted = content(entry.piece, entry.length);
                assert_eq!(bytes[PAGE..PAGE + wanted.len()], wanted);
            }
        }
    }
    for (block, filling) in must {
        let is_there =
            |summary: &&Summary| (summary.head.block, summary.head.filling) == (*block, *filling);
        assert_eq!(
            found.summaries.iter().filter(is_there).count(),
            1,
            "block {block}"
        );
    }
}

#[test]
fn recovery_finds_durable_blocks_after_any_power_loss() {
    let steps = history();
    for end in 0..=steps.len() {
        let steps = &steps[..end];
        // All writes arrive up to some page, in order: a torn write at every page.
        let of_writes = steps.iter().rev().map_while(|step| match step {
            CrashStep::Write(_, bytes) => Some(bytes.len().div_ceil(PAGE)),
            CrashStep::Flush => None,
            CrashStep::Sealed(..) | CrashStep::Dropped(_) => Some(0),
        });
        for pages in 0..=of_writes.sum() {
            let (image, must, may) = cut(steps, |index| index < pages);
            check(&image, &must, &may);
        }
        // Any subset of pages, in any order.
        let mut state = end as u64 + 1;
        for _ in 0..24 {
            let (image, must, may) = cut(steps, |_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                state >> 63 == 1
            });
            check(&image, &must, &may);
        }
    }
}

#[test]
fn first_record_of_new_fill_invalidates_old_summary() {
    let tier = tier();
    let start = tier.layout.block_start(0).expect("a block");
    let (old, summary) = fill(0, 1);
    let (new, _) = fill(0, 2);
    let is_record = |step: &&CrashStep| matches!(step, CrashStep::Write(at, _) if *at >= start);
    let front = new.iter().find(is_record).cloned().expect("a record");
    let look = |steps: &[CrashStep]| {
        let (image, ..) = cut(steps, |_| true);
        let found = scan(&tier, 0..1, read(&image)).summaries;
        let searched = search_block(&tier, 0, read(&image)).expect("reads");
        (
            found,
            searched.map(|(filling, records)| (filling, records.len())),
        )
    };
    assert_eq!(look(&old), (vec![summary.clone()], Some((1, 3))));
    let mut over = old.clone();
    over.push(front);
    assert_eq!(look(&over), (vec![], Some((2, 1))));
    // If the front is empty, as on an SSD that discarded it, the summary does not count.
    let mut discarded = old;
    discarded.push(CrashStep::Write(start, vec![0; PAGE]));
    assert_eq!(look(&discarded), (vec![], None));
}

#[test]
fn recovery_finds_nothing_wrong_after_write_failures() {
    let steps = history();
    let writes = steps
        .iter()
        .filter(|step| matches!(step, CrashStep::Write(..)))
        .count();
    for failing in 0..=writes {
        let (mut written, mut lasting) = (0, Vec::new());
        for step in &steps {
            match step {
                CrashStep::Write(..) => {
                    written += 1;
                    if written <= failing {
                        lasting.push(step.clone());
                    }
                }
                // A failed write is not reported as sealed.
                CrashStep::Sealed(..) if written > failing => {}
                _ => lasting.push(step.clone()),
            }
        }
        let (image, must, may) = cut(&lasting, |_| true);
        check(&image, &must, &may);
    }
}

#[test]
fn foreign_and_misplaced_blocks_are_not_found() {
    let (image, must, _) = cut(&history(), |_| true);
    assert_eq!(must.len(), 4);
    let other = SuperRecord {
        device: 78,
        ..tier()
    };
    assert!(scan(&other, 0..200, read(&image)).summaries.is_empty());
    let block = u64::from(tier().layout.block_bytes());
    let moved: SsdImage = image
        .into_iter()
        .map(|(at, page)| (at + block, page))
        .collect();
    assert!(scan(&tier(), 0..200, read(&moved)).summaries.is_empty());
}

#[test]
fn recovery_of_any_content_is_bounded_and_never_panics() {
    let tier = tier();
    let mut state = 1_u64;
    for kind in 0..6 {
        let found = scan(&tier, 0..u32::MAX, |_, into| {
            for byte in into.iter_mut() {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(kind);
                *byte = match kind {
                    0 => 0,
                    1 => 0xff,
                    _ => (state >> 56) as u8,
                };
            }
            // Looks like a summary, with random remaining fields.
            if kind == 5 {
                let head = summary::tests::summary(0, 1).encode(tier.device);
                into[..32].copy_from_slice(&head[..32]);
            }
            Ok(())
        });
        assert_eq!(found, ScanResult::default());
    }
    let found = scan(&tier, 0..5, |_, _| Err(ReadFailed));
    assert_eq!(found.unreadable, [0, 1, 2, 3, 4]);
}

#[test]
fn falls_back_from_checkpoint_to_summaries_to_records() {
    let tier = tier();
    let (image, must, _) = cut(&history(), |_| true);
    let all = |image: &SsdImage| {
        let found = recover(&tier, 0..2, read(image));
        let heads = found
            .summaries
            .iter()
            .map(|of| (of.head.block, of.head.filling));
        (heads.collect::<BTreeMap<_, _>>(), found.void, found.bare)
    };
    // The group filled last has no saved checkpoint.
    let (heads, void, _) = all(&image);
    assert_eq!((heads, void), (must.clone(), vec![1]));
    let mut damaged = image;
    let (place, _) = tier.layout.checkpoint_place(0).expect("a group");
    damaged.get_mut(&place).expect("written")[70] ^= 1;
    let (heads, void, bare) = all(&damaged);
    assert_eq!((heads, void), (must, vec![0, 1]));
    assert!(!bare.contains(&1));
    let start = tier.layout.block_start(1).expect("a block");
    let summary = tier.layout.summary_start(1).expect("a block");
    damaged.insert(summary, vec![0xff; PAGE]);
    let (heads, _, bare) = all(&damaged);
    assert!(!heads.contains_key(&1) && bare.contains(&1));
    let search = |image: &SsdImage| search_block(&tier, 1, read(image)).expect("reads");
    let (filling, records) = search(&damaged).expect("records");
    assert_eq!((filling, records.len()), (6, 3));
    // The second record is damaged: the records before it are intact.
    let second = start + u64::from(records[1].offset);
    damaged.get_mut(&(second + PAGE as u64)).expect("written")[5] ^= 1;
    let (_, records) = search(&damaged).expect("records");
    assert_eq!(records.len(), 1);
}

#[test]
fn unreadable_block_is_neither_found_nor_bare() {
    let tier = tier();
    let (image, must, _) = cut(&history(), |_| true);
    let start = tier.layout.block_start(17).expect("a block");
    let refuse = |place: u64| {
        let mut whole = read(&image);
        move |at: u64, into: &mut [u8]| match at == place {
            true => Err(ReadFailed),
            false => whole(at, into),
        }
    };
    // Group 1 has no checkpoint.
    let found = recover(&tier, 0..2, refuse(start));
    assert_eq!(found.unreadable, [17]);
    assert!(must.contains_key(&17) && !found.bare.contains(&17));
    assert!(found.summaries.iter().all(|of| of.head.block != 17));
    // The second record is unreadable: the records before it are not all.
    let (_, records) = search_block(&tier, 17, read(&image))
        .expect("reads")
        .expect("records");
    let second = start + u64::from(records[1].offset);
    for place in [second, second + PAGE as u64] {
        assert_eq!(search_block(&tier, 17, refuse(place)), Err(ReadFailed));
    }
}
