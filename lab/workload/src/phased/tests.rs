//! Properties of a generated log, and of the specification fitted to it.

use alloc::string::ToString as _;
use alloc::vec::Vec;

use headlong_characterise::{Observations, Popularity, comparison};

use super::*;

fn preset(sessions: u64) -> PhasedSpecification {
    let preset = PhasedSpecification::preset("netflix-2014-catalog", &[]);
    preset.expect("the preset is well formed").scaled(sessions)
}

fn csv(specification: &PhasedSpecification, seed: u64) -> Vec<u8> {
    let catalogue = PhasedCatalogue::of(&specification.catalogue);
    let mut text = Vec::new();
    for entry in RequestLog::new(specification, &catalogue, seed) {
        entry.write_csv(&catalogue, &mut text);
    }
    text
}

#[test]
fn same_seed_same_bytes_and_other_seed_differs() {
    let specification = preset(60);
    let text = csv(&specification, 7);
    assert!(text.len() > 10_000);
    assert_eq!(text, csv(&specification, 7));
    assert_ne!(text, csv(&specification, 8));
}

#[test]
fn log_has_all_requests_in_completion_order() {
    let specification = preset(120);
    let catalogue = PhasedCatalogue::of(&specification.catalogue);
    let mut expected: Vec<(i64, u64, PhasedRequest)> = Vec::new();
    for session in PhasedSessions::new(&specification, &catalogue, 3) {
        let of = |request: &PhasedRequest| (request.completed_ms, session.number, *request);
        expected.extend(session.requests.iter().map(of));
    }
    let got: Vec<(i64, u64, PhasedRequest)> = RequestLog::new(&specification, &catalogue, 3)
        .map(|entry| (entry.request.completed_ms, entry.session, entry.request))
        .collect();
    assert!(got.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    let by = |one: &(i64, u64, PhasedRequest)| {
        (
            one.0,
            one.1,
            one.2.received_ms,
            one.2.file,
            one.2.offset,
            one.2.sent_bytes,
        )
    };
    expected.sort_by_key(by);
    let mut sorted = got;
    sorted.sort_by_key(by);
    assert_eq!(sorted, expected);
}

#[test]
fn requests_stay_within_file_and_log() {
    let specification = preset(300);
    let catalogue = PhasedCatalogue::of(&specification.catalogue);
    let end = (specification.sessions.length_s * 1000.0) as i64;
    for entry in RequestLog::new(&specification, &catalogue, 5) {
        let request = entry.request;
        let size = catalogue.files[request.file as usize].size;
        assert!(
            request.offset + request.sent_bytes <= size,
            "{request:?} of {size}"
        );
        assert!(
            request
                .asked_bytes
                .is_none_or(|asked| request.sent_bytes <= asked)
        );
        assert!(
            request.received_ms >= 0 && request.completed_ms < end,
            "{request:?}"
        );
        assert!(request.completed_ms >= request.received_ms, "{request:?}");
    }
}

#[test]
fn segments_are_consecutive_to_end_of_file() {
    let catalogue = PhasedCatalogue::of(&preset(2000).catalogue);
    for (number, file) in catalogue.files.iter().enumerate().step_by(97) {
        let title = &catalogue.titles[file.title as usize];
        let mut before = file.table_bytes;
        assert_eq!(catalogue.offset(number as u32, 0), before);
        for segment in 1..=title.segments {
            let offset = catalogue.offset(number as u32, segment);
            assert!(
                offset > before || segment == title.segments,
                "segment {segment}"
            );
            before = offset;
        }
        assert_eq!(before, file.size);
    }
}

#[test]
fn specification_round_trips() {
    let specification = preset(1000);
    let text = specification.to_toml();
    assert!(PhasedSpecification::is_meant(&text));
    let read = PhasedSpecification::read("written", &text, &[]).expect("it is well formed");
    assert_eq!(read, specification);
    assert!(!PhasedSpecification::is_meant(
        crate::preset::text("youtube-2011").expect("a preset")
    ));
}

#[test]
fn reports_all_mistakes_with_line() {
    let text = "model = \"phases\"\n[catalogue]\nzipf_alfa = 1\ndrives = 0\nvideo = [[500, 1, 1], \
                [400, 1, 1]]\n[viewing]\nup_share = 0.9\ndown_share = 0.9\n[device.x]\nrequests = \
                \"lazy\"\nbuffer = \"0s\"\n";
    let errors =
        PhasedSpecification::read("mine.toml", text, &[]).expect_err("it is full of mistakes");
    let told = errors.to_string();
    for part in [
        "mine.toml:3: catalogue.zipf_alfa: unknown key; did you mean `catalogue.zipf_alpha`?",
        "mine.toml:4: catalogue.drives: `0` is out of range; write from 1 to 65535",
        "mine.toml:5: catalogue.video: a list does not fit; write [[kbps, share of titles that have it, weight], ...]",
        "mine.toml:7: viewing.up_share: is more than 1 together with viewing.down_share",
        "mine.toml:10: device.x.requests: `lazy` is unknown; the names are chunk, open",
        "mine.toml:11: device.x.buffer: `0s` is out of range; write from 1s to 10h",
    ] {
        assert!(told.contains(part), "{part}\nis missing in\n{told}");
    }
    let errors =
        PhasedSpecification::preset("netflix-2014-catalogue", &[]).expect_err("no such preset");
    assert!(
        errors
            .to_string()
            .contains("did you mean netflix-2014-catalog?"),
        "{errors}"
    );
}

#[test]
fn device_inherits_omitted_keys_from_preset() {
    let text = "model = \"phases\"\n[device.console]\nbuffer = \"60s\"\n";
    let read = PhasedSpecification::read("mine.toml", text, &[]).expect("it is well formed");
    let preset = preset(SESSIONS_FULL);
    let model = preset
        .devices
        .iter()
        .find(|device| device.name == "console")
        .expect("one");
    assert_eq!(
        read.devices,
        [DeviceType {
            buffer_s: 60.0,
            ..model.clone()
        }]
    );
    assert_eq!(read.viewing, preset.viewing);
}

#[test]
fn preset_matches_figures_of_thesis() {
    let specification = preset(3000);
    let catalogue = PhasedCatalogue::of(&specification.catalogue);
    let figures = comparison(&characterise(&specification, &catalogue, 1));
    // The generator models plausible viewers, not exact percentages: bounds are deliberately wide.
    for (name, least, most) in [
        ("data sent, TiB", 24.0, 34.0),
        ("requests, million", 52.0, 72.0),
        ("chains, million", 1.9, 2.6),
        ("chains from offset zero, %", 20.0, 32.0),
        ("chunk at zero < 16 KiB, %", 42.0, 58.0),
        ("open at zero of 768 KiB, %", 78.0, 95.0),
        ("chains longer than 1 MB, %", 25.0, 45.0),
        ("chains longer than 10 MB, %", 9.0, 17.0),
        ("chains longer than 20 MB, %", 7.0, 12.0),
        ("bytes in chains beyond 10 MB, %", 90.0, 96.0),
        ("exponent 1-200 MB", 0.4, 0.6),
        ("start in the first 1 %, %", 33.0, 39.0),
        ("download up to 20 %, %", 45.0, 55.0),
        ("sessions up to 40 s, %", 30.0, 37.0),
        ("sessions with a stable phase, %", 52.0, 62.0),
        ("stable time, %", 74.0, 84.0),
        ("inactive time, %", 13.0, 20.0),
        ("transient time, %", 3.0, 6.0),
        ("stable phase, content, mean min", 7.5, 9.5),
    ] {
        let figure = figures.iter().find(|figure| figure.name == name);
        let ours = figure.expect("it is one of the figures").ours;
        assert!(
            (least..=most).contains(&ours),
            "{name}: {ours}, not {least} to {most}"
        );
    }
}

#[test]
fn no_measurements_give_preset() {
    let fitted = fit(&Observations::default());
    let preset = preset(SESSIONS_FULL);
    assert_eq!(fitted.viewing, preset.viewing);
    assert_eq!(fitted.catalogue, preset.catalogue);
    let names = |devices: &[DeviceType]| {
        devices
            .iter()
            .map(|one| one.name.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&fitted.devices), names(&preset.devices));
}

#[test]
fn fits_popularity_from_few_hundred_sessions() {
    for (meant, titles) in [(0.4, 300), (0.8, 2_000), (1.1, 40_000)] {
        let zipf = headlong_random::Zipf::new(titles, meant);
        let mean = (1..=20).map(|seed| {
            let mut generator = headlong_random::Generator::new(seed);
            let mut sessions = alloc::vec![0_u64; titles];
            for _ in 0..400 {
                sessions[zipf.sample(&mut generator)] += 1;
            }
            // A log contains only titles that were requested.
            sessions.retain(|count| *count > 0);
            Popularity::of(&mut sessions, 20, titles as u64).slope
        });
        let mean = mean.sum::<f64>() / 20.0;
        assert!(libm::fabs(mean - meant) < 0.05, "{meant}: {mean}");
    }
    assert_eq!(Popularity::of(&mut [1, 1, 1], 20, 3).slope, 0.0);
    assert_eq!(Popularity::of(&mut [], 20, 0).slope, 0.0);
}

#[test]
fn popularity_follows_zipf_beyond_its_head() {
    let mut sessions: Vec<u64> = (1..=5000u64)
        .map(|rank| {
            let level = 40_000.0 * libm::pow(rank as f64, -0.7);
            libm::round(if rank <= 20 { level * 3.0 } else { level }) as u64
        })
        .collect();
    let popularity = Popularity::of(&mut sessions, 20, 5000);
    assert!(libm::fabs(popularity.slope - 0.7) < 0.01, "{popularity:?}");
    assert!(
        libm::fabs(popularity.head_factor - 3.0) < 0.1,
        "{popularity:?}"
    );
}

/// A library of plain films: bit rates by their shares of titles, and by their weights in watching;
/// likewise durations. Independent of the seed.
#[test]
fn popular_titles_have_specified_rates_and_durations() {
    for seed in ["1", "2"] {
        let changes = [
            ("catalogue.seed", seed),
            ("catalogue.titles", "1000"),
            ("catalogue.zipf_alpha", "1"),
            ("catalogue.head_titles", "0"),
            ("catalogue.durations", "[[100, 0], [1100, 1]]"),
            ("catalogue.duration_weights", "[3, 1]"),
            ("catalogue.rates", "one"),
            (
                "catalogue.combined",
                "[[500, 0.5, 0.2], [1000, 0.25, 0.5], [2000, 0.25, 0.3]]",
            ),
        ];
        let changes = changes.map(|(key, value)| (key.to_string(), value.to_string()));
        let titles = PhasedSpecification::preset("netflix-2014-catalog", &changes);
        let titles = titles.expect("well formed").catalogue;
        let catalogue = PhasedCatalogue::of(&titles);
        let (mut short, mut sessions_short) = (0, 0.0);
        let (mut having, mut watched) = ([0; 3], [0.0; 3]);
        for (number, title) in catalogue.titles.iter().enumerate() {
            let sessions = 1.0 / (number as f64 + 1.0);
            if title.duration_s < 600.0 {
                (short, sessions_short) = (short + 1, sessions_short + sessions);
            }
            let files: Vec<u32> = catalogue
                .files_of(number as u32, ContentKind::Combined)
                .collect();
            let [file] = files[..] else {
                panic!("{files:?}");
            };
            let kbps = catalogue.files[file as usize].kbps;
            let place = [500, 1000, 2000].iter().position(|one| *one == kbps);
            let place = place.expect("one of those");
            having[place] += 1;
            watched[place] += sessions * title.duration_s;
        }
        let all: f64 = (1..=1000).map(|rank| 1.0 / f64::from(rank)).sum();
        assert_eq!((short, having), (500, [500, 250, 250]));
        assert!((sessions_short / all - 0.75).abs() < 0.01);
        let sum: f64 = watched.iter().sum();
        for (watched, wanted) in watched.iter().zip([0.2, 0.5, 0.3]) {
            assert!((watched / sum - wanted).abs() < 0.06, "{seed} {watched}");
        }
    }
}
