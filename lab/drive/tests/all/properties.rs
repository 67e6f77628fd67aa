//! Properties of every drive, for any requests.

use std::collections::BTreeMap;

use headlong_drive::{
    Completion, Direction, Drive, DriveSpec, Phase, QueueOrder, Refusal, Request, RequestId,
    closed_loop, measure, preset, presets, random_rate, sequential_rate,
};
use headlong_units::{Duration, Instant};
use proptest::prelude::*;

/// A request with its delay after the previous one.
#[derive(Debug, Clone, Copy)]
struct TimedRequest {
    after_us: u64,
    part: f64,
    sectors: u32,
    is_write: bool,
    goes_on: bool,
}

fn steps() -> impl Strategy<Value = Vec<TimedRequest>> {
    let sectors = prop_oneof![1u32..64, Just(1_024), Just(16_384)];
    let step = (
        0u64..40_000,
        0.0..1.0f64,
        sectors,
        any::<bool>(),
        any::<bool>(),
    );
    let step = step.prop_map(
        |(after_us, part, sectors, is_write, goes_on)| TimedRequest {
            // Often at the same time as the previous one.
            after_us: after_us.saturating_sub(20_000),
            part,
            sectors,
            is_write,
            goes_on,
        },
    );
    prop::collection::vec(step, 1..60)
}

/// Plays steps; returns arrivals, and completions in the order of their delivery.
fn play(
    drive: &mut dyn Drive,
    steps: &[TimedRequest],
) -> (BTreeMap<u64, Instant>, Vec<Completion>) {
    let (mut now, mut arrivals, mut done) = (Instant::ZERO, BTreeMap::new(), Vec::new());
    let mut next_sector = 0;
    let to = |drive: &mut dyn Drive, until: Instant, done: &mut Vec<Completion>| {
        while let Some(next) = drive.poll_timeout().filter(|next| *next <= until) {
            drive.handle_timeout(next);
            assert!(drive.poll_timeout().is_none_or(|after| after > next));
            done.extend(std::iter::from_fn(|| drive.poll_completion()).inspect(|c| {
                assert!(c.ended <= next, "{c:?} came out at {next:?}");
            }));
        }
    };
    for (index, step) in steps.iter().enumerate() {
        now = now + Duration::from_micros(step.after_us);
        to(drive, now, &mut done);
        let room = drive.capacity_sectors() - u64::from(step.sectors);
        let at_random = (step.part * room as f64) as u64;
        let sector = if step.goes_on { next_sector } else { at_random };
        let request = Request {
            sector,
            sectors: step.sectors,
            direction: if step.is_write {
                Direction::Write
            } else {
                Direction::Read
            },
        };
        match drive.handle_request(now, RequestId(index as u64), request) {
            Ok(()) => {
                arrivals.insert(index as u64, now);
                next_sector = request.end();
            }
            Err(Refusal::QueueFull) => {}
            Err(Refusal::OutOfRange) => next_sector = 0,
        }
    }
    to(drive, Instant::NEVER, &mut done);
    (arrivals, done)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn requests_complete_once_and_in_order(which in 0..10usize, steps in steps()) {
        let spec = presets()[which].spec().scaled_to(2_000_000_000);
        let (arrivals, done) = play(&mut *spec.build(), &steps);
        prop_assert_eq!(done.len(), arrivals.len());
        let mut last = Instant::ZERO;
        let mut open = arrivals.clone();
        for completion in &done {
            let arrived = open.remove(&completion.id.0);
            prop_assert!(arrived.is_some_and(|at| completion.started >= at), "{:?}", completion);
            prop_assert!(completion.ended > completion.started);
            prop_assert!(completion.ended >= last);
            last = completion.ended;
            let parts = completion.parts;
            let sum = parts.overhead + parts.seek + parts.rotation + parts.transfer + parts.cleaning;
            prop_assert_eq!(sum, completion.ended.since(completion.started), "{:?}", completion);
        }
        // The same requests give the same completions.
        prop_assert_eq!(play(&mut *spec.build(), &steps).1, done);
    }

    #[test]
    fn sequential_rate_is_within_zone_rates(which in 0..5usize, part in 0.0..0.99f64) {
        let spec = presets()[which].spec();
        let DriveSpec::HardDrive(hard) = &spec else {
            return Err(TestCaseError::fail("the first five are hard disks"));
        };
        let mut drive = spec.build();
        let sector = (drive.capacity_sectors() as f64 * part) as u64;
        let rate = sequential_rate(&mut *drive, sector, 1 << 20, 60);
        let (most, least) = (hard.rate_at(0.0), hard.rate_at(1.0));
        prop_assert!(rate <= most * 1.02 && rate >= least * 0.98, "{rate} {least} {most}");
    }
}

