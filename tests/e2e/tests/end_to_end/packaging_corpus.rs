//! Files as programs write them, fetched back by HLS and DASH: every packet has the bytes and times
//! that it has in the file, and decoders get the same settings.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use headlong_e2e_tests::have_or_skip;
use headlong_testkit::client::fetch;
use headlong_testkit::server::ServerBuilder;
use headlong_testkit::{Scratch, Server};

/// Threads that run ffmpeg.
const THREADS: usize = 2;

/// How times are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Times {
    /// As in the file.
    Equal,
    /// As in the file without its edit list, from the first packet of each track: packets that it leaves
    /// out are presented.
    FromFirst,
}

/// A file and the arguments of ffmpeg that make it; `VIDEO` and `SOUND` are generated inputs, `X264`
/// is an encoder with a key frame every two seconds, and `@name` is an earlier file.
struct CorpusFile(&'static str, &'static str, Times);

use Times::{Equal, FromFirst};

const X264: &str = "-c:v libx264 -preset ultrafast -pix_fmt yuv420p -g 50";
const VIDEO: &str = "-f lavfi -i testsrc2=s=128x72:r=25:d=4";
const SOUND: &str = "-f lavfi -i sine=f=330:r=48000:d=4";

/// Files that are encoded, four seconds long unless told otherwise.
const ENCODED: &[CorpusFile] = &[
    CorpusFile("index-last.mp4", "VIDEO SOUND X264 -bf 2 -c:a aac", Equal),
    CorpusFile("no-b-frames.mp4", "VIDEO SOUND X264 -bf 0 -c:a aac", Equal),
    CorpusFile(
        "open-gop.mp4",
        "VIDEO SOUND X264 -bf 3 -x264-params open-gop=1:b-pyramid=normal -c:a aac",
        Equal,
    ),
    CorpusFile("intra.mp4", "VIDEO SOUND X264 -g 1 -c:a aac", Equal),
    CorpusFile(
        "one-key-frame.mp4",
        "VIDEO SOUND X264 -g 9999 -keyint_min 9999 -sc_threshold 0 -c:a aac",
        Equal,
    ),
    CorpusFile(
        "30000-1001.mp4",
        "-f lavfi -i testsrc2=s=128x72:r=30000/1001:d=4 SOUND X264 -bf 2 -c:a aac",
        Equal,
    ),
    CorpusFile(
        "24000-1001.mp4",
        "-f lavfi -i testsrc2=s=128x72:r=24000/1001:d=4 SOUND X264 -bf 2 -c:a aac \
         -video_track_timescale 90000",
        Equal,
    ),
    CorpusFile(
        "variable-rate.mp4",
        "VIDEO SOUND -vf select='gt(mod(n\\,5)\\,1)' -vsync vfr X264 -bf 2 -c:a aac",
        Equal,
    ),
    CorpusFile(
        "hole.mp4",
        "VIDEO SOUND -vf select='lt(n\\,30)+gt(n\\,80)' -vsync vfr X264 -bf 2 -c:a aac",
        Equal,
    ),
    CorpusFile(
        "slides.mp4",
        "-f lavfi -i testsrc2=s=128x72:r=1:d=6 SOUND X264 -g 2 -c:a aac",
        Equal,
    ),
    CorpusFile("one-frame.mp4", "VIDEO X264 -frames:v 1", Equal),
    CorpusFile("short.mp4", "VIDEO SOUND X264 -t 0.2 -c:a aac", Equal),
    CorpusFile("no-sound.mp4", "VIDEO X264 -bf 2", Equal),
    CorpusFile(
        "hvc1.mp4",
        "VIDEO SOUND -c:v libx265 -preset ultrafast -x265-params log-level=none:keyint=50 -tag:v hvc1 \
         -c:a aac",
        Equal,
    ),
    CorpusFile(
        "hev1-10-bit.mp4",
        "VIDEO SOUND -c:v libx265 -preset fast -x265-params log-level=none:keyint=50 \
         -pix_fmt yuv420p10le -c:a aac",
        Equal,
    ),
    CorpusFile(
        "av1-opus.mp4",
        "VIDEO SOUND -c:v libsvtav1 -preset 12 -g 50 -c:a libopus",
        Equal,
    ),
    CorpusFile(
        "vp9-opus.mp4",
        "VIDEO SOUND -c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 50 -c:a libopus",
        Equal,
    ),
    CorpusFile(
        "vp9-hidden-frames.mp4",
        "VIDEO SOUND -c:v libvpx-vp9 -deadline good -cpu-used 5 -auto-alt-ref 1 -lag-in-frames 16 \
         -g 50 -c:a aac",
        Equal,
    ),
    CorpusFile("ac-3.mp4", "VIDEO SOUND X264 -c:a ac3", Equal),
    CorpusFile("e-ac-3.mp4", "VIDEO SOUND X264 -c:a eac3", Equal),
    CorpusFile("flac.mp4", "VIDEO SOUND X264 -strict -2 -c:a flac", Equal),
    CorpusFile("mp3.mp4", "VIDEO SOUND X264 -c:a libmp3lame", Equal),
    CorpusFile("opus-alone.mp4", "SOUND -c:a libopus", Equal),
    CorpusFile("surround.mp4", "VIDEO SOUND X264 -ac 6 -c:a aac", Equal),
    CorpusFile(
        "mono-22050.mp4",
        "VIDEO SOUND X264 -ac 1 -ar 22050 -c:a aac",
        Equal,
    ),
    CorpusFile(
        "short-sound.mp4",
        "VIDEO -f lavfi -i sine=r=48000:d=2 X264 -bf 2 -c:a aac",
        Equal,
    ),
    CorpusFile(
        "short-video.mp4",
        "-f lavfi -i testsrc2=s=128x72:r=25:d=2 SOUND X264 -bf 2 -c:a aac",
        Equal,
    ),
];

