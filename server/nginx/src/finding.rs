//! Directives that the conversion reports.

use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use headlong_settings::one_line;

use crate::syntax::Directive;

/// A directive that has no place in Headlong, or not with this value, and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    file: Rc<str>,
    line: usize,
    directive: String,
    text: String,
}

/// `FILE:LINE: DIRECTIVE: TEXT`, on one line.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file, directive) = (one_line(&self.file), one_line(&self.directive));
        write!(
            f,
            "{file}:{}: {directive}: {}",
            self.line,
            one_line(&self.text)
        )
    }
}

/// The findings so far. One directive may be inherited by several locations, and is reported once.
#[derive(Debug, Default)]
pub(crate) struct Findings(Vec<Finding>);

impl Findings {
    pub(crate) fn add(&mut self, of: &Directive, text: impl Into<String>) {
        self.0.push(Finding {
            file: Rc::clone(&of.file),
            line: of.line,
            directive: of.name.clone(),
            text: text.into(),
        });
    }

    /// Adds those of another server.
    pub(crate) fn join(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// All of them, in the order of the files.
    pub(crate) fn finish(mut self) -> Vec<Finding> {
        self.0.sort();
        self.0.dedup();
        self.0
    }
}
