//! Placed titles: HAProxy hashes a title of a plan by a key instead of by its name, and the key is
//! chosen such that the ring leads to the boxes with a copy.
//!
//! The first box of a key has the requests as long as it is up, and the second one those that the
//! first refuses, may not have by the bound on its load, or misses because it is down. All that the
//! balancer does for other titles so applies to placed ones.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;

use crate::fleet::{Fleet, TitleRule};
use crate::hash_ring::HashRing;
use crate::plan::DiskId;
use crate::title_hash::title_hash;

/// Viewers of a title with several keys are divided by their addresses into this many groups, which
/// 2, 3, 4, 6 and 12 copies share equally.
pub(crate) const GROUPS: usize = 12;
/// Copies of a title that are used: one for each group.
pub(crate) const COPIES_MAX: usize = GROUPS;
/// Keys that are tried: seconds of work. A fleet of 100 equal boxes needs about 5 million to have
/// one for every two of them.
const KEYS_MAX: u32 = 30_000_000;

/// Where titles live, as HAProxy reads it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlacedTitles {
    /// Lines for HAProxy: a title, or a group of its viewers and the title; and, divided by
    /// slashes, its key and the boxes with a copy.
    pub map: String,
    /// Titles with a first box, or a pair of first and second, that no key leads to. Without a pair
    /// the title has a key for the first box alone, and without that it goes where its hash leads.
    pub unled: usize,
}

/// Finds keys for boxes.
struct KeyFinder<'f> {
    ring: &'f HashRing,
    /// The number in a key by the first two boxes of its order.
    keys: BTreeMap<(usize, Option<usize>), u32>,
    tried: u32,
}

fn key(number: u32) -> String {
    format!("key-{number}")
}

impl KeyFinder<'_> {
    /// A key whose first box is `first` and, if there is one, whose second is `second`.
    fn find(&mut self, first: usize, second: Option<usize>) -> Option<u32> {
        loop {
            let known = match second {
                Some(_) => self.keys.get(&(first, second)),
                None => {
                    let mut of_first = self.keys.range((first, None)..=(first, Some(usize::MAX)));
                    of_first.next().map(|(_, number)| number)
                }
            };
            if known.is_some() || self.tried == KEYS_MAX {
                return known.copied();
            }
            let number = self.tried;
            self.tried += 1;
            if let Some(boxes) = self.ring.lasting_boxes(title_hash(&key(number))) {
                self.keys.entry(boxes).or_insert(number);
            }
        }
    }
}

/// The share of a title's viewers that each of its copies has, if all boxes are in service. A title
/// with more copies than `replicas` is popular, and its viewers are shared among them; of another
/// one the first copy has all.
pub(crate) fn viewers_of_copies(copies: usize, replicas: u32) -> impl Iterator<Item = f64> {
    let copies = copies.min(COPIES_MAX);
    let sharing = match copies > replicas as usize {
        true => copies,
        false => 1,
    };
    (0..copies).map(move |copy| {
        let groups = (0..GROUPS).filter(|group| group % sharing == copy);
        groups.count() as f64 / GROUPS as f64
    })
}

/// The number of copies for a title whose load needs `needed` boxes: those who share its viewers
/// get equal parts.
pub(crate) fn copies_for(needed: usize, replicas: u32) -> usize {
    let replicas = replicas as usize;
    if needed <= 1 {
        return replicas;
    }
    let least = needed.max(replicas + 1);
    let mut equal = (1..=GROUPS).filter(|copies| GROUPS.is_multiple_of(*copies));
    equal.find(|copies| *copies >= least).unwrap_or(COPIES_MAX)
}

/// A key for the viewers of a title, or for a group of them.
struct PlacedKey<'a> {
    group: Option<usize>,
    number: u32,
    /// Numbers of the boxes with a copy.
    copies: &'a [usize],
}

