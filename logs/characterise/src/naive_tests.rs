//! Accumulators compared with direct computation, request by request and second by second.

use headlong_chains::{Chain, ChainRules, ContentKind, FileInfo, Request};
use proptest::prelude::*;

use alloc::string::ToString as _;
use alloc::vec;
use alloc::vec::Vec;

use super::*;

fn files() -> Vec<FileInfo> {
    let file = |title, kind, kbps, size_bytes| FileInfo {
        title,
        kind,
        kbps,
        size_bytes,
        disk: 0,
        duration_s: 600.0,
        is_estimated: false,
    };
    vec![
        file(0, ContentKind::Audio, 64, 4_800_000),
        file(0, ContentKind::Video, 560, 42_000_000),
        file(0, ContentKind::Video, 1750, 131_250_000),
        file(1, ContentKind::Combined, 1000, 75_000_000),
        file(1, ContentKind::Audio, 96, 7_200_000),
    ]
}

/// Requests of a few sessions: mostly sequential, sometimes from zero, at another offset, or
/// repeated.
fn log_of(seeds: &[(u8, u8, u16, u16, u32, bool)]) -> Vec<Request> {
    let mut ends = [[0u64; 5]; 4];
    let mut now = 10_000i64;
    let steps = seeds.iter().enumerate();
    steps
        .map(|(line, (who, file, gap, took, bytes, is_open))| {
            let (session, file) = (usize::from(who % 4), usize::from(file % 5));
            // At most an hour and a half: longer logs leave out their last hour.
            now += i64::from(*gap % 4500) * 20;
            let offset = match who / 4 % 4 {
                0 => 0,
                1 => u64::from(*bytes) * 7,
                _ => ends[session][file],
            };
            let sent = u64::from(*bytes) * 40;
            ends[session][file] = offset + sent;
            Request {
                line: line as u64,
                session: session as u32,
                file: file as u32,
                received_ms: now,
                completed_ms: now + i64::from(*took) * 3,
                offset,
                asked_bytes: (!is_open).then_some(sent),
                sent_bytes: sent,
                disk: 0,
                device: 0,
            }
        })
        .collect()
}

prop_compose! {
    fn any_log()(seeds in prop::collection::vec(
        (any::<u8>(), any::<u8>(), any::<u16>(), any::<u16>(), 0u32..200_000, prop::bool::weighted(0.2)),
        1..60,
    )) -> Vec<Request> {
        log_of(&seeds)
    }
}

fn span_of(requests: &[Request]) -> (i64, i64) {
    let first = requests.iter().map(|r| r.received_ms).min().unwrap_or(0);
    let last = requests.iter().map(|r| r.completed_ms).max().unwrap_or(0);
    (first, last)
}

fn in_parts(requests: &[Request], parts: u32) -> (LogContext, Characterisation) {
    let log = LogContext::new(files(), span_of(requests));
    let mut splitter = SessionSplitter::new(ChainRules::default());
    let mut all = Accumulators::new(&log);
    for part in 0..parts {
        let mine = requests.iter().filter(|r| r.session % parts == part);
        let mut mine: Vec<Request> = mine.copied().collect();
        let mut sums = Accumulators::new(&log);
        splitter.split(&log, &mut mine, |view| sums.add(&log, view));
        all.merge(sums);
    }
    let told = all.finish(&log, Provenance::default());
    (log, told)
}

fn chains_of(requests: &[Request]) -> Vec<Chain> {
    let mut chains = Vec::new();
    headlong_chains::chains(requests, &ChainRules::default(), &mut chains);
    chains
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0)
}

fn figure<'a>(told: &'a Characterisation, id: &str) -> &'a Figure {
    told.figures()
        .find(|figure| figure.id == id)
        .expect("a figure with this id")
}

