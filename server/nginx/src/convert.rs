//! The conversion as a whole: which server is converted, and in which order.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::access::{self, close};
use crate::finding::{Finding, Findings};
use crate::known::{Treatment, treatment};
use crate::limits;
use crate::listen::{Addresses, is_local, port};
use crate::location::{Converted, Match, PROGRAM, REDIRECT, SHARED_ZONE};
use crate::roots::is_of_challenges;
use crate::scope::Scope;
use crate::syntax::Directive;
use crate::table::{Table, list};

const HEAD: &str = "\
# Converted from nginx's configuration. Directives without an equivalent are on standard error.
# Still to choose: `process_memory` and `state` (settings.md). Restrict access to this file if it
# holds secrets.
";

/// A converted configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversion {
    /// The file of settings.
    pub toml: String,
    /// Directives that have no place, with remedies, in the order of the files.
    pub findings: Vec<Finding>,
    /// Names of directives that are not needed here.
    pub needless: Vec<String>,
}

/// Converts the first server that serves files, those with the same content on other ports, those
/// with other names as sites, and those that redirect to TLS.
///
/// # Errors
/// Why there is nothing to convert.
pub fn convert(directives: &[Directive]) -> Result<Conversion, &'static str> {
    // A file of conf.d alone has its servers at the top.
    let block = directives.iter().find(|of| of.name == "http");
    let http = block.map_or(directives, Directive::inside);
    let mut converted = Converted::default();
    let servers: Vec<&Directive> = http.iter().filter(|of| of.name == "server").collect();
    let chosen = chosen(&servers, &mut converted.findings).ok_or(
        "no server block that serves files; name the main file, such as /etc/nginx/nginx.conf",
    )?;
    let outer = Scope::new(http);
    let mut needless = BTreeSet::new();
    if block.is_some() {
        judge(directives, &mut converted.findings, &mut needless);
    }
    judge(http, &mut converted.findings, &mut needless);
    if let Some(main) = chosen.main {
        convert_server(&outer.inside(main.inside()), &mut converted, &mut needless);
    }
    for server in &chosen.redirecting {
        let around = outer.inside(server.inside());
        for location in server.inside().iter().filter(|of| of.name == "location") {
            if matches!(Match::of(location), Match::Prefix(prefix) if is_of_challenges(prefix)) {
                let inner = around.inside(location.inside());
                converted
                    .roots
                    .add_challenges(&inner, &mut converted.findings);
            }
        }
    }
    let mut sites = Vec::new();
    for server in &chosen.sites {
        let mut own = Converted::default();
        convert_server(&outer.inside(server.inside()), &mut own, &mut needless);
        sites.extend(site(server, own, &mut converted));
    }
    finish(converted, &outer, &chosen, (sites, needless))
}

/// Reports the directives of a block that have no place, and collects those that are not needed.
fn judge(level: &[Directive], findings: &mut Findings, needless: &mut BTreeSet<String>) {
    for of in level {
        match treatment(&of.name) {
            Treatment::Converted => {}
            Treatment::Needless => {
                needless.insert(of.name.clone());
            }
            Treatment::Lost(remedy) => findings.add(of, remedy),
        }
    }
}

