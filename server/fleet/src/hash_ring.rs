//! Consistent hashing with bounded loads, as HAProxy does it (`hash-type consistent` and
//! `hash-balance-factor` of its configuration manual).
//!
//! Each box has 16 points on a ring for each unit of its weight, and the point nearest to a hash
//! selects. A box with more requests in progress than its part of the bound is passed over for the
//! box of the next point (Mirrokni, Thorup and Zadimoghaddam, "Consistent Hashing with Bounded
//! Loads", SODA 2018). The points lie where HAProxy has them.
//!
//! Invariants: a bounded choice leaves every box within its part of the bound, unless only one box
//! is left to choose; a box that is lost moves only the hashes that it had.

use alloc::vec;
use alloc::vec::Vec;

use crate::agent::SHARE_PERCENT_MIN;
use crate::title_hash::point;

/// Points of a box for each unit of its weight.
pub(crate) const POINTS_PER_WEIGHT: u32 = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct RingPoint {
    at: u32,
    of_box: u32,
    /// Number among the points of its box: a box with less weight keeps its first points.
    number: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RingBox {
    points_max: u32,
    /// Points in use.
    points: u32,
    /// Points in use of all boxes before it.
    before: u64,
    in_progress: u64,
}

/// A ring of boxes, with their requests in progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HashRing {
    /// The points of all boxes, in use or not, sorted.
    points: Vec<RingPoint>,
    boxes: Vec<RingBox>,
    points_in_use: u64,
    in_progress: u64,
}

impl HashRing {
    /// A ring of boxes, each by its id ([`crate::FleetBox::id`]) and its full weight.
    pub(crate) fn new(boxes: &[(u32, u32)]) -> Self {
        let mut points = Vec::new();
        for (of_box, (id, weight)) in (0..).zip(boxes) {
            let numbers = 0..weight * POINTS_PER_WEIGHT;
            points.extend(numbers.map(|number| RingPoint {
                at: point(*id, number),
                of_box,
                number,
            }));
        }
        points.sort_unstable();
        let boxes = boxes.iter().map(|(_, weight)| RingBox {
            points_max: weight * POINTS_PER_WEIGHT,
            points: weight * POINTS_PER_WEIGHT,
            before: 0,
            in_progress: 0,
        });
        let mut ring = Self {
            points,
            boxes: boxes.collect(),
            points_in_use: 0,
            in_progress: 0,
        };
        ring.count_points();
        ring
    }

    /// Sets how many of its points a box uses: at most those of its full weight; none if it takes no
    /// requests.
    pub(crate) fn set_points(&mut self, of_box: usize, points: u32) {
        let Some(one) = self.boxes.get_mut(of_box) else {
            return;
        };
        let points = points.min(one.points_max);
        if core::mem::replace(&mut one.points, points) != points {
            self.count_points();
        }
    }

    /// Sets how many requests are in progress at a box.
    pub(crate) fn set_in_progress(&mut self, of_box: usize, count: u64) {
        let one = &mut self.boxes[of_box].in_progress;
        self.in_progress += count;
        self.in_progress -= core::mem::replace(one, count);
    }

    /// Requests in progress at a box.
    pub(crate) fn in_progress(&self, of_box: usize) -> u64 {
        self.boxes[of_box].in_progress
    }

    /// Most requests in progress that a box may have after the next request begins, if each may have
    /// `percent` of the mean: whole requests, shared out by points.
    pub(crate) fn room(&self, of_box: usize, percent: u32) -> u64 {
        let all = ((self.in_progress + 1) * u64::from(percent)).div_ceil(100);
        let total = self.points_in_use.max(1);
        let one = &self.boxes[of_box];
        let (own, before) = (u64::from(one.points), one.before);
        let (whole, rest) = (all / total, all % total);
        let part = (before + own) * rest / total - before * rest / total;
        (own * whole + part).max(1)
    }

    /// All boxes with points, each once, in the order in which requests for a hash are sent to them
    /// while those before are full or down.
    pub(crate) fn order(&self, hash: u32) -> impl Iterator<Item = usize> {
        let first = self.nearest(hash);
        let mut known = vec![false; self.boxes.len()];
        let places = first.map(|first| self.used_from(first));
        places.into_iter().flatten().filter_map(move |place| {
            let of_box = self.points[place].of_box as usize;
            (!core::mem::replace(&mut known[of_box], true)).then_some(of_box)
        })
    }

