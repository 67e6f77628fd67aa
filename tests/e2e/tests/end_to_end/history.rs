//! Random readers and writers on every kind of file system: each reply belongs to one version that
//! existed, as `docs/operate/serve.md` promises.

use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

use headlong_e2e_tests::history::{
    BELIEVED, History, Run, SIZE_MAX, Seen, Window, histories, is_of_any, run,
};
use headlong_e2e_tests::loop_fs::LoopFs;
use headlong_testkit::Seed;
use headlong_testkit::client::{ClientError, Connection, Response};
use headlong_testkit::server::{Server, ServerBuilder};

/// Length and modification time of a tag, and whether it is strong.
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

/// One request over HTTP and its conditions.
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

/// Verifies a reply against the documents' promise; returns its kind, or the violation.
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
                false => wrong("unsatisfiable although within the file"),
            };
        }
        304 => {
            let asked = ask.if_none_match.as_deref().unwrap_or_default();
            let Some((size, mtime, _)) = told_by(asked).filter(|_| told == told_by(asked)) else {
                return wrong("not modified, with another tag");
            };
            return match window.told_as(size, mtime).is_empty() {
                false => Ok("304"),
                true => wrong("not found although the file exists"),
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
        return wrong("sent although not modified");
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
        // States of equal length and time cannot be distinguished; still they belong to one file.
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

/// Sends random requests until the run is over.
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
                // Sometimes an old tag, of a version that no longer exists.
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
        .start();
    let seen = run(test, &histories, |seed, of| {
        read(&server, &histories, seed, of)
    });
    eprintln!("{test}: {seen:?}");
    assert!(seen.of("strong") > 0, "{seen:?}");
    drop(server);
}

#[test]
fn reply_is_of_an_existing_version_on_ext4() {
    on_file_system("history: ext4", "ext4", &["-q"]);
}

/// Inodes too short for more than whole seconds: many versions share one time.
#[test]
fn reply_is_of_an_existing_version_with_whole_seconds() {
    on_file_system("history: whole seconds", "ext4", &["-q", "-I", "128"]);
}

#[test]
fn reply_is_of_an_existing_version_on_xfs() {
    on_file_system("history: xfs", "xfs", &["-q"]);
}

#[test]
fn reply_is_of_an_existing_version_on_btrfs() {
    on_file_system("history: btrfs", "btrfs", &["-q"]);
}

#[test]
fn reply_is_of_an_existing_version_on_tmpfs() {
    on_file_system("history: tmpfs", "tmpfs", &[]);
}
