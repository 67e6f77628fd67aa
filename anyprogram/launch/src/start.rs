//! Replaces this process with the program.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{Access, access};

use crate::program::{PreloadObstacle, find, is_sanitizer, why_unhelped};

/// File name of the library.
const LIBRARY: &str = "libheadlong.so";
/// Variable read by the dynamic loader.
const PRELOAD: &str = "LD_PRELOAD";

/// A program to start, and its environment.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program, as typed in a shell.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// The library.
    pub library: PathBuf,
    /// Environment variables for the library.
    pub environment: Vec<(&'static str, OsString)>,
    /// Whether a program on which preloading has no effect is started anyway.
    pub even_if_unhelped: bool,
}

/// Why the program was not started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// No program of this name is in `PATH`.
    #[error("there is no program `{0}` in PATH; write its whole path")]
    NotFound(String),
    /// The file does not exist.
    #[error("there is no file `{0}`; correct the path")]
    NoFile(String),
    /// A folder was named.
    #[error("`{0}` is a folder; name a program in it")]
    Folder(String),
    /// The file is not executable.
    #[error("`{0}` may not be executed; `chmod +x` allows it")]
    NotExecutable(String),
    /// The library named by the caller does not exist.
    #[error("there is no library {0}; correct --library")]
    LibraryGone(PathBuf),
    /// Preloading has no effect on the program, and the caller required that it does.
    #[error("`{program}` was not started because the preload library has no effect on it: {why}")]
    Unhelped {
        /// The program.
        program: String,
        /// Why not.
        why: PreloadObstacle,
    },
    /// The library was not found.
    #[error(
        "{LIBRARY} is neither beside this program nor in ../lib; `make build` builds it, or name it with --library"
    )]
    NoLibrary,
    /// The path of the library cannot be written in `LD_PRELOAD`.
    #[error(
        "the path `{0}` contains a space or a colon, which separate entries of LD_PRELOAD; move the library"
    )]
    LibraryPath(PathBuf),
    /// The kernel cannot execute it.
    #[error("`{program}` cannot be started: {error}")]
    Exec {
        /// The program.
        program: String,
        /// The error of the kernel.
        error: io::Error,
    },
}

impl LaunchError {
    /// The exit code that shells use for this error: 127 if the program does not exist, 126 if it
    /// cannot be executed.
    pub fn shell_code(&self) -> Option<u8> {
        match self {
            Self::NotFound(_) | Self::NoFile(_) => Some(127),
            Self::Folder(_) | Self::NotExecutable(_) => Some(126),
            Self::Exec { error, .. } => match error.kind() {
                io::ErrorKind::NotFound => Some(127),
                _ => Some(126),
            },
            _ => None,
        }
    }
}

/// Finds the library beside this executable, or in the folder `lib` beside its folder.
///
/// # Errors
/// If the library is in none of these places.
pub fn library_beside() -> Result<PathBuf, LaunchError> {
    let own = std::env::current_exe().ok();
    let folder = own.as_deref().and_then(Path::parent);
    let above = folder.and_then(Path::parent);
    let places = [
        folder.map(|folder| folder.join(LIBRARY)),
        above.map(|above| above.join("lib").join(LIBRARY)),
        above.map(|above| above.join("lib/headlong").join(LIBRARY)),
    ];
    let mut places = places.into_iter().flatten();
    places
        .find(|place| place.is_file())
        .ok_or(LaunchError::NoLibrary)
}

