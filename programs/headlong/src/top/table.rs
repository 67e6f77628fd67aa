//! A sample as lines of text, for a screen or a file.

use std::fmt::Write as _;

use percent_encoding::percent_decode_str;

use super::rates::{Disk, Sample};
use super::status::Chain;

/// Chains shown: those whose viewers need their data soonest.
const CHAINS_MAX: usize = 10;
const MIB: f64 = 1_048_576.0;

/// The page.
pub(super) fn lines(sample: &Sample, address: &str) -> Vec<String> {
    let mut page = vec![
        format!(
            "headlong {} at {address}: {} for {}; {} connections, {} requests",
            sample.version,
            sample.state,
            time(sample.up_seconds),
            sample.connections_open,
            sample.requests_active
        ),
        format!(
            "MiB/s sent {:.1}: from disk {:.1}, from flash {:.1}, from memory {:.1}",
            sample.sum(|rates| rates.sent_bytes) / MIB,
            sample.sum(|rates| rates.sent_from_disk_bytes) / MIB,
            sample.sum(|rates| rates.sent_from_flash_bytes) / MIB,
            sample.sum(|rates| rates.sent_from_ram_bytes) / MIB
        ),
        String::new(),
    ];
    page.extend(table(
        "DISK|STATE|BUSY|READS/s|READ MiB/s|FROM DISK|FROM FLASH|FROM MEMORY|QUEUE|OVERDUE|PREFETCH MiB|CHAINS|REFUSED|ERRORS",
        sample.disks.iter().map(disk_row),
    ));
    page.push(String::new());
    page.extend(table(
        "MEMORY MiB|BUDGET|FREE|FILLING|UNREAD|SENDING|READ",
        sample.disks.iter().map(memory_row),
    ));
    let mut chains: Vec<(&Disk, &Chain)> = Vec::new();
    for disk in &sample.disks {
        chains.extend(disk.chains.iter().map(|chain| (disk, chain)));
    }
    // By name too, so that lines do not jump about.
    chains.sort_by_key(|(_, chain)| (chain.slack_ms, &chain.path));
    chains.truncate(CHAINS_MAX);
    if !chains.is_empty() {
        page.push(String::new());
        page.extend(table(
            "CHAINS OF|MBIT/s|AHEAD MiB|PREFETCH MiB|DUE s|TITLE",
            chains.into_iter().map(chain_row),
        ));
    }
    page
}

fn disk_row(disk: &Disk) -> Vec<String> {
    let rate = |of: &dyn Fn(&super::rates::Rates) -> String| {
        disk.rates.as_ref().map_or_else(|| "-".to_owned(), of)
    };
    vec![
        plain(&disk.name),
        plain(&disk.state),
        rate(&|rates| format!("{:.0}%", rates.busy_share * 100.0)),
        rate(&|rates| format!("{:.0}", rates.reads)),
        rate(&|rates| format!("{:.1}", rates.read_bytes / MIB)),
        rate(&|rates| format!("{:.1}", rates.sent_from_disk_bytes / MIB)),
        rate(&|rates| format!("{:.1}", rates.sent_from_flash_bytes / MIB)),
        rate(&|rates| format!("{:.1}", rates.sent_from_ram_bytes / MIB)),
        format!("{}+{}", disk.queue_jobs, disk.outstanding_reads),
        disk.queue_jobs_overdue.to_string(),
        mib(disk.prefetch_reference_bytes),
        disk.chains_live.to_string(),
        disk.requests_refused.to_string(),
        disk.read_errors.to_string(),
    ]
}

fn memory_row(disk: &Disk) -> Vec<String> {
    let memory = &disk.memory;
    vec![
        plain(&disk.name),
        mib(memory.budget_bytes),
        mib(memory.free_bytes),
        mib(memory.filling_bytes),
        mib(memory.unread_bytes),
        mib(memory.sending_bytes),
        mib(memory.read_bytes),
    ]
}

fn chain_row((disk, chain): (&Disk, &Chain)) -> Vec<String> {
    vec![
        plain(&disk.name),
        format!("{:.1}", chain.pace_bps as f64 / 1e6),
        mib(chain.unread_bytes),
        mib(chain.prefetch_bytes),
        format!("{:.1}", chain.slack_ms as f64 / 1e3),
        plain(&percent_decode_str(&chain.path).decode_utf8_lossy()),
    ]
}

