//! Three usual files of nginx and what the server makes of them, side by side: each request gets
//! the same answer from both, except for differences that from-nginx.md names.

use std::collections::BTreeSet;
use std::io::Write as _;

use headlong_e2e_tests::side_by_side::{
    Case, Difference, Ground, Places, Sides, Use, differences, usual_cases,
};
use headlong_e2e_tests::{Nginx, have_or_skip};
use headlong_testkit::Scratch;

/// A difference on purpose.
struct Named {
    name: &'static str,
    /// What from-nginx.md says about it.
    manual: &'static str,
    is: fn(&Difference) -> bool,
}

const fn named(name: &'static str, manual: &'static str, is: fn(&Difference) -> bool) -> Named {
    Named { name, manual, is }
}

/// Differences in fields, which any case may have.
const OF_FIELDS: &[Named] = &[
    named(
        "ranges accepted",
        "Replies with ranges have `Accept-Ranges`, too",
        |d| (d.aspect, d.status, &*d.nginx) == ("accept-ranges", 206, ""),
    ),
    named("date of a 304", "A 304 has no `Last-Modified`", |d| {
        (d.aspect, d.status, &*d.headlong) == ("last-modified", 304, "")
    }),
    named("fields of errors", "and no fields of `headers`", |d| {
        d.aspect == "strict-transport-security" && d.status >= 400 && d.headlong.is_empty()
    }),
    named(
        "open after 400",
        "nginx closes connections after its replies 400, and after `TRACE`",
        |d| (d.aspect, &*d.headlong) == ("connection", "") && d.status >= 400,
    ),
    named(
        "closed after a body",
        "A request with a body is answered, and its connection is closed",
        |d| (d.aspect, &*d.nginx, &*d.headlong) == ("connection", "", "close"),
    ),
    named(
        "field with a variable",
        "`add_header` with variables",
        |d| ["content-security-policy", "x-cache"].contains(&d.aspect) && d.headlong.is_empty(),
    ),
    named("vary", "with `Vary: Origin`", |d| {
        let varied = format!("{}, origin", d.nginx);
        d.aspect == "vary" && d.headlong == varied.trim_start_matches(", ")
    }),
    named("fixed origin", "is sent to the listed origins only", |d| {
        d.aspect == "access-control-allow-origin" && d.headlong.is_empty()
    }),
    named("origin in errors", "and in errors, too", |d| {
        d.aspect == "access-control-allow-origin" && d.nginx.is_empty() && d.status >= 400
    }),
    named(
        "gzip by default",
        "on by default for playlists and other texts",
        |d| {
            (d.aspect, &*d.headlong) == ("content-encoding", "gzip")
                || (d.aspect, &*d.headlong) == ("vary", "accept-encoding")
                || (d.aspect == "content-length" && d.headlong.is_empty())
                || (d.aspect, d.status, &*d.headlong) == ("accept-ranges", 200, "")
        },
    ),
    named("tag of gzip", "Entity tags differ", |d| {
        (d.aspect, &*d.nginx, &*d.headlong) == ("etag", "weak", "strong")
    }),
    named("charset", "have `charset=utf-8`", |d| {
        d.aspect == "content-type" && d.headlong == format!("{}; charset=utf-8", d.nginx)
    }),
    named(
        "past expiry",
        "for `-1` and `epoch` write `cache_control = \"no-cache\"`",
        |d| d.aspect == "expires" && d.headlong.is_empty(),
    ),
];

fn in_status(d: &Difference) -> bool {
    d.aspect == "status"
}