/// Converts the locations of a server, whose block is the innermost of `scope`.
fn convert_server<'a>(
    scope: &Scope<'a>,
    converted: &mut Converted<'a>,
    needless: &mut BTreeSet<String>,
) {
    judge(scope.here(), &mut converted.findings, needless);
    let locations = |block: &'a [Directive]| block.iter().filter(|of| of.name == "location");
    let top = locations(scope.here()).find(|of| Match::of(of) == Match::Prefix("/"));
    let top = top.map(|top| scope.inside(top.inside()));
    converted.roots.set_tree(top.as_ref().unwrap_or(scope));
    let has_top = top.is_some();
    let mut tasks = Vec::from([(scope.clone(), "/")]);
    let (mut patterns, mut last) = (Vec::new(), Vec::new());
    while let Some((around, folder)) = tasks.pop() {
        for location in locations(around.here()) {
            let inner = around.inside(location.inside());
            judge(location.inside(), &mut converted.findings, needless);
            match Match::of(location) {
                Match::Prefix(prefix) if is_of_challenges(prefix) => {
                    converted
                        .roots
                        .add_challenges(&inner, &mut converted.findings);
                }
                Match::Prefix(prefix) => {
                    converted.add(&inner, prefix);
                    tasks.push((inner, prefix));
                    if location.arg(0).starts_with("^~") {
                        last.push(prefix);
                    }
                }
                Match::Exact(path) => exact(path, location, &around, converted),
                Match::Pattern(pattern) => patterns.push((pattern, folder, location)),
                Match::Named => {}
            }
        }
    }
    if !has_top {
        converted.add(scope, "/");
    }
    for (pattern, folder, location) in patterns {
        by_pattern((pattern, folder), location, &last, converted);
    }
}

/// The tables of a site; none, with the reason, if it cannot be one beside the others.
fn site<'a>(server: &'a Directive, own: Converted<'a>, all: &mut Converted<'a>) -> Vec<Table> {
    let names = host_names(server);
    let [first, others @ ..] = names.as_slice() else {
        return Vec::new();
    };
    all.findings.join(own.findings);
    let all_names = server.inside().iter().filter(|of| of.name == "server_name");
    for of in all_names {
        let is_lost = |name: &&String| name.contains(['*', '~']) || name.starts_with('.');
        if let Some(name) = of.args.iter().find(is_lost) {
            let text = format!(
                "{name} is a pattern: other hosts than {first} get the files of the first server; \
                 add their names to `names`"
            );
            all.findings.add(of, text);
        }
    }
    let mut table = Table::of("site", first);
    if !others.is_empty() {
        table.set("names", list(others), server);
    }
    if !own.roots.write(&mut table) && own.pulls.is_empty() {
        let text = "it serves no files: keep nginx in front for it (beside.md)";
        all.findings.add(server, text);
        return Vec::new();
    }
    let family = table.name.clone();
    all.cors_headers.extend(own.cors_headers);
    all.roots.join_challenges(own.roots);
    let is_shared = |pull: &Table| {
        let folder = pull.value("folder");
        folder.is_some() && all.pulls.iter().any(|of| of.value("folder") == folder)
    };
    if own.pulls.iter().any(is_shared) {
        all.findings.add(server, SHARED_ZONE);
    }
    let mut paths = needed(own.paths);
    paths.extend(own.pulls);
    for path in &mut paths {
        path.name = format!("{family}.{}", path.name);
    }
    paths.insert(0, table);
    paths
}

/// The names of a server that a site can have.
fn host_names(server: &Directive) -> Vec<String> {
    let names = server.inside().iter().filter(|of| of.name == "server_name");
    let names = names.flat_map(|of| &of.args);
    let is_plain = |name: &&String| name.contains('.') && !name.contains(['*', '~', '$', ':']);
    let mut plain: Vec<String> = names
        .filter(is_plain)
        .map(|name| name.trim_matches('.').to_lowercase())
        .collect();
    plain.dedup();
    plain
}

/// The servers that are converted.
struct ChosenServers<'a> {
    /// That for all hosts without a site; none if nginx refuses them, or a program answers them.
    main: Option<&'a Directive>,
    /// Those that serve the same on other addresses.
    alike: Vec<&'a Directive>,
    /// Those that redirect everything to TLS.
    redirecting: Vec<&'a Directive>,
    /// Those with other names.
    sites: Vec<&'a Directive>,
}

/// What a server does with all of its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// Files, an origin's or those of a program.
    Content,
    RedirectToTls,
    RedirectElsewhere,
    Refusal,
}

