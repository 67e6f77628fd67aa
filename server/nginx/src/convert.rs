//! The conversion as a whole: which server is converted, and in which order.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::access::{self, close};
use crate::finding::{Finding, Findings};
use crate::known::{Treatment, treatment};
use crate::limits;
use crate::listen::{Addresses, port};
use crate::location::{Converted, Match, REDIRECT, SHARED_ZONE};
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
    let scope = outer.inside(chosen.main.inside());
    convert_server(&scope, &mut converted, &mut needless);
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
    finish(converted, &outer, &scope, &chosen, (sites, needless))
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
    let mut tasks = Vec::from([scope.clone()]);
    let (mut patterns, mut has_top) = (Vec::new(), false);
    while let Some(around) = tasks.pop() {
        for location in around.here().iter().filter(|of| of.name == "location") {
            let inner = around.inside(location.inside());
            judge(location.inside(), &mut converted.findings, needless);
            match Match::of(location) {
                Match::Prefix(prefix) if is_of_challenges(prefix) => {
                    converted
                        .roots
                        .add_challenges(&inner, &mut converted.findings);
                }
                Match::Prefix(prefix) => {
                    has_top |= prefix == "/";
                    converted.add(&inner, prefix);
                    tasks.push(inner);
                }
                Match::Exact(path) => exact(path, location, converted),
                Match::Pattern(pattern) => patterns.push((pattern, location)),
                Match::Named => {}
            }
        }
    }
    if !has_top {
        converted.add(scope, "/");
    }
    for (pattern, location) in patterns {
        by_pattern(pattern, location, converted);
    }
}

/// The tables of a site; none, with the reason, if it cannot be one beside the others.
fn site<'a>(server: &'a Directive, own: Converted<'a>, all: &mut Converted<'a>) -> Vec<Table> {
    let names = host_names(server);
    let [first, others @ ..] = names.as_slice() else {
        return Vec::new();
    };
    all.findings.join(own.findings);
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
    main: &'a Directive,
    /// Those that serve the same on other addresses.
    alike: Vec<&'a Directive>,
    /// Those that redirect everything to TLS.
    redirecting: Vec<&'a Directive>,
    /// Those with other names.
    sites: Vec<&'a Directive>,
}

/// The servers to convert. Reports the others.
fn chosen<'a>(servers: &[&'a Directive], findings: &mut Findings) -> Option<ChosenServers<'a>> {
    let is_default = |server: &&Directive| {
        let mut listens = server.inside().iter().filter(|of| of.name == "listen");
        listens.any(|of| of.args.iter().any(|arg| arg == "default_server"))
    };
    let serving = || servers.iter().copied().filter(|server| !redirects(server));
    let main = serving().find(is_default).or_else(|| serving().next())?;
    let (mut alike, mut redirecting, mut sites) = (Vec::new(), Vec::new(), Vec::new());
    for server in servers
        .iter()
        .copied()
        .filter(|server| !core::ptr::eq(*server, main))
    {
        match () {
            () if redirects(server) && is_to_tls(server) => redirecting.push(server),
            () if redirects(server) => findings.add(server, REDIRECT),
            () if serves_the_same(main, server) && is_on_other_port(main, server) => {
                alike.push(server)
            }
            () if !host_names(server).is_empty() => sites.push(server),
            () => findings.add(
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

/// Whether a server redirects to TLS.
fn is_to_tls(server: &Directive) -> bool {
    let is_it = |of: &Directive| of.name == "return" && of.arg(1).starts_with("https://");
    let mut blocks = server.inside().iter().filter(|of| of.name == "location");
    let mut returns = server.inside().iter();
    returns.any(is_it) || blocks.any(|of| of.inside().iter().any(is_it))
}

/// Whether a server answers everything with a redirect, except challenges of ACME.
fn redirects(server: &Directive) -> bool {
    let returns = |block: &[Directive], code: &str| {
        let mut returns = block.iter().filter(|of| of.name == "return");
        returns.any(|of| of.arg(0).starts_with(code))
    };
    let locations = || server.inside().iter().filter(|of| of.name == "location");
    let mut tops = locations().filter(|of| Match::of(of) == Match::Prefix("/"));
    let mut others = locations().filter(|of| match Match::of(of) {
        Match::Prefix(prefix) => prefix != "/" && !prefix.starts_with("/.well-known"),
        Match::Exact(_) | Match::Pattern(_) | Match::Named => false,
    });
    returns(server.inside(), "")
        || (tops.any(|top| returns(top.inside(), "3")) && others.next().is_none())
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
fn exact(path: &str, location: &Directive, converted: &mut Converted<'_>) {
    let block = location.inside();
    // Locations of other content have no file of this name.
    let is_file = !block
        .iter()
        .any(|of| of.name == "internal" || of.name.ends_with("_pass"));
    if is_file && access::refuses(block) {
        let mut table = Table::of("path", path);
        close(&mut table, location);
        converted.paths.push(table);
    } else if is_file && !path.ends_with('/') && !["/favicon.ico", "/robots.txt"].contains(&path) {
        let text = "a [path] is a prefix: write one for this path if its settings matter";
        converted.findings.add(location, text);
    }
}

/// A location by a regular expression. If it refuses requests, or answers them by other means, all
/// paths are closed, as it may match below each.
fn by_pattern(pattern: &str, location: &Directive, converted: &mut Converted<'_>) {
    // Names with a leading dot are not served.
    if pattern.contains("/\\.") {
        return;
    }
    let block = location.inside();
    let answers = |of: &Directive| of.name.ends_with("_pass") || of.name == "return";
    if access::refuses(block) || block.iter().any(answers) {
        for table in &mut converted.paths {
            close(table, location);
        }
        let text = "locations by regular expression are not supported, and this one refuses \
            or answers \
                    requests: all paths are closed; open folders by [path] tables with rules \
                    of their own";
        converted.findings.add(location, text);
        return;
    }
    let is_set = |of: &Directive| treatment(&of.name) == Treatment::Converted;
    if block.iter().any(is_set) {
        let text = "locations by regular expression are not supported: write its settings in \
            a [path] for \
                    each folder, and its `root` in `roots`";
        converted.findings.add(location, text);
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
    scope: &Scope<'_>,
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
    if !has_roots && pulls.is_empty() {
        return Err("no folder and no origin that could be served; keep nginx, and see beside.md");
    }
    let mut addresses = Addresses::default();
    let main = core::iter::once(&servers.main);
    for server in main.chain(&servers.alike).chain(&servers.sites) {
        addresses.add(server.inside(), &mut findings);
    }
    for server in &servers.redirecting {
        addresses.add_redirect(server, &mut findings);
    }
    addresses.write(outer, &mut tables, &mut findings);
    limits::convert(scope, &mut tables, &mut findings);
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
    tables.extend(needed(paths));
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
