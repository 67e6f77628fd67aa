//! Sites: host names with roots and rules of their own, and the places of all roots.
//!
//! A site shares nothing with other hosts but the machine: neither roots nor rules of paths. Hosts
//! without a table have the roots and rules at the top.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use headlong_library::MountedRoot;
use headlong_settings::{Document, Rows};

use crate::kinds::{host, path};
use crate::path_rule::{PathRule, Site, site_prefix};
use crate::paths;
use crate::pulls;
use crate::settings::Config;

/// Settings of a site, besides its rules of paths.
#[rustfmt::skip]
pub(crate) fn site_rows() -> Rows<Site> {
    let mut rows = Rows::<Site>::default();
    rows.add("names", host().list(), |s| &mut s.names,
        "Further host names of the site, such as that with `www.`.");
    rows.add("roots", path().list(), |s| &mut s.roots,
        "Folders of this site, as `roots` at the top. Other sites may have the same folder, or one in it; its files are then read for each of them.").restart();
    rows
}

/// Reads every `[site."NAME"]` and reports its mistakes.
pub(crate) fn read(document: &mut Document, config: &mut Config) {
    let mut taken: Vec<String> = Vec::new();
    for name in document.children("site") {
        let table = format!("site.{name}");
        let mut site = Site::default();
        site_rows().read(document, &table, &mut site);
        let paths = format!("{table}.path");
        site.path = paths::read_rules(document, &paths, &config.session, &config.log.headers);
        if !is_host_name(&name) {
            let text = "is not a host name; write it like [site.\"films.example\"]";
            document.wrong(&table, text);
        }
        let hosts = std::iter::once((&table, &name));
        let names = format!("{table}.names");
        let hosts = hosts.chain(site.names.iter().map(|further| (&names, further)));
        for (key, host) in hosts {
            let host = host.to_ascii_lowercase();
            if taken.contains(&host) {
                let text = format!("{host} is already a name of a site; remove one of the two");
                document.wrong_too(key, text);
            }
            taken.push(host);
        }
        let pulls = format!("{table}.pull");
        pulls::read(document, &pulls, &site_prefix(&name), config);
        let has_alias = site.path.values().any(|rule| !rule.alias.is_empty());
        let has_origin = config.pulls_of(&site_prefix(&name)).next().is_some();
        if site.roots.is_empty() && !has_alias && !has_origin {
            let text =
                "names no folder and no origin; write roots = [\"/srv/films\"], or remove it";
            document.wrong_too(&table, text);
        }
        config.site.insert(name, site);
    }
}

fn is_host_name(name: &str) -> bool {
    let is_fit = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    !name.is_empty() && !name.starts_with('.') && name.chars().all(is_fit)
}

/// The roots and folders of `alias` of one site; `prefix` is that of the site.
fn served<'a>(
    prefix: &str,
    roots: &'a [PathBuf],
    rules: &'a BTreeMap<String, PathRule>,
) -> Vec<MountedRoot> {
    let own = roots.iter().map(|root| MountedRoot::at(prefix, root));
    let aliases = rules.iter().flat_map(|(path, rule)| {
        let below = format!("{prefix}{}", path.strip_prefix('/').unwrap_or(path));
        let folders = rule.alias.iter();
        folders.map(move |folder| MountedRoot::at(below.clone(), folder))
    });
    own.chain(aliases).collect()
}

impl Config {
    /// The folders that are served, each with its place in the tree.
    pub fn served(&self) -> Vec<MountedRoot> {
        let mut all = served("", &self.roots, &self.path);
        for (name, site) in &self.site {
            all.extend(served(&site_prefix(name), &site.roots, &site.path));
        }
        all
    }

    /// The served folders, followed by those of origins that are not served, and the targets of
    /// links.
    pub fn folders(&self) -> Vec<MountedRoot> {
        let mut folders = self.served();
        for rule in self.pull.values() {
            if !folders.iter().any(|of| of.folder == rule.folder) {
                folders.push(MountedRoot::at("", &rule.folder));
            }
        }
        let targets = self.link_targets.iter();
        folders.extend(targets.map(|of| MountedRoot::at("", of)));
        folders
    }

    /// All rules of paths, each with the name of its table.
    pub fn rules(&self) -> impl Iterator<Item = (String, &PathRule)> {
        let own = self.path.iter();
        let own = own.map(|(prefix, rule)| (format!("path.{prefix}"), rule));
        let of_sites = self.site.iter().flat_map(|(name, site)| {
            let rules = site.path.iter();
            rules.map(move |(prefix, rule)| (format!("site.{name}.path.{prefix}"), rule))
        });
        own.chain(of_sites)
    }