/// Files that are copied from those.
const COPIED: &[CorpusFile] = &[
    CorpusFile(
        "index-first.mp4",
        "-i @index-last.mp4 -movflags +faststart",
        Equal,
    ),
    CorpusFile(
        "odd-scale.mp4",
        "-i @index-last.mp4 -video_track_timescale 12345",
        Equal,
    ),
    CorpusFile(
        "coarse-scale.mp4",
        "-i @30000-1001.mp4 -video_track_timescale 1000",
        Equal,
    ),
    CorpusFile("sound.m4a", "-i @index-last.mp4 -map 0:a", Equal),
    CorpusFile(
        "rotated.mp4",
        "-i @index-last.mp4 -metadata:s:v rotate=90",
        Equal,
    ),
    CorpusFile(
        "languages.mp4",
        "-i @index-last.mp4 -map 0:v -map 0:a -map 0:a -metadata:s:a:0 language=eng \
         -metadata:s:a:1 language=deu",
        Equal,
    ),
    CorpusFile(
        "sound-in-three-codecs.mp4",
        "-i @index-last.mp4 -i @ac-3.mp4 -i @opus-alone.mp4 -map 0 -map 1:a -map 2:a",
        Equal,
    ),
    CorpusFile(
        "delayed-sound.mp4",
        "-i @index-last.mp4 -itsoffset 1.5 -i @index-last.mp4 -map 0:v -map 1:a",
        Equal,
    ),
    CorpusFile(
        "late-sound.mp4",
        "-i @index-last.mp4 -itsoffset 3 -i @index-last.mp4 -map 0:v -map 1:a",
        Equal,
    ),
    CorpusFile(
        "delayed-video.mp4",
        "-i @index-last.mp4 -itsoffset 1.5 -i @index-last.mp4 -map 1:v -map 0:a",
        Equal,
    ),
    CorpusFile("cut.mp4", "-ss 1 -i @index-last.mp4", FromFirst),
    CorpusFile("quicktime.mov", "-i @index-last.mp4", Equal),
    CorpusFile(
        "timecode.mov",
        "-i @index-last.mp4 -timecode 01:00:00:00",
        Equal,
    ),
    CorpusFile("itunes.m4v", "-i @index-last.mp4", Equal),
    CorpusFile("no-edits.mp4", "-i @index-last.mp4 -use_editlist 0", Equal),
    CorpusFile(
        "negative-composition.mp4",
        "-i @index-last.mp4 -movflags +negative_cts_offsets",
        Equal,
    ),
    CorpusFile(
        "loose.mp4",
        "-i @index-last.mp4 -max_interleave_delta 0",
        Equal,
    ),
    CorpusFile(
        "cover.mp4",
        "-i @index-last.mp4 -i @cover.png -map 0 -map 1 -disposition:v:1 attached_pic",
        Equal,
    ),
    CorpusFile(
        "texts.mp4",
        "-i @index-last.mp4 -i @text.srt -map 0 -map 1 -c:s mov_text",
        Equal,
    ),
    CorpusFile(
        "fragments.mp4",
        "-i @index-last.mp4 -movflags +frag_keyframe+empty_moov+default_base_moof",
        Equal,
    ),
    CorpusFile(
        "fragments-without-index.mp4",
        "-i @index-last.mp4 -movflags +frag_keyframe+empty_moov+default_base_moof+skip_trailer",
        Equal,
    ),
    CorpusFile(
        "fragments-with-places-in-file.mp4",
        "-i @index-last.mp4 -movflags +frag_keyframe+empty_moov",
        Equal,
    ),
    CorpusFile(
        "fragment-of-each-track.mp4",
        "-i @index-last.mp4 -movflags +frag_keyframe+empty_moov+separate_moof",
        Equal,
    ),
    CorpusFile(
        "fragments-of-half-a-second.mp4",
        "-i @index-last.mp4 -movflags +empty_moov+default_base_moof -frag_duration 500000",
        Equal,
    ),
    CorpusFile(
        "fragments-with-index.mp4",
        "-i @index-last.mp4 -movflags +dash+delay_moov+frag_keyframe+global_sidx",
        Equal,
    ),
    CorpusFile(
        "first-fragment-in-index.mp4",
        "-i @index-last.mp4 -movflags +frag_keyframe",
        Equal,
    ),
    CorpusFile(
        "fragmented-hvc1.mp4",
        "-i @hvc1.mp4 -movflags +frag_keyframe+empty_moov",
        Equal,
    ),
    CorpusFile(
        "fragmented-av1.mp4",
        "-i @av1-opus.mp4 -movflags +frag_keyframe+empty_moov",
        Equal,
    ),
    CorpusFile(
        "fragmented-delayed-sound.mp4",
        "-i @index-last.mp4 -itsoffset 1.5 -i @index-last.mp4 -map 0:v -map 1:a \
         -movflags +frag_keyframe+empty_moov",
        Equal,
    ),
];

