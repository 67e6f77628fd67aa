//! Settings of the reception: one row for each, besides the engine's own.

use std::path::Path;

use headlong_config::{Config, page_of, time_scale};
use headlong_engine::{Admission, Control, EngineConfig, knobs};
use headlong_protocol::{REQUEST_BYTES_MAX, SOCKET_DEFAULT};
use headlong_settings::{
    Document, Mistakes, Rows, Tier, Value, ValueLocation, document, flag, named, text, time,
};
use headlong_units::Duration;

/// The page that lists all settings.
const MANUAL: &str = "/usr/share/doc/headlong/reception.md";

headlong_units::names! {
    /// Operating mode of the daemon (libception 3.2.2).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Mode {
        /// The engine decides what is read, and in which order.
        Full => "full",
        /// Reads only what is requested, one request at a time.
        Serialize => "serialize",
        /// Reads nothing; counts and times calls.
        Track => "track",
    }
}

/// All settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Path of the socket.
    pub socket: String,
    /// Operating mode.
    pub mode: Mode,
    /// A file that was not read for this time is closed.
    pub keep_open: Duration,
    /// Whether the next small files are read ahead for programs that walk through a tree.
    pub small_files_ahead: bool,
    /// Whether numbered files are read as one title; see the manual.
    pub chunk_files_ahead: bool,
    /// Speed-up of the engine's clocks relative to wall time.
    pub time_scale: u32,
    /// Settings of each device; `memory_bytes` is shared equally by all of them.
    pub engine: EngineConfig,
}

impl Default for Settings {
    /// As the server's, but without admission control. The paper's Reception, which reads 2 MB at a
    /// time, one request after another (6.4, 6.5), is `policy = "fixed"`, `prefetch = "2MiB"` and
    /// `outstanding_reads_rotating = 1`.
    fn default() -> Self {
        let mut engine = EngineConfig {
            admission: Admission::Accept,
            // Limits the open files, besides the programs' own.
            streams_max: 4096,
            // Each held piece is a mapping, of which Linux allows a process 65,530.
            piece_bytes: 128 << 10,
            // A call may request more than it completes, and the next one requests the rest again.
            reread_bytes: REQUEST_BYTES_MAX,
            ..EngineConfig::default()
        };
        engine.control.mode = Control::Auto;
        Self {
            socket: SOCKET_DEFAULT.to_owned(),
            mode: Mode::Full,
            keep_open: Duration::from_secs(60),
            small_files_ahead: true,
            chunk_files_ahead: true,
            time_scale: 1,
            engine,
        }
    }
}

/// Command-line options; each overrides the key of its name in the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
pub struct Flags {
    /// Path of the socket for programs
    #[arg(long, value_name = "PATH")]
    pub socket: Option<String>,
    /// Service for them: full, serialize, track
    #[arg(long, value_name = "NAME")]
    pub mode: Option<String>,
    /// Memory for prefetched data, of all disks together, such as 1GiB
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<String>,
    /// Rule for the size of a prefetch, as for serve
    #[arg(long, value_name = "NAME")]
    pub policy: Option<String>,
    /// The policy's reference size, such as 2MiB, or how it is found: auto, auto-paper
    #[arg(long, value_name = "SIZE|auto")]
    pub prefetch: Option<String>,
    /// For experiments: how many times faster the engine's clocks run
    #[arg(long, value_name = "N", hide = true)]
    pub time_scale: Option<String>,
}

/// The settings of the reception alone.
#[rustfmt::skip]
fn own_rows() -> Rows<Settings> {
    let mut rows = Rows::<Settings>::default();
    rows.add("socket", text(), |s| &mut s.socket,
        "Path of the socket to which programs connect. Its folder is created if missing.");
    rows.add("mode", named(Mode::ALL, Mode::name), |s| &mut s.mode,
        "Operating mode: everything described below (full), only the reads that programs request, one at a time (serialize), or only counting and timing of their calls (track). For prefetching without a reception use `headlong run --mode prefetch`.");
    rows.add("keep_open", time().at_least(Duration::from_secs(1)), |s| &mut s.keep_open,
        "A file that was not read for this time is closed, and its pages are released. Until then its file system cannot be unmounted.");
    rows.add("small_files_ahead", flag(), |s| &mut s.small_files_ahead,
        "Whether the next files of a folder are read ahead in one sweep of the disk for a program that reads many small files in order, such as a copy, a search or a diff.");
    rows.add("chunk_files_ahead", flag(), |s| &mut s.chunk_files_ahead,
        "Whether files of one folder whose names differ only in a number, each at most 32 MiB, are read ahead as one title in numeric order, like the chunk files of HLS and DASH, if programs continue from one to the next. Only files with the owner, group and permissions of the file being read are included.");
    rows.restart();
    rows
}

