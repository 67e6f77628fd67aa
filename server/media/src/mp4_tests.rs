use alloc::string::ToString;
use alloc::vec;
use std::format;

use proptest::prelude::*;

use headlong_units::BitRate;

use super::*;

fn boxed(kind: &str, body: &[&[u8]]) -> Vec<u8> {
    let body = body.concat();
    let mut bytes = ((body.len() + 8) as u32).to_be_bytes().to_vec();
    bytes.extend(kind.as_bytes());
    bytes.extend(body);
    bytes
}

fn mvhd(timescale: u32, duration: u32) -> Vec<u8> {
    let time = [timescale.to_be_bytes(), duration.to_be_bytes()].concat();
    boxed("mvhd", &[&[0; 12], &time, &[0; 80]])
}

fn track(timescale: u32, duration: u32) -> Vec<u8> {
    let time = [timescale.to_be_bytes(), duration.to_be_bytes()].concat();
    let mdhd = boxed("mdhd", &[&[0; 12], &time, &[0x55, 0xc4, 0, 0]]);
    let table = boxed("minf", &[&vec![0; 100_000]]);
    boxed("trak", &[&boxed("mdia", &[&mdhd, &table])])
}

fn ftyp() -> Vec<u8> {
    boxed("ftyp", &[b"isom\0\0\x02\0isom"])
}

fn film() -> [Vec<u8>; 3] {
    let moov = boxed("moov", &[&mvhd(1000, 7000), &track(90_000, 720_000)]);
    [ftyp(), moov, boxed("mdat", &[&vec![9; 200_000]])]
}

/// The result of a scan that is given its wanted bytes, in pieces of at most `piece_bytes`.
fn scan_in(bytes: &[u8], piece_bytes: usize) -> Mp4Scan {
    let mut scan = Mp4Scan::new(bytes.len() as u64);
    while let Some(at) = scan.wants() {
        let piece = bytes[at as usize..].chunks(piece_bytes).next();
        scan.take(at, piece.expect("wanted bytes lie inside the file"));
    }
    scan
}

fn scan(bytes: &[u8]) -> Result<HeaderFacts, Mp4Fault> {
    match scan_in(bytes, usize::MAX).progress() {
        Mp4Progress::Done(facts) => Ok(facts),
        Mp4Progress::Failed(fault) => Err(fault),
        Mp4Progress::Scanning(_) => panic!("the scan has not ended"),
    }
}

fn seconds(bytes: &[u8]) -> f64 {
    scan(bytes).expect("headers").duration.as_secs_f64()
}

#[test]
fn finds_moov_before_and_after_media() {
    let [ftyp, moov, mdat] = film();
    // The longest track counts.
    assert_eq!(seconds(&[&ftyp[..], &moov, &mdat].concat()), 8.0);
    assert_eq!(seconds(&[&ftyp[..], &mdat, &moov].concat()), 8.0);
    let facts = scan(&[&ftyp[..], &moov, &mdat].concat()).expect("headers");
    assert_eq!(facts.bit_rate(1_000_000), Some(BitRate(1_000_000)));
}

#[test]
fn ignores_bytes_that_it_does_not_need() {
    let bytes = film().concat();
    let mut scan = Mp4Scan::new(bytes.len() as u64);
    scan.take(120_000, &bytes[120_000..]);
    assert_eq!(scan.wants(), Some(0));
    scan.take(0, &bytes[..60]);
    scan.take(70, &bytes[70..50_000]);
    assert!(scan.wants().expect("not ended") < 70);
    scan.take(0, &bytes);
    assert!(matches!(scan.progress(), Mp4Progress::Done(_)));
}

#[test]
fn duration_is_known_before_end_of_moov() {
    let bytes = film().concat();
    let mut scan = Mp4Scan::new(bytes.len() as u64);
    scan.take(0, &bytes[..1000]);
    let Mp4Progress::Scanning(facts) = scan.progress() else {
        panic!("tables are still missing");
    };
    assert!(facts.duration >= Duration::from_secs(7));
}

#[test]
fn wants_only_end_of_file_if_moov_is_last() {
    let [ftyp, moov, mdat] = film();
    let bytes = [&ftyp[..], &mdat, &moov].concat();
    let mut scan = Mp4Scan::new(bytes.len() as u64);
    scan.take(0, &bytes[..4096]);
    let at = (ftyp.len() + mdat.len()) as u64;
    assert_eq!(scan.wants(), Some(at));
    scan.take(at - 1000, &bytes[at as usize - 1000..]);
    assert!(matches!(scan.progress(), Mp4Progress::Done(_)));
}

#[test]
fn skips_box_with_64_bit_length() {
    let mut bytes = ftyp();
    bytes.extend([0, 0, 0, 1]);
    bytes.extend(b"mdat");
    bytes.extend(100_016u64.to_be_bytes());
    bytes.extend(vec![0; 100_000]);
    bytes.extend(boxed("moov", &[&mvhd(600, 1200)]));
    assert_eq!(seconds(&bytes), 2.0);
}