/// Runs ffmpeg; returns its output.
fn ffmpeg(arguments: &[&str]) -> String {
    let output = Command::new("ffmpeg")
        .args(["-nostdin", "-hide_banner", "-v", "error", "-y"])
        .args(arguments)
        .env("SVT_LOG", "1")
        .stdin(Stdio::null())
        .output()
        .expect("ffmpeg");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).expect("text")
}

/// Calls `each` for all items, some at a time.
fn in_threads<T: Send>(items: Vec<T>, each: impl Fn(T) + Sync) {
    let items = Mutex::new(items.into_iter());
    let work = || {
        loop {
            let next = items.lock().expect("no panic while it is locked").next();
            let Some(item) = next else {
                break;
            };
            each(item);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(work);
        }
    });
}

impl CorpusFile {
    fn make(&self, root: &Path, copy: bool) {
        let Self(name, arguments, _) = self;
        let text = arguments.replace("VIDEO", VIDEO).replace("SOUND", SOUND);
        let text = text.replace("X264", X264);
        let in_root = |name: &str| root.join(name).display().to_string();
        let word = |word: &str| match word.strip_prefix('@') {
            Some(name) => in_root(name),
            None => word.to_owned(),
        };
        let mut words: Vec<String> = text.split_whitespace().map(word).collect();
        if copy {
            let codecs = words.iter().position(|word| word == "-c:s");
            let at = codecs.unwrap_or(words.len());
            words.splice(at..at, ["-c".to_owned(), "copy".to_owned()]);
        }
        words.push(in_root(name));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        ffmpeg(&words);
    }
}

