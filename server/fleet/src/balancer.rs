//! The decisions of a balancer: the box of each request, and how many requests each box gets.
//!
//! Behaviour of HAProxy with the configuration of [`crate::Fleet::haproxy`]: checks once a second,
//! weights from agents, a slow start of boxes that come back, a hash of the title with bounded
//! loads. Used by simulations; no server runs it.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use headlong_units::names;

use crate::agent::AgentAnswer;
use crate::fleet::FleetBox;
use crate::hash_ring::{HashRing, POINTS_PER_WEIGHT};
use crate::popularity::TitlePopularity;
use crate::rendezvous::mix;
use crate::title_hash::title_copy;

/// Checks that must fail before a box gets no more requests.
pub(crate) const CHECKS_FALL: u32 = 2;
/// Checks that must succeed before a box that was down gets requests again.
pub(crate) const CHECKS_RISE: u32 = 2;
/// Seconds from then until it has its full weight.
pub(crate) const SLOW_START_S: u64 = 30;

names! {
    /// How a balancer selects the box of a request.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum BalancingRule {
        /// By the title, or by one of its copies if it is popular, unless that box has more than
        /// its part of the requests in progress.
        SpreadHash => "spread-hash",
        /// By the title, unless its box has more than its part of the requests in progress.
        BoundedHash => "bounded-hash",
        /// By the title.
        Hash => "hash",
        /// At random, by weight.
        Random => "random",
        /// By a plan: the boxes with a copy of the title, unless they have more than their part.
        Placed => "placed",
    }
}

/// A box as the balancer knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CheckedBox {
    weight: u32,
    is_up: bool,
    /// Successive checks that contradict this.
    contradictions: u32,
    /// Second from which it is up again.
    up_since_s: Option<u64>,
    /// Share of its weight that its agent asks for.
    agent_percent: u32,
}

impl CheckedBox {
    /// Takes the result of a check in this second.
    fn check(&mut self, second: u64, is_good: bool) {
        if is_good == self.is_up {
            self.contradictions = 0;
            return;
        }
        self.contradictions += 1;
        let needed = if is_good { CHECKS_RISE } else { CHECKS_FALL };
        if self.contradictions >= needed {
            self.is_up = is_good;
            self.contradictions = 0;
            self.up_since_s = is_good.then_some(second);
        }
    }

    /// Its points on the ring in this second. While a box starts slowly, HAProxy rounds its share of
    /// the weight up to sixteenths.
    fn points(&self, second: u64) -> u32 {
        if !self.is_up {
            return 0;
        }
        let weight = self.weight * self.agent_percent / 100;
        let up_s = self
            .up_since_s
            .map_or(SLOW_START_S, |since| second.saturating_sub(since));
        let full = u64::from(POINTS_PER_WEIGHT);
        let share = match up_s < SLOW_START_S {
            true => (full * up_s + SLOW_START_S) / SLOW_START_S,
            false => full,
        };
        weight * share as u32
    }
}

/// A balancer before a fleet. Boxes are numbered in the order of [`crate::Fleet::boxes`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Balancer {
    rule: BalancingRule,
    load_percent_max: u32,
    ring: HashRing,
    boxes: Vec<CheckedBox>,
    popularity: TitlePopularity,
    /// Hashes of the keys of titles, by the hash of the title, for [`BalancingRule::Placed`].
    keys: BTreeMap<u32, Vec<u32>>,
    /// Of the latest check.
    second: u64,
    /// State of the random numbers of [`BalancingRule::Random`].
    draws: u64,
}

impl Balancer {
    /// A balancer whose boxes are all up, with [`crate::Fleet::load_percent_max`] for bounded
    /// loads. `seed` determines its random choices.
    pub fn new(boxes: &[FleetBox], rule: BalancingRule, load_percent_max: u32, seed: u64) -> Self {
        let ids: Vec<(u32, u32)> = boxes.iter().map(|one| (one.id(), one.weight)).collect();
        let boxes = boxes.iter().map(|one| CheckedBox {
            weight: one.weight,
            is_up: true,
            contradictions: 0,
            up_since_s: None,
            agent_percent: 100,
        });
        Self {
            rule,
            load_percent_max,
            ring: HashRing::new(&ids),
            boxes: boxes.collect(),
            popularity: TitlePopularity::default(),
            keys: BTreeMap::new(),
            second: 0,
            draws: mix(seed),
        }
    }

