//! Titles of several files in different bit rates, and subtitles.

use headlong_package::{
    Links, Pathway, PlayerSteering, Presentation, Subtitles, TitleFile, TitleOutline, Version,
};
use headlong_units::Duration;

use crate::film::{Film, audio, film, title, video};
use crate::playback::rendition;

/// The film with a sync sample every `gop` frames, of at most so many bytes each.
fn encoded(gop: u32, frame_bytes: usize) -> Film {
    let mut film = film();
    film.tracks[0] = video(250, gop);
    for sample in &mut film.tracks[0].samples {
        sample.bytes.truncate(frame_bytes);
    }
    film
}

fn index(film: &Film) -> TitleOutline {
    title(&film.bytes(), 4).expect("a title").outline()
}

fn present<'a>(
    files: &[(&'a str, &'a TitleOutline)],
    subtitles: &'a [Subtitles],
) -> Presentation<'a> {
    let file = |&(suffix, outline): &(&'a str, &'a TitleOutline)| TitleFile {
        suffix,
        outline,
        version: Version(0xbee),
    };
    Presentation::new(files.iter().map(file).collect(), subtitles)
}

fn count(text: &str, part: &str) -> usize {
    text.matches(part).count()
}

#[test]
fn files_of_a_title_are_variants_by_bit_rate() {
    let (small, large) = (index(&encoded(50, 300)), index(&encoded(50, 900)));
    let set = present(&[("_720p", &large), ("_480", &small)], &[]);
    assert_eq!(set.length(), Duration::from_secs(10));
    let master = set.hls_master(&Links::new("t=1"));
    let lines: Vec<&str> = master.lines().skip(3).collect();
    let [first, of_first, second, of_second] = lines[..] else {
        panic!("{master}");
    };
    assert_eq!(
        (of_first, of_second),
        ("_480/v1a1.m3u8?t=1", "_720p/v1a1.m3u8?t=1")
    );
    let rate = |line: &str| {
        let rate = line.split("BANDWIDTH=").nth(1).expect("a rate");
        let rate = rate.split(',').next().expect("a number");
        rate.parse::<u64>().expect("a number")
    };
    assert!(rate(first) * 2 < rate(second), "{master}");
    assert!(
        first.contains("RESOLUTION=640x360") && first.contains("mp4a.40.2"),
        "{first}"
    );
    let manifest = set.dash_manifest(&Links::new("t=1&u"));
    assert_eq!(count(&manifest, "<AdaptationSet "), 2);
    assert_eq!(count(&manifest, "<Representation id=\"v1_"), 2);
    // Both files have the same audio.
    assert_eq!(count(&manifest, "<Representation id=\"a1_480\""), 1);
    assert_eq!(count(&manifest, "<Representation id=\"a1_"), 1);
    for part in [
        "media=\"_480/v1-0000000000000bee-$Number$.m4s?t=1&amp;u\"",
        "initialization=\"_720p/v1-0000000000000bee-init.mp4?t=1&amp;u\"",
    ] {
        assert_eq!(count(&manifest, part), 1, "{part} in {manifest}");
    }
}

#[test]
fn audio_of_other_bit_rate_is_another_representation() {
    let small = index(&encoded(50, 300));
    let mut film = encoded(50, 900);
    for sample in &mut film.tracks[1].samples {
        let more = sample.bytes.repeat(3);
        sample.bytes.extend(more);
    }
    let large = index(&film);
    let set = present(&[("_480", &small), ("_720", &large)], &[]);
    let manifest = set.dash_manifest(&Links::default());
    assert_eq!(count(&manifest, "<AdaptationSet "), 2);
    assert_eq!(count(&manifest, "<Representation id=\"a1_"), 2);
}

