//! Bodies of webhooks by templates of Jinja.
//!
//! Values are written as JSON: `{"text": {{ message }}}` is the text with its quotes. So no text of
//! an event changes the form of a body. Fields that an event does not have are empty, and fields
//! that no event has are errors of the template.
//!
//! Invariants: a template is compiled once, and has rendered a sample of each kind of record
//! before it is used. Rendering is bounded in steps and in bytes, and its result is JSON.

mod fields;

use std::fmt::{self, Write as _};
use std::io;
use std::sync::Arc;

use minijinja::{Environment, UndefinedBehavior};
use serde::de::IgnoredAny;

use super::super::{Record, Source};

/// Maximum bytes of a template.
const TEMPLATE_LEN_MAX: usize = 64 << 10;
/// Maximum steps of a rendering.
const STEPS_MAX: u64 = 100_000;
/// Maximum depth of expressions and calls.
const DEPTH_MAX: usize = 64;
/// Maximum bytes of a body: as much as a batch of records.
const BODY_LEN_MAX: usize = 2 << 20;
/// The name of the template. Its suffix chooses how values are written.
const NAME: &str = "body.json";

/// A compiled template.
#[derive(Clone)]
pub struct Template(Arc<Environment<'static>>);

/// Why a text is no template of bodies.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum TemplateError {
    /// It is longer than accepted.
    #[error("the body has more than {TEMPLATE_LEN_MAX} bytes")]
    TooLong,
    /// Its syntax is wrong.
    #[error("line {line} of the body: {why}")]
    Syntax {
        /// The line in the template, from 1.
        line: usize,
        /// The mistake.
        why: String,
    },
    /// It names a field that no record has.
    #[error("the body has {name}, which is no field: {accepted}")]
    Field {
        /// The field as the template has it.
        name: String,
        /// The fields beside it.
        accepted: String,
    },
    /// A sample of a kind of records cannot be rendered.
    #[error("the body of a sample, {sample}: {why}")]
    Sample {
        /// The kind.
        sample: &'static str,
        /// The mistake.
        why: String,
    },
}

impl fmt::Debug for Template {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Template").finish_non_exhaustive()
    }
}

/// Templates are equal if their texts are.
impl PartialEq for Template {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for Template {}

impl Template {
    /// Compiles a template, and renders a sample of each kind of record.
    ///
    /// # Errors
    /// [`TemplateError`].
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        if text.len() > TEMPLATE_LEN_MAX {
            return Err(TemplateError::TooLong);
        }
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_fuel(Some(STEPS_MAX));
        environment.set_recursion_limit(DEPTH_MAX);
        let added = environment.add_template_owned(NAME, text.to_owned());
        added.map_err(|error| TemplateError::Syntax {
            line: error.line().unwrap_or(1),
            why: said(&error),
        })?;
        if let Ok(template) = environment.get_template(NAME) {
            let mut names: Vec<_> = template.undeclared_variables(true).into_iter().collect();
            names.sort();
            // Functions such as `range` are no fields.
            let is_function = |name: &str| environment.globals().any(|(it, _)| it == name);
            for name in names.into_iter().filter(|name| !is_function(name)) {
                if let Err(accepted) = fields::check(&name) {
                    return Err(TemplateError::Field { name, accepted });
                }
            }
        }
        let template = Self(Arc::new(environment));
        let source = Source {
            cluster: "sample".to_owned(),
            uid: "sample-uid".to_owned(),
        };
        for (sample, record) in fields::samples() {
            let rendered = template.render(&source, &record);
            rendered.map_err(|why| TemplateError::Sample { sample, why })?;
        }
        Ok(template)
    }

    /// Returns the text of which it was compiled.
    fn text(&self) -> Option<String> {
        let template = self.0.get_template(NAME).ok()?;
        Some(template.source().to_owned())
    }

    /// Returns the body of a record, or why there is none.
    pub(super) fn render(&self, source: &Source, record: &Record) -> Result<Vec<u8>, String> {
        let template = self.0.get_template(NAME).map_err(|error| said(&error))?;
        let mut body = Bounded(Vec::new());
        let rendered = template.render_captured_to(fields::of(source, record), &mut body);
        rendered.map_err(|error| match error.line() {
            Some(line) => format!("line {line} of the body: {}", said(&error)),
            None => said(&error),
        })?;
        let json = serde_json::from_slice::<IgnoredAny>(&body.0);
        json.map_err(|error| {
            format!("the body is no JSON: {error}; values have their quotes already")
        })?;
        Ok(body.0)
    }
}

/// The words of an error and of its causes.
fn said(error: &minijinja::Error) -> String {
    let mut text = match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    };
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        // Writing to a text cannot fail.
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}

/// A body that is written, up to its maximum.
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > BODY_LEN_MAX {
            let why = format!("the body has more than {BODY_LEN_MAX} bytes");
            return Err(io::Error::other(why));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
