//! Rows: settings by name, each with its kind, its field in a struct and its text.

use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt::Write as _;

use crate::document::Document;
use crate::kind::ValueKind;
use crate::unknown::suggestion;
use crate::value::{Value, key_part};

const LAB_ONLY: &str =
    "is for simulations only (`headlong simulate --set server.KEY`); remove it to use the default";

type SetSetting<T> = Box<dyn Fn(&mut T, &Value) -> Result<(), String>>;
type ShowSetting<T> = Box<dyn Fn(&mut T) -> String>;

/// How many operators need a setting; orders the manual.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Every operator decides on it.
    Basic,
    /// It fits a feature or a site.
    Normal,
    /// The default is right unless a measurement says otherwise.
    Expert,
    /// For simulations only: set by name, rejected in files.
    Lab,
}

/// One setting of a `T`.
pub struct Row<T> {
    /// Its name, with its table: `limits.idle_timeout`.
    pub name: &'static str,
    /// Its meaning, for the manual; empty if it is not in the manual.
    pub text: &'static str,
    /// Whether a running server keeps the old value until it is restarted.
    pub needs_restart: bool,
    /// How many operators need it.
    pub tier: Tier,
    /// For a secret: computes the text that is printed instead of the value.
    hide: Option<fn(&str) -> String>,
    form: String,
    range: String,
    set: SetSetting<T>,
    show: ShowSetting<T>,
}

impl<T> Row<T> {
    /// Marks the setting as requiring a restart.
    pub fn restart(&mut self) -> &mut Self {
        self.needs_restart = true;
        self
    }

    /// Moves the setting from [`Tier::Normal`] to another tier.
    pub fn tier(&mut self, tier: Tier) -> &mut Self {
        self.tier = tier;
        self
    }

    /// Marks the setting as secret: [`Rows::write`] prints the result of `hide` in a comment.
    pub fn secret(&mut self, hide: fn(&str) -> String) {
        self.hide = Some(hide);
    }

    /// Its value as written in a file; empty if it is not set.
    pub fn value(&self, owner: &mut T) -> String {
        (self.show)(owner)
    }

    /// Its table, empty at the top level, and its name in the table.
    pub fn split(&self) -> (&'static str, &'static str) {
        self.name.rsplit_once('.').unwrap_or(("", self.name))
    }
}

/// All settings of a `T`, in the order of the manual.
pub struct Rows<T>(Vec<Row<T>>);

