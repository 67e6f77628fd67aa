//! Grids of small worlds: same rows for any number of threads.

use headlong_units::{Duration, Instant, MIB};
use headlong_workload::Specification;

use super::*;
use headlong_sim::{MeasuredWindow, VirtualExperiment, WorldSetup};

fn axis(name: &str, values: &[&str]) -> GridAxis {
    GridAxis {
        name: name.to_owned(),
        values: values.iter().map(ToString::to_string).collect(),
    }
}

/// A quarter of a minute with few titles and the given prefetch.
fn experiment(prefetch_mib: u64) -> VirtualExperiment {
    let few = [("title.sd.count", "300"), ("title.hd.count", "30")];
    let few = few.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let mut setup = WorldSetup {
        window: MeasuredWindow {
            from: Instant::ZERO + Duration::from_secs(5),
            to: Instant::ZERO + Duration::from_secs(15),
        },
        ..WorldSetup::default()
    };
    setup.engine.memory_bytes = 64 * MIB;
    setup.engine.sizing.reference_bytes = prefetch_mib * MIB;
    VirtualExperiment {
        workload: Specification::preset("youtube-sd", &few).expect("right"),
        drive: headlong_drive::preset("wd-red-wd10efrx").expect("known"),
        setup,
        steps: Vec::new(),
    }
}

fn points() -> Vec<GridPoint> {
    let sizes = [1, 4];
    let point = |size| GridPoint {
        values: vec![format!("{size}MiB")],
        cell: VirtualCell::of_options(
            experiment(size),
            "youtube-sd",
            "headlong simulate youtube-sd",
        ),
    };
    sizes.into_iter().map(point).collect()
}

fn sweep(aim: SweepQuantity, threads: usize) -> Sweep {
    Sweep {
        aim,
        seed: 1,
        seeds: 1,
        threads: NonZeroUsize::new(threads).expect("some"),
    }
}

#[test]
fn combinations_are_complete_and_ordered() {
    let axes = [axis("a", &["1", "2"]), axis("b", &["x", "y", "z"])];
    let all: Vec<String> = combinations(&axes).iter().map(|v| v.concat()).collect();
    assert_eq!(all, ["1x", "1y", "1z", "2x", "2y", "2z"]);
    assert_eq!(combinations(&[]), [Vec::<String>::new()]);
}

#[test]
fn rows_do_not_depend_on_thread_count() {
    for aim in [SweepQuantity::Rates(vec![4.0]), SweepQuantity::Limit] {
        let rows = |threads| {
            let run = sweep(aim.clone(), threads).run(&points(), |_, _| {});
            run.expect("runs")
        };
        let one = rows(1);
        assert_eq!(one, rows(3));
        assert!(
            one.iter()
                .any(|row| row.mean(|r| r.delivered_mib_s) > Some(0.0))
        );
    }
}

#[test]
fn several_seeds_have_intervals_in_table_and_csv() {
    let rows = |seeds| {
        let sweep = Sweep {
            seeds,
            ..sweep(SweepQuantity::Rates(vec![4.0]), 2)
        };
        let rows = sweep.run(&points()[..1], |_, _| {});
        rows.expect("runs")
    };
    let axes = [axis("prefetch", &["1MiB"])];
    let of_seeds = |seeds| {
        let rows = rows(seeds);
        let csv = to_csv(&axes, &rows);
        let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let (head, cells) = (lines.next().expect("a head"), lines.next().expect("a row"));
        let place = head.iter().position(|name| *name == "delivered_mib_s_ci95");
        let half = cells[place.expect("a column")].to_owned();
        let table = crate::report::grid_table(&axes, &rows).to_markdown();
        (half, table, rows[0].interval(|r| r.delivered_mib_s))
    };
    let (half, table, interval) = of_seeds(1);
    assert!(
        half.is_empty() && !table.contains('±') && interval.is_none(),
        "{table}"
    );
    let (half, table, interval) = of_seeds(3);
    let interval = interval.expect("three seeds");
    assert!(interval.half_width() > 0.0);
    assert_eq!(half, format!("{:.4}", interval.half_width()));
    let shown = format!("{:.3} ± {:.3}", interval.estimate, interval.half_width());
    assert!(table.contains(&shown), "{shown}: {table}");
}

#[test]
fn values_with_commas_are_quoted() {
    let row = GridRow {
        values: vec!["a,b".to_owned()],
        rate_mib_s: None,
        failed_mib_s: Some(2.0),
        failures: 0,
        worlds: 1,
        records: Vec::new(),
    };
    let csv = to_csv(&[axis("what", &["a,b"])], &[row]);
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines[0].starts_with(
        "what,offered_mib_s,failed_mib_s,failures,worlds,asked_for_mib_s,delivered_mib_s"
    ));
    assert!(lines[1].starts_with("\"a,b\",,2.000,0,1,,"), "{}", lines[1]);
}
