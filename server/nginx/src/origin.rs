//! `proxy_pass` with `proxy_cache`: paths that are filled from an origin.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString as _};

use headlong_settings::quote;
use headlong_units::{KIB, MIB};

use crate::finding::Findings;
use crate::quantity;
use crate::scope::Scope;
use crate::syntax::Directive;
use crate::table::Table;

/// Bounds of `slice_bytes`.
const SLICE_BYTES: core::ops::RangeInclusive<u64> = 64 * KIB..=64 * MIB;

/// A URL with the name of an `upstream` replaced by its first server, and that upstream if it has
/// several.
pub(crate) fn upstream_url<'a>(scope: &Scope<'a>, url: &str) -> (String, Option<&'a Directive>) {
    let Some((scheme, rest)) = url.split_once("://") else {
        return (url.to_owned(), None);
    };
    let (name, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let upstream = scope
        .everywhere()
        .find(|of| of.name == "upstream" && of.arg(0) == name);
    let servers = || {
        upstream
            .into_iter()
            .flat_map(Directive::inside)
            .filter(|of| of.name == "server")
    };
    let is_in_use = |of: &&Directive| !of.args.iter().any(|arg| arg == "down" || arg == "backup");
    match servers().find(is_in_use).or_else(|| servers().next()) {
        Some(server) => {
            let several = upstream.filter(|_| servers().count() > 1);
            (format!("{scheme}://{}{path}", server.arg(0)), several)
        }
        None => (url.to_owned(), None),
    }
}

/// The table of a location with this prefix, which is a folder's path.
pub(crate) fn convert(
    scope: &Scope<'_>,
    prefix: &str,
    pass: &Directive,
    findings: &mut Findings,
) -> Option<Table> {
    let mut table = Table::of("pull", prefix);
    let url = origin(scope, prefix, pass, findings)?;
    table.set("origin", quote(&url), pass);
    let cache = scope.last("proxy_cache")?;
    let is_zone = |of: &&Directive| {
        of.name == "proxy_cache_path"
            && option(of, "keys_zone")
                .is_some_and(|zone| zone.split(':').next() == Some(cache.arg(0)))
    };
    match scope.everywhere().find(is_zone) {
        Some(path) => {
            table.set("folder", quote(path.arg(0)), path);
            findings.add(
                path,
                "nginx's files in this folder are not used: remove them when nginx has stopped, and \
                 give the folder to the server's user",
            );
            for (name, key, least) in [
                ("max_size", "bytes_max", 512 * MIB),
                ("min_free", "free_bytes_min", 0),
            ] {
                let Some(text) = option(path, name) else {
                    continue;
                };
                match quantity::size(text).filter(|size| size.0 >= least) {
                    Some(size) => table.set(key, quote(&size.to_string()), path),
                    None => findings.add(
                        path,
                        format!("{name}={text} is too small or no size: set {key}"),
                    ),
                }
            }
        }
        None => findings.add(
            cache,
            format!(
                "no proxy_cache_path has this zone: set `folder` of [{}]",
                table.name
            ),
        ),
    }
    if let Some(of) = scope.last("slice").filter(|of| of.arg(0) != "0") {
        match quantity::size(of.arg(0)).filter(|size| SLICE_BYTES.contains(&size.0)) {
            Some(size) => table.set("slice_bytes", quote(&size.to_string()), of),
            None => findings.add(
                of,
                "slices have 64 KiB to 64 MiB: the default of 2 MiB is used",
            ),
        }
    }
    valid(scope, &mut table, findings);
    let key = scope
        .last("proxy_cache_key")
        .map_or("$request_uri", |of| of.arg(0));
    let has_query = ["$request_uri", "$args", "$query_string", "$is_args"];
    if has_query.iter().any(|variable| key.contains(variable)) {
        table.set(
            "query",
            quote("key"),
            scope.last("proxy_cache_key").unwrap_or(pass),
        );
    } else if let Some(of) = scope
        .last("proxy_cache_key")
        .filter(|of| of.arg(0).contains("$arg_"))
    {
        let names = key.split("$arg_").skip(1).map(|rest| {
            let is_other = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
            rest.split(is_other).next().unwrap_or_default()
        });
        table.set("query", crate::table::list(names), of);
    }
    if let Some(of) = scope.last("proxy_read_timeout")
        && let Some(time) = quantity::time(of.arg(0)).filter(|time| time.0 > 0)
    {
        table.set("idle_timeout", quote(&time.to_string()), of);
    }
    Some(table)
}

/// The origin's URL of a location, with a slash at its end.
fn origin(
    scope: &Scope<'_>,
    prefix: &str,
    pass: &Directive,
    findings: &mut Findings,
) -> Option<String> {
    let mut text = pass.arg(0);
    // The request's own path, which nginx appends by itself without them.
    for rest in ["$request_uri", "$is_args$args", "$uri"] {
        text = text.strip_suffix(rest).unwrap_or(text);
    }
    let url = match scope.constant(text) {
        Ok(url) => url,
        Err(variable) => {
            let text = format!(
                "${variable} depends on the request: write the origin in \
                `origin`"
            );
            findings.add(pass, text);
            return None;
        }
    };
    let (url, several) = upstream_url(scope, &url);
    if let Some(upstream) = several {
        findings.add(
            upstream,
            "an edge has one origin: the first server is used; name a \
            balancer in `origin` for all of them",
        );
    }
    let authority = url.split_once("://").map_or("", |(_, rest)| rest);
    if authority.starts_with("unix:") {
        findings.add(
            pass,
            "an origin on a unix socket is not supported: let it listen on a port of 127.0.0.1, \
             and write that in `origin`; the path is closed",
        );
        return None;
    }
    let url = match authority.contains('/') {
        true => url.clone(),
        false => format!("{url}{prefix}"),
    };
    if let Some(of) = scope
        .all(&["proxy_set_header"])
        .into_iter()
        .find(|of| of.arg(0).eq_ignore_ascii_case("host"))
    {
        let host = authority.split('/').next().unwrap_or_default();
        if of.arg(1) != "$proxy_host" && of.arg(1) != host {
            findings.add(
                of,
                format!(
                    "the origin receives its own name ({host}) as Host: \
                write the name it expects in `origin`"
                ),
            );
        }
    }
    for of in scope.all(&["proxy_set_header"]) {
        if !is_of_proxies(of.arg(0)) && !of.arg(1).is_empty() {
            findings.add(
                of,
                "an edge sends no fields of its own to the origin: if the origin requires this \
                 one, keep an nginx between them",
            );
        }
    }
    Some(match url.ends_with('/') {
        true => url,
        false => format!("{url}/"),
    })
}

/// Fields that an edge sends itself, or that describe the viewer to a program.
fn is_of_proxies(name: &str) -> bool {
    const NAMES: [&str; 12] = [
        "host",
        "connection",
        "upgrade",
        "range",
        "if-range",
        "accept-encoding",
        "forwarded",
        "cookie",
        "user-agent",
        "referer",
        "origin",
        "via",
    ];
    let name = name.to_ascii_lowercase();
    NAMES.contains(&name.as_str())
        || name.starts_with("x-forwarded-")
        || name == "x-real-ip"
        || name == "x-request-id"
}

/// `NAME` of `NAME=VALUE`.
fn option<'a>(of: &'a Directive, name: &str) -> Option<&'a str> {
    let mut args = of.args.iter();
    args.find_map(|arg| arg.strip_prefix(name)?.strip_prefix('='))
}

fn valid(scope: &Scope<'_>, table: &mut Table, findings: &mut Findings) {
    let mut all = scope.all(&["proxy_cache_valid"]);
    // Times of single codes replace that of any.
    all.sort_by_key(|of| !of.args.iter().any(|arg| arg == "any"));
    for of in all {
        let Some((time, codes)) = of.args.split_last() else {
            continue;
        };
        let Some(time) = quantity::time(time) else {
            findings.add(of, "not a time: set `fresh`");
            continue;
        };
        let time = quote(&time.to_string());
        let has = |code: &str| codes.iter().any(|of| of == code);
        match () {
            () if has("any") => {
                table.set("fresh", time.clone(), of);
                table.set("negative", time, of);
            }
            () if codes.is_empty() || has("200") || has("206") => table.set("fresh", time, of),
            () if has("404") => table.set("negative", time, of),
            () => findings.add(
                of,
                "an edge stores files (`fresh`) and missing files (`negative`) only",
            ),
        }
    }
}
