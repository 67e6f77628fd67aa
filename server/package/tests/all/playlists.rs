//! Playlists and manifests.

use headlong_package::{Links, PackageFault, Presentation, TitleFile, TitleOutline, Version};

use crate::film::{Film, audio, film, read_title, title};
use crate::playback::rendition;

const VERSION: Version = Version(0xfeed);

/// The presentation of the one file of a title.
pub(crate) fn alone(outline: &TitleOutline) -> Presentation<'_> {
    let file = TitleFile {
        suffix: "",
        outline,
        version: VERSION,
    };
    Presentation::new(vec![file], &[])
}

#[test]
fn one_audio_track_is_muxed() {
    let title = title(&film().bytes(), 4).expect("a title");
    let master = alone(&title.outline()).hls_master(&Links::new("token=x&y"));
    let (start, end) = master.split_once("BANDWIDTH=").expect("a variant");
    assert_eq!(
        start,
        "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-INDEPENDENT-SEGMENTS\n#EXT-X-STREAM-INF:"
    );
    let (_, end) = end.split_once(",CODECS").expect("codecs");
    assert_eq!(
        end,
        "=\"avc1.64001f,mp4a.40.2\",RESOLUTION=640x360,FRAME-RATE=25.000\nv1a1.m3u8?token=x&y\n"
    );
    let media = title.hls_media(rendition("v1a1"), VERSION, &Links::new("token=x"));
    assert_eq!(
        media.expect("short").as_deref(),
        Some(
            "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:4\n#EXT-X-PLAYLIST-TYPE:VOD\n\
             #EXT-X-INDEPENDENT-SEGMENTS\n\
             #EXT-X-MAP:URI=\"v1a1-000000000000feed-init.mp4?token=x\"\n\
             #EXTINF:4.000000,\nv1a1-000000000000feed-1.m4s?token=x\n\
             #EXTINF:4.000000,\nv1a1-000000000000feed-2.m4s?token=x\n\
             #EXTINF:2.000000,\nv1a1-000000000000feed-3.m4s?token=x\n\
             #EXT-X-ENDLIST\n"
        )
    );
}

#[test]
fn open_groups_of_pictures_are_not_called_independent() {
    let mut film = film();
    let of_closed = title(&film.bytes(), 4).expect("a title");
    // Its followers are presented earlier.
    film.tracks[0].samples[50].composition = 160;
    let of_open = title(&film.bytes(), 4).expect("a title");
    for (title, is_independent) in [(of_closed, true), (of_open, false)] {
        let (outline, links) = (title.outline(), Links::default());
        let media = title.hls_media(rendition("v1a1"), VERSION, &links);
        for playlist in [
            alone(&outline).hls_master(&links),
            media.expect("short").expect("one"),
        ] {
            assert_eq!(
                playlist.contains("INDEPENDENT-SEGMENTS"),
                is_independent,
                "{playlist}"
            );
        }
        let manifest = alone(&outline).dash_manifest(&links);
        let access_point = if is_independent { 1 } else { 3 };
        let [video, audio] = ["video", "audio"].map(|kind| {
            let (_, rest) = manifest
                .split_once(&format!("contentType=\"{kind}\""))
                .expect(kind);
            rest.split('>').next().expect("a tag")
        });
        assert!(
            video.contains(&format!("startWithSAP=\"{access_point}\"")),
            "{video}"
        );
        assert!(audio.contains("startWithSAP=\"1\""), "{audio}");
    }
}

#[test]
fn several_audio_tracks_are_a_group() {
    let mut film = film();
    film.tracks.push(audio(313, "deu"));
    film.chunks.extend([(2, 313)]);
    let title = title(&film.bytes(), 4).expect("a title");
    let master = alone(&title.outline()).hls_master(&Links::default());
    for part in [
        "#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"mp4a.40.2\",NAME=\"eng 1\",DEFAULT=YES,\
         AUTOSELECT=YES,LANGUAGE=\"eng\",CHANNELS=\"2\",URI=\"a1.m3u8\"\n",
        "NAME=\"deu 2\",DEFAULT=NO,",
        ",AUDIO=\"mp4a.40.2\"\nv1.m3u8\n",
    ] {
        assert!(master.contains(part), "{part} in {master}");
    }
}

