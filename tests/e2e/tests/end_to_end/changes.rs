//! Files that change while they are served: no reply mixes two versions.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use headlong_e2e_tests::{Library, Title, eventually};
use headlong_testkit::client::{ClientError, Connection, fetch, request_text};
use headlong_testkit::server::ServerBuilder;
use headlong_testkit::{Scratch, Server, pattern};

const MIB: u64 = 1 << 20;
const SIZE: u64 = 24 * MIB;
const OLD: u64 = 0;
const NEW: u64 = 1_000;

fn rig() -> (Library, Server) {
    let library = Library::new(1, SIZE).expect("a library");
    let server = ServerBuilder::new([library.root()])
        // Far less than the title, so that most of it is still on the disk when it changes.
        .memory("8MiB")
        .config("revalidate = \"50ms\"\nprefetch = \"1MiB\"\npolicy = \"fixed\"")
        .start();
    (library, server)
}

/// A reply of which 64 KiB have been received.
struct Reply {
    connection: Connection,
    at: u64,
    announced: u64,
}

impl Reply {
    fn begin(server: &Server, title: &Title) -> Self {
        let mut connection = Connection::open(server.address()).expect("connects");
        connection
            .send(request_text("GET", &title.target, &[]).as_bytes())
            .expect("sent");
        let head = connection.receive_head().expect("a head");
        assert_eq!(head.status, 200);
        let announced = head.content_length().expect("a length");
        let mut reply = Self {
            connection,
            at: 0,
            announced,
        };
        reply.take(64 << 10).expect("the beginning");
        reply
    }

    /// Receives this many bytes; they must belong to the old version.
    fn take(&mut self, length: u64) -> Result<(), ClientError> {
        let bytes = self.connection.receive_body(length)?;
        pattern::verify(OLD, self.at, &bytes).expect("bytes of the version it began with");
        self.at += length;
        Ok(())
    }

    /// Receives the rest; returns whether it was complete.
    fn finish(mut self) -> bool {
        while self.at < self.announced {
            let length = (self.announced - self.at).min(64 << 10);
            match self.take(length) {
                Ok(()) => {}
                Err(ClientError::Io(_)) => return false,
                Err(error) => panic!("{error}"),
            }
        }
        true
    }
}

/// Writes a title of 1 MiB with this modification time.
fn write_dated(path: &Path, number: u64, modified: SystemTime) {
    // In place, if it exists.
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path);
    let file = file.expect("a file");
    let mut bytes = vec![0; MIB as usize];
    pattern::fill(number, 0, &mut bytes);
    file.write_all_at(&bytes, 0).expect("written");
    file.set_modified(modified).expect("a time");
}

/// Waits until a title has another entity tag, and checks that a client with the old one never
/// gets new bytes for old ones.
fn check_other_version(server: &Server, number: u64, old_tag: &str) -> String {
    let get = |fields: &[(&str, &str)]| server.request("GET", "/a.mp4", fields);
    eventually(
        "another tag",
        || get(&[("Range", "bytes=0-0")]),
        |reply| reply.field("etag").is_some_and(|tag| tag != old_tag),
    );
    let changed = get(&[("If-None-Match", old_tag)]);
    assert_eq!(changed.status(), 200);
    pattern::verify(number, 0, &changed.body).expect("the new bytes");
    let resumed = get(&[("Range", "bytes=524288-"), ("If-Range", old_tag)]);
    assert_eq!((resumed.status(), resumed.body.len() as u64), (200, MIB));
    pattern::verify(number, 0, &resumed.body).expect("the new bytes");
    changed.field("etag").expect("a tag").to_owned()
}

#[test]
fn other_bytes_of_same_size_and_time_have_another_tag() {
    let folder = Scratch::new("same-time").expect("a folder");
    let at = |name: &str| folder.path().join(name);
    for seconds in [1_700_000_000, 1, 0] {
        let time = UNIX_EPOCH + Duration::from_secs(seconds);
        write_dated(&at("a.mp4"), 1, time);
        write_dated(&at(".other"), 2, time);
        let server = ServerBuilder::new([folder.path()])
            .config("revalidate = \"50ms\"")
            .start();
        let first = server.get("/a.mp4");
        pattern::verify(1, 0, &first.body).expect("the old bytes");
        let tag = first.field("etag").expect("a tag").to_owned();
        // All files of images and package stores have these times.
        let is_vague = seconds < 2;
        assert_eq!(tag.starts_with("W/"), is_vague, "{tag}");
        assert_eq!(first.field("last-modified").is_none(), is_vague);
        let same = server.request("GET", "/a.mp4", &[("If-None-Match", &tag)]);
        assert_eq!(same.status(), 304);
        fs::rename(at(".other"), at("a.mp4")).expect("replaced");
        let tag = check_other_version(&server, 2, &tag);
        write_dated(&at("a.mp4"), 3, time);
        check_other_version(&server, 3, &tag);
    }
}

/// As `tar` copies files, without the fraction of their times.
#[test]
fn copies_with_times_in_seconds_have_the_same_tag_if_configured() {
    let folders = [0, 1].map(|_| Scratch::new("copy").expect("a folder"));
    let time = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let times = [time + Duration::from_nanos(123_456_789), time];
    for (folder, time) in folders.iter().zip(times) {
        write_dated(&folder.path().join("a.mp4"), 1, time);
    }
    let tags = |config: &str| {
        folders.each_ref().map(|folder| {
            let server = ServerBuilder::new([folder.path()]).config(config).start();
            let reply = server.request("HEAD", "/a.mp4", &[]);
            reply.field("etag").expect("a tag").to_owned()
        })
    };
    let [first, second] = tags("etag = \"seconds\"");
    assert_eq!(first, second);
    assert!(!first.starts_with("W/"));
    let [first, second] = tags("");
    assert_ne!(first, second);
}

