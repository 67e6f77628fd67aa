//! Headers of media files, parsed from bytes that are read for viewers.

use std::process::Command;

use crate::common::{TempTree, resolve};
use headlong_library::{Library, RecordKind, RecordsLoaded, StreamFiles};
use headlong_units::BitRate;

fn boxed(kind: &str, body: &[&[u8]]) -> Vec<u8> {
    let body = body.concat();
    let mut bytes = ((body.len() + 8) as u32).to_be_bytes().to_vec();
    bytes.extend(kind.as_bytes());
    bytes.extend(body);
    bytes
}

/// A film of `duration` milliseconds.
fn film(duration: u32) -> Vec<u8> {
    let time = [1000_u32.to_be_bytes(), duration.to_be_bytes()].concat();
    let moov = boxed("moov", &[&boxed("mvhd", &[&[0; 12], &time, &[0; 80]])]);
    let ftyp = boxed("ftyp", &[b"isom\0\0\x02\0isom"]);
    let mdat = boxed("mdat", &[&vec![7; 1_000_000]]);
    [ftyp, moov, boxed("free", &[&[0; 100]]), mdat].concat()
}

/// A viewer reads a whole file.
fn watch(stream: &StreamFiles, bytes: &[u8]) {
    for (index, piece) in bytes.chunks(4096).enumerate() {
        stream.learn(0, index as u64 * 4096, piece);
    }
}

fn durations(library: &Library) -> Vec<Option<f64>> {
    let titles = library.titles().into_iter();
    titles.map(|title| title.duration_s).collect()
}

#[test]
fn bit_rate_is_learned_from_bytes_read() {
    let tree = TempTree::new();
    let bytes = film(8000);
    tree.write("film.mp4", &bytes);
    let library = tree.scan();
    let stream = resolve(&library, "film.mp4").stream.clone();
    assert_eq!((stream.spec().bit_rate, stream.wants(0)), (None, Some(0)));
    assert_eq!(stream.learn(0, 500_000, &bytes[500_000..]), None);
    assert_eq!(stream.wants(0), Some(0), "learned from the middle");
    let rate = BitRate(bytes.len() as u64);
    assert_eq!(stream.learn(0, 0, &bytes[..4096]), Some(rate));
    assert_eq!(stream.learn(0, 0, &bytes[..4096]), None, "no new facts");
    assert_eq!(
        (stream.spec().bit_rate, stream.wants(0)),
        (Some(rate), None)
    );
    assert_eq!(durations(&library), [Some(8.0)]);
}

#[test]
fn facts_are_kept_for_same_version_across_processes() {
    let tree = TempTree::new();
    for name in ["a.mp4", "b.mp4", "c.mp4"] {
        tree.write(name, film(8000));
    }
    let library = tree.scan();
    for name in ["a.mp4", "b.mp4", "c.mp4"] {
        watch(&resolve(&library, name).stream, &film(8000));
    }
    let written = library.take_new_records(RecordKind::Facts);
    assert!(
        library.take_new_records(RecordKind::Facts).is_empty(),
        "facts returned twice"
    );
    assert_eq!(library.all_records(RecordKind::Facts).len(), written.len());

    tree.write("b.mp4", film(9000)).write("b.mp4.tmp", "");
    let file = std::fs::File::options().write(true).open(tree.at("b.mp4"));
    let later = std::time::SystemTime::now() - std::time::Duration::from_secs(600);
    file.and_then(|file| file.set_modified(later)).expect("set");
    let library = tree.scan();
    // The last record is truncated.
    let recalled = library.recall_records(RecordKind::Facts, &written[..written.len() - 1]);
    let expected = RecordsLoaded {
        records: 2,
        damaged: 1,
    };
    assert_eq!(recalled, expected);
    assert_eq!(durations(&library), [Some(8.0), None, None]);
    let wants = |name| resolve(&library, name).stream.wants(0);
    assert_eq!(wants("a.mp4"), None, "facts are not known");
    assert_eq!(wants("b.mp4"), Some(0));
    watch(&resolve(&library, "b.mp4").stream, &film(9000));
    assert_eq!(durations(&library), [Some(8.0), Some(9.0), None]);
}

#[test]
fn facts_of_unsettled_file_are_not_stored() {
    let tree = TempTree::new();
    std::fs::write(tree.at("new.mp4"), film(8000)).expect("written");
    let library = tree.scan();
    watch(&resolve(&library, "new.mp4").stream, &film(8000));
    assert_eq!(durations(&library), [Some(8.0)]);
    assert!(library.take_new_records(RecordKind::Facts).is_empty());
}

