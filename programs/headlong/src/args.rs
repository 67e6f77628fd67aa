//! The command line.

use std::path::PathBuf;

use clap::{CommandFactory as _, Parser, Subcommand};
use headlong_config::{Config, Flags, Mistakes};

use headlong_survey::{ProbeOptions, TuneArgs};

use crate::anyprogram::{ReceptionArgs, RunArgs};
use crate::fill::FillArgs;
use crate::fleet::FleetCommand;
use crate::health::HealthArgs;
use crate::lab_delegation;
use crate::manual::{CompletionsArgs, ManualArgs};
use crate::mount::{MountArgs, MountKeeperArgs};
use crate::root::RootCommand;

/// Serves a video library from hard disks as fast as the disks can physically go.
#[derive(Debug, Parser)]
#[command(name = "headlong", version = env!("HEADLONG_VERSION"), arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve folders of titles over HTTP
    Serve(ServeArgs),
    /// Check the configuration of `serve`, or convert an nginx.conf, and print the settings
    Check(CheckArgs),
    /// Read for programs that were started with `run`, from disks in long sweeps
    Reception(ReceptionArgs),
    /// Start a program so that the reception reads for it: nginx, Apache, any that uses glibc
    Run(RunArgs),
    /// Mount a tree read-only, so that any program reads its disk in long sweeps
    Mount(MountArgs),
    /// Unmount a mount once its daemon has ended; started by `mount`
    #[command(hide = true)]
    MountKeeper(MountKeeperArgs),
    /// Compare the kernel's settings of a disk with the advised ones; change nothing
    Tune(TuneArgs),
    /// Create and inspect the flash tier's SSDs
    #[command(subcommand)]
    Flash(FlashCommand),
    /// Have a running server fetch titles of an origin ahead of viewers
    Fill(FillArgs),
    /// Have a running server stop serving a root, or serve it again
    #[command(subcommand)]
    Root(RootCommand),
    /// Ask a running server whether it can serve, as health checks do
    Health(HealthArgs),
    /// Several servers as one service: configurations of a balancer
    #[command(subcommand)]
    Fleet(FleetCommand),
    /// Print a shell's completion script
    #[command(hide = true)]
    Completions(CompletionsArgs),
    /// Write the manual pages
    #[command(hide = true)]
    Manual(ManualArgs),
    /// Inspect and measure disks; with headlong-lab, emulate them
    #[command(subcommand)]
    Disk(DiskCommand),
}

/// Actions on existing disks.
#[derive(Debug, Subcommand)]
pub(crate) enum DiskCommand {
    /// Measure a drive; with headlong-lab, also a model of one, and fit a model to it
    Probe(ProbeOptions),
}

/// The clap command, with the verbs of `headlong-lab` in the help and among the suggestions for a
/// mistyped verb.
pub fn command() -> clap::Command {
    let of_lab = |verbs: &[(&'static str, &'static str)]| {
        let verbs = verbs.iter();
        let verbs = verbs.map(|(verb, about)| clap::Command::new(*verb).about(*about));
        verbs.collect::<Vec<_>>()
    };
    let disk = |disk: clap::Command| disk.subcommands(of_lab(&lab_delegation::DISK_VERBS));
    let command = Args::command()
        .mut_subcommand("disk", disk)
        .subcommands(of_lab(&lab_delegation::VERBS));
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}Options:\n{{options}}\n",
        verbs_in_groups(&command)
    );
    command.help_template(template)
}

/// The verbs in `headlong --help`, by purpose; clap has one list for all of them.
const VERB_GROUPS: [(&str, &[&str]); 4] = [
    (
        "Serving",
        &["serve", "check", "health", "fill", "root", "fleet"],
    ),
    ("Other programs", &["mount", "reception", "run"]),
    ("Disks and SSDs", &["disk", "tune", "flash"]),
    (
        "Lab (headlong-lab)",
        &[
            "simulate",
            "bench",
            "load",
            "workload",
            "trace",
            "capacity",
            "reproduce",
        ],
    ),
];

fn verbs_in_groups(command: &clap::Command) -> String {
    let mut text = String::new();
    for (heading, verbs) in VERB_GROUPS {
        text.push_str(&format!("{heading}:\n"));
        for verb in verbs {
            let about = command.find_subcommand(verb).and_then(|of| of.get_about());
            let about = about.map_or_else(String::new, ToString::to_string);
            text.push_str(&format!("  {verb:<11}{about}\n"));
        }
        text.push('\n');
    }
    text
}

