//! Readers and writers at random on every kind of file system: each reply is of one version that was
//! there, as `docs/operate/serve.md` and `mount.md` promise it of files that change.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use headlong_e2e_tests::Mount;
use headlong_e2e_tests::history::{History, SIZE_MAX, Window, is_of_any};
use headlong_e2e_tests::loop_fs::LoopFs;
use headlong_testkit::Seed;
use headlong_testkit::client::{ClientError, Connection, Response};
use headlong_testkit::server::{Server, ServerBuilder};
use rustix::io::Errno;

/// How long all of it goes on, a version settling in two seconds; and on a busy machine, until a reply of
/// one that has settled was seen.
const DURATION: Duration = Duration::from_secs(6);
const DURATION_MAX: Duration = Duration::from_secs(30);
/// `revalidate` of the server, and what a look-up and the threads of a busy machine may take beside it.
const BELIEVED: Duration = Duration::from_millis(2_050);
const TITLES: usize = 6;
const READERS: usize = 3;
const PAGE: usize = 4096;

/// What came of the replies.
#[derive(Debug, Default)]
struct Seen(BTreeMap<String, u64>);

impl Seen {
    fn note(&mut self, what: impl Into<String>) {
        *self.0.entry(what.into()).or_default() += 1;
    }

    fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }
}

/// What all threads of a test look at.
#[derive(Debug, Default)]
struct Run {
    is_over: AtomicBool,
    has_settled: AtomicBool,
}

impl Run {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// A reply is of a version that has settled.
    fn met_settled(&self) {
        self.has_settled.store(true, Ordering::Relaxed);
    }
}

/// Changes titles until it is over: half of them all the time, the others with pauses in which their
/// versions settle.
fn write(history: &History, number: usize, mut seed: Seed, of: &Run) -> io::Result<()> {
    while !of.is_over() {
        history.change(&mut seed)?;
        let pause = match number % 2 {
            0 => seed.below(60),
            _ => 2_600 + seed.below(1_400),
        };
        let until = Instant::now() + Duration::from_millis(pause);
        while Instant::now() < until && !of.is_over() {
            std::thread::sleep(Duration::from_millis(pause.clamp(1, 20)));
        }
    }
    Ok(())
}

/// Runs writers, and readers until the time is over; what the readers saw.
fn run(
    test: &str,
    histories: &[History],
    read: impl Fn(Seed, &Run) -> Result<Seen, String> + Sync,
) -> Seen {
    let mut seed = Seed::announced(test, 25);
    let of = Run::default();
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..histories.len())
            .map(|number| {
                let (history, seed) = (&histories[number], Seed::new(seed.next_u64()));
                let of = &of;
                scope.spawn(move || write(history, number, seed, of))
            })
            .collect();
        let readers: Vec<_> = (0..READERS)
            .map(|_| {
                let (seed, read, of) = (Seed::new(seed.next_u64()), &read, &of);
                scope.spawn(move || read(seed, of))
            })
            .collect();
        let began = Instant::now();
        let is_enough = || match of.has_settled.load(Ordering::Relaxed) {
            true => began.elapsed() >= DURATION,
            false => began.elapsed() >= DURATION_MAX,
        };
        while !is_enough() && readers.iter().all(|reader| !reader.is_finished()) {
            std::thread::sleep(Duration::from_millis(20));
        }
        of.is_over.store(true, Ordering::Relaxed);
        for writer in writers {
            writer.join().expect("no panic").expect("it writes");
        }
        let mut all = Seen::default();
        for reader in readers {
            let seen = reader.join().expect("no panic");
            let seen = seen.unwrap_or_else(|wrong| panic!("{test}: {wrong}"));
            for (what, count) in seen.0 {
                *all.0.entry(what).or_default() += count;
            }
        }
        all
    })
}

fn histories(root: &Path, is_in_place: bool) -> Vec<History> {
    let path = |number| root.join(format!("title{number}.bin"));
    (0..TITLES)
        .map(|number| History::new(path(number), is_in_place))
        .collect()
}

/// Length and time of change that a tag names, and whether it is strong.
fn told_by(tag: &str) -> Option<(u64, i128, bool)> {
    let (is_strong, text) = match tag.strip_prefix("W/") {
        None => (true, tag),
        Some(text) => (false, text),
    };
    let mut words = text.trim_matches('"').split('-');
    let size = u64::from_str_radix(words.next()?, 16).ok()?;
    let mtime = i128::from_str_radix(words.next()?, 16).ok()?;
    Some((size, mtime, is_strong))
}

