//! MP4 headers, wherever they lie and whatever is wrong with them.

mod common;

use std::fs::File;
use std::process::Command;

use common::{Tree, resolve};
use headlong_library::{Mp4Error, Mp4Header, TrackKind, read_mp4_header};
use headlong_units::Duration;
use proptest::prelude::*;

fn boxed(kind: &str, body: &[&[u8]]) -> Vec<u8> {
    let body = body.concat();
    let mut bytes = ((body.len() + 8) as u32).to_be_bytes().to_vec();
    bytes.extend(kind.as_bytes());
    bytes.extend(body);
    bytes
}

fn mvhd(timescale: u32, duration: u32) -> Vec<u8> {
    let mut body = vec![0; 12];
    body.extend(timescale.to_be_bytes());
    body.extend(duration.to_be_bytes());
    body.extend([0, 1, 0, 0, 1, 0]);
    body.extend([0; 10]);
    for value in [0x1_0000u32, 0, 0, 0, 0x1_0000, 0, 0, 0, 0x4000_0000] {
        body.extend(value.to_be_bytes());
    }
    body.extend([0; 24]);
    body.extend(2u32.to_be_bytes());
    boxed("mvhd", &[&body])
}

fn track(handler: &str, timescale: u32, duration: u32) -> Vec<u8> {
    let mut mdhd = vec![0; 12];
    mdhd.extend(timescale.to_be_bytes());
    mdhd.extend(duration.to_be_bytes());
    mdhd.extend([0x55, 0xc4, 0, 0]);
    let hdlr = [&[0; 8], handler.as_bytes(), &[0; 12], b"h\0"].concat();
    let table = boxed("minf", &[&vec![0; 100_000]]);
    let mdia = boxed(
        "mdia",
        &[&boxed("mdhd", &[&mdhd]), &boxed("hdlr", &[&hdlr]), &table],
    );
    boxed("trak", &[&mdia])
}

fn ftyp() -> Vec<u8> {
    boxed("ftyp", &[b"isom\0\0\x02\0isom"])
}

fn read(bytes: &[u8]) -> Result<Mp4Header, Mp4Error> {
    let tree = Tree::new();
    tree.write("x.mp4", bytes);
    let file = File::open(tree.at("x.mp4")).expect("written");
    read_mp4_header(&file, bytes.len() as u64)
}

#[test]
fn the_header_is_found_at_either_end() {
    let moov = boxed(
        "moov",
        &[
            &mvhd(1000, 8000),
            &track("vide", 90_000, 720_000),
            &track("soun", 48_000, 384_000),
        ],
    );
    let mdat = boxed("mdat", &[&vec![9; 200_000]]);
    for order in [[&ftyp(), &moov, &mdat], [&ftyp(), &mdat, &moov]] {
        let header = read(&order.map(|b| &b[..]).concat()).expect("headers");
        assert_eq!(header.duration, Duration::from_secs(8));
        let kinds: Vec<_> = header.tracks.iter().map(|track| track.kind).collect();
        assert_eq!(kinds, [TrackKind::Video, TrackKind::Audio]);
        assert_eq!(
            header.bit_rate(1_000_000).map(|rate| rate.0),
            Some(1_000_000)
        );
    }
}

#[test]
fn a_large_media_box_is_stepped_over() {
    let mut bytes = ftyp();
    bytes.extend([0, 0, 0, 1]);
    bytes.extend(b"mdat");
    bytes.extend(100_016u64.to_be_bytes());
    bytes.extend(vec![0; 100_000]);
    bytes.extend(boxed("moov", &[&mvhd(600, 1200)]));
    assert_eq!(
        read(&bytes).expect("headers").duration,
        Duration::from_secs(2)
    );
}

#[test]
fn a_fragmented_file_says_its_duration_in_mehd_or_sidx() {
    let mehd = boxed("mehd", &[&[0; 4], &5000u32.to_be_bytes()]);
    let moov = boxed("moov", &[&mvhd(1000, 0), &boxed("mvex", &[&mehd])]);
    assert_eq!(
        read(&[ftyp(), moov].concat()).expect("headers").duration,
        Duration::from_secs(5)
    );

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
    assert_eq!(
        read(&bytes).expect("headers").duration,
        Duration::from_secs(7)
    );
}

#[test]
fn broken_headers_say_what_is_broken() {
    let moov = boxed("moov", &[&mvhd(1000, 8000)]);
    let cut = [&ftyp()[..], &moov[..60]].concat();
    assert!(matches!(read(&cut), Err(Mp4Error::Broken(_))));
    assert!(matches!(read(&ftyp()), Err(Mp4Error::NoMoov)));
    assert!(matches!(
        read(b"just some text that is no film"),
        Err(Mp4Error::NotMp4 | Mp4Error::NoMoov)
    ));
    assert!(matches!(read(&[0xff; 5000]), Err(Mp4Error::NotMp4)));
    assert!(matches!(read(&[0; 5000]), Err(Mp4Error::NotMp4)));
    let mut empty_boxes = ftyp();
    for _ in 0..20_000 {
        empty_boxes.extend(boxed("free", &[]));
    }
    assert!(matches!(read(&empty_boxes), Err(Mp4Error::TooLarge)));
    let mut inner = boxed("moov", &[&mvhd(1000, 8000)]);
    inner[11] = 255;
    assert!(matches!(read(&inner), Err(Mp4Error::Broken(_))));
}

