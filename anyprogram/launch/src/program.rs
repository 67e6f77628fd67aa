//! Inspects a program: its file, its interpreter, and why preloading would have no effect on it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use object::elf::{DT_NEEDED, Dyn64, FileHeader64, PT_INTERP, PT_NOTE};
use object::read::elf::{Dyn as _, FileHeader as _, ProgramHeader as _};
use object::{Endianness, ReadCache};

/// Longest chain of script interpreters, the same as the kernel's.
const SCRIPTS_MAX: usize = 5;
/// Longest first line of a script that is read.
const LINE_BYTES_MAX: u64 = 256;
/// Mode bits: set-user-ID and set-group-ID.
const SET_IDS: u32 = 0o6000;

/// Why preloading has no effect on a program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PreloadObstacle {
    /// Statically linked: there is no dynamic loader to preload a library.
    #[error("it is statically linked, so nothing can be preloaded into it")]
    Static,
    /// It runs as another user than its caller, or with file capabilities: the loader then ignores
    /// `LD_PRELOAD`.
    #[error(
        "it runs with elevated privileges (set-user-ID, set-group-ID or file capabilities), so the \
         loader ignores preloaded libraries"
    )]
    Privileged,
    /// Its C library is musl, which has other functions than glibc.
    #[error("its C library is musl, and the library is for glibc")]
    Musl,
    /// It is built for another architecture than the library.
    #[error("it is built for another architecture than the library")]
    OtherMachine,
    /// A Go program, which makes its system calls without the C library.
    #[error("it is written in Go and makes its system calls past the C library")]
    Go,
    /// It is built with AddressSanitizer, whose runtime library ends the program unless it is the
    /// first one: the name of that library.
    #[error(
        "it is built with AddressSanitizer, whose {0} must be the first library; it is not preloaded \
         (LD_PRELOAD={0} allows it)"
    )]
    Sanitizer(String),
    /// The file cannot be inspected.
    #[error("it cannot be inspected: {0}")]
    Unreadable(String),
}

impl PreloadObstacle {
    /// Whether preloading would end the program, instead of having no effect.
    pub(crate) fn is_fatal(&self) -> bool {
        matches!(self, Self::Sanitizer(_))
    }
}

/// Finds the file of a program in `path`, as a shell does.
pub fn find(program: &OsStr, path: &OsStr) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        let file = PathBuf::from(program);
        return file.is_file().then_some(file);
    }
    let files = std::env::split_paths(path).map(|folder| folder.join(program));
    files.into_iter().find(|file| {
        let metadata = file.metadata();
        metadata.is_ok_and(|metadata| metadata.is_file() && metadata.mode() & 0o111 != 0)
    })
}

/// Why preloading has no effect on the program in this file; `None` if it works. For a script, its
/// interpreter is inspected.
pub fn why_unhelped(program: &Path) -> Option<PreloadObstacle> {
    let mut file = program.to_path_buf();
    for _ in 0..SCRIPTS_MAX {
        match interpreter(&file) {
            Err(error) => return Some(PreloadObstacle::Unreadable(error.to_string())),
            Ok(Some(interpreter)) => file = interpreter,
            Ok(None) => {
                return obstacle(&file)
                    .unwrap_or_else(|why| Some(PreloadObstacle::Unreadable(why)));
            }
        }
    }
    Some(PreloadObstacle::Unreadable(
        "too many nested script interpreters".into(),
    ))
}

/// The interpreter of a script; `env` is resolved to the program it starts.
fn interpreter(file: &Path) -> std::io::Result<Option<PathBuf>> {
    let mut line = Vec::new();
    File::open(file)?
        .take(LINE_BYTES_MAX)
        .read_to_end(&mut line)?;
    let Some(rest) = line.strip_prefix(b"#!") else {
        return Ok(None);
    };
    let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let mut words = line.split(u8::is_ascii_whitespace);
    let mut words = words.by_ref().filter(|word| !word.is_empty());
    let first = words.next().unwrap_or_default();
    if first.ends_with(b"/env") {
        let name = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = name.and_then(|name| find(OsStr::from_bytes(name), &path));
        return Ok(Some(
            found.unwrap_or_else(|| OsStr::from_bytes(first).into()),
        ));
    }
    Ok(Some(OsStr::from_bytes(first).into()))
}

fn obstacle(path: &Path) -> Result<Option<PreloadObstacle>, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let metadata = file.metadata().map_err(|error| error.to_string())?;
    let mut value = [0u8; 64];
    let has_capabilities =
        rustix::fs::fgetxattr(&file, "security.capability", &mut value[..]).is_ok();
    if metadata.mode() & SET_IDS != 0 || has_capabilities {
        return Ok(Some(PreloadObstacle::Privileged));
    }
    let cache = ReadCache::new(file);
    let no_program = |_| "it is not an executable of this system".to_owned();
    let header = FileHeader64::<Endianness>::parse(&cache).map_err(no_program)?;
    let endian = header.endian().map_err(no_program)?;
    if header.e_machine(endian) != own_machine() {
        return Ok(Some(PreloadObstacle::OtherMachine));
    }
    if let Some(runtime) = needed(header, endian, &cache).find(|name| is_sanitizer(name)) {
        let runtime = String::from_utf8_lossy(runtime).into_owned();
        return Ok(Some(PreloadObstacle::Sanitizer(runtime)));
    }
    let programs = header.program_headers(endian, &cache).map_err(no_program)?;
    let mut has_loader = false;
    for program in programs {
        if program.p_type(endian) == PT_INTERP {
            has_loader = true;
            let name = program.data(endian, &cache).unwrap_or_default();
            if name.windows(4).any(|part| part == b"musl") {
                return Ok(Some(PreloadObstacle::Musl));
            }
        }
        let notes = program.data(endian, &cache).unwrap_or_default();
        if program.p_type(endian) == PT_NOTE && notes.windows(4).any(|part| part == b"Go\0\0") {
            return Ok(Some(PreloadObstacle::Go));
        }
    }
    Ok((!has_loader).then_some(PreloadObstacle::Static))
}

