//! From a file and flags to a [`Config`]: first what was typed, then what it means.
//!
//! Nothing but the configuration file is opened here. Every error is collected; a value that is
//! wrong leaves the default in force, so that the checks behind it still run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::check;
use super::error::{ConfigErrors, Place};
use super::keys::{DEVICE_KEYS, KEYS, Key};
use super::settings::{Config, DeviceOverride, LogSink};
use super::value::Value;
use headlong_units::nearest;

/// What the command line says; each overrides the file. Texts are not yet read, so that a wrong
/// flag is reported together with a wrong file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flags {
    /// Folders to serve instead of the file's `roots`, if there are any.
    pub roots: Vec<PathBuf>,
    /// `--listen`, as often as it was given.
    pub listen: Vec<String>,
    /// `--admin`.
    pub admin: Option<String>,
    /// `--memory`.
    pub memory: Option<String>,
    /// `--policy`.
    pub policy: Option<String>,
    /// `--order`.
    pub order: Option<String>,
    /// `--prefetch`.
    pub prefetch: Option<String>,
    /// `--time-scale`.
    pub time_scale: Option<u32>,
}

impl Config {
    /// Reads the file, if there is one, and the flags; reports everything that is wrong with
    /// either or with both together.
    ///
    /// Paths in the file are relative to the file's folder, paths in flags to the working
    /// directory.
    pub fn load(file: Option<&Path>, flags: &Flags) -> Result<Self, ConfigErrors> {
        let Some(file) = file else {
            return Self::from_text(Path::new(""), "", flags);
        };
        match std::fs::read_to_string(file) {
            Ok(text) => Self::from_text(file, &text, flags),
            Err(error) => {
                let mut errors = ConfigErrors::default();
                let place = Place::File(file.to_path_buf());
                let text = format!("cannot be read: {error}; name a file with --config");
                errors.push(place, "", text);
                let (flag_errors, _) = Loader::new(file, "").finish(flags);
                errors.extend_flags(flag_errors);
                errors.or(Self::default())
            }
        }
    }

    /// As [`Config::load`] with a file of that name that holds `text`.
    pub fn from_text(file: &Path, text: &str, flags: &Flags) -> Result<Self, ConfigErrors> {
        let mut loader = Loader::new(file, text);
        loader.read_file();
        let (errors, config) = loader.finish(flags);
        errors.or(config)
    }
}

/// A configuration on its way.
pub(super) struct Loader<'a> {
    file: &'a Path,
    text: &'a str,
    pub(super) config: Config,
    pub(super) errors: ConfigErrors,
    /// Where each key was written, if it was.
    places: BTreeMap<String, Place>,
    /// Lines that are not TOML: what was made out of them is not worth a second complaint.
    unreadable: Vec<Place>,
}

impl<'a> Loader<'a> {
    fn new(file: &'a Path, text: &'a str) -> Self {
        Self {
            file,
            text,
            config: Config::default(),
            errors: ConfigErrors::default(),
            places: BTreeMap::new(),
            unreadable: Vec::new(),
        }
    }

    /// Where a key was written.
    pub(super) fn place(&self, key: &str) -> Place {
        self.places.get(key).cloned().unwrap_or(Place::Default)
    }

    /// Notes that something is wrong with a key's value, at the place where it was written.
    pub(super) fn wrong(&mut self, key: &str, text: impl Into<String>) {
        self.errors.push(self.place(key), key, text);
    }

    fn line(&self, offset: usize) -> Place {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        Place::Line(self.file.to_path_buf(), line)
    }

    fn read_file(&mut self) {
        let (document, syntax_errors) = DeTable::parse_recoverable(self.text);
        for error in &syntax_errors {
            let place = error.span().map_or_else(
                || Place::File(self.file.to_path_buf()),
                |span| self.line(span.start),
            );
            let text = format!("not TOML: {}", error.message().trim().replace('\n', ", "));
            self.unreadable.push(place.clone());
            self.errors.push(place, "", text);
        }
        self.read_top(document.get_ref());
        let folder = self.file.parent().unwrap_or(Path::new(""));
        self.config.join_paths(folder);
    }

    fn read_top(&mut self, document: &DeTable<'_>) {
        for (name, value) in document.iter() {
            let place = self.line(name.span().start);
            let is_table = KEYS.iter().any(|key| key.split().0 == name.get_ref());
            match value.get_ref() {
                DeValue::Table(devices) if name.get_ref() == "device" => {
                    self.read_devices(devices);
                }
                DeValue::Table(keys) if is_table => {
                    for (inner, value) in keys.iter() {
                        let place = self.line(inner.span().start);
                        let full = format!("{}.{}", name.get_ref(), inner.get_ref());
                        self.read_key(place, &full, value);
                    }
                }
                DeValue::Table(_) if !KEYS.iter().any(|key| key.name == name.get_ref()) => {
                    self.errors
                        .push(place, name.get_ref(), unknown_table(name.get_ref()));
                }
                _ if name.get_ref() == "device" => {
                    let text = "is a table; write [device.\"sda\"] with the device's name";
                    self.errors.push(place, "device", text);
                }
                _ if is_table => {
                    let name = name.get_ref();
                    let text = format!("is a table; write [{name}] on a line of its own");
                    self.errors.push(place, name, text);
                }
                _ => self.read_key(place, name.get_ref(), value),
            }
        }
    }