fn series<'a>(told: &'a Characterisation, id: &str, name: &str) -> &'a [Vec<f64>] {
    let mut all = figure(told, id).series.iter();
    all.find(|series| series.name == name)
        .map_or(&[], |series| &series.points)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn result_does_not_depend_on_the_partitions(requests in any_log()) {
        let (_, one) = in_parts(&requests, 1);
        let (_, four) = in_parts(&requests, 4);
        prop_assert_eq!(one, four);
    }

    #[test]
    fn requests_are_counted_by_type_and_kind(requests in any_log()) {
        let (log, told) = in_parts(&requests, 2);
        for (row, kind, is_open) in [
            ("open-audio", ContentKind::Audio, true),
            ("open-video", ContentKind::Video, true),
            ("chunk-video", ContentKind::Video, false),
            ("chunk-combined", ContentKind::Combined, false),
        ] {
            let mine = requests.iter().filter(|r| {
                r.asked_bytes.is_none() == is_open && log.file(r.file).kind == kind
            });
            let bytes: u64 = mine.clone().map(|r| r.sent_bytes).sum();
            prop_assert_eq!(told.number("table-5.2", row, "requests"), Some(mine.count() as f64));
            let gb = told.number("table-5.2", row, "gb").expect("a number");
            prop_assert!(near(gb, bytes as f64 / 1e9));
        }
        let total = told.number("table-5.1", "sent", "value").expect("a number");
        let bytes: u64 = requests.iter().map(|r| r.sent_bytes).sum();
        prop_assert!(near(total, bytes as f64 / 1e12));
    }

    #[test]
    fn parallel_requests_agree_with_direct_counting(requests in any_log()) {
        let (_, told) = in_parts(&requests, 2);
        let mut counts = [[0u64; 6]; 2];
        for session in 0..4 {
            for file in 0..5 {
                let mine: Vec<_> = requests.iter().filter(|r| (r.session, r.file) == (session, file)).collect();
                if mine.is_empty() {
                    continue;
                }
                // The maximum is reached at an arrival.
                let at = |t: i64| mine.iter().filter(|r| (r.received_ms..r.completed_ms).contains(&t)).count();
                let most = mine.iter().map(|r| at(r.received_ms)).max().unwrap_or(0).max(1);
                counts[0][most.min(6) - 1] += 1;
                let touches = |r: &Request, s: i64| (r.received_ms / 1000..=r.completed_ms / 1000).contains(&s);
                let at = |s: i64| mine.iter().filter(|r| touches(r, s)).count();
                let most = mine.iter().map(|r| at(r.received_ms / 1000)).max().unwrap_or(0);
                counts[1][most.clamp(1, 6) - 1] += 1;
            }
        }
        for (row, counts) in ["overlap", "second"].into_iter().zip(counts) {
            let total: u64 = counts.iter().sum();
            for (place, count) in counts.iter().enumerate() {
                let share = told.number("table-5.3", row, &(place + 1).to_string()).expect("a number");
                prop_assert!(near(share, 100.0 * *count as f64 / total as f64), "{} {}", row, place);
            }
        }
    }

    #[test]
    fn chain_tables_agree_with_the_chains(requests in any_log()) {
        let (log, told) = in_parts(&requests, 2);
        let chains = chains_of(&requests);
        let count = chains.len() as f64;
        for (row, kind, is_open) in [
            ("open-combined", ContentKind::Combined, true),
            ("chunk-audio", ContentKind::Audio, false),
            ("chunk-video", ContentKind::Video, false),
        ] {
            let mine: Vec<_> =
                chains.iter().filter(|c| c.is_open == is_open && log.file(c.file).kind == kind).collect();
            let share = told.number("table-5.4", row, "share").expect("a number");
            prop_assert!(count == 0.0 || near(share, 100.0 * mine.len() as f64 / count));
            let Some(ntt) = told.number("table-5.4", row, "ntt") else {
                prop_assert!(mine.is_empty());
                continue;
            };
            let seconds = |c: &&Chain| c.length as f64 * 8.0 / (f64::from(log.file(c.file).kbps) * 1000.0);
            let naive = mine.iter().map(seconds).sum::<f64>() / mine.len() as f64;
            prop_assert!((ntt - naive).abs() < 1e-5, "{} {}", ntt, naive);
        }
        let long = chains.iter().filter(|c| c.length > 1_000_000).count() as f64;
        if count > 0.0 {
            let up_to = told.number("table-chain-lengths", "up-to-1mb", "value").expect("a number");
            prop_assert!(near(up_to, 100.0 - 100.0 * long / count));
        }
    }

    #[test]
    fn figures_by_second_agree_with_direct_counting(requests in any_log()) {
        let (log, told) = in_parts(&requests, 2);
        let chains = chains_of(&requests);
        let mut sessions = Vec::new();
        for session in 0..4u32 {
            let mine: Vec<_> = chains.iter().filter(|c| c.session == session).collect();
            let (Some(start), Some(end)) =
                (mine.iter().map(|c| c.start_ms).min(), mine.iter().map(|c| c.end_ms).max()) else { continue };
            sessions.push((session, start, end));
        }
        // Bins are one second wide up to second 200, as each is 1 % of the time.
        for second in [0usize, 1, 7, 40, 150] {
            let alive = sessions.iter().filter(|(_, start, end)| (end - start) / 1000 >= second as i64);
            let alive: Vec<_> = alive.collect();
            // Sessions without any byte sent count as active while their requests last.
            if requests.iter().any(|r| r.sent_bytes == 0) {
                continue;
            }
            let (mut most, mut seen) = (0, 0);
            for (session, start, _) in &alive {
                let (from, until) = (start + second as i64 * 1000, start + second as i64 * 1000 + 1000);
                let mine: Vec<_> = requests.iter().filter(|r| {
                    r.session == *session
                        && r.asked_bytes.is_some()
                        && log.file(r.file).kind != ContentKind::Audio
                }).collect();
                let covers = |r: &Request, t: i64| r.received_ms <= t && t < r.completed_ms.max(r.received_ms + 1);
                // The maximum is reached at the start of the second, or at an arrival in it.
                let begins = mine.iter().map(|r| r.received_ms).filter(|t| (from..until).contains(t));
                most += begins.chain([from]).map(|t| mine.iter().filter(|r| covers(r, t)).count()).max().unwrap_or(0);
                let mut files: Vec<u32> = mine.iter().filter(|r| {
                    r.received_ms < until && r.completed_ms.max(r.received_ms + 1) > from
                }).map(|r| r.file).collect();
                files.sort_unstable();
                files.dedup();
                seen += files.len();
            }
            for (name, naive) in [("connections", most), ("files", seen)] {
                let points = series(&told, "figure-5.14", name);
                let here = points.iter().find(|point| point[0] == second as f64 + 1.0);
                match here {
                    Some(point) => prop_assert!(
                        near(point[1], naive as f64 / alive.len() as f64), "{} {}", name, second
                    ),
                    None => prop_assert!(alive.is_empty()),
                }
            }
        }
    }

    #[test]
    fn portions_agree_with_the_fetched_bytes(requests in any_log()) {
        let (log, told) = in_parts(&requests, 2);
        let sessions = requests.iter().map(|r| r.session).max().map_or(0, |last| {
            (0..=last).filter(|s| requests.iter().any(|r| r.session == *s)).count()
        });
        for part in [0usize, 1, 50, 99] {
            let touches = |r: &&Request| {
                let size = u128::from(log.file(r.file).size_bytes);
                let of = |at: u64| ((u128::from(at) * 100 / size).min(99)) as usize;
                r.sent_bytes > 0 && (of(r.offset)..=of(r.end() - 1)).contains(&part)
            };
            let mut who: Vec<u32> = requests.iter().filter(touches).map(|r| r.session).collect();
            who.sort_unstable();
            who.dedup();
            let points = series(&told, "figure-5.6", "any");
            prop_assert!(near(points[part][1], 100.0 * who.len() as f64 / sessions as f64));
        }
    }

    #[test]
    fn phase_tables_agree_with_the_phases(requests in any_log()) {
        use headlong_chains::{PhaseKind, PhaseRules, phases};
        let (log, told) = in_parts(&requests, 2);
        if requests.iter().any(|r| r.sent_bytes == 0) {
            return Ok(());
        }
        let chains = chains_of(&requests);
        for (with_audio, time, count) in [(false, "time", "without-audio"), (true, "time-all", "all")] {
            let rules = PhaseRules { with_audio, ..PhaseRules::default() };
            let all: Vec<_> = chains.chunk_by(|a, b| a.session == b.session).map(|mine| {
                phases(mine, |file| log.file(file).kind, &rules).expect("chains")
            }).collect();
            let of_kind = |kind| -> u64 {
                let counts = all.iter().map(|of| of.phases.iter().filter(|one| one.kind == kind).count());
                counts.sum::<usize>() as u64
            };
            let ms = |of: fn(&headlong_chains::SessionPhases) -> i64| all.iter().map(of).sum::<i64>();
            let span_ms = ms(|of| of.span_ms());
            for (row, ms, n) in [
                ("transient", ms(|of| of.transient_ms), of_kind(PhaseKind::Transient)),
                ("stable", ms(|of| of.stable_ms), of_kind(PhaseKind::Stable)),
                ("inactive", ms(|of| of.inactive_ms), of_kind(PhaseKind::Inactive)),
            ] {
                let share = told.number("table-phases", row, time).expect("a number");
                let naive = if span_ms > 0 { 100.0 * ms as f64 / span_ms as f64 } else { 0.0 };
                prop_assert!(near(share, naive));
                let row = match row { "transient" => "clusters", other => other };
                prop_assert_eq!(told.number("table-phase-counts", row, count), Some(n as f64));
            }
            let later = all.iter().map(|of| {
                of.phases.iter().filter(|one| one.kind == PhaseKind::Transient).count().saturating_sub(1)
            });
            let starting = all.iter().filter(|of| of.starts_transient()).count();
            let rows = [
                ("successors", later.sum::<usize>() as f64),
                ("start-transient", 100.0 * starting as f64 / all.len().max(1) as f64),
            ];
            for (row, naive) in rows {
                prop_assert!(near(told.number("table-phase-counts", row, count).expect("a number"), naive), "{}", row);
            }
        }
    }
}

