//! A location as a table `[path."PREFIX"]`.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use headlong_settings::quote;

use crate::access::{self, Condition, close, condition, has_check};
use crate::finding::Findings;
use crate::origin;
use crate::quantity;
use crate::roots::{Place, Roots};
use crate::scope::Scope;
use crate::syntax::Directive;
use crate::table::{Table, list};

/// Paths that a location matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Match<'a> {
    Prefix(&'a str),
    Exact(&'a str),
    Pattern(&'a str),
    Named,
}

impl<'a> Match<'a> {
    pub(crate) fn of(location: &'a Directive) -> Self {
        let (mark, rest) = match location.args.as_slice() {
            [mark, rest, ..] => (mark.as_str(), rest.as_str()),
            // nginx takes the mark without a space, too.
            [one] => match ["~*", "^~", "~", "="]
                .iter()
                .find(|mark| one.starts_with(**mark))
            {
                Some(mark) => one.split_at(mark.len()),
                None => ("", one.as_str()),
            },
            [] => ("", ""),
        };
        match mark {
            "=" => Self::Exact(rest),
            "~" | "~*" => Self::Pattern(rest),
            _ if rest.starts_with('@') => Self::Named,
            _ => Self::Prefix(rest),
        }
    }
}

/// The tables that are collected, and what is reported.
#[derive(Default)]
pub(crate) struct Converted<'a> {
    pub(crate) roots: Roots<'a>,
    pub(crate) paths: Vec<Table>,
    pub(crate) pulls: Vec<Table>,
    /// Request fields that pages may send.
    pub(crate) cors_headers: BTreeSet<String>,
    pub(crate) findings: Findings,
}

/// Directives of content that is not a file, besides `return` and `proxy_pass`.
const PROGRAMS: [&str; 5] = [
    "fastcgi_pass",
    "uwsgi_pass",
    "scgi_pass",
    "grpc_pass",
    "memcached_pass",
];
const OTHER_CONTENT: [&str; 10] = [
    "stub_status",
    "empty_gif",
    "js_content",
    "perl",
    "rtmp_stat",
    "rtmp_control",
    "vhost_traffic_status_display",
    "flv_live",
    "vod",
    "hls",
];

impl<'a> Converted<'a> {
    /// Adds the table of a location with this prefix, whose block is the innermost of `scope`.
    pub(crate) fn add(&mut self, scope: &Scope<'a>, prefix: &str) {
        let mut table = Table::of("path", prefix);
        self.settings(scope, &mut table);
        match closed(scope, &mut self.findings) {
            Some(of) => close(&mut table, of),
            None => {
                access::convert(scope, &mut table, &mut self.findings);
                self.content(scope, prefix, &mut table);
            }
        }
        self.checks(scope);
        self.paths.push(table);
    }

    /// Where the files come from.
    fn content(&mut self, scope: &Scope<'a>, prefix: &str, table: &mut Table) {
        let pass = scope.here().iter().find(|of| of.name == "proxy_pass");
        let Some(pass) = pass else {
            let place = self.roots.add(scope, prefix, &mut self.findings);
            match (place, scope.all(&["root", "alias"]).pop()) {
                (Place::Tree, _) => {}
                (Place::Alias(folder), _) => self.set_alias(&folder, prefix, table),
                (Place::Nowhere, Some(of)) => close(table, of),
                // nginx serves its own folder of pages here, and not the roots of other locations.
                (Place::Nowhere, None) => {
                    table.remark("access", quote("closed"), "no `root` applies to it");
                }
            }
            return;
        };
        let folder = match prefix.ends_with('/') {
            true => prefix.to_owned(),
            false => format!("{prefix}/"),
        };
        match origin::convert(scope, &folder, pass, &mut self.findings) {
            Some(pull) => {
                let folder = pull.value("folder");
                if folder.is_some() && self.pulls.iter().any(|of| of.value("folder") == folder) {
                    self.findings.add(pass, SHARED_ZONE);
                }
                self.pulls.push(pull);
            }
            None => close(table, pass),
        }
    }

    /// Names the folder of a path. An `alias` is for paths with a slash at their end; others with
    /// the same beginning, which nginx would look up beside the folder, are closed.
    fn set_alias(&mut self, path: &str, prefix: &str, table: &mut Table) {
        let Some((folder, of)) = self.roots.alias(path) else {
            return;
        };
        if path != prefix {
            let mut beside = Table::of("path", prefix);
            let remark = format!("files beside the folder {path}");
            beside.remark("access", quote("closed"), &remark);
            self.paths.push(beside);
            table.name = Table::of("path", path).name;
        }
        table.set("alias", quote(folder), of);
    }

    /// Fields of replies, rates, and sites.
    fn settings(&mut self, scope: &Scope<'_>, table: &mut Table) {
        self.expires(scope, table);
        if let Some(of) = scope.last("autoindex").filter(|of| of.arg(0) == "on") {
            let format = scope.last("autoindex_format").map(|of| of.arg(0));
            let format = format.filter(|format| *format == "json").unwrap_or("html");
            table.set("listing", quote(format), of);
        }
        self.headers(scope, table);
        let is_rate = |of: &&Directive| of.name == "set" && of.arg(0) == "$limit_rate";
        let variable = scope.here().iter().rfind(is_rate).map(|of| (of, of.arg(1)));
        if let Some((of, rate)) = variable.or(scope.last("limit_rate").map(|of| (of, of.arg(0)))) {
            match scope
                .constant(rate)
                .ok()
                .and_then(|rate| quantity::size(&rate))
            {
                Some(rate) if rate.0 == 0 => {}
                Some(rate) => {
                    table.set("bytes_per_second_max", quote(&rate.to_string()), of);
                }
                None => self
                    .findings
                    .add(of, "depends on the request: write bytes_per_second_max"),
            }
        }
        if has_check(scope, Condition::Referer) {
            self.referers(scope, table);
        }
    }

    fn expires(&mut self, scope: &Scope<'_>, table: &mut Table) {
        let Some(of) = scope.last("expires") else {
            return;
        };
        let text = match scope.constant(&of.args.join(" ")) {
            Ok(text) => text,
            Err(variable) => {
                self.findings.add(
                    of,
                    format!(
                        "${variable} depends on the request: write \
                    `expires` in a [path] for each folder"
                    ),
                );
                return;
            }
        };
        match text.as_str() {
            "off" => {}
            "epoch" => table.set("cache_control", quote("no-cache"), of),
            text if text.starts_with('-') => table.set("cache_control", quote("no-cache"), of),
            "max" => table.set("expires", quote("3650d"), of),
            text => match quantity::time(text.trim_start_matches('+')) {
                Some(time) => table.set("expires", quote(&time.to_string()), of),
                None => self.findings.add(
                    of,
                    "times of day, and times since a file was \
                    modified, are not supported: write `expires`",
                ),
            },
        }
    }

    fn headers(&mut self, scope: &Scope<'_>, table: &mut Table) {
        let (mut fields, mut origins) = (Vec::new(), Vec::new());
        let mut last = None;
        // Fields of an `if` that holds for GET replace those around it.
        let by_method = |method: &'static str| {
            let is_it = move |of: &&Directive| {
                let words = of.args.join(" ");
                of.name == "if"
                    && condition(of) == Condition::Method
                    && words.contains(method)
                    && !words.contains('!')
            };
            let blocks = scope.here().iter().filter(is_it);
            let all = blocks.flat_map(Directive::inside);
            all.filter(|of| of.name == "add_header").collect::<Vec<_>>()
        };
        for of in by_method("OPTIONS") {
            if of
                .arg(0)
                .eq_ignore_ascii_case("access-control-allow-headers")
            {
                let names = of.arg(1).split([',', ' ']);
                let names = names.filter(|name| !is_always_allowed(name));
                self.cors_headers.extend(names.map(ToOwned::to_owned));
            }
        }
        let of_get = by_method("GET");
        let fields_of = match of_get.is_empty() {
            true => scope.all(&["add_header"]),
            false => of_get,
        };
        for of in fields_of {
            let name = of.arg(0).to_ascii_lowercase();
            let value = scope.constant(of.arg(1));
            match (name.as_str(), value) {
                ("access-control-allow-origin", value) => {
                    match value {
                        Ok(value) => origins.push(value),
                        Err(variable) => {
                            let (listed, text) = allowed_origins(scope, &variable);
                            origins.extend(listed);
                            self.findings.add(of, text);
                        }
                    }
                    table.set("cors_origins", list(&origins), of);
                }
                ("access-control-allow-headers", Ok(value)) => {
                    let names = value
                        .split([',', ' '])
                        .filter(|name| !is_always_allowed(name));
                    self.cors_headers.extend(names.map(ToOwned::to_owned));
                }
                ("access-control-allow-credentials", _) => self.findings.add(
                    of,
                    "see `cors` in configuration.md for pages that send cookies",
                ),
                (name, _)
                    if name.starts_with("access-control-") || name == "timing-allow-origin" => {}
                ("cache-control", Ok(value)) => table.set("cache_control", quote(&value), of),
                (name, _) if OWN_FIELDS.contains(&name) => {
                    self.findings
                        .add(of, "only the server sets this field: remove it");
                }
                (_, Ok(value)) if value.is_empty() => {}
                (_, Ok(value)) if value.bytes().all(|b| (b' '..=b'~').contains(&b)) => {
                    fields.push(format!("{}: {value}", of.arg(0)));
                    last = Some(of);
                }
                (_, Ok(_)) => self.findings.add(
                    of,
                    "a value beyond ASCII: write another in \
                    `headers`",
                ),
                (_, Err(variable)) => self.findings.add(
                    of,
                    format!(
                        "${variable} depends on the request: write a fixed value in \
                        `headers`, or keep nginx in front"
                    ),
                ),
            }
        }
        if let Some(of) = last {
            table.set("headers", list(fields), of);
        }
    }

    fn referers(&mut self, scope: &Scope<'_>, table: &mut Table) {
        let Some(of) = scope.last("valid_referers") else {
            return;
        };
        let mut sites = Vec::new();
        for site in of.args.iter().map(String::as_str) {
            let names = scope.all(&["server_name"]);
            match site {
                "server_names" => {
                    let names = names.iter().flat_map(|of| &of.args);
                    sites.extend(names.filter(|name| is_site(name)).cloned());
                }
                site if is_site(site) => sites.push(site.to_owned()),
                site => self.findings.add(
                    of,
                    format!("`{site}` is no host: write hosts and *.hosts in `referers`"),
                ),
            }
        }
        match sites.is_empty() {
            true => close(table, of),
            false => table.set("referers", list(sites), of),
        }
    }

    /// Reports `if`s and `try_files` that do something else.
    fn checks(&mut self, scope: &Scope<'_>) {
        for of in scope.here() {
            match of.name.as_str() {
                "if" if condition(of) == Condition::Scheme && !access::refuses(of.inside()) => {
                    self.findings.add(of, REDIRECT);
                }
                "if" if condition(of) == Condition::Other && !access::refuses(of.inside()) => {
                    self.findings.add(
                        of,
                        "this condition is not supported: write a [path] \
                        for each folder, or keep nginx in front (beside.md)",
                    );
                }
                // The server's own is converted.
                "access_log" if of.arg(0) != "off" && scope.depth() > 2 => self.findings.add(
                    of,
                    "there is one access log, with all paths: that of the server is converted",
                ),
                "try_files" => {
                    let is_plain = |arg: &String| ["$uri", "$uri/", "=404"].contains(&arg.as_str());
                    if !of.args.iter().all(is_plain) {
                        self.findings.add(
                            of,
                            "there is no second place: a missing file is \
                            answered with 404; for a program behind keep nginx in front \
                            (beside.md)",
                        );
                    }
                }
                _ => {}
            }
        }
    }
}