/// Differences of single cases.
const OF_CASES: &[Named] = &[
    named(
        "range ignored",
        "a malformed or reversed one is ignored",
        in_status,
    ),
    named("range of HEAD", "those of HEAD (nginx: 206)", in_status),
    named(
        "one range for two",
        "Overlapping ranges are sent once",
        |d| ["parts", "content-range", "content-length", "content-type"].contains(&d.aspect),
    ),
    named("options", "`OPTIONS` gets 204", in_status),
    named("no index", "`index` pages are not served: 404", in_status),
    named(
        "no slash",
        "Folders are redirected to their URL with a slash only where they are listed",
        in_status,
    ),
    named("dot", "Names that begin with a dot", in_status),
    named(
        "segments",
        "A path with a `.` or `..` segment or an encoded slash",
        in_status,
    ),
    named("long head", "A head that is too long gets 431", in_status),
    named("program", "`proxy_pass` to a program", in_status),
    named(
        "closed",
        "Closed paths get 403, whatever nginx's `return` or `internal`",
        in_status,
    ),
    named(
        "redirect",
        "Redirects to other places (`return 301`)",
        in_status,
    ),
    named(
        "redirected host",
        "A host that nginx only redirects gets the files of the first",
        in_status,
    ),
    named("listing", "Listings have another form", |d| {
        d.aspect != "status"
    }),
    named(
        "challenge",
        "challenges of ACME are sent without validators",
        |d| ["accept-ranges", "cache-control", "etag", "last-modified"].contains(&d.aspect),
    ),
    named("field of GET", "Fields that an `if` sets for GET", |d| {
        d.aspect == "access-control-allow-origin" && d.nginx.is_empty()
    }),
    named("password", "`auth_basic`", in_status),
    named("pattern", "locations by regular expression", |d| {
        d.aspect == "status" || d.aspect == "cache-control"
    }),
    named(
        "pattern of origins",
        "the origins that it lists, without patterns",
        |d| d.aspect == "access-control-allow-origin",
    ),
    named(
        "parts of slices",
        "nginx's `slice` answers several ranges with the whole file",
        in_status,
    ),
    named(
        "refusing origin",
        "or redirects a folder, an edge answers 502",
        in_status,
    ),
    named(
        "silent origin",
        "does not answer, the 502 has `Retry-After`",
        |d| d.aspect == "retry-after",
    ),
    named(
        "cache of others",
        "gives one site the titles of another",
        in_status,
    ),
];

/// The differences of the usual cases that all sites have.
const USUAL: &[(&str, &str)] = &[
    ("reversed range", "range ignored"),
    ("malformed range", "range ignored"),
    ("HEAD with a range", "range of HEAD"),
    ("dot name", "dot"),
    ("dot segment", "segments"),
    ("two dots", "segments"),
    ("escaped slash", "segments"),
    ("long field", "long head"),
];

/// Sends all cases to both sides, and reports what differs without a name, and names without a
/// difference.
fn compare(sides: &Sides, cases: &[Case], expected: &[(&str, &str)]) -> Vec<String> {
    let mut lines = Vec::new();
    let names: BTreeSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names.len(), cases.len(), "names of cases are unique");
    let named = |name: &str| OF_CASES.iter().find(|of| of.name == name);
    for case in cases {
        let (nginx, headlong) = sides.ask(case);
        let found = differences(&nginx, &headlong);
        let expected = expected.iter().filter(|(of, _)| *of == case.name);
        let expected: Vec<&Named> = expected.filter_map(|(_, name)| named(name)).collect();
        let is_named = |d: &&Difference| {
            let mut all = OF_FIELDS.iter().chain(expected.iter().copied());
            all.any(|of| (of.is)(d))
        };
        let unnamed = found.iter().filter(|d| !is_named(d));
        lines.extend(unnamed.map(|d| format!("{}: {d}", case.name)));
        let gone = expected
            .iter()
            .filter(|of| !found.iter().any(|d| (of.is)(d)));
        lines.extend(gone.map(|of| format!("{}: the same, in spite of {:?}", case.name, of.name)));
    }
    let is_case = |name: &str| names.contains(name);
    let lost = expected
        .iter()
        .filter(|(case, name)| !is_case(case) || named(name).is_none());
    lines.extend(lost.map(|(case, name)| format!("no case {case:?}, or no name {name:?}")));
    lines
}

fn assert_same(sides: &Sides, cases: &[Case], expected: &[(&str, &str)]) {
    assert!(cases.len() >= 60, "{} cases", cases.len());
    let lines = compare(sides, cases, expected);
    let (toml, findings) = &sides.converted;
    assert!(
        lines.is_empty(),
        "\n{}\n\n{toml}\n{findings}",
        lines.join("\n")
    );
}