impl Fleet {
    /// The map for [`Self::haproxy`], from the disks of each title; those of boxes that are not in
    /// the fleet do not count. A title with more than [`Self::replicas`] copies is popular: its
    /// viewers are shared among them.
    pub fn placed_titles<'p>(
        &self,
        places: impl Iterator<Item = (&'p str, &'p [DiskId])>,
    ) -> PlacedTitles {
        let mut map = String::new();
        let unled = self.each_key(places, |title, of| {
            let copies = of.copies.iter();
            let names: String = copies
                .map(|copy| format!("/{}", self.boxes[*copy].name))
                .collect();
            let group = of.group.map_or(String::new(), |group| format!("{group}/"));
            let title = format!("{group}{}", self.title.balanced_name(title));
            // Writing to a string cannot fail.
            let _ = writeln!(map, "{} {}{names}", encoded(&title), key(of.number));
        });
        PlacedTitles { map, unled }
    }

    /// The same for [`crate::Balancer::set_keys`]: the hashes of each title's keys, one for all
    /// viewers or one for each group; none if no key leads to its boxes.
    pub fn placed_keys<'p>(
        &self,
        places: impl Iterator<Item = (&'p str, &'p [DiskId])>,
    ) -> BTreeMap<String, Vec<u32>> {
        let mut keys: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        self.each_key(places, |title, of| {
            let hash = title_hash(&key(of.number));
            match keys.get_mut(title) {
                Some(of_title) => of_title.push(hash),
                None => drop(keys.insert(title.into(), Vec::from([hash]))),
            }
        });
        keys
    }

    /// Finds the keys of all titles. Returns [`PlacedTitles::unled`].
    fn each_key<'p>(
        &self,
        places: impl Iterator<Item = (&'p str, &'p [DiskId])>,
        mut each: impl FnMut(&'p str, PlacedKey<'_>),
    ) -> usize {
        let ids: Vec<(u32, u32)> = self.boxes.iter().map(|b| (b.id(), b.weight)).collect();
        let ring = HashRing::new(&ids);
        let mut finder = KeyFinder {
            ring: &ring,
            keys: BTreeMap::new(),
            tried: 0,
        };
        let mut unled = 0;
        for (title, disks) in places {
            let mut copies: Vec<usize> = Vec::new();
            for disk in disks {
                let of_box = self.boxes.iter().position(|one| one.name == disk.of_box);
                copies.extend(of_box.filter(|of_box| !copies.contains(of_box)));
            }
            copies.truncate(COPIES_MAX);
            // Whether all keys of the title lead to the boxes wanted.
            let mut is_led = true;
            let mut add = |group: Option<usize>, at: usize| {
                let first = copies[at];
                let second = copies.get((at + 1) % copies.len());
                let second = second.copied().filter(|second| *second != first);
                let both = finder.find(first, second);
                is_led &= both.is_some();
                if let Some(number) = both.or_else(|| finder.find(first, None)) {
                    let copies = &copies;
                    each(
                        title,
                        PlacedKey {
                            group,
                            number,
                            copies,
                        },
                    );
                }
            };
            match copies.len() {
                0 => continue,
                count if count > self.replicas as usize => {
                    (0..GROUPS).for_each(|group| add(Some(group), group % count));
                }
                _ => add(None, 0),
            }
            unled += usize::from(!is_led);
        }
        unled
    }
}

impl TitleRule {
    /// The name of a title of a plan as [`Self::balanced`] returns it for its paths.
    fn balanced_name(self, title: &str) -> String {
        match self {
            Self::File => format!("/{title}"),
            Self::Folder if title.is_empty() => "/".into(),
            Self::Folder => format!("/{title}/"),
            Self::Names(_) => title.into(),
        }
    }
}

