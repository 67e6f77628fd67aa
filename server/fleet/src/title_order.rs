//! The order in which HAProxy sends requests for a title to the boxes of a fleet: the first box is
//! the one that has the title, the next ones get it while those before are full or down.

use alloc::vec::Vec;

use crate::fleet::{Fleet, TitleRule};
use crate::hash_ring::HashRing;
use crate::title_hash::title_hash;

/// The order of boxes for each title, with all boxes in service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TitleOrder {
    rule: TitleRule,
    ring: HashRing,
}

impl TitleOrder {
    /// The order for a fleet.
    pub fn new(fleet: &Fleet) -> Self {
        let boxes = fleet.boxes.iter().map(|one| (one.id(), one.weight));
        let boxes: Vec<(u32, u32)> = boxes.collect();
        Self {
            rule: fleet.title,
            ring: HashRing::new(&boxes),
        }
    }

    /// All boxes, by their numbers in [`Fleet::boxes`], in the order for the title of a path. The
    /// path is decoded, begins with a slash and has no token.
    pub fn boxes(&self, path: &str) -> impl Iterator<Item = usize> {
        self.boxes_of(title_hash(self.rule.balanced(path)))
    }

    /// The same for the title with this [`title_hash`].
    pub fn boxes_of(&self, title: u32) -> impl Iterator<Item = usize> {
        self.ring.order(title)
    }
}

#[cfg(test)]
mod tests {
    use std::format;
    use std::vec::Vec;

    use super::*;
    use crate::fleet::FleetBox;

    #[test]
    fn files_of_a_title_have_one_order() {
        let boxes = (0..5).map(|number| FleetBox::new(&format!("b{number}")));
        let fleet = Fleet {
            title: TitleRule::Folder,
            boxes: boxes.collect(),
            ..Fleet::default()
        };
        let of = TitleOrder::new(&fleet);
        let order = |path: &str| of.boxes(path).collect::<Vec<_>>();
        assert_eq!(order("/vod/a/1.ts"), order("/vod/a/2.ts"));
        let titles = (0..200).map(|title| order(&format!("/vod/{title}/1.ts")));
        let titles: Vec<_> = titles.collect();
        for of_box in 0..5 {
            let first = titles.iter().filter(|order| order[0] == of_box).count();
            assert!((20..60).contains(&first), "{first}");
        }
        assert!(titles.iter().all(|order| order.len() == 5));
    }
}
