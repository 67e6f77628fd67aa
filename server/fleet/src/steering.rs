//! Content steering (RFC 8216bis, 7; ETSI TS 103 998): the boxes that a player may use for a title,
//! and which of them first.
//!
//! A box with late disks moves viewers to other boxes before it refuses any: the part that its
//! answer to the balancer says it cannot bear. A viewer's id decides whether it is among them, so
//! that a changing share moves few viewers, and each of them once.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::agent::AgentAnswer;
use crate::fleet::Fleet;
use crate::rendezvous::mix;
use crate::title_order::TitleOrder;

/// Boxes that a player may use for one title: more would make playlists of large fleets long.
const PATHWAYS_MAX: usize = 4;
/// Seconds after which a player asks again. A share changes every 5 seconds.
const RELOAD_S: u32 = 30;
/// The same while the box moves viewers.
const RELOAD_PRESSED_S: u32 = 10;

/// The boxes of a fleet that players reach, as one of them steers its viewers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Steering {
    order: TitleOrder,
    /// Name, and URL if it has one, in the order of [`Fleet::boxes`].
    boxes: Vec<(String, Option<String>)>,
    own: usize,
    own_url: String,
    own_id: u32,
}

/// A box that a player may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pathway<'a> {
    /// Name of the box.
    pub name: &'a str,
    /// Its URL, without a path or a slash at its end.
    pub url: &'a str,
}

/// The pathways of a viewer for a title.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathwayOrder<'a> {
    /// The pathways, the preferred one first; at least one.
    pub pathways: Vec<Pathway<'a>>,
    /// The box that answers.
    pub own: Pathway<'a>,
    /// Seconds until the player asks again.
    reload_s: u32,
}

impl Steering {
    /// Steering by the box of this name.
    ///
    /// # Errors
    /// If the fleet has no such box, or not two boxes that players reach.
    pub fn new(fleet: &Fleet, own: &str) -> Result<Self, String> {
        let position = fleet.boxes.iter().position(|one| one.name == own);
        let Some(position) = position else {
            let names: Vec<&str> = fleet.boxes.iter().map(|one| &*one.name).collect();
            let names = names.join(", ");
            return Err(format!(
                "the fleet has no box {own:?}; write one of {names}"
            ));
        };
        let of_own = &fleet.boxes[position];
        let Some(own_url) = of_own.url.clone() else {
            return Err(format!(
                "box.{own} has no url, at which players would reach it; add it to the description"
            ));
        };
        if fleet.boxes.iter().filter(|one| one.url.is_some()).count() < 2 {
            return Err(format!(
                "no box but {own} has a url, so there is nowhere to steer players to; add it to \
                 the description"
            ));
        }
        let boxes = fleet.boxes.iter();
        Ok(Self {
            order: TitleOrder::new(fleet),
            boxes: boxes
                .map(|one| (one.name.clone(), one.url.clone()))
                .collect(),
            own: position,
            own_url,
            own_id: of_own.id(),
        })
    }

    /// The pathways for the title of a path, which is decoded, begins with a slash and has no token:
    /// this box and the next ones of the title. This box is the first one for the viewers that it
    /// can bear, of those with ids, and the last one for the others.
    pub fn pathways(&self, path: &str, viewer: u64, answer: AgentAnswer) -> PathwayOrder<'_> {
        let borne_percent = match answer {
            AgentAnswer::Up(percent) => percent,
            AgentAnswer::Drain | AgentAnswer::Down => 0,
        };
        let others = self.order.boxes(path).filter(|of_box| *of_box != self.own);
        let others = others.filter_map(|of_box| self.pathway(of_box));
        let mut pathways: Vec<Pathway<'_>> = others.take(PATHWAYS_MAX - 1).collect();
        let own = Pathway {
            name: &self.boxes[self.own].0,
            url: &self.own_url,
        };
        let is_borne = mix(viewer ^ u64::from(self.own_id)) % 100 < u64::from(borne_percent);
        pathways.insert(if is_borne { 0 } else { pathways.len() }, own);
        PathwayOrder {
            pathways,
            own,
            reload_s: match borne_percent {
                100.. => RELOAD_S,
                _ => RELOAD_PRESSED_S,
            },
        }
    }

    fn pathway(&self, of_box: usize) -> Option<Pathway<'_>> {
        let (name, url) = self.boxes.get(of_box)?;
        let url = url.as_deref()?;
        Some(Pathway { name, url })
    }
}

