//! Generates the manual pages of the configuration from the tables of settings.

use headlong_edge::PullRule;
use headlong_engine::PIECE_BYTES_WITH_FLASH;
use headlong_settings::{ManualEntry, Tier, document, quote};

use crate::keys::{device_rows, rows};
use crate::path_rule::{PathRule, Site, site_prefix};
use crate::paths::path_rows;
use crate::pulls::pull_rows;
use crate::settings::{Config, DeviceOverride};
use crate::sites::site_rows;

const HEAD: &str = "\
# Configuration

This page is generated from the table of settings in the source (`UPDATE=1 cargo test -p
headlong-serve manual` updates it). It lists the settings that fit a feature or a site; those marked
*basic* are for every operator, see [settings.md](settings.md). Settings whose default is right
unless a measurement says otherwise are in [configuration-expert.md](configuration-expert.md). All of
them are written to the same file.

`headlong serve --config FILE` reads one TOML file. Flags override the file. Sizes are written as
`\"2MiB\"`, times as `\"5s\"`. Paths in the file are relative to the file's folder. All mistakes are
reported at once, with file and line, before a port or a disk is used; `headlong check` with the
same arguments only does this check. On SIGHUP the file is read again, and a file with a mistake
changes nothing.

A small file:

```toml
roots = [\"/srv/videos\"]
listen = [\"0.0.0.0:80\"]
memory = \"16GiB\"

[device.\"sda\"]
prefetch = \"12MiB\"

[log]
access = \"/var/log/headlong/access.log\"
```
";

const EXPERT_HEAD: &str = "\
# Expert configuration

This page is generated like [configuration.md](configuration.md), which explains how to write
settings. The default of each setting below is right unless a measurement says otherwise: change one
at a time, and compare `/status` before and after. `headlong simulate` with `--set server.NAME=VALUE`
shows the effect of an engine's setting without a disk, and has further ones that files may not have.
";

const DEVICES: &str = "
One table for each device with settings of its own, by its kernel name (`sda`, `nvme0n1`): that of
the whole disk, not of a partition. `headlong check` lists the names. Other settings are as for all
devices.
";

const PATHS: &str = "
One table for each path with settings of its own, by a prefix of the decoded path, such as
`\"/films/\"`. Only the table with the longest matching prefix applies. A reload applies all of its
settings. [access.md](access.md) has examples.
";

const SITES: &str = "
One table for each host name with files of its own, such as `\"films.example\"`. Requests for all
other hosts, and for addresses, get the roots and the tables at the top. A site has its own tables
for paths, `[site.\"NAME\".path.\"PREFIX\"]`, with the settings above, and for origins,
`[site.\"NAME\".pull.\"PREFIX\"]`, with those below; those at the top do not apply to it. [sites.md](sites.md) has examples.
";

const PULLS: &str = "
One table for each path whose titles come from an origin, by a prefix of the decoded path, such as
`\"/films/\"`. The longest matching prefix applies, and roots are not searched there.
[edge.md](edge.md) has examples.
";

/// A table of the file with its settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// Its heading; empty for the settings that have no common table.
    pub table: &'static str,
    /// When to write it, in Markdown.
    pub text: &'static str,
    /// Its settings.
    pub entries: Vec<ManualEntry>,
}

/// The tables of the file that have settings of these tiers.
pub fn sections(tiers: &[Tier]) -> Vec<Section> {
    let section = |table, text, entries| Section {
        table,
        text,
        entries,
    };
    let top = rows().entries(&Config::default(), tiers);
    let device = device_rows().entries(&DeviceOverride::default(), tiers);
    let path = path_rows().entries(&PathRule::default(), tiers);
    let site = site_rows().entries(&Site::default(), tiers);
    let pull = pull_rows().entries(&PullRule::default(), tiers);
    let all = [
        section("", "", top),
        section("[device.\"NAME\"]", DEVICES, device),
        section("[path.\"PREFIX\"]", PATHS, path),
        section("[site.\"NAME\"]", SITES, site),
        section("[pull.\"PREFIX\"]", PULLS, pull),
    ];
    let all = all.into_iter();
    all.filter(|section| !section.entries.is_empty()).collect()
}

/// The page of basic and normal settings, as in `docs/operate/configuration.md`.
pub fn manual() -> String {
    page(HEAD, &[Tier::Basic, Tier::Normal])
}

/// The page of expert settings, as in `docs/operate/configuration-expert.md`.
pub fn manual_expert() -> String {
    page(EXPERT_HEAD, &[Tier::Expert])
}

fn page(head: &str, tiers: &[Tier]) -> String {
    let mut page = head.to_owned();
    for section in sections(tiers) {
        let heading = match section.table {
            "" => "At the top",
            table => table,
        };
        page.push_str(&format!("\n## {heading}\n{}", section.text));
        document(&mut page, &section.entries);
    }
    page
}

impl Config {
    /// The settings as a file with the same meaning: the basic ones, and those that differ from
    /// their defaults. Secrets appear as a comment.
    pub fn show(&self) -> String {
        let mut text = String::new();
        let mut default = Self::default();
        if !self.flash.is_empty() {
            default.engine.piece_bytes = PIECE_BYTES_WITH_FLASH;
        }
        // The file that this text forms derives both again.
        default.limits.connections_max = self.connections_max_by_memory();
        if self.process_memory.is_some() {
            default.engine.memory_bytes = self.engine.memory_bytes;
        }
        rows().write(&mut text, "", (self, &default));
        for (device, settings) in &self.device {
            text.push_str(&format!("\n[device.{}]\n", quote(device)));
            device_rows().write(&mut text, "", (settings, &DeviceOverride::default()));
        }
        for (prefix, rule) in &self.path {
            text.push_str(&format!("\n[path.{}]\n", quote(prefix)));
            path_rows().write(&mut text, "", (rule, &PathRule::default()));
        }
        for (name, site) in &self.site {
            let table = format!("site.{}", quote(name));
            text.push_str(&format!("\n[{table}]\n"));
            site_rows().write(&mut text, "", (site, &Site::default()));
            for (prefix, rule) in &site.path {
                text.push_str(&format!("\n[{table}.path.{}]\n", quote(prefix)));
                path_rows().write(&mut text, "", (rule, &PathRule::default()));
            }
            for (prefix, rule) in self.pulls_of(&site_prefix(name)) {
                text.push_str(&format!("\n[{table}.pull.{}]\n", quote(prefix)));
                pull_rows().write(&mut text, "", (rule, &PullRule::default()));
            }
        }
        for (prefix, rule) in self.pulls_of("") {
            text.push_str(&format!("\n[pull.{}]\n", quote(prefix)));
            pull_rows().write(&mut text, "", (rule, &PullRule::default()));
        }
        text
    }
}