/// One request over HTTP and what it was to be judged by.
struct Ask {
    method: &'static str,
    range: Option<(u64, u64)>,
    if_range: Option<String>,
    if_none_match: Option<String>,
}

impl Ask {
    fn any(seed: &mut Seed, tag: Option<&String>) -> Self {
        let start = seed.below(SIZE_MAX);
        let range = Some((start, start + seed.below(150_000)));
        let mut ask = Self {
            method: "GET",
            range,
            if_range: None,
            if_none_match: None,
        };
        match seed.below(6) {
            0 => ask.range = None,
            1 => (ask.method, ask.range) = ("HEAD", None),
            2 | 3 => ask.if_range = tag.cloned(),
            4 => (ask.if_none_match, ask.range) = (tag.cloned(), None),
            _ => {}
        }
        ask
    }

    fn send(&self, connection: &mut Connection, target: &str) -> Result<Response, ClientError> {
        let range = self
            .range
            .map(|(first, last)| format!("bytes={first}-{last}"));
        let mut fields = Vec::new();
        fields.extend(range.as_deref().map(|value| ("Range", value)));
        fields.extend(self.if_range.as_deref().map(|value| ("If-Range", value)));
        let tag = self.if_none_match.as_deref();
        fields.extend(tag.map(|value| ("If-None-Match", value)));
        connection.request(self.method, target, &fields)
    }
}

