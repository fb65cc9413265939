//! A parser of regular expressions that accepts what RE2 accepts, and states the error in the words
//! of Go otherwise.

use std::iter::Peekable;
use std::str::Chars;

/// Maximum depth of groups.
const DEPTH_MAX: u32 = 50;
/// Maximum characters of a repetition in braces.
const REPETITION_LEN_MAX: usize = 12;
/// Maximum characters of a class that become alternatives.
const CLASS_MAX: usize = 8;

/// A part of a regular expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Char(char),
    Any,
    Start,
    End,
    Class(Vec<char>),
    Sequence(Vec<Node>),
    Alternatives(Vec<Node>),
    Repeat(Box<Node>, u32, Option<u32>),
    /// A part that a filter has nothing like.
    Other(String),
}

/// Parses a regular expression. Returns whether upper and lower case are the same, too.
pub(super) fn parse(text: &str) -> Result<(Node, bool), String> {
    let mut parser = Parser {
        rest: text.chars().peekable(),
        depth: 0,
        is_any_case: false,
    };
    let node = parser.alternatives()?;
    if parser.rest.peek().is_some() {
        return Err(format!("unexpected ): `{text}`"));
    }
    Ok((node, parser.is_any_case))
}

struct Parser<'a> {
    rest: Peekable<Chars<'a>>,
    depth: u32,
    is_any_case: bool,
}