impl<T: 'static> Default for Rows<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: 'static> Rows<T> {
    /// Adds the setting for the field `place`.
    pub fn add<V: 'static>(
        &mut self,
        name: &'static str,
        kind: ValueKind<V>,
        place: fn(&mut T) -> &mut V,
        text: &'static str,
    ) -> &mut Row<T> {
        let show = move |kind: &ValueKind<V>, owner: &mut T| kind.show(place(owner));
        self.add_kind(
            name,
            kind,
            show,
            move |owner, new| *place(owner) = new,
            text,
        )
    }

    /// Adds a setting that is not a single field.
    pub fn add_with<V: 'static>(
        &mut self,
        name: &'static str,
        kind: ValueKind<V>,
        get: fn(&T) -> V,
        put: fn(&mut T, V),
        text: &'static str,
    ) -> &mut Row<T> {
        let show = move |kind: &ValueKind<V>, owner: &mut T| kind.show(&get(owner));
        self.add_kind(name, kind, show, put, text)
    }

    fn add_kind<V: 'static>(
        &mut self,
        name: &'static str,
        kind: ValueKind<V>,
        show: impl Fn(&ValueKind<V>, &mut T) -> String + 'static,
        put: impl Fn(&mut T, V) + 'static,
        text: &'static str,
    ) -> &mut Row<T> {
        let kind = Rc::new(kind);
        let shown = Rc::clone(&kind);
        self.push(Row {
            name,
            text,
            needs_restart: false,
            tier: Tier::Normal,
            hide: None,
            form: kind.form().to_owned(),
            range: kind.range().to_owned(),
            set: Box::new(move |owner, value| {
                put(owner, kind.read(value)?);
                Ok(())
            }),
            show: Box::new(move |owner| show(&shown, owner)),
        })
    }

    /// Adds all settings of a part of the struct.
    pub fn include<U: 'static>(&mut self, part: Rows<U>, place: fn(&mut T) -> &mut U) {
        for Row {
            name,
            text,
            needs_restart,
            tier,
            hide,
            form,
            range,
            set,
            show,
        } in part.0
        {
            let set = Box::new(move |owner: &mut T, value: &Value| set(place(owner), value));
            let show = Box::new(move |owner: &mut T| show(place(owner)));
            self.push(Row {
                name,
                text,
                needs_restart,
                tier,
                hide,
                form,
                range,
                set,
                show,
            });
        }
    }

    fn push(&mut self, row: Row<T>) -> &mut Row<T> {
        self.0.push(row);
        let last = self.0.len() - 1;
        &mut self.0[last]
    }

    /// All rows.
    pub fn iter(&self) -> impl Iterator<Item = &Row<T>> {
        self.0.iter()
    }

    /// Sets a setting by its name.
    ///
    /// # Errors
    /// If the name is unknown, with the nearest existing name, or if the value is invalid.
    pub fn set(&self, owner: &mut T, name: &str, value: &Value) -> Result<(), String> {
        match self.0.iter().find(|row| row.name == name) {
            Some(row) => (row.set)(owner, value),
            None => {
                let hint = suggestion(name, self.0.iter().map(|row| row.name));
                Err(format!("no such setting; {hint}"))
            }
        }
    }

    /// Reads all these settings from a document, in its table `above` (empty for the top level).
    pub fn read(&self, document: &mut Document, above: &str, owner: &mut T) {
        for row in &self.0 {
            let key = joined(above, row.name);
            if row.tier == Tier::Lab {
                document.reject(&key, LAB_ONLY);
                continue;
            }
            if let Some(value) = document.take(&key)
                && let Err(text) = (row.set)(owner, &value)
            {
                document.wrong(&key, text);
            }
        }
    }

    /// Adds the current values to a TOML text: of basic settings, and of those that differ from
    /// `default`. A setting that is not set is omitted, and a secret appears as a comment.
    pub fn write(&self, text: &mut String, above: &str, (owner, default): (&T, &T))
    where
        T: Clone,
    {
        let (mut owner, mut default) = (owner.clone(), default.clone());
        let mut table = String::new();
        for row in self.0.iter().filter(|row| row.tier != Tier::Lab) {
            let shown = (row.show)(&mut owner);
            let is_usual = row.tier != Tier::Basic && shown == (row.show)(&mut default);
            match row.hide {
                _ if shown.is_empty() || is_usual => {}
                Some(hide) => {
                    // Writing to a String cannot fail.
                    let _ = writeln!(text, "# {} is {}", row.name, hide(&shown));
                }
                None => toml_line(text, &mut table, &joined(above, row.name), &shown),
            }
        }
    }

    /// Marks all these settings as requiring a restart.
    pub fn restart(&mut self) {
        for row in &mut self.0 {
            row.restart();
        }
    }

    /// Adds to a page of the manual a link to the entry of each setting on the page that `page_of`
    /// names, with the value in `here` where it differs from that in `there`, the default on that
    /// page. Settings without such a page are left out.
    pub fn refer(
        &self,
        page: &mut String,
        page_of: impl Fn(Tier) -> Option<&'static str>,
        (here, there): (&T, &T),
    ) where
        T: Clone,
    {
        let (mut here, mut there) = (here.clone(), there.clone());
        for row in &self.0 {
            let Some(other) = page_of(row.tier) else {
                continue;
            };
            let (_, name) = row.split();
            // Writing to a String cannot fail.
            let _ = write!(page, "- [`{name}`]({other}#{name})");
            let shown = (row.show)(&mut here);
            let _ = match shown == (row.show)(&mut there) {
                true => writeln!(page),
                false => writeln!(page, ", here by default `{shown}`"),
            };
        }
    }

    /// The entries of the settings of these tiers in the manual; `default` holds the defaults.
    pub fn entries(&self, default: &T, tiers: &[Tier]) -> Vec<ManualEntry>
    where
        T: Clone,
    {
        let mut default = default.clone();
        let rows = self.0.iter().filter(|row| tiers.contains(&row.tier));
        let entry = |row: &Row<T>| ManualEntry {
            table: row.split().0,
            name: row.split().1,
            text: row.text,
            form: row.form.clone(),
            range: row.range.clone(),
            default: (row.show)(&mut default),
            needs_restart: row.needs_restart,
            tier: row.tier,
        };
        rows.map(entry).collect()
    }
}

/// The entry of a setting in the manual.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManualEntry {
    /// Its table; empty at the top level.
    pub table: &'static str,
    /// Its name in the table.
    pub name: &'static str,
    /// Its meaning, with code in backticks.
    pub text: &'static str,
    /// The value to write.
    pub form: String,
    /// Bounds of the value; empty if there are none.
    pub range: String,
    /// The default; empty if it is not set.
    pub default: String,
    /// Whether a change needs a restart.
    pub needs_restart: bool,
    /// How many operators need it.
    pub tier: Tier,
}

impl ManualEntry {
    /// When a change takes effect.
    pub fn when(&self) -> &'static str {
        match self.needs_restart {
            true => "at a restart",
            false => "at a reload",
        }
    }
}