/// The names of the libraries that a program needs (`DT_NEEDED`); none if it has no sections.
fn needed<'a>(
    header: &FileHeader64<Endianness>,
    endian: Endianness,
    file: &'a ReadCache<File>,
) -> impl Iterator<Item = &'a [u8]> {
    let sections = header.sections(endian, file).ok();
    let dynamic = sections.and_then(|sections| {
        let (entries, strings) = sections.dynamic(endian, file).ok()??;
        let strings = sections.strings(endian, file, strings).ok()?;
        Some((entries, strings))
    });
    dynamic.into_iter().flat_map(move |(entries, strings)| {
        let needed = move |entry: &Dyn64<Endianness>| match entry.tag32(endian) {
            Some(DT_NEEDED) => strings.get(entry.val32(endian)?).ok(),
            _ => None,
        };
        entries.iter().filter_map(needed)
    })
}

/// Whether the library with this file name is a runtime of AddressSanitizer, of GCC or of Clang.
pub(crate) fn is_sanitizer(name: &[u8]) -> bool {
    name.starts_with(b"libasan.so") || name.starts_with(b"libclang_rt.asan")
}

fn own_machine() -> u16 {
    match std::env::consts::ARCH {
        "aarch64" => object::elf::EM_AARCH64,
        _ => object::elf::EM_X86_64,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// An executable for a machine with these segments, each a type and its content.
    fn program(machine: u16, segments: &[(u32, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0; 64 + 56 * segments.len()];
        bytes[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1]);
        bytes[16..18].copy_from_slice(&2u16.to_le_bytes());
        bytes[18..20].copy_from_slice(&machine.to_le_bytes());
        bytes[32..40].copy_from_slice(&64u64.to_le_bytes());
        bytes[52..54].copy_from_slice(&64u16.to_le_bytes());
        bytes[54..56].copy_from_slice(&56u16.to_le_bytes());
        bytes[56..58].copy_from_slice(&(segments.len() as u16).to_le_bytes());
        for (index, (kind, content)) in segments.iter().enumerate() {
            let at = 64 + 56 * index;
            let offset = bytes.len() as u64;
            bytes[at..at + 4].copy_from_slice(&kind.to_le_bytes());
            bytes[at + 8..at + 16].copy_from_slice(&offset.to_le_bytes());
            bytes[at + 32..at + 40].copy_from_slice(&(content.len() as u64).to_le_bytes());
            bytes.extend_from_slice(content);
        }
        bytes
    }

    fn judged(bytes: &[u8], mode: u32) -> Option<PreloadObstacle> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("program");
        std::fs::write(&path, bytes).expect("written");
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&path, mode).expect("set");
        why_unhelped(&path)
    }

    #[test]
    fn every_reason_is_detected() {
        let own = own_machine();
        let loader: (u32, &[u8]) = (PT_INTERP, b"/lib64/ld-linux-x86-64.so.2\0");
        let musl: (u32, &[u8]) = (PT_INTERP, b"/lib/ld-musl-x86_64.so.1\0");
        let go: (u32, &[u8]) = (PT_NOTE, b"\x04\0\0\0\0\0\0\0\x04\0\0\0Go\0\0");
        type Case<'a> = (&'a [(u32, &'a [u8])], u32, u16, Option<PreloadObstacle>);
        let cases: [Case<'_>; 6] = [
            (&[loader], 0o755, own, None),
            (&[], 0o755, own, Some(PreloadObstacle::Static)),
            (&[musl], 0o755, own, Some(PreloadObstacle::Musl)),
            (&[loader, go], 0o755, own, Some(PreloadObstacle::Go)),
            (&[loader], 0o4755, own, Some(PreloadObstacle::Privileged)),
            (&[loader], 0o755, 8, Some(PreloadObstacle::OtherMachine)),
        ];
        for (segments, mode, machine, expected) in cases {
            assert_eq!(judged(&program(machine, segments), mode), expected);
        }
    }

    #[test]
    fn script_is_judged_by_its_interpreter() {
        assert_eq!(
            judged(b"#!/bin/sh\necho\n", 0o755),
            why_unhelped(Path::new("/bin/sh"))
        );
        assert_eq!(judged(b"#! /usr/bin/env sh\n", 0o755), None);
        assert!(matches!(
            judged(b"#!/no/such\n", 0o755),
            Some(PreloadObstacle::Unreadable(_))
        ));
        for odd in [&b""[..], b"#!", b"\x7fELF", b"text"] {
            assert!(
                matches!(judged(odd, 0o755), Some(PreloadObstacle::Unreadable(_))),
                "{odd:?}"
            );
        }
    }

    #[test]
    fn program_is_found_in_path_or_by_its_own_path() {
        assert!(find(OsStr::new("sh"), OsStr::new("/nowhere:/bin")).is_some());
        assert!(find(OsStr::new("sh"), OsStr::new("/nowhere")).is_none());
        assert!(find(OsStr::new("/bin/sh"), OsStr::new("")).is_some());
    }
}