impl PathwayOrder<'_> {
    /// The steering manifest, which HLS and DASH have in common.
    pub fn manifest(&self) -> String {
        // Names of boxes have no character that JSON would escape.
        let names = self.pathways.iter();
        let names: Vec<String> = names.map(|one| format!("\"{}\"", one.name)).collect();
        format!(
            "{{\"VERSION\":1,\"TTL\":{},\"PATHWAY-PRIORITY\":[{}]}}\n",
            self.reload_s,
            names.join(",")
        )
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::string::ToString as _;

    use super::*;
    use crate::fleet::{FleetBox, TitleRule};

    /// Boxes a, b, ... of which players reach those before the last one.
    fn fleet(count: u8) -> Fleet {
        let boxes = (0..count).map(|number| {
            let name = char::from(b'a' + number).to_string();
            FleetBox {
                url: (number + 1 < count).then(|| format!("https://{name}.example")),
                ..FleetBox::new(&name)
            }
        });
        Fleet {
            title: TitleRule::Folder,
            boxes: boxes.collect(),
            ..Fleet::default()
        }
    }

    fn names(order: &PathwayOrder<'_>) -> Vec<String> {
        let pathways = order.pathways.iter();
        pathways.map(|one| one.name.to_string()).collect()
    }

    const PATH: &str = "/films/a.mp4/master.m3u8";

    #[test]
    fn box_in_time_is_first_and_next_ones_follow_the_title() {
        let fleet = fleet(7);
        let steering = Steering::new(&fleet, "c").expect("right");
        let order = steering.pathways(PATH, 1, AgentAnswer::Up(100));
        let of_title = TitleOrder::new(&fleet);
        // The box g has no URL.
        let next = of_title
            .boxes(PATH)
            .filter(|of_box| ![2, 6].contains(of_box));
        let next = next.map(|of_box| fleet.boxes[of_box].name.clone());
        let expected: Vec<String> = ["c".to_string()].into_iter().chain(next.take(3)).collect();
        assert_eq!(names(&order), expected);
        assert_eq!(order.pathways[0].url, "https://c.example");
        let text = order.manifest();
        let start = "{\"VERSION\":1,\"TTL\":30,\"PATHWAY-PRIORITY\":[\"c\",\"";
        assert!(text.starts_with(start), "{text}");
    }

    #[test]
    fn pressed_box_moves_the_share_it_cannot_bear() {
        let fleet = fleet(4);
        let steering = Steering::new(&fleet, "a").expect("right");
        let moved = |answer| -> BTreeSet<u64> {
            let viewers = 0..10_000;
            let is_moved = |viewer: &u64| {
                let order = steering.pathways(PATH, *viewer, answer);
                let position = order.pathways.iter().position(|one| one.name == "a");
                assert!([Some(0), Some(2)].contains(&position), "{order:?}");
                position == Some(2)
            };
            viewers.filter(is_moved).collect()
        };
        assert_eq!(moved(AgentAnswer::Up(100)).len(), 0);
        let (some, more) = (moved(AgentAnswer::Up(80)), moved(AgentAnswer::Up(64)));
        assert!(some.len().abs_diff(2_000) < 200, "{}", some.len());
        assert!(more.len().abs_diff(3_600) < 200, "{}", more.len());
        assert!(some.is_subset(&more), "a viewer moved back under more load");
        for answer in [AgentAnswer::Drain, AgentAnswer::Down] {
            assert_eq!(moved(answer).len(), 10_000);
        }
        let pressed = steering.pathways(PATH, 1, AgentAnswer::Up(80)).manifest();
        assert!(pressed.contains("\"TTL\":10,"), "{pressed}");
    }

    #[test]
    fn fleet_without_a_second_url_is_refused() {
        for (count, own, part) in [
            (3, "x", "no box \"x\"; write one of a, b, c"),
            (3, "c", "box.c has no url"),
            (2, "a", "no box but a has a url"),
        ] {
            let error = Steering::new(&fleet(count), own).expect_err("wrong");
            assert!(error.contains(part), "{error}");
        }
        assert!(Steering::new(&fleet(3), "a").is_ok());
    }
}