/// A file whose offsets have 64 bits, made of one whose index is last.
fn with_long_offsets(file: &[u8]) -> Vec<u8> {
    let mut written = Vec::new();
    let mut left = file;
    while left.len() >= 8 {
        let length = u32::from_be_bytes(left[..4].try_into().expect("four bytes"));
        let (whole, rest) = left.split_at(length as usize);
        left = rest;
        let (kind, body) = (&whole[4..8], &whole[8..]);
        let (kind, body) = match kind {
            b"moov" | b"trak" | b"mdia" | b"minf" | b"stbl" => (kind, with_long_offsets(body)),
            b"stco" => {
                let offsets = body[8..].chunks(4);
                let long = offsets.flat_map(|offset| [&[0; 4], offset].concat());
                (
                    &b"co64"[..],
                    body[..8].iter().copied().chain(long).collect(),
                )
            }
            _ => (kind, body.to_vec()),
        };
        written.extend((body.len() as u32 + 8).to_be_bytes());
        written.extend(kind);
        written.extend(body);
    }
    written
}

/// Makes all files; returns them by name.
fn make_corpus(root: &Path) -> BTreeMap<&'static str, Times> {
    let cover = root.join("cover.png").display().to_string();
    ffmpeg(&[
        "-f",
        "lavfi",
        "-i",
        "color=s=64x64",
        "-frames:v",
        "1",
        &cover,
    ]);
    let text = "1\n00:00:01,000 --> 00:00:02,000\nText\n";
    std::fs::write(root.join("text.srt"), text).expect("a file");
    in_threads(ENCODED.iter().collect(), |file| file.make(root, false));
    in_threads(COPIED.iter().collect(), |file| file.make(root, true));
    let long = with_long_offsets(&std::fs::read(root.join("index-last.mp4")).expect("a file"));
    std::fs::write(root.join("co64.mp4"), long).expect("a file");
    let all = ENCODED.iter().chain(COPIED);
    let mut all: BTreeMap<_, _> = all
        .map(|CorpusFile(name, _, times)| (*name, *times))
        .collect();
    all.insert("co64.mp4", Equal);
    for name in all.keys() {
        let file = File::options()
            .write(true)
            .open(root.join(name))
            .expect("a file");
        let hour = Duration::from_secs(3600);
        file.set_modified(SystemTime::now() - hour).expect("a time");
    }
    all
}

/// A stream as ffmpeg demultiplexes it.
#[derive(Debug, PartialEq, Eq)]
struct StreamContents {
    /// Codec, its settings, time base, and size or rate.
    properties: Vec<String>,
    /// Decoding and presentation time, size and hash of each packet.
    packets: Vec<(i64, i64, String)>,
}