#[test]
fn reads_64_bit_times() {
    let time = [&1000u32.to_be_bytes()[..], &9000u64.to_be_bytes()].concat();
    let mvhd = boxed("mvhd", &[&[1, 0, 0, 0], &[0; 16], &time, &[0; 80]]);
    assert_eq!(seconds(&boxed("moov", &[&mvhd])), 9.0);
}

#[test]
fn fragmented_file_has_duration_in_mehd_or_sidx() {
    let mehd = boxed("mehd", &[&[0; 4], &5000u32.to_be_bytes()]);
    let moov = boxed("moov", &[&mvhd(1000, 0), &boxed("mvex", &[&mehd])]);
    assert_eq!(seconds(&[ftyp(), moov].concat()), 5.0);

    let mut sidx = vec![0; 4];
    for value in [1u32, 1000, 0, 0, 2] {
        sidx.extend(value.to_be_bytes());
    }
    for duration in [4000u32, 3000] {
        sidx.extend([0, 0, 1, 0]);
        sidx.extend(duration.to_be_bytes());
        sidx.extend([0x90, 0, 0, 0]);
    }
    let moov = boxed("moov", &[&mvhd(1000, 0), &boxed("mvex", &[])]);
    let bytes = [ftyp(), moov, boxed("sidx", &[&sidx]), boxed("moof", &[])].concat();
    assert_eq!(seconds(&bytes), 7.0);
}

#[test]
fn broken_headers_are_rejected_by_name() {
    let moov = boxed("moov", &[&mvhd(1000, 8000)]);
    let cut = [&ftyp()[..], &moov[..60]].concat();
    assert_eq!(scan(&cut), Err(Mp4Fault::Broken(*b"moov")));
    assert_eq!(scan(&ftyp()), Err(Mp4Fault::NoMoov));
    assert_eq!(
        scan(b"just some text that is no film"),
        Err(Mp4Fault::NoMoov)
    );
    for bytes in [&[0xff; 5000][..], &[0; 5000], &[], b"x"] {
        assert_eq!(scan(bytes), Err(Mp4Fault::NotMp4));
    }
    let mut empty_boxes = ftyp();
    for _ in 0..20_000 {
        empty_boxes.extend(boxed("free", &[]));
    }
    assert_eq!(scan(&empty_boxes), Err(Mp4Fault::TooLarge));
    let mut inner = moov;
    inner[11] = 255;
    assert_eq!(scan(&inner), Err(Mp4Fault::Broken(*b"mvhd")));
}

#[test]
fn name_of_broken_box_does_not_break_the_line() {
    let bytes = [&ftyp()[..], &[0, 0, 0, 1], b"a\nb\x1b", &[0; 8]].concat();
    let fault = scan(&bytes).expect_err("a length of zero").to_string();
    assert_eq!(fault, "its `a\\nb\\x1b` box is broken");
}

#[test]
fn truncated_file_has_bit_rate_of_the_whole() {
    let whole = film().concat();
    let cut = &whole[..150_000];
    let facts = scan(cut).expect("the headers are complete");
    assert!(facts.is_cut(150_000) && !facts.is_cut(whole.len() as u64));
    assert_eq!(
        facts.bit_rate(150_000),
        scan(&whole).expect("headers").bit_rate(whole.len() as u64)
    );
}

#[test]
fn garbage_after_moov_is_ignored() {
    let moov = boxed("moov", &[&mvhd(1000, 8000)]);
    assert_eq!(
        seconds(&[&ftyp()[..], &moov, &[0, 0, 0, 3, 9, 9, 9, 9]].concat()),
        8.0
    );
}

#[test]
fn absurd_durations_give_no_bit_rate() {
    for duration in [Duration::ZERO, Duration(1), Duration::MAX] {
        let facts = HeaderFacts {
            duration,
            ..HeaderFacts::default()
        };
        assert_eq!(facts.bit_rate(1 << 30), None, "{duration:?}");
    }
}

/// A file as a recorder writes it: two tracks in each fragment, which is 2 s and about 250 kB.
fn recording(fragments: u32, has_times: bool) -> Vec<u8> {
    let number = |value: u32| value.to_be_bytes();
    let track = |id: u32, timescale: u32| {
        let tkhd = boxed("tkhd", &[&[0; 12], &number(id), &[0; 68]]);
        let time = [number(timescale), number(0)].concat();
        let mdhd = boxed("mdhd", &[&[0; 12], &time, &[0; 4]]);
        boxed("trak", &[&tkhd, &boxed("mdia", &[&mdhd])])
    };
    let mvex = boxed("mvex", &[&boxed("trex", &[&[0; 24]])]);
    let moov = boxed(
        "moov",
        &[&mvhd(1000, 0), &track(1, 90_000), &track(2, 48_000), &mvex],
    );
    let mut bytes = [ftyp(), moov].concat();
    for index in 0..fragments {
        let traf = |id: u32, timescale: u32| {
            let tfhd = boxed("tfhd", &[&[0; 4], &number(id)]);
            // The clock of a recorder does not begin at zero.
            let start = u64::from(timescale) * u64::from(100 + 2 * index);
            let tfdt = match has_times {
                true => boxed("tfdt", &[&[1, 0, 0, 0], &start.to_be_bytes()]),
                false => Vec::new(),
            };
            boxed("traf", &[&tfhd, &tfdt, &boxed("trun", &[&[0; 400]])])
        };
        bytes.extend(boxed("moof", &[&traf(1, 90_000), &traf(2, 48_000)]));
        bytes.extend(boxed("mdat", &[&vec![0; 250_000]]));
    }
    bytes
}

