//! `headlong top`: what the disks of a running server do, in a terminal.
//!
//! It asks for `/status` each second, as the live view does, and shows what changed between two
//! answers. The terminal is only written to: nothing has to be put back when it ends, however it
//! ends.
//!
//! | file | what |
//! |---|---|
//! | `status` | what is read of `/status` |
//! | `rates` | two answers become one sample |
//! | `table` | a sample as lines of text |

mod rates;
mod status;
mod table;

use std::io::{ErrorKind, IsTerminal as _, Write as _};
use std::time::Duration;

use headlong_units::Duration as UnitsDuration;
use terminal_size::terminal_size;

use rates::Sample;
use status::Status;

/// An answer is made within 5 s or never (see the admin endpoint).
const ANSWER_TIMEOUT: Duration = Duration::from_secs(6);
/// Far more than the status of any machine's disks.
const ANSWER_BYTES_MAX: u64 = 32 << 20;
/// Lines and columns where nobody says how many there are.
const NO_BOUND: (usize, usize) = (usize::MAX, usize::MAX);

/// Which server, how often, and how it is shown.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Watching {
    /// The server's admin address, such as 127.0.0.1:8081
    #[arg(value_name = "ADDR:PORT", default_value = "127.0.0.1:8081")]
    address: String,
    /// Time from one look to the next
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    interval: UnitsDuration,
    /// Look twice, print what happened between, and end
    #[arg(long)]
    once: bool,
    /// Print a line of JSON for each look instead of tables
    #[arg(long)]
    json: bool,
}

/// Looks more often would themselves be load, and a day is enough.
fn interval(text: &str) -> Result<UnitsDuration, String> {
    let interval: UnitsDuration = text.parse().map_err(|error| format!("{error}"))?;
    let range = UnitsDuration::from_millis(100)..=UnitsDuration::from_secs(86_400);
    match range.contains(&interval) {
        true => Ok(interval),
        false => Err("it must be from 100ms to 24h".to_owned()),
    }
}

/// Watches until nobody reads any more or, with `--once`, one interval.
pub(crate) fn top(watching: &Watching) -> anyhow::Result<()> {
    let ask = Ask::new(&watching.address);
    let interval = Duration::from_nanos(watching.interval.0);
    // The first must be there: a wrong address is told at once.
    let mut before = ask.status()?;
    loop {
        std::thread::sleep(interval);
        let shown = match ask.status() {
            Ok(now) => {
                let sample = Sample::between(&before, &now);
                before = now;
                show(watching, &sample)
            }
            Err(error) if watching.once || watching.json => return Err(error),
            // A restart is not the end of watching.
            Err(error) => print(&on_screen(&[format!("headlong: {error}")])),
        };
        match shown {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            other => other?,
        }
        if watching.once {
            return Ok(());
        }
    }
}

fn show(watching: &Watching, sample: &Sample) -> std::io::Result<()> {
    if watching.json {
        let line = serde_json::to_string(sample)?;
        return print(&(line + "\n"));
    }
    let is_screen = std::io::stdout().is_terminal();
    let (columns, lines) = match terminal_size() {
        Some((columns, lines)) if is_screen => (columns.0.into(), lines.0.into()),
        _ => NO_BOUND,
    };
    let mut page = table::lines(sample, &watching.address);
    if watching.once || !is_screen {
        page.push(String::new());
        return print(&page.join("\n"));
    }
    table::fit(&mut page, columns, lines);
    print(&on_screen(&page))
}

/// Writes over what is on the screen, line by line, and clears the rest: nothing flickers.
fn on_screen(page: &[String]) -> String {
    let mut text = String::from("\x1b[H");
    text.push_str(&page.join("\x1b[K\r\n"));
    text.push_str("\x1b[K\x1b[J");
    text
}

fn print(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Who is asked.
struct Ask {
    agent: ureq::Agent,
    url: String,
}

impl Ask {
    fn new(address: &str) -> Self {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(ANSWER_TIMEOUT))
            // The server is the one that was named, whatever the environment says of proxies.
            .proxy(None)
            .max_redirects(0)
            .build();
        let address = address.trim_end_matches('/');
        let address = address.strip_prefix("http://").unwrap_or(address);
        Self {
            agent: config.new_agent(),
            url: format!("http://{address}/status"),
        }
    }

    fn status(&self) -> anyhow::Result<Status> {
        let named = |error: ureq::Error| anyhow::anyhow!("{}: {error}", self.url);
        let mut answer = self.agent.get(&self.url).call().map_err(named)?;
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX);
        let body = body.read_to_vec().map_err(named)?;
        serde_json::from_slice(&body)
            .map_err(|error| anyhow::anyhow!("{} is no status of a Headlong: {error}", self.url))
    }
}
