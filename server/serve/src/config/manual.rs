//! The manual's page about the configuration, written from the table of keys.

use std::fmt::Write as _;

use super::keys::{DEVICE_KEYS, KEYS, Key};
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

/// The whole page, as `docs/operate/configuration.md` holds it.
pub fn manual() -> String {
    let mut page = HEAD.to_string();
    let mut table = None;
    for key in KEYS {
        let (of, name) = key.split();
        if table != Some(of) {
            table = Some(of);
            let title = match of {
                "" => "\n## At the top\n".to_string(),
                of => format!("\n## [{of}]\n"),
            };
            page.push_str(&title);
        }
        entry(&mut page, name, key, &Config::default());
    }
    page.push_str(
        "\n## [device.\"NAME\"]\n\nOne table for each device that differs, by the kernel's name \
         (`sda`, `nvme0n1`),\na whole disk's and not a partition's; `headlong check` lists them. What is not set \
         is as for all\ndevices.\n",
    );
    for key in DEVICE_KEYS {
        entry(&mut page, key.name, key, &DeviceOverride::default());
    }
    page
}

fn entry<T>(page: &mut String, name: &str, key: &Key<T>, default: &T) {
    let default = match (key.show)(default) {
        unset if unset.is_empty() => "not set".to_string(),
        shown => format!("`{shown}`"),
    };
    // Writing to a String cannot fail.
    let _ = write!(
        page,
        "\n### `{name}`\n\n{}\n\n- write: {}\n- default: {default}\n",
        key.text,
        (key.form)()
    );
}

impl Config {
    /// Every key with the value in force, as a file that says the same; what is not set is left
    /// out.
    pub fn show(&self) -> String {
        let mut text = String::new();
        let mut table = "";
        for key in KEYS {
            let (of, name) = key.split();
            let shown = (key.show)(self);
            if shown.is_empty() {
                continue;
            }
            if of != table {
                table = of;
                let _ = write!(text, "\n[{of}]\n");
            }
            let _ = writeln!(text, "{name} = {shown}");
        }
        for (device, settings) in &self.device {
            let device = toml::Value::String(device.clone());
            let _ = write!(text, "\n[device.{device}]\n");
            for key in DEVICE_KEYS {
                let shown = (key.show)(settings);
                if !shown.is_empty() {
                    let _ = writeln!(text, "{} = {shown}", key.name);
                }
            }
        }
        text
    }
}
