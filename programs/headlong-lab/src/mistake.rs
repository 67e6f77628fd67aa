//! Usage errors, which have their own exit code.

use std::path::PathBuf;

use headlong_report::outputs_are_no_inputs;

/// Mistakes in the command line, or in a file named there; one line each.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub(crate) struct Mistakes(pub(crate) Vec<String>);

/// An error if a result would overwrite an input.
pub(crate) fn inputs_are_kept<'a>(
    outputs: impl IntoIterator<Item = &'a PathBuf>,
    inputs: impl IntoIterator<Item = &'a PathBuf>,
) -> anyhow::Result<()> {
    let inputs = inputs.into_iter().map(PathBuf::as_path);
    outputs_are_no_inputs(outputs.into_iter().map(PathBuf::as_path), inputs)
        .map_err(|error| Mistakes(vec![error.to_string()]).into())
}