#[test]
fn file_with_other_key_frames_is_left_out_and_named() {
    let mut fine = encoded(50, 500);
    // The same times at another scale.
    let track = &mut fine.tracks[0];
    track.timescale = 90_000;
    track.edits = vec![(10_000, 40 * 90)];
    for sample in &mut track.samples {
        sample.duration *= 90;
        sample.composition *= 90;
    }
    let (low, middle) = (index(&encoded(50, 300)), index(&fine));
    let high = index(&encoded(75, 900));
    let files = [("_240", &low), ("_480", &middle), ("_720", &high)];
    let set = present(&files, &[]);
    assert_eq!(set.left_out(), ["_720"]);
    for text in [
        set.hls_master(&Links::default()),
        set.dash_manifest(&Links::default()),
    ] {
        assert_eq!(count(&text, " _720 is left out"), 1, "{text}");
        assert_eq!(count(&text, "_720/") + count(&text, "1_720"), 0, "{text}");
        assert!(text.contains("_240/") && text.contains("_480/"), "{text}");
    }
    // A part of the film has fewer segments.
    let mut part = encoded(50, 900);
    part.tracks[0].samples.truncate(150);
    part.chunks.retain(|(track, _)| *track == 1);
    part.chunks.push((0, 150));
    let part = index(&part);
    let set = present(&[("_240", &low), ("_480", &middle), ("_720", &part)], &[]);
    assert_eq!(set.left_out(), ["_720"]);
}

#[test]
fn several_audio_tracks_are_a_group_of_each_file() {
    let with_two = |frame_bytes| {
        let mut film = encoded(50, frame_bytes);
        film.tracks.push(audio(313, "deu"));
        film.chunks.push((2, 313));
        index(&film)
    };
    let (small, large) = (with_two(300), with_two(900));
    let set = present(&[("_480", &small), ("_720", &large)], &[]);
    let master = set.hls_master(&Links::default());
    assert_eq!(count(&master, "GROUP-ID=\"mp4a.40.2_480\""), 2);
    for part in [
        "GROUP-ID=\"mp4a.40.2_720\",NAME=\"deu 2\",DEFAULT=NO,AUTOSELECT=YES,LANGUAGE=\"deu\",\
         CHANNELS=\"2\",URI=\"_720/a2.m3u8\"\n",
        ",AUDIO=\"mp4a.40.2_480\"\n_480/v1.m3u8\n",
        ",AUDIO=\"mp4a.40.2_720\"\n_720/v1.m3u8\n",
    ] {
        assert_eq!(count(&master, part), 1, "{part} in {master}");
    }
    let manifest = set.dash_manifest(&Links::default());
    assert_eq!(count(&manifest, "contentType=\"audio\""), 2);
}

#[test]
fn subtitles_are_listed_and_have_one_segment() {
    let film = index(&film());
    let found = ["en.vtt", "srt"].map(|suffix| Subtitles::of_file(suffix).expect(suffix));
    let subtitles = Subtitles::listed(found.to_vec());
    let set = present(&[("", &film)], &subtitles);
    let master = set.hls_master(&Links::new("t=1&u=2"));
    for part in [
        "#EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID=\"subs\",NAME=\"subtitles\",DEFAULT=NO,\
         AUTOSELECT=YES,FORCED=NO,URI=\"text.srt.m3u8?t=1&u=2\"\n",
        "NAME=\"en\",DEFAULT=NO,AUTOSELECT=YES,FORCED=NO,LANGUAGE=\"en\",",
        ",SUBTITLES=\"subs\"\nv1a1.m3u8?t=1&u=2\n",
    ] {
        assert_eq!(count(&master, part), 1, "{part} in {master}");
    }
    let manifest = set.dash_manifest(&Links::new("t=1&u=$"));
    let text = "<AdaptationSet id=\"3\" contentType=\"text\" mimeType=\"text/vtt\" lang=\"en\">\n\
                <Role schemeIdUri=\"urn:mpeg:dash:role:2011\" value=\"subtitle\"/>\n\
                <Representation id=\"text.en.vtt\" bandwidth=\"256\">\n\
                <BaseURL>text.en.vtt.vtt?t=1&amp;u=$</BaseURL>\n";
    assert_eq!(count(&manifest, text), 1, "{manifest}");
    let playlist = subtitles[1].hls_media(set.length(), &Links::new("t=1"));
    assert_eq!(
        playlist,
        "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:10\n#EXT-X-PLAYLIST-TYPE:VOD\n\
         #EXTINF:10.000,\ntext.en.vtt.vtt?t=1\n#EXT-X-ENDLIST\n"
    );
}