#[test]
fn sequential_reading_is_never_slower_than_random() {
    for preset in presets() {
        let spec = preset.spec().scaled_to(50_000_000_000);
        for kibibytes in [4, 64, 512, 2_048, 8_192] {
            let bytes = kibibytes << 10;
            let random = random_rate(&mut *spec.build(), bytes, 500, 1);
            // From the middle: a drive's inner zones are slower than its average.
            let middle = spec.capacity_bytes() / 1024;
            let sequential = sequential_rate(&mut *spec.build(), middle, bytes, 500);
            assert!(
                sequential >= random * 0.999,
                "{}: {sequential} {random}",
                preset.name
            );
        }
    }
}

#[test]
fn nearest_first_is_faster_than_fcfs() {
    for preset in presets() {
        let DriveSpec::HardDrive(mut spec) = preset.spec() else {
            continue;
        };
        for bytes in [4_096, 1 << 20] {
            let rate = |spec: &headlong_drive::HardDriveSpec| {
                random_rate(&mut headlong_drive::HardDrive::new(spec), bytes, 1_000, 16)
            };
            spec.queue.order = QueueOrder::Nearest;
            let nearest = rate(&spec);
            spec.queue.order = QueueOrder::Fcfs;
            let fcfs = rate(&spec);
            assert!(nearest > fcfs * 1.1, "{}: {nearest} {fcfs}", preset.name);
        }
    }
}

#[test]
fn scaled_drive_keeps_stroke_times() {
    for name in ["wd-red-wd10efrx", "hp-146-10k-sas", "nearline-20tb"] {
        let spec = preset(name).expect("a preset");
        let whole = measure(&spec);
        let small = measure(&spec.scaled_to(16_000_000_000));
        let pairs = [
            (small.full_stroke_us, whole.full_stroke_us),
            (small.half_stroke_us, whole.half_stroke_us),
            (small.quarter_stroke_us, whole.quarter_stroke_us),
            (
                small.rates.outer_bytes_per_s as f64,
                whole.rates.outer_bytes_per_s as f64,
            ),
            (
                small.rates.inner_bytes_per_s as f64,
                whole.rates.inner_bytes_per_s as f64,
            ),
        ];
        // The test itself moves by 8 MiB per step, a larger fraction of the stroke of a small
        // drive.
        for (a, b) in pairs {
            assert!((a / b - 1.0).abs() < 0.06, "{name}: {small:?} {whole:?}");
        }
        let random = |spec: &DriveSpec| random_rate(&mut *spec.build(), 65_536, 3_000, 1);
        let (a, b) = (random(&spec.scaled_to(16_000_000_000)), random(&spec));
        assert!((a / b - 1.0).abs() < 0.03, "{name}: {a} {b}");
    }
}

#[test]
fn presets_round_trip_through_toml() {
    for preset in presets() {
        let spec = preset.spec();
        assert_eq!(spec.check(), Ok(()), "{}", preset.name);
        let text = toml::to_string(&spec).expect("serializable");
        let again: DriveSpec = toml::from_str(&text).expect("deserializable");
        assert_eq!(again, spec, "{text}");
        let text = format!("colour = \"red\"\n{text}");
        let error = toml::from_str::<DriveSpec>(&text)
            .expect_err("no such key")
            .to_string();
        assert!(error.contains("colour"), "{error}");
        assert!(!spec.sources().is_empty() && spec.name() == preset.name);
    }
}

#[test]
fn unknown_preset_lists_nearest_names() {
    let error = preset("wd-red").expect_err("not a whole name");
    assert_eq!(error.nearest[0], "wd-red-wd10efrx");
    assert!(error.to_string().contains("wd-red-wd10efrx"), "{error}");
}

#[test]
fn invalid_figures_are_all_reported_and_still_build() {
    for preset in presets() {
        let mut value = toml::Value::try_from(preset.spec()).expect("serializable");
        nullify(&mut value);
        let spec: DriveSpec = value.try_into().expect("zeros are numbers");
        let error = spec.check().expect_err("nothing but zeros");
        assert!(error.problems.len() >= 5, "{error}");
        assert!(
            error.problems.iter().any(|p| p.contains("capacity_bytes")),
            "{error}"
        );
        let mut drive = spec.build();
        let request = Request {
            sector: 0,
            sectors: 1,
            direction: Direction::Write,
        };
        closed_loop(&mut *drive, Instant::ZERO, 1, [request], |_| ());
        assert!(Phase::ALL.iter().all(|phase| phase.requests(1).is_empty()));
    }
}

/// Sets every number to zero.
fn nullify(value: &mut toml::Value) {
    match value {
        toml::Value::Integer(number) => *number = 0,
        toml::Value::Float(number) => *number = 0.0,
        toml::Value::Array(values) => values.iter_mut().for_each(nullify),
        toml::Value::Table(table) => table.iter_mut().for_each(|(_, value)| nullify(value)),
        _ => {}
    }
}
