//! Text tables: aligned columns, two spaces between them, no borders, no trailing spaces.

use crate::{
    output::{Colour, Output},
    text::{columns, plain},
};

#[derive(Debug, Clone)]
pub struct Cell {
    text: String,
    colour: Option<Colour>,
}

impl Cell {
    pub fn painted(text: impl Into<String>, colour: Colour) -> Self {
        Self { colour: Some(colour), ..Self::from(text.into()) }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        let text = if text.is_empty() { "-".to_owned() } else { plain(&text) };
        Self { text, colour: None }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub fn new<const N: usize>(heads: [&str; N]) -> Self {
        Self { rows: vec![heads.iter().map(|head| Cell::painted(*head, Colour::Dim)).collect()] }
    }

    pub fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        self.rows.push(cells.into());
    }

    pub fn render(&self, output: Output) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(columns_of).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            for (column, cell) in row.iter().enumerate() {
                let painted =
                    cell.colour.map_or_else(|| cell.text.clone(), |colour| output.paint(colour, &cell.text));
                text.push_str(&painted);
                if column + 1 < row.len() {
                    text.push_str(&" ".repeat(widths[column] - columns_of(cell) + 2));
                }
            }
            text.push('\n');
        }
        text
    }
}

fn columns_of(cell: &Cell) -> usize {
    columns(&cell.text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(["NAME", "STATUS", "AGE"]);
        table.row(["web".into(), Cell::painted("running", Colour::Green), "3m".into()]);
        table.row(["a\u{1b}]0;t\u{7}longer-né".into(), "".into(), "12d".into()]);
        table.row(["漢字 ne\u{301}".into(), "👩\u{200d}👩\u{200d}👧".into(), "1s".into()]);
        table
    }

    #[test]
    fn columns_are_aligned() {
        insta::assert_snapshot!(table().render(Output { json: false, colour: false }), @r"
        NAME        STATUS   AGE
        web         running  3m
        alonger-né  -        12d
        漢字 né     👩‍👩‍👧       1s
        ");
    }

    #[test]
    fn colours_do_not_count_as_width() {
        let painted = table().render(Output { json: false, colour: true });
        assert!(painted.contains("web         \u{1b}[32mrunning\u{1b}[0m  3m\n"), "{painted:?}");
    }
}