#[test]
fn garbage_in_state_folder_makes_no_facts() {
    let tree = TempTree::new();
    tree.write("film.mp4", film(8000));
    let library = tree.scan();
    let recalled = library.recall_records(RecordKind::Facts, &[0x5a; 4801]);
    assert_eq!((recalled.records, recalled.damaged), (0, 1));
    assert_eq!(durations(&library), [None]);
}

#[test]
fn broken_file_is_served_with_one_warning() {
    let tree = TempTree::new();
    let text = "this is not a film at all";
    tree.write("bad.mp4", text)
        .write("film.avi", "no headers known");
    let library = tree.scan();
    assert!(library.warnings().is_empty());
    let entry = resolve(&library, "bad.mp4");
    watch(&entry.stream, text.as_bytes());
    watch(&entry.stream, text.as_bytes());
    assert_eq!(entry.stream.spec().bit_rate, None);
    let film = resolve(&library, "film.avi");
    assert_eq!((film.stream.bit_rate(), film.stream.wants(0)), (None, None));
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
fn absurd_duration_causes_warning_and_is_ignored() {
    let tree = TempTree::new();
    let bytes = film(1);
    tree.write("film.mp4", &bytes);
    let library = tree.scan();
    let stream = resolve(&library, "film.mp4").stream.clone();
    watch(&stream, &bytes);
    assert_eq!((stream.bit_rate(), durations(&library)), (None, vec![None]));
    let odd = library.titles().remove(0).odd.expect("a warning");
    assert!(odd.contains("0.001 s"), "{odd}");
}

#[test]
fn truncated_file_causes_warning_and_has_full_bit_rate() {
    let whole = film(8000);
    let cut = &whole[..250_000];
    let tree = TempTree::new();
    tree.write("whole.mp4", &whole).write("cut.mp4", cut);
    let library = tree.scan();
    let rate = |library: &Library, path: &str| resolve(library, path).stream.bit_rate();
    watch(&resolve(&library, "whole.mp4").stream, &whole);
    watch(&resolve(&library, "cut.mp4").stream, cut);
    let expected = Some(BitRate(whole.len() as u64));
    assert_eq!(rate(&library, "cut.mp4"), expected);
    assert_eq!(rate(&library, "whole.mp4"), expected);
    let is_warned_of = |library: &Library| {
        let titles = library.titles();
        let warnings = library.warnings();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert_eq!(warnings[0].path, "cut.mp4");
        assert!(
            warnings[0]
                .reason
                .contains("its mdat is longer than the file")
        );
        assert_eq!(titles[0].odd.as_ref(), Some(&warnings[0].reason));
        assert_eq!(titles[0].bit_rates_bps, titles[1].bit_rates_bps);
    };
    is_warned_of(&library);
    // The facts are kept across processes.
    let next = tree.scan();
    next.recall_records(
        RecordKind::Facts,
        &library.take_new_records(RecordKind::Facts),
    );
    is_warned_of(&next);
    // Other files do not affect the warning; completing the file removes it.
    tree.write("other.txt", "");
    library.rescan();
    assert_eq!(library.warnings().len(), 1);
    tree.write("cut.mp4", &whole);
    library.rescan();
    watch(&resolve(&library, "cut.mp4").stream, &whole);
    assert_eq!(rate(&library, "cut.mp4"), rate(&library, "whole.mp4"));
    assert!(library.warnings().is_empty());
}

#[test]
fn durations_of_real_files_are_found() {
    let tree = TempTree::new();
    let variants = [
        ("end.mp4", "+disable_chpl"),
        ("start.mp4", "+faststart"),
        ("fragmented.mp4", "+frag_keyframe+empty_moov+global_sidx"),
    ];
    for (name, flags) in variants {
        let mut ffmpeg = Command::new("ffmpeg");
        ffmpeg.args("-v error -f lavfi -i testsrc=size=64x64:rate=10:duration=3".split(' '));
        ffmpeg.args("-f lavfi -i sine=duration=3 -c:v mpeg4 -c:a aac".split(' '));
        let status = ffmpeg
            .args(["-movflags", flags])
            .arg(tree.at(name))
            .status();
        let status = status.expect("ffmpeg must be installed for this test");
        assert!(status.success(), "{name}");
    }
    let library = tree.scan();
    assert_eq!(durations(&library), [None, None, None]);
    for (name, _) in variants {
        let entry = resolve(&library, name);
        watch(&entry.stream, &std::fs::read(tree.at(name)).expect("read"));
        let titles = library.titles();
        let title = titles.iter().find(|title| title.path == format!("/{name}"));
        let seconds = title.and_then(|title| title.duration_s);
        let seconds = seconds.unwrap_or_else(|| panic!("{name}: a duration"));
        assert!((2.9..3.2).contains(&seconds), "{name}: {seconds}");
        let rate = entry.stream.spec().bit_rate.expect("a bit rate").0 as f64;
        let expected = entry.size as f64 * 8.0 / seconds;
        assert!(
            (rate / expected - 1.0).abs() < 0.01,
            "{name}: {rate} for {expected}"
        );
    }
}

/// An element of a Matroska file.
fn element(id: &[u8], body: &[u8]) -> Vec<u8> {
    let length = (0x4000 | body.len() as u16).to_be_bytes();
    [id, &length, body].concat()
}

#[test]
fn webm_has_duration_and_bit_rate() {
    let tree = TempTree::new();
    let head = element(&[0x1a, 0x45, 0xdf, 0xa3], &element(&[0x42, 0x82], b"webm"));
    let duration = element(&[0x44, 0x89], &8000_f64.to_be_bytes());
    let info = element(&[0x15, 0x49, 0xa9, 0x66], &duration);
    let segment = [&[0x18, 0x53, 0x80, 0x67, 0x10, 0x0f, 0x42, 0x40][..], &info].concat();
    let mut bytes = [head, segment].concat();
    bytes.resize(1_000_000, 0xec);
    tree.write("film.webm", &bytes);
    let library = tree.scan();
    let stream = resolve(&library, "film.webm").stream.clone();
    assert_eq!((stream.bit_rate(), stream.wants(0)), (None, Some(0)));
    let rate = BitRate(1_000_000);
    assert_eq!(stream.learn(0, 0, &bytes[..4096]), Some(rate));
    assert_eq!((stream.bit_rate(), stream.wants(0)), (Some(rate), None));
    assert_eq!(durations(&library), [Some(8.0)]);
    assert!(library.warnings().is_empty());
    assert!(
        !library.take_new_records(RecordKind::Facts).is_empty(),
        "facts are not stored"
    );
}

#[test]
fn file_without_duration_is_named_in_the_list() {
    let tree = TempTree::new();
    let bytes = film(0);
    tree.write("recording.mp4", &bytes);
    let library = tree.scan();
    watch(&resolve(&library, "recording.mp4").stream, &bytes);
    assert_eq!(durations(&library), [None]);
    let odd = library.titles()[0].odd.clone().expect("a reason");
    assert!(odd.contains("no duration"), "{odd}");
    assert_eq!(library.warnings().len(), 1);
}

#[test]
fn estimated_duration_is_named_across_processes() {
    let tree = TempTree::new();
    let moov = |kind: &str, body: &[u8]| boxed(kind, &[body]);
    let tkhd = boxed("tkhd", &[&[0; 12], &1_u32.to_be_bytes(), &[0; 68]]);
    let mdhd = boxed("mdhd", &[&[0; 12], &1000_u32.to_be_bytes(), &[0; 8]]);
    let trak = boxed("trak", &[&tkhd, &moov("mdia", &mdhd)]);
    let mvhd = boxed("mvhd", &[&[0; 12], &1000_u32.to_be_bytes(), &[0; 84]]);
    let mut bytes = boxed("ftyp", &[b"isom\0\0\x02\0isom"]);
    bytes.extend(boxed("moov", &[&mvhd, &trak, &boxed("mvex", &[])]));
    for start in [0_u32, 2000, 4000, 6000] {
        let tfhd = boxed("tfhd", &[&[0; 4], &1_u32.to_be_bytes()]);
        let tfdt = boxed("tfdt", &[&[0; 4], &start.to_be_bytes()]);
        bytes.extend(moov("moof", &boxed("traf", &[&tfhd, &tfdt])));
        bytes.extend(moov("mdat", &[0; 250_000]));
    }
    tree.write("recording.mp4", &bytes);
    let library = tree.scan();
    watch(&resolve(&library, "recording.mp4").stream, &bytes);
    let of_second = tree.scan();
    of_second.recall_records(RecordKind::Facts, &library.all_records(RecordKind::Facts));
    for library in [library, of_second] {
        assert_eq!(durations(&library), [Some(8.0)]);
        let odd = library.titles()[0].odd.clone().expect("a reason");
        assert!(odd.contains("estimated"), "{odd}");
    }
}
