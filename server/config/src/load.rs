//! Loads a [`Config`] from a file and flags: parses the text, then checks its meaning.

use std::path::{Path, PathBuf};

use headlong_engine::PIECE_BYTES_WITH_FLASH;
use headlong_settings::{Document, Mistakes, Value, ValueLocation, whole};
use headlong_telemetry::LogTarget;

use crate::check;
use crate::keys::{device_rows, rows};
use crate::paths;
use crate::pulls;
use crate::settings::{Config, DeviceOverride};
use crate::sites;

/// The manual page that lists all settings.
const MANUAL: &str = "/usr/share/doc/headlong/configuration.md";

/// Options that `-h` does not show.
const EXPERT: &str = "Expert and experiments";

/// Command line settings; each overrides the key of its name in the file. They are kept as text, so
/// that mistakes in flags are reported together with those in the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
pub struct Flags {
    /// Folders to serve; URLs are the paths below them
    #[arg(value_name = "DIR")]
    pub roots: Vec<PathBuf>,
    /// Address for viewers, such as 127.0.0.1:8080 or [::]:8080; may be given several times
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: Vec<String>,
    /// Address that speaks TLS, in place of those of tls.listen; may be given several times
    #[arg(long, value_name = "ADDR:PORT")]
    pub tls_listen: Vec<String>,
    /// Address that redirects to TLS, in place of those of tls.redirect; may be given several times
    #[arg(long, value_name = "ADDR:PORT")]
    pub tls_redirect: Vec<String>,
    /// Address for metrics, status and the operator's pages, or off
    #[arg(long, value_name = "ADDR:PORT")]
    pub admin: Option<String>,
    /// Memory for the whole process, such as 16GiB
    #[arg(long, value_name = "SIZE")]
    pub process_memory: Option<String>,
    /// Memory for video data alone, all disks together; connections and the program need more
    #[arg(long, value_name = "SIZE", conflicts_with = "process_memory")]
    pub memory: Option<String>,
    /// Rule for the size of a prefetch: fixed, proportional, square-root, first-grow,
    /// first-grow-sr
    #[arg(long, value_name = "NAME", help_heading = EXPERT, hide_short_help = true)]
    pub policy: Option<String>,
    /// Order of a device's jobs: fcfs, elevator, deadline-elevator
    #[arg(long, value_name = "NAME", help_heading = EXPERT, hide_short_help = true)]
    pub order: Option<String>,
    /// The policy's reference size, such as 8MiB, or how it is found: auto, auto-paper
    #[arg(long, value_name = "SIZE|auto", help_heading = EXPERT, hide_short_help = true)]
    pub prefetch: Option<String>,
    /// For experiments on an emulated drive: run the server's own clocks K times faster
    #[arg(long, value_name = "K", help_heading = EXPERT, hide_short_help = true)]
    pub time_scale: Option<String>,
}

impl Config {
    /// Reads the file, if any, and the flags, and checks that this machine has the folders,
    /// certificates, logs, devices and memory they name. Binds no port and reads no title.
    ///
    /// Relative paths in the file are relative to the file's folder, those in flags to the working
    /// directory.
    ///
    /// # Errors
    /// Every mistake in the file, in the flags, and in their combination on this machine.
    pub fn load(file: Option<&Path>, flags: &Flags) -> Result<Self, Mistakes> {
        let (text, unreadable) = match file.map(read_text) {
            None => (String::new(), None),
            Some(Ok(text)) => (text, None),
            Some(Err(text)) => (String::new(), Some(text)),
        };
        let file = file.unwrap_or(Path::new(""));
        let (mut document, config) = read(file, &text, flags);
        if let Some(text) = unreadable {
            // The content of the file is unknown: only the flags can be checked.
            let whole = ValueLocation::File(file.display().to_string());
            let of_flags = document.mistakes.iter();
            let of_flags =
                of_flags.filter(|mistake| matches!(mistake.place, ValueLocation::Flag(_)));
            let mut mistakes = Mistakes::at(&whole, [text]);
            of_flags.for_each(|flag| mistakes.push(flag.place.clone(), &flag.key, &flag.text));
            return mistakes.or(config);
        }
        config.check_machine(&mut document);
        document.finish(config)
    }

    /// As [`Config::load`] with a file of that name and content, without checking this machine.
    ///
    /// # Errors
    /// Every mistake in the text or the flags.
    pub fn from_text(file: &Path, text: &str, flags: &Flags) -> Result<Self, Mistakes> {
        let (document, config) = read(file, text, flags);
        document.finish(config)
    }