#[test]
fn steered_players_find_the_title_at_each_server() {
    let mut film = encoded(50, 300);
    film.tracks.push(audio(313, "deu"));
    film.chunks.push((2, 313));
    let film = index(&film);
    let subtitles = [Subtitles::of_file("en.vtt").expect("a name")];
    let set = present(&[("", &film)], &subtitles);
    let pathway = |name, url| Pathway::new(name, url, "/t/\"A\"/film%20&.mp4/");
    let (near, far) = (
        pathway("near", "https://n.example"),
        pathway("far", "http://f.example:8080"),
    );
    let steering = PlayerSteering::new(vec![far, near.clone()], near);
    let links = Links::new("t=1&u").steered(steering);
    let master = set.hls_master(&links);
    let folder = |host: &str| format!("{host}/t/%22A%22/film%20&.mp4/");
    let (near, far) = (folder("https://n.example"), folder("http://f.example:8080"));
    for part in [
        format!(
            "#EXT-X-CONTENT-STEERING:SERVER-URI=\"{near}steering.json?t=1&u\",\
             PATHWAY-ID=\"far\"\n"
        ),
        format!(
            "GROUP-ID=\"mp4a.40.2@near\",NAME=\"deu 2\",DEFAULT=NO,AUTOSELECT=YES,\
             LANGUAGE=\"deu\",CHANNELS=\"2\",URI=\"{near}a2.m3u8?t=1&u\"\n"
        ),
        format!("LANGUAGE=\"en\",URI=\"{far}text.en.vtt.m3u8?t=1&u\"\n"),
        format!(
            ",AUDIO=\"mp4a.40.2@near\",SUBTITLES=\"subs@near\",PATHWAY-ID=\"near\"\n\
             {near}v1.m3u8?t=1&u\n"
        ),
        format!(
            ",AUDIO=\"mp4a.40.2@far\",SUBTITLES=\"subs@far\",PATHWAY-ID=\"far\"\n\
             {far}v1.m3u8?t=1&u\n"
        ),
    ] {
        assert_eq!(count(&master, &part), 1, "{part} in {master}");
    }
    assert!(
        master.find(&format!("{far}v1")) < master.find(&format!("{near}v1")),
        "{master}"
    );
    let manifest = set.dash_manifest(&links);
    let (near, far) = (near.replace('&', "&amp;"), far.replace('&', "&amp;"));
    let elements = format!(
        "<BaseURL serviceLocation=\"far\">{far}</BaseURL>\n\
         <BaseURL serviceLocation=\"near\">{near}</BaseURL>\n\
         <ContentSteering defaultServiceLocation=\"far\">{near}steering.json?t=1&amp;u\
         </ContentSteering>\n<Period "
    );
    assert_eq!(count(&manifest, &elements), 1, "{manifest}");
    assert_eq!(count(&manifest, "initialization=\"v1-"), 1, "{manifest}");
}

#[test]
fn segment_end_is_that_of_its_last_range() {
    let title = title(&film().bytes(), 4).expect("a title");
    for name in ["v1", "a1", "v1a1"] {
        for number in 0..title.segments() {
            let body = title.segment(rendition(name), number).expect("a segment");
            let last = body.and_then(|body| body.parts.last().map(|part| part.range.end));
            let end = title.segment_end(rendition(name), number);
            assert_eq!(Some(end), last, "{number} of {name}");
        }
    }
    assert_eq!(title.segment_end(rendition("v1"), 99), 0);
}