/// A folder with a certificate for `localhost`.
fn ground() -> Ground {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
    let (der, chain) = (made.cert.der().to_vec(), made.cert.pem());
    let key = made.signing_key.serialize_pem();
    Ground::new((&der, &chain, &key)).expect("a folder")
}

/// Writes the files of the usual cases into a folder.
fn fill(ground: &Ground, folder: &str) {
    for name in [
        "title.mp4",
        "a b.mp4",
        "été.mp4",
        "100%.mp4",
        "sub/inner.mp4",
        ".hidden.mp4",
    ] {
        let title = ground.write_title(&format!("{folder}/{name}"));
        title.expect(name);
    }
    let list = "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXTINF:4.0,\nsub/inner.mp4\n#EXT-X-ENDLIST\n";
    for (name, text) in [("empty.mp4", ""), ("list.m3u8", list)] {
        let written = ground.write(&format!("{folder}/{name}"), text.as_bytes());
        written.expect(name);
    }
}

/// Another server with this answer to everything.
fn program(answer: &str) -> Nginx {
    let root = Scratch::new("program").expect("a folder");
    let directives = format!("location / {{ {answer} }}");
    Nginx::start_with(root.path(), &directives).expect("a program")
}

fn have_nginx(test: &str) -> bool {
    have_or_skip(test, "nginx")
}

#[test]
fn front_of_jellyfin_answers_as_nginx() {
    if !have_nginx("front_of_jellyfin_answers_as_nginx") {
        return;
    }
    let ground = ground();
    fill(&ground, "disk1/films");
    fill(&ground, "disk1/shows");
    fill(&ground, "disk2/kids");
    let token = ground.write("webroot/.well-known/acme-challenge/tok-1", b"tok-1.key");
    token.expect("written");
    let program = program("return 200 'jellyfin';");
    let upstreams = [("http://$jellyfin:8096", program.address())];
    let upstreams = upstreams.map(|(text, address)| (text, format!("http://{address}")));
    let sides = start(
        &ground,
        "jellyfin.conf",
        &[(443, Use::Tls), (80, Use::Redirect)],
        &upstreams,
    );
    let at = Places {
        port: 443,
        host: "media.example.org",
        folder: "/shows/",
    };
    let mut cases = usual_cases(&at);
    cases.extend([
        at.get("listed folder", "/films/"),
        at.get("listed folder without a slash", "/films"),
        at.get("file with fields", "/films/title.mp4"),
        at.get("page of the site", "/films/title.mp4")
            .field("Origin", "https://tv.example.org"),
        at.get("file below another name", "/children/title.mp4")
            .field("Range", "bytes=1000000-1999999"),
        at.get("folder below another name", "/kids/title.mp4"),
        at.get("start page", "/"),
        at.get("program", "/web/index.html"),
        at.get("web socket", "/socket")
            .field("Upgrade", "websocket"),
        at.get("text of the file", "/robots.txt"),
        at.get("http", "/films/title.mp4?a=b").port(80),
        at.case("HEAD over http", "HEAD", "/films/title.mp4")
            .port(80),
        at.get("challenge", "/.well-known/acme-challenge/tok-1")
            .port(80),
        at.get("missing challenge", "/.well-known/acme-challenge/tok-2")
            .port(80),
        at.get("http to another host", "/x")
            .port(80)
            .host(Some("x.example")),
    ]);
    let expected = [
        ("overlapping ranges", "one range for two"),
        ("OPTIONS", "options"),
        ("folder", "no index"),
        ("folder without a slash", "program"),
        ("sub-folder without a slash", "no slash"),
        ("listed folder", "listing"),
        ("listed folder without a slash", "program"),
        ("folder below another name", "program"),
        ("start page", "redirect"),
        ("program", "program"),
        ("web socket", "program"),
        ("text of the file", "closed"),
        ("challenge", "challenge"),
    ];
    assert_same(&sides, &cases, &[USUAL, &expected].concat());
}