#[test]
fn duration_of_recording_without_index_is_estimated() {
    for fragments in [2, 10, 50] {
        let facts = scan(&recording(fragments, true)).expect("headers");
        let error = facts.duration.as_secs_f64() - f64::from(2 * fragments);
        assert!(facts.is_estimated && error.abs() < 0.01, "{facts:?}");
    }
    let mut scan = Mp4Scan::new(recording(50, true).len() as u64);
    scan.take(0, &recording(50, true)[..1_000_000]);
    let Mp4Progress::Scanning(facts) = scan.progress() else {
        panic!("more fragments follow");
    };
    assert!(facts.is_estimated, "no estimate of the first fragments");
}

#[test]
fn recording_of_unknown_times_has_no_duration() {
    for bytes in [recording(10, false), recording(1, true), recording(0, true)] {
        assert_eq!(scan(&bytes), Ok(HeaderFacts::default()));
    }
    let mut bytes = recording(10, true);
    let end = bytes.len();
    // A broken fragment does not invalidate the headers.
    let at = end - 250_000;
    bytes.truncate(at - 8);
    bytes.extend(boxed("moof", &[&[0, 0, 0, 99], b"traf"]));
    assert!(scan(&bytes).expect("headers").is_estimated);
}

#[test]
fn tables_of_large_moov_are_skipped() {
    let tables_bytes = 90u32 << 20;
    let [_, moov, _] = film();
    // The last box of the track is `minf`, and its content is missing from `head`.
    let mut head = [ftyp(), moov].concat();
    let more = tables_bytes - 100_000;
    head.truncate(head.len() - 100_000);
    for kind in [b"moov", b"trak", b"mdia", b"minf"] {
        let at = head
            .windows(4)
            .position(|name| name == kind)
            .expect("a box")
            - 4;
        let length = u32::from_be_bytes(array(&head, at).expect("a length"));
        head[at..at + 4].copy_from_slice(&(length + more).to_be_bytes());
    }
    let media = head.len() as u64 + u64::from(tables_bytes);
    let mdat = [&1_000_000u32.to_be_bytes()[..], b"mdat"].concat();
    let mut scan = Mp4Scan::new(media + 1_000_000);
    scan.take(0, &head);
    assert_eq!(scan.wants(), Some(media));
    scan.take(media, &mdat);
    let facts = HeaderFacts {
        duration: Duration::from_secs(8),
        is_estimated: false,
        end_declared: media + 1_000_000,
    };
    assert_eq!(scan.progress(), Mp4Progress::Done(facts));
}

proptest! {
    #[test]
    fn fragments_in_pieces_of_any_size_give_same_result(piece_bytes in 1usize..5000) {
        let bytes = recording(3, true);
        let in_pieces = scan_in(&bytes, piece_bytes).progress();
        prop_assert_eq!(in_pieces, Mp4Progress::Done(scan(&bytes).expect("headers")));
    }

    #[test]
    fn pieces_of_any_size_give_same_result(piece_bytes in 1usize..5000, at_end: bool) {
        let [ftyp, moov, mdat] = film();
        let bytes = match at_end {
            true => [ftyp, mdat, moov],
            false => [ftyp, moov, mdat],
        };
        let bytes = bytes.concat();
        let in_pieces = scan_in(&bytes, piece_bytes).progress();
        prop_assert_eq!(in_pieces, Mp4Progress::Done(scan(&bytes).expect("headers")));
    }

    #[test]
    fn no_bytes_make_it_panic_or_store_much(
        at in 0usize..400,
        replacement in proptest::collection::vec(any::<u8>(), 1..12),
        cut in 0usize..100_800,
        piece_bytes in 1usize..5000,
    ) {
        let mehd = boxed("mehd", &[&[0; 4], &5000u32.to_be_bytes()]);
        let moov = boxed("moov", &[&mvhd(1000, 0), &boxed("mvex", &[&mehd]), &track(1, 2)]);
        let mut bytes = [ftyp(), moov, boxed("sidx", &[&[0; 100]])].concat();
        bytes[at..at + replacement.len()].copy_from_slice(&replacement);
        bytes.truncate(cut.max(1));
        let scan = scan_in(&bytes, piece_bytes);
        prop_assert!(scan.kept.capacity() as u64 <= 2 * BOX_BYTES_MAX);
        if let Mp4Progress::Failed(fault) = scan.progress() {
            let text = format!("{fault}");
            prop_assert!(text.len() < 200 && !text.contains('\n'));
        }
        prop_assert_eq!(scan.progress(), scan_in(&bytes, usize::MAX).progress());
    }
}
