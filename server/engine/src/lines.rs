//! Slots that stand in lines: who came first goes first, and anybody may leave.
//!
//! The one idea: nearly every piece that is sent joins a line and leaves it from the midst when it is
//! sent again, so a line is a list through an array and nothing is searched.
//!
//! Invariants: a slot stands in one line at most; a line has the order in which its slots joined it.

use alloc::vec::Vec;

use crate::ids::Slot;

/// Nobody.
const NONE: u32 = u32::MAX;

/// Some lines of slots, `LINES` of them, told apart by their numbers.
#[derive(Debug)]
pub(crate) struct Lines<const LINES: usize> {
    neighbours: Vec<Neighbours>,
    ends: [Ends; LINES],
}

#[derive(Debug, Clone, Copy)]
struct Neighbours {
    before: u32,
    behind: u32,
}

#[derive(Debug, Clone, Copy)]
struct Ends {
    first: u32,
    last: u32,
    count: usize,
}

impl<const LINES: usize> Lines<LINES> {
    /// Empty lines for so many slots.
    pub(crate) fn new(slot_count: u32) -> Self {
        let nobody = Neighbours {
            before: NONE,
            behind: NONE,
        };
        let empty = Ends {
            first: NONE,
            last: NONE,
            count: 0,
        };
        Self {
            neighbours: alloc::vec![nobody; slot_count as usize],
            ends: [empty; LINES],
        }
    }

    /// How many stand in a line.
    pub(crate) fn len(&self, line: usize) -> usize {
        self.ends[line].count
    }

    /// Who is first in it.
    pub(crate) fn first(&self, line: usize) -> Option<Slot> {
        let first = self.ends[line].first;
        (first != NONE).then_some(Slot(first))
    }

    /// A slot that stands in no line joins the end of one.
    pub(crate) fn join(&mut self, line: usize, slot: Slot) {
        let ends = &mut self.ends[line];
        let before = core::mem::replace(&mut ends.last, slot.0);
        ends.count += 1;
        match before {
            NONE => ends.first = slot.0,
            before => self.neighbours[before as usize].behind = slot.0,
        }
        self.neighbours[slot.0 as usize] = Neighbours {
            before,
            behind: NONE,
        };
    }

    /// A slot that stands in a line leaves it.
    pub(crate) fn leave(&mut self, line: usize, slot: Slot) {
        let Neighbours { before, behind } = self.neighbours[slot.0 as usize];
        let ends = &mut self.ends[line];
        ends.count -= 1;
        match before {
            NONE => ends.first = behind,
            before => self.neighbours[before as usize].behind = behind,
        }
        match behind {
            NONE => ends.last = before,
            behind => self.neighbours[behind as usize].before = before,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use proptest::prelude::*;

    use super::*;

    fn all(lines: &Lines<2>, line: usize) -> Vec<Slot> {
        let mut slots = Vec::new();
        let mut next = lines.first(line);
        while let Some(slot) = next {
            slots.push(slot);
            let behind = lines.neighbours[slot.0 as usize].behind;
            next = (behind != NONE).then_some(Slot(behind));
        }
        slots
    }

    proptest! {
        #[test]
        fn they_are_lists(steps in prop::collection::vec((0_usize..2, 0_u32..8), 0..200)) {
            let mut lines: Lines<2> = Lines::new(8);
            let mut lists = [vec![], vec![]];
            for (line, slot) in steps {
                let slot = Slot(slot);
                let stands = lists.iter().position(|list: &Vec<Slot>| list.contains(&slot));
                match stands {
                    Some(line) => {
                        lines.leave(line, slot);
                        lists[line].retain(|other| *other != slot);
                    }
                    None => {
                        lines.join(line, slot);
                        lists[line].push(slot);
                    }
                }
                for (line, list) in lists.iter().enumerate() {
                    prop_assert_eq!(&all(&lines, line), list);
                    prop_assert_eq!(lines.len(line), list.len());
                }
            }
        }
    }
}
