//! The map in ARCHITECTURE.md: it names every crate of the workspace once, says which are pure,
//! and names no folder that is not there.

use std::collections::BTreeSet;
use std::path::Path;

use crate::workspace::Member;

/// A folder that the map names.
struct Place {
    /// From the root of the workspace: `server/engine`, or `web`.
    folder: String,
    /// Whether the map marks it as pure.
    pure: bool,
}

/// What the first fenced block of a page names. A line that is not indented names top folders, each
/// with a slash at its end; a line indented by two spaces names folders in the last of those, with
/// commas between them; `P` behind the names marks pure crates. Other lines only describe.
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

/// Where the map on `page`, the text of ARCHITECTURE.md, differs from the workspace. `exists` says
/// whether a path from the root of the workspace is there.
pub fn wrong_places(page: &str, members: &[Member], exists: impl Fn(&Path) -> bool) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for Place { folder, pure } in places(page) {
        if !exists(Path::new(&folder)) {
            wrong.push(format!("the map names {folder}, which is not there"));
        }
        if let Some(member) = members.iter().find(|member| member.folder == folder)
            && member.pure != pure
        {
            let (mark, says) = match member.pure {
                true => ("P is missing behind", "says"),
                false => ("take P from", "does not say"),
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
    fn a_map_that_differs_from_the_workspace_is_found() {
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
                "ARCHITECTURE.md: the map names common/gone, which is not there",
                "ARCHITECTURE.md: take P from common/report: its manifest does not say `pure = true`",
                "ARCHITECTURE.md: P is missing behind common/units: its manifest says `pure = true`",
                "ARCHITECTURE.md: the map names common/units twice; keep one line",
                "ARCHITECTURE.md: common/random is not on the map; add a line for it",
            ]
        );
    }
}