impl Parser<'_> {
    fn alternatives(&mut self) -> Result<Node, String> {
        let mut all = vec![self.sequence()?];
        while self.rest.next_if_eq(&'|').is_some() {
            all.push(self.sequence()?);
        }
        Ok(Node::Alternatives(all))
    }

    fn sequence(&mut self) -> Result<Node, String> {
        let mut nodes: Vec<Node> = Vec::new();
        let mut repeated: Option<String> = None;
        while let Some(&next) = self.rest.peek() {
            if next == '|' || next == ')' {
                break;
            }
            if let Some((text, min, max)) = self.repetition() {
                if let Some(before) = repeated {
                    return Err(format!(
                        "invalid nested repetition operator: `{before}{text}`"
                    ));
                }
                if min.max(max.unwrap_or(0)) > 1000 || max.is_some_and(|max| max < min) {
                    return Err(format!("invalid repeat count: `{text}`"));
                }
                let Some(node) = nodes.pop() else {
                    return Err(format!("missing argument to repetition operator: `{text}`"));
                };
                nodes.push(Node::Repeat(Box::new(node), min, max));
                // A lazy repetition matches the same texts.
                self.rest.next_if_eq(&'?');
                repeated = Some(text);
                continue;
            }
            repeated = None;
            nodes.extend(self.atom()?);
        }
        Ok(Node::Sequence(nodes))
    }

    /// Reads a repetition. Braces without numbers are texts.
    fn repetition(&mut self) -> Option<(String, u32, Option<u32>)> {
        let (min, max) = match *self.rest.peek()? {
            '*' => (0, None),
            '+' => (1, None),
            '?' => (0, Some(1)),
            '{' => {
                // The longest is `{1000,1000}`; a longer text costs no more.
                let ahead = self.rest.clone().take(REPETITION_LEN_MAX);
                let text: String = ahead.take_while(|c| *c != '}').collect();
                let digits = text.strip_prefix('{')?;
                let (min, max) = match digits.split_once(',') {
                    Some((min, "")) => (min, None),
                    Some((min, max)) => (min, Some(max.parse().ok()?)),
                    None => (digits, Some(digits.parse().ok()?)),
                };
                let min = min.parse().ok()?;
                let len = text.chars().count();
                self.rest.clone().nth(len).filter(|c| *c == '}')?;
                self.rest.nth(len);
                return Some((format!("{text}}}"), min, max));
            }
            _ => return None,
        };
        let text = self.rest.next()?.to_string();
        Some((text, min, max))
    }

    /// Reads what a repetition can follow. Flags have no node.
    fn atom(&mut self) -> Result<Option<Node>, String> {
        Ok(Some(match self.rest.next() {
            Some('.') => Node::Any,
            Some('^') => Node::Start,
            Some('$') => Node::End,
            Some('[') => self.class()?,
            Some('(') => return self.group(),
            Some('\\') => self.escape()?,
            Some(character) => Node::Char(character),
            None => return Ok(None),
        }))
    }

    fn group(&mut self) -> Result<Option<Node>, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err("expression nests too deeply".to_owned());
        }
        if self.rest.next_if_eq(&'?').is_some() {
            let syntax =
                |read: &str| Err(format!("invalid or unsupported Perl syntax: `(?{read}`"));
            let mut read = String::new();
            loop {
                match self.rest.next() {
                    Some(':') if is_flags(&read) => break,
                    Some(')') if is_flags(&read) && !read.is_empty() => {
                        self.note_flags(&read);
                        self.depth -= 1;
                        return Ok(None);
                    }
                    Some('>') if is_group_name(&read) => {
                        read.clear();
                        break;
                    }
                    Some(character) => {
                        read.push(character);
                        if matches!(read.as_str(), "=" | "!" | "<=" | "<!") {
                            return syntax(&read);
                        }
                    }
                    None => return syntax(&read),
                }
            }
            self.note_flags(&read);
        }
        let node = self.alternatives()?;
        if self.rest.next_if_eq(&')').is_none() {
            return Err("missing closing )".to_owned());
        }
        self.depth -= 1;
        Ok(Some(node))
    }

    /// Flags other than `i` do not change what the accepted nodes match.
    fn note_flags(&mut self, flags: &str) {
        let set = flags.split('-').next().unwrap_or_default();
        self.is_any_case |= set.contains('i');
    }

    fn escape(&mut self) -> Result<Node, String> {
        let Some(character) = self.rest.next() else {
            return Err("trailing backslash at end of expression".to_owned());
        };
        Ok(match character {
            'A' => Node::Start,
            'z' => Node::End,
            'a' => Node::Char('\u{7}'),
            'f' => Node::Char('\u{c}'),
            'n' => Node::Char('\n'),
            'r' => Node::Char('\r'),
            't' => Node::Char('\t'),
            'v' => Node::Char('\u{b}'),
            'd'
            | 'D'
            | 's'
            | 'S'
            | 'w'
            | 'W'
            | 'b'
            | 'B'
            | 'C'
            | 'Q'
            | 'E'
            | 'p'
            | 'P'
            | 'x'
            | '0'..='7' => Node::Other(format!("\\{character}")),
            other if other.is_ascii_alphanumeric() || !other.is_ascii() => {
                return Err(format!("invalid escape sequence: `\\{other}`"));
            }
            other => Node::Char(other),
        })
    }

    fn class(&mut self) -> Result<Node, String> {
        let is_negated = self.rest.next_if_eq(&'^').is_some();
        let mut characters: Vec<char> = Vec::new();
        let mut other = is_negated.then(|| "a class of all but some characters".to_owned());
        let mut is_first = true;
        loop {
            let low = match self.rest.next() {
                None => return Err("missing closing ]".to_owned()),
                Some(']') if !is_first => break,
                Some('[') if self.rest.peek() == Some(&':') => {
                    let name = self.rest.by_ref().take_while(|c| *c != ']').count();
                    other = Some(format!("a class of a class ({name} characters)"));
                    is_first = false;
                    continue;
                }
                Some('\\') => match self.escape()? {
                    Node::Char(character) => character,
                    node => {
                        other = Some(format!("{node:?}"));
                        is_first = false;
                        continue;
                    }
                },
                Some(character) => character,
            };
            is_first = false;
            let mut ahead = self.rest.clone();
            let is_range = ahead.next() == Some('-') && !matches!(ahead.next(), None | Some(']'));
            if !is_range {
                characters.push(low);
                continue;
            }
            self.rest.next();
            let high = match self.rest.next() {
                Some('\\') => match self.escape()? {
                    Node::Char(character) => character,
                    _ => low,
                },
                Some(character) => character,
                None => return Err("missing closing ]".to_owned()),
            };
            if high < low {
                return Err(format!("invalid character class range: `{low}-{high}`"));
            }
            characters.extend((low..=high).take(CLASS_MAX + 1));
        }
        Ok(match other {
            Some(what) => Node::Other(what),
            None if characters.len() > CLASS_MAX => Node::Other("a large class".to_owned()),
            None => Node::Class(characters),
        })
    }
}

fn is_flags(text: &str) -> bool {
    text.chars()
        .all(|c| matches!(c, 'i' | 'm' | 's' | 'U' | '-'))
}

fn is_group_name(text: &str) -> bool {
    let name = text.strip_prefix("P<").or_else(|| text.strip_prefix('<'));
    name.is_some_and(|name| {
        !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}
