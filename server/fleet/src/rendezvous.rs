//! Weighted rendezvous hashing: the order of nodes for a title, by their scores.
//!
//! A node's score for a title does not depend on the other nodes, so a node that is lost, or comes,
//! moves only titles of its own. Scores: Schindelhauer and Schomaker, "Weighted Distributed Hash
//! Tables", SPAA 2005, the logarithmic method.

use alloc::vec::Vec;

/// Nodes that lead the order for a title, on average: more than almost any title needs.
const LEADING: f64 = 24.0;

/// A node and its share of the titles, relative to the others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RendezvousNode {
    hash: u64,
    weight: f64,
}

impl RendezvousNode {
    /// A node by its name, which decides its titles.
    pub(crate) fn new(name: &str, weight: f64) -> Self {
        Self {
            hash: hash(name),
            weight: weight.max(0.0),
        }
    }

    /// Its score for a title with this [`hash`]; the highest comes first.
    pub(crate) fn score(&self, title: u64) -> f64 {
        -self.weight / libm::log(self.uniform(title))
    }

    /// In (0, 1): the upper 53 bits, and half a step.
    fn uniform(&self, title: u64) -> f64 {
        ((mix(self.hash ^ title) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }
}

/// Nodes whose first ones for a title are found without the scores of all.
#[derive(Debug, Clone)]
pub(crate) struct RendezvousNodes {
    nodes: Vec<RendezvousNode>,
    /// For each node, what its uniform number exceeds if its score is a leading one.
    bounds: Vec<f64>,
}

impl RendezvousNodes {
    pub(crate) fn new(nodes: Vec<RendezvousNode>) -> Self {
        // The score that [`LEADING`] nodes exceed on average: one with weight w does so with a
        // probability of 1 - exp(-w / score).
        let exceeding = |score: f64| {
            let each = nodes
                .iter()
                .map(|node| 1.0 - libm::exp(-node.weight / score));
            each.sum::<f64>()
        };
        let most: f64 = nodes.iter().map(|node| node.weight).sum();
        let (mut low, mut high) = (0.0, most.max(f64::MIN_POSITIVE));
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            match exceeding(middle) > LEADING {
                true => low = middle,
                false => high = middle,
            }
        }
        let are_few = nodes.len() as f64 <= 2.0 * LEADING;
        let bound = |node: &RendezvousNode| match are_few {
            true => 0.0,
            false => libm::exp(-node.weight / high),
        };
        let bounds = nodes.iter().map(bound).collect();
        Self { nodes, bounds }
    }

    /// Fills a list with scores and numbers of nodes that come before all others.
    pub(crate) fn leading(&self, title: u64, scores: &mut Vec<(f64, usize)>) {
        scores.clear();
        let nodes = (0..).zip(self.nodes.iter().zip(&self.bounds));
        let leading = nodes.filter(|(_, (node, bound))| node.uniform(title) > **bound);
        scores.extend(leading.map(|(number, (node, _))| (node.score(title), number)));
    }

    /// The same of all nodes.
    pub(crate) fn all(&self, title: u64, scores: &mut Vec<(f64, usize)>) {
        scores.clear();
        scores.extend(self.nodes.iter().map(|node| node.score(title)).zip(0..));
    }
}

/// The hash of a name.
pub(crate) fn hash(name: &str) -> u64 {
    // FNV-1a, and a finaliser, since its upper bits depend little on the last bytes.
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    mix(hash)
}

/// The finaliser of `SplitMix64`.
pub(crate) const fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use std::format;
    use std::vec;
    use std::vec::Vec;

    use super::*;

    /// Numbers of the first `count` nodes for a title, in order.
    fn first_nodes(title: &str, nodes: &[RendezvousNode], count: usize) -> Vec<usize> {
        let title = hash(title);
        let scores = nodes.iter().map(|node| node.score(title));
        let mut order: Vec<(f64, usize)> = scores.zip(0..).collect();
        order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        order
            .into_iter()
            .take(count)
            .map(|(_, number)| number)
            .collect()
    }

    #[test]
    fn titles_are_shared_by_weight_and_order_is_fixed() {
        let nodes = [("a", 1.0), ("b", 2.0), ("c", 1.0)];
        let nodes = nodes.map(|(name, weight)| RendezvousNode::new(name, weight));
        let mut counts = [0_u32; 3];
        for title in 0..40_000 {
            counts[first_nodes(&format!("title-{title}"), &nodes, 1)[0]] += 1;
        }
        for (count, expected) in counts.into_iter().zip([10_000_u32, 20_000, 10_000]) {
            assert!(count.abs_diff(expected) < 400, "{counts:?}");
        }
        // A change of the hash would move every title of every fleet.
        assert_eq!(hash("films/a.mp4"), HASH_OF_A);
        assert_eq!(first_nodes("films/a.mp4", &nodes, 3), vec![1, 2, 0]);
    }

    #[test]
    fn lost_node_moves_only_its_own_titles() {
        let node = |name| RendezvousNode::new(name, 1.0);
        let (four, three) = (["a", "b", "c", "d"].map(node), ["a", "b", "c"].map(node));
        for title in 0..2_000 {
            let title = format!("title-{title}");
            let before = first_nodes(&title, &four, 2);
            let after = first_nodes(&title, &three, 2);
            let kept: Vec<_> = before.iter().filter(|node| **node != 3).collect();
            assert!(kept.iter().all(|node| after.contains(node)), "{title}");
        }
    }

    #[test]
    fn leading_nodes_come_before_all_others() {
        let node = |number: u32| {
            let weight = f64::from(1 + number % 7);
            RendezvousNode::new(&format!("node-{number}"), weight)
        };
        let nodes: Vec<RendezvousNode> = (0..300).map(node).collect();
        let of = RendezvousNodes::new(nodes.clone());
        let mut leading = Vec::new();
        let mut counts = 0;
        for title in 0..500 {
            let title = format!("title-{title}");
            of.leading(hash(&title), &mut leading);
            let mut found: Vec<usize> = leading.iter().map(|(_, number)| *number).collect();
            let mut first = first_nodes(&title, &nodes, found.len());
            found.sort_unstable();
            first.sort_unstable();
            assert_eq!(found, first);
            counts += found.len();
        }
        assert!((20..28).contains(&(counts / 500)), "{counts}");
        let few = RendezvousNodes::new(nodes[..5].to_vec());
        few.leading(1, &mut leading);
        assert_eq!(leading.len(), 5);
    }

    const HASH_OF_A: u64 = 3_614_954_621_116_712_976;
}