/// Whether a reply is what the documents promise; what it was, or what is wrong with it.
fn judge(ask: &Ask, reply: &Response, window: &Window<'_>) -> Result<&'static str, String> {
    let wrong = |what: &str| {
        Err(format!(
            "{what}: {:?} {:?}",
            reply.status(),
            reply.head.fields
        ))
    };
    let tag = reply.field("etag").unwrap_or_default().to_owned();
    let told = told_by(&tag);
    match reply.status() {
        404 if window.was_absent() => return Ok("404"),
        503 if window.has_change() => return Ok("503"),
        416 => {
            let size = reply
                .field("content-range")
                .and_then(|it| it.strip_prefix("bytes */"));
            let size: Option<u64> = size.and_then(|it| it.parse().ok());
            let is_beyond = size.is_some_and(|size| ask.range.is_none_or(|(at, _)| at >= size));
            return match is_beyond {
                true => Ok("416"),
                false => wrong("not beyond the end"),
            };
        }
        304 => {
            let asked = ask.if_none_match.as_deref().unwrap_or_default();
            let Some((size, mtime, _)) = told_by(asked).filter(|_| told == told_by(asked)) else {
                return wrong("another tag than was asked about");
            };
            return match window.told_as(size, mtime).is_empty() {
                false => Ok("304"),
                true => wrong("not what is there"),
            };
        }
        200 | 206 => {}
        _ => return wrong("status"),
    }
    let Some((size, mtime_ns, is_strong)) = told else {
        return wrong("no tag");
    };
    if let Some(asked) = &ask.if_none_match
        && told_by(asked).is_some_and(|(_, _, was_strong)| was_strong)
        && *asked == tag
    {
        return wrong("it has that already");
    }
    let (offset, length) = match reply.head.content_range() {
        Some((first, last, whole)) if whole == size => (first, last + 1 - first),
        None if reply.status() == 200 => (0, size),
        _ => return wrong("another length than the tag's"),
    };
    if let Some(asked) = &ask.if_range
        && reply.status() == 206
        && (*asked != tag || !is_strong)
    {
        return wrong("a range of another version");
    }
    let contents = window.told_as(size, mtime_ns);
    if contents.is_empty() {
        return wrong("a version that was not there");
    }
    if ask.method == "HEAD" {
        return Ok("HEAD");
    }
    if reply.body.len() as u64 != length {
        return wrong("another length than announced");
    }
    let is_right = match is_strong {
        // Of one content, the last that could have this tag.
        true => contents.iter().any(|group| match group[..] {
            [only] => window.is_last_of_its_time(only) && is_of_any(&[only], offset, &reply.body),
            [before, ..] => before.size != size && is_of_any(&[before], offset, &reply.body),
            [] => false,
        }),
        // Nobody can tell its states apart; still they are of one file.
        false => contents.iter().any(|group| {
            let file = group[0].file;
            let all = contents.iter().flatten().copied();
            let of_file: Vec<_> = all.filter(|content| content.file == file).collect();
            is_of_any(&of_file, offset, &reply.body)
        }),
    };
    match (is_right, is_strong, reply.status(), &ask.if_range) {
        (false, ..) => wrong("bytes of no version of that tag"),
        (_, true, 206, Some(_)) => Ok("joined"),
        (_, true, ..) => Ok("strong"),
        (_, false, ..) => Ok("weak"),
    }
}

/// Asks a server at random until it is over.
fn read(server: &Server, histories: &[History], mut seed: Seed, of: &Run) -> Result<Seen, String> {
    let mut seen = Seen::default();
    let mut tags: BTreeMap<usize, String> = BTreeMap::new();
    let mut kept = None;
    while !of.is_over() {
        let number = seed.below(histories.len() as u64) as usize;
        let history = &histories[number];
        let ask = Ask::any(&mut seed, tags.get(&number));
        let name = history
            .path()
            .file_name()
            .expect("a name")
            .to_string_lossy();
        let target = format!("/{name}");
        let mut connection = match kept.take() {
            Some(connection) => connection,
            None => Connection::open(server.address()).map_err(|error| error.to_string())?,
        };
        let began = Instant::now();
        let reply = ask.send(&mut connection, &target);
        let states = history.all();
        let window = Window::new(&states, began - BELIEVED, Instant::now());
        match reply {
            Ok(reply) => {
                let what = judge(&ask, &reply, &window)
                    .map_err(|wrong| format!("{target} {:?}: {wrong}", ask.range))?;
                seen.note(what);
                if what == "strong" {
                    of.met_settled();
                }
                // An old tag now and then: of a version that is gone.
                if let Some(tag) = reply.field("etag")
                    && (seed.below(4) > 0 || !tags.contains_key(&number))
                {
                    tags.insert(number, tag.to_owned());
                }
                kept = Some(connection);
            }
            Err(error) if error.is_cut() && window.has_change_in_place() => seen.note("cut"),
            Err(error) => return Err(format!("{target} {:?}: {error}", ask.range)),
        }
    }
    Ok(seen)
}

fn on_file_system(test: &str, kind: &str, options: &[&str]) {
    let Some(fs) = LoopFs::new_or_skip(test, kind, options) else {
        return;
    };
    let tree = fs.root().join("tree");
    fs::create_dir(&tree).expect("made");
    let histories = histories(&tree, true);
    let server = ServerBuilder::new([&tree])
        .memory("8MiB")
        .config("revalidate = \"50ms\"\nrescan = \"2s\"\nadmission = \"accept\"")
        .start()
        .expect("a server");
    let seen = run(test, &histories, |seed, of| {
        read(&server, &histories, seed, of)
    });
    eprintln!("{test}: {seen:?}");
    assert!(seen.of("strong") > 0, "{seen:?}");
    drop(server);
}

#[test]
fn replies_are_of_a_version_that_was_there_on_ext4() {
    on_file_system("history: ext4", "ext4", &["-q"]);
}

/// Inodes so short that they have whole seconds only: many versions have one time.
#[test]
fn replies_are_of_a_version_that_was_there_where_times_are_whole_seconds() {
    on_file_system("history: whole seconds", "ext4", &["-q", "-I", "128"]);
}

#[test]
fn replies_are_of_a_version_that_was_there_on_xfs() {
    on_file_system("history: xfs", "xfs", &["-q"]);
}

#[test]
fn replies_are_of_a_version_that_was_there_on_btrfs() {
    on_file_system("history: btrfs", "btrfs", &["-q"]);
}

#[test]
fn replies_are_of_a_version_that_was_there_on_tmpfs() {
    on_file_system("history: tmpfs", "tmpfs", &[]);
}

/// Reads from a mount as programs do until it is over.
fn read_mount(
    mount: &Mount,
    histories: &[History],
    mut seed: Seed,
    of: &Run,
) -> Result<Seen, String> {
    let mut seen = Seen::default();
    let mut kept = BTreeMap::new();
    while !of.is_over() {
        let number = seed.below(histories.len() as u64) as usize;
        let history = &histories[number];
        let name = history.path().file_name().expect("a name");
        let name = name.to_string_lossy();
        let began = Instant::now();
        let offset = seed.below(SIZE_MAX);
        let mut bytes = vec![0; 1 + seed.below(150_000) as usize];
        // Who has it open goes on with it as long as no other has its place.
        let same = kept.remove(&number).filter(|(_, of)| *of == history.file());
        let (before, opened) = match same {
            Some((file, of)) => (of, Ok(file)),
            None => (history.file(), File::open(mount.path(&name))),
        };
        // By one call: of two, the first may end in the midst of a page.
        let read = opened.and_then(|file| {
            let length = file.read_at(&mut bytes, offset)?;
            if before == history.file() && seed.below(8) > 0 {
                kept.insert(number, (file, before));
            }
            Ok(length)
        });
        let states = history.all();
        let window = Window::new(&states, began - BELIEVED, Instant::now());
        let what = judge_read(read.map(|length| &bytes[..length]), offset, &window);
        let span = offset..offset + bytes.len() as u64;
        let what = what.map_err(|wrong| format!("{name} {span:?}: {wrong}"))?;
        seen.note(what);
        if what == "whole" {
            of.met_settled();
        }
    }
    Ok(seen)
}

fn judge_read(
    read: io::Result<&[u8]>,
    offset: u64,
    window: &Window<'_>,
) -> Result<&'static str, String> {
    let bytes = match read {
        Ok(bytes) => bytes,
        Err(error) => {
            return match Errno::from_io_error(&error) {
                Some(Errno::NOENT) if window.was_absent() => Ok("none"),
                Some(Errno::STALE) if window.has_change() => Ok("stale"),
                _ => Err(error.to_string()),
            };
        }
    };
    // The kernel asks for pages, and keeps them: each is of one version.
    let first = PAGE - offset as usize % PAGE;
    let mut at = 0;
    while at < bytes.len() {
        let end = match at {
            0 => first.min(bytes.len()),
            _ => (at + PAGE).min(bytes.len()),
        };
        if !window.has_piece(offset + at as u64, &bytes[at..end]) {
            let (at, page) = (offset + at as u64, &bytes[at..end]);
            let diagnosis = window.diagnosis(at, page);
            let zeros = page.iter().filter(|byte| **byte == 0).count();
            return Err(format!(
                "a page of no version at {at}, {zeros} zeros: {diagnosis}"
            ));
        }
        at = end;
    }
    match window.has_change_in_place() {
        true => Ok("pages"),
        // Nothing was written into the file: all of it is of one.
        false if window.has_piece(offset, bytes) => Ok("whole"),
        false => Err("pages of two versions".to_owned()),
    }
}