#[test]
fn the_name_of_a_broken_box_cannot_break_the_line_that_quotes_it() {
    let bytes = [&ftyp()[..], &[0, 0, 0, 1], b"a\nb\x1b", &[0; 8]].concat();
    let error = read(&bytes).expect_err("a length of zero").to_string();
    assert_eq!(error, "its `a\\nb\\x1b` box is broken");
}

#[test]
fn a_broken_file_is_served_and_warned_of_once() {
    let tree = Tree::new();
    tree.write("bad.mp4", "this is not a film at all")
        .write("film.mkv", "no headers known");
    let library = tree.scan();
    assert!(library.warnings().is_empty());
    let entry = resolve(&library, "bad.mp4");
    assert_eq!(entry.stream.spec().bit_rate, None);
    assert_eq!(entry.stream.bit_rate(), None);
    assert_eq!(resolve(&library, "film.mkv").stream.spec().bit_rate, None);
    let warnings = library.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert_eq!(warnings[0].path, "bad.mp4");
    let titles = library.titles();
    assert_eq!(titles[0].odd.as_ref(), Some(&warnings[0].reason));
    assert_eq!(titles[1].odd, None);
    tree.write("bad.mp4", "");
    library.rescan();
    assert!(library.warnings().is_empty());
}

#[test]
fn a_file_that_was_cut_is_warned_of_and_has_the_bit_rate_of_the_whole() {
    let whole = [
        ftyp(),
        boxed("moov", &[&mvhd(1000, 8000), &track("vide", 1000, 8000)]),
        boxed("free", &[&[0; 100]]),
        boxed("mdat", &[&vec![7; 1_000_000]]),
    ]
    .concat();
    let tree = Tree::new();
    tree.write("whole.mp4", &whole)
        .write("cut.mp4", &whole[..250_000]);
    let library = tree.scan();
    let rate = |path: &str| resolve(&library, path).stream.bit_rate();
    assert_eq!(rate("cut.mp4"), rate("whole.mp4"));
    let expected = headlong_units::BitRate(whole.len() as u64);
    assert_eq!(
        rate("cut.mp4"),
        Some(expected),
        "eight seconds of eight bits a byte"
    );
    let shown = library
        .titles()
        .into_iter()
        .map(|title| title.bit_rates_bps);
    let shown: Vec<_> = shown.collect();
    assert_eq!(shown[0], shown[1]);
    let warnings = library.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert_eq!(warnings[0].path, "cut.mp4");
    assert!(
        warnings[0]
            .reason
            .contains("its mdat is longer than the file")
    );
    // Another file that comes or goes makes no difference to it; the rest of it does.
    tree.write("other.txt", "");
    library.rescan();
    assert_eq!(library.warnings().len(), 1);
    tree.write("cut.mp4", &whole);
    library.rescan();
    assert_eq!(rate("cut.mp4"), rate("whole.mp4"));
    assert!(library.warnings().is_empty());
}

#[test]
fn real_files_say_how_long_they_play() {
    let tree = Tree::new();
    let variants = [
        ("end.mp4", "+disable_chpl"),
        ("start.mp4", "+faststart"),
        ("fragmented.mp4", "+frag_keyframe+empty_moov+global_sidx"),
    ];
    for (name, flags) in variants {
        let mut ffmpeg = Command::new("ffmpeg");
        ffmpeg.args([
            "-v",
            "error",
            "-f",
            "lavfi",
            "-i",
            "testsrc=size=64x64:rate=10:duration=3",
        ]);
        ffmpeg.args([
            "-f",
            "lavfi",
            "-i",
            "sine=duration=3",
            "-c:v",
            "mpeg4",
            "-c:a",
            "aac",
        ]);
        let status = ffmpeg
            .args(["-movflags", flags])
            .arg(tree.at(name))
            .status();
        let status = status.expect("ffmpeg must be installed for this test");
        assert!(status.success(), "{name}");
    }
    let library = tree.scan();
    assert!(
        library
            .titles()
            .iter()
            .all(|title| title.duration_s.is_none())
    );
    for (name, _) in variants {
        let entry = resolve(&library, name);
        let header = entry
            .stream
            .header()
            .unwrap_or_else(|| panic!("{name}: headers"));
        let seconds = header.duration.as_secs_f64();
        assert!((2.9..3.2).contains(&seconds), "{name}: {seconds}");
        assert_eq!(header.tracks.len(), 2, "{name}");
        let rate = entry.stream.spec().bit_rate.expect("a bit rate").0 as f64;
        let expected = entry.size as f64 * 8.0 / seconds;
        assert!(
            (rate / expected - 1.0).abs() < 0.01,
            "{name}: {rate} for {expected}"
        );
    }
    assert!(
        library
            .titles()
            .iter()
            .all(|title| title.duration_s.is_some())
    );
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(
        at in 0usize..400,
        replacement in proptest::collection::vec(any::<u8>(), 1..12),
        cut in 0usize..100_800,
    ) {
        let mehd = boxed("mehd", &[&[0; 4], &5000u32.to_be_bytes()]);
        let moov = boxed("moov", &[&mvhd(1000, 0), &boxed("mvex", &[&mehd]), &track("vide", 1, 2)]);
        let mut bytes = [ftyp(), moov].concat();
        for (i, byte) in replacement.iter().enumerate() {
            bytes[at + i] = *byte;
        }
        bytes.truncate(cut.max(1));
        let _ = read(&bytes);
    }
}