    /// The box for a hash. With `bound_percent`, boxes without [`Self::room`] are passed over. The
    /// box `avoid` has just failed or refused the same request, and is chosen only if it is alone.
    /// None if no box has points.
    pub(crate) fn choose(
        &self,
        hash: u32,
        bound_percent: Option<u32>,
        avoid: Option<usize>,
    ) -> Option<usize> {
        let first = self.nearest(hash)?;
        let boxes = || {
            let places = self.used_from(first);
            places.map(|place| self.points[place].of_box as usize)
        };
        let is_other = |of_box: &usize| Some(*of_box) != avoid;
        let has_room = |of_box: &usize| {
            bound_percent
                .is_none_or(|percent| self.in_progress(*of_box) < self.room(*of_box, percent))
        };
        boxes()
            .find(|of_box| is_other(of_box) && has_room(of_box))
            .or_else(|| boxes().find(is_other))
            .or_else(|| boxes().next())
    }

    /// The box for a hash, and the next one while that is full or down (none in a fleet of one
    /// box); no result if weights can change either. A box lasts if the points that select it are
    /// in use even at [`SHARE_PERCENT_MIN`], the smallest share that an agent asks for.
    pub(crate) fn lasting_boxes(&self, hash: u32) -> Option<(usize, Option<usize>)> {
        let near = self.nearest_but(hash, None)?;
        let first = self.points[near].of_box;
        let has_lasting = |place: usize| {
            let point = &self.points[place];
            let points = self.boxes[point.of_box as usize].points_max;
            point.number < points * SHARE_PERCENT_MIN / 100
        };
        let mut full = self.used_from(near);
        let full = full.find(|place| self.points[*place].of_box != first);
        let second = match (full, self.nearest_but(hash, Some(first))) {
            (Some(full), Some(down)) => {
                let second = self.points[full].of_box;
                let is_same = self.points[down].of_box == second;
                let is_lasting = has_lasting(full) && has_lasting(down);
                Some((is_same && is_lasting).then_some(second as usize)?)
            }
            _ => None,
        };
        has_lasting(near).then_some((first as usize, second))
    }

    fn count_points(&mut self) {
        let mut before = 0;
        for one in &mut self.boxes {
            one.before = before;
            before += u64::from(one.points);
        }
        self.points_in_use = before;
    }

    /// The places of the points in use, once around the ring.
    fn used_from(&self, first: usize) -> impl Iterator<Item = usize> {
        let count = self.points.len();
        let places = (0..count).map(move |step| (first + step) % count);
        places.filter(|place| self.is_used(*place))
    }

    fn is_used(&self, place: usize) -> bool {
        let point = &self.points[place];
        point.number < self.boxes[point.of_box as usize].points
    }

    /// The place of the point in use that is nearest to a hash.
    fn nearest(&self, hash: u32) -> Option<usize> {
        self.nearest_but(hash, None)
    }

