//! `-o custom-columns=`: custom columns, each a heading and a path, in kubectl's notation.

use serde_json::Value;

use crate::jsonpath::{self, EvaluationError, Path};
use crate::table::{Cell, Column, Look};

/// Parsed columns.
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
    /// The table's columns.
    pub fn columns(&self) -> Vec<Column> {
        let columns = self.0.iter();
        columns
            .map(|(heading, _)| Column::new(heading).look(Look::Plain))
            .collect()
    }

    /// The cells of one object, as kubectl prints them: a missing value is `<none>`, and null is
    /// `<nil>`.
    ///
    /// # Errors
    /// An index or filter cannot be applied to the value.
    pub fn row(&self, value: &Value) -> Result<Vec<Cell>, EvaluationError> {
        let cell = |path: &Path| {
            let found = path.find(value, value)?;
            if found.is_empty() {
                return Ok(Cell::new("<none>"));
            }
            let mut text = String::new();
            for (index, found) in found.into_iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                match found {
                    Value::Null => text.push_str("<nil>"),
                    found => jsonpath::print(found, &mut text),
                }
            }
            Ok(Cell::new(&text))
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
        let columns = "NAME:metadata.name,NONE:.x,NIL:.null,BLANK:.blank,ALL:.list[*]";
        let columns: Columns = columns.parse().unwrap();
        assert_eq!(columns.columns().len(), 5);
        let object = json!({"metadata": {"name": "web.1"}, "null": null, "blank": "", "list": [1, "b\u{1b}", null]});
        let row = columns.row(&object).unwrap().into_iter();
        let texts: Vec<_> = row.map(|cell| cell.text).collect();
        assert_eq!(texts, ["web.1", "<none>", "<nil>", "", "1,b^[,<nil>"]);
        // As in kubectl, an index out of an array's bounds is an error.
        for (columns, is_error) in [
            ("A:.list[1]", false),
            ("A:.list[3]", true),
            ("A:.x[0]", false),
        ] {
            let columns: Columns = columns.parse().unwrap();
            assert_eq!(columns.row(&object).is_err(), is_error);
        }
        for text in ["", "NAME", "NAME:", ":x", "A:.b,,"] {
            assert!(text.parse::<Columns>().is_err(), "{text}");
        }
    }
}
