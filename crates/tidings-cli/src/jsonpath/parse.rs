//! The parser of templates and paths.

use serde_json::Value;

use super::syntax::{Comparison, Node, Operand, Path, Step};

/// Maximum nesting of ranges, unions and filters.
const DEPTH_MAX: usize = 32;

pub(super) fn template(text: &str) -> Result<Vec<Node>, String> {
    let mut parser = Parser::new(text);
    let (nodes, ended) = parser.nodes(0)?;
    if ended {
        return Err(parser.error("{end} without {range …} before it"));
    }
    Ok(nodes)
}

pub(super) fn relaxed_path(text: &str) -> Result<Path, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("expected a path such as .metadata.name".to_owned());
    }
    let inner = match text.strip_prefix('{') {
        Some(rest) => rest
            .strip_suffix('}')
            .ok_or_else(|| format!("{text:?}: {{ without }}"))?,
        None => text,
    };
    let dotted = if inner.starts_with(['.', '[', '$', '@']) {
        inner.to_owned()
    } else {
        format!(".{inner}")
    };
    let mut parser = Parser::new(&dotted);
    let path = parser.path(0)?;
    if parser.rest().is_empty() {
        Ok(path)
    } else {
        Err(parser.error("unexpected"))
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take(&mut self, wanted: &str) -> bool {
        let is_there = self.rest().starts_with(wanted);
        if is_there {
            self.at += wanted.len();
        }
        is_there
    }

    fn expect(&mut self, wanted: &str) -> Result<(), String> {
        if self.take(wanted) {
            Ok(())
        } else {
            Err(self.error(&format!("expected {wanted:?}")))
        }
    }

    fn blanks(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn error(&self, what: &str) -> String {
        let here: String = self.rest().chars().take(20).collect();
        if here.is_empty() {
            format!("{what} at the end of {:?}", self.text)
        } else {
            format!("{what} at {here:?}")
        }
    }

    fn deeper(&self, depth: usize) -> Result<usize, String> {
        if depth < DEPTH_MAX {
            Ok(depth + 1)
        } else {
            Err(self.error("nested too deep"))
        }
    }

    /// Parses nodes up to the end, or through an `{end}`; returns whether there was one.
    fn nodes(&mut self, depth: usize) -> Result<(Vec<Node>, bool), String> {
        let mut nodes = Vec::new();
        while !self.rest().is_empty() {
            let text_len = self.rest().find('{').unwrap_or(self.rest().len());
            if text_len > 0 {
                nodes.push(Node::Text(
                    self.rest().get(..text_len).unwrap_or_default().to_owned(),
                ));
                self.at += text_len;
                continue;
            }
            self.expect("{")?;
            if self.inside(depth, &mut nodes)? {
                return Ok((nodes, true));
            }
        }
        Ok((nodes, false))
    }

    /// Parses the content of braces; returns whether it was `end`.
    fn inside(&mut self, depth: usize, nodes: &mut Vec<Node>) -> Result<bool, String> {
        loop {
            self.blanks();
            match self.peek() {
                Some('}') => {
                    self.at += 1;
                    return Ok(false);
                }
                Some('"' | '\'') => nodes.push(Node::Text(self.quoted()?)),
                Some('.' | '[' | '$' | '@' | '*') => nodes.push(Node::Path(self.path(depth)?)),
                Some(_) if self.word("end") => {
                    self.blanks();
                    self.expect("}")?;
                    return Ok(true);
                }
                Some(_) if self.word("range") => {
                    self.blanks();
                    let path = self.path(depth)?;
                    self.blanks();
                    self.expect("}")?;
                    let (inner, ended) = self.nodes(self.deeper(depth)?)?;
                    if !ended {
                        return Err("{range …} without a following {end}".to_owned());
                    }
                    nodes.push(Node::Range(path, inner));
                    return Ok(false);
                }
                Some(_) => {
                    return Err(self.error(
                        "expected a path such as .metadata.name, quoted text, range or end",
                    ));
                }
                None => return Err(self.error("{ without }")),
            }
        }
    }

    fn word(&mut self, word: &str) -> bool {
        let behind = self.rest().strip_prefix(word);
        let is_there =
            behind.is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_alphanumeric()));
        if is_there {
            self.at += word.len();
        }
        is_there
    }

    fn path(&mut self, depth: usize) -> Result<Path, String> {
        let mut path = Path {
            from_root: self.take("$"),
            steps: Vec::new(),
        };
        if !path.from_root {
            self.take("@");
        }
        loop {
            if self.take("..") {
                path.steps.push(Step::Descend);
                if self.peek() != Some('[') {
                    path.steps.push(self.name()?);
                }
            } else if self.take(".") {
                // A dot alone is the value itself; before a bracket it has no meaning.
                if self
                    .peek()
                    .is_some_and(|next| is_name(next) || next == '*' || next == '\\')
                {
                    path.steps.push(self.name()?);
                }
            } else if self.peek() == Some('*') {
                path.steps.push(self.name()?);
            } else if self.take("[") {
                path.steps.push(self.bracket(depth)?);
            } else {
                return Ok(path);
            }
        }
    }

    fn name(&mut self) -> Result<Step, String> {
        if self.take("*") {
            return Ok(Step::Wildcard);
        }
        let mut name = String::new();
        loop {
            let mut next = self.rest().chars();
            match next.next() {
                Some('\\') => match next.next() {
                    Some(escaped) => {
                        name.push(escaped);
                        self.at += 1 + escaped.len_utf8();
                    }
                    None => return Err(self.error("nothing follows \\")),
                },
                Some(character) if is_name(character) => {
                    name.push(character);
                    self.at += character.len_utf8();
                }
                _ if name.is_empty() => return Err(self.error("expected a field's name")),
                _ => return Ok(Step::Field(name)),
            }
        }
    }

    /// Parses the rest of a `[`, through its `]`.
    fn bracket(&mut self, depth: usize) -> Result<Step, String> {
        let depth = self.deeper(depth)?;
        self.blanks();
        if self.take("?") {
            self.blanks();
            self.expect("(")?;
            let filter = self.filter(depth)?;
            self.blanks();
            self.expect(")")?;
            self.blanks();
            self.expect("]")?;
            return Ok(filter);
        }
        let mut paths = Vec::new();
        loop {
            self.blanks();
            paths.push(Path {
                from_root: false,
                steps: self.subscript()?,
            });
            self.blanks();
            if self.take("]") {
                break;
            }
            if !self.take(",") {
                return Err(self.error("expected \",\" or \"]\""));
            }
        }
        // A single step needs no union.
        match paths.as_mut_slice() {
            [Path { steps, .. }] if steps.len() == 1 => {
                steps.pop().ok_or_else(|| self.error("expected a step"))
            }
            _ => Ok(Step::Union(paths)),
        }
    }

    fn subscript(&mut self) -> Result<Vec<Step>, String> {
        match self.peek() {
            Some('*') => {
                self.at += 1;
                Ok(vec![Step::Wildcard])
            }
            Some('"' | '\'') => {
                // kubectl reads a quoted name as a path: ['metadata.name'] is two fields, ['a\.b']
                // one.
                let quoted = self.quoted()?;
                let mut inner = Parser::new(&quoted);
                let mut steps = vec![inner.name()?];
                while !inner.rest().is_empty() {
                    inner.expect(".")?;
                    steps.push(inner.name()?);
                }
                Ok(steps)
            }
            _ => self.index().map(|step| vec![step]),
        }
    }

    fn index(&mut self) -> Result<Step, String> {
        let from = self.number()?;
        if !self.take(":") {
            return from
                .map(Step::Index)
                .ok_or_else(|| self.error("expected an index, a slice, *, a quoted name or ?(…)"));
        }
        let to = self.number()?;
        let step = if self.take(":") { self.number()? } else { None };
        let step = usize::try_from(step.unwrap_or(1))
            .ok()
            .filter(|step| *step > 0)
            .ok_or_else(|| self.error("a slice's step must be above zero"))?;
        Ok(Step::Slice { from, to, step })
    }

    fn number(&mut self) -> Result<Option<i64>, String> {
        let digits = self
            .rest()
            .char_indices()
            .find(|(at, next)| !(next.is_ascii_digit() || *at == 0 && *next == '-'))
            .map_or(self.rest().len(), |(at, _)| at);
        let text = self.rest().get(..digits).unwrap_or_default();
        if text.is_empty() {
            return Ok(None);
        }
        let number = text
            .parse()
            .map_err(|_| self.error("expected a whole number"))?;
        self.at += digits;
        Ok(Some(number))
    }

    fn filter(&mut self, depth: usize) -> Result<Step, String> {
        let left = self.operand(depth)?;
        self.blanks();
        let comparison = [
            ("==", Comparison::Equal),
            ("!=", Comparison::NotEqual),
            ("<=", Comparison::LessOrEqual),
            (">=", Comparison::GreaterOrEqual),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ]
        .into_iter()
        .find_map(|(sign, comparison)| self.take(sign).then_some(comparison));
        match comparison {
            None => Ok(Step::Filter(left, None)),
            Some(comparison) => {
                let right = self.operand(depth)?;
                Ok(Step::Filter(left, Some((comparison, right))))
            }
        }
    }

    fn operand(&mut self, depth: usize) -> Result<Operand, String> {
        self.blanks();
        match self.peek() {
            Some('"' | '\'') => Ok(Operand::Literal(Value::String(self.quoted()?))),
            Some('@' | '$' | '.' | '[') => Ok(Operand::Path(self.path(depth)?)),
            _ if self.word("true") => Ok(Operand::Literal(Value::Bool(true))),
            _ if self.word("false") => Ok(Operand::Literal(Value::Bool(false))),
            _ => {
                let len = self
                    .rest()
                    .find(|next: char| !(next.is_ascii_digit() || "-+.eE".contains(next)))
                    .unwrap_or(self.rest().len());
                let number = self.rest().get(..len).unwrap_or_default();
                let number: serde_json::Number = serde_json::from_str(number).map_err(|_| {
                    self.error(
                        "expected a path such as @.type, a number, true, false or quoted text",
                    )
                })?;
                self.at += len;
                Ok(Operand::Literal(Value::Number(number)))
            }
        }
    }

    fn quoted(&mut self) -> Result<String, String> {
        let start = self.at;
        let Some(quote) = self.peek() else {
            return Err(self.error("expected quoted text"));
        };
        self.at += quote.len_utf8();
        let mut text = String::new();
        while let Some(character) = self.peek() {
            self.at += character.len_utf8();
            if character == quote {
                return Ok(text);
            }
            if character != '\\' {
                text.push(character);
                continue;
            }
            let Some(escaped) = self.peek() else {
                break;
            };
            self.at += escaped.len_utf8();
            match escaped {
                'n' => text.push('\n'),
                't' => text.push('\t'),
                'r' => text.push('\r'),
                '\\' | '"' | '\'' => text.push(escaped),
                other => {
                    // The backslash is kept for the inner path: ['a\.b'].
                    text.push('\\');
                    text.push(other);
                }
            }
        }
        self.at = start;
        Err(self.error("a quote that is not closed"))
    }
}

fn is_name(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '-' | '/')
}