    /// The same without the points of one box.
    fn nearest_but(&self, hash: u32, without: Option<u32>) -> Option<usize> {
        let count = self.points.len();
        let start = self.points.partition_point(|point| point.at < hash);
        let is_used =
            |place: &usize| self.is_used(*place) && Some(self.points[*place].of_box) != without;
        let mut after = (0..count).map(|step| (start + step) % count);
        let mut before = (1..=count).map(|step| (start + count - step) % count);
        let (after, before) = (after.find(is_used)?, before.find(is_used)?);
        let to_after = self.points[after].at.wrapping_sub(hash);
        let to_before = hash.wrapping_sub(self.points[before].at);
        Some(if to_before <= to_after { before } else { after })
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::rendezvous::mix;

    fn ring(weights: &[u32]) -> HashRing {
        let boxes: Vec<(u32, u32)> = (1..).zip(weights.iter().copied()).collect();
        HashRing::new(&boxes)
    }

    impl HashRing {
        /// Adds requests in progress.
        fn add(&mut self, of_box: usize, count: i64) {
            let count = self.in_progress(of_box).checked_add_signed(count);
            self.set_in_progress(of_box, count.expect("at least none"));
        }
    }

    fn hashes(count: u64) -> impl Iterator<Item = u32> {
        (0..count).map(|title| mix(title) as u32)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn bounded_load_is_never_exceeded(
            weights in prop::collection::vec(1_u32..60, 2..9),
            percent in 101_u32..300,
            titles in prop::collection::vec((0_u64..12, any::<bool>()), 1..400),
        ) {
            let mut ring = ring(&weights);
            let mut going: Vec<usize> = Vec::new();
            for (title, ends) in titles {
                let chosen = ring.choose(mix(title) as u32, Some(percent), None).expect("a box");
                prop_assert!(ring.in_progress(chosen) < ring.room(chosen, percent));
                ring.add(chosen, 1);
                going.push(chosen);
                if ends {
                    ring.add(going.remove(title as usize % going.len()), -1);
                }
            }
            let sum: u64 = (0..weights.len()).map(|of_box| ring.in_progress(of_box)).sum();
            prop_assert_eq!(sum, going.len() as u64);
        }

        #[test]
        fn room_of_all_boxes_is_the_bound(
            weights in prop::collection::vec(1_u32..60, 1..9),
            percent in 101_u32..300,
            requests in 0_u64..300,
        ) {
            let mut ring = ring(&weights);
            hashes(requests).for_each(|hash| {
                let chosen = ring.choose(hash, None, None).expect("a box");
                ring.add(chosen, 1);
            });
            let bound = ((requests + 1) * u64::from(percent)).div_ceil(100);
            let rooms = (0..weights.len()).map(|of_box| ring.room(of_box, percent));
            let sum: u64 = rooms.clone().sum();
            // A box may have one request even if its part is less.
            prop_assert!(sum >= bound && sum <= bound + rooms.filter(|room| *room == 1).count() as u64);
        }

        #[test]
        fn lost_box_moves_only_its_hashes(
            weights in prop::collection::vec(1_u32..60, 2..9),
            lost in 0_usize..9,
            points in 0_u32..100,
        ) {
            let mut ring = ring(&weights);
            let lost = lost % weights.len();
            let whole: Vec<_> = hashes(500).map(|hash| ring.choose(hash, None, None)).collect();
            ring.set_points(lost, points.min(weights[lost] * POINTS_PER_WEIGHT / 2));
            for (hash, before) in hashes(500).zip(&whole) {
                let after = ring.choose(hash, None, None);
                prop_assert!(after == *before || *before == Some(lost));
            }
            ring.set_points(lost, u32::MAX);
            let again: Vec<_> = hashes(500).map(|hash| ring.choose(hash, None, None)).collect();
            prop_assert_eq!(again, whole);
        }
    }

    #[test]
    fn hashes_are_shared_by_weight() {
        let ring = ring(&[50, 100, 50]);
        let mut counts = [0_u32; 3];
        for hash in hashes(40_000) {
            counts[ring.choose(hash, None, None).expect("a box")] += 1;
        }
        for (count, expected) in counts.into_iter().zip([10_000_u32, 20_000, 10_000]) {
            assert!(count.abs_diff(expected) < expected / 8, "{counts:?}");
        }
    }

    #[test]
    fn nearest_point_selects_on_either_side_and_over_the_end() {
        let mut ring = ring(&[1, 1]);
        let point = |at, of_box| RingPoint {
            at,
            of_box,
            number: 0,
        };
        ring.points = vec![point(100, 0), point(200, 1)];
        let chosen = |hash| ring.choose(hash, None, None);
        assert_eq!(chosen(149), Some(0));
        assert_eq!(chosen(151), Some(1));
        assert_eq!(chosen(u32::MAX), Some(0), "100 is 101 away");
        assert_eq!(ring.choose(149, None, Some(0)), Some(1));
    }

    #[test]
    fn order_is_that_of_requests_as_boxes_fill_up() {
        let mut ring = ring(&[5, 9, 5, 7]);
        let order: Vec<usize> = ring.order(77).collect();
        assert_eq!(order.len(), 4);
        for of_box in &order {
            assert_eq!(ring.choose(77, Some(101), None), Some(*of_box), "{order:?}");
            ring.add(*of_box, 1000);
        }
    }

    #[test]
    fn lasting_boxes_hold_at_any_weight() {
        let mut ring = ring(&[40, 90, 50, 70]);
        let found = hashes(20_000).filter_map(|hash| Some((hash, ring.lasting_boxes(hash)?)));
        let found: Vec<_> = found.collect();
        assert!(found.len() > 40, "{}", found.len());
        for (hash, (first, second)) in found {
            for reduced in 0..4 {
                ring.set_points(reduced, ring.boxes[reduced].points_max / 5);
                assert_eq!(ring.choose(hash, None, None), Some(first));
                assert_eq!(ring.choose(hash, None, Some(first)), second);
                let points = ring.boxes[first].points;
                ring.set_points(first, 0);
                assert_eq!(ring.choose(hash, None, None), second);
                ring.set_points(first, points);
            }
            (0..4).for_each(|of_box| ring.set_points(of_box, u32::MAX));
        }
    }

    #[test]
    fn avoided_box_is_chosen_only_if_it_is_alone() {
        let mut ring = ring(&[5, 5]);
        let first = ring.choose(7, None, None).expect("a box");
        assert_eq!(ring.choose(7, Some(150), Some(first)), Some(1 - first));
        ring.set_points(1 - first, 0);
        assert_eq!(ring.choose(7, Some(150), Some(first)), Some(first));
        ring.set_points(first, 0);
        assert_eq!(ring.choose(7, None, None), None);
        assert_eq!(HashRing::new(&[]).choose(7, None, None), None);
    }
}
