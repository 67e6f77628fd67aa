//! Requests, and the usual list of them for any folder of titles.

use headlong_testkit::client::Head;

/// One request.
#[derive(Debug, Clone)]
pub struct Case {
    /// What it is about, unique in its list.
    pub name: String,
    /// The port as the file names it.
    pub port: u16,
    /// Method.
    pub method: String,
    /// Times that the same request is sent before on the same connection.
    pub before: u32,
    target: String,
    version: &'static str,
    host: Option<String>,
    /// Values may contain `{etag}` and `{modified}`: those that this server sent for the target.
    fields: Vec<(String, String)>,
    body: &'static str,
}

/// Where a site has what the usual cases ask for.
#[derive(Debug, Clone, Copy)]
pub struct Places {
    /// Port of the site.
    pub port: u16,
    /// Its host.
    pub host: &'static str,
    /// The path of a folder with `title.mp4`, `empty.mp4`, `a b.mp4`, `été.mp4`, `100%.mp4`,
    /// `list.m3u8`, `sub/inner.mp4` and `.hidden.mp4`, with a slash at its end.
    pub folder: &'static str,
}

impl Places {
    /// A request for a target.
    pub fn case(&self, name: &str, method: &str, target: &str) -> Case {
        Case {
            name: name.to_owned(),
            port: self.port,
            method: method.to_owned(),
            before: 0,
            target: target.to_owned(),
            version: "1.1",
            host: Some(self.host.to_owned()),
            fields: Vec::new(),
            body: "",
        }
    }

    /// GET of a target.
    pub fn get(&self, name: &str, target: &str) -> Case {
        self.case(name, "GET", target)
    }

    /// GET of a file in the folder, with one field.
    fn file(&self, name: &str, file: &str) -> Case {
        self.get(name, &format!("{}{file}", self.folder))
    }

    /// GET of the title with one field.
    fn title(&self, name: &str, field: &str, value: &str) -> Case {
        self.file(name, "title.mp4").field(field, value)
    }

    /// GET of a range of the title.
    fn range(&self, name: &str, range: &str) -> Case {
        self.title(name, "Range", range)
    }
}