/// One viewer: headers of two rates, then 1750 kbit/s sequentially for a minute and a half, a pause
/// of a minute, and a continuation at the same position.
fn small_log() -> Vec<Request> {
    let mut requests = Vec::new();
    let mut push = |file, received_ms, took, offset, bytes, is_open: bool| {
        requests.push(Request {
            line: requests.len() as u64,
            session: 0,
            file,
            received_ms,
            completed_ms: received_ms + took,
            offset,
            asked_bytes: (!is_open).then_some(bytes),
            sent_bytes: bytes,
            disk: 0,
            device: 0,
        });
    };
    push(1, 1000, 100, 0, 12_000, false);
    push(2, 1200, 100, 0, 12_000, false);
    push(0, 1300, 120_000, 0, 1_000_000, true);
    push(1, 2000, 500, 13_125_000, 700_000, false);
    for chunk in 0..20u64 {
        push(
            2,
            3000 + chunk as i64 * 5000,
            1000,
            13_125_000 + chunk * 1_000_000,
            1_000_000,
            false,
        );
    }
    push(2, 190_000, 1000, 33_125_000, 1_000_000, false);
    requests
}

#[test]
fn small_log_gives_the_expected_numbers() {
    let (_, told) = in_parts(&small_log(), 1);
    let number =
        |table: &str, row: &str, column: &str| told.number(table, row, column).expect("a number");
    assert_eq!(number("table-5.1", "requests", "value"), 25.0);
    assert_eq!(number("table-phase-counts", "stable", "without-audio"), 1.0);
    assert_eq!(number("table-phase-counts", "stable", "all"), 2.0);
    assert_eq!(number("table-phase-counts", "inactive", "all"), 1.0);
    assert_eq!(number("table-viewing", "pauses", "value"), 100.0);
    // Both headers start at offset zero, and so does the audio.
    assert_eq!(number("table-chain-lengths", "at-zero", "value"), 50.0);
    let starts = series(&told, "figure-5.7", "start");
    assert_eq!(
        starts[31][1], 100.0,
        "13,125,000 of 42,000,000 bytes lies in the 32nd hundredth"
    );
    let tried = series(&told, "figure-5.17", "share (%)");
    // 12,000 bytes at 560 and at 1750 kbit/s, and 700,000 at 560.
    assert_eq!(tried.len(), 2, "{tried:?}");
    assert!(tried[0][2] > 99.0 && tried[1][2] < 1.0);
    assert_eq!(told.observed.viewing.pauses_per_hour.round(), 30.0);
}