    /// The setting that names a folder.
    pub(crate) fn key_of(&self, folder: &Path) -> String {
        let has = |folders: &[PathBuf]| folders.iter().any(|one| one == folder);
        if has(&self.roots) {
            return "roots".to_owned();
        }
        if let Some((name, _)) = self.site.iter().find(|(_, site)| has(&site.roots)) {
            return format!("site.{name}.roots");
        }
        if has(&self.link_targets) {
            return "link_targets".to_owned();
        }
        if let Some((table, _)) = self.rules().find(|(_, rule)| has(&rule.alias)) {
            return format!("{table}.alias");
        }
        let of_pull = self.pulls().find(|(_, _, rule)| rule.folder == folder);
        of_pull.map_or("roots".to_owned(), |(table, ..)| format!("{table}.folder"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Flags, Mistakes};

    fn load(text: &str) -> Result<Config, Mistakes> {
        Config::from_text(Path::new("/etc/h.toml"), text, &Flags::default())
    }

    #[test]
    fn roots_and_aliases_have_places_by_site_and_prefix() {
        let config = load(
            "roots = [\"/srv/a\"]\n[path.\"/x/\"]\nalias = [\"/mnt/x\", \"x2\"]\n\
             [site.\"Films.example\"]\nnames = [\"www.films.example\"]\nroots = [\"/srv/f\"]\n\
             [site.\"Films.example\".path.\"/old/\"]\nalias = \"/mnt/old\"\naccess = \"closed\"\n",
        );
        let config = config.expect("valid");
        let served = config.served();
        let served: Vec<(&str, &Path)> = served
            .iter()
            .map(|root| (root.prefix.as_str(), root.folder.as_path()))
            .collect();
        let expected = [
            ("", "/srv/a"),
            ("x/", "/mnt/x"),
            ("x/", "/etc/x2"),
            ("/films.example/", "/srv/f"),
            ("/films.example/old/", "/mnt/old"),
        ];
        assert_eq!(served, expected.map(|(prefix, at)| (prefix, Path::new(at))));
        let tables: Vec<String> = config.rules().map(|(table, _)| table).collect();
        let of_site = "site.Films.example.path./old/";
        assert_eq!(tables, ["path./x/", of_site]);
        for (folder, key) in [
            ("/srv/a", "roots"),
            ("/etc/x2", "path./x/.alias"),
            ("/srv/f", "site.Films.example.roots"),
            ("/mnt/old", "site.Films.example.path./old/.alias"),
        ] {
            assert_eq!(config.key_of(Path::new(folder)), key);
        }
        let shown = config.show();
        let again = load(&shown).expect(&shown);
        assert_eq!(again.site, config.site, "{shown}");
    }

    #[test]
    fn origins_of_sites_have_places_and_are_shown_as_written() {
        let rule = "origin = \"http://o/\"\nfolder = \"/mnt/x\"\n";
        let text = format!(
            "[pull.\"/vod/\"]\n{rule}[site.\"A.example\".pull.\"/vod/\"]\n{rule}\
             [site.\"a.example.org\"]\nroots = [\"/srv/b\"]\n"
        );
        let config = load(&text).expect("valid");
        let tables: Vec<_> = config
            .pulls()
            .map(|(table, place, _)| (table, place))
            .collect();
        let of_site = "site.A.example.pull./vod/".to_owned();
        let expected = [
            (of_site, "//a.example/vod/"),
            ("pull./vod/".to_owned(), "/vod/"),
        ];
        assert_eq!(tables, expected);
        let shown = config.show();
        let again = load(&shown).expect("valid");
        assert_eq!(
            (again.pull, again.site),
            (config.pull, config.site),
            "{shown}"
        );
    }

    #[test]
    fn reports_all_mistakes_in_sites() {
        let wrong = load(
            "roots = [\"/srv/a\"]\n[path.\"/x\"]\nalias = \"/mnt/x\"\n\
             [site.\"a b\"]\nroots = [\"/srv/b\"]\n\
             [site.\"a.example\"]\nnames = [\"b.example:80\"]\nrots = [\"/srv/c\"]\n\
             [site.\"b.example\"]\nnames = [\"c.example\"]\nroots = [\"/srv/d\"]\n\
             [site.\"C.example\"]\nroots = [\"/srv/e\"]\n\
             [site.\"C.example\".path.\"/k/\"]\naccess = \"signed\"\nexpire = \"1h\"\n",
        );
        let wrong = wrong.expect_err("wrong").to_string();
        for said in [
            "path./x.alias: needs a prefix with a slash at its end",
            "site.a b: is not a host name",
            "site.a.example.names: ",
            "site.a.example.rots: unknown key",
            "site.a.example: names no folder and no origin",
            "site.C.example: c.example is already a name of a site",
            "site.C.example.path./k/.keys: must hold a key",
            "site.C.example.path./k/.expire: unknown key",
        ] {
            assert!(wrong.contains(said), "{said} in {wrong}");
        }
    }

    #[test]
    fn site_alone_is_something_to_serve() {
        load("[site.\"a.example\"]\nroots = [\"/srv/b\"]\n").expect("valid");
        load("[path.\"/a/\"]\nalias = \"/srv/b\"\n").expect("valid");
        load("[path.\"/a/\"]\naccess = \"closed\"\n").expect_err("nothing to serve");
    }
}
