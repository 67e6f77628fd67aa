//! Properties of any file.

use headlong_package::{Links, Version};
use proptest::prelude::*;

use crate::film::{Film, FilmSample, FilmTrack, film, segment, title};
use crate::fragments::with_own_index;
use crate::playback::{check, rendition};
use crate::playlists::alone;

fn track(is_video: bool) -> impl Strategy<Value = FilmTrack> {
    let sample = (
        1_u32..900,
        0_i32..400,
        prop::bool::weighted(0.3),
        0_usize..60,
    );
    let sample = sample.prop_map(move |(duration, composition, is_sync, bytes)| FilmSample {
        duration,
        composition: if is_video { composition } else { 0 },
        is_sync: is_sync || !is_video,
        bytes: (0..bytes)
            .map(|at| (at * 31 + duration as usize) as u8)
            .collect(),
    });
    let samples = prop::collection::vec(sample, 1..60);
    (samples, 100_u32..2000).prop_map(move |(mut samples, timescale)| {
        samples[0].is_sync = true;
        FilmTrack {
            is_video,
            timescale,
            language: "eng",
            // Where the first sample is presented, as programs write it.
            edits: vec![(0, samples[0].composition.into())],
            samples,
        }
    })
}

fn any_film() -> impl Strategy<Value = Film> {
    let order = prop::collection::vec((any::<bool>(), 1_usize..9), 0..60);
    let flags = (any::<bool>(), any::<bool>());
    (track(true), track(false), order, flags).prop_map(
        |(video, audio, order, (moov_first, long_offsets))| {
            let mut left = [video.samples.len(), audio.samples.len()];
            let mut chunks = Vec::new();
            let rest = [(false, 60), (true, 60)];
            for (is_audio, count) in order.into_iter().chain(rest) {
                let track = usize::from(is_audio);
                let count = count.min(left[track]);
                if count > 0 {
                    left[track] -= count;
                    chunks.push((track, count));
                }
            }
            Film {
                tracks: vec![video, audio],
                chunks,
                moov_first,
                long_offsets,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_sample_is_played_once_with_its_times(film in any_film(), seconds in 1_u64..8) {
        let is_long = |track: &FilmTrack| {
            let ticks: u32 = track.samples.iter().map(|sample| sample.duration).sum();
            ticks > 59 * track.timescale
        };
        prop_assume!(!film.tracks.iter().any(is_long));
        check(&film, seconds);
    }

    #[test]
    fn damaged_file_gives_error_or_segments_inside_the_file(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in prop::option::weighted(0.1, any::<prop::sample::Index>()),
        kind in 0_usize..3,
    ) {
        let [front, end] = with_own_index();
        let mut file = [film().bytes(), front, end][kind].clone();
        // The headers of a file in one piece come first.
        let mdat = file.windows(4).position(|window| window == b"mdat").expect("media");
        let headers = if kind == 0 { mdat } else { file.len() };
        for (at, byte) in damage {
            file[at.index(headers)] = byte;
        }
        if let Some(cut) = cut {
            file.truncate(cut.index(file.len()));
        }
        let Ok(title) = title(&file, 4) else {
            return Ok(());
        };
        alone(&title.outline()).hls_master(&Links::default());
        alone(&title.outline()).dash_manifest(&Links::default());
        for name in ["v1", "a1", "v1a1"] {
            let _ = title.hls_media(rendition(name), Version(1), &Links::default());
            let _ = title.init(rendition(name));
            for number in 0..title.segments() {
                let Ok(Some(body)) = segment(&file, &title, rendition(name), number) else {
                    continue;
                };
                let inside = |end: u64| end <= file.len() as u64;
                prop_assert!(body.parts.iter().all(|part| inside(part.range.end)));
                prop_assert!(body.parts.iter().all(|part| !part.range.is_empty()));
            }
        }
    }
}