/// Asserts that the title is soon served whole in its new version.
fn check_new(server: &Server, title: &Title, number: u64, size_bytes: u64) {
    let fresh = || fetch(server.address(), "GET", &title.target, &[]);
    let response = eventually("the new version", fresh, |response| {
        response.as_ref().is_ok_and(|response| {
            response.status() == 200
                && response.body.len() as u64 == size_bytes
                && pattern::verify(number, 0, &response.body).is_ok()
        })
    });
    drop(response);
}

fn etag(server: &Server, title: &Title) -> String {
    let response = server.request("HEAD", &title.target, &[]);
    response.field("etag").expect("an entity tag").to_owned()
}

#[test]
fn overwriting_a_file_ends_replies_of_the_old_version() {
    let (library, server) = rig();
    let title = &library.titles[0];
    let before = etag(&server, title);
    let replies: Vec<Reply> = (0..6).map(|_| Reply::begin(&server, title)).collect();
    // One write: readers that bypass the cache see all of it or nothing.
    let file = File::options().write(true).open(&title.path).expect("open");
    file.write_all_at(&pattern::bytes(NEW, 0..SIZE), 0)
        .expect("write");
    file.sync_all().expect("sync");
    let whole = replies
        .into_iter()
        .map(Reply::finish)
        .filter(|whole| *whole)
        .count();
    assert_eq!(
        whole, 0,
        "memory and buffers cannot hold the old version whole"
    );
    check_new(&server, title, NEW, SIZE);
    assert_ne!(etag(&server, title), before);
}

#[test]
fn reply_is_finished_from_its_version_after_rename() {
    type Deed = fn(&Library, &Path);
    let deeds: [(&str, Deed); 5] = [
        ("a hard link", |library, path| {
            fs::hard_link(path, library.root().join("snapshot.bin")).expect("linked");
        }),
        ("another mode", |_, path| {
            fs::set_permissions(path, fs::Permissions::from_mode(0o640)).expect("changed");
        }),
        ("another name", |library, path| {
            fs::rename(path, library.root().join("moved.bin")).expect("renamed");
        }),
        ("no name", |_, path| fs::remove_file(path).expect("removed")),
        ("a replacement", |library, path| {
            let beside = library.root().join(".new");
            pattern::write_file(&beside, NEW, SIZE + 5).expect("written");
            fs::rename(beside, path).expect("renamed");
        }),
    ];
    for (what, deed) in deeds {
        let (library, server) = rig();
        let title = &library.titles[0];
        let before = etag(&server, title);
        let replies: Vec<Reply> = (0..3).map(|_| Reply::begin(&server, title)).collect();
        deed(&library, &title.path);
        // The server reacts to the change here, if at all.
        let ask = || fetch(server.address(), "HEAD", &title.target, &[]);
        let now = match what {
            "another name" | "no name" => eventually("nothing", ask, |reply| {
                reply.as_ref().is_ok_and(|reply| reply.status() == 404)
            }),
            "a replacement" => eventually("the replacement", ask, |reply| {
                reply
                    .as_ref()
                    .is_ok_and(|reply| reply.field("etag") != Some(&before))
            }),
            _ => {
                std::thread::sleep(Duration::from_millis(300));
                let now = ask();
                let tag = now.as_ref().ok().and_then(|reply| reply.field("etag"));
                assert_eq!(tag, Some(&*before), "{what}");
                now
            }
        };
        drop(now);
        // Longer than the server takes to learn that a stream was removed.
        std::thread::sleep(Duration::from_millis(1500));
        for reply in replies {
            assert!(reply.finish(), "{what}");
        }
    }
}

#[test]
fn growing_playlist_does_not_cut_replies() {
    let library = Library::new(3, SIZE).expect("a library");
    let playlist = |segments: u64| {
        let segment = |n| format!("#EXTINF:60,\ntitle-{n}.bin\n");
        let segments: String = (0..segments).map(segment).collect();
        let text = format!("#EXTM3U\n#EXT-X-TARGETDURATION:60\n{segments}");
        fs::write(library.root().join("v.m3u8"), text).expect("written");
    };
    playlist(2);
    let server = ServerBuilder::new([library.root()])
        .memory("8MiB")
        .config("revalidate = \"50ms\"\nrescan = \"1s\"\nprefetch = \"1MiB\"\npolicy = \"fixed\"")
        .start();
    let title = &library.titles[0];
    let reply = Reply::begin(&server, title);
    playlist(3);
    // Several scans, and several checks for removed streams.
    std::thread::sleep(Duration::from_secs(4));
    assert!(reply.finish(), "its segment is unchanged");
}

#[test]
fn truncated_file_is_not_padded() {
    let (library, server) = rig();
    let title = &library.titles[0];
    let replies: Vec<Reply> = (0..6).map(|_| Reply::begin(&server, title)).collect();
    File::options()
        .write(true)
        .open(&title.path)
        .expect("open")
        .set_len(2 * MIB)
        .expect("cut");
    for reply in replies {
        assert!(
            !reply.finish(),
            "a whole reply from a file that was cut short"
        );
    }
    check_new(&server, title, OLD, 2 * MIB);
}
