//! An edge in front of an S3 bucket with keys; the bucket verifies each signature independently.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use headlong_e2e_tests::s3::Bucket;
use headlong_e2e_tests::{eventually, have_or_skip};
use headlong_testkit::server::{Server, ServerBuilder};
use headlong_testkit::{Scratch, pattern};

const KEY: &str = "AKIAHEADLONGTEST0001";
const SECRET: &str = "abcd/efgh+ijklmnopqrstuvwxyz0123456789ABCD";
const SIZE: u64 = 700_123;

fn ground() -> (Scratch, Scratch) {
    let files = Scratch::new("bucket").expect("a folder");
    std::fs::create_dir(files.path().join("films")).expect("a folder");
    pattern::write_file(&files.path().join("films/a b+c.mp4"), 7, SIZE).expect("a title");
    (files, Scratch::new("edge").expect("a folder"))
}

fn write_keys(folder: &Path, secret: &str, mode: u32) -> String {
    let path = folder.join("keys");
    let text = format!("[default]\naws_access_key_id = {KEY}\naws_secret_access_key = {secret}\n");
    std::fs::write(&path, text).expect("written");
    let rights = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(&path, rights).expect("set");
    path.display().to_string()
}

fn settings(bucket: &Bucket, folder: &Path, keys: &str) -> String {
    format!(
        "[pull.\"/vod/\"]\norigin = \"{}films/\"\nfolder = \"{}\"\nslice_bytes = \"64KiB\"\n\
         free_bytes_min = \"0B\"\ns3_region = \"eu-test-1\"\ns3_keys = \"{keys}\"\n",
        bucket.url(),
        folder.display()
    )
}

fn edge(settings: &str) -> Server {
    ServerBuilder::without_roots().config(settings).start()
}

/// Neither logs nor status contain a secret or a signature.
fn assert_secret(server: &Server) {
    let status = server.admin_request("GET", "/status", &[]);
    let shown = [server.output(), server.metrics(), status.text()];
    for text in shown {
        assert!(!text.contains(SECRET) && !text.contains("X-Amz"), "{text}");
    }
}

#[test]
fn reads_ranges_from_bucket_that_verifies_signatures() {
    let test = "reads_ranges_from_bucket_that_verifies_signatures";
    if !have_or_skip(test, "python3") {
        return;
    }
    let (files, cache) = ground();
    let bucket = Bucket::start(files.path(), 0, (KEY, SECRET, "eu-test-1")).expect("a bucket");
    let keys = write_keys(cache.path(), SECRET, 0o600);
    let server = edge(&settings(&bucket, cache.path(), &keys));
    let path = "/vod/a%20b+c.mp4";
    for (first, end) in [(100_000, 300_000), (0, 10), (SIZE - 5, SIZE)] {
        let span = format!("bytes={first}-{}", end - 1);
        let reply = server.request("GET", path, &[("Range", &span)]);
        assert_eq!(reply.status(), 206, "{}", reply.text());
        pattern::verify(7, first, &reply.body).expect("correct bytes");
        let tag = reply.field("etag").expect("the bucket's tag");
        assert_eq!(tag.len(), 34, "an MD5: {tag}");
    }
    let whole = server.get(path);
    assert_eq!(whole.body.len() as u64, SIZE);
    pattern::verify(7, 0, &whole.body).expect("correct bytes");
    let none = server.get("/vod/none.mp4");
    assert_eq!(none.status(), 404);
    let of = |lines: &[String], status: &str| lines.iter().filter(|l| l.contains(status)).count();
    // The bucket logs concurrently with its replies.
    let ranges = |lines: &Vec<String>| of(lines, " 206 ") >= 11;
    let lines = eventually("the bucket's log", || bucket.lines(), ranges);
    assert_eq!(
        (of(&lines, " 206 "), of(&lines, " 403 ")),
        (11, 0),
        "{lines:?}"
    );
    assert_secret(&server);
}

/// The first request to the bucket ended like this.
fn wait_for_first(bucket: &Bucket, end: &str) {
    eventually(
        "the bucket's log",
        || bucket.lines(),
        |lines| lines.first().is_some_and(|line| line.ends_with(end)),
    );
}

#[test]
fn reports_wrong_keys_and_clock_and_rereads_keys() {
    let test = "reports_wrong_keys_and_clock_and_rereads_keys";
    if !have_or_skip(test, "python3") {
        return;
    }
    let (files, cache) = ground();
    let bucket = Bucket::start(files.path(), 0, (KEY, SECRET, "eu-test-1")).expect("a bucket");
    let keys = write_keys(cache.path(), "another", 0o600);
    let server = edge(&settings(&bucket, cache.path(), &keys));
    let ask = |server: &Server| server.get("/vod/a%20b+c.mp4").status();
    write_keys(cache.path(), SECRET, 0o600);
    assert_eq!(ask(&server), 502);
    // Both logs are written concurrently with the reply.
    wait_for_first(&bucket, "403 SignatureDoesNotMatch");
    eventually(
        "the log message",
        || server.output(),
        |said| said.contains("check the keys, s3_region"),
    );
    let metrics = server.metrics();
    assert!(metrics.contains("kind=\"origin-refused\"} 1"), "{metrics}");
    // The edge has read the keys again.
    assert_eq!(
        eventually("the title", || ask(&server), |status| *status == 200),
        200
    );
    assert_secret(&server);
    drop(server);
    drop(bucket);

    let cache = Scratch::new("edge").expect("a folder");
    let ahead = Bucket::start(files.path(), 7200, (KEY, SECRET, "eu-test-1")).expect("a bucket");
    let keys = write_keys(cache.path(), SECRET, 0o600);
    let server = edge(&settings(&ahead, cache.path(), &keys));
    assert_eq!(ask(&server), 502);
    wait_for_first(&ahead, "403 RequestTimeTooSkewed");
    eventually(
        "the log message",
        || server.output(),
        |said| said.contains("set the clock") && said.contains("skew_s=7"),
    );
    assert_secret(&server);
}

#[test]
fn world_readable_key_file_prevents_start() {
    let (_files, cache) = ground();
    let keys = write_keys(cache.path(), SECRET, 0o644);
    let text = format!(
        "[pull.\"/vod/\"]\norigin = \"http://127.0.0.1:1/bucket/\"\nfolder = \"{}\"\n\
         s3_region = \"eu-test-1\"\ns3_keys = \"{keys}\"\n",
        cache.path().display()
    );
    let builder = ServerBuilder::without_roots().config(&text);
    let error = builder.try_start().err().expect("refused");
    assert!(error.contains("mode 644"), "{error}");
    assert!(!error.contains(SECRET), "{error}");
}
