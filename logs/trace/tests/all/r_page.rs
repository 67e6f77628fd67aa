//! The page on R reads columns that the tables have.

use headlong_trace::schemas;

#[test]
fn columns_of_the_r_page_exist() {
    let page = include_str!("../../../../docs/lab/r.md");
    let reads = page.lines().filter_map(|line| {
        let (_, rest) = line.split_once("read_numbers(\"tables/")?;
        let (table, rest) = rest.split_once(".parquet\", c(\"")?;
        let (columns, _) = rest.split_once("\"))")?;
        Some((table, columns.split("\", \"").collect::<Vec<_>>()))
    });
    let mut count = 0;
    for (table, columns) in reads {
        let schema = schemas::ALL.iter().find(|schema| schema.name == table);
        let schema = schema.unwrap_or_else(|| panic!("there is no table {table}"));
        for name in columns {
            let is_known = schema.columns.iter().any(|column| column.name == name);
            assert!(is_known, "{table} has no column {name}");
            count += 1;
        }
    }
    assert_eq!(count, 7, "the page reads columns of three tables");
}