/// Streams of a file or playlist, by `-map`; `options` are those of the input.
fn contents(options: &[&str], of: &str, maps: &[&str]) -> Vec<StreamContents> {
    let mut arguments = [&["-copyts"], options, &["-i", of]].concat();
    for map in maps {
        arguments.extend(["-map", map]);
    }
    arguments.extend(["-c", "copy", "-f", "framehash", "-"]);
    let text = ffmpeg(&arguments);
    let mut streams: BTreeMap<u32, StreamContents> = BTreeMap::new();
    let mut of_stream = |index: &str, add: &dyn Fn(&mut StreamContents)| {
        let index = index
            .trim()
            .trim_end_matches(':')
            .parse()
            .expect("a number");
        add(streams.entry(index).or_insert(StreamContents {
            properties: Vec::new(),
            packets: Vec::new(),
        }));
    };
    for line in text.lines() {
        let fields: Vec<&str> = line
            .split([',', ' '])
            .filter(|word| !word.is_empty())
            .collect();
        match fields[..] {
            [name, index, ref values @ ..] if name.starts_with('#') => {
                let is_numbered = index.starts_with(|first: char| first.is_ascii_digit());
                // The demultiplexer of HLS passes on no sample aspect ratio that is square.
                if is_numbered && !name.ends_with(':') && name != "#sar" {
                    let property = format!("{name} {}", values.join(" "));
                    of_stream(index, &|of| of.properties.push(property.clone()));
                }
            }
            // Demultiplexers estimate durations.
            [index, decoded, presented, _, size, hash, ..] => {
                let number = |text: &str| text.parse().expect("a number");
                let packet = (number(decoded), number(presented), format!("{size} {hash}"));
                of_stream(index, &|of| of.packets.push(packet.clone()));
            }
            _ => {}
        }
    }
    streams.into_values().collect()
}

impl StreamContents {
    /// The same with times that count from the first packet's decoding time.
    fn since_first(mut self) -> Self {
        let first = self.packets.first().map_or(0, |(decoded, ..)| *decoded);
        for (decoded, presented, _) in &mut self.packets {
            *decoded -= first;
            *presented -= first;
        }
        self
    }
}

/// The streams of a file that a rendition has, by its name: `v1a1`.
fn maps_of(rendition: &str) -> Vec<String> {
    let (has_video, audio) = match rendition.strip_prefix("v1") {
        Some(audio) => (true, audio),
        None => (false, rendition),
    };
    let video = has_video.then(|| "0:V:0".to_owned());
    let number = audio
        .strip_prefix('a')
        .map(|number| number.parse::<u32>().expect("a number"));
    let audio = number.map(|number| format!("0:a:{}", number - 1));
    video.into_iter().chain(audio).collect()
}

fn get(server: &Server, target: &str) -> Vec<u8> {
    let reply = fetch(server.address(), "GET", target, &[]).expect("a reply");
    assert_eq!(reply.status(), 200, "{target}: {}", reply.text());
    reply.body
}

fn text(server: &Server, target: &str) -> String {
    String::from_utf8(get(server, target)).expect("text")
}

/// Names of media playlists in a master playlist.
fn media_playlists(master: &str) -> Vec<&str> {
    let words = master.split(['"', '\n']);
    let mut names: Vec<&str> = words.filter(|word| word.ends_with(".m3u8")).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The value of an attribute in the first tag of a text.
fn attribute<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!(" {name}=\""))?;
    rest.split('"').next()
}

/// The names of the renditions of a manifest, each with the links of its headers and segments.
fn representations(manifest: &str) -> Vec<(String, Vec<String>)> {
    let parts = manifest.split("<Representation").skip(1);
    parts
        .map(|part| {
            let value = |name| attribute(part, name).expect(name);
            let mut number: u32 = value("startNumber").parse().expect("a number");
            let mut links = vec![value("initialization").to_owned()];
            for run in part.split("<S ").skip(1) {
                let run = format!(" {}", run.split('>').next().expect("a tag"));
                let repeats: u32 = attribute(&run, "r").map_or(0, |r| r.parse().expect("a number"));
                for _ in 0..=repeats {
                    links.push(value("media").replace("$Number$", &number.to_string()));
                    number += 1;
                }
            }
            (value("id").to_owned(), links)
        })
        .collect()
}

