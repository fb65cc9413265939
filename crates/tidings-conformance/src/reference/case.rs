//! The cases of the suite: YAML files with templates and cases. A case has a few steps in a
//! namespace of its own. `reference/README.md` describes the form.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::protobuf;
use super::tree::Tree;
use crate::error::{Result as Judged, fail};

/// The file of intended differences.
pub(super) const EXPLANATIONS: &str = "explained.yaml";
/// A further file of intended differences, for an archive only.
pub(super) const EXPLANATIONS_OF_ARCHIVE: &str = "explained-archive.yaml";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    templates: BTreeMap<String, Tree>,
    cases: Vec<Case>,
}

/// Steps that belong together, in one namespace.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    #[serde(rename = "case")]
    pub(crate) name: String,
    /// Whether managed fields are compared too.
    #[serde(default)]
    pub(crate) managed_fields: bool,
    steps: Vec<Step>,
    /// The templates of the case's file.
    #[serde(skip)]
    templates: BTreeMap<String, Tree>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    name: Option<String>,
    send: Option<String>,
    kubectl: Option<Vec<String>>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    user: Option<String>,
    from: Option<String>,
    body: Option<Tree>,
    text: Option<String>,
    each: Option<Tree>,
    #[serde(default)]
    save: BTreeMap<String, String>,
    #[serde(default)]
    background: bool,
    lines: Option<String>,
}

/// A step that is complete except for the variables of its case.
#[derive(Debug)]
pub(crate) struct Action {
    /// The step's name in reports.
    pub(crate) name: String,
    pub(crate) what: What,
    /// Variables to set from the answer, each with its place there.
    pub(crate) save: BTreeMap<String, String>,
    /// Whether the answer is read only at the end of the case, while later steps run.
    pub(crate) background: bool,
}

#[derive(Debug)]
pub(crate) enum What {
    Send {
        method: String,
        path: String,
        headers: BTreeMap<String, String>,
        /// The user whose token is sent; without a token if empty.
        user: String,
        body: Content,
    },
    Kubectl {
        arguments: Vec<String>,
        input: Content,
        /// Only lines of the output with this text are compared.
        lines: Option<String>,
    },
}

impl What {
    /// Whether the step only reads events as they are now, which an archive can answer too.
    pub(crate) fn is_read(&self) -> bool {
        match self {
            Self::Send { method, path, .. } => {
                let of_events = path.starts_with("/api/v1/") || path.starts_with("/apis/events");
                let of_a_moment = !path.contains("watch") && !path.contains("resourceVersion");
                method == "GET" && of_events && path.contains("events") && of_a_moment
            }
            Self::Kubectl { arguments, .. } => {
                let verb = arguments.first().map_or("", String::as_str);
                let watches = |flag: &String| flag == "-w" || flag.starts_with("--watch");
                let reads = matches!(verb, "get" | "describe" | "events");
                reads && !arguments.iter().any(watches)
            }
        }
    }
}

/// The body of a request.
#[derive(Debug, Default)]
pub(crate) enum Content {
    #[default]
    None,
    Text(String),
    Object(Tree),
}

/// The values of the variables, which steps write as `{…}`.
pub(crate) type Variables = BTreeMap<String, Tree>;

/// Reads every `*.yaml` of a folder in the order of names, except the list of explanations.
pub(crate) fn read(folder: &Path) -> Judged<Vec<Case>> {
    let mut paths = Vec::new();
    let of_folder = |error| format!("{}: {error}", folder.display());
    for entry in std::fs::read_dir(folder).map_err(of_folder)? {
        let path = entry?.path();
        let is_other = [EXPLANATIONS, EXPLANATIONS_OF_ARCHIVE].map(|it| path.ends_with(it));
        if path.extension().is_some_and(|it| it == "yaml") && !is_other.contains(&true) {
            paths.push(path);
        }
    }
    paths.sort();
    let mut cases: Vec<Case> = Vec::new();
    for path in paths {
        let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = std::fs::read_to_string(&path).map_err(|error| wrong(&error))?;
        let file: File = serde_saphyr::from_str(&text).map_err(|error| wrong(&error))?;
        for mut case in file.cases {
            case.templates.clone_from(&file.templates);
            case.actions().map_err(|error| wrong(&error))?;
            if cases.iter().any(|known| known.name == case.name) {
                return fail(wrong(&format!("there are two cases {:?}", case.name)));
            }
            cases.push(case);
        }
    }
    if cases.is_empty() {
        let folder = folder.display();
        return fail(format!("{folder} holds no *.yaml with cases"));
    }
    Ok(cases)
}