/// Actions on an SSD of the flash tier.
#[derive(Debug, Subcommand)]
pub(crate) enum FlashCommand {
    /// Format a device or a file as flash tier; refused if it has recognised content
    Format(FlashFormatting),
    /// Show the content of a flash tier
    Status(FlashTarget),
    /// Read and check all records of a flash tier that no server uses
    Verify(FlashTarget),
    /// Remove the flash tier from a device or a file
    Drop(FlashTarget),
}

/// The SSD.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct FlashTarget {
    /// Block device or file
    #[arg(value_name = "DEV_OR_FILE")]
    pub(crate) path: PathBuf,
}

/// Options of `headlong flash format`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct FlashFormatting {
    /// Block device or file
    #[arg(value_name = "DEV_OR_FILE")]
    pub(crate) path: PathBuf,
    /// Size of a file to create, such as 100GB
    #[arg(long, value_name = "SIZE")]
    pub(crate) size: Option<String>,
    /// Size of a block, a power of two [default: 16MiB, or less if that leaves fewer than 100]
    #[arg(long, value_name = "SIZE")]
    pub(crate) block: Option<String>,
    /// Size of a piece, as in the server's setting [default: 128KiB, which is the server's default
    /// with `flash`]
    #[arg(long, value_name = "SIZE")]
    pub(crate) piece: Option<String>,
    /// Overwrite recognised content
    #[arg(long)]
    pub(crate) force: bool,
}

/// `headlong check`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) serving: ServeArgs,
    /// Print only mistakes and warnings
    #[arg(long)]
    pub(crate) quiet: bool,
    /// Exit with 65 if there is a warning
    #[arg(long)]
    pub(crate) strict: bool,
    /// Convert the configuration of an nginx: print the settings that do the same, and on standard
    /// error each directive that has no place here
    #[arg(long, value_name = "FILE", conflicts_with_all = ["config", "Flags"])]
    pub(crate) nginx: Option<PathBuf>,
}

/// Options of `headlong serve`. The values of the flags are parsed together with the file, so that
/// all mistakes are reported at once.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ServeArgs {
    /// Configuration in TOML; headlong.toml(5) lists the keys
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    flags: Flags,
}

impl ServeArgs {
    /// The configuration of these arguments, checked against this machine.
    pub(crate) fn config(&self) -> Result<Config, Mistakes> {
        Config::load(self.config.as_deref(), &self.flags)
    }
}

#[cfg(test)]
mod tests {
    use headlong_engine::{Order, Policy};

    use super::command;

    #[test]
    fn command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn help_lists_every_verb_in_one_group() {
        let mut command = command();
        let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
        let mut verbs: Vec<_> = verbs.map(|verb| verb.get_name().to_owned()).collect();
        let groups = super::VERB_GROUPS.iter();
        let mut grouped: Vec<_> = groups.flat_map(|(_, verbs)| verbs.iter()).collect();
        verbs.sort();
        grouped.sort();
        assert!(verbs.iter().eq(grouped), "{verbs:?}");
        let help = command.render_help().to_string();
        for line in ["Serving:\n  serve ", "\n  bench ", "\n  -h, --help"] {
            assert!(help.contains(line), "{line}\n{help}");
        }
    }

    #[test]
    fn short_help_has_basic_options_only() {
        let mut command = command();
        let serve = command
            .find_subcommand_mut("serve")
            .expect("the verb exists");
        let short = serve.render_help().to_string();
        assert!(short.contains("--memory"), "{short}");
        for expert in ["--policy", "--order", "--prefetch", "--time-scale"] {
            assert!(!short.contains(expert), "{short}");
        }
    }

    #[test]
    fn help_names_every_policy_and_order() {
        let mut command = command();
        let serve = command
            .find_subcommand_mut("serve")
            .expect("the verb exists");
        let help = serve.render_long_help().to_string();
        let policies = Policy::ALL.iter().map(|policy| policy.name());
        for name in policies.chain(Order::ALL.iter().map(|order| order.name())) {
            assert!(
                help.contains(name),
                "`{name}` is missing: add it to args.rs\n{help}"
            );
        }
    }
}