/// The servers to convert. Reports the others.
fn chosen<'a>(servers: &[&'a Directive], findings: &mut Findings) -> Option<ChosenServers<'a>> {
    let is_default = |server: &&Directive| {
        let mut listens = server.inside().iter().filter(|of| of.name == "listen");
        let marks = ["default_server", "default"];
        listens.any(|of| of.args.iter().any(|arg| marks.contains(&arg.as_str())))
    };
    // Every site is at every address: a request from anywhere may name it.
    let is_public = |server: &&Directive| !is_local(server) && answer(server) == Answer::Content;
    let mut public = servers.iter().copied().filter(is_public);
    let has_public = public.any(|server| may_have_files(server.inside()));
    let is_left_out = move |server: &&Directive| has_public && is_local(server);
    for server in servers.iter().copied().filter(is_left_out) {
        let text = "only programs of this machine reach it, and others would get its files by its \
                    name: convert it alone, and run a second server";
        findings.add(server, text);
    }
    let all = move || {
        let servers = servers.iter().copied();
        servers.filter(move |server| !is_left_out(server))
    };
    let serving = || all().filter(|server| answer(server) == Answer::Content);
    let has_files = |server: &&Directive| may_have_files(server.inside());
    let is_for_others =
        |server: &&Directive| [Answer::Content, Answer::Refusal].contains(&answer(server));
    let mut for_others = all().filter(is_for_others);
    let first = for_others.clone().next();
    let for_others = for_others.find(is_default).or(first)?;
    let has_site = serving().any(|server| has_files(&server) && !host_names(server).is_empty());
    // Other hosts get nothing if they get no files from nginx either.
    let main = match has_files(&for_others) && answer(for_others) == Answer::Content {
        true => Some(for_others),
        false if has_site => None,
        false => Some(serving().find(has_files).or_else(|| serving().next())?),
    };
    let (mut alike, mut redirecting, mut sites) = (Vec::new(), Vec::new(), Vec::new());
    let is_main = |server: &Directive| main.is_some_and(|main| core::ptr::eq(server, main));
    for server in all().filter(|server| !is_main(server)) {
        match answer(server) {
            Answer::RedirectToTls => redirecting.push(server),
            Answer::RedirectElsewhere => findings.add(server, REDIRECT),
            Answer::Refusal if main.is_none() => {}
            Answer::Refusal => findings.add(
                server,
                "hosts that are refused here get the files of the first server: close them by a \
                 [site] with `access = \"closed\"`",
            ),
            Answer::Content
                if main.is_some_and(|main| {
                    serves_the_same(main, server) && is_on_other_port(main, server)
                }) =>
            {
                alike.push(server);
            }
            Answer::Content if !host_names(server).is_empty() => sites.push(server),
            Answer::Content => findings.add(
                server,
                "a further server without a plain host name is not converted: give it one \
                 (`server_name`), or convert it alone and run a second server",
            ),
        }
    }
    Some(ChosenServers {
        main,
        alike,
        redirecting,
        sites,
    })
}

/// Whether a block names a folder or an origin with a cache, so that there are files to serve.
fn may_have_files(block: &[Directive]) -> bool {
    block.iter().any(|of| match of.name.as_str() {
        "root" | "alias" | "proxy_cache" => true,
        "location" => {
            !matches!(Match::of(of), Match::Prefix(prefix) if is_of_challenges(prefix))
                && may_have_files(of.inside())
        }
        _ => false,
    })
}

