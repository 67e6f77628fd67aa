//! Conformance table for a file server over HTTP (RFC 9110), applicable to any server.
//!
//! Each case names the servers that must pass it. Where nginx deviates, the case applies to this
//! server only and states why: the RFC leaves the behaviour open, or this server is stricter on
//! purpose.

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

/// Servers that must pass a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppliesTo {
    /// Any server that follows the RFC.
    Both,
    /// This project's server only.
    Ours,
}

/// Validators of the test title, as the server sent them; used in conditional requests.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Entity tag.
    pub etag: String,
    /// Last-Modified.
    pub modified: String,
}

/// One case.
pub struct Case {
    /// Expected behaviour, as a short sentence.
    pub name: &'static str,
    /// Servers that must pass.
    pub passes: AppliesTo,
    /// Method.
    pub method: &'static str,
    /// Request target, as sent.
    pub target: &'static str,
    /// Request header fields.
    pub fields: fn(&Facts) -> Vec<(&'static str, String)>,
    /// Assertion on the response.
    pub check: fn(&Response) -> Result<(), String>,
}

/// Creates the folder that the table tests; its parent holds a file that must never be served.
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

/// Root folder of a fixture.
pub fn root_of(fixture: &Scratch) -> std::path::PathBuf {
    fixture.path().join("root")
}

/// Fetches the validators of the test title.
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

/// Runs all cases that `only` selects; returns one line for each failure.
pub fn failures(address: SocketAddr, only: impl Fn(AppliesTo) -> bool) -> Vec<String> {
    let facts = match facts(address) {
        Ok(facts) => facts,
        Err(error) => return vec![format!("validators of the title: {error}")],
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
    // After any response the connection is either closed or still in step.
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
    use AppliesTo::{Both, Ours};
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
        case!("HEAD has the header fields of GET", Both, "HEAD" T, none, is_head_of_whole),
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
        case!("a suffix longer than the file covers the file", Both, "GET" T,
            fields!("Range" => "bytes=-2000000"), |r| is_range(r, 0, SIZE - 1)),
        case!("an end beyond the file is clamped", Both, "GET" T,
            fields!("Range" => "bytes=1000000-99999999"), |r| is_range(r, 1_000_000, SIZE - 1)),
        case!("the last byte", Both, "GET" T, fields!("Range" => "bytes=1000002-1000002"),
            |r| is_range(r, SIZE - 1, SIZE - 1)),
        case!("a start at the end is unsatisfiable", Both, "GET" T,
            fields!("Range" => "bytes=1000003-"), is_unsatisfiable),
        case!("a start beyond the end is unsatisfiable", Both, "GET" T,
            fields!("Range" => "bytes=5000000-6000000"), is_unsatisfiable),
        case!("an empty suffix is unsatisfiable", Both, "GET" T, fields!("Range" => "bytes=-0"),
            is_unsatisfiable),
        // nginx answers 416 to these; section 14.2 allows a server to ignore a range that it does
        // not understand.
        case!("a reversed range is ignored", Ours, "GET" T, fields!("Range" => "bytes=9-5"),
            is_whole),
        case!("a malformed range is ignored", Ours, "GET" T, fields!("Range" => "bytes=a-b"),
            is_whole),
        case!("numbers beyond 64 bits do not wrap", Ours, "GET" T,
            fields!("Range" => "bytes=99999999999999999999999-"), is_unsatisfiable),
        case!("an end beyond 64 bits is clamped", Ours, "GET" T,
            fields!("Range" => "bytes=5-99999999999999999999999"), |r| is_range(r, 5, SIZE - 1)),
        case!("another unit is ignored", Both, "GET" T, fields!("Range" => "seconds=0-9"),
            is_whole),
        // Several ranges.
        case!("two ranges give two parts", Both, "GET" T,
            fields!("Range" => "bytes=0-99,500000-500099"),
            |r| is_parts(r, &[(0, 99), (500_000, 500_099)])),
        case!("spaces between ranges are allowed", Both, "GET" T,
            fields!("Range" => "bytes=0-99, -10"),
            |r| is_parts(r, &[(0, 99), (SIZE - 10, SIZE - 1)])),
        case!("only the satisfiable range of two is sent", Both, "GET" T,
            fields!("Range" => "bytes=5-9,5000000-"), |r| is_range(r, 5, 9)),
        case!("two ranges beyond the end are unsatisfiable", Both, "GET" T,
            fields!("Range" => "bytes=2000000-3000000,5000000-"), is_unsatisfiable),
        // Section 15.3.7.2 allows a server to coalesce; nginx sends the same bytes twice.
        case!("overlapping ranges coalesce", Ours, "GET" T, fields!("Range" => "bytes=0-99,50-149"),
            |r| is_range(r, 0, 149)),
        // RFC 9110 17.15: nginx sends all thousand parts.
        case!("a thousand ranges give the whole file", Ours, "GET" T, thousand_ranges, is_whole),
        case!("a thousand ranges give correct bytes", Both, "GET" T, thousand_ranges,
            is_whole_or_right_parts),
        // Conditions.
        case!("a matching tag gives 304", Both, "GET" T,
            fields_with!(f: "If-None-Match" => f.etag), is_not_modified),
        case!("a matching tag in a list gives 304", Both, "GET" T,
            fields_with!(f: "If-None-Match" => format!("\"x\", W/{}", f.etag)), is_not_modified),
        case!("a star matches any tag", Both, "GET" T, fields!("If-None-Match" => "*"),
            is_not_modified),
        case!("a new tag gives 200", Both, "GET" T, fields!("If-None-Match" => "\"x\""), is_whole),
        case!("not modified since", Both, "GET" T,
            fields_with!(f: "If-Modified-Since" => f.modified), is_not_modified),
        case!("modified since", Both, "GET" T, fields!("If-Modified-Since" => OLD), is_whole),
        case!("an invalid date is ignored", Both, "GET" T,
            fields!("If-Modified-Since" => "yesterday"), is_whole),
        case!("a tag takes precedence over a date", Both, "GET" T,
            fields_with!(f: "If-None-Match" => "\"x\"", "If-Modified-Since" => f.modified),
            is_whole),
        case!("If-Match with the same tag", Both, "GET" T, fields_with!(f: "If-Match" => f.etag),
            is_whole),
        case!("If-Match with another tag", Both, "GET" T, fields!("If-Match" => "\"x\""),
            is_failed_condition),
        case!("a weak tag never matches strongly", Both, "GET" T,
            fields_with!(f: "If-Match" => format!("W/{}", f.etag)), is_failed_condition),
        case!("unmodified since", Both, "GET" T,
            fields_with!(f: "If-Unmodified-Since" => f.modified), is_whole),
        case!("not unmodified since", Both, "GET" T, fields!("If-Unmodified-Since" => OLD),
            is_failed_condition),
        case!("HEAD honours conditions", Both, "HEAD" T,
            fields_with!(f: "If-None-Match" => f.etag), is_not_modified),
        case!("a failed condition precedes an unsatisfiable range", Both, "GET" T,
            fields!("If-Match" => "\"x\"", "Range" => "bytes=5000000-"), is_failed_condition),
        case!("If-Range with the same tag", Both, "GET" T,
            fields_with!(f: "If-Range" => f.etag, "Range" => "bytes=5-9"), |r| is_range(r, 5, 9)),
        case!("If-Range with another tag gives the whole file", Both, "GET" T,
            fields!("If-Range" => "\"x\"", "Range" => "bytes=5-9"), is_whole),
        case!("If-Range with a weak tag gives the whole file (13.1.5)", Both, "GET" T,
            fields_with!(f: "If-Range" => format!("W/{}", f.etag), "Range" => "bytes=5-9"),
            is_whole),
        case!("If-Range with the same date", Both, "GET" T,
            fields_with!(f: "If-Range" => f.modified, "Range" => "bytes=5-9"),
            |r| is_range(r, 5, 9)),
        case!("If-Range with another date gives the whole file", Both, "GET" T,
            fields!("If-Range" => OLD, "Range" => "bytes=5-9"), is_whole),
        case!("a range is ignored if If-Range fails", Both, "GET" T,
            fields!("If-Range" => "\"x\"", "Range" => "bytes=5000000-"), is_whole),
        // Methods.
        case!("a method that writes is not allowed", Both, "DELETE" T, none, |r| {
            has_status(r, &[405])
        }),
        case!("405 lists the allowed methods (15.5.6)", Ours, "DELETE" T, none, |r| {
            let allow = r.field("allow").unwrap_or_default();
            let all = ["GET", "HEAD", "OPTIONS"].iter().all(|method| allow.contains(method));
            if all { Ok(()) } else { Err(format!("allow {allow:?}")) }
        }),
        case!("OPTIONS lists the allowed methods", Ours, "OPTIONS" T, none, |r| {
            has_status(r, &[200, 204])?;
            r.field("allow").map(|_| ()).ok_or_else(|| "no Allow".to_owned())
        }),
        // Other origins.
        case!("a preflight request is answered", Ours, "OPTIONS" T,
            fields!("Origin" => "https://a.example", "Access-Control-Request-Method" => "GET",
                "Access-Control-Request-Headers" => "range,cmcd-session"), is_preflight),
        case!("another origin may read a range", Ours, "GET" T,
        fields!("Origin" => "https://a.example", "Range" => "bytes=5-9"), |r| {
            is_range(r, 5, 9)?;
            allows_any_origin(r)
        }),
        case!("another origin may see an error", Ours, "GET" "/nothing",
        fields!("Origin" => "https://a.example"), |r| {
            is_not_found(r)?;
            allows_any_origin(r)
        }),
        // Paths.
        case!("a name with a space", Both, "GET" "/with%20space.mp4", none, is_whole),
        case!("a name in UTF-8", Both, "GET" "/%C3%A9t%C3%A9.mp4", none, is_whole),
        case!("a name in UTF-8, escaped in lower case", Both, "GET" "/%c3%a9t%c3%a9.mp4", none,
            is_whole),
        case!("a name with a percent sign", Both, "GET" "/per%25cent.mp4", none, is_whole),
        case!("an escaped letter is decoded", Both, "GET" "/%74itle.mp4", none, is_whole),
        case!("a file in a folder", Both, "GET" "/folder/inner.mp4", none, is_whole),
        case!("a link within the root", Both, "GET" "/link-in.mp4", none, is_whole),
        case!("a missing file", Both, "GET" "/nothing.mp4", none, is_not_found),
        case!("a file is not a folder", Both, "GET" "/title.mp4/x", none, is_not_found),
        case!("names are case sensitive", Both, "GET" "/Title.mp4", none, is_not_found),
        case!("folders are not listed", Both, "GET" "/folder/", none, is_refused),
        case!("the root is not listed", Both, "GET" "/", none, is_refused),
        // nginx redirects to the name with a slash.
        case!("a folder without a slash is not found", Ours, "GET" "/folder", none, is_not_found),
        case!("a missing file in a folder", Both, "GET" "/folder/nothing", none,
            is_not_found),
        // Path traversal.
        case!("up from the root", Both, "GET" "/../secret.mp4", none, is_refused),
        case!("up and down", Both, "GET" "/folder/../../secret.mp4", none, is_refused),
        case!("up, escaped", Both, "GET" "/%2e%2e/secret.mp4", none, is_refused),
        case!("up, half escaped", Both, "GET" "/.%2E/secret.mp4", none, is_refused),
        case!("up, with an escaped slash", Both, "GET" "/..%2fsecret.mp4", none, is_refused),
        case!("escapes are decoded once", Both, "GET" "/%252e%252e/secret.mp4", none, is_refused),
        case!("a backslash is not a separator", Both, "GET" "/..\\secret.mp4", none, is_refused),
        case!("a NUL in the name", Both, "GET" "/title.mp4%00.jpg", none, is_bad_request),
        case!("a broken escape", Both, "GET" "/title.mp4%2", none, is_refused),
        // nginx follows symbolic links and serves hidden files by default.
        case!("a link out of the root", Ours, "GET" "/link-out.mp4", none, is_not_found),
        case!("an absolute link out", Ours, "GET" "/link-absolute", none, is_not_found),
        case!("a linked folder out", Ours, "GET" "/link-folder/secret.mp4", none, is_not_found),
        case!("a hidden file", Ours, "GET" "/.hidden.mp4", none, is_not_found),
        case!("a hidden file, escaped", Ours, "GET" "/%2ehidden.mp4", none, is_not_found),
        case!("a file in a hidden folder", Ours, "GET" "/folder/.git/config", none, is_not_found),
        // Empty files.
        case!("an empty file", Both, "GET" "/empty.mp4", none, is_empty_file),
        case!("HEAD of an empty file", Both, "HEAD" "/empty.mp4", none, is_empty_file),
        case!("a range of an empty file", Both, "GET" "/empty.mp4", fields!("Range" => "bytes=0-"),
            is_empty_file),
        case!("a slice of an empty file", Both, "GET" "/empty.mp4",
            fields!("Range" => "bytes=0-1048575"), is_empty_file),
        case!("a suffix of an empty file", Both, "GET" "/empty.mp4",
            fields!("Range" => "bytes=-5"), |r| has_status(r, &[416, 200])),
    ]
}
