//! Rows: settings by name, each with its kind, its field in a struct and its text.

use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt::Write as _;

use crate::document::Document;
use crate::kind::Kind;
use crate::unknown::suggestion;
use crate::value::{Value, key_part};

type Set<T> = Box<dyn Fn(&mut T, &Value) -> Result<(), String>>;
type Show<T> = Box<dyn Fn(&mut T) -> String>;

/// One setting of a `T`.
pub struct Row<T> {
    /// Its name, with its table: `limits.idle_timeout`.
    pub name: &'static str,
    /// Its meaning, for the manual; empty if it is not in the manual.
    pub text: &'static str,
    /// Whether a running server keeps the old value until it is restarted.
    pub needs_restart: bool,
    /// For a secret: computes the text that is printed instead of the value.
    hide: Option<fn(&str) -> String>,
    form: String,
    range: String,
    set: Set<T>,
    show: Show<T>,
}

impl<T> Row<T> {
    /// Marks the setting as requiring a restart.
    pub fn restart(&mut self) {
        self.needs_restart = true;
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
        kind: Kind<V>,
        place: fn(&mut T) -> &mut V,
        text: &'static str,
    ) -> &mut Row<T> {
        let show = move |kind: &Kind<V>, owner: &mut T| kind.show(place(owner));
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
        kind: Kind<V>,
        get: fn(&T) -> V,
        put: fn(&mut T, V),
        text: &'static str,
    ) -> &mut Row<T> {
        let show = move |kind: &Kind<V>, owner: &mut T| kind.show(&get(owner));
        self.add_kind(name, kind, show, put, text)
    }

    fn add_kind<V: 'static>(
        &mut self,
        name: &'static str,
        kind: Kind<V>,
        show: impl Fn(&Kind<V>, &mut T) -> String + 'static,
        put: impl Fn(&mut T, V) + 'static,
        text: &'static str,
    ) -> &mut Row<T> {
        let kind = Rc::new(kind);
        let shown = Rc::clone(&kind);
        self.push(Row {
            name,
            text,
            needs_restart: false,
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
            if let Some(value) = document.take(&key)
                && let Err(text) = (row.set)(owner, &value)
            {
                document.wrong(&key, text);
            }
        }
    }

    /// Adds every setting with its current value to a TOML text; a setting that is not set is
    /// omitted, and a secret appears as a comment.
    pub fn write(&self, text: &mut String, above: &str, owner: &T)
    where
        T: Clone,
    {
        let mut owner = owner.clone();
        let mut table = String::new();
        for row in &self.0 {
            let shown = (row.show)(&mut owner);
            match row.hide {
                _ if shown.is_empty() => {}
                Some(hide) if shown != "[]" => {
                    // Writing to a String cannot fail.
                    let _ = writeln!(text, "# {} is {}", row.name, hide(&shown));
                }
                _ => toml_line(text, &mut table, &joined(above, row.name), &shown),
            }
        }
    }

    /// Marks all these settings as requiring a restart.
    pub fn restart(&mut self) {
        self.0.iter_mut().for_each(Row::restart);
    }

    /// Adds an entry for each setting to a page of the manual; `default` holds the defaults. Each
    /// table gets a heading.
    pub fn document(&self, page: &mut String, default: &T)
    where
        T: Clone,
    {
        let mut default = default.clone();
        let mut table = "";
        for row in &self.0 {
            let (of, name) = row.split();
            // Writing to a String cannot fail.
            if of != table {
                table = of;
                let _ = write!(page, "\n## [{of}]\n");
            }
            let _ = write!(
                page,
                "\n### `{name}`\n\n{}\n\n- write: {}\n",
                row.text, row.form
            );
            if !row.range.is_empty() {
                let _ = writeln!(page, "- range: {}", row.range);
            }
            let _ = match (row.show)(&mut default) {
                unset if unset.is_empty() => writeln!(page, "- default: not set"),
                shown => writeln!(page, "- default: `{shown}`"),
            };
            let when = if row.needs_restart {
                "a restart"
            } else {
                "a reload"
            };
            let _ = writeln!(page, "- takes effect: at {when}");
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