fn start(ground: &Ground, conf: &str, ports: &[(u16, Use)], upstreams: &[(&str, String)]) -> Sides {
    ground.start(conf, ports, upstreams).expect("both servers")
}

#[test]
fn origin_with_signed_links_answers_as_nginx() {
    if !have_nginx("origin_with_signed_links_answers_as_nginx") {
        return;
    }
    let ground = ground();
    fill(&ground, "vod/trailers");
    fill(&ground, "vod/films");
    fill(&ground, "vod/members");
    ground.write("images/a.jpg", b"an image").expect("written");
    for name in [
        "staff/a.mp4",
        "masters/a.mp4",
        "upload/a.mp4",
        "other/a.mp4",
        "error.html",
    ] {
        ground.write(&format!("vod/{name}"), b"a file").expect(name);
    }
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed
        .write_all(b"WEBVTT\n\n00:00.000 --> 00:01.000\na\n")
        .expect("packed");
    let plain = b"WEBVTT\n\n00:00.000 --> 00:01.000\na\n";
    ground.write("vod/trailers/a.vtt", plain).expect("written");
    let packed = packed.finish().expect("packed");
    ground
        .write("vod/trailers/a.vtt.gz", &packed)
        .expect("written");
    let auth = program("if ($http_cookie = 'member') { return 204; } return 403;");
    let upstreams = [("127.0.0.1:9000", auth.address().to_string())];
    let sides = start(
        &ground,
        "vod.conf",
        &[(8080, Use::Plain), (8081, Use::Proxied)],
        &upstreams,
    );
    let at = Places {
        port: 8080,
        host: "vod.example.org",
        folder: "/trailers/",
    };
    let mut cases = usual_cases(&at);
    let (far, past) = ("4000000000", "1000000000");
    let link = |path: &str, expires: &str| {
        let sign = sign(&format!("{expires}{path}127.0.0.1 segredo \"x\""));
        format!("{path}?st={sign}&e={expires}")
    };
    let good = link("/films/title.mp4", far);
    cases.extend([
        at.get("signed link", &good),
        at.get("range of a signed link", &good)
            .field("Range", "bytes=900000-2100000"),
        at.case("HEAD of a signed link", "HEAD", &good),
        at.get("same tag of a signed link", &good)
            .field("If-None-Match", "{etag}"),
        at.get("signed playlist", &link("/films/list.m3u8", far)),
        at.get("expired link", &link("/films/title.mp4", past)),
        at.get("link of another file", &good.replace("title", "list")),
        at.get("wrong link", &good.replace("st=", "st=x")),
        at.get("link with another time", &good.replace("e=4", "e=5")),
        at.get("no link", "/films/title.mp4"),
        at.get("link of a missing file", &link("/films/nothing.mp4", far)),
        at.get("link of a folder", &link("/films/", far)),
        at.get("ready-made gzip", "/trailers/a.vtt")
            .field("Accept-Encoding", "gzip"),
        at.get("without ready-made gzip", "/trailers/a.vtt"),
        at.get("page of a friend", "/trailers/title.mp4")
            .field("Referer", "https://a.example.com/x"),
        at.get("page of a stranger", "/trailers/title.mp4")
            .field("Referer", "https://evil.example/x"),
        at.get("page of the site itself", "/trailers/title.mp4")
            .field("Referer", "http://vod.example.org/"),
        at.get("page with a masked referer", "/trailers/title.mp4")
            .field("Referer", "masked"),
        at.get("member", "/members/title.mp4")
            .field("Cookie", "member"),
        at.get("no member", "/members/title.mp4"),
        at.get("missing file of members", "/members/nothing.mp4")
            .field("Cookie", "member"),
        at.get("location of the check", "/auth"),
        at.get("password", "/staff/a.mp4"),
        at.get("internal", "/masters/a.mp4"),
        at.get("denied", "/upload/a.mp4"),
        at.get("start page", "/"),
        at.get("file outside of all locations", "/other/a.mp4"),
        at.get("image of another host", "/a.jpg")
            .host(Some("images.example.org")),
        at.get("image of this host", "/a.jpg"),
        at.get("host of a wildcard", "/trailers/title.mp4")
            .host(Some("a.vod.example.org")),
        at.get("title of another host", "/trailers/title.mp4")
            .host(Some("images.example.org")),
    ]);
    let expected = [
        ("overlapping ranges", "one range for two"),
        ("folder without a slash", "closed"),
        ("link of a folder", "no index"),
        ("signed playlist", "pattern"),
        ("location of the check", "closed"),
        ("password", "password"),
        ("internal", "closed"),
        ("file outside of all locations", "closed"),
        ("image of this host", "closed"),
    ];
    assert_same(&sides, &cases, &[USUAL, &expected].concat());
}

