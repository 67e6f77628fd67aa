//! Generates the manual page of the configuration from the tables of settings.

use headlong_settings::quote;

use super::keys::{device_rows, rows};
use super::path_rule::PathRule;
use super::paths::path_rows;
use super::pull_rule::PullRule;
use super::pulls::pull_rows;
use super::settings::{Config, DeviceOverride};

const HEAD: &str = "\
# Configuration

This page is generated from the table of settings in the source (`UPDATE=1 cargo test -p
headlong-serve manual` updates it), so it lists every setting with its default.

`headlong serve --config FILE` reads one TOML file. Flags override the file. Sizes are written as
`\"2MiB\"`, times as `\"5s\"`, bit rates as `\"2000kbps\"`. Paths in the file are relative to the file's
folder. All mistakes are reported at once, with file and line, before a port or a disk is used;
`headlong check` with the same arguments only does this check. On SIGHUP the file is read again, and
a file with a mistake changes nothing.

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

One table for each device with settings of its own, by its kernel name (`sda`, `nvme0n1`): that of
the whole disk, not of a partition. `headlong check` lists the names. Other settings are as for all
devices.
";

const PATHS: &str = "
## [path.\"PREFIX\"]

One table for each path with settings of its own, by a prefix of the decoded path, such as
`\"/films/\"`. Only the table with the longest matching prefix applies. A reload applies all of its
settings. [access.md](access.md) has examples.
";

const PULLS: &str = "
## [pull.\"PREFIX\"]

One table for each path whose titles come from an origin, by a prefix of the decoded path, such as
`\"/films/\"`. The longest matching prefix applies, and roots are not searched there.
[edge.md](edge.md) has examples.
";

/// The complete page, as in `docs/operate/configuration.md`.
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
    /// Every setting with its current value, as a file with the same meaning. Unset settings are
    /// omitted, and secrets appear as a comment.
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
