//! Compares the catalogue with a map of pieces.

use std::collections::BTreeMap;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

const BLOCKS: u32 = 4;
const PAGE: u32 = RECORD_ALIGN_BYTES;

fn piece(file: u32, piece: u32) -> PieceId {
    PieceId {
        file: FileKey(u128::from(file)),
        piece,
    }
}

#[derive(Debug, Clone)]
enum CatalogueStep {
    /// Runs of a file (first piece, count), and whether they are newer than the known records.
    Found(u32, Vec<(u32, u32, u32)>, bool),
    Add(u32, u32, u32),
    Forget(u32, u32),
    Clear(u32),
    ForgetFile(u32),
}

fn step() -> impl Strategy<Value = CatalogueStep> {
    let run = (0_u32..3, 0_u32..60, 1_u32..40);
    let runs = prop::collection::vec(run, 0..4);
    prop_oneof![
        3 => (0..BLOCKS, runs, any::<bool>())
            .prop_map(|(of, runs, newer)| CatalogueStep::Found(of, runs, newer)),
        6 => (0..BLOCKS, 0_u32..3, 0_u32..60)
            .prop_map(|(of, file, at)| CatalogueStep::Add(of, file, at)),
        6 => (0_u32..3, 0_u32..100).prop_map(|(file, at)| CatalogueStep::Forget(file, at)),
        1 => (0..BLOCKS).prop_map(CatalogueStep::Clear),
        1 => (0_u32..3).prop_map(CatalogueStep::ForgetFile),
    ]
}

/// The catalogue and its model: block and offset of each piece.
struct CatalogueWorld {
    catalogue: Catalogue,
    known: BTreeMap<PieceId, (u32, u32)>,
}

impl CatalogueWorld {
    fn new() -> Self {
        let mut catalogue = Catalogue::default();
        catalogue.add_blocks(0..BLOCKS);
        let known = BTreeMap::new();
        Self { catalogue, known }
    }

    fn act(&mut self, step: CatalogueStep) {
        match step {
            CatalogueStep::Found(block, runs, is_newer) => self.find(block, runs, is_newer),
            CatalogueStep::Add(block, file, number) => self.add(block, piece(file, number)),
            CatalogueStep::Forget(file, number) => {
                let of = piece(file, number);
                if let Some((at, _)) = self.catalogue.find(of) {
                    self.catalogue.forget(at);
                }
                self.known.remove(&of);
            }
            CatalogueStep::Clear(block) => self.clear(block),
            CatalogueStep::ForgetFile(file) => {
                let key = FileKey(u128::from(file));
                self.catalogue.forget_file(key);
                self.known.retain(|of, _| of.file != key);
            }
        }
    }

    fn clear(&mut self, block: u32) {
        self.catalogue.clear(block);
        self.known.retain(|_, (of, _)| *of != block);
    }

    fn find(&mut self, block: u32, runs: Vec<(u32, u32, u32)>, is_newer: bool) {
        self.clear(block);
        let pieces = runs.into_iter().flat_map(|(file, from, count)| {
            (from..from + count).map(move |number| piece(file, number))
        });
        let entry = |(row, piece): (u32, PieceId)| RecordEntry {
            offset: (row + 1) * 2 * PAGE,
            piece,
            length: PAGE,
        };
        let found: Vec<RecordEntry> = (0..).zip(pieces).map(entry).collect();
        self.catalogue
            .add_all(block, &found, |known| is_newer && known.turn > 0);
        self.end(block);
        for entry in found {
            // Of two records of a piece in one block, the first one stays.
            let stays = |(of, _): &(u32, u32)| !is_newer || *of == block;
            if !self.known.get(&entry.piece).is_some_and(stays) {
                self.known.insert(entry.piece, (block, entry.offset));
            }
        }
    }

    fn add(&mut self, block: u32, of: PieceId) {
        if self.known.contains_key(&of) {
            return;
        }
        let last = self.catalogue.block(block).and_then(|of| of.records.last());
        let offset = last.map_or(2 * PAGE, CatalogueRecord::end);
        assert!(self.catalogue.add(block, of, offset, PAGE));
        self.end(block);
        self.known.insert(of, (block, offset));
    }

    fn end(&mut self, block: u32) {
        self.catalogue.block_mut(block).expect("a block").turn = 1;
    }

    fn check(&self) {
        self.catalogue.check_invariants();
        assert_eq!(self.catalogue.records(), self.known.len() as u64);
        for of in (0..3).flat_map(|file| (0..100).map(move |number| piece(file, number))) {
            let found = self.catalogue.find(of);
            let found = found.map(|(at, record)| (at.block, record.offset()));
            assert_eq!(found, self.known.get(&of).copied(), "{of:?}");
        }
    }
}

proptest! {
    #[test]
    fn every_record_is_found_as_runs_are_added_and_split(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut world = CatalogueWorld::new();
        for step in steps {
            world.act(step);
            world.check();
        }
    }
}