/// The origins that may read by the value of a variable, and what to report of it.
fn allowed_origins(scope: &Scope<'_>, variable: &str) -> (Vec<String>, &'static str) {
    const ALL: &str = "reads the page's own origin: all pages may read; name the origins in \
        cors_origins";
    const LISTED: &str = "the origins of the map are listed; patterns, and other conditions, are \
        not supported: add each origin to cors_origins, or no page of it may read";
    let any = Vec::from(["*".to_owned()]);
    if variable == "http_origin" {
        return (any, ALL);
    }
    let is_it = |of: &&Directive| {
        of.name == "map"
            && of.arg(0) == "$http_origin"
            && of.arg(1).strip_prefix('$') == Some(variable)
    };
    let Some(map) = scope.everywhere().find(is_it) else {
        return (Vec::new(), LISTED);
    };
    let entries = map.inside().iter().filter(|of| !of.arg(0).is_empty());
    let mut listed = Vec::new();
    for entry in entries {
        match entry.name.as_str() {
            "default" => return (any, ALL),
            pattern if pattern.starts_with('~') => {}
            origin => listed.push(origin.to_owned()),
        }
    }
    (listed, LISTED)
}

/// The remedy for several prefixes with one folder.
pub(crate) const SHARED_ZONE: &str =
    "several locations share this zone: `bytes_max` is that of each, so divide it among them";