/// Columns as wide as their widest cell: the first, and those of words, to the left, figures to
/// the right.
fn table(heads: &str, rows: impl Iterator<Item = Vec<String>>) -> Vec<String> {
    let heads: Vec<String> = heads.split('|').map(str::to_owned).collect();
    let is_left: Vec<bool> = heads
        .iter()
        .enumerate()
        .map(|(column, head)| column == 0 || head == "STATE" || head == "TITLE")
        .collect();
    let rows: Vec<Vec<String>> = std::iter::once(heads).chain(rows).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..is_left.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let mut line = String::new();
        for ((cell, width), is_left) in row.iter().zip(&widths).zip(&is_left) {
            // Writing to a String cannot fail.
            let _ = match is_left {
                true => write!(line, "{cell:<width$}  "),
                false => write!(line, "{cell:>width$}  "),
            };
        }
        line.truncate(line.trim_end().len());
        line
    };
    rows.iter().map(line).collect()
}

/// Cuts what does not fit a screen. Its last column stays free: some terminals begin a new line
/// there.
pub(super) fn fit(page: &mut Vec<String>, columns: usize, lines: usize) {
    page.truncate(lines.max(1));
    for line in page {
        if let Some((end, _)) = line.char_indices().nth(columns.saturating_sub(1)) {
            line.truncate(end);
        }
    }
}

fn mib(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / MIB)
}

fn time(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// Names come from the disk: one with an escape sequence must not command the terminal.
fn plain(name: &str) -> String {
    let shown = |c: char| if c.is_control() { '?' } else { c };
    name.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::super::rates::tests::status;
    use super::*;

    fn sample() -> Sample {
        let counters = [
            ("busy_seconds", 2.25),
            ("reads", 31.0),
            ("bytes_from_ram", 10.0 * MIB),
            ("bytes_from_flash", 5.0 * MIB),
            ("bytes_from_disk", 20.0 * MIB),
        ];
        Sample::between(&status(3_600_000, &[]), &status(3_601_000, &counters))
    }

    #[test]
    fn a_page_has_what_each_disk_does_and_who_needs_data_next() {
        let page = lines(&sample(), "127.0.0.1:8081");
        let expected = [
            "headlong 1.2.3 at 127.0.0.1:8081: serving for 1 h 0 min; 0 connections, 0 requests",
            "MiB/s sent 35.0: from disk 20.0, from flash 5.0, from memory 10.0",
            "",
            "DISK  STATE   BUSY  READS/s  READ MiB/s  FROM DISK  FROM FLASH  FROM MEMORY  QUEUE  OVERDUE  PREFETCH MiB  CHAINS  REFUSED  ERRORS",
            "sda   online   75%       31         0.0       20.0         5.0         10.0    3+1        1           8.0      41        0       0",
            "",
            "MEMORY MiB  BUDGET  FREE  FILLING  UNREAD  SENDING  READ",
            "sda         1024.0   0.0      0.0     0.0      0.0   0.0",
            "",
            "CHAINS OF  MBIT/s  AHEAD MiB  PREFETCH MiB  DUE s  TITLE",
            "sda           4.0        0.0           0.0    2.5  /a/b.mp4",
        ];
        assert_eq!(page, expected, "\n{}", page.join("\n"));
    }

    #[test]
    fn a_page_is_cut_to_the_screen_and_not_within_a_character() {
        let mut page = lines(&sample(), "ä".repeat(90).as_str());
        fit(&mut page, 80, 5);
        assert_eq!(page.len(), 5);
        assert!(
            page.iter().all(|line| line.chars().count() <= 79),
            "{page:?}"
        );
        let mut page = vec!["abc".to_owned()];
        fit(&mut page, 0, 0);
        assert_eq!(page, [""]);
    }

    #[test]
    fn a_title_s_name_does_not_command_the_terminal() {
        let mut sample = sample();
        sample.disks[0].chains[0].path = "/a%1b]0;x%07%C2%9b2J.mp4".to_owned();
        let page = lines(&sample, "here").join("\n");
        assert!(page.contains("/a?]0;x??2J.mp4"), "{page}");
        assert!(page.chars().all(|c| c == '\n' || !c.is_control()));
    }

    #[test]
    fn viewers_who_need_data_soonest_come_first_and_not_all_are_shown() {
        let mut sample = sample();
        let chain = sample.disks[0].chains[0].clone();
        sample.disks[0].chains = (0..40)
            .map(|number| Chain {
                slack_ms: 40_000 - number * 1000,
                path: format!("/{number}"),
                ..chain.clone()
            })
            .collect();
        let page = lines(&sample, "here");
        let titles: Vec<&str> = page
            .iter()
            .skip(10)
            .map(|line| &line[line.len() - 3..])
            .collect();
        assert_eq!(titles.len(), CHAINS_MAX, "{page:?}");
        assert_eq!(titles.first(), Some(&"/39"), "{page:?}");
    }
}
