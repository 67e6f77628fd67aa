//! Two file sets of the same titles, side by side.

use std::collections::BTreeMap;

use serde::Serialize;

use super::error::LayoutError;
use super::{Layout, TitleLayout};

/// How far one title is from the title of the same name.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TitleDivergence {
    /// Its name.
    pub name: String,
    /// Where it lies in the first set, in sectors.
    pub lba: f64,
    /// Where it lies in the second.
    pub other_lba: f64,
}

/// How far two sets lie apart (thesis 3.5.3).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Divergence {
    /// Titles in both sets that have a place in both.
    pub titles: Vec<TitleDivergence>,
    /// Titles in only one of them.
    pub unmatched: u64,
    /// Titles left out of the mean because they are outliers in one of the sets.
    pub outliers: u64,
    /// Mean of the distances, in sectors; zero if outliers are all there is.
    pub mean_lba: f64,
    /// The same as a share of the larger disk's sectors.
    pub share: f64,
}

impl Layout {
    /// How far the titles of this layout lie from those of the same names in another.
    ///
    /// # Errors
    /// If they have no title in common.
    pub fn divergence_from(&self, other: &Self) -> Result<Divergence, LayoutError> {
        divergence(self, other)
    }
}

fn divergence(first: &Layout, second: &Layout) -> Result<Divergence, LayoutError> {
    let others: BTreeMap<&str, &TitleLayout> = second
        .titles
        .iter()
        .map(|title| (title.name.as_str(), title))
        .collect();
    let mut titles = Vec::new();
    let (mut outliers, mut sum, mut count, mut matched) = (0, 0.0, 0u64, 0u64);
    for title in &first.titles {
        let Some(other) = others.get(title.name.as_str()) else {
            continue;
        };
        matched += 1;
        let (Some(lba), Some(other_lba)) = (title.mean_lba, other.mean_lba) else {
            continue;
        };
        if title.is_outlier || other.is_outlier {
            outliers += 1;
        } else {
            sum += (lba - other_lba).abs();
            count += 1;
        }
        titles.push(TitleDivergence {
            name: title.name.clone(),
            lba,
            other_lba,
        });
    }
    if titles.is_empty() {
        let (first, second) = (first.directory.clone(), second.directory.clone());
        return Err(LayoutError::NothingInCommon(first, second));
    }
    let mean_lba = sum / count.max(1) as f64;
    let sectors = first.device_sectors.max(second.device_sectors).max(1);
    Ok(Divergence {
        titles,
        unmatched: (first.titles.len() + second.titles.len()) as u64 - 2 * matched,
        outliers,
        mean_lba,
        share: mean_lba / sectors as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::layout;

    #[test]
    fn divergence_is_the_mean_distance_of_titles_with_one_name() {
        let at = |sector: u64| sector * 512;
        let first = layout(&[("a", at(1_000)), ("b", at(2_000)), ("c", at(3_000))]);
        let second = layout(&[("a", at(1_100)), ("x", at(1_500)), ("c", at(2_700))]);
        let apart = first.divergence_from(&second).expect("titles in common");
        assert_eq!(
            (apart.titles.len(), apart.unmatched, apart.outliers),
            (2, 2, 0)
        );
        assert_eq!(apart.mean_lba, 200.0);
        assert_eq!(apart.share, 200.0 / 1_000_000.0);
    }

    #[test]
    fn outliers_are_shown_and_not_counted() {
        let at = |sector: u64| sector * 512;
        let first = layout(&[("a", at(1_000)), ("b", at(2_000)), ("c", at(3_000))]);
        let second = layout(&[("a", at(1_000)), ("b", at(900_000)), ("c", at(3_000))]);
        let apart = first.divergence_from(&second).expect("titles in common");
        assert_eq!(
            (apart.titles.len(), apart.outliers, apart.mean_lba),
            (3, 1, 0.0)
        );
    }

    #[test]
    fn sets_without_a_title_in_common_are_not_compared() {
        let (first, second) = (layout(&[("a", 0)]), layout(&[("b", 0)]));
        let error = first
            .divergence_from(&second)
            .expect_err("nothing in common");
        assert!(error.to_string().contains("without endings"), "{error}");
    }
}