/// A signature of `secure_link_md5`, by the command of nginx's manual.
fn sign(text: &str) -> String {
    let script = "printf %s \"$1\" | openssl md5 -binary | openssl base64 | tr +/ -_ | tr -d =";
    let mut command = std::process::Command::new("sh");
    let output = command
        .args(["-c", script, "sh", text])
        .output()
        .expect("a shell");
    String::from_utf8(output.stdout)
        .expect("text")
        .trim()
        .to_owned()
}

#[test]
fn site_of_many_locations_answers_as_nginx() {
    if !have_nginx("site_of_many_locations_answers_as_nginx") {
        return;
    }
    let ground = ground();
    fill(&ground, "mnt/hls");
    for name in [
        "www/a.mp4",
        "www/hlsx.mp4",
        "www/hls/a.mp4",
        "www/last/a.mp4",
        "www/last/secret/a.mp4",
        "www/members/a.mp4",
        "mnt/other/a.mp4",
        "shared/open/a.mp4",
        "shared/b.mp4",
        "uploads/a.mp4",
        "uploads/hd/a.mp4",
        "uploads/private/a.mp4",
        "private/a.mp4",
    ] {
        ground.write_title(name).expect(name);
    }
    let sides = start(&ground, "usual.conf", &[(8100, Use::Plain)], &[]);
    let at = Places {
        port: 8100,
        host: "media.example.net",
        folder: "/hls/",
    };
    let mut cases = usual_cases(&at);
    for (name, path) in [
        ("file of the server's root", "/a.mp4"),
        ("file beside a location's folder", "/hlsx.mp4"),
        ("file of the other root", "/hls/a.mp4"),
        ("rest of a location's root", "/other/a.mp4"),
        ("alias without a slash", "/open/a.mp4"),
        ("rest of an alias", "/b.mp4"),
        ("alias", "/posts/a.mp4"),
        ("location in an alias", "/posts/hd/a.mp4"),
        ("closed location in an alias", "/posts/private/a.mp4"),
        ("last location", "/last/a.mp4"),
        ("pattern below the last location", "/last/secret/a.mp4"),
        ("refusing pattern", "/members/a.mp4"),
        ("missing file of a refusing pattern", "/members/none.mp4"),
        ("internal", "/protected/a.mp4"),
        ("start page", "/"),
    ] {
        cases.push(at.get(name, path));
    }
    cases.extend([
        at.get("page of a player", "/hls/title.mp4")
            .field("Origin", "https://tv.example"),
        at.get("refused host", "/hls/title.mp4")
            .host(Some("x.example")),
    ]);
    let expected = [
        ("overlapping ranges", "one range for two"),
        ("folder", "no index"),
        ("folder without a slash", "no slash"),
        ("sub-folder without a slash", "no slash"),
        ("HEAD of a file", "field of GET"),
        ("HEAD of a playlist", "field of GET"),
        ("file beside a location's folder", "closed"),
        ("internal", "closed"),
        ("start page", "redirect"),
    ];
    assert_same(&sides, &cases, &[USUAL, &expected].concat());
}