/// The remedy for programs.
pub(crate) const PROGRAM: &str =
    "a program answers there: keep nginx in front of it (beside.md); the path is closed";

/// The remedy for redirects.
pub(crate) const REDIRECT: &str =
    "redirects to other places are not sent: keep nginx in front (beside.md)";

/// The directive because of which a location serves neither files nor an origin's.
pub(crate) fn closed<'a>(scope: &Scope<'a>, findings: &mut Findings) -> Option<&'a Directive> {
    for of in scope.here() {
        let text = match of.name.as_str() {
            "return" if ["403", "444"].contains(&of.arg(0)) => return Some(of),
            "return" if of.arg(0).starts_with('3') => REDIRECT,
            "return" => "no reply but files: the path is closed (403)",
            "internal" => {
                "paths for X-Accel-Redirect: the path is closed; let access = \"signed\" or \
                 \"auth-request\" decide (access.md)"
            }
            "proxy_pass" if !caches(scope) => {
                "a program answers there: keep nginx in front of it (beside.md), and send the \
                    paths of \
                 videos here; the path is closed"
            }
            name if PROGRAMS.contains(&name) => PROGRAM,
            name if OTHER_CONTENT.contains(&name) || name.starts_with("content_by_lua") => {
                return Some(of);
            }
            "limit_except"
                if access::refuses(of.inside())
                    && !of.args.iter().any(|arg| arg == "GET" || arg == "HEAD") =>
            {
                return Some(of);
            }
            _ => continue,
        };
        findings.add(of, text);
        return Some(of);
    }
    None
}

fn caches(scope: &Scope<'_>) -> bool {
    scope
        .last("proxy_cache")
        .is_some_and(|of| of.arg(0) != "off")
}

fn is_site(text: &str) -> bool {
    let host = text.strip_prefix("*.").unwrap_or(text);
    let is_fit = |c: char| c.is_ascii_alphanumeric() || "-.:".contains(c);
    !host.is_empty() && host.chars().all(is_fit)
}

/// Fields that pages may always send, and what is no name.
fn is_always_allowed(name: &str) -> bool {
    let always = [
        "range",
        "origin",
        "accept",
        "accept-encoding",
        "user-agent",
        "content-type",
    ];
    let is_token = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    let lower = name.to_ascii_lowercase();
    name.is_empty()
        || !name.bytes().all(is_token)
        || lower.starts_with("if-")
        || lower.starts_with("cmcd-")
        || always.contains(&lower.as_str())
}

/// Fields of replies that only the server sets.
const OWN_FIELDS: [&str; 11] = [
    "accept-ranges",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "date",
    "etag",
    "last-modified",
    "transfer-encoding",
    "upgrade",
];