/// What a server answers.
fn answer(server: &Directive) -> Answer {
    let returns = |block: &'_ [Directive], code: &str| {
        let mut returns = block.iter().filter(|of| of.name == "return");
        returns.any(|of| of.arg(0).starts_with(code))
    };
    let locations = || server.inside().iter().filter(|of| of.name == "location");
    let mut tops = locations().filter(|of| Match::of(of) == Match::Prefix("/"));
    let mut others = locations().filter(|of| match Match::of(of) {
        Match::Prefix(prefix) => prefix != "/" && !prefix.starts_with("/.well-known"),
        Match::Exact(path) | Match::Pattern(path) => {
            !path.contains("well-known") && may_have_files(of.inside())
        }
        Match::Named => false,
    });
    let is_rejecting = |of: &Directive| of.name == "ssl_reject_handshake" && of.arg(0) == "on";
    let answers_all = returns(server.inside(), "")
        || server.inside().iter().any(is_rejecting)
        || (tops.any(|top| returns(top.inside(), "")) && others.next().is_none());
    match answers_all {
        false => Answer::Content,
        true if redirects(server.inside(), "https://") => Answer::RedirectToTls,
        true if redirects(server.inside(), "") => Answer::RedirectElsewhere,
        true => Answer::Refusal,
    }
}

/// Whether a block, or one in it as certbot writes them, redirects to a URL with this beginning.
fn redirects(block: &[Directive], beginning: &str) -> bool {
    block.iter().any(|of| match of.name.as_str() {
        "return" => {
            let url = of.args.last().map_or("", String::as_str);
            let is_redirect = of.arg(0).starts_with('3') || of.args.len() == 1;
            is_redirect && url.contains("://") && url.starts_with(beginning)
        }
        "rewrite" => of.arg(1).contains("://") && of.arg(1).starts_with(beginning),
        "if" | "location" => redirects(of.inside(), beginning),
        _ => false,
    })
}

/// Whether two servers differ in addresses and certificates only.
fn serves_the_same(one: &Directive, other: &Directive) -> bool {
    let content = |server: &Directive| {
        let is_content = |of: &&Directive| of.name != "listen" && !of.name.starts_with("ssl");
        server
            .inside()
            .iter()
            .filter(is_content)
            .cloned()
            .collect::<Vec<_>>()
    };
    let (one, other) = (content(one), content(other));
    one.len() == other.len()
        && one
            .iter()
            .zip(&other)
            .all(|(one, other)| one.is_same(other))
}

fn is_on_other_port(one: &Directive, other: &Directive) -> bool {
    let ports = |server: &Directive| {
        let listens = server.inside().iter().filter(|of| of.name == "listen");
        listens
            .map(|of| port(of.arg(0)).to_string())
            .collect::<BTreeSet<_>>()
    };
    ports(one).is_disjoint(&ports(other))
}

/// A location for one path: it is closed if it is in nginx, and otherwise its settings are lost.
fn exact<'a>(
    path: &str,
    location: &'a Directive,
    around: &Scope<'a>,
    converted: &mut Converted<'_>,
) {
    let block = location.inside();
    let has = |names: &[&str]| block.iter().find(|of| names.contains(&of.name.as_str()));
    let is_named = |name: &str, arg: &str| {
        let mut all = around.everywhere().filter(|of| of.name == name);
        all.any(|of| of.args.last().is_some_and(|last| last == arg))
    };
    // Locations of other content have no file of this name.
    let pass = block.iter().find(|of| of.name.ends_with("_pass"));
    if let Some(of) = has(&["return"]).filter(|of| !of.arg(0).starts_with('4')) {
        let text = match of.arg(0).starts_with('3') || of.args.len() == 1 {
            true => REDIRECT,
            false => "no reply but files: keep nginx in front for this (beside.md)",
        };
        converted.findings.add(of, text);
    } else if has(&["internal"]).is_some() || is_named("error_page", path) {
    } else if let Some(of) = pass {
        if !has_check_at(around, path) {
            converted.findings.add(of, PROGRAM);
        }
    } else if access::refuses(block) {
        let mut table = Table::of("path", path);
        close(&mut table, location);
        converted.paths.push(table);
    } else if !["/favicon.ico", "/robots.txt"].contains(&path) {
        let text = "a [path] is a prefix: write one for this path if its settings matter";
        converted.findings.add(location, text);
    }
}