#[test]
fn manifest_has_video_and_audio_in_sets_of_their_own() {
    let title = title(&film().bytes(), 4).expect("a title");
    let manifest = alone(&title.outline()).dash_manifest(&Links::new("a=1&b=$"));
    for part in [
        "type=\"static\" mediaPresentationDuration=\"PT10.000S\"",
        "<AdaptationSet id=\"0\" contentType=\"video\"",
        "media=\"v1-000000000000feed-$Number$.m4s?a=1&amp;b=$$\"",
        "<S t=\"0\" d=\"4000\" r=\"1\"/>\n<S t=\"8000\" d=\"2000\"/>\n",
        "codecs=\"avc1.64001f\" width=\"640\" height=\"360\" frameRate=\"25000/1000\">",
        "mimeType=\"audio/mp4\" segmentAlignment=\"true\" startWithSAP=\"1\" lang=\"eng\"",
        "codecs=\"mp4a.40.2\" audioSamplingRate=\"32000\"",
    ] {
        assert!(manifest.contains(part), "{part} in {manifest}");
    }
    // The first sample of the audio is before the title begins.
    assert!(manifest.contains("<S t=\"0\" d=\"128"), "{manifest}");
}

#[test]
fn cuts_are_at_sync_samples_near_the_target() {
    for (gop, seconds, lengths) in [
        (50, 2, vec![2, 2, 2, 2, 2]),
        (50, 3, vec![4, 4, 2]),
        (50, 6, vec![6, 4]),
        (75, 4, vec![3, 3, 4]),
        (75, 2, vec![3, 3, 3, 1]),
        (100, 7, vec![8, 2]),
        (250, 4, vec![10]),
        (25, 60, vec![10]),
    ] {
        let film = Film {
            tracks: vec![crate::film::video(250, gop)],
            chunks: vec![(0, 250)],
            ..film()
        };
        let title = title(&film.bytes(), seconds).expect("a title");
        let media = title.hls_media(rendition("v1"), VERSION, &Links::default());
        let media = media.expect("short").expect("a playlist");
        let found: Vec<u32> = media
            .lines()
            .filter_map(|line| line.strip_prefix("#EXTINF:"))
            .map(|line| {
                line.split('.')
                    .next()
                    .expect("seconds")
                    .parse()
                    .expect("a number")
            })
            .collect();
        assert_eq!(found, lengths, "every {gop} frames, {seconds} s");
    }
}

#[test]
fn playlist_that_a_client_makes_long_is_an_error() {
    let mut frames = crate::film::video(2000, 1);
    for sample in &mut frames.samples {
        sample.duration = 1000;
        sample.bytes.truncate(1);
    }
    let film = Film {
        tracks: vec![frames],
        chunks: vec![(0, 2000)],
        ..film()
    };
    let title = title(&film.bytes(), 1).expect("a title");
    assert_eq!(title.segments(), 2000);
    let media = |bytes: usize| {
        let links = Links::new(&format!("session={}", "x".repeat(bytes)));
        title.hls_media(rendition("v1"), VERSION, &links)
    };
    let long = media(6000).expect("short").expect("a playlist");
    assert!((11 << 20..12 << 20).contains(&long.len()), "{}", long.len());
    assert!(matches!(media(7000), Err(PackageFault::TooMany(_))));
    // Each of these takes three bytes in a link.
    let links = Links::new(&"\"".repeat(2500));
    assert!(title.hls_media(rendition("v1"), VERSION, &links).is_err());
}

#[test]
fn two_hours_take_five_megabytes_and_one_read() {
    // 25 frames and 31 sounds a second, interleaved by half a second.
    let halves = 15_000;
    let mut film = Film {
        tracks: vec![
            crate::film::video(halves * 12, 48),
            audio(halves * 15, "eng"),
        ],
        chunks: Vec::new(),
        moov_first: true,
        long_offsets: true,
    };
    for track in &mut film.tracks {
        for (index, sample) in track.samples.iter_mut().enumerate() {
            sample.bytes.truncate(index % 3);
        }
    }
    film.chunks = (0..halves).flat_map(|_| [(0, 12), (1, 15)]).collect();
    let file = film.bytes();
    let (title, reads) = read_title(&file, 6).expect("a title");
    assert!(reads <= 2, "{reads}");
    let bytes = title.memory_bytes();
    assert!((2_000_000..6_000_000).contains(&bytes), "{bytes}");
}
