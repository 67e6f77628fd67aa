//! The map in ARCHITECTURE.md: it names every crate of the workspace once, marks the pure ones, and
//! names no missing folder.

use std::collections::BTreeSet;
use std::path::Path;

use crate::workspace::Member;

/// A folder on the map.
struct Place {
    /// Path from the root of the workspace: `server/engine`, or `web`.
    folder: String,
    /// Whether the map marks it as pure.
    pure: bool,
}

/// Folders in the first fenced block of a page. A line that is not indented names top folders, each
/// with a slash at its end; a line indented by two spaces names folders in the last of those,
/// separated by commas; `P` behind the names marks pure crates. Other lines are descriptions.
fn places(page: &str) -> Vec<Place> {
    let block = page.split("```").nth(1).unwrap_or_default();
    let mut places = Vec::new();
    let mut top = "";
    for line in block.lines() {
        let text = line.trim_start();
        let mut words = text.split_whitespace();
        match line.len() - text.len() {
            0 => {
                for name in words.map_while(|word| word.strip_suffix('/')) {
                    top = name;
                    places.push(Place {
                        folder: name.to_owned(),
                        pure: false,
                    });
                }
            }
            2 => {
                let mut names = Vec::new();
                for word in words.by_ref() {
                    names.push(word.trim_end_matches(','));
                    if !word.ends_with(',') {
                        break;
                    }
                }
                let pure = words.next() == Some("P");
                places.extend(names.into_iter().map(|name| Place {
                    folder: format!("{top}/{name}"),
                    pure,
                }));
            }
            _ => {}
        }
    }
    places
}

/// Differences between the map on `page`, the text of ARCHITECTURE.md, and the workspace. `exists`
/// says whether a path from the root of the workspace exists.
pub fn wrong_places(page: &str, members: &[Member], exists: impl Fn(&Path) -> bool) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for Place { folder, pure } in places(page) {
        if !exists(Path::new(&folder)) {
            wrong.push(format!("the map names {folder}, which does not exist"));
        }
        if let Some(member) = members.iter().find(|member| member.folder == folder)
            && member.pure != pure
        {
            let (mark, says) = match member.pure {
                true => ("P is missing behind", "says"),
                false => ("remove P from", "does not say"),
            };
            wrong.push(format!(
                "{mark} {folder}: its manifest {says} `pure = true`"
            ));
        }
        if !seen.insert(folder.clone()) {
            wrong.push(format!("the map names {folder} twice; keep one line"));
        }
    }
    let missing = members.iter().filter(|one| !seen.contains(&one.folder));
    wrong.extend(missing.map(|one| format!("{} is not on the map; add a line for it", one.folder)));
    wrong
        .iter()
        .map(|text| format!("ARCHITECTURE.md: {text}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# A\n\n```\ncommon/             all\n  units             P  time,\n                       bytes\n  \
                        gone, report      P  charts\n  units                again\nweb/ testkit/     pages\n```\n\n\
                        ```\nno/\n```\n";

    fn member(folder: &str, pure: bool) -> Member {
        Member {
            folder: folder.to_owned(),
            pure,
            ..Member::default()
        }
    }

    #[test]
    fn reports_differences_between_map_and_workspace() {
        let members = [
            member("common/units", true),
            member("common/report", false),
            member("common/random", true),
            member("testkit", false),
        ];
        let wrong = wrong_places(PAGE, &members, |path| path != Path::new("common/gone"));
        assert_eq!(
            wrong,
            [
                "ARCHITECTURE.md: the map names common/gone, which does not exist",
                "ARCHITECTURE.md: remove P from common/report: its manifest does not say `pure = true`",
                "ARCHITECTURE.md: P is missing behind common/units: its manifest says `pure = true`",
                "ARCHITECTURE.md: the map names common/units twice; keep one line",
                "ARCHITECTURE.md: common/random is not on the map; add a line for it",
            ]
        );
    }
}