#[test]
fn edge_of_a_cdn_answers_as_nginx() {
    if !have_nginx("edge_of_a_cdn_answers_as_nginx") {
        return;
    }
    let ground = ground();
    fill(&ground, "origin/vod");
    fill(&ground, "films/films");
    fill(&ground, "static/fonts");
    ground.write_title("origin/vod/cold.mp4").expect("written");
    ground.write("static/a.css", b"a { }").expect("written");
    let origin = Nginx::start(&ground.root().join("origin")).expect("an origin");
    let films = Nginx::start(&ground.root().join("films")).expect("an origin");
    let upstreams = [
        ("127.0.0.1:8081", origin.address().to_string()),
        ("127.0.0.1:8083", films.address().to_string()),
    ];
    let sides = start(&ground, "edge.conf", &[(8000, Use::Plain)], &upstreams);
    let at = Places {
        port: 8000,
        host: "edge-7.cdn.example",
        folder: "/vod/",
    };
    let mut cases = usual_cases(&at);
    let (films, files) = (
        Places {
            host: "films.example",
            folder: "/films/",
            ..at
        },
        Places {
            host: "static.cdn.example",
            folder: "/fonts/",
            ..at
        },
    );
    cases.extend([
        at.get("cold slice", "/vod/cold.mp4")
            .field("Range", "bytes=1000000-1100000"),
        at.get("warm slice", "/vod/cold.mp4")
            .field("Range", "bytes=1000000-1100000"),
        at.get("range over three slices", "/vod/cold.mp4")
            .field("Range", "bytes=1000000-2999999"),
        at.get("whole after slices", "/vod/cold.mp4"),
        at.get("query is part of the title", "/vod/title.mp4?v=2")
            .field("Range", "bytes=0-99"),
        at.get("missing file again", "/vod/nothing.mp4"),
        at.get("page of a player", "/vod/title.mp4")
            .field("Origin", "https://a.player.example"),
        at.get("live", "/live/a.m3u8"),
        at.get("status", "/status"),
        at.get("health", "/health"),
        at.get("start page", "/"),
        at.get("other path", "/x/y.mp4"),
        films
            .get("other origin", "/films/title.mp4")
            .field("Range", "bytes=0-1999999"),
        films
            .get("other origin, other name", "/films/title.mp4")
            .host(Some("www.films.example")),
        films.get("title of the first origin", "/vod/title.mp4"),
        at.get("title of the other origin", "/films/title.mp4"),
        files.get("static file", "/a.css"),
        files
            .get("font", "/fonts/title.mp4")
            .field("Range", "bytes=-5"),
        files.get("titles are not static", "/vod/title.mp4"),
        at.get("moved host", "/vod/title.mp4?a=b")
            .host(Some("old.cdn.example")),
    ]);
    let expected = [
        ("two ranges", "parts of slices"),
        ("range and suffix", "parts of slices"),
        ("overlapping ranges", "parts of slices"),
        ("OPTIONS", "options"),
        ("folder", "no index"),
        ("folder without a slash", "no slash"),
        ("sub-folder without a slash", "refusing origin"),
        ("live", "silent origin"),
        ("page of a player", "pattern of origins"),
        ("status", "closed"),
        ("health", "closed"),
        ("other path", "closed"),
        ("title of the first origin", "cache of others"),
        ("title of the other origin", "closed"),
        ("moved host", "redirected host"),
    ];
    let mut lines = compare(&sides, &cases, &[USUAL, &expected].concat());
    // Both serve what they have while the origin is down.
    drop(origin);
    let late = [
        at.get("stale title", "/vod/cold.mp4"),
        at.get("title that was never fetched", "/vod/sub/inner.mp4?never"),
    ];
    let expected = [("title that was never fetched", "silent origin")];
    lines.extend(compare(&sides, &late, &expected));
    let (toml, findings) = &sides.converted;
    assert!(
        lines.is_empty(),
        "\n{}\n\n{toml}\n{findings}",
        lines.join("\n")
    );
}

#[test]
fn from_nginx_page_names_every_difference() {
    let page = include_str!("../../../../docs/operate/from-nginx.md");
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let page = words(page);
    for Named { name, manual, .. } in OF_FIELDS.iter().chain(OF_CASES) {
        assert!(page.contains(&words(manual)), "{name}: {manual}");
    }
}