/// Sessions that fetch that many bytes of the video.
fn table_of_fractions(fetched: &[u64]) -> Characterisation {
    let sessions = (0..).zip(fetched);
    let requests = sessions.map(|(session, sent_bytes)| Request {
        line: u64::from(session),
        session,
        file: 1,
        received_ms: 1000,
        completed_ms: 2000,
        offset: 0,
        asked_bytes: None,
        sent_bytes: *sent_bytes,
        disk: 0,
        device: 0,
    });
    in_parts(&requests.collect::<Vec<_>>(), 1).1
}

#[test]
fn fraction_limits_are_inclusive() {
    let share = |fetched: &[u64], row: &str| {
        let told = table_of_fractions(fetched);
        told.number("table-viewing", row, "value")
            .expect("a number")
    };
    let (whole, fifth) = (42_000_000, 8_400_000);
    assert_eq!(share(&[whole, whole + 1], "over-100-video"), 50.0);
    assert_eq!(share(&[fifth, fifth + 1], "video-20"), 50.0);
}

#[test]
fn json_output_is_unchanged() {
    let (_, told) = in_parts(&small_log(), 1);
    let text = serde_json::to_string_pretty(&told).expect("serialized") + "\n";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/small_log.json");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &text).expect("written");
    }
    let golden = std::fs::read_to_string(path).expect("missing; create it with UPDATE=1");
    assert!(
        golden == text,
        "the JSON has changed: run UPDATE=1 cargo test -p headlong-characterise and check the diff"
    );
}

