//! The manual page headlong.toml(5), generated from the table of settings.

use clap_mangen::roff::{Inline, Roff, bold, roman};
use headlong_config::{Section, sections};
use headlong_settings::{ManualEntry, Tier};

const DESCRIPTION: &str = "`headlong serve --config FILE` reads its settings from one TOML file. \
    Flags override the file. Sizes are written as `\"2MiB\"`, times as `\"5s\"`. Paths are relative to \
    the folder of the file. All mistakes are reported at once, with file and line, before a port or a \
    disk is used; `headlong check` with the same arguments only does this check. On SIGHUP the file is \
    read again, and a file with a mistake changes nothing.";

const EXPERT: &str = "The default of each of these settings is right unless a measurement says \
    otherwise: change one at a time, and compare before and after.";

/// The page, in roff.
pub(crate) fn settings_page(date: &str) -> String {
    let mut page = Roff::new();
    let version = concat!("headlong ", env!("CARGO_PKG_VERSION"));
    page.control("TH", ["headlong.toml", "5", date, version, "Headlong"]);
    page.control("SH", ["NAME"]);
    page.text([roman("headlong.toml - settings of headlong serve")]);
    page.control("SH", ["DESCRIPTION"]);
    page.text(inlines(DESCRIPTION));
    add_sections(&mut page, &[Tier::Basic, Tier::Normal]);
    page.control("SH", ["EXPERT SETTINGS"]);
    page.text(inlines(EXPERT));
    add_sections(&mut page, &[Tier::Expert]);
    page.control("SH", ["SEE ALSO"]);
    page.text(inlines(
        "`headlong-serve`(1), `headlong-check`(1), and the pages in /usr/share/doc/headlong: \
         settings.md has the settings to decide on first.",
    ));
    page.render()
}

fn add_sections(page: &mut Roff, tiers: &[Tier]) {
    let is_first = tiers.contains(&Tier::Basic);
    let heading = if is_first { "SH" } else { "SS" };
    for Section {
        table,
        text,
        entries,
    } in sections(tiers)
    {
        let title = if table.is_empty() {
            "At the top"
        } else {
            table
        };
        page.control(heading, [title]);
        if is_first && !text.is_empty() {
            page.text(inlines(text));
        }
        let mut table = "";
        for entry in &entries {
            if entry.table != table {
                table = entry.table;
                page.control(heading, [format!("[{table}]").as_str()]);
            }
            add_entry(page, entry);
        }
    }
}

fn add_entry(page: &mut Roff, entry: &ManualEntry) {
    page.control("TP", []);
    page.text([bold(entry.name)]);
    page.text(inlines(entry.text));
    let range = match entry.range.as_str() {
        "" => String::new(),
        range => format!(", {range}"),
    };
    let default = match entry.default.as_str() {
        "" => "not set".to_owned(),
        shown => format!("`{shown}`"),
    };
    page.control("RS", []);
    page.text(inlines(&format!(
        "Write {}{range}. Default: {default}. Takes effect {}.",
        entry.form,
        entry.when()
    )));
    page.control("RE", []);
}

/// A text in Markdown as roff: code is bold, a link is its text, and lines are joined.
fn inlines(text: &str) -> Vec<Inline> {
    let mut plain = String::new();
    let mut rest = text.trim();
    while let Some((before, after)) = rest.split_once("](") {
        let (words, label) = before.rsplit_once('[').unwrap_or(("", before));
        plain.push_str(words);
        plain.push_str(label);
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    plain.push_str(rest);
    let plain = plain.replace('\n', " ");
    let parts = plain.split('`').enumerate();
    let parts = parts.map(|(number, part)| match number % 2 {
        1 => bold(part),
        _ => roman(part),
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_has_every_setting_of_a_file_once() {
        let page = settings_page("2026-11-28");
        assert!(page.contains(".TH headlong.toml 5 2026-11-28 "), "{page}");
        for tier in [Tier::Basic, Tier::Normal, Tier::Expert] {
            for entry in sections(&[tier])
                .iter()
                .flat_map(|section| &section.entries)
            {
                let line = format!("\n\\fB{}\\fR\n", entry.name);
                assert!(page.contains(&line), "{}", entry.name);
            }
        }
        assert!(!page.contains('`') && !page.contains("]("), "{page}");
    }

    #[test]
    fn markdown_becomes_roff() {
        let shown: Vec<_> = inlines("See [a.md](b/a.md)\nand `--x`.");
        let expected = vec![roman("See a.md and "), bold("--x"), roman(".")];
        assert_eq!(shown, expected);
    }
}