    /// Resolves relative paths against `folder`.
    pub fn join_paths(&mut self, folder: &Path) {
        let files = [
            &mut self.acme_folder,
            &mut self.state,
            &mut self.steering.fleet,
        ];
        let lists = self.roots.iter_mut().chain(&mut self.link_targets);
        let lists = lists.chain(&mut self.flash);
        let lists = lists
            .chain(&mut self.tls.certificate)
            .chain(&mut self.tls.key);
        let (mut rules, mut roots) = (Vec::new(), Vec::new());
        rules.extend(self.path.values_mut());
        for site in self.site.values_mut() {
            rules.extend(site.path.values_mut());
            roots.extend(&mut site.roots);
        }
        let rules = rules.into_iter();
        let of_rules =
            rules.flat_map(|rule| rule.jwt_public_keys.iter_mut().chain(&mut rule.alias));
        for path in lists
            .chain(roots)
            .chain(of_rules)
            .chain(files.into_iter().flatten())
        {
            *path = folder.join(&path);
        }
        for rule in self
            .pull
            .values_mut()
            .filter(|rule| !rule.folder.as_os_str().is_empty())
        {
            rule.folder = folder.join(&rule.folder);
        }
        for rule in self.pull.values_mut() {
            for path in rule.s3_keys.iter_mut().chain(&mut rule.fleet) {
                *path = folder.join(&path);
            }
        }
        for sink in [
            &mut self.log.access,
            &mut self.log.sessions,
            &mut self.log.slow,
        ] {
            if let LogTarget::File(path) = sink {
                *path = folder.join(&path);
            }
        }
    }
}

/// The speed of the clocks by the option `--time-scale`. Not a setting of files: a file of an
/// experiment would make timeouts of a real server too short. A mistake is recorded.
pub fn time_scale(document: &mut Document, word: Option<&str>) -> u32 {
    let scale = word.map(|word| whole().at_least(1).read(&Value::of_word(word)));
    match scale.transpose() {
        Ok(scale) => scale.unwrap_or(1),
        Err(text) => {
            let flag = ValueLocation::Flag("--time-scale".to_owned());
            document.mistakes.push(flag, "", text);
            1
        }
    }
}

/// The text of a configuration file, or why it has none.
fn read_text(file: &Path) -> Result<String, String> {
    let bytes = std::fs::read(file);
    let bytes =
        bytes.map_err(|error| format!("cannot be read: {error}; name a file with --config"))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        format!("line {line} is not UTF-8; save the file in that encoding, without other letters")
    })?;
    // No settings in TOML end with a semicolon.
    let directives = headlong_nginx::parse("", &text);
    match directives.is_ok_and(|directives| !directives.is_empty()) {
        true => {
            let file = file.display();
            Err(format!(
                "looks like a configuration of nginx; convert it: headlong check --nginx {file}"
            ))
        }
        false => Ok(text),
    }
}

/// Parses file and flags. The document holds the mistakes found so far.
fn read(file: &Path, text: &str, flags: &Flags) -> (Document, Config) {
    let mut document = Document::new(&file.display().to_string(), MANUAL, text);
    let of_word = |(flag, key, value): (_, _, &Option<String>)| {
        Some((flag, key, Value::of_word(value.as_deref()?)))
    };
    let words = [
        ("--admin", "admin", &flags.admin),
        ("--memory", "memory", &flags.memory),
        ("--process-memory", "process_memory", &flags.process_memory),
        ("--policy", "policy", &flags.policy),
        ("--order", "order", &flags.order),
        ("--prefetch", "prefetch", &flags.prefetch),
    ];
    for (flag, key, value) in words.into_iter().filter_map(of_word) {
        document.set(flag, key, value);
    }
    for (flag, key, addresses) in [
        ("--listen", "listen", &flags.listen),
        ("--tls-listen", "tls.listen", &flags.tls_listen),
        ("--tls-redirect", "tls.redirect", &flags.tls_redirect),
    ] {
        if !addresses.is_empty() {
            let addresses = addresses.iter().cloned().map(Value::Text);
            document.set(flag, key, Value::List(addresses.collect()));
        }
    }
    let mut config = Config {
        time_scale: time_scale(&mut document, flags.time_scale.as_deref()),
        ..Config::default()
    };
    rows().read(&mut document, "", &mut config);
    for name in document.children("device") {
        let mut device = DeviceOverride::default();
        device_rows().read(&mut document, &format!("device.{name}"), &mut device);
        config.device.insert(name, device);
    }
    if !config.flash.is_empty() && !document.is_written("piece") {
        config.engine.piece_bytes = PIECE_BYTES_WITH_FLASH;
    }
    if document.wins("memory", "process_memory") {
        config.process_memory = None;
    }
    config.divide_process_memory(document.is_written("limits.connections_max"));
    config.path = paths::read_rules(&mut document, "path", &config.session, &config.log.headers);
    sites::read(&mut document, &mut config);
    pulls::read(&mut document, "pull", "", &mut config);
    config.set_own_addresses();
    config.join_paths(file.parent().unwrap_or(Path::new("")));
    if !flags.roots.is_empty() {
        // Used unchanged, because a path need not be valid text.
        config.roots.clone_from(&flags.roots);
        document.set("DIR", "roots", Value::List(Vec::new()));
        document.take("roots");
    }
    check::contradictions(&mut document, &config);
    (document, config)
}
