//! A small SSD that loses power at every write, and what is found on it then.

use alloc::vec;
use alloc::vec::Vec;
use std::collections::BTreeMap;

use super::*;
use crate::names::{FileKey, PieceId, RECORD_ALIGN_BYTES};

const PAGE: usize = RECORD_ALIGN_BYTES as usize;

/// What is done to an SSD.
#[derive(Clone)]
enum Step {
    Write(u64, Vec<u8>),
    Flush,
    /// The block is sealed, with this filling.
    Sealed(u32, u64),
    /// It is given up, and nothing of it needs to be found any more.
    Dropped(u32),
}

fn tier() -> Super {
    let layout = Layout::new(40 << 20, 256 << 10, 16 << 10).expect("fits");
    Super { device: 77, layout }
}

/// The one content that a piece has.
fn content(piece: PieceId, length: u32) -> Vec<u8> {
    let seed = piece.file.0 as u32 * 31 + piece.piece * 7;
    (0..length)
        .map(|at| (seed + at * 13 + at / 256) as u8)
        .collect()
}

/// The steps that fill a block as the server does: the old summary away, records, flush, summary,
/// flush.
fn fill(block: u32, filling: u64) -> Vec<Step> {
    let tier = tier();
    let start = tier.layout.block_start(block).expect("a block");
    let mut steps = vec![Step::Dropped(block), Step::Write(start, vec![0; PAGE])];
    let mut entries = Vec::new();
    let mut offset = tier.layout.summary_bytes();
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
        steps.push(Step::Write(start + u64::from(offset), bytes));
        entries.push(Entry {
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
    let mut bytes = Summary { head, entries }.encode(tier.device);
    bytes.resize(bytes.len().next_multiple_of(PAGE), 0);
    steps.extend([
        Step::Flush,
        Step::Write(start, bytes),
        Step::Flush,
        Step::Sealed(block, filling),
    ]);
    steps
}

/// Two fillings of two blocks, and one of a third.
fn history() -> Vec<Step> {
    [(0, 1), (1, 2), (0, 3), (2, 4), (1, 5)]
        .into_iter()
        .flat_map(|(block, filling)| fill(block, filling))
        .collect()
}

/// The SSD's pages; those that are not there are zeros.
type Image = BTreeMap<u64, Vec<u8>>;

fn read(image: &Image) -> impl FnMut(u64, &mut [u8]) -> Result<(), ReadFailed> + '_ {
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

/// The SSD after a power cut behind so many steps: of what was not flushed, those pages are kept that
/// `keep` says. With it the fillings that must be found, and those that may be.
fn cut(
    steps: &[Step],
    mut keep: impl FnMut(usize) -> bool,
) -> (Image, BTreeMap<u32, u64>, Vec<(u32, u64)>) {
    let (mut image, mut loose) = (Image::new(), Vec::new());
    let (mut must, mut may) = (
        BTreeMap::new(),
        vec![(0, 1), (1, 2), (0, 3), (2, 4), (1, 5)],
    );
    for step in steps {
        match step {
            Step::Write(at, bytes) => {
                let pages = bytes.chunks(PAGE).enumerate();
                loose
                    .extend(pages.map(|(index, page)| (at + (index * PAGE) as u64, page.to_vec())));
            }
            Step::Flush => image.extend(loose.drain(..)),
            Step::Sealed(block, filling) => {
                must.insert(*block, *filling);
            }
            Step::Dropped(block) => {
                must.remove(block);
            }
        }
    }
    let begun = steps
        .iter()
        .filter(|step| matches!(step, Step::Dropped(_)))
        .count();
    may.truncate(begun);
    for (index, (at, page)) in loose.into_iter().enumerate() {
        if keep(index) {
            image.insert(at, page);
        }
    }
    (image, must, may)
}

/// Nothing wrong is found, everything durable is, and looking again or from the back finds the same.
fn check(image: &Image, must: &BTreeMap<u32, u64>, may: &[(u32, u64)]) {
    let tier = tier();
    let found = scan(&tier, 0..4, read(image));
    let again: Vec<_> = (0..4)
        .rev()
        .flat_map(|block| scan(&tier, block..block + 1, read(image)).summaries)
        .collect();
    assert!(found.summaries.iter().eq(again.iter().rev()));
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
fn after_a_power_cut_anywhere_what_is_found_was_sealed_and_what_was_durable_is_found() {
    let steps = history();
    for end in 0..=steps.len() {
        let steps = &steps[..end];
        // Everything arrives up to some page, in order: a write torn at every page.
        for pages in 0..14 {
            let (image, must, may) = cut(steps, |index| index < pages);
            check(&image, &must, &may);
        }
        // Any part of it, in any order.
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
fn after_every_write_from_the_nth_on_fails_nothing_wrong_is_found() {
    let steps = history();
    let writes = steps
        .iter()
        .filter(|step| matches!(step, Step::Write(..)))
        .count();
    for failing in 0..=writes {
        let (mut written, mut lasting) = (0, Vec::new());
        for step in &steps {
            match step {
                Step::Write(..) => {
                    written += 1;
                    if written <= failing {
                        lasting.push(step.clone());
                    }
                }
                // Who could not write does not say that it is sealed.
                Step::Sealed(..) if written > failing => {}
                _ => lasting.push(step.clone()),
            }
        }
        let (image, must, may) = cut(&lasting, |_| true);
        check(&image, &must, &may);
    }
}

#[test]
fn another_ssds_blocks_and_misplaced_ones_are_not_found() {
    let (image, must, _) = cut(&history(), |_| true);
    assert_eq!(must.len(), 3);
    let other = Super {
        device: 78,
        ..tier()
    };
    assert!(scan(&other, 0..200, read(&image)).summaries.is_empty());
    let block = u64::from(tier().layout.block_bytes());
    let moved: Image = image
        .into_iter()
        .map(|(at, page)| (at + block, page))
        .collect();
    assert!(scan(&tier(), 0..200, read(&moved)).summaries.is_empty());
}

#[test]
fn any_content_whatever_is_looked_at_within_bounds_and_without_a_panic() {
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
            // What looks like a summary, and says the rest at random.
            if kind == 5 {
                let head = summary::tests::summary(0, 1).encode(tier.device);
                into[..32].copy_from_slice(&head[..32]);
            }
            Ok(())
        });
        assert_eq!(found, Found::default());
    }
    let found = scan(&tier, 0..5, |_, _| Err(ReadFailed));
    assert_eq!(found.unreadable, 5);
}