#[test]
fn empty_log_gives_a_report() {
    let (_, told) = in_parts(&[], 1);
    assert_eq!(told.number("table-5.1", "sessions", "value"), Some(0.0));
    let text = serde_json::to_string(&told).expect("serialized");
    assert!(!text.contains("NaN"));
}

#[test]
fn sessions_that_still_run_count_in_the_volume_only() {
    let mut requests = small_log();
    let late = requests[4..].to_vec();
    requests.extend(late.iter().map(|r| Request {
        session: 1,
        line: r.line + 100,
        received_ms: r.received_ms + 43_300_000,
        completed_ms: r.completed_ms + 43_300_000,
        ..*r
    }));
    let (_, told) = in_parts(&requests, 2);
    assert_eq!((told.sessions, told.sessions_left_out), (2, 1));
    assert_eq!(told.number("table-5.1", "requests", "value"), Some(46.0));
    assert_eq!(told.number("table-5.2", "total", "requests"), Some(25.0));
}

#[test]
fn store_of_two_files_sends_their_further_readings() {
    // Three viewers of a file of 42 MB and one of a file of 131 MB, all of it.
    let request = |session, file, sent_bytes| Request {
        line: u64::from(session),
        session,
        file,
        received_ms: 1000,
        completed_ms: 61_000,
        offset: 0,
        asked_bytes: Some(sent_bytes + u64::from(session == 3)),
        sent_bytes,
        disk: 0,
        device: 0,
    };
    let requests = [
        request(0, 1, 42_000_000),
        request(1, 1, 42_000_000),
        request(2, 1, 42_000_000),
        request(3, 2, 100_000_000),
        request(4, 4, 7_000_000),
    ];
    for parts in [1, 3] {
        let (_, told) = in_parts(&requests, parts);
        let number = |table, row, column| told.number(table, row, column).expect("a number");
        assert!(near(
            number("table-stores", "1-gb", "share"),
            84.0 / 233.0 * 100.0
        ));
        assert_eq!(number("table-viewers", "peak", "value"), 5.0);
        assert_eq!(number("table-titles", "0", "gb"), 0.226);
        assert_eq!(number("table-titles", "0", "sessions"), 4.0);
        assert_eq!(number("table-titles", "1", "sessions"), 1.0);
        // Those that stop within the file before the requested end.
        assert_eq!(number("table-failures", "short", "requests"), 1.0);
        let viewers = series(&told, "figure-viewers", "viewers");
        assert!(viewers.iter().all(|point| point[1] <= 5.0), "{viewers:?}");
    }
}

#[test]
fn published_numbers_have_cells_in_our_tables() {
    let (_, told) = in_parts(&small_log(), 1);
    for known in all_published() {
        let mut tables = told.tables().filter(|table| table.id == known.table);
        let table = tables
            .next()
            .unwrap_or_else(|| panic!("no {}", known.table));
        assert!(
            table
                .columns
                .iter()
                .any(|column| column.key == known.column),
            "{known:?}"
        );
        // Rows of bit rates and segments exist only if the log has them.
        let is_fixed = !["table-bit-rates", "table-survival"].contains(&known.table);
        assert!(
            !is_fixed || table.rows.iter().any(|row| row.key == known.row),
            "{known:?}"
        );
    }
}