/// Whether a location is that of an `auth_request`.
fn has_check_at(around: &Scope<'_>, path: &str) -> bool {
    fn is_in(block: &[Directive], path: &str) -> bool {
        block
            .iter()
            .any(|of| (of.name == "auth_request" && of.arg(0) == path) || is_in(of.inside(), path))
    }
    is_in(around.here(), path)
}

/// A location by a regular expression in a folder. If it refuses requests, or answers them by other
/// means, the paths that it may match are closed; nginx does not try it below those of `last`.
fn by_pattern(
    (pattern, folder): (&str, &str),
    location: &Directive,
    last: &[&str],
    converted: &mut Converted<'_>,
) {
    // Names with a leading dot are not served.
    if is_of_dots(pattern) {
        return;
    }
    let block = location.inside();
    let answers = |of: &Directive| of.name.ends_with("_pass") || of.name == "return";
    if access::refuses(block) || block.iter().any(answers) {
        let below = match location.arg(0).starts_with("~*") {
            // A table is for one case of letters.
            true => folder.to_string(),
            false => beginning(pattern, folder),
        };
        let last = last.iter().filter(|prefix| !folder.starts_with(**prefix));
        if last.clone().any(|prefix| below.starts_with(*prefix)) {
            return;
        }
        let starts = |table: &Table, prefix: &str| {
            let name = Table::of("path", prefix).name;
            table.name.starts_with(name.trim_end_matches('"'))
        };
        let is_below = |table: &Table| starts(table, &below);
        let is_last = |table: &Table| last.clone().any(|prefix| starts(table, prefix));
        let is_it = |table: &&mut Table| is_below(table) && !is_last(table);
        let mut tables: Vec<_> = converted.paths.iter_mut().filter(is_it).collect();
        let mut access = tables.iter().filter_map(|table| table.value("access"));
        let has_links = access.clone().any(|of| of == "\"secure-link\"");
        let is_open = |of| !["\"secure-link\"", "\"closed\""].contains(&of);
        if access::refuses_by_link_only(block) && has_links && !access.any(is_open) {
            let text = "here all files of the path need a link, not only those of this pattern; \
                        for playlists and their segments see tokens in the path (access.md)";
            converted.findings.add(location, text);
            return;
        }
        tables.iter_mut().for_each(|table| close(table, location));
        let name = Table::of("path", &below).name;
        if !converted.paths.iter().any(|table| table.name == name) {
            let mut table = Table::of("path", &below);
            close(&mut table, location);
            converted.paths.push(table);
        }
        let text = format!(
            "locations by regular expression are not supported, and this one refuses or answers \
             requests: all paths below {below} are closed; open folders by [path] tables with \
             rules of their own"
        );
        converted.findings.add(location, text);
        return;
    }
    let is_set = |of: &Directive| treatment(&of.name) == Treatment::Converted;
    if block.iter().any(is_set) {
        let text = "locations by regular expression are not supported: write its settings in a \
                    [path] for each folder, and its folder in `alias`";
        converted.findings.add(location, text);
    }
}

/// Whether a pattern matches names with a leading dot only.
fn is_of_dots(pattern: &str) -> bool {
    let plain = pattern.strip_prefix('^').unwrap_or(pattern);
    let starts = ["/\\.", "(^|/)\\.", "(?:^|/)\\."];
    let mut rest = starts.iter().filter_map(|start| plain.strip_prefix(start));
    rest.next().is_some_and(|rest| !rest.starts_with(OPTIONAL)) && !has_alternatives(pattern)
}

/// What makes the character before it optional.
const OPTIONAL: [char; 3] = ['?', '*', '{'];

/// Whether a pattern has alternatives outside of parentheses.
fn has_alternatives(pattern: &str) -> bool {
    let mut depth = 0_usize;
    pattern.chars().any(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == '|' && depth == 0
    })
}

