//! Seeds: the same thousand each time, new ones if they are asked for, and those that found something.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use headlong_faults::{Campaign, How, Plan, Theme, run};

/// The first of the seeds that are tried each time, and how many they are.
const USUAL: (u64, u64) = (5_000_000, 1_000);
/// Where new ones begin; as many are tried then as there is time for.
const FIRST_SEED: &str = "HEADLONG_FAULTS_FIRST_SEED";
/// No longer than anybody waits.
const TIME_MAX: Duration = Duration::from_secs(20);

/// A plan that failed before something was mended in the code under test. As the mix is, it is as
/// it was found; where the code went on so that the plan came no longer to what was mended, it is
/// another that does.
struct Found {
    seed: u64,
    theme: Theme,
    what: &'static str,
}

const FOUND: &[Found] = &[
    Found {
        seed: 2363,
        theme: Theme::Changes,
        what: "a reply broke off because another file of its title had changed, each time anew",
    },
    Found {
        seed: 3761,
        theme: Theme::Mix,
        what: "a group of blocks that could not be read was taken for one without a checkpoint",
    },
    Found {
        seed: 400_013_285,
        theme: Theme::Mix,
        what: "with little memory a reply took from itself what had just been read for it",
    },
];

fn campaign(first_seed: u64, seeds: u64) -> Campaign {
    Campaign {
        first_seed,
        seeds,
        threads: NonZeroUsize::new(2).expect("not zero"),
        how: How::default(),
    }
}

#[test]
fn seeds_hold() {
    let asked = std::env::var(FIRST_SEED).ok();
    let asked = asked.map(|text| text.parse().expect("a number"));
    let (first, count) = asked.map_or(USUAL, |first| (first, u64::MAX));
    println!("seeds from {first}");
    let began = Instant::now();
    let report = campaign(first, count).run(&|| began.elapsed() >= TIME_MAX, &|_| ());
    assert!(report.seeds > 0);
    let replay = |(seed, violation): &(u64, headlong_faults::Violation)| {
        format!("{violation}\n  headlong simulate faults --seed {seed} --shrink --trace\n")
    };
    let failed: String = report.failed.iter().map(replay).collect();
    assert!(
        failed.is_empty(),
        "of {} seeds from {first}:\n{failed}",
        report.seeds
    );
}

#[test]
fn seeds_that_found_something_hold_now() {
    for found in FOUND {
        let (seed, what) = (found.seed, found.what);
        let plan = Plan::with_theme(seed, found.theme);
        let violation = run(&plan, How::default()).violation;
        assert_eq!(violation, None, "seed {seed}: {what}");
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 0..60 {
        let plan = Plan::of(seed);
        let (once, again) = (run(&plan, How::default()), run(&plan, How::default()));
        assert_eq!(once, again, "seed {seed}");
        let other = run(&Plan::of(seed + 1), How::default());
        assert_ne!(once.trace, other.trace, "seed {seed} and the next");
    }
}

#[test]
fn the_count_of_threads_changes_nothing() {
    let of = |threads| {
        let threads = NonZeroUsize::new(threads).expect("not zero");
        let campaign = Campaign {
            threads,
            ..campaign(100, 40)
        };
        campaign.run(&|| false, &|_| ())
    };
    assert_eq!(of(1), of(3));
}
