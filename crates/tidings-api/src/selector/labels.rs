//! Label selectors (`k8s.io/apimachinery/pkg/labels`).
//!
//! Requirements are `a=b`, `a==b`, `a!=b`, `a in (b,c)`, `a notin (b)`, `a`, `!a`, `a>1` and `a<1`,
//! joined by commas.

use std::collections::{BTreeMap, BTreeSet};

use tidings_core::validate::{check_label_value, check_qualified_name, go_quote};

use crate::bounded::BoundedList;

/// Maximum bytes of an error about values.
const REFUSED_BYTES_MAX: usize = 16 * 1024;

/// A parsed label selector; an empty one matches everything. Requirements are grouped by key, so
/// that each label is looked up once, however long the selector is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    keys: BTreeMap<String, Wanted>,
    /// Keys that an object's labels must have.
    needed: BTreeSet<String>,
}

/// The requirements on one key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Wanted {
    absent: bool,
    one_of: Option<BTreeSet<String>>,
    none_of: BTreeSet<String>,
    greater_than: Option<i64>,
    less_than: Option<i64>,
}

impl Wanted {
    fn add(&mut self, requirement: Requirement) {
        match requirement {
            // Any value is accepted.
            Requirement::Exists => {}
            Requirement::Absent => self.absent = true,
            Requirement::In(values) => match &mut self.one_of {
                None => self.one_of = Some(values),
                Some(one_of) => one_of.retain(|value| values.contains(value)),
            },
            Requirement::NotIn(values) => self.none_of.extend(values),
            Requirement::GreaterThan(bound) => {
                self.greater_than = self.greater_than.max(Some(bound));
            }
            Requirement::LessThan(bound) => {
                self.less_than = Some(self.less_than.map_or(bound, |other| other.min(bound)));
            }
        }
    }

    fn accepts(&self, value: &str) -> bool {
        let number = || value.parse::<i64>().ok();
        !self.absent
            && self
                .one_of
                .as_ref()
                .is_none_or(|values| values.contains(value))
            && !self.none_of.contains(value)
            && self.greater_than.is_none_or(|bound| number() > Some(bound))
            && self
                .less_than
                .is_none_or(|bound| number().is_some_and(|number| number < bound))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Requirement {
    Exists,
    Absent,
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    GreaterThan(i64),
    LessThan(i64),
}

impl LabelSelector {
    /// Reads a selector.
    ///
    /// # Errors
    ///
    /// A fragment that says what was found and expected, or which key or value is invalid.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser {
            tokens: tokens(text),
            at: 0,
        };
        let mut selector = Self::default();
        while parser.peek() != &Token::End {
            if let Token::Symbol(symbol) = parser.peek()
                && *symbol != "!"
            {
                return unexpected(parser.peek(), "!, identifier, or 'end of string'");
            }
            let (key, requirement) = parser
                .requirement()
                .map_err(|why| format!("unable to parse requirement: {why}"))?;
            if !matches!(requirement, Requirement::Absent | Requirement::NotIn(_)) {
                selector.needed.insert(key.clone());
            }
            selector.keys.entry(key).or_default().add(requirement);
            match parser.next() {
                Token::End => break,
                Token::Symbol(",") => match parser.peek() {
                    Token::Word(_) | Token::Symbol("!") => {}
                    found => return unexpected(found, "identifier after ','"),
                },
                found => return unexpected(&found, "',' or 'end of string'"),
            }
        }
        Ok(selector)
    }

    /// Whether the selector matches everything.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Whether the labels match. It visits at most one key more than there are labels: a required
    /// key that is missing ends the search, and all other requirements concern labels that are
    /// present.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.needed.iter().all(|key| labels.contains_key(key))
            && labels.iter().all(|(key, value)| {
                let wanted = self.keys.get(key);
                wanted.is_none_or(|wanted| wanted.accepts(value))
            })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Symbol(&'static str),
    End,
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Self::Word(word) => word,
            Self::Symbol(symbol) => symbol,
            Self::End => "",
        }
    }
}

fn unexpected<T>(found: &Token, expected: &str) -> Result<T, String> {
    let found = found.text();
    Err(format!("found '{found}', expected: {expected}"))
}

