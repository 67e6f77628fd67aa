//! Mistakes of the operator's: they end the program with the code for that.

use std::path::PathBuf;

use headlong_report::outputs_are_no_inputs;

/// What is wrong with the command line, or with a file it names; each is one line.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub(crate) struct Mistakes(pub(crate) Vec<String>);

/// A mistake if a result would be written over what is read.
pub(crate) fn inputs_are_kept<'a>(
    outputs: impl IntoIterator<Item = &'a PathBuf>,
    inputs: impl IntoIterator<Item = &'a PathBuf>,
) -> anyhow::Result<()> {
    let inputs = inputs.into_iter().map(PathBuf::as_path);
    outputs_are_no_inputs(outputs.into_iter().map(PathBuf::as_path), inputs)
        .map_err(|error| Mistakes(vec![error.to_string()]).into())
}