/// All settings.
fn rows() -> Rows<Settings> {
    let mut rows = own_rows();
    rows.include(knobs(), |s| &mut s.engine);
    rows.restart();
    rows
}

impl Settings {
    /// Reads the file, if there is one, and the options.
    ///
    /// # Errors
    /// All mistakes in them.
    pub fn load(file: Option<&Path>, flags: &Flags) -> Result<Self, Mistakes> {
        let text = match file.map(std::fs::read_to_string) {
            None => String::new(),
            Some(Ok(text)) => text,
            Some(Err(error)) => {
                let place =
                    ValueLocation::File(file.unwrap_or(Path::new("")).display().to_string());
                let text = format!("cannot be read: {error}; name a file with --config");
                return Err(Mistakes::at(&place, [text]));
            }
        };
        let name = file.unwrap_or(Path::new("")).display().to_string();
        Self::from_text(&name, &text, flags)
    }

    /// Reads the text of a file of that name, and the options.
    ///
    /// # Errors
    /// All mistakes in them.
    pub fn from_text(name: &str, text: &str, flags: &Flags) -> Result<Self, Mistakes> {
        let mut document = Document::new(name, MANUAL, text);
        for (flag, key, word) in [
            ("--socket", "socket", &flags.socket),
            ("--mode", "mode", &flags.mode),
            ("--memory", "memory", &flags.memory),
            ("--policy", "policy", &flags.policy),
            ("--prefetch", "prefetch", &flags.prefetch),
        ] {
            if let Some(word) = word {
                document.set(flag, key, Value::of_word(word));
            }
        }
        let mut settings = Self {
            time_scale: time_scale(&mut document, flags.time_scale.as_deref()),
            ..Self::default()
        };
        rows().read(&mut document, "", &mut settings);
        for error in settings.engine.check() {
            document.wrong(error.setting(), error.reason());
        }
        document.finish(settings)
    }
}

const HEAD: &str = "\
# Settings of the reception

This page is generated from the table of settings in the source (`UPDATE=1 cargo test -p
headlong-reception manual` updates it). [any-program.md](any-program.md) explains what the reception
is for.

`headlong reception --config FILE` reads one TOML file. Flags override the file. Sizes are written
as `\"2MiB\"`, times as `\"5s\"`. All mistakes are reported at once, before anything is started. Every
setting needs a restart.

## Of the reception alone
";

const SHARED: &str = "
## Shared with the server

These settings are explained on the pages of the server. All devices share `memory`: when a program
first reads a file on another device, the engines of the others restart with smaller shares. Settings
of replies, admission and flash have no effect here: a program is never refused, it continues without
help.

";

/// The manual's page, as `docs/operate/reception.md` holds it.
pub fn manual() -> String {
    let mut page = HEAD.to_owned();
    let default = Settings::default();
    document(&mut page, &own_rows().entries(&default, &[Tier::Normal]));
    page.push_str(SHARED);
    let engines = (&default.engine, &Config::default().engine);
    knobs().refer(&mut page, page_of, engines);
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_override_the_file_and_all_mistakes_are_reported() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("reception.toml");
        std::fs::write(&file, "mode = \"serialize\"\nprefetch = \"auto\"\n").expect("written");
        let mut flags = Flags {
            mode: Some("track".into()),
            ..Flags::default()
        };
        let settings = Settings::load(Some(&file), &flags).expect("right");
        assert_eq!(settings.mode, Mode::Track);
        assert_eq!(settings.engine.control.mode.name(), "auto");
        flags.mode = Some("none".into());
        flags.memory = Some("1B".into());
        let mistakes = Settings::load(Some(&file), &flags).expect_err("wrong");
        assert!(mistakes.is_about("mode") && mistakes.is_about("memory"));
    }

    #[test]
    fn manual_is_up_to_date() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/operate/reception.md"
        );
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(path, manual()).expect("written");
        }
        let page = std::fs::read_to_string(path).unwrap_or_default();
        assert!(page == manual(), "renew {path} with UPDATE=1");
    }
}
