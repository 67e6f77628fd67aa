//! What HTTP asks of a file server (RFC 9110), as a table that any server can be held against.
//!
//! Each case says who passes it. Where nginx does otherwise the case is ours alone, with the
//! reason beside it: either the RFC leaves it open, or this server is stricter on purpose.

use std::fs::{self, File};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use headlong_testkit::client::{self, ClientError, Connection, Response, request_text};
use headlong_testkit::{Scratch, pattern};

mod checks;

pub use checks::{SIZE, TITLE};
use checks::{
    allows_any_origin, has_status, is_bad_request, is_empty_file, is_failed_condition,
    is_head_of_whole, is_not_found, is_not_modified, is_parts, is_preflight, is_range, is_refused,
    is_unsatisfiable, is_whole, is_whole_or_right_parts,
};

/// Who passes a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passes {
    /// Any server that follows the RFC.
    Both,
    /// This project's server only.
    Ours,
}

/// What a peer says about the title, to be used in conditions.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Entity tag.
    pub etag: String,
    /// Last-Modified.
    pub modified: String,
}

/// One case.
pub struct Case {
    /// What is asked, as a sentence.
    pub name: &'static str,
    /// Who passes.
    pub passes: Passes,
    /// Method.
    pub method: &'static str,
    /// Request target, as it goes over the wire.
    pub target: &'static str,
    /// Request header fields.
    pub fields: fn(&Facts) -> Vec<(&'static str, String)>,
    /// What must be true of the reply.
    pub check: fn(&Response) -> Result<(), String>,
}

/// Makes the folder that the table is about; its parent holds a file that must never be served.
pub fn fixture() -> io::Result<Scratch> {
    let scratch = Scratch::new("conformance")?;
    let root = scratch.directory("root")?;
    for name in [
        "title.mp4",
        "été.mp4",
        "with space.mp4",
        "per%cent.mp4",
        ".hidden.mp4",
    ] {
        pattern::write_file(&root.join(name), TITLE, SIZE)?;
    }
    fs::create_dir_all(root.join("folder/.git"))?;
    pattern::write_file(&root.join("folder/inner.mp4"), TITLE, SIZE)?;
    pattern::write_file(&root.join("folder/.git/config"), TITLE, SIZE)?;
    File::create(root.join("empty.mp4"))?;
    pattern::write_file(&scratch.path().join("secret.mp4"), 666, 1_000)?;
    std::os::unix::fs::symlink("../secret.mp4", root.join("link-out.mp4"))?;
    std::os::unix::fs::symlink("/etc/hostname", root.join("link-absolute"))?;
    std::os::unix::fs::symlink("..", root.join("link-folder"))?;
    std::os::unix::fs::symlink("title.mp4", root.join("link-in.mp4"))?;
    let past = SystemTime::now() - Duration::from_secs(3_600);
    for name in ["title.mp4", "empty.mp4", "folder/inner.mp4"] {
        File::options()
            .write(true)
            .open(root.join(name))?
            .set_modified(past)?;
    }
    Ok(scratch)
}

/// Where the root of a fixture is.
pub fn root_of(fixture: &Scratch) -> std::path::PathBuf {
    fixture.path().join("root")
}

/// Asks a peer what it says about the title.
pub fn facts(address: SocketAddr) -> Result<Facts, ClientError> {
    let response = client::fetch(address, "HEAD", "/title.mp4", &[])?;
    let field = |name: &str| {
        let missing = || ClientError::Unexpected(format!("{name} is missing: {response:?}"));
        response.field(name).map(str::to_owned).ok_or_else(missing)
    };
    Ok(Facts {
        etag: field("etag")?,
        modified: field("last-modified")?,
    })
}

/// Runs all cases that `only` lets through; one line for each that fails.
pub fn failures(address: SocketAddr, only: impl Fn(Passes) -> bool) -> Vec<String> {
    let facts = match facts(address) {
        Ok(facts) => facts,
        Err(error) => return vec![format!("no facts about the title: {error}")],
    };
    let cases = cases();
    let chosen = cases.iter().filter(|case| only(case.passes));
    chosen
        .filter_map(|case| {
            let reason = run(address, case, &facts).err()?;
            Some(format!(
                "{}: {} {}: {reason}",
                case.name, case.method, case.target
            ))
        })
        .collect()
}

fn run(address: SocketAddr, case: &Case, facts: &Facts) -> Result<(), String> {
    let fields = (case.fields)(facts);
    let fields: Vec<(&str, &str)> = fields
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let mut connection = Connection::open(address).map_err(|error| error.to_string())?;
    let request = request_text(case.method, case.target, &fields);
    connection
        .send(request.as_bytes())
        .map_err(|error| error.to_string())?;
    let response = connection
        .receive(case.method)
        .map_err(|error| error.to_string())?;
    (case.check)(&response)?;
    // Whatever was asked, the connection is either closed or in step.
    if response
        .field("connection")
        .is_some_and(|value| value.eq_ignore_ascii_case("close"))
    {
        return Ok(());
    }
    let after = connection.request("GET", "/title.mp4", &[("Range", "bytes=9-18")]);
    match after {
        Ok(after) => is_range(&after, 9, 18).map_err(|error| format!("the next request: {error}")),
        Err(error) if response.status() >= 400 && error.is_cut() => Ok(()),
        Err(error) => Err(format!("the next request: {error}")),
    }
}

// Requests.

fn none(_: &Facts) -> Vec<(&'static str, String)> {
    Vec::new()
}

macro_rules! fields {
    ($($name:literal => $value:expr),+) => {
        |_facts| vec![$(($name, $value.to_string())),+]
    };
}

macro_rules! fields_with {
    ($facts:ident: $($name:literal => $value:expr),+) => {
        |$facts: &Facts| vec![$(($name, $value.to_string())),+]
    };
}

/// A field of 7.8 KB: within the limits of both servers.
fn thousand_ranges(_: &Facts) -> Vec<(&'static str, String)> {
    let ranges: Vec<String> = (0..1_000).map(|n| format!("{n}-{n}")).collect();
    vec![("Range", format!("bytes={}", ranges.join(",")))]
}

const OLD: &str = "Thu, 01 Jan 2015 00:00:00 GMT";

/// The table.
#[expect(clippy::too_many_lines, reason = "a table")]
pub fn cases() -> Vec<Case> {
    use Passes::{Both, Ours};
    macro_rules! case {
        ($name:literal, $passes:expr, $method:literal $target:expr, $fields:expr, $check:expr) => {
            Case {
                name: $name,
                passes: $passes,
                method: $method,
                target: $target,
                fields: $fields,
                check: $check,
            }
        };
    }
    const T: &str = "/title.mp4";
    vec![
        // Whole files.
        case!("a file is served whole", Both, "GET" T, none, is_whole),
        case!("HEAD tells what GET would", Both, "HEAD" T, none, is_head_of_whole),
        case!("HEAD ignores ranges (14.2)", Both, "HEAD" T, fields!("Range" => "bytes=0-9"),
            |r| has_status(r, &[200, 206])),
        case!("a query does not change the file", Both, "GET" "/title.mp4?CMCD=bl%3D100", none,
            is_whole),
        case!("the media type follows the name", Both, "HEAD" T, none, |r| {
            match r.field("content-type") {
                Some("video/mp4") => Ok(()),
                other => Err(format!("{other:?}")),
            }
        }),
        // Single ranges.
        case!("the first byte", Both, "GET" T, fields!("Range" => "bytes=0-0"),
            |r| is_range(r, 0, 0)),
        case!("a range", Both, "GET" T, fields!("Range" => "bytes=131071-262145"),
            |r| is_range(r, 131_071, 262_145)),
        case!("an open range", Both, "GET" T, fields!("Range" => "bytes=999990-"),
            |r| is_range(r, 999_990, SIZE - 1)),
        case!("all of it as a range", Both, "GET" T, fields!("Range" => "bytes=0-"),
            |r| is_range(r, 0, SIZE - 1)),
        case!("a suffix", Both, "GET" T, fields!("Range" => "bytes=-10"),
            |r| is_range(r, SIZE - 10, SIZE - 1)),
        case!("a suffix longer than the file is the file", Both, "GET" T,
            fields!("Range" => "bytes=-2000000"), |r| is_range(r, 0, SIZE - 1)),
        case!("an end beyond the end is cut", Both, "GET" T,
            fields!("Range" => "bytes=1000000-99999999"), |r| is_range(r, 1_000_000, SIZE - 1)),
        case!("the last byte", Both, "GET" T, fields!("Range" => "bytes=1000002-1000002"),
            |r| is_range(r, SIZE - 1, SIZE - 1)),
        case!("a start at the end is unsatisfiable", Both, "GET" T,
            fields!("Range" => "bytes=1000003-"), is_unsatisfiable),
        case!("a start beyond the end is unsatisfiable", Both, "GET" T,
            fields!("Range" => "bytes=5000000-6000000"), is_unsatisfiable),
        case!("an empty suffix is unsatisfiable", Both, "GET" T, fields!("Range" => "bytes=-0"),
            is_unsatisfiable),
        // nginx answers 416 to these; 14.2 lets a server ignore what it does not understand.
        case!("a range backwards is ignored", Ours, "GET" T, fields!("Range" => "bytes=9-5"),
            is_whole),
        case!("a range of nonsense is ignored", Ours, "GET" T, fields!("Range" => "bytes=a-b"),
            is_whole),
        case!("numbers beyond 64 bits do not wrap", Ours, "GET" T,
            fields!("Range" => "bytes=99999999999999999999999-"), is_unsatisfiable),
        case!("an end beyond 64 bits is cut", Ours, "GET" T,
            fields!("Range" => "bytes=5-99999999999999999999999"), |r| is_range(r, 5, SIZE - 1)),
        case!("another unit is ignored", Both, "GET" T, fields!("Range" => "seconds=0-9"),
            is_whole),
        // Several ranges.
        case!("two ranges are two parts", Both, "GET" T,
            fields!("Range" => "bytes=0-99,500000-500099"),
            |r| is_parts(r, &[(0, 99), (500_000, 500_099)])),
        case!("spaces between ranges are allowed", Both, "GET" T,
            fields!("Range" => "bytes=0-99, -10"),
            |r| is_parts(r, &[(0, 99), (SIZE - 10, SIZE - 1)])),
        case!("of two ranges only one of which can be had, that one is sent", Both, "GET" T,
            fields!("Range" => "bytes=5-9,5000000-"), |r| is_range(r, 5, 9)),
        case!("two ranges beyond the end are unsatisfiable", Both, "GET" T,
            fields!("Range" => "bytes=2000000-3000000,5000000-"), is_unsatisfiable),
        // 15.3.7.2 lets a server coalesce; nginx sends the same bytes twice.
        case!("overlapping ranges are one", Ours, "GET" T, fields!("Range" => "bytes=0-99,50-149"),
            |r| is_range(r, 0, 149)),
        // RFC 9110 17.15: nginx sends all thousand parts.
        case!("a thousand ranges get the whole file", Ours, "GET" T, thousand_ranges, is_whole),
        case!("a thousand ranges get right bytes", Both, "GET" T, thousand_ranges,
            is_whole_or_right_parts),
        // Conditions.
        case!("the same tag is not sent again", Both, "GET" T,
            fields_with!(f: "If-None-Match" => f.etag), is_not_modified),
        case!("the same tag among others is not sent again", Both, "GET" T,
            fields_with!(f: "If-None-Match" => format!("\"x\", W/{}", f.etag)), is_not_modified),
        case!("any tag will do for a star", Both, "GET" T, fields!("If-None-Match" => "*"),
            is_not_modified),
        case!("another tag is sent", Both, "GET" T, fields!("If-None-Match" => "\"x\""), is_whole),
        case!("not modified since", Both, "GET" T,
            fields_with!(f: "If-Modified-Since" => f.modified), is_not_modified),
        case!("modified since", Both, "GET" T, fields!("If-Modified-Since" => OLD), is_whole),
        case!("a date that is none is ignored", Both, "GET" T,
            fields!("If-Modified-Since" => "yesterday"), is_whole),
        case!("a tag goes before a date", Both, "GET" T,
            fields_with!(f: "If-None-Match" => "\"x\"", "If-Modified-Since" => f.modified),
            is_whole),
        case!("the tag that is meant", Both, "GET" T, fields_with!(f: "If-Match" => f.etag),
            is_whole),
        case!("not the tag that is meant", Both, "GET" T, fields!("If-Match" => "\"x\""),
            is_failed_condition),
        case!("a weak tag never matches strongly", Both, "GET" T,
            fields_with!(f: "If-Match" => format!("W/{}", f.etag)), is_failed_condition),
        case!("unmodified since", Both, "GET" T,
            fields_with!(f: "If-Unmodified-Since" => f.modified), is_whole),
        case!("not unmodified since", Both, "GET" T, fields!("If-Unmodified-Since" => OLD),
            is_failed_condition),
        case!("HEAD knows conditions too", Both, "HEAD" T,
            fields_with!(f: "If-None-Match" => f.etag), is_not_modified),
        case!("a condition that fails goes before a range that cannot be had", Both, "GET" T,
            fields!("If-Match" => "\"x\"", "Range" => "bytes=5000000-"), is_failed_condition),
        case!("If-Range with the same tag", Both, "GET" T,
            fields_with!(f: "If-Range" => f.etag, "Range" => "bytes=5-9"), |r| is_range(r, 5, 9)),
        case!("If-Range with another tag gets all", Both, "GET" T,
            fields!("If-Range" => "\"x\"", "Range" => "bytes=5-9"), is_whole),
        case!("If-Range with a weak tag gets all (13.1.5)", Both, "GET" T,
            fields_with!(f: "If-Range" => format!("W/{}", f.etag), "Range" => "bytes=5-9"),
            is_whole),
        case!("If-Range with the same date", Both, "GET" T,
            fields_with!(f: "If-Range" => f.modified, "Range" => "bytes=5-9"),
            |r| is_range(r, 5, 9)),
        case!("If-Range with another date gets all", Both, "GET" T,
            fields!("If-Range" => OLD, "Range" => "bytes=5-9"), is_whole),
        case!("If-Range that fails makes no range unsatisfiable", Both, "GET" T,
            fields!("If-Range" => "\"x\"", "Range" => "bytes=5000000-"), is_whole),
        // Methods.
        case!("what is not read is not allowed", Both, "DELETE" T, none, |r| {
            has_status(r, &[405])
        }),
        case!("405 names what is allowed (15.5.6)", Ours, "DELETE" T, none, |r| {
            let allow = r.field("allow").unwrap_or_default();
            let all = ["GET", "HEAD", "OPTIONS"].iter().all(|method| allow.contains(method));
            if all { Ok(()) } else { Err(format!("allow {allow:?}")) }
        }),
        case!("OPTIONS tells what is allowed", Ours, "OPTIONS" T, none, |r| {
            has_status(r, &[200, 204])?;
            r.field("allow").map(|_| ()).ok_or_else(|| "no Allow".to_owned())
        }),
        // Other origins.
        case!("a browser may ask first", Ours, "OPTIONS" T,
            fields!("Origin" => "https://a.example", "Access-Control-Request-Method" => "GET",
                "Access-Control-Request-Headers" => "range,cmcd-session"), is_preflight),
        case!("pages of other origins may read a range", Ours, "GET" T,
        fields!("Origin" => "https://a.example", "Range" => "bytes=5-9"), |r| {
            is_range(r, 5, 9)?;
            allows_any_origin(r)
        }),
        case!("and may see an error", Ours, "GET" "/nothing",
        fields!("Origin" => "https://a.example"), |r| {
            is_not_found(r)?;
            allows_any_origin(r)
        }),
        // Names.
        case!("a name with a space", Both, "GET" "/with%20space.mp4", none, is_whole),
        case!("a name in UTF-8", Both, "GET" "/%C3%A9t%C3%A9.mp4", none, is_whole),
        case!("a name in UTF-8, escaped in lower case", Both, "GET" "/%c3%a9t%c3%a9.mp4", none,
            is_whole),
        case!("a name with a percent sign", Both, "GET" "/per%25cent.mp4", none, is_whole),
        case!("letters may be escaped", Both, "GET" "/%74itle.mp4", none, is_whole),
        case!("in a folder", Both, "GET" "/folder/inner.mp4", none, is_whole),
        case!("a link within the root", Both, "GET" "/link-in.mp4", none, is_whole),
        case!("nothing there", Both, "GET" "/nothing.mp4", none, is_not_found),
        case!("a file is no folder", Both, "GET" "/title.mp4/x", none, is_not_found),
        case!("names are told apart by case", Both, "GET" "/Title.mp4", none, is_not_found),
        case!("folders are not listed", Both, "GET" "/folder/", none, is_refused),
        case!("nor is the root", Both, "GET" "/", none, is_refused),
        // nginx redirects to the name with a slash.
        case!("a folder without a slash is not found", Ours, "GET" "/folder", none, is_not_found),
        case!("a folder in the way is not found", Both, "GET" "/folder/nothing", none,
            is_not_found),
        // Ways out.
        case!("up from the root", Both, "GET" "/../secret.mp4", none, is_refused),
        case!("up and down", Both, "GET" "/folder/../../secret.mp4", none, is_refused),
        case!("up in disguise", Both, "GET" "/%2e%2e/secret.mp4", none, is_refused),
        case!("half in disguise", Both, "GET" "/.%2E/secret.mp4", none, is_refused),
        case!("with the slash in disguise", Both, "GET" "/..%2fsecret.mp4", none, is_refused),
        case!("decoded once only", Both, "GET" "/%252e%252e/secret.mp4", none, is_refused),
        case!("a backslash is no slash", Both, "GET" "/..\\secret.mp4", none, is_refused),
        case!("with a NUL", Both, "GET" "/title.mp4%00.jpg", none, is_bad_request),
        case!("a broken escape", Both, "GET" "/title.mp4%2", none, is_refused),
        // nginx follows links and serves hidden files unless told otherwise.
        case!("a link out", Ours, "GET" "/link-out.mp4", none, is_not_found),
        case!("an absolute link out", Ours, "GET" "/link-absolute", none, is_not_found),
        case!("a linked folder out", Ours, "GET" "/link-folder/secret.mp4", none, is_not_found),
        case!("a hidden file", Ours, "GET" "/.hidden.mp4", none, is_not_found),
        case!("a hidden file in disguise", Ours, "GET" "/%2ehidden.mp4", none, is_not_found),
        case!("in a hidden folder", Ours, "GET" "/folder/.git/config", none, is_not_found),
        // Files without bytes.
        case!("an empty file", Both, "GET" "/empty.mp4", none, is_empty_file),
        case!("HEAD of an empty file", Both, "HEAD" "/empty.mp4", none, is_empty_file),
        case!("a range of an empty file", Both, "GET" "/empty.mp4", fields!("Range" => "bytes=0-"),
            |r| has_status(r, &[416, 200])),
        case!("a suffix of an empty file", Both, "GET" "/empty.mp4",
            fields!("Range" => "bytes=-5"), |r| has_status(r, &[416, 200])),
    ]
}