    /// Sets the keys of titles for [`BalancingRule::Placed`], by the hashes of the titles: the map
    /// of [`crate::Fleet::placed_keys`].
    pub fn set_keys(&mut self, keys: BTreeMap<u32, Vec<u32>>) {
        self.keys = keys;
    }

    /// The box that gets a title, by its [`crate::title_hash`], as long as no bound sends it elsewhere.
    pub fn home(&self, title: u32) -> Option<usize> {
        self.ring.choose(title, None, None)
    }

    /// The box for a request for a title with this [`crate::title_hash`]. The box `avoid` has just failed
    /// or refused it; viewers of a popular title are shared among its copies by the hash of their
    /// addresses. None if no box is up.
    pub fn choose(&mut self, title: u32, viewer: u32, avoid: Option<usize>) -> Option<usize> {
        let (hash, bound) = match self.rule {
            BalancingRule::SpreadHash => {
                let boxes = self.boxes.len() as u64;
                let copies = self.popularity.handle_request(self.second, title, boxes);
                let hash = match viewer % copies as u32 {
                    0 => title,
                    copy => title_copy(title, copy),
                };
                (hash, Some(self.load_percent_max))
            }
            BalancingRule::BoundedHash => (title, Some(self.load_percent_max)),
            BalancingRule::Placed => {
                let keys = self.keys.get(&title).filter(|keys| !keys.is_empty());
                let key = keys.map_or(title, |keys| keys[viewer as usize % keys.len()]);
                (key, Some(self.load_percent_max))
            }
            BalancingRule::Hash => (title, None),
            BalancingRule::Random => {
                self.draws = self.draws.wrapping_add(1);
                (mix(self.draws) as u32, None)
            }
        };
        self.ring.choose(hash, bound, avoid)
    }

    /// Sets how many requests are in progress at a box.
    pub fn set_in_progress(&mut self, of_box: usize, count: u64) {
        self.ring.set_in_progress(of_box, count);
    }

    /// Requests in progress at a box.
    pub fn in_progress(&self, of_box: usize) -> u64 {
        self.ring.in_progress(of_box)
    }

    /// Whether a box gets requests.
    pub fn is_up(&self, of_box: usize) -> bool {
        self.boxes[of_box].is_up
    }

    /// Takes the result of a box's checks in this second: none if it did not respond, else what its
    /// agent answered.
    pub fn handle_check(&mut self, second: u64, of_box: usize, answer: Option<AgentAnswer>) {
        self.second = second;
        let one = &mut self.boxes[of_box];
        let is_good = !matches!(answer, None | Some(AgentAnswer::Down));
        one.check(second, is_good);
        match answer {
            Some(AgentAnswer::Up(percent)) => one.agent_percent = percent.min(100),
            Some(AgentAnswer::Drain) => one.agent_percent = 0,
            None | Some(AgentAnswer::Down) => {}
        }
        let points = one.points(second);
        self.ring.set_points(of_box, points);
    }
}

#[cfg(test)]
mod tests {
    use std::format;
    use std::vec::Vec;

    use super::*;
    use crate::title_hash::title_hash;

    const GOOD: Option<AgentAnswer> = Some(AgentAnswer::Up(100));

    fn balancer(count: u32, rule: BalancingRule) -> Balancer {
        let boxes = (0..count).map(|number| FleetBox::new(&format!("b{number}")));
        Balancer::new(&boxes.collect::<Vec<_>>(), rule, 125, 1)
    }

    /// Share of titles that a box gets.
    fn share(balancer: &mut Balancer, of_box: usize) -> f64 {
        let titles = (0..20_000).map(|title| title_hash(&format!("{title}")));
        let own = titles.filter(|title| balancer.choose(*title, 0, None) == Some(of_box));
        own.count() as f64 / 20_000.0
    }

    #[test]
    fn box_is_down_after_two_checks_and_comes_back_slowly() {
        let mut of = balancer(2, BalancingRule::Hash);
        let full = share(&mut of, 0);
        of.handle_check(10, 0, None);
        assert!(of.is_up(0));
        assert_eq!(share(&mut of, 0), full);
        of.handle_check(11, 0, None);
        assert!(!of.is_up(0));
        assert_eq!(share(&mut of, 0), 0.0);
        of.handle_check(20, 0, GOOD);
        assert_eq!(share(&mut of, 0), 0.0);
        let mut shares = Vec::new();
        for second in 21..=50 {
            of.handle_check(second, 0, GOOD);
            shares.push(share(&mut of, 0));
        }
        assert!(shares.is_sorted(), "{shares:?}");
        assert!(shares[0] > 0.0 && shares[0] < 0.12, "{shares:?}");
        assert!(shares[28] < full && shares[29] == full, "{shares:?}");
    }

