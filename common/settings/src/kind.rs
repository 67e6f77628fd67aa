//! The kind of a setting: what to write, how it is parsed and how it is printed.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;

use crate::value::Value;

/// Why a value is rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rejection {
    /// It is of another kind; the message states what to write.
    Unfit,
    /// It is a number without the required unit; the message states what to write.
    NoUnit,
    /// The error, and how to correct it.
    Told(String),
}

impl<T: Into<String>> From<T> for Rejection {
    fn from(text: T) -> Self {
        Self::Told(text.into())
    }
}

pub(crate) type ReadValue<V> = Box<dyn Fn(&Value) -> Result<V, Rejection>>;
pub(crate) type ShowValue<V> = Box<dyn Fn(&V) -> String>;

/// The valid values of a setting of type `V`.
pub struct ValueKind<V> {
    pub(crate) form: String,
    pub(crate) range: String,
    pub(crate) read: ReadValue<V>,
    pub(crate) show: ShowValue<V>,
}

impl<V: 'static> ValueKind<V> {
    /// A kind described by `form` ("a size such as \"2MiB\"").
    pub fn new(
        form: impl Into<String>,
        read: impl Fn(&Value) -> Result<V, Rejection> + 'static,
        show: impl Fn(&V) -> String + 'static,
    ) -> Self {
        Self {
            form: form.into(),
            range: String::new(),
            read: Box::new(read),
            show: Box::new(show),
        }
    }

    /// The description of valid values, without bounds.
    pub fn form(&self) -> &str {
        &self.form
    }

    /// The bounds: `4KiB to 2MiB`, `at least 1`; empty if there are none.
    pub fn range(&self) -> &str {
        &self.range
    }

    /// The description of valid values, with bounds.
    pub fn whole_form(&self) -> String {
        match self.range.is_empty() {
            true => self.form.clone(),
            false => format!("{}, {}", self.form, self.range),
        }
    }

    /// Parses the written value.
    ///
    /// # Errors
    /// If it is invalid, with a message that states what to write.
    pub fn read(&self, value: &Value) -> Result<V, String> {
        (self.read)(value).map_err(|wrong| {
            let quoted = value.quoted();
            match wrong {
                Rejection::Unfit => format!("{quoted} does not fit; write {}", self.whole_form()),
                Rejection::NoUnit => format!("{quoted} has no unit; write {}", self.whole_form()),
                Rejection::Told(text) => text,
            }
        })
    }

    /// Its form in TOML; empty if it is not set.
    pub fn show(&self, value: &V) -> String {
        (self.show)(value)
    }
}
