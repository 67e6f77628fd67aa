//! Settings of paths that are filled from an origin, and their checks.

use headlong_edge::PullRule;
use headlong_http::QueryKey;
use headlong_net::ListenAddress;
use headlong_settings::Tier::Expert;
use headlong_settings::{Document, Rows, ValueKind, flag, size, text, time};
use headlong_units::{Duration, KIB, MIB};

use crate::kinds::{host, of_query, path, region};
use crate::path_rule::site_prefix;
use crate::settings::Config;

/// Lower limit of timeouts.
const SHORTEST: Duration = Duration::from_millis(1);
/// Upper limit of the size of a slice, because each fetch holds one in memory.
const SLICE_BYTES_MAX: u64 = 64 * MIB;

fn origin() -> ValueKind<String> {
    text().check(|text, written| {
        let wrong = |error| format!("{} {error}", written.quoted());
        PullRule::target_of_url(text).map(drop).map_err(wrong)
    })
}

fn query_key() -> ValueKind<QueryKey> {
    let names = |key: &QueryKey| match key {
        QueryKey::Names(names) => names.clone(),
        QueryKey::Ignored | QueryKey::All => Vec::new(),
    };
    of_query()
        .list()
        .map(QueryKey::Names, names)
        .or_word("ignore", QueryKey::Ignored)
        .or_word("key", QueryKey::All)
}

/// Settings of a path that is filled from an origin.
#[rustfmt::skip]
pub(crate) fn pull_rows() -> Rows<PullRule> {
    let mut rows = Rows::<PullRule>::default();
    rows.add("origin", origin(), |p| &mut p.origin,
        "The URL of a folder of the origin, `http` or `https`; the rest of a request's path after the prefix is appended to it. Queries, cookies and headers of viewers are not forwarded.").restart();
    rows.add("fleet", path().optional(), |p| &mut p.fleet,
        "The description of the fleet, as for `headlong fleet config`; its boxes have the same path. For a title that is not stored here, up to four of them are asked for what they have stored, before the origin is: first the one to which HAProxy sends requests for the title. See fleet.md.").restart();
    rows.add("s3_region", region().optional(), |p| &mut p.s3_region,
        "The region of the origin's S3 bucket, or of a compatible server: requests are signed with the keys of the bucket (AWS Signature Version 4).").restart();
    rows.add("s3_keys", path().optional(), |p| &mut p.s3_keys,
        "A file with `aws_access_key_id = ...`, `aws_secret_access_key = ...` and optionally `aws_session_token = ...`, readable only by the server's user and group. It is read again when the bucket refuses a request. Without it, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN of the environment are used.").restart();
    rows.add("query", query_key(), |p| &mut p.query,
        "The part of a request's query that distinguishes titles and is sent to the origin: nothing (`ignore`), the whole query unchanged (`key`), or the arguments with these names, in this order. Tokens, session ids and CMCD are always excluded.").restart();
    rows.add("folder", path(), |p| &mut p.folder,
        "A folder on the disk that keeps the fetched slices, in the subfolder `.headlong-pull`; it may be a root.").restart();
    rows.add("bytes_max", size().at_least(MIB), |p| &mut p.bytes_max,
        "Upper limit of the disk space used, with that of folders and of the unused ends of blocks. The least read slices are evicted first, ends of titles before their beginnings.").restart();
    rows.add("free_bytes_min", size(), |p| &mut p.free_bytes_min,
        "Bytes to leave free on that file system.").restart().tier(Expert);
    rows.add("slice_bytes", size().between(64 * KIB, SLICE_BYTES_MAX), |p| &mut p.slice_bytes,
        "Size of the slices in which titles are fetched and kept. Slices of a different size from an earlier setting are dropped.").restart().tier(Expert);
    rows.add("ahead_bytes", size(), |p| &mut p.ahead_bytes,
        "Bytes prefetched for sequential readers, beyond the slice being read.").restart().tier(Expert);
    rows.add("fresh", time(), |p| &mut p.fresh,
        "How long a title is fresh before it is validated with the origin, if the origin sends no `max-age`. A `max-age` of up to a day is respected.").restart();
    rows.add("stale_max", time(), |p| &mut p.stale_max,
        "How long a title is served stale after its last validation while the origin fails.").restart();
    rows.add("negative", time(), |p| &mut p.negative,
        "How long it is remembered that the origin does not have a title.").restart().tier(Expert);
    rows.add("redirect_hosts", host().list(), |p| &mut p.redirect_hosts,
        "Additional hosts that the origin may redirect to. At most three redirects are followed, and none from https to http.").restart();
    rows.add("private_addresses", flag(), |p| &mut p.private_addresses,
        "Whether hosts that the origin redirects to may have loopback, private or link-local addresses. The origin itself may.").restart().tier(Expert);
    rows.add("idle_timeout", time().at_least(SHORTEST), |p| &mut p.idle_timeout,
        "Time limit for the origin's response, and between two parts of its body.").restart().tier(Expert);
    rows
}

/// Former settings of such a path, each with its remedy.
const FORMER: &[(&str, &str)] = &[(
    "peers",
    "write fleet = \"FILE\", with the description of all boxes (fleet.md)",
)];

