use std::collections::BTreeMap;
use std::format;
use std::string::String;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

const GB: u64 = 1_000_000_000;

/// A fleet of boxes, each with this number of disks of 1 TB.
fn fleet(disks: &[usize], weights: &[u32], zone: impl Fn(usize) -> String) -> Fleet {
    let mut text = String::from("title = \"file\"\n");
    for (number, count) in disks.iter().enumerate() {
        let weight = weights.get(number).copied().unwrap_or(100);
        text.push_str(&format!(
            "[box.b{number}]\naddress = \"10.0.0.{number}:80\"\nadmin = \"10.0.0.{number}:81\"\n\
             weight = {weight}\nzone = \"{}\"\n",
            zone(number)
        ));
        for disk in 0..*count {
            text.push_str(&format!(
                "[box.b{number}.disk.d{disk}]\nbytes = \"1TB\"\nrate = \"100MiB/s\"\nroot = \"/srv/{disk}\"\n"
            ));
        }
    }
    Fleet::read("fleet.toml", &text).expect("right")
}

fn titles(count: u64) -> Vec<PlanTitle> {
    let title = |number| PlanTitle {
        name: format!("films/{number}.mp4"),
        bytes: GB / 10,
        heat: 1.0 / (number + 1) as f64,
    };
    (0..count).map(title).collect()
}

fn demand(replicas: u32) -> PlanDemand {
    PlanDemand {
        replicas,
        bytes_per_s: 0.0,
        bit_rate: BitRate(4_000_000),
        watched: [1.0].into(),
    }
}

/// The places of a plan, as a later plan sees them.
fn places(plan: &Plan, titles: &[PlanTitle]) -> BTreeMap<String, Vec<DiskId>> {
    let ids = |disks: &Vec<usize>| {
        disks
            .iter()
            .map(|disk| plan.disks[*disk].id.clone())
            .collect()
    };
    let names = titles.iter().map(|title| title.name.clone());
    names.zip(plan.places.iter().map(ids)).collect()
}

fn changes(after: &Plan, before: &Plan, titles: &[PlanTitle]) -> PlanChanges {
    let now = places(before, titles);
    after.changes(titles, |name| &now[name])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn lost_box_moves_at_most_its_share_and_two_percent(
        disks in prop::collection::vec(1_usize..6, 2..8),
        weights in prop::collection::vec(50_u32..200, 8),
        replicas in 1_u32..3,
        lost in 0_usize..8,
        zones in 1_usize..4,
    ) {
        let fleet = fleet(&disks, &weights, |number| format!("z{}", number % zones));
        let titles = titles(500);
        let lost = format!("b{}", lost % disks.len());
        let before = plan(fleet.disks(&[]), &titles, &demand(replicas));
        let after = plan(fleet.disks(std::slice::from_ref(&lost)), &titles, &demand(replicas));
        let copies: usize = before.places.iter().map(Vec::len).sum();
        let on_lost = before.places.iter().flatten();
        let on_lost = on_lost.filter(|disk| before.disks[**disk].id.of_box == lost).count();
        let moved = changes(&after, &before, &titles).copies.len();
        prop_assert!(moved <= on_lost + copies / 50, "{moved} of {copies}, {on_lost} on it");
    }

    #[test]
    fn copies_are_on_different_boxes_and_fit(
        disks in prop::collection::vec(1_usize..4, 1..6),
        count in 1_u64..400,
        replicas in 1_u32..4,
    ) {
        let fleet = fleet(&disks, &[], |number| format!("z{number}"));
        let mut titles = titles(count);
        // Some fill a disk almost alone.
        titles.iter_mut().step_by(40).for_each(|title| title.bytes = 900 * GB);
        let plan = plan(fleet.disks(&[]), &titles, &demand(replicas));
        for (number, places) in plan.places.iter().enumerate() {
            let mut boxes: Vec<_> = places.iter().map(|disk| &plan.disks[*disk].id.of_box).collect();
            boxes.sort();
            boxes.dedup();
            prop_assert_eq!(boxes.len(), places.len());
            let wanted = (replicas as usize).min(disks.len());
            prop_assert_eq!(places.len() < wanted, plan.short.contains(&number));
        }
        for (disk, load) in plan.disks.iter().zip(&plan.loads) {
            prop_assert!(load.bytes <= disk.bytes / 100 * 95);
        }
    }
}

#[test]
fn lost_disk_moves_only_its_titles_and_its_return_moves_them_back() {
    let fleet = fleet(&[4, 4, 4], &[], |number| format!("z{number}"));
    let titles = titles(3000);
    let whole = plan(fleet.disks(&[]), &titles, &demand(1));
    let without = plan(fleet.disks(&["b1:d2".into()]), &titles, &demand(1));
    let lost = changes(&without, &whole, &titles);
    let on_it = whole.loads[6];
    assert_eq!(whole.disks[6].id.to_string(), "b1:d2");
    assert_eq!(lost.copies.len() as u64, on_it.titles);
    assert!(lost.copies.iter().all(|copy| copy.from.is_none()));
    assert_eq!(lost.surplus, []);
    let back = changes(&whole, &without, &titles);
    assert_eq!(back.copies.len(), lost.copies.len());
    assert!(
        back.copies
            .iter()
            .all(|copy| copy.to == 6 && copy.from.is_some())
    );
    assert_eq!(back.surplus.len(), lost.copies.len());
}

#[test]
fn second_copy_heals_from_the_first_and_is_in_another_zone() {
    let fleet = fleet(&[2, 2, 2, 2], &[], |number| format!("z{}", number % 2));
    let titles = titles(1000);
    let whole = plan(fleet.disks(&[]), &titles, &demand(2));
    for places in &whole.places {
        let zone = |disk: usize| &whole.disks[places[disk]].zone;
        assert_ne!(zone(0), zone(1));
    }
    let without = plan(fleet.disks(&["b0".into()]), &titles, &demand(2));
    let healing = changes(&without, &whole, &titles);
    assert!(!healing.copies.is_empty());
    assert!(healing.copies.iter().all(|copy| copy.from.is_some()));
}

#[test]
fn hot_title_gets_more_copies_and_load_is_shared() {
    let fleet = fleet(&[1, 1, 1, 1], &[], |number| format!("z{number}"));
    let mut titles = titles(400);
    for (number, title) in titles.iter_mut().enumerate() {
        title.heat = if number == 7 { 101.0 } else { 1.0 };
    }
    // The hot title has 101 / 500 of 250 MiB/s: a little more than two quarters of a disk's rate.
    let demand = PlanDemand {
        bytes_per_s: 250.0 * 1_048_576.0,
        ..demand(1)
    };
    let plan = plan(fleet.disks(&[]), &titles, &demand);
    assert_eq!(plan.places[7].len(), 3);
    assert!(
        plan.places
            .iter()
            .enumerate()
            .all(|(number, of)| number == 7 || of.len() == 1)
    );
    let total: f64 = plan.loads.iter().map(|load| load.bytes_per_s).sum();
    assert!((total / demand.bytes_per_s - 1.0).abs() < 1e-9, "{total}");
}
