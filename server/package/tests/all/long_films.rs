//! A thousand hours of films whose tables were damaged: each gives an error, or a title of bounded
//! memory whose segments lie inside the file.

use std::sync::OnceLock;

use headlong_package::{Links, Version};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::film::{Film, FilmSample, FilmTrack, audio, segment, title, video};
use crate::playback::rendition;
use crate::playlists::alone;

const HOURS: u32 = 1_000;
const HOURS_OF_FILM: u32 = 2;
const SECONDS: u32 = HOURS_OF_FILM * 3600;
/// Memory of a title.
const MEMORY_BYTES_MAX: usize = 64 << 20;
const TABLES: [&[u8; 4]; 6] = [b"stts", b"ctts", b"stss", b"stsz", b"stsc", b"stco"];

/// A film of two hours, and where the numbers of each kind of table lie in it. Its samples have a few
/// bytes each.
fn long_film() -> &'static (Vec<u8>, Vec<Vec<usize>>) {
    static FILM: OnceLock<(Vec<u8>, Vec<Vec<usize>>)> = OnceLock::new();
    FILM.get_or_init(|| {
        let short = |track: FilmTrack| FilmTrack {
            samples: (track.samples.into_iter())
                .map(|sample| FilmSample {
                    bytes: sample.bytes[..sample.bytes.len() % 7 + 1].to_vec(),
                    ..sample
                })
                .collect(),
            ..track
        };
        // Chunks of a second: 25 pictures, and 31 or 32 samples of sound, of which 125 take 4 s.
        let of_second = |second: u32| [(0, 25), (1, 31 + usize::from(second.is_multiple_of(4)))];
        let film = Film {
            tracks: vec![
                short(video(SECONDS * 25, 50)),
                short(audio(SECONDS / 4 * 125, "eng")),
            ],
            chunks: (0..SECONDS).flat_map(of_second).collect(),
            moov_first: true,
            long_offsets: false,
        };
        let bytes = film.bytes();
        let media = bytes.windows(4).position(|window| window == b"mdat");
        let headers = &bytes[..media.expect("media")];
        let numbers = |kind: &&[u8; 4]| {
            let is_table = |at: &usize| headers[*at..].starts_with(*kind);
            let tables = (4..headers.len() - 4).filter(is_table);
            let words = tables.flat_map(|at| {
                let length = headers[at - 4..at].try_into().expect("four bytes");
                let end = at - 4 + u32::from_be_bytes(length) as usize;
                (at + 4..end).step_by(4)
            });
            words.collect()
        };
        let places = TABLES.iter().map(numbers).collect();
        (bytes, places)
    })
}

/// What becomes of a number.
fn damaged() -> impl Strategy<Value = fn(u32) -> u32> {
    let damages: [fn(u32) -> u32; 7] = [
        |_| 0,
        |_| u32::MAX,
        |number| number.wrapping_add(1),
        |number| number.wrapping_sub(1),
        |number| number.wrapping_mul(1000),
        |number| number ^ (1 << 31),
        |number| !number,
    ];
    prop::sample::select(damages.to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig {
        max_shrink_iters: 50,
        ..ProptestConfig::with_cases(HOURS / HOURS_OF_FILM)
    })]

    #[test]
    fn damaged_tables_of_thousand_hours_give_errors_or_segments_inside_the_file(
        damage in prop::collection::vec((0..TABLES.len(), any::<Index>(), damaged()), 1..20),
        looked_at in prop::collection::vec(any::<Index>(), 8),
        seconds in 1_u64..10,
    ) {
        let (whole, places) = long_film();
        let mut file = whole.clone();
        for (table, index, damaged) in damage {
            let at = *index.get(&places[table]);
            let number = u32::from_be_bytes(file[at..at + 4].try_into().expect("four bytes"));
            file[at..at + 4].copy_from_slice(&damaged(number).to_be_bytes());
        }
        let Ok(title) = title(&file, seconds) else {
            return Ok(());
        };
        prop_assert!(title.memory_bytes() <= MEMORY_BYTES_MAX, "{}", title.memory_bytes());
        alone(&title.outline()).dash_manifest(&Links::default());
        for name in ["v1", "a1", "v1a1"] {
            let _ = title.hls_media(rendition(name), Version(1), &Links::default());
            for number in &looked_at {
                let number = number.index(title.segments().max(1));
                let Ok(Some(body)) = segment(&file, &title, rendition(name), number) else {
                    continue;
                };
                let ends = || body.parts.iter().map(|part| part.range.end);
                prop_assert!(ends().all(|end| end <= file.len() as u64));
                prop_assert!(body.parts.iter().all(|part| !part.range.is_empty()));
            }
        }
    }
}

#[test]
fn long_film_has_all_its_segments() {
    let (file, places) = long_film();
    assert!(places.iter().all(|numbers| numbers.len() > 2));
    let title = title(file, 4).expect("right");
    assert_eq!(title.segments(), SECONDS as usize / 4);
    assert!(title.memory_bytes() < MEMORY_BYTES_MAX);
}