    fn read_key(&mut self, place: Place, full: &str, value: &Spanned<DeValue<'_>>) {
        if self.unreadable.contains(&place) {
            return;
        }
        let Some(key) = KEYS.iter().find(|key| key.name == full) else {
            self.errors.push(place, full, unknown(full, KEYS));
            return;
        };
        self.places.insert(full.to_string(), place.clone());
        if let Err(text) = (key.set)(&mut self.config, &typed(value.get_ref())) {
            self.errors.push(place, full, text);
        }
    }

    fn read_devices(&mut self, devices: &DeTable<'_>) {
        for (name, value) in devices.iter() {
            let full = format!("device.{}", name.get_ref());
            let DeValue::Table(keys) = value.get_ref() else {
                let text = "is a table; write [device.\"sda\"] with the device's name";
                let place = self.line(name.span().start);
                self.errors.push(place, &full, text);
                continue;
            };
            let mut device = DeviceOverride::default();
            for (inner, value) in keys.iter() {
                let place = self.line(inner.span().start);
                let inner_full = format!("{full}.{}", inner.get_ref());
                self.places.insert(inner_full.clone(), place.clone());
                let key = DEVICE_KEYS.iter().find(|key| key.name == inner.get_ref());
                let result = match key {
                    Some(key) => (key.set)(&mut device, &typed(value.get_ref())),
                    None => Err(unknown(inner.get_ref(), DEVICE_KEYS)),
                };
                if let Err(text) = result {
                    self.errors.push(place, &inner_full, text);
                }
            }
            self.config
                .device
                .insert(name.get_ref().to_string(), device);
        }
    }

    fn flag(&mut self, flag: &'static str, key: &str, value: Option<Value>) {
        let (Some(value), Some(entry)) = (value, KEYS.iter().find(|entry| entry.name == key))
        else {
            return;
        };
        self.places.insert(key.to_string(), Place::Flag(flag));
        if let Err(text) = (entry.set)(&mut self.config, &value) {
            self.wrong(key, text);
        }
    }

    fn finish(mut self, flags: &Flags) -> (ConfigErrors, Config) {
        let text = |value: &Option<String>| value.clone().map(Value::Text);
        let listen = flags.listen.iter().cloned().map(Value::Text).collect();
        let listen = (!flags.listen.is_empty()).then_some(Value::List(listen));
        self.flag("--listen", "listen", listen);
        self.flag("--admin", "admin", text(&flags.admin));
        self.flag("--memory", "memory", text(&flags.memory));
        self.flag("--policy", "policy", text(&flags.policy));
        self.flag("--order", "order", text(&flags.order));
        self.flag("--prefetch", "prefetch", text(&flags.prefetch));
        let time_scale = flags.time_scale.map(|scale| Value::Whole(i64::from(scale)));
        self.flag("--time-scale", "time_scale", time_scale);
        if !flags.roots.is_empty() {
            // Taken as they are: a path need not be a text.
            self.config.roots.clone_from(&flags.roots);
            self.places.insert("roots".into(), Place::Flag("DIR"));
        }
        check::contradictions(&mut self);
        (self.errors, self.config)
    }
}

/// The value without its place.
fn typed(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => {
            // Written as the text it came in, so that a huge one is quoted as it was typed.
            let digits = number.as_str();
            i64::from_str_radix(digits, number.radix())
                .map_or_else(|_| Value::Text(digits.to_string()), Value::Whole)
        }
        DeValue::Boolean(flag) => Value::Flag(*flag),
        DeValue::Array(items) => {
            Value::List(items.iter().map(|item| typed(item.get_ref())).collect())
        }
        DeValue::Float(_) => Value::Other("a number with a decimal point"),
        DeValue::Datetime(_) => Value::Other("a date"),
        DeValue::Table(_) => Value::Other("a table"),
    }
}

/// What to say about a key that does not exist.
fn unknown<T>(typed: &str, keys: &[Key<T>]) -> String {
    let (_, typed_name) = typed.split_once('.').unwrap_or(("", typed));
    if let Some(key) = keys.iter().find(|key| key.split().1 == typed_name) {
        let table = match key.split().0 {
            "" => "at the top, before the first table".to_string(),
            table => format!("in [{table}]"),
        };
        return format!("unknown key here; it belongs {table}");
    }
    match nearest(typed, keys.iter().map(|key| key.name)) {
        Some(name) => format!("unknown key; did you mean `{name}`?"),
        None => "unknown key; docs/operate/configuration.md lists them all".to_string(),
    }
}

/// What to say about a table that does not exist.
fn unknown_table(typed: &str) -> String {
    let tables = KEYS.iter().map(|key| key.split().0);
    match nearest(typed, tables.chain(["device"])) {
        Some(name) => format!("unknown table; did you mean [{name}]?"),
        None => "unknown table; docs/operate/configuration.md lists them all".to_string(),
    }
}

impl Config {
    /// Takes every path that is not absolute as one in `folder`.
    pub fn join_paths(&mut self, folder: &Path) {
        let files = [
            &mut self.tls.certificate,
            &mut self.tls.key,
            &mut self.state,
        ];
        for path in self.roots.iter_mut().chain(files.into_iter().flatten()) {
            *path = folder.join(&path);
        }
        for sink in [&mut self.log.access, &mut self.log.sessions] {
            if let LogSink::File(path) = sink {
                *path = folder.join(&path);
            }
        }
    }
}
