//! Tables for people: columns as wide as their widest cell, numbers to the right.

/// The table as text, a line for each row. All rows have as many cells as there are titles.
pub(super) fn table(titles: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
        widest.max(titles.get(column).map_or(0, |title| title.len()))
    };
    let widths: Vec<usize> = (0..titles.len()).map(width).collect();
    let is_number = |column: usize| {
        let mut cells = rows
            .iter()
            .filter_map(|row| row.get(column))
            .filter(|cell| *cell != "-");
        cells.all(|cell| cell.starts_with(|c: char| c.is_ascii_digit()))
    };
    let numeric: Vec<bool> = (0..titles.len()).map(is_number).collect();
    let titles: Vec<String> = titles.iter().map(|title| (*title).to_owned()).collect();
    let mut text = String::new();
    for row in std::iter::once(&titles).chain(rows) {
        let mut line = String::new();
        for ((cell, width), numeric) in row.iter().zip(&widths).zip(&numeric) {
            let gap = if line.is_empty() { "" } else { "  " };
            let padding = " ".repeat(width.saturating_sub(cell.chars().count()));
            match numeric {
                true => line.extend([gap, &padding, cell]),
                false => line.extend([gap, cell, &padding]),
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A length of time, for people.
pub(super) fn span(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms}ms"),
        1_000..60_000 => format!("{}.{}s", ms / 1_000, ms % 1_000 / 100),
        _ => humantime::format_duration(std::time::Duration::from_secs(ms / 1_000))
            .to_string()
            .replace(' ', ""),
    }
}

/// A number of bytes, for people.
pub(super) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (count as f64, 0);
    while value >= 1_024.0 && unit + 1 < UNITS.len() {
        value /= 1_024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{count} B"),
        _ => format!("{value:.1} {}", UNITS.get(unit).unwrap_or(&"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_numbers_stand_to_the_right() {
        let rows = [
            vec!["orders".to_owned(), "5".to_owned(), "-".to_owned()],
            vec!["é".to_owned(), "1200".to_owned(), "yes".to_owned()],
        ];
        let text = table(&["TOPIC", "LAG", "PAUSED"], &rows);
        assert_eq!(text, "TOPIC    LAG  PAUSED\norders     5  -\né       1200  yes\n");
        assert_eq!(table(&["A", "B"], &[]), "A  B\n");
    }

    #[test]
    fn amounts_are_short() {
        assert_eq!(
            (span(7), span(12_345), span(125_000)),
            ("7ms".into(), "12.3s".into(), "2m5s".into())
        );
        assert_eq!(
            (bytes(7), bytes(1_536), bytes(3 << 30)),
            ("7 B".into(), "1.5 KiB".into(), "3.0 GiB".into())
        );
    }
}
