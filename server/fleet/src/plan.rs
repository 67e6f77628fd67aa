//! Where each title lives: weighted rendezvous over the disks of all boxes.
//!
//! The same fleet, library and heat give the same plan on every machine. A disk or box that is lost
//! moves only its own titles, and a new one takes only what it gets: a title's order of disks does
//! not depend on other disks. Copies of a title are on different boxes, and in different zones as
//! far as there are any.

use alloc::string::{String, ToString as _};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use headlong_engine::DriveTimes;
use headlong_units::{BitRate, Duration, MIB};

use crate::fleet::{Fleet, FleetDisk};
use crate::placed_titles::{copies_for, viewers_of_copies};
use crate::rendezvous::{RendezvousNode, RendezvousNodes, hash};

/// Share of a disk that a plan fills: file systems and their placement suffer beyond it.
const FILL_PERCENT_MAX: u64 = 95;
/// A title whose load on a disk would be more than this share of the disk's rate is put on more
/// boxes.
const TITLE_LOAD_MAX: f64 = 0.25;

/// A disk of a fleet.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanDisk {
    /// Its box and its name there.
    pub id: DiskId,
    /// Zone of the box.
    pub zone: String,
    /// Folder of its titles, for copy lists.
    pub root: String,
    /// Its capacity.
    pub bytes: u64,
    /// Its transfer rate.
    pub bytes_per_s: u64,
    /// Its times, from which follows how busy it is.
    pub drive: DriveTimes,
    /// Its part of the memory of the box.
    pub memory_bytes: u64,
    /// Its share of the titles, relative to other disks.
    weight: f64,
}

/// Names of a box and of one of its disks, written `BOX:DISK`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DiskId {
    /// The box.
    pub of_box: String,
    /// The disk.
    pub disk: String,
}

impl fmt::Display for DiskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.of_box, self.disk)
    }
}

impl DiskId {
    /// Reads `BOX:DISK`.
    pub fn read(text: &str) -> Option<Self> {
        let (of_box, disk) = text.split_once(':')?;
        let is_named = !of_box.is_empty() && !disk.is_empty();
        is_named.then(|| Self {
            of_box: of_box.to_string(),
            disk: disk.to_string(),
        })
    }
}

/// A title to place.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanTitle {
    /// Its name: the path of its file, or what the files of the title have in common.
    pub name: String,
    /// Size of its files.
    pub bytes: u64,
    /// How much it is watched, relative to other titles.
    pub heat: f64,
}

/// The fleet, library and demand of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanDemand {
    /// Least number of copies of each title.
    pub replicas: u32,
    /// What all viewers read together; zero if it is unknown.
    pub bytes_per_s: f64,
    /// Bit rate of the titles.
    pub bit_rate: BitRate,
    /// Parts of a title, of 1, each of which equally many viewers read from its beginning on.
    pub watched: Vec<f64>,
}

impl PlanDemand {
    /// What viewers read of a title, if the heat of all adds up to `heat`.
    pub(crate) fn load(&self, title: &PlanTitle, heat: f64) -> f64 {
        match heat > 0.0 {
            true => title.heat / heat * self.bytes_per_s,
            false => 0.0,
        }
    }
}

/// Places of all titles.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The disks that titles were placed on.
    pub disks: Vec<PlanDisk>,
    /// For each title, numbers of its disks, the first choice first. Fewer than wanted if there is
    /// no room.
    pub places: Vec<Vec<usize>>,
    /// For each disk, what it holds and bears.
    pub loads: Vec<DiskLoad>,
    /// Numbers of the titles with fewer copies than wanted.
    pub short: Vec<usize>,
}

/// Content and load of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct DiskLoad {
    /// Titles on it.
    pub titles: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What viewers read of them, with the map of [`Fleet::placed_titles`].
    pub bytes_per_s: f64,
}

impl Fleet {
    /// The disks of the fleet, without those that are lost: whole boxes by name, or `BOX:DISK`.
    pub fn disks(&self, without: &[String]) -> Vec<PlanDisk> {
        let mut disks = Vec::new();
        for one in &self.boxes {
            let id = |disk: &FleetDisk| DiskId {
                of_box: one.name.clone(),
                disk: disk.name.clone(),
            };
            let is_there = |disk: &&FleetDisk| {
                let text = id(disk).to_string();
                let mut lost = without.iter();
                !lost.any(|lost| *lost == one.name || *lost == text)
            };
            let count = one.disks.iter().filter(is_there).count() as u64;
            for disk in one.disks.iter().filter(is_there) {
                disks.push(PlanDisk {
                    id: id(disk),
                    zone: one.zone.clone().unwrap_or_else(|| one.name.clone()),
                    root: disk.root.clone(),
                    bytes: disk.bytes,
                    bytes_per_s: disk.bytes_per_s,
                    drive: DriveTimes {
                        reposition: disk.reposition,
                        transfer_per_mib: Duration(MIB * 1_000_000_000 / disk.bytes_per_s.max(1)),
                    },
                    // As the server divides it.
                    memory_bytes: one.memory_bytes / count.max(1),
                    weight: disk.bytes as f64 * f64::from(one.weight),
                });
            }
        }
        disks
    }
}

