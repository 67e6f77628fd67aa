//! `headlong flash`: the flash tier's SSDs.

use headlong_engine::PIECE_BYTES_WITH_FLASH;
use headlong_storage::flash::{self, Formatting};
use headlong_units::Bytes;

use crate::args::{FlashCommand, FlashFormatting};

/// Executes the action and prints its result.
pub(crate) fn flash(command: &FlashCommand) -> anyhow::Result<()> {
    let (text, is_right) = match command {
        FlashCommand::Format(formatting) => (format(formatting)?, true),
        FlashCommand::Status(place) => (flash::status(&place.path)?, true),
        FlashCommand::Verify(place) => flash::verify(&place.path)?,
        FlashCommand::Drop(place) => (flash::drop_tier(&place.path)?, true),
    };
    headlong_survey::print(&text)?;
    anyhow::ensure!(
        is_right,
        "damaged records are never served; if there are more each time, replace the SSD"
    );
    Ok(())
}

fn format(formatting: &FlashFormatting) -> anyhow::Result<String> {
    let bytes = |flag: &str, text: &Option<String>| {
        let bytes = text.as_deref().map(str::parse::<Bytes>).transpose();
        bytes
            .map(|bytes| bytes.map(|bytes| bytes.0))
            .map_err(|error| anyhow::anyhow!("{flag}: {error}"))
    };
    let piece = bytes("--piece", &formatting.piece)?;
    let formatted = Formatting {
        size: bytes("--size", &formatting.size)?,
        block: bytes("--block", &formatting.block)?,
        piece: piece.unwrap_or(PIECE_BYTES_WITH_FLASH),
        is_forced: formatting.force,
    };
    Ok(flash::format(&formatting.path, &formatted)?)
}