fn tokens(text: &str) -> Vec<Token> {
    const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", "<", ">", "(", ")", ","];
    let mut tokens = Vec::new();
    let blank = |character: char| matches!(character, ' ' | '\t' | '\r' | '\n');
    let mut rest = text.trim_start_matches(blank);
    while !rest.is_empty() {
        if let Some(symbol) = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol)) {
            tokens.push(Token::Symbol(symbol));
            rest = rest.get(symbol.len()..).unwrap_or_default();
        } else {
            let end = rest
                .find(|character: char| blank(character) || "=!<>(),".contains(character))
                .unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            tokens.push(Token::Word(word.into()));
            rest = after;
        }
        rest = rest.trim_start_matches(blank);
    }
    tokens
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).unwrap_or(&Token::End)
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    fn requirement(&mut self) -> Result<(String, Requirement), String> {
        if self.peek() == &Token::Symbol("!") {
            self.next();
            return Ok((self.key()?, Requirement::Absent));
        }
        let key = self.key()?;
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok((key, Requirement::Exists));
        }
        let requirement = match self.next() {
            Token::Symbol("=" | "==") => Requirement::In([self.only_value(&key)?].into()),
            Token::Symbol("!=") => Requirement::NotIn([self.only_value(&key)?].into()),
            Token::Symbol(">") => Requirement::GreaterThan(self.integer(&key)?),
            Token::Symbol("<") => Requirement::LessThan(self.integer(&key)?),
            Token::Word(word) if word == "in" => Requirement::In(self.values(&key)?),
            Token::Word(word) if word == "notin" => Requirement::NotIn(self.values(&key)?),
            found => return unexpected(&found, "in, notin, =, ==, !=, gt, lt"),
        };
        Ok((key, requirement))
    }

    fn key(&mut self) -> Result<String, String> {
        match self.next() {
            Token::Word(key) => {
                let complaints = check_qualified_name(&key);
                if complaints.is_empty() {
                    return Ok(key);
                }
                let (key, why) = (go_quote(&key), complaints.join("; "));
                Err(format!("<nil>: Invalid value: {key}: {why}"))
            }
            found => unexpected(&found, "identifier"),
        }
    }

    fn only_value(&mut self, key: &str) -> Result<String, String> {
        let value = self.exact_value()?;
        check_value(key, 0, &value).map_or(Ok(()), Err)?;
        Ok(value)
    }

    fn integer(&mut self, key: &str) -> Result<i64, String> {
        let value = self.exact_value()?;
        let integer = value.parse().map_err(|_| {
            let value = go_quote(&value);
            format!(
                "values[0]: Invalid value: {value}: for 'Gt', 'Lt' operators, the value must be an integer"
            )
        });
        let complaints = integer.clone().err().into_iter();
        join_errors(complaints.chain(check_value(key, 0, &value)))?;
        integer
    }

    /// Reads one value; a missing value is the empty one.
    fn exact_value(&mut self) -> Result<String, String> {
        match self.peek() {
            Token::End | Token::Symbol(",") => Ok(String::new()),
            _ => match self.next() {
                Token::Word(value) => Ok(value),
                found => unexpected(&found, "identifier"),
            },
        }
    }

    /// Reads a set of values in parentheses; a missing value is the empty one.
    fn values(&mut self, key: &str) -> Result<BTreeSet<String>, String> {
        match self.next() {
            Token::Symbol("(") => {}
            found => return Err(format!("found '{}' expected: '('", found.text())),
        }
        let mut values = BTreeSet::new();
        match self.peek() {
            Token::Symbol(")") => {
                self.next();
                values.insert(String::new());
                return Ok(values);
            }
            Token::Symbol(",") | Token::Word(_) => {}
            found => return unexpected(found, "',', ')' or identifier"),
        }
        loop {
            match self.next() {
                Token::Word(value) => {
                    values.insert(value);
                    match self.peek() {
                        Token::Symbol(",") => {}
                        Token::Symbol(")") => break,
                        found => return unexpected(found, "',' or ')'"),
                    }
                }
                Token::Symbol(",") => {
                    let next = self.peek();
                    if values.is_empty() || matches!(next, Token::Symbol("," | ")")) {
                        values.insert(String::new());
                    }
                    if next == &Token::Symbol(")") {
                        break;
                    }
                }
                found => return unexpected(&found, "',', or identifier"),
            }
        }
        self.next();
        let places = values.iter().enumerate();
        join_errors(places.filter_map(|(place, value)| check_value(key, place, value)))?;
        Ok(values)
    }
}

fn check_value(key: &str, place: usize, value: &str) -> Option<String> {
    let complaints = check_label_value(value);
    (!complaints.is_empty()).then(|| {
        let (value, why) = (go_quote(value), complaints.join("; "));
        format!("values[{place}][{key}]: Invalid value: {value}: {why}")
    })
}

/// One error with all complaints, if there are any.
fn join_errors(complaints: impl Iterator<Item = String>) -> Result<(), String> {
    let mut list = BoundedList::new(", ", REFUSED_BYTES_MAX);
    complaints.for_each(|complaint| list.push(complaint));
    match list.items() {
        0 => Ok(()),
        1 => Err(list.finish()),
        _ => Err(format!("[{}]", list.finish())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements() {
        let labels: BTreeMap<String, String> = [("app", "web"), ("tier", ""), ("n", "5")]
            .map(|(k, v)| (k.into(), v.into()))
            .into();
        for (selector, matches) in [
            ("", true),
            ("app", true),
            ("!app", false),
            ("absent", false),
            ("! absent", true),
            ("app=web", true),
            ("app == web, tier=", true),
            ("app!=web", false),
            ("absent!=web", true),
            ("app in (web, api)", true),
            ("app in (api)", false),
            ("app notin (api),absent notin (x)", true),
            ("tier in (,x)", true),
            ("n>4,n<6", true),
            ("n>4,n>2,n<6,n<9,n", true),
            ("n>4,n>5", false),
            ("n<4,n<9", false),
            ("app in (web,api),app in (web,x)", true),
            ("app in (web,api),app in (api)", false),
            ("app!=api,app!=web", false),
            ("app,!app", false),
            ("!absent,absent!=x", true),
            ("!absent,absent", false),
            ("n>5", false),
            ("app>1", false),
        ] {
            let parsed = LabelSelector::parse(selector).unwrap();
            assert_eq!(parsed.matches(&labels), matches, "{selector}");
        }
    }

    /// Each key that had to be looked up would cost one more comparison for every event of a list.
    #[test]
    fn a_long_selector_is_short_to_match() {
        let repeated = LabelSelector::parse(&vec!["a!=b"; 5000].join(",")).unwrap();
        assert_eq!(repeated, LabelSelector::parse("a!=b").unwrap());
        let same = LabelSelector::parse(&["a in (b,c)", "a>1"].repeat(2000).join(",")).unwrap();
        assert_eq!(same.keys.len(), 1);
    }

    #[test]
    fn what_is_not_accepted() {
        for selector in [
            "=a", "a=b c", "a in", "a in (b", "a,", ",", "a b", "!", "_a", "a=-", "a>x", "a in b",
            "a=b)", "a=(b)",
        ] {
            assert!(LabelSelector::parse(selector).is_err(), "{selector}");
        }
    }
}