impl Case {
    /// The `generateName` of every object in these steps.
    pub(crate) fn bases(actions: &[Action]) -> Vec<String> {
        let base = |action: &Action| match &action.what {
            What::Send {
                body: Content::Object(object),
                ..
            } => object
                .at("metadata.generateName")?
                .text()
                .map(str::to_owned),
            _ => None,
        };
        let mut bases: Vec<String> = actions.iter().filter_map(base).collect();
        bases.dedup();
        bases
    }

    pub(crate) fn needs_kubectl(&self) -> bool {
        self.steps.iter().any(|step| step.kubectl.is_some())
    }

    /// The case's steps in order, one for each variation.
    pub(crate) fn actions(&self) -> Result<Vec<Action>, String> {
        let mut actions = Vec::new();
        for step in &self.steps {
            for (label, value) in variations(step.each.as_ref())? {
                let action = self.action(step, label, value);
                actions.push(action.map_err(|message| format!("{:?}: {message}", self.name))?);
            }
        }
        Ok(actions)
    }

    fn action(
        &self,
        step: &Step,
        label: Option<String>,
        value: Option<Tree>,
    ) -> Result<Action, String> {
        let variables = value.map(|value| ("each".to_owned(), value));
        let variables: Variables = variables.into_iter().collect();
        let content = self.content(step, &variables)?;
        let fill = |text: &String| fill_text(text, &variables);
        let (what, title) = match (&step.send, &step.kubectl) {
            (Some(send), None) => {
                let filled = fill(send);
                let Some((method, path)) = filled.split_once(' ') else {
                    return Err(format!("expected a method and a path, found {filled:?}"));
                };
                let headers = step.headers.iter();
                let what = What::Send {
                    method: method.to_owned(),
                    path: path.to_owned(),
                    headers: headers
                        .map(|(name, value)| (name.clone(), fill(value)))
                        .collect(),
                    user: step.user.clone().unwrap_or_else(|| "admin".to_owned()),
                    body: content,
                };
                (what, send.clone())
            }
            (None, Some(arguments)) => {
                let what = What::Kubectl {
                    arguments: arguments.iter().map(fill).collect(),
                    input: content,
                    lines: step.lines.clone(),
                };
                (what, format!("kubectl {}", arguments.join(" ")))
            }
            _ => return Err("a step either sends or runs kubectl".to_owned()),
        };
        let mut name = step.name.clone().unwrap_or(title);
        if let Some(label) = label {
            name = format!("{name} [{label}]");
        }
        Ok(Action {
            name,
            what,
            save: step.save.clone(),
            background: step.background,
        })
    }

    fn content(&self, step: &Step, variables: &Variables) -> Result<Content, String> {
        if let Some(text) = &step.text {
            return Ok(Content::Text(fill_text(text, variables)));
        }
        let mut object = None;
        if let Some(name) = &step.from {
            let template = self.templates.get(name).cloned();
            object = Some(template.ok_or_else(|| format!("there is no template {name:?}"))?);
        }
        if let Some(body) = &step.body {
            let mut body = body.clone();
            fill(&mut body, variables);
            match &mut object {
                Some(object) => object.merge(&body),
                None => object = Some(body),
            }
        }
        Ok(object.map_or(Content::None, Content::Object))
    }
}

type Variation = (Option<String>, Option<Tree>);

