//! Files that cannot be packaged give the reason, and never more than that.

use headlong_package::PackageFault;

use crate::film::{Film, audio, boxed, film, title, video};
use crate::playback::rendition;

/// Replaces the only place of some bytes.
fn replace(file: &mut [u8], old: &[u8], new: &[u8]) {
    let mut places = (0..file.len() - old.len()).filter(|at| file[*at..].starts_with(old));
    let at = places.next().expect("the bytes are there");
    file[at..at + new.len()].copy_from_slice(new);
}

pub(crate) fn fault(file: &[u8]) -> PackageFault {
    title(file, 4).expect_err("no title")
}

#[test]
fn truncated_headers_are_an_error() {
    let file = Film {
        moov_first: false,
        ..film()
    };
    let file = file.bytes();
    let moov = boxed("moov", &[]);
    let at = (0..file.len()).rfind(|at| file[*at..].starts_with(&moov[4..]));
    for end in (0..file.len()).step_by(997).chain(at) {
        fault(&file[..end]);
    }
}

#[test]
fn tables_that_lie_are_named() {
    let film = film();
    let lies: [(&str, u32, u32, &str); 5] = [
        // More samples than sizes.
        ("stsz", 8, 1 << 20, "stsz"),
        // More entries than the box has.
        ("stts", 4, u32::MAX, "stts"),
        ("stco", 4, 21, "stco"),
        // A chunk behind the end of the file.
        ("stco", 8, u32::MAX, "stco"),
        // Chunks that do not begin with the first one.
        ("stsc", 8, 2, "stsc"),
    ];
    for (kind, at, number, named) in lies {
        let mut file = film.bytes();
        let place = (0..file.len()).find(|at| file[*at..].starts_with(kind.as_bytes()));
        let at = place.expect("the table") + 4 + at as usize;
        file[at..at + 4].copy_from_slice(&number.to_be_bytes());
        let fault = fault(&file);
        assert!(fault.to_string().contains(named), "{kind}: {fault}");
    }
}

#[test]
fn more_samples_than_chunks_are_an_error() {
    let mut film = film();
    film.chunks.pop();
    assert_eq!(fault(&film.bytes()), PackageFault::Table(*b"stsc"));
}

#[test]
fn long_gap_between_key_frames_is_an_error() {
    let film = Film {
        tracks: vec![video(25 * 100, 25 * 99)],
        chunks: vec![(0, 2500)],
        ..film()
    };
    assert_eq!(fault(&film.bytes()), PackageFault::Gap(0));
}

#[test]
fn more_ranges_than_a_reply_may_have_are_an_error() {
    // Each sound of a byte lies between two frames of 900.
    let mut sound = audio(2500, "eng");
    for sample in &mut sound.samples {
        sample.duration = 400;
        sample.bytes.truncate(1);
    }
    let mut frames = video(2500, 2500);
    for sample in &mut frames.samples {
        sample.duration = 12;
        sample.bytes.truncate(900);
    }
    let film = Film {
        tracks: vec![frames, sound],
        chunks: (0..2500).flat_map(|_| [(0, 1), (1, 1)]).collect(),
        ..film()
    };
    let title = title(&film.bytes(), 40).expect("a title");
    let fault = title.segment(rendition("a1"), 0).expect_err("no segment");
    assert_eq!(fault, PackageFault::Scattered);
    assert!(title.segment(rendition("v1a1"), 0).is_ok());
}

#[test]
fn encrypted_and_unknown_codecs_are_named() {
    let mut file = film().bytes();
    replace(&mut file, b"avc1", b"encv");
    assert_eq!(fault(&file), PackageFault::Encrypted);
    let mut file = film().bytes();
    replace(&mut file, b"avc1", b"abcd");
    let audio = title(&file, 4).expect("audio is left");
    assert!(audio.init(rendition("a1")).expect("no error").is_some());
    assert!(audio.init(rendition("v1a1")).expect("no error").is_none());
    replace(&mut file, b"mp4a", b"abcd");
    assert_eq!(fault(&file), PackageFault::NoTrack);
}

#[test]
fn file_without_samples_or_fragments_has_no_track() {
    let film = Film {
        tracks: vec![video(0, 1)],
        chunks: Vec::new(),
        ..film()
    };
    let file = film.bytes();
    assert_eq!(fault(&file), PackageFault::NoTrack);
    let file = with_moov_end(file, &boxed("mvex", &[]));
    assert_eq!(fault(&file), PackageFault::NoTrack);
}

/// A file whose `moov` has further bytes at its end.
pub(crate) fn with_moov_end(mut file: Vec<u8>, end: &[u8]) -> Vec<u8> {
    let moov = file.windows(4).position(|window| window == b"moov");
    let moov = moov.expect("there is one") - 4;
    let length = u32::from_be_bytes(file[moov..moov + 4].try_into().expect("four bytes"));
    let place = moov + length as usize;
    file.splice(place..place, end.iter().copied());
    file[moov..moov + 4].copy_from_slice(&(length + end.len() as u32).to_be_bytes());
    file
}

#[test]
fn more_tracks_than_are_read_are_an_error() {
    let file = film().bytes();
    let trak = file.windows(4).position(|window| window == b"trak");
    let trak = trak.expect("a track") - 4;
    let length = u32::from_be_bytes(file[trak..trak + 4].try_into().expect("four bytes"));
    let trak = file[trak..trak + length as usize].repeat(1000);
    let file = with_moov_end(file, &trak);
    assert_eq!(fault(&file), PackageFault::TooMany("tracks"));
}

#[test]
fn media_that_begins_later_than_any_film_lasts_is_an_error() {
    for track in [0, 1] {
        let mut film = film();
        film.tracks[track].samples[0].composition = -2;
        film.tracks[track].edits = vec![(1000, i64::MAX)];
        if track == 1 {
            // The sound alone, which nothing is compared with.
            film.tracks[0].samples.clear();
            film.chunks.retain(|(of, _)| *of == 1);
        }
        assert_eq!(fault(&film.bytes()), PackageFault::Edits);
    }
}

#[test]
fn other_speeds_and_repeats_are_errors() {
    for edits in [vec![(1000, 0), (1000, 2000)], vec![(1000, -2)]] {
        let mut film = film();
        film.tracks[0].edits = edits;
        assert_eq!(fault(&film.bytes()), PackageFault::Edits);
    }
}
