//! `headlong fill`: has a running server fetch titles of an origin ahead of viewers.
//!
//! The server fetches, at the given rate and only while no viewer waits; this program polls one
//! title after another until it is complete. The server ends a fill without polls within seconds,
//! so ending this program ends the fill, and starting it again continues it.

use std::io::{IsTerminal as _, Read as _, Write as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use headlong_units::Bytes;

use crate::admin_client::{AdminClient, silent};

/// Interval between two polls, at first and later. The server ends a fill without polls after ten
/// seconds.
const INTERVALS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));
/// The server answers at once or not at all.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// A restarting server is back within this time.
const PATIENCE: Duration = Duration::from_secs(60);
/// Far more than any answer.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// Options: the titles, the server, and the rate.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct FillArgs {
    /// Titles: the paths of their URLs, decoded, such as /vod/film.mp4
    #[arg(value_name = "PATH", required_unless_present = "list")]
    paths: Vec<String>,
    /// File with one such path per line, or - for standard input; # begins a comment
    #[arg(long, value_name = "FILE")]
    list: Option<PathBuf>,
    /// The server's admin address
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8081")]
    admin: String,
    /// Total bytes per second
    #[arg(long, value_name = "RATE", default_value = "20MB/s", value_parser = rate)]
    rate: u64,
}

fn rate(text: &str) -> Result<u64, String> {
    let size = text.strip_suffix("/s").unwrap_or(text);
    let bytes: Bytes = size.parse().map_err(|error| format!("{error}"))?;
    match bytes.0 {
        0 => Err("it must be above zero".to_owned()),
        bytes => Ok(bytes),
    }
}

/// The server's report about a fill.
#[derive(Debug, Clone, serde::Deserialize)]
struct FillStatus {
    state: String,
    bytes: u64,
    bytes_there: u64,
    bytes_fetched: u64,
    fault: Option<String>,
}

/// Fills the titles one after another.
pub(crate) fn fill(filling: &FillArgs) -> anyhow::Result<()> {
    let mut paths = filling.paths.clone();
    if let Some(list) = &filling.list {
        paths.extend(read_list(list)?);
    }
    let ask = FillClient::new(filling);
    let mut failed = 0_usize;
    let (began, mut fetched) = (Instant::now(), 0_u64);
    for (number, path) in paths.iter().enumerate() {
        // The server limits the rate within a title; across small titles it is limited here.
        let takes = Duration::from_secs_f64(fetched as f64 / filling.rate as f64);
        std::thread::sleep(takes.saturating_sub(began.elapsed()));
        let told = watch(&ask, path)?;
        fetched += told.bytes_fetched;
        let text = match told.state.as_str() {
            "done" => format!("complete, {} of it fetched", Bytes(told.bytes_fetched)),
            "full" => {
                let left = paths.len() - number - 1;
                print_line(path, "no room except for titles that viewers read more")?;
                anyhow::bail!(
                    "the space of its path is full; raise bytes_max or purge something ({} done, \
                     {left} not tried)",
                    number - failed
                );
            }
            _ => {
                failed += 1;
                format!("failed: {}", told.fault.as_deref().unwrap_or("unknown"))
            }
        };
        print_line(path, &text)?;
    }
    anyhow::ensure!(failed == 0, "{failed} of {} titles failed", paths.len());
    Ok(())
}

fn read_list(path: &PathBuf) -> anyhow::Result<Vec<String>> {
    let mut text = String::new();
    let named = || path.display().to_string();
    if path.as_os_str() == "-" {
        std::io::stdin().read_to_string(&mut text)?;
    } else {
        text = std::fs::read_to_string(path).with_context(named)?;
    }
    let lines = text.lines().map(str::trim);
    let paths = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(paths.map(str::to_owned).collect())
}

/// Polls a title until it is complete or has failed.
fn watch(ask: &FillClient, path: &str) -> anyhow::Result<FillStatus> {
    let mut silent_since = None;
    let mut interval = INTERVALS.0;
    loop {
        match ask.about(path) {
            Ok(told) => {
                silent_since = None;
                if matches!(told.state.as_str(), "done" | "full" | "failed") {
                    return Ok(told);
                }
                show(path, &told)?;
            }
            Err(PollError::Refused(error)) => return Err(error),
            // A restart must not end a whole night's fill.
            Err(PollError::Silent(error)) => {
                let since: &Instant = silent_since.get_or_insert_with(Instant::now);
                if since.elapsed() > PATIENCE {
                    return Err(error);
                }
            }
        }
        std::thread::sleep(interval);
        interval = INTERVALS.1.min(interval * 2);
    }
}

/// Shows the progress on one line of a terminal.
fn show(path: &str, told: &FillStatus) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    if !out.is_terminal() {
        return Ok(());
    }
    let waits = if told.state == "yielding" {
        ", waits for viewers"
    } else {
        ""
    };
    let (there, bytes) = (Bytes(told.bytes_there), Bytes(told.bytes));
    write!(out, "\r\x1b[K{path}: {there} of {bytes}{waits}")?;
    out.flush()
}

fn print_line(path: &str, text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    let clear = if out.is_terminal() { "\r\x1b[K" } else { "" };
    writeln!(out, "{clear}{path}: {text}")?;
    out.flush()
}

/// Why a poll has no answer.
enum PollError {
    /// The server refused.
    Refused(anyhow::Error),
    /// The server does not respond at the moment.
    Silent(anyhow::Error),
}

/// The server to poll.
struct FillClient {
    client: AdminClient,
    url: String,
    rate: u64,
}

impl FillClient {
    fn new(filling: &FillArgs) -> Self {
        let client = AdminClient::new(&filling.admin, ANSWER_TIMEOUT);
        Self {
            url: client.url("/fill"),
            client,
            rate: filling.rate,
        }
    }

    fn about(&self, path: &str) -> Result<FillStatus, PollError> {
        let silent = |error| PollError::Silent(silent(&self.url, &error));
        let request = self.client.post(&self.url).query("path", path);
        let request = request.query("rate", self.rate.to_string());
        let mut answer = request.send_empty().map_err(silent)?;
        let status = answer.status().as_u16();
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX);
        let text = body.read_to_string().map_err(silent)?;
        match status {
            200 => serde_json::from_str(&text).map_err(|error| {
                let url = &self.url;
                PollError::Refused(anyhow::anyhow!(
                    "{url} is not a Headlong server with fills: {error}"
                ))
            }),
            // Other clients fill the maximum number of titles.
            429 => Err(PollError::Silent(anyhow::anyhow!("{}", text.trim()))),
            _ => Err(PollError::Refused(anyhow::anyhow!(
                "{path}: {}",
                text.trim()
            ))),
        }
    }
}
