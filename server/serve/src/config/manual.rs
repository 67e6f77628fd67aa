//! The manual's page about the configuration, written from the table of keys.

use headlong_settings::quote;

use super::keys::{device_rows, rows};
use super::path_rule::PathRule;
use super::paths::path_rows;
use super::pull_rule::PullRule;
use super::pulls::pull_rows;
use super::settings::{Config, DeviceOverride};

const HEAD: &str = "\
# Configuration

This page is written from the table of keys in the source (`UPDATE=1 cargo test -p headlong-serve
manual` renews it), so it names every key there is, with the default in force.

`headlong serve --config FILE` reads one TOML file. Flags override the file. Sizes are written as
`\"2MiB\"`, times as `\"5s\"`, bit rates as `\"2000kbps\"`. Paths in the file are relative to the file's
folder. All mistakes are reported at once, with file and line, before a port or a disk is touched;
`headlong check` with the same arguments does nothing else. On SIGHUP the file is read again, and
one with a mistake changes nothing.

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

const DEVICES: &str = "
## [device.\"NAME\"]

One table for each device that differs, by the kernel's name (`sda`, `nvme0n1`),
a whole disk's and not a partition's; `headlong check` lists them. What is not set is as for all
devices.
";

const PATHS: &str = "
## [path.\"PREFIX\"]

One table for each path that differs, by the beginning of the decoded path, such as `\"/films/\"`. The
longest one that fits is in force, alone. A reload takes all of it. [access.md](access.md) has
examples.
";

const PULLS: &str = "
## [pull.\"PREFIX\"]

One table for each path whose titles come from an origin, by the beginning of the decoded path, such as
`\"/films/\"`; the longest that fits is in force, and roots are not asked there. [edge.md](edge.md) has
examples.
";

/// The whole page, as `docs/operate/configuration.md` holds it.
pub fn manual() -> String {
    let mut page = format!("{HEAD}\n## At the top\n");
    rows().document(&mut page, &Config::default());
    page.push_str(DEVICES);
    device_rows().document(&mut page, &DeviceOverride::default());
    page.push_str(PATHS);
    path_rows().document(&mut page, &PathRule::default());
    page.push_str(PULLS);
    pull_rows().document(&mut page, &PullRule::default());
    page
}

impl Config {
    /// Every setting with the value in force, as a file that says the same; what is not set is left
    /// out, and of secrets there is a comment.
    pub fn show(&self) -> String {
        let mut text = String::new();
        rows().write(&mut text, "", self);
        for (device, settings) in &self.device {
            text.push_str(&format!("\n[device.{}]\n", quote(device)));
            device_rows().write(&mut text, "", settings);
        }
        for (prefix, rule) in &self.path {
            text.push_str(&format!("\n[path.{}]\n", quote(prefix)));
            path_rows().write(&mut text, "", rule);
        }
        for (prefix, rule) in &self.pull {
            text.push_str(&format!("\n[pull.{}]\n", quote(prefix)));
            pull_rows().write(&mut text, "", rule);
        }
        text
    }
}
