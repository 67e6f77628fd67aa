//! An edge as a real process in front of [`crate::origin::Origin`], and what the tests ask it.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use headlong_testkit::client::{ClientError, Response, fetch};
use headlong_testkit::server::{Server, ServerBuilder};
use headlong_testkit::{Scratch, pattern};

use crate::eventually;
use crate::origin::Origin;

/// Size of the slices.
pub const SLICE: u64 = 64 << 10;

/// Settings of an edge that pulls from `origin` and stores titles in `folder`.
pub fn settings(origin: &str, folder: &Path, more: &str) -> String {
    let ahead = match more.contains("ahead_bytes") {
        true => "",
        false => "ahead_bytes = \"128KiB\"\n",
    };
    format!(
        "reply_fields = [\"cache-status\"]\n[pull.\"/vod/\"]\norigin = \"{origin}\"\nfolder = \"{}\"\n\
         slice_bytes = \"64KiB\"\n{ahead}free_bytes_min = \"0B\"\n\
         {more}\n",
        folder.display()
    )
}

/// An origin, and a folder for the stored titles of an edge.
pub fn ground() -> (Origin, Scratch) {
    let origin = Origin::start().expect("an origin");
    (origin, Scratch::new("edge").expect("a folder"))
}

/// Starts an edge with these further settings.
pub fn edge(origin: &Origin, folder: &Path, more: &str) -> Server {
    let url = format!("http://{}/o/", origin.address());
    ServerBuilder::without_roots()
        .config(&settings(&url, folder, more))
        .start()
}

/// Requests the bytes `first..end`.
pub fn range(server: &Server, path: &str, first: u64, end: u64) -> Result<Response, ClientError> {
    let span = format!("bytes={first}-{}", end - 1);
    fetch(server.address(), "GET", path, &[("Range", &span)])
}

/// Checks that a reply is this range of the title with this pattern.
pub fn assert_right(reply: &Response, title: u64, first: u64, end: u64) {
    assert_eq!(reply.status(), 206, "{}", reply.text());
    assert_eq!(reply.body.len() as u64, end - first);
    pattern::verify(title, first, &reply.body).expect("correct bytes");
}

/// Requests the bytes `first..end`, and checks that they are those of the title with this pattern.
#[track_caller]
pub fn right_range(server: &Server, path: &str, title: u64, first: u64, end: u64) -> Response {
    let reply = range(server, path, first, end).expect("a reply");
    assert_right(&reply, title, first, end);
    reply
}

/// The metric whose line begins with `name`.
pub fn metric(server: &Server, name: &str) -> u64 {
    let metrics = server.metrics();
    let line = metrics.lines().find(|line| line.starts_with(name));
    let value = line.and_then(|line| line.rsplit(' ').next());
    value
        .and_then(|value| value.parse().ok())
        .unwrap_or_else(|| panic!("{name} in {metrics}"))
}

/// Waits until no slice is being fetched: replies end before their slices are stored.
pub fn settle(server: &Server) {
    let running = || metric(server, "headlong_pull_fetches_running");
    eventually("all slices are stored", running, |running| *running == 0);
}

/// Disk usage of the files and folders below a folder.
pub fn disk_usage_below(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).map(|entries| entries.flatten().collect::<Vec<_>>());
    let usage = |entry: &std::fs::DirEntry| {
        let own = entry.metadata().map_or(0, |of| of.blocks() * 512);
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => own + disk_usage_below(&entry.path()),
            _ => own,
        }
    };
    entries.unwrap_or_default().iter().map(usage).sum()
}

/// The files below a folder.
pub fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    let files = entries.flat_map(|entry| match entry.path().is_dir() {
        true => files_below(&entry.path()),
        false => vec![entry.path()],
    });
    files.collect()
}