/// Compares a rendition with the same streams of the file.
fn compare(file: &Path, rendition: &str, fetched: &str, times: Times) {
    let maps = maps_of(rendition);
    let maps: Vec<&str> = maps.iter().map(String::as_str).collect();
    let (options, in_place): (&[&str], fn(StreamContents) -> StreamContents) = match times {
        Equal => (&[], |of| of),
        FromFirst => (&["-ignore_editlist", "1"], StreamContents::since_first),
    };
    let source = contents(options, &file.display().to_string(), &maps);
    let found = contents(&[], fetched, &["0"]);
    assert_eq!(
        (source.len(), found.len()),
        (maps.len(), maps.len()),
        "{fetched}"
    );
    for (source, found) in source.into_iter().zip(found) {
        let (source, found) = (in_place(source), in_place(found));
        assert!(!source.packets.is_empty(), "{fetched}");
        assert_eq!(source.properties, found.properties, "{fetched}");
        let mut pairs = source.packets.iter().zip(&found.packets);
        let other = pairs.find(|(one, other)| one != other);
        assert_eq!(other, None, "{fetched}: first difference");
        assert_eq!(source.packets.len(), found.packets.len(), "{fetched}");
    }
}

/// Reads all titles with parsers of other projects, if they are installed.
fn check_with_other_parsers(server: &Server, names: &[&str]) {
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web");
    let test = "packaged titles, read by other parsers";
    if !have_or_skip(test, "node") {
        return;
    }
    if !web.join("node_modules/hls-parser").exists() {
        return headlong_testkit::skip(test, "scripts/web.sh has not installed them");
    }
    let titles = names
        .iter()
        .map(|name| format!("http://{}/{name}", server.address()));
    let mut node = Command::new("node");
    let node = node.arg("tests/packaged.mjs").args(titles).current_dir(web);
    let output = node.stdin(Stdio::null()).output().expect("node starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
}

#[test]
fn corpus_has_packets_and_settings_of_its_files() {
    let test = "corpus_has_packets_and_settings_of_its_files";
    if !have_or_skip(test, "ffmpeg") {
        return;
    }
    let root = Scratch::new("packaging").expect("a folder");
    let fetched = Scratch::new("packaging-fetched").expect("a folder");
    let corpus = make_corpus(root.path());
    assert!(corpus.len() >= 40, "{} files", corpus.len());
    let config = "package = \"on\"\npackage_segment = \"2s\"\n";
    let server = ServerBuilder::new([root.path()]).config(config).start();
    let names: Vec<&str> = corpus.keys().copied().collect();
    let failures = Mutex::new(Vec::new());
    in_threads(corpus.into_iter().collect(), |(name, times)| {
        let check = || check_file(&server, root.path(), fetched.path(), name, times);
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(check)).is_err() {
            failures
                .lock()
                .expect("no panic while it is locked")
                .push(name);
        }
    });
    let failures = failures.into_inner().expect("no panic while it is locked");
    assert_eq!(failures, Vec::<&str>::new());
    check_with_other_parsers(&server, &names);
}

/// Compares all renditions of a file, by HLS and by DASH.
fn check_file(server: &Server, root: &Path, to: &Path, name: &str, times: Times) {
    let file: PathBuf = root.join(name);
    let master = text(server, &format!("/{name}/master.m3u8"));
    let playlists = media_playlists(&master);
    assert!(!playlists.is_empty(), "{master}");
    for playlist in playlists {
        let rendition = playlist.strip_suffix(".m3u8").expect("a playlist");
        let url = format!("http://{}/{name}/{playlist}", server.address());
        compare(&file, rendition, &url, times);
    }
    let manifest = text(server, &format!("/{name}/manifest.mpd"));
    let representations = representations(&manifest);
    assert!(!representations.is_empty(), "{manifest}");
    for (rendition, links) in representations {
        let links = links
            .iter()
            .map(|link| get(server, &format!("/{name}/{link}")));
        let joined = to.join(format!("{name}-{rendition}.mp4"));
        std::fs::write(&joined, links.collect::<Vec<_>>().concat()).expect("a file");
        compare(&file, &rendition, &joined.display().to_string(), times);
    }
}
