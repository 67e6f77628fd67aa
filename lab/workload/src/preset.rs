//! Specifications shipped with Headlong, as TOML texts.

/// Name and text of each preset.
const PRESETS: &[(&str, &str)] = &[
    ("youtube-sd", include_str!("presets/youtube-sd.toml")),
    ("youtube-hd", include_str!("presets/youtube-hd.toml")),
    ("youtube-2011", include_str!("presets/youtube-2011.toml")),
    (
        "youtube-2011-2mb",
        include_str!("presets/youtube-2011-2mb.toml"),
    ),
    ("flashstream", include_str!("presets/flashstream.toml")),
    ("dash-vod", include_str!("presets/dash-vod.toml")),
    (
        "netflix-2014-catalog",
        include_str!("presets/netflix-2014-catalog.toml"),
    ),
];

/// Names of all presets.
pub fn names() -> impl Iterator<Item = &'static str> {
    PRESETS.iter().map(|(name, _)| *name)
}

/// The TOML text of a preset, also a template for custom specifications.
pub fn text(name: &str) -> Option<&'static str> {
    let (_, text) = PRESETS.iter().find(|(known, _)| *known == name)?;
    Some(text)
}

/// Value of `model` in a specification of phases.
pub(crate) const PHASED_MODEL: &str = "phases";