/// Places titles on disks.
pub fn plan(disks: Vec<PlanDisk>, titles: &[PlanTitle], demand: &PlanDemand) -> Plan {
    let nodes = disks.iter();
    let nodes = nodes.map(|disk| RendezvousNode::new(&disk.id.to_string(), disk.weight));
    let nodes = RendezvousNodes::new(nodes.collect());
    let mut boxes: Vec<&str> = disks.iter().map(|disk| &*disk.id.of_box).collect();
    boxes.sort_unstable();
    boxes.dedup();
    let mean_rate = disks
        .iter()
        .map(|disk| disk.bytes_per_s as f64)
        .sum::<f64>();
    let mean_rate = mean_rate / disks.len().max(1) as f64;
    let heat: f64 = titles.iter().map(|title| title.heat).sum();
    // The hottest first, so that what has to go to a later choice is what matters least.
    let mut order: Vec<usize> = (0..titles.len()).collect();
    order.sort_by(|a, b| {
        let (a, b) = (&titles[*a], &titles[*b]);
        b.heat.total_cmp(&a.heat).then_with(|| a.name.cmp(&b.name))
    });
    let mut places = vec![Vec::new(); titles.len()];
    let mut loads = vec![DiskLoad::default(); disks.len()];
    let mut short = Vec::new();
    let mut scores: Vec<(f64, usize)> = Vec::with_capacity(disks.len());
    for number in order {
        let title = &titles[number];
        let load = demand.load(title, heat);
        let needed = match mean_rate > 0.0 {
            true => libm::ceil(load / (mean_rate * TITLE_LOAD_MAX)),
            false => 0.0,
        };
        let copies = copies_for(needed as usize, demand.replicas).min(boxes.len());
        let hash = hash(&title.name);
        let is_fit = |chosen: &[usize], disk: usize, any_zone: bool| {
            let is_apart = chosen.iter().all(|other| {
                let (disk, other) = (&disks[disk], &disks[*other]);
                disk.id.of_box != other.id.of_box && (any_zone || disk.zone != other.zone)
            });
            let limit = disks[disk].bytes / 100 * FILL_PERCENT_MAX;
            is_apart && loads[disk].bytes + title.bytes <= limit
        };
        nodes.leading(hash, &mut scores);
        let mut chosen = choose(&mut scores, copies, &[false], is_fit);
        if chosen.len() < copies {
            nodes.all(hash, &mut scores);
            chosen = choose(&mut scores, copies, &[false, true], is_fit);
        }
        if chosen.len() < copies.max(1) {
            short.push(number);
        }
        for disk in &chosen {
            loads[*disk].titles += 1;
            loads[*disk].bytes += title.bytes;
        }
        let shares = viewers_of_copies(chosen.len(), demand.replicas);
        for (disk, share) in chosen.iter().zip(shares) {
            loads[*disk].bytes_per_s += load * share;
        }
        places[number] = chosen;
    }
    short.sort_unstable();
    Plan {
        disks,
        places,
        loads,
        short,
    }
}

/// The first `copies` disks in the order of their scores that `is_fit` admits; first in zones of
/// their own, then in any, if `any_zones` has both.
fn choose(
    scores: &mut [(f64, usize)],
    copies: usize,
    any_zones: &[bool],
    is_fit: impl Fn(&[usize], usize, bool) -> bool,
) -> Vec<usize> {
    let by_score = |a: &(f64, usize), b: &(f64, usize)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
    let mut chosen = Vec::with_capacity(copies);
    // Few titles look beyond their first disks, so the rest is not sorted.
    let mut sorted = 0;
    for any_zone in any_zones.iter().copied() {
        let mut next = 0;
        while chosen.len() < copies && next < scores.len() {
            if next == sorted {
                let ahead = (2 * (sorted + copies) + 2).min(scores.len()) - sorted;
                let rest = &mut scores[sorted..];
                if ahead < rest.len() {
                    rest.select_nth_unstable_by(ahead, by_score);
                }
                rest[..ahead].sort_unstable_by(by_score);
                sorted += ahead;
            }
            let disk = scores[next].1;
            if is_fit(&chosen, disk, any_zone) {
                chosen.push(disk);
            }
            next += 1;
        }
    }
    chosen
}

/// A copy to make.
#[derive(Debug, Clone, PartialEq)]
pub struct CopyStep {
    /// Number of the title.
    pub title: usize,
    /// Where it is now; none if no copy is left.
    pub from: Option<DiskId>,
    /// Where it goes: the number of a disk of the plan.
    pub to: usize,
}

/// The changes to make.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PlanChanges {
    /// Copies to make.
    pub copies: Vec<CopyStep>,
    /// Copies that are no longer needed once the others are made: the title, and its disk.
    pub surplus: Vec<(usize, DiskId)>,
}

impl Plan {
    /// The changes that lead here from where titles are now. `places_now` gives the disks of a
    /// title; those that are not disks of the plan are lost, and nothing can be copied from them.
    pub fn changes<'a>(
        &self,
        titles: &[PlanTitle],
        places_now: impl Fn(&str) -> &'a [DiskId],
    ) -> PlanChanges {
        let mut changes = PlanChanges::default();
        let mut known: Vec<&DiskId> = self.disks.iter().map(|disk| &disk.id).collect();
        known.sort_unstable();
        for (number, places) in self.places.iter().enumerate() {
            let now = places_now(&titles[number].name).iter();
            let now: Vec<&DiskId> = now.filter(|id| known.binary_search(id).is_ok()).collect();
            for to in places {
                if !now.contains(&&self.disks[*to].id) {
                    changes.copies.push(CopyStep {
                        title: number,
                        from: now.first().map(|id| (*id).clone()),
                        to: *to,
                    });
                }
            }
            let is_planned = |id: &&DiskId| places.iter().any(|to| self.disks[*to].id == **id);
            let surplus = now.into_iter().filter(|id| !is_planned(id));
            changes
                .surplus
                .extend(surplus.map(|id| (number, id.clone())));
        }
        changes
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
