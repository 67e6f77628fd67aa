//! Consistency of the manual and the command line: every option named on a page exists in a command
//! that the page describes.

use std::collections::BTreeSet;
use std::path::Path;

use clap::{Command, CommandFactory as _};

use crate::args::Args;

/// Other programs: options after them on a line are theirs.
const OTHERS: [&str; 16] = [
    "systemctl ",
    "cargo ",
    "curl ",
    "docker ",
    "journalctl ",
    "npm ",
    "ffmpeg ",
    "certbot ",
    "hls.js",
    "nginx ",
    "chromium ",
    "podman ",
    "systemd-analyze ",
    "parallel ",
    "#SBATCH ",
    "scripts/",
];

/// The long options of a command and of all its subcommands.
fn options(command: &Command, into: &mut BTreeSet<String>) {
    into.extend(["help".to_owned(), "version".to_owned()]);
    for argument in command.get_arguments() {
        let names = argument.get_long_and_visible_aliases().unwrap_or_default();
        into.extend(names.into_iter().map(str::to_owned));
    }
    for below in command.get_subcommands() {
        options(below, into);
    }
}

/// The command named by the longest prefix of the words.
fn follow<'c, 'w>(top: &'c Command, words: impl Iterator<Item = &'w str>) -> &'c Command {
    let mut at = top;
    for word in words {
        match at.find_subcommand(word) {
            Some(below) => at = below,
            None => break,
        }
    }
    at
}

/// Options `--name` in a line, except those of other programs.
fn named(line: &str) -> impl Iterator<Item = &str> {
    let others = OTHERS.iter().filter_map(|program| line.find(program));
    let ours = &line[..others.min().unwrap_or(line.len())];
    let is_name = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '-';
    ours.match_indices("--").filter_map(move |(place, _)| {
        let before = ours[..place].chars().next_back();
        let rest = &ours[place + 2..];
        let name = &rest[..rest.find(|char| !is_name(char)).unwrap_or(rest.len())];
        let begins = before.is_none_or(|char| !char.is_alphanumeric() && char != '-');
        let is_option = begins && name.starts_with(|char: char| char.is_ascii_lowercase());
        is_option.then(|| name.trim_end_matches('-'))
    })
}

#[test]
fn settings_of_simulations_are_on_their_page() {
    let page = include_str!("../../../docs/lab/simulate.md");
    let rows = headlong_engine::knobs();
    let names: Vec<_> = rows
        .iter()
        .filter(|row| row.tier == headlong_settings::Tier::Lab)
        .map(|row| row.name)
        .collect();
    assert!(names.len() > 5, "{names:?}");
    for name in names {
        assert!(page.contains(&format!("`{name}`")), "{name}");
    }
}

#[test]
fn options_named_in_manual_exist() {
    let top = Args::command().subcommands(
        headlong::command()
            .get_subcommands()
            .filter(|verb| {
                [
                    "serve",
                    "check",
                    "tune",
                    "reception",
                    "run",
                    "mount",
                    "flash",
                    "fill",
                    "fleet",
                ]
                .contains(&verb.get_name())
            })
            .cloned(),
    );
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let folders = ["operate", "lab"].map(|folder| docs.join(folder));
    let entries = folders.map(|folder| std::fs::read_dir(folder).expect("a folder of the manual"));
    let pages = entries
        .into_iter()
        .flatten()
        .map(|entry| entry.expect("a page").path());
    let mut missing = Vec::new();
    let mut found = 0;
    for path in pages.filter(|path| path.extension().is_some_and(|kind| kind == "md")) {
        let text = std::fs::read_to_string(&path).expect("text");
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let mut known = BTreeSet::new();
        let mut commands = vec![follow(&top, stem.split('-'))];
        let named_after = text.split("headlong ").skip(1);
        commands.extend(named_after.map(|rest| {
            let is_end = |char: char| char.is_whitespace() || char == '`';
            follow(&top, rest.split(is_end).take(4))
        }));
        for command in commands
            .into_iter()
            .filter(|one| one.get_name() != top.get_name())
        {
            options(command, &mut known);
        }
        for (number, line) in (1..).zip(text.lines()) {
            for option in named(line) {
                found += 1;
                if !known.contains(option) {
                    missing.push(format!("{stem}.md:{number}: --{option}"));
                }
            }
        }
    }
    assert!(found > 100, "only {found} options are named at all");
    assert!(
        missing.is_empty(),
        "no such option:\n{}",
        missing.join("\n")
    );
}