fn on_a_mount(test: &str, options: &[&str], is_in_place: bool) {
    if !Mount::available_or_skip(test) {
        return;
    }
    let Some(fs) = LoopFs::new_or_skip(test, "ext4", options) else {
        return;
    };
    let tree = fs.root().join("tree");
    fs::create_dir(&tree).expect("made");
    let histories = histories(&tree, is_in_place);
    let config = fs.root().join("mount.toml");
    fs::write(&config, "revalidate = \"50ms\"\nmemory = \"16MiB\"\n").expect("written");
    let config = config.to_string_lossy();
    let point = fs.root().with_file_name("point");
    let mount = Mount::start_with(&tree, &point, &["--config", &config]);
    let seen = run(test, &histories, |seed, of| {
        read_mount(&mount, &histories, seed, of)
    });
    eprintln!("{test}: {seen:?}");
    assert!(seen.of("whole") > 0, "{seen:?}");
    drop(mount);
}

#[test]
fn what_is_read_on_a_mount_is_of_a_version_that_was_there() {
    on_a_mount("history: a mount", &["-q"], true);
}

/// Short inodes tell neither parts of seconds nor when a file was made, and their numbers are given
/// again. What is written in place within one tick is out of reach there, as `mount.md` says.
#[test]
fn what_is_read_on_a_mount_is_of_its_own_file_where_numbers_are_given_again() {
    on_a_mount(
        "history: a mount, short inodes",
        &["-q", "-I", "128"],
        false,
    );
}
