use super::*;
use crate::tune::facts::tests::Tree;

/// A disk with much that is off.
fn ill_set() -> Tree {
    let tree = Tree::new();
    tree.disk(
        "sdz",
        &[
            ("diskseq", "7"),
            ("queue/scheduler", "none mq-deadline [bfq]"),
            ("queue/max_sectors_kb", "128"),
        ],
    );
    tree
}

/// What is in force.
fn all(tree: &Tree) -> Vec<String> {
    let values = FILES.iter().map(|file| tree.get("sdz", file));
    values.filter_map(|value| chosen(&value)).collect()
}

/// Applies once.
fn apply(tree: &Tree) -> Result<Vec<Changed>, TuneError> {
    let system = tree.system();
    let facts = system.facts("sdz").expect("there");
    Change::new(&system, "sdz", &tree.path("state")).apply(&facts)
}

fn undo(tree: &Tree) -> Result<Vec<Changed>, TuneError> {
    let system = tree.system();
    Change::new(&system, "sdz", &tree.path("state")).undo()
}

#[test]
fn what_is_off_is_set_and_set_back() {
    let tree = ill_set();
    let changed = apply(&tree).expect("applied");
    let told: Vec<String> = changed
        .iter()
        .map(|one| format!("{} {} {} {}", one.device, one.file, one.from, one.to))
        .collect();
    assert_eq!(
        told,
        [
            "sdz queue/scheduler bfq mq-deadline",
            "sdz queue/max_sectors_kb 128 4096",
            "sdz queue/nr_requests 64 192",
        ]
    );
    assert_eq!(all(&tree), ["mq-deadline", "4096", "192", "128"]);
    assert_eq!(apply(&tree).expect("nothing left to do"), []);
    undo(&tree).expect("undone");
    assert_eq!(all(&tree), ["bfq", "128", "64", "128"]);
    let error = undo(&tree).expect_err("once is enough").to_string();
    assert!(error.contains("nothing of sdz was changed"), "{error}");
}

#[test]
fn applied_twice_the_first_values_are_the_former_ones() {
    let tree = ill_set();
    apply(&tree).expect("applied");
    tree.put("sdz", "queue/max_sectors_kb", "256");
    apply(&tree).expect("applied again");
    undo(&tree).expect("undone");
    assert_eq!(tree.get("sdz", "queue/max_sectors_kb"), "128");
}

#[test]
fn a_value_that_does_not_come_into_force_leaves_all_as_it_was() {
    let tree = ill_set();
    let file = tree.path("sys/devices/ata1/block/sdz/queue/nr_requests");
    let before = all(&tree);
    // Takes everything and keeps nothing.
    fs::remove_file(&file).expect("removed");
    std::os::unix::fs::symlink("/dev/null", &file).expect("a link");
    let system = tree.system();
    let mut facts = system.facts("sdz").expect("there");
    facts[0].nr_requests = Some(64);
    let change = Change::new(&system, "sdz", &tree.path("state"));
    let error = change.apply(&facts).expect_err("refused");
    let text = error.to_string();
    let words = "nr_requests: the kernel refused `192` (it stays ``); everything is as it was";
    assert!(text.contains(words) && !error.is_mistake(), "{text}");
    assert_eq!(
        all(&tree),
        before[..2]
            .iter()
            .chain(&before[3..])
            .cloned()
            .collect::<Vec<_>>()
    );
    assert!(matches!(undo(&tree), Err(TuneError::NothingToUndo { .. })));
}

#[test]
fn values_of_a_run_of_the_kernel_that_ended_are_not_set_back() {
    for (file, value) in [
        ("proc/sys/kernel/random/boot_id", "two"),
        ("sys/devices/ata1/block/sdz/diskseq", "8"),
    ] {
        let tree = ill_set();
        apply(&tree).expect("applied");
        tree.write(file, value);
        assert!(matches!(undo(&tree), Err(TuneError::NothingToUndo { .. })));
        assert_eq!(tree.get("sdz", "queue/max_sectors_kb"), "4096");
    }
}

#[test]
fn of_an_array_with_a_new_member_the_others_are_set_back_to_their_first_values() {
    for is_applied_again in [false, true] {
        let tree = Tree::new();
        for (disk, number) in [("sdx", "1"), ("sdy", "2")] {
            tree.disk(
                disk,
                &[("diskseq", number), ("queue/max_sectors_kb", "128")],
            );
        }
        tree.disk("md0", &[("diskseq", "3")]);
        tree.stack("md0", &["sdx", "sdy"]);
        let system = tree.system();
        let change = Change::new(&system, "md0", &tree.path("state"));
        let apply = || change.apply(&system.facts("md0").expect("there"));
        let sectors_kb = || ["sdx", "sdy"].map(|disk| tree.get(disk, "queue/max_sectors_kb"));
        apply().expect("applied");
        assert_eq!(sectors_kb(), ["4096", "4096"]);
        // Another disk under the same name.
        tree.put("sdy", "diskseq", "4");
        tree.put("sdy", "queue/max_sectors_kb", "512");
        if is_applied_again {
            apply().expect("applied");
            assert_eq!(sectors_kb(), ["4096", "4096"]);
        }
        change.undo().expect("undone");
        assert_eq!(sectors_kb(), ["128", "512"]);
    }
}

#[test]
fn nothing_is_changed_if_former_values_cannot_be_kept() {
    let tree = ill_set();
    let before = all(&tree);
    tree.write("state", "a file and no folder");
    let text = apply(&tree).expect_err("no place").to_string();
    assert!(
        text.contains("nothing was changed; name another folder with --state"),
        "{text}"
    );
    assert_eq!(all(&tree), before);
}