/// A label and the values of a variation; one empty pair for a step without variations.
fn variations(each: Option<&Tree>) -> Result<Vec<Variation>, String> {
    let one = |label: &str, value: &Tree| (Some(label.to_owned()), Some(value.clone()));
    match each {
        None => Ok(vec![(None, None)]),
        Some(Tree::Map(entries)) => Ok(entries
            .iter()
            .map(|(label, value)| one(label, value))
            .collect()),
        Some(Tree::List(items)) => {
            let text = |item: &Tree| match item.text() {
                Some(text) => Ok(one(text, item)),
                None => Err(format!("expected a text, found {item}")),
            };
            items.iter().map(text).collect()
        }
        Some(other) => Err(format!("expected a list or a map, found {other}")),
    }
}

impl Content {
    /// The bytes to send: JSON, or Kubernetes protobuf if the content type says so. JSON also
    /// serves as YAML.
    pub(crate) fn bytes(&self, variables: &Variables, content_type: &str) -> Option<Vec<u8>> {
        match self {
            Self::None => None,
            Self::Text(text) => Some(fill_text(text, variables).into_bytes()),
            Self::Object(object) => {
                let mut object = object.clone();
                fill(&mut object, variables);
                if content_type.contains("protobuf") {
                    Some(protobuf::write(&object))
                } else {
                    Some(object.to_string().into_bytes())
                }
            }
        }
    }
}

/// Replaces the variables in every text of a document.
fn fill(tree: &mut Tree, variables: &Variables) {
    tree.map_text(&mut |text| {
        // If a text is nothing but one variable, the variable's value replaces it, of any type.
        let whole = text
            .strip_prefix('{')
            .and_then(|text| text.strip_suffix('}'))
            .and_then(|name| variables.get(name));
        whole
            .cloned()
            .unwrap_or_else(|| Tree::Text(fill_text(text, variables)))
    });
}

/// Replaces `{name}` by the variable's value, and `{x*12}` by a letter repeated so often. Other
/// braces stay.
pub(crate) fn fill_text(text: &str, variables: &Variables) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('{') {
        filled.push_str(before);
        let replaced = behind.split_once('}').and_then(|(name, after)| {
            let value = match variables.get(name) {
                Some(Tree::Text(text) | Tree::Number(text)) => text.clone(),
                Some(other) => other.to_string(),
                None => {
                    let (letter, times) = name.split_once('*')?;
                    letter.repeat(times.parse().ok()?)
                }
            };
            Some((value, after))
        });
        if let Some((value, after)) = replaced {
            filled.push_str(&value);
            rest = after;
        } else {
            filled.push('{');
            rest = behind;
        }
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_filled_in() {
        let variables = Variables::from([
            ("a".to_owned(), Tree::from("b")),
            ("n".to_owned(), Tree::Number("7".to_owned())),
        ]);
        for (text, expected) in [
            ("x{a}y{n}", "xby7"),
            ("{x*3}", "xxx"),
            ("{\"a\":{a}}", "{\"a\":b}"),
            ("{unknown} {", "{unknown} {"),
        ] {
            assert_eq!(fill_text(text, &variables), expected, "{text}");
        }
    }

    #[test]
    fn a_step_with_each_is_several() {
        let file: File = serde_saphyr::from_str(
            "templates: {core: {reason: Started, type: Normal}}\n\
             cases:\n\
             - case: creates\n\
             \x20 steps:\n\
             \x20 - {send: POST /events, from: core, body: '{each}', each: {none: {type: null}, other: {type: X}}}\n",
        )
        .expect("valid");
        let case = Case {
            templates: file.templates,
            ..file.cases.into_iter().next().expect("one case")
        };
        let actions = case.actions().expect("valid");
        let shown = actions.iter().map(|action| {
            let What::Send { body, .. } = &action.what else {
                panic!("it sends");
            };
            let bytes = body.bytes(&Variables::new(), "").unwrap_or_default();
            format!("{}: {}", action.name, String::from_utf8_lossy(&bytes))
        });
        assert_eq!(
            shown.collect::<Vec<_>>(),
            [
                r#"POST /events [none]: {"reason":"Started"}"#,
                r#"POST /events [other]: {"reason":"Started","type":"X"}"#,
            ]
        );
    }
}
