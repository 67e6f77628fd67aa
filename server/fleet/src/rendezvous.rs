//! Weighted rendezvous hashing: the order of nodes for a title, by their scores.
//!
//! A node's score for a title does not depend on the other nodes, so a node that is lost, or comes,
//! moves only titles of its own. Scores: Schindelhauer and Schomaker, "Weighted Distributed Hash
//! Tables", SPAA 2005, the logarithmic method.

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
        let mixed = mix(self.hash ^ title);
        // In (0, 1): the upper 53 bits, and half a step.
        let uniform = ((mixed >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        -self.weight / libm::log(uniform)
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

    const HASH_OF_A: u64 = 3_614_954_621_116_712_976;
}