/// Executes the program; returns only on failure. `say` receives the reason if preloading has no
/// effect.
pub fn launch(what: &Launch, say: impl FnOnce(&str)) -> LaunchError {
    let name = || what.program.to_string_lossy().into_owned();
    if what.library.to_string_lossy().contains([' ', ':']) {
        return LaunchError::LibraryPath(what.library.clone());
    }
    // The loader would only print a warning, and start the program without the library.
    if !what.library.is_file() {
        return LaunchError::LibraryGone(what.library.clone());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let Some(file) = find(&what.program, &path) else {
        return match Path::new(&what.program) {
            file if file.is_dir() && names_a_file(&what.program) => LaunchError::Folder(name()),
            _ if names_a_file(&what.program) => LaunchError::NoFile(name()),
            _ => LaunchError::NotFound(name()),
        };
    };
    if access(&file, Access::EXEC_OK).is_err() {
        return LaunchError::NotExecutable(name());
    }
    let earlier = std::env::var_os(PRELOAD).unwrap_or_default();
    let has_sanitizer = has_sanitizer(&earlier);
    let why = why_unhelped(&file).filter(|why| !(why.is_fatal() && has_sanitizer));
    let is_preloaded = !why.as_ref().is_some_and(PreloadObstacle::is_fatal);
    if let Some(why) = why {
        if !what.even_if_unhelped {
            let program = name();
            return LaunchError::Unhelped { program, why };
        }
        say(&format!(
            "the preload library has no effect on `{}`: {why}",
            name()
        ));
    }
    let mut command = Command::new(&file);
    command.arg0(&what.program).args(&what.arguments);
    if is_preloaded {
        command.env(PRELOAD, chained(&what.library, &earlier));
    }
    for (name, value) in &what.environment {
        command.env(name, value);
    }
    let error = command.exec();
    LaunchError::Exec {
        program: name(),
        error,
    }
}

/// Whether the program is named by a path, not by a name to be found in `PATH`.
fn names_a_file(program: &OsStr) -> bool {
    program.as_bytes().contains(&b'/')
}

/// The entries of `LD_PRELOAD`.
fn entries(preload: &OsStr) -> impl Iterator<Item = &[u8]> {
    let entries = preload.as_bytes().split(|byte| b": ".contains(byte));
    entries.filter(|entry| !entry.is_empty())
}

/// Whether one of the entries is the runtime of AddressSanitizer.
fn has_sanitizer(preload: &OsStr) -> bool {
    let name = |entry: &[u8]| -> bool {
        let name = entry.rsplit(|byte| *byte == b'/').next();
        name.is_some_and(is_sanitizer)
    };
    entries(preload).any(name)
}

/// Puts this library first, so that it intercepts the program's own calls, then the earlier
/// entries; but behind them if they have a runtime that ends programs unless it is first.
fn chained(library: &Path, earlier: &OsStr) -> OsString {
    let library = library.as_os_str();
    let (first, then) = match has_sanitizer(earlier) {
        true => (earlier, library),
        false => (library, earlier),
    };
    let mut all = first.to_owned();
    if !then.is_empty() {
        all.push(":");
        all.push(then);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to_launch(program: &str) -> Launch {
        Launch {
            program: program.into(),
            arguments: Vec::new(),
            library: "/etc/passwd".into(),
            environment: Vec::new(),
            even_if_unhelped: false,
        }
    }

    #[test]
    fn earlier_preload_entries_are_kept() {
        let chain = |earlier: &str| chained(Path::new("/a.so"), OsStr::new(earlier));
        assert_eq!(chain("/b.so:/c.so"), "/a.so:/b.so:/c.so");
        assert_eq!(chain(""), "/a.so");
        assert_eq!(
            chain("/lib/libasan.so.8 /c.so"),
            "/lib/libasan.so.8 /c.so:/a.so"
        );
    }

    #[test]
    fn launch_errors_name_the_reason() {
        let nothing = |_: &str| panic!("no reason to report");
        let error = launch(&to_launch("no-such-program"), nothing);
        assert!(matches!(error, LaunchError::NotFound(_)), "{error}");
        let spaced = Launch {
            library: "/a b/x.so".into(),
            ..to_launch("sh")
        };
        assert!(matches!(
            launch(&spaced, nothing),
            LaunchError::LibraryPath(_)
        ));
        let own = std::env::current_exe().expect("this program");
        let own = own.to_str().expect("text");
        let gone = Launch {
            library: "/none/x.so".into(),
            ..to_launch(own)
        };
        let error = launch(&gone, nothing).to_string();
        assert!(error.contains("no library /none/x.so"), "{error}");
        for (program, code, words) in [
            ("no-such-program", 127, "in PATH"),
            ("/none/program", 127, "there is no file `/none/program`"),
            ("/etc/", 126, "is a folder"),
            ("/etc/passwd", 126, "may not be executed"),
        ] {
            let error = launch(&to_launch(program), nothing);
            assert_eq!(error.shell_code(), Some(code), "{error}");
            assert!(error.to_string().contains(words), "{error}");
        }
    }

    #[test]
    fn text_file_is_not_an_executable() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("text");
        std::fs::write(&file, "no program").expect("written");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&file, mode).expect("changed");
        let nothing = |_: &str| panic!("no reason to report");
        let error = launch(&to_launch(file.to_str().expect("text")), nothing);
        assert!(matches!(error, LaunchError::Unhelped { .. }), "{error}");
    }
}