/// The folder below which all paths lie that a pattern in a folder matches.
fn beginning(pattern: &str, folder: &str) -> String {
    let Some(rest) = pattern
        .strip_prefix("^/")
        .filter(|_| !has_alternatives(pattern))
    else {
        return folder.to_string();
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_/".contains(c);
    let (plain, after) = rest.split_at(rest.find(|c| !is_plain(c)).unwrap_or(rest.len()));
    let plain = match after.starts_with(OPTIONAL) {
        true => plain
            .get(..plain.len().saturating_sub(1))
            .unwrap_or_default(),
        false => plain,
    };
    // The last name may go on.
    let whole = plain.rsplit_once('/').map_or("", |(whole, _)| whole);
    let below = match whole {
        "" => "/".to_string(),
        whole => format!("/{whole}/"),
    };
    match below.starts_with(folder) {
        true => below,
        false => folder.to_string(),
    }
}

/// The tables of paths without those that change nothing, by name.
fn needed(mut paths: Vec<Table>) -> Vec<Table> {
    paths.sort_by(|one, other| one.name.cmp(&other.name));
    let mut kept: Vec<Table> = Vec::new();
    for table in paths {
        // An exact location may have the name of a prefix; the stricter one applies.
        if let Some(same) = kept.last_mut().filter(|of| of.name == table.name) {
            if table.value("access") == Some("\"closed\"") {
                *same = table;
            }
            continue;
        }
        let prefix = |table: &Table| table.name.trim_end_matches('"').to_string();
        let mut around = kept
            .iter()
            .filter(|of| prefix(&table).starts_with(&prefix(of)));
        // The longest prefix comes last.
        let is_needed = match around.next_back() {
            Some(around) => !around.sets_the_same(&table),
            None => !table.is_empty(),
        };
        if is_needed {
            kept.push(table);
        }
    }
    kept
}

/// Puts the tables together.
fn finish(
    converted: Converted<'_>,
    outer: &Scope<'_>,
    servers: &ChosenServers<'_>,
    (sites, needless): (Vec<Table>, BTreeSet<String>),
) -> Result<Conversion, &'static str> {
    let Converted {
        roots,
        paths,
        pulls,
        cors_headers,
        mut findings,
    } = converted;
    let mut tables = Vec::from([Table::new("")]);
    let has_roots = roots.write(&mut tables[0]);
    roots.write_challenges(&mut tables[0]);
    let is_empty = !has_roots && pulls.is_empty();
    if is_empty && sites.is_empty() {
        return Err("no folder and no origin that could be served; keep nginx, and see beside.md");
    }
    let mut addresses = Addresses::default();
    let main = servers.main.iter();
    let sites_of = servers
        .sites
        .iter()
        .filter(|of| may_have_files(of.inside()));
    for server in main.chain(&servers.alike).chain(sites_of) {
        addresses.add(server.inside(), &mut findings);
    }
    for server in &servers.redirecting {
        addresses.add_redirect(server, &mut findings);
    }
    addresses.write(outer, &mut tables, &mut findings);
    if let Some(first) = servers.main.or(servers.sites.first().copied()) {
        limits::convert(&outer.inside(first.inside()), &mut tables, &mut findings);
    }
    let mut cors = Table::new("cors");
    cors.remark(
        "origins",
        "[]",
        "nginx allows none unless it says so; the library page needs [\"*\"]",
    );
    if !cors_headers.is_empty() {
        cors.remark(
            "headers",
            list(cors_headers),
            "Access-Control-Allow-Headers",
        );
    }
    tables.push(cors);
    if !is_empty {
        tables.extend(needed(paths));
    }
    tables.extend(sites);
    tables.extend(pulls);
    let mut toml = HEAD.to_string();
    // An empty table of a path means that the one around it does not apply.
    let shown = tables
        .iter()
        .filter(|table| !table.is_empty() || table.name.contains("path."));
    shown.for_each(|table| toml.push_str(&table.show()));
    Ok(Conversion {
        toml,
        findings: findings.finish(),
        needless: needless.into_iter().collect(),
    })
}

#[cfg(test)]
#[path = "convert_tests.rs"]
mod tests;