    #[test]
    fn agent_changes_share_and_drain_ends_it() {
        let mut of = balancer(2, BalancingRule::Hash);
        of.handle_check(1, 0, Some(AgentAnswer::Up(50)));
        let half = share(&mut of, 0);
        assert!((half - 1.0 / 3.0).abs() < 0.04, "{half}");
        of.handle_check(2, 0, Some(AgentAnswer::Drain));
        assert!(of.is_up(0));
        assert_eq!(share(&mut of, 0), 0.0);
        of.handle_check(3, 0, Some(AgentAnswer::Down));
        of.handle_check(4, 0, Some(AgentAnswer::Down));
        assert!(!of.is_up(0));
    }

    #[test]
    fn title_goes_home_unless_its_box_has_too_much() {
        for rule in [BalancingRule::BoundedHash, BalancingRule::Hash] {
            let mut of = balancer(8, rule);
            let title = title_hash("films/a.mp4");
            let home = of.home(title).expect("a box");
            let mut boxes = Vec::new();
            for _ in 0..40 {
                let chosen = of.choose(title, 0, None).expect("a box");
                of.set_in_progress(chosen, of.in_progress(chosen) + 1);
                boxes.push(chosen);
            }
            let home_only = rule == BalancingRule::Hash;
            assert_eq!(boxes[0], home);
            assert_eq!(boxes.iter().all(|of_box| *of_box == home), home_only);
            // 40 requests, 125 %, 8 boxes: 50 are shared out.
            assert!(home_only || of.in_progress(home) <= 7, "{boxes:?}");
        }
    }

    #[test]
    fn popular_title_is_shared_and_rest_stays() {
        let mut of = balancer(100, BalancingRule::SpreadHash);
        let mut boxes = [0_u32; 100];
        let mut is_away = false;
        for second in 0..120_u64 {
            of.handle_check(second, 0, GOOD);
            for request in 0..100 {
                let viewer = mix(second * 100 + request) as u32;
                // A fiftieth of all requests: two boxes' parts.
                let title = if request < 2 { 7 } else { viewer };
                let chosen = of.choose(title, viewer, None).expect("a box");
                boxes[chosen] += u32::from(second >= 90 && title == 7);
                is_away |= title != 7 && Some(chosen) != of.home(title);
            }
        }
        assert!(!is_away);
        let copies = boxes.iter().filter(|count| **count > 0).count();
        // 60 viewers, 64 places.
        assert!((20..=50).contains(&copies), "{boxes:?}");
    }

    #[test]
    fn placed_title_goes_to_boxes_of_its_keys() {
        let boxes = (0..6).map(|number| FleetBox::new(&format!("b{number}")));
        let fleet = crate::Fleet {
            boxes: boxes.collect(),
            ..crate::Fleet::default()
        };
        let id = |text| crate::DiskId::read(text).expect("a disk");
        let places = [
            ("cold", [id("b4:d0")].to_vec()),
            ("hot", ["b1:d0", "b2:d3", "b5:d0"].map(id).to_vec()),
        ];
        let keys = fleet.placed_keys(places.iter().map(|(title, on)| (*title, &on[..])));
        let keys = keys.into_iter();
        let keys = keys
            .map(|(title, keys)| (title_hash(&title), keys))
            .collect();
        let mut of = Balancer::new(&fleet.boxes, BalancingRule::Placed, 1000, 1);
        of.set_keys(keys);
        let mut chosen = |title, viewer| of.choose(title_hash(title), viewer, None);
        assert!((0..50).all(|viewer| chosen("cold", viewer) == Some(4)));
        let hot: Vec<_> = (0..6).filter_map(|viewer| chosen("hot", viewer)).collect();
        assert_eq!(hot, [1, 2, 5, 1, 2, 5]);
        let home = of.home(title_hash("other"));
        assert_eq!(of.choose(title_hash("other"), 3, None), home);
    }

    #[test]
    fn random_rule_uses_all_boxes_and_repeats_by_seed() {
        let mut one = balancer(8, BalancingRule::Random);
        let mut again = one.clone();
        let draw =
            |of: &mut Balancer| -> Vec<_> { (0..200).map(|_| of.choose(5, 0, None)).collect() };
        let drawn = draw(&mut one);
        assert_eq!(drawn, draw(&mut again));
        assert!((0..8).all(|of_box| drawn.contains(&Some(of_box))));
    }
}
