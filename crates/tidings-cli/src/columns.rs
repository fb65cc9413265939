//! `-o custom-columns=`: custom columns, each a heading and a path, in kubectl's notation.

use serde_json::Value;

use crate::jsonpath::{self, Path};
use crate::text::Cell;

/// Columns that were understood.
///
/// ```
/// use tidings_cli::columns::Columns;
///
/// let columns: Columns = "NAME:.metadata.name,REASON:.reason".parse()?;
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Columns(Vec<(String, Path)>);

impl std::str::FromStr for Columns {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let column = |part: &str| {
            let (heading, path) = part
                .split_once(':')
                .filter(|(heading, path)| !heading.is_empty() && !path.is_empty())
                .ok_or_else(|| {
                    format!("expected HEADING:.path, such as NAME:.metadata.name, not {part:?}")
                })?;
            Ok((heading.to_owned(), path.parse()?))
        };
        text.split(',')
            .map(column)
            .collect::<Result<_, String>>()
            .map(Self)
    }
}

impl Columns {
    /// The headings.
    pub fn headings(&self) -> Vec<Cell> {
        self.0
            .iter()
            .map(|(heading, _)| Cell::new(heading))
            .collect()
    }

    /// The cells of one object; what is not there is `<none>`.
    pub fn row(&self, value: &Value) -> Vec<Cell> {
        let cell = |path: &Path| {
            let mut text = String::new();
            for (index, found) in path.find(value, value).into_iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                jsonpath::print(found, &mut text);
            }
            Cell::new(if text.is_empty() { "<none>" } else { &text })
        };
        self.0.iter().map(|(_, path)| cell(path)).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns() {
        let columns: Columns = "NAME:metadata.name,NONE:.x,ALL:.list[*]".parse().unwrap();
        let texts = |cells: Vec<Cell>| cells.into_iter().map(|cell| cell.text).collect::<Vec<_>>();
        assert_eq!(texts(columns.headings()), ["NAME", "NONE", "ALL"]);
        let object = json!({"metadata": {"name": "web.1"}, "list": [1, "b\u{1b}"]});
        assert_eq!(texts(columns.row(&object)), ["web.1", "<none>", "1,b^["]);
        for text in ["", "NAME", "NAME:", ":x", "A:.b,,"] {
            assert!(text.parse::<Columns>().is_err(), "{text}");
        }
    }
}
