//! `headlong trace split`, `characterise --partial` and `merge`: one log on several machines.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use headlong_chains::{ChainRules, GapRule, LinkRule};
use headlong_report::{command_line, say};
use headlong_trace::{
    Intake, PartialSums, SHARDS_MAX, Shard, ShardError, SplitSettings, page, split as split_log,
};

use crate::mistake::{Mistakes, inputs_are_kept};
use crate::output::{counting, have_folders, print_line, print_report};
use crate::request_logs::Logs;

/// Divide logs by session into shards, which other machines characterise
///
/// Reads the logs once, with the options of `trace characterise`. Each shard has whole sessions,
/// and the files, titles and time span of the whole log. For example:
///
///   headlong trace split access.log.*.gz --into 8 --out shards
///   ls shards/* | parallel headlong trace characterise {} --partial {}.sums
///   headlong trace merge shards/*.sums --html report.html
///
/// The report is the same, byte for byte, as that of `trace characterise` on the logs.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Split {
    #[command(flatten)]
    logs: Logs,
    /// Number of shards
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(SHARDS_MAX)))]
    into: u32,
    /// What is never divided
    #[arg(long, value_name = "WHAT", default_value = "session", value_parser = ["session"])]
    by: String,
    /// Folder for the shards: shard-000 and so on
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// Merge the sums of all shards of a log to its report
///
/// Takes the files that `trace characterise --partial` wrote for the shards of one `trace split`,
/// each once, in any order. A missing or repeated shard, or a part of another log, split or
/// version, is an error that names it.
///
///   headlong trace merge shards/*.sums --html report.html
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Merge {
    /// Sums of shards
    #[arg(value_name = "SUMS", required = true)]
    parts: Vec<PathBuf>,
    /// One page with all tables and figures, for a browser
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Everything as JSON on standard output (docs/schemas/characterisation-2.json)
    #[arg(long)]
    json: bool,
    /// Compare the figures with those published in J. Summers' thesis
    #[arg(long)]
    thesis: bool,
    /// Title of the report
    #[arg(long, value_name = "TEXT", default_value = "")]
    title: String,
}

/// Options of a split that a run without one does not have.
const OWN_OPTIONS: [&str; 3] = ["--into", "--by", "--out"];

/// Splits logs.
pub(crate) fn split(arguments: &Split) -> anyhow::Result<()> {
    let intake = Intake {
        keep_unplaced: true,
        ..arguments.logs.intake()?
    };
    let bound = intake.memory_bound().map_err(Mistakes::of)?;
    say!("headlong: memory for the log: {bound}");
    let Some(taken) = arguments.logs.take_in(&intake, false)? else {
        return Ok(());
    };
    std::fs::create_dir_all(&arguments.out).with_context(|| {
        format!(
            "{}: no such folder, and it cannot be created",
            arguments.out.display()
        )
    })?;
    let settings = SplitSettings {
        folder: arguments.out.clone(),
        shards: arguments.into,
        threads: intake.threads,
        words: reading_words(std::env::args_os().skip(1)),
    };
    let bar = counting(taken.requests, "splitting");
    let shards = split_log(&taken, &settings, |done| bar.set_position(done))?;
    bar.finish_and_clear();
    let (first, last) = (&shards[0], &shards[shards.len() - 1]);
    print_line(&format!(
        "{} requests of {} sessions are in {} shards: {} to {}",
        taken.requests,
        taken.sessions,
        shards.len(),
        first.display(),
        last.display()
    ))
}

/// The words of a run without a split that reads the logs alike: those of this command line, except
/// its verb and the options that only a split has.
fn reading_words(words: impl Iterator<Item = OsString>) -> Vec<String> {
    let mut kept = Vec::new();
    let mut words = words.map(|word| word.to_string_lossy().into_owned());
    while let Some(word) = words.next() {
        let name = word.split_once('=').map_or(word.as_str(), |(name, _)| name);
        match OWN_OPTIONS.contains(&name) {
            true if name == word => drop(words.next()),
            true => {}
            false if kept.len() == 1 && word == "split" => kept.push("characterise".to_owned()),
            false => kept.push(word),
        }
    }
    kept
}