/// Reads every `[pull."PREFIX"]` of a table, such as that of a site, and reports its mistakes.
/// `site` is what the paths of the site begin with; empty for the table at the top.
pub(crate) fn read(document: &mut Document, tables: &str, site: &str, config: &mut Config) {
    for prefix in document.children(tables) {
        let table = format!("{tables}.{prefix}");
        let mut rule = PullRule::default();
        document.reject_former(&table, FORMER);
        pull_rows().read(document, &table, &mut rule);
        let is_folder = prefix.starts_with('/') && prefix.ends_with('/');
        if !is_folder || prefix.contains("//") || prefix.contains('%') {
            let text = "is not a folder's path; write it decoded, from the root and with a slash at \
                 its end, like \"/films/\"";
            document.wrong(&table, text);
        }
        for (key, is_missing, what) in [
            (
                "origin",
                rule.origin.is_empty(),
                "like \"https://origin.example/vod/\"",
            ),
            (
                "folder",
                rule.folder.as_os_str().is_empty(),
                "on the disk that keeps the slices",
            ),
        ] {
            let key_path = format!("{table}.{key}");
            if is_missing && !document.mistakes.is_about(&key_path) {
                document.wrong_too(&key_path, format!("is missing; add {key}, {what}"));
            }
        }
        if rule.bytes_max < rule.slice_bytes.saturating_mul(4) {
            let text = "holds fewer than four slices; raise it, or lower slice_bytes";
            document.wrong_too(&format!("{table}.bytes_max"), text);
        }
        let below = prefix.strip_prefix('/').unwrap_or(&prefix);
        config.pull.insert(format!("/{site}{below}"), rule);
    }
}

impl Config {
    /// Gives all origins the addresses of this server, by which its own box of a fleet is known.
    pub(crate) fn set_own_addresses(&mut self) {
        let own = self.listeners().into_iter();
        let own = own.filter_map(|on| match on.address {
            ListenAddress::Ip(address) => Some(address),
            ListenAddress::Unix(_) => None,
        });
        let own: Vec<_> = own.collect();
        for rule in self.pull.values_mut() {
            rule.own_addresses.clone_from(&own);
        }
    }

    /// The origins of the site whose paths begin with `site`, each with its prefix there; of all
    /// other hosts, if that is empty.
    pub(crate) fn pulls_of<'a>(
        &'a self,
        site: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a PullRule)> {
        self.pull.iter().filter_map(move |(prefix, rule)| {
            let below = match site.strip_suffix('/') {
                None if prefix.starts_with("//") => return None,
                None => prefix,
                Some(site) => {
                    let below = prefix.strip_prefix('/')?.strip_prefix(site)?;
                    below.starts_with('/').then_some(below)?
                }
            };
            Some((below, rule))
        })
    }

    /// All origins, each with the name of its table and its prefix in the tree of all sites.
    pub(crate) fn pulls(&self) -> impl Iterator<Item = (String, &str, &PullRule)> {
        self.pull.iter().map(|(prefix, rule)| {
            let table = self.site.keys().find_map(|name| {
                let below = prefix.strip_prefix('/')?.strip_prefix(&site_prefix(name))?;
                Some(format!("site.{name}.pull./{below}"))
            });
            let table = table.unwrap_or_else(|| format!("pull.{prefix}"));
            (table, prefix.as_str(), rule)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use headlong_library::MountedRoot;
    use headlong_net::ListenAddress;

    use crate::{Config, Flags};

    #[test]
    fn reports_all_mistakes_in_pull_rules() {
        let text = "[pull.films]\norigin = \"ftp://a/\"\nfolder = \"x\"\n\
            [pull.\"/a/\"]\n\
            [pull.\"/b/\"]\norigin = \"http://u:p@a/\"\nfolder = \"x\"\nbytes_max = \"1MiB\"\n\
            [pull.\"/c/\"]\norigin = \"http://a/b\"\nfolder = \"x\"\nslice_bytes = \"1B\"\n";
        let wrong = Config::from_text(Path::new("x.toml"), text, &Flags::default());
        let wrong = wrong.expect_err("wrong").to_string();
        for said in [
            "pull.films:",
            "pull.films.origin",
            "pull./a/.origin: is missing",
            "pull./a/.folder: is missing",
            "pull./b/.origin",
            "pull./b/.bytes_max",
            "pull./c/.origin",
            "pull./c/.slice_bytes",
        ] {
            assert!(wrong.contains(said), "{said} in {wrong}");
        }
    }

    #[test]
    fn former_list_of_peers_is_rejected_with_its_remedy() {
        for above in ["", "site.\"a.example\"."] {
            let text = format!(
                "[{above}pull.\"/a/\"]\norigin = \"http://a/\"\nfolder = \"x\"\n\
                peers = [\"http://b/a/\"]\n"
            );
            let wrong = Config::from_text(Path::new("x.toml"), &text, &Flags::default());
            let wrong = wrong.expect_err("wrong").to_string();
            let said = "pull./a/.peers: is no longer a setting; write fleet = ";
            assert!(wrong.contains(said), "{wrong}");
        }
    }

    #[test]
    fn origin_without_root_is_valid() {
        let text = "[pull.\"/a/\"]\norigin = \"http://a/\"\nfolder = \"x\"\n";
        let config = Config::from_text(Path::new("y/z.toml"), text, &Flags::default());
        let config = config.expect("right");
        assert_eq!(config.folders(), [MountedRoot::at("", Path::new("y/x"))]);
        assert!(!config.listen.is_empty());
        let own = config.pull["/a/"].own_addresses.iter().copied();
        let own: Vec<ListenAddress> = own.map(ListenAddress::Ip).collect();
        assert_eq!(own, config.listen);
    }
}
