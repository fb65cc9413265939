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

/// A step as its file has it. `actions` completes it except for the variables of its case.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Step {
    /// The step's name in reports.
    pub(crate) name: String,
    /// A method and a path with its query.
    pub(crate) send: Option<String>,
    /// The arguments of kubectl.
    pub(crate) kubectl: Option<Vec<String>>,
    pub(crate) headers: BTreeMap<String, String>,
    /// The user whose token is sent; without a token if empty.
    pub(crate) user: Option<String>,
    from: Option<String>,
    body: Option<Tree>,
    text: Option<String>,
    each: Option<Tree>,
    /// Variables to set from the answer, each with its place there.
    pub(crate) save: BTreeMap<String, String>,
    /// Whether the answer is read only at the end of the case, while later steps run.
    pub(crate) background: bool,
    /// Only lines of kubectl's output with this text are compared.
    pub(crate) lines: Option<String>,
}

impl Step {
    /// Whether the step only reads events as they are now, which an archive can answer too.
    pub(crate) fn is_read(&self) -> bool {
        if let Some(arguments) = &self.kubectl {
            let verb = arguments.first().map_or("", String::as_str);
            let watches = |flag: &String| flag == "-w" || flag.starts_with("--watch");
            let reads = matches!(verb, "get" | "describe" | "events");
            return reads && !arguments.iter().any(watches);
        }
        let (method, path) = self.target();
        let of_events = path.starts_with("/api/v1/") || path.starts_with("/apis/events");
        let of_a_moment = !path.contains("watch") && !path.contains("resourceVersion");
        method == "GET" && of_events && path.contains("events") && of_a_moment
    }

    /// The method and the path of a request.
    pub(crate) fn target(&self) -> (&str, &str) {
        let send = self.send.as_deref().unwrap_or_default();
        send.split_once(' ').unwrap_or_default()
    }

    /// The bytes to send: JSON, or Kubernetes protobuf if the content type says so. JSON also
    /// serves as YAML.
    pub(crate) fn content(&self, variables: &Variables, content_type: &str) -> Option<Vec<u8>> {
        if let Some(text) = &self.text {
            return Some(fill_text(text, variables).into_bytes());
        }
        let mut object = self.body.clone()?;
        fill(&mut object, variables);
        if content_type.contains("protobuf") {
            return Some(protobuf::write(&object));
        }
        Some(object.to_string().into_bytes())
    }
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
    /// The `generateName` of every object that is sent in these steps.
    pub(crate) fn bases(actions: &[Step]) -> Vec<String> {
        let sent = actions.iter().filter(|step| step.send.is_some());
        let sent = sent.filter_map(|step| step.body.as_ref()?.at("metadata.generateName")?.text());
        let mut bases: Vec<_> = sent.map(str::to_owned).collect();
        bases.dedup();
        bases
    }

    pub(crate) fn needs_kubectl(&self) -> bool {
        self.steps.iter().any(|step| step.kubectl.is_some())
    }

    /// The case's steps in order, one for each variation.
    pub(crate) fn actions(&self) -> Result<Vec<Step>, String> {
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
    ) -> Result<Step, String> {
        let variables = value.map(|value| ("each".to_owned(), value));
        let variables: Variables = variables.into_iter().collect();
        let mut action = step.clone();
        let title = match (&step.send, &step.kubectl) {
            (Some(send), None) => send.clone(),
            (None, Some(arguments)) => format!("kubectl {}", arguments.join(" ")),
            _ => return Err("a step sends a method and a path, or runs kubectl".to_owned()),
        };
        if action.name.is_empty() {
            action.name = title;
        }
        if let Some(label) = label {
            action.name = format!("{} [{label}]", action.name);
        }
        let texts = action.send.iter_mut().chain(&mut action.text);
        let texts = texts.chain(action.kubectl.iter_mut().flatten());
        for text in texts.chain(action.headers.values_mut()) {
            *text = fill_text(text, &variables);
        }
        if let Some(send) = action.send.as_ref().filter(|send| !send.contains(' ')) {
            return Err(format!("expected a method and a path, found {send:?}"));
        }
        if let Some(body) = &mut action.body {
            fill(body, &variables);
        }
        if let Some(name) = &step.from {
            let template = self.templates.get(name).cloned();
            let mut object = template.ok_or_else(|| format!("there is no template {name:?}"))?;
            if let Some(body) = &action.body {
                object.merge(body);
            }
            action.body = Some(object);
        }
        Ok(action)
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
    fn the_cases_of_the_folder_are_read() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("reference");
        let cases = read(&folder).expect("valid");
        let actions = cases
            .iter()
            .map(|case| case.actions().expect("valid").len());
        assert!(actions.sum::<usize>() > 1000);
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
            let bytes = action.content(&Variables::new(), "").unwrap_or_default();
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