/// Sums the sessions of a shard, and writes them to a file.
pub(crate) fn characterise_shard(
    logs: &[PathBuf],
    partial: &Path,
    rules: ChainRules,
    (memory_bytes, threads): (u64, usize),
) -> anyhow::Result<()> {
    let [path] = logs else {
        let text = "--partial: name one shard of `headlong trace split`";
        return Err(Mistakes::of(text).into());
    };
    inputs_are_kept([&partial.to_owned()], logs.iter())?;
    have_folders(&[("--partial", Some(partial))])?;
    let shard = Shard::open(path, memory_bytes).map_err(unusable)?;
    let bar = counting(shard.requests(), "adding up");
    let sums = PartialSums::of(&shard, rules, threads, |done| bar.set_position(done));
    bar.finish_and_clear();
    sums.map_err(unusable)?.write(partial)?;
    say!("headlong: the sums are {}", partial.display());
    Ok(())
}

/// Refuses a shard where a whole log is expected: its report would be one of fewer sessions.
pub(crate) fn no_shards(logs: &[PathBuf]) -> anyhow::Result<()> {
    match logs.iter().find(|log| Shard::is_one(log)) {
        None => Ok(()),
        Some(shard) => {
            let text = format!(
                "{}: is a shard of a log; sum it by --partial FILE, and merge the sums of all shards",
                shard.display()
            );
            Err(Mistakes::of(text).into())
        }
    }
}

/// Merges sums and reports them.
pub(crate) fn merge(arguments: &Merge) -> anyhow::Result<()> {
    inputs_are_kept(&arguments.html, arguments.parts.iter())?;
    have_folders(&[("--html", arguments.html.as_deref())])?;
    let mut all: Option<PartialSums> = None;
    for path in &arguments.parts {
        let part = PartialSums::read(path).map_err(unusable)?;
        match &mut all {
            None => all = Some(part),
            Some(all) => all.merge(part).map_err(unusable)?,
        }
    }
    // The command line requires a file.
    let Some(all) = all else { return Ok(()) };
    let notes = all.notes().to_vec();
    let command = command_line(arguments.command_of_one_run(&all));
    let mut result = all.report(&arguments.title, &command).map_err(unusable)?;
    for note in notes {
        match arguments.json {
            true => say!("headlong: {note}"),
            false => print_line(&note)?,
        }
    }
    if arguments.thesis {
        result = result.beside_thesis();
    }
    if let Some(path) = &arguments.html {
        page(&result).write(path)?;
        say!("headlong: the report is {}", path.display());
    }
    print_report(&result, arguments.json)
}

impl Merge {
    /// The command of one run that gives the same report: it stands in the report, as that of any
    /// run.
    fn command_of_one_run(&self, sums: &PartialSums) -> Vec<OsString> {
        let mut words: Vec<OsString> = sums.words().iter().map(OsString::from).collect();
        let mut add = |word: &str, value: Option<&std::ffi::OsStr>| {
            words.push(word.into());
            words.extend(value.map(OsString::from));
        };
        let rules = sums.rules();
        if rules.gap == GapRule::Idle {
            add("--gap", Some("idle".as_ref()));
        }
        if rules.link == LinkRule::Component {
            add("--link", Some("component".as_ref()));
        }
        if let Some(path) = &self.html {
            add("--html", Some(path.as_os_str()));
        }
        if self.json {
            add("--json", None);
        }
        if self.thesis {
            add("--thesis", None);
        }
        if !self.title.is_empty() {
            add("--title", Some(self.title.as_ref()));
        }
        words
    }
}

/// A part that the user can replace is a usage error, the rest failures.
fn unusable(error: ShardError) -> anyhow::Error {
    match error {
        ShardError::Read { .. } | ShardError::Write { .. } | ShardError::Parts { .. } => {
            error.into()
        }
        _ => Mistakes::of(error).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_split_become_those_of_one_run() {
        let words = "trace split a.log --into 8 --files f.csv --by=session --out shards b.log";
        let words = reading_words(words.split(' ').map(OsString::from));
        assert_eq!(
            words.join(" "),
            "trace characterise a.log --files f.csv b.log"
        );
    }
}