impl Case {
    /// With a further field.
    pub fn field(mut self, name: &str, value: &str) -> Self {
        self.fields.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Of another host; `None` for a request without one.
    pub fn host(mut self, host: Option<&str>) -> Self {
        self.host = host.map(str::to_owned);
        self
    }

    /// In HTTP/1.0.
    fn old(mut self) -> Self {
        self.version = "1.0";
        self
    }

    /// On another port.
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// After the same request on the same connection.
    fn again(mut self, before: u32) -> Self {
        self.before = before;
        self
    }

    fn body(mut self, body: &'static str) -> Self {
        self.body = body;
        self.field("Content-Length", &body.len().to_string())
    }

    pub(super) fn needs_validators(&self) -> bool {
        self.fields.iter().any(|(_, value)| value.contains('{'))
    }

    /// The request for the validators.
    pub(super) fn probe(&self) -> Self {
        let mut probe = self.clone();
        probe.method = "HEAD".to_owned();
        probe.fields.clear();
        probe.body = "";
        probe
    }

    /// The bytes to send.
    pub(super) fn text(&self, validators: Option<&Head>) -> String {
        let Self {
            method,
            target,
            version,
            ..
        } = self;
        let mut text = format!("{method} {target} HTTP/{version}\r\n");
        if let Some(host) = &self.host {
            text.push_str(&format!("Host: {host}\r\n"));
        }
        let of = |name| {
            validators
                .and_then(|head| head.field(name))
                .unwrap_or("none")
        };
        for (name, value) in &self.fields {
            let value = value.replace("{etag}", of("etag"));
            let value = value.replace("{modified}", of("last-modified"));
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text + "\r\n" + self.body
    }
}

const OLD: &str = "Thu, 01 Jan 2015 00:00:00 GMT";

/// The usual list.
#[expect(clippy::too_many_lines, reason = "a table")]
pub fn usual_cases(at: &Places) -> Vec<Case> {
    let folder = at.folder;
    let title = format!("{folder}title.mp4");
    let long = format!("{folder}{}", "n/".repeat(1500));
    let endless = format!("{folder}{}", "n".repeat(40_000));
    let two_hosts = at.file("two hosts", "title.mp4").field("Host", "b.example");
    let method = |name: &str| at.case(name, name, &title);
    vec![
        // Whole files.
        at.file("file", "title.mp4"),
        at.case("HEAD of a file", "HEAD", &title),
        at.file("query", "title.mp4?CMCD=bl%3D100&x=%20"),
        at.file("empty file", "empty.mp4"),
        at.file("playlist", "list.m3u8"),
        at.case("HEAD of a playlist", "HEAD", &format!("{folder}list.m3u8")),
        // Ranges.
        at.range("first byte", "bytes=0-0"),
        at.range("range", "bytes=131071-1262145"),
        at.range("open range", "bytes=2999990-"),
        at.range("all as a range", "bytes=0-"),
        at.range("suffix", "bytes=-10"),
        at.range("suffix beyond the file", "bytes=-9000000"),
        at.range("end beyond the file", "bytes=2000000-99999999"),
        at.range("last byte", "bytes=3000016-3000016"),
        at.range("start at the end", "bytes=3000017-"),
        at.range("start beyond the end", "bytes=5000000-6000000"),
        at.range("empty suffix", "bytes=-0"),
        at.range("reversed range", "bytes=9-5"),
        at.range("malformed range", "bytes=a-b"),
        at.range("start beyond 64 bits", "bytes=99999999999999999999999-"),
        at.range("other unit", "seconds=0-9"),
        at.range("two ranges", "bytes=0-99,2500000-2500099"),
        at.range("range and suffix", "bytes=0-99, -10"),
        at.range("overlapping ranges", "bytes=0-99,50-149"),
        at.range("one satisfiable range of two", "bytes=5-9,5000000-"),
        at.range("two unsatisfiable ranges", "bytes=5000000-6000000,7000000-"),
        at.case("HEAD with a range", "HEAD", &title)
            .field("Range", "bytes=0-9"),
        at.file("range of an empty file", "empty.mp4")
            .field("Range", "bytes=0-"),
        // Conditions.
        at.range("If-Range: same tag", "bytes=5-9")
            .field("If-Range", "{etag}"),
        at.range("If-Range: other tag", "bytes=5-9")
            .field("If-Range", "\"x\""),
        at.range("If-Range: same date", "bytes=5-9")
            .field("If-Range", "{modified}"),
        at.range("If-Range: other date", "bytes=5-9")
            .field("If-Range", OLD),
        at.title("same tag", "If-None-Match", "{etag}"),
        at.title("weak form of the tag", "If-None-Match", "W/{etag}"),
        at.title("other tag", "If-None-Match", "\"x\""),
        at.title("any tag", "If-None-Match", "*"),
        at.title("same date", "If-Modified-Since", "{modified}"),
        at.title("older date", "If-Modified-Since", OLD),
        at.title("invalid date", "If-Modified-Since", "yesterday"),
        at.title("If-Match: same tag", "If-Match", "{etag}"),
        at.title("If-Match: other tag", "If-Match", "\"x\""),
        at.title("unmodified since", "If-Unmodified-Since", "{modified}"),
        at.title("not unmodified since", "If-Unmodified-Since", OLD),
        // Methods.
        method("POST").body("x=1"),
        method("PUT").body("x=1"),
        method("DELETE"),
        method("PATCH").body("x=1"),
        method("TRACE"),
        method("OPTIONS"),
        method("BREW"),
        at.file("GET with a body", "title.mp4").body("x=1"),
        // Codings.
        at.file("gzip of a playlist", "list.m3u8")
            .field("Accept-Encoding", "gzip, deflate, br"),
        at.file("gzip refused", "list.m3u8")
            .field("Accept-Encoding", "gzip;q=0"),
        at.file("gzip of a title", "title.mp4")
            .field("Accept-Encoding", "gzip"),
        // Folders and names.
        at.get("folder", folder),
        at.get("folder without a slash", folder.trim_end_matches('/')),
        at.file("sub-folder without a slash", "sub"),
        at.file("file in a sub-folder", "sub/inner.mp4"),
        at.file("dot name", ".hidden.mp4"),
        at.file("missing file", "nothing.mp4"),
        at.case(
            "HEAD of a missing file",
            "HEAD",
            &format!("{folder}nothing.mp4"),
        ),
        at.file("file as a folder", "title.mp4/x"),
        at.file("other case", "Title.mp4"),
        at.file("space", "a%20b.mp4"),
        at.file("UTF-8", "%c3%a9t%C3%A9.mp4"),
        at.file("percent sign", "100%25.mp4"),
        at.file("escaped letter", "%74itle.mp4"),
        at.file("two slashes", "/title.mp4"),
        at.file("dot segment", "./title.mp4"),
        at.file("two dots", "sub/../title.mp4"),
        at.get("two dots above the root", "/../../title.mp4"),
        at.file("escaped slash", "sub%2Finner.mp4"),
        at.file("NUL", "title.mp4%00.jpg"),
        at.file("broken escape", "title.mp4%2"),
        at.get("long path", &long),
        at.get("endless path", &endless),
        // Hosts, versions and connections.
        at.file("other host", "title.mp4")
            .host(Some("unknown.example")),
        at.file("host with a port", "title.mp4")
            .host(Some(&format!("{}:81", at.host))),
        at.file("host in capitals", "title.mp4")
            .host(Some(&at.host.to_uppercase())),
        at.file("no host", "title.mp4").host(None),
        two_hosts,
        at.get("absolute target", &format!("http://{}{title}", at.host)),
        at.file("HTTP/1.0", "title.mp4").old(),
        at.range("range in HTTP/1.0", "bytes=5-9").old(),
        at.range("kept connection in HTTP/1.0", "bytes=5-9")
            .field("Connection", "keep-alive")
            .old()
            .again(1),
        at.range("kept connection", "bytes=5-9").again(3),
        at.title("closed connection", "Connection", "close"),
        at.title("long field", "X-Long", &"x".repeat(20_000)),
        at.title("page of another origin", "Origin", "https://tv.example.org"),
        at.title(
            "page of an unknown origin",
            "Origin",
            "https://evil.example",
        ),
    ]
}
