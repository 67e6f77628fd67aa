//! Builds command lines argument by argument.

use std::fmt::Display;
use std::path::Path;

/// The arguments of a command.
#[derive(Debug, Clone, Default)]
pub(crate) struct CommandBuilder(pub(crate) Vec<String>);

impl CommandBuilder {
    /// A program and its fixed arguments, separated by spaces.
    pub(crate) fn of(program: &Path, said: &str) -> Self {
        Self::default().word(program.display()).plain(said)
    }

    /// Fixed arguments, separated by spaces.
    pub(crate) fn plain(mut self, words: &str) -> Self {
        self.0.extend(words.split(' ').map(str::to_owned));
        self
    }

    /// One argument, which may contain spaces.
    pub(crate) fn word(mut self, word: impl Display) -> Self {
        self.0.push(word.to_string());
        self
    }

    /// An option and its value.
    pub(crate) fn option(self, name: &str, value: impl Display) -> Self {
        self.word(name).word(value)
    }

    /// An option, if it has a value.
    pub(crate) fn maybe(self, name: &str, value: Option<impl Display>) -> Self {
        match value {
            Some(value) => self.option(name, value),
            None => self,
        }
    }

    /// Overrides of a specification, as `headlong workload` takes them.
    pub(crate) fn changes(self, changes: &[(String, String)]) -> Self {
        changes.iter().fold(self, |words, (key, value)| {
            words.option("--set", format_args!("{key}={value}"))
        })
    }
}