/// Adds entries to a page in Markdown. Each table gets a heading.
pub fn document(page: &mut String, entries: &[ManualEntry]) {
    let mut table = "";
    for entry in entries {
        // Writing to a String cannot fail.
        if entry.table != table {
            table = entry.table;
            let _ = write!(page, "\n## [{table}]\n");
        }
        let (name, text, form) = (entry.name, entry.text, &entry.form);
        let _ = write!(page, "\n### `{name}`\n\n{text}\n\n- write: {form}\n");
        if !entry.range.is_empty() {
            let _ = writeln!(page, "- range: {}", entry.range);
        }
        let _ = match entry.default.as_str() {
            "" => writeln!(page, "- default: not set"),
            shown => writeln!(page, "- default: `{shown}`"),
        };
        let _ = writeln!(page, "- takes effect: {}", entry.when());
        if entry.tier == Tier::Basic {
            page.push_str("- basic\n");
        }
    }
}

fn joined(above: &str, name: &str) -> String {
    match above {
        "" => name.to_string(),
        above => format!("{above}.{name}"),
    }
}

/// Adds `key = value` to a TOML text whose current table is `table`, with a heading if the key is
/// in another one.
pub fn toml_line(text: &mut String, table: &mut String, key: &str, value: &str) {
    let (of, name) = key.rsplit_once('.').unwrap_or(("", key));
    // Writing to a String cannot fail.
    if of != table {
        of.clone_into(table);
        let _ = match of.split_once('.') {
            Some((group, name)) => write!(text, "\n[{group}.{}]\n", key_part(name)),
            None => write!(text, "\n[{of}]\n"),
        };
    }
    let _ = writeln!(text, "{name} = {value}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::whole;

    #[derive(Clone, Default, Debug, PartialEq, Eq)]
    struct TierCounts {
        basic: u32,
        normal: u32,
        lab: u32,
    }

    fn rows() -> Rows<TierCounts> {
        let mut rows = Rows::default();
        rows.add("basic", whole(), |n: &mut TierCounts| &mut n.basic, "B.")
            .tier(Tier::Basic);
        rows.add("normal", whole(), |n| &mut n.normal, "N.")
            .restart();
        rows.add("lab", whole(), |n| &mut n.lab, "L.")
            .tier(Tier::Lab);
        rows
    }

    fn read(text: &str) -> (TierCounts, Vec<String>) {
        let mut document = Document::new("x.toml", "m.md", text);
        let mut numbers = TierCounts::default();
        document.reject_former("", &[("old", "write normal")]);
        rows().read(&mut document, "", &mut numbers);
        let mistakes = document.finish(()).err();
        let mistakes = mistakes.iter().flat_map(|all| all.iter());
        let mistakes = mistakes.map(|mistake| mistake.to_string()).collect();
        (numbers, mistakes)
    }

    #[test]
    fn file_may_not_have_settings_of_the_lab_or_former_ones() {
        let (numbers, mistakes) = read("normal = 2\nlab = 3\nold = 4\nlap = 5\n");
        assert_eq!((numbers.normal, numbers.lab), (2, 0));
        let lab = format!("x.toml:2: lab: {LAB_ONLY}");
        let expected = [
            lab.as_str(),
            "x.toml:3: old: is no longer a setting; write normal",
            "x.toml:4: lap: unknown key; there are basic, normal",
        ];
        assert_eq!(mistakes, expected);
        let mut numbers = TierCounts::default();
        let set = rows().set(&mut numbers, "lab", &Value::Whole(3));
        assert_eq!((set, numbers.lab), (Ok(()), 3));
    }

    #[test]
    fn written_text_has_basic_and_unusual_settings() {
        let default = TierCounts::default();
        let written = |numbers: &TierCounts| {
            let mut text = String::new();
            rows().write(&mut text, "", (numbers, &default));
            text
        };
        assert_eq!(written(&default), "basic = 0\n");
        let unusual = TierCounts {
            normal: 7,
            lab: 8,
            ..TierCounts::default()
        };
        assert_eq!(written(&unusual), "basic = 0\nnormal = 7\n");
    }

    #[test]
    fn page_has_entries_of_its_tiers_and_links_to_others() {
        let default = TierCounts::default();
        let mut page = String::new();
        document(&mut page, &rows().entries(&default, &[Tier::Normal]));
        let expected = "\n### `normal`\n\nN.\n\n- write: a whole number such as 16\n\
                        - default: `0`\n- takes effect: at a restart\n";
        assert_eq!(page, expected);
        let mut links = String::new();
        let page_of = |tier| (tier != Tier::Lab).then_some("p.md");
        let here = TierCounts {
            basic: 1,
            ..TierCounts::default()
        };
        rows().refer(&mut links, page_of, (&here, &default));
        let expected = "- [`basic`](p.md#basic), here by default `1`\n- [`normal`](p.md#normal)\n";
        assert_eq!(links, expected);
    }
}