/// A text as HAProxy's converter `url_enc` returns it: a map could not have blanks or `#` in it.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            true => encoded.push(char::from(byte)),
            // Writing to a string cannot fail.
            false => drop(write!(encoded, "%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::fleet::FleetBox;

    fn fleet(count: usize, title: TitleRule) -> Fleet {
        let boxes = (0..count).map(|number| FleetBox::new(&format!("b{number}")));
        Fleet {
            title,
            boxes: boxes.collect(),
            ..Fleet::default()
        }
    }

    fn disks(text: &str) -> Vec<DiskId> {
        let words = text.split_whitespace();
        words
            .map(|word| DiskId::read(word).expect("a disk"))
            .collect()
    }

    /// The boxes of each line of a map in the order of the ring, with the title of the line. The
    /// first is among the boxes that the line names.
    fn orders(fleet: &Fleet, map: &str) -> Vec<(String, Vec<usize>)> {
        let ids: Vec<(u32, u32)> = fleet.boxes.iter().map(|b| (b.id(), b.weight)).collect();
        let ring = HashRing::new(&ids);
        let lines = map.lines().map(|line| {
            let (title, value) = line.split_once(' ').expect("a line");
            let (key, names) = value.split_once('/').expect("a key and boxes");
            let order: Vec<usize> = ring.order(title_hash(key)).collect();
            let mut names = names.split('/');
            assert!(
                names.any(|name| name == fleet.boxes[order[0]].name),
                "{line}"
            );
            (title.into(), order)
        });
        lines.collect()
    }

    #[test]
    fn key_leads_to_first_copy_and_then_to_second() {
        let of = Fleet {
            replicas: 2,
            ..fleet(7, TitleRule::File)
        };
        let pairs = (0..7).flat_map(|a| (0..7).map(move |b| (a, b)));
        let pairs: Vec<(usize, usize)> = pairs.filter(|(a, b)| a != b).collect();
        let places = pairs.iter().map(|(a, b)| {
            let on = disks(&format!("b{a}:d0 b{b}:d1 b{a}:d2 gone:d0"));
            (format!("title {a}#{b}"), on)
        });
        let places: Vec<(String, Vec<DiskId>)> = places.collect();
        let made = of.placed_titles(places.iter().map(|(title, on)| (&**title, &**on)));
        assert_eq!(made.unled, 0);
        for ((title, order), (a, b)) in orders(&of, &made.map).iter().zip(&pairs) {
            assert_eq!(*title, format!("%2Ftitle%20{a}%23{b}"));
            assert_eq!(order[..2], [*a, *b]);
        }
    }

    #[test]
    fn copies_share_viewers_of_popular_title() {
        let of = fleet(5, TitleRule::Folder);
        let on = disks("b3:d b1:d b4:d");
        let made = of.placed_titles([("x/y", &on[..]), ("", &[])].into_iter());
        let lines = orders(&of, &made.map);
        assert_eq!(lines.len(), GROUPS);
        for (group, (title, order)) in lines.iter().enumerate() {
            assert_eq!(*title, format!("{group}%2F%2Fx%2Fy%2F"));
            let expected = [[3, 1], [1, 4], [4, 3]][group % 3];
            assert_eq!(order[..2], expected, "{group}");
        }
        assert!(made.map.lines().all(|line| line.ends_with("/b3/b1/b4")));
    }

    #[test]
    fn copies_have_equal_shares_of_popular_title_and_first_all_of_others() {
        let shares = |copies, replicas| viewers_of_copies(copies, replicas).collect::<Vec<_>>();
        assert_eq!(shares(2, 2), [1.0, 0.0]);
        assert_eq!(shares(4, 2), [0.25; 4]);
        for needed in 0..20 {
            for replicas in 1..5 {
                let copies = copies_for(needed, replicas);
                assert!(copies >= needed.min(COPIES_MAX).max(replicas as usize));
                let of_each = shares(copies, replicas);
                let is_popular = needed > 1;
                assert_eq!(copies > replicas as usize, is_popular);
                assert!(!is_popular || of_each.iter().all(|share| *share == of_each[0]));
                let sum: f64 = of_each.iter().sum();
                assert!((sum - 1.0).abs() < 1e-9, "{of_each:?}");
            }
        }
    }

    #[test]
    fn titles_of_a_single_box_need_no_second() {
        let of = fleet(1, TitleRule::Names(2));
        let on = disks("b0:d");
        let made = of.placed_titles([("x/y", &on[..])].into_iter());
        assert_eq!(orders(&of, &made.map), [("x%2Fy".into(), vec![0])]);
    }
}
