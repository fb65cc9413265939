//! The fields of a kubeconfig, and the forms in which client-go reads them (`clientcmd/api/v1`).
//!
//! A field that is null or empty counts as absent. Paths are made absolute, and line breaks are
//! removed from data. So kube's types can read whatever client-go reads.
//!
//! Invariant: an error has the place and the expected form, but no value.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

/// The form of a field's value.
#[derive(Clone, Copy)]
enum Form {
    Text,
    /// A boolean.
    Flag,
    Texts,
    /// An object whose values are texts.
    TextsByName,
    /// An object whose values are lists of texts.
    ListsByName,
    /// Bytes in base64.
    Data,
    Path,
    /// The command of a program: a path only if it has a separator.
    Command,
    /// A list of objects.
    Objects(Fields),
    Object(Fields),
}

type Fields = &'static [(&'static str, Form)];

const ROOT: Fields = &[
    ("apiVersion", Form::Text),
    ("kind", Form::Text),
    ("current-context", Form::Text),
    (
        "clusters",
        Form::Objects(&[("name", Form::Text), ("cluster", Form::Object(CLUSTER))]),
    ),
    (
        "users",
        Form::Objects(&[("name", Form::Text), ("user", Form::Object(USER))]),
    ),
    (
        "contexts",
        Form::Objects(&[("name", Form::Text), ("context", Form::Object(CONTEXT))]),
    ),
];

const CLUSTER: Fields = &[
    ("server", Form::Text),
    ("tls-server-name", Form::Text),
    ("insecure-skip-tls-verify", Form::Flag),
    ("certificate-authority", Form::Path),
    ("certificate-authority-data", Form::Data),
    ("proxy-url", Form::Text),
    ("disable-compression", Form::Flag),
];

const USER: Fields = &[
    ("client-certificate", Form::Path),
    ("client-certificate-data", Form::Data),
    ("client-key", Form::Path),
    ("client-key-data", Form::Data),
    ("token", Form::Text),
    ("tokenFile", Form::Path),
    ("as", Form::Text),
    ("as-uid", Form::Text),
    ("as-groups", Form::Texts),
    ("as-user-extra", Form::ListsByName),
    ("username", Form::Text),
    ("password", Form::Text),
    (
        "auth-provider",
        Form::Object(&[("name", Form::Text), ("config", Form::TextsByName)]),
    ),
    ("exec", Form::Object(EXEC)),
];

const EXEC: Fields = &[
    ("command", Form::Command),
    ("args", Form::Texts),
    (
        "env",
        Form::Objects(&[("name", Form::Text), ("value", Form::Text)]),
    ),
    ("apiVersion", Form::Text),
    ("installHint", Form::Text),
    ("provideClusterInfo", Form::Flag),
    ("interactiveMode", Form::Text),
];

/// The modes of a program that kube's types know.
const MODES: [&str; 3] = ["Never", "IfAvailable", "Always"];

const CONTEXT: Fields = &[
    ("cluster", Form::Text),
    ("user", Form::Text),
    ("namespace", Form::Text),
];

/// The extension of a cluster that is passed to credential programs.
const EXEC_EXTENSION: &str = "client.authentication.k8s.io/exec";

/// Converts a kubeconfig to the form that kube's types read. Its relative paths start at `folder`.
///
/// # Errors
/// The errors that client-go would report: it is no kubeconfig, a field has another form, or two
/// entries of a list have the same name.
pub(super) fn normalize(found: &mut Value, folder: &Path) -> Result<(), String> {
    let Some(root) = found.as_object_mut() else {
        return Err("it is no kubeconfig: expected an object of kind Config".to_owned());
    };
    object(root, ROOT, "", folder)?;
    let text = |name: &str| root.get(name).and_then(Value::as_str);
    let (kind, version) = (text("kind"), text("apiVersion"));
    if kind.unwrap_or("Config") != "Config" || version.unwrap_or("v1") != "v1" {
        return Err("it is no kubeconfig: expected kind Config of apiVersion v1".to_owned());
    }
    root.remove("extensions");
    root.remove("preferences");
    // kube's types require some texts that client-go does not.
    for list in ["clusters", "users", "contexts"] {
        let entries = root.get_mut(list).and_then(Value::as_array_mut);
        for entry in entries
            .into_iter()
            .flatten()
            .filter_map(Value::as_object_mut)
        {
            entry.entry("name").or_insert_with(|| "".into());
        }
        distinct(root.get(list), list)?;
    }
    for context in inner(root, "contexts", "context") {
        context.remove("extensions");
        context.entry("cluster").or_insert_with(|| "".into());
    }
    for user in inner(root, "users", "user") {
        user.remove("extensions");
        if let Some(exec) = user.get_mut("exec").and_then(Value::as_object_mut) {
            normalize_program(exec);
        }
        let provider = user.get_mut("auth-provider").and_then(Value::as_object_mut);
        if let Some(provider) = provider {
            provider.entry("name").or_insert_with(|| "".into());
        }
    }
    for cluster in inner(root, "clusters", "cluster") {
        let extensions = cluster.get_mut("extensions").and_then(Value::as_array_mut);
        let is_told = |one: &Value| one["name"] == EXEC_EXTENSION && one.get("extension").is_some();
        match extensions {
            Some(extensions) => extensions.retain(is_told),
            None => {
                cluster.remove("extensions");
            }
        }
    }
    Ok(())
}

/// Removes what kube's types refuse in any user, and client-go only in the chosen one.
fn normalize_program(exec: &mut Map<String, Value>) {
    let variables = exec.get_mut("env").and_then(Value::as_array_mut);
    let variables = variables.into_iter().flatten();
    for variable in variables.filter_map(Value::as_object_mut) {
        variable.retain(|name, _| matches!(name.as_str(), "name" | "value"));
    }
    // A program without a mode is refused if it is chosen.
    let mode = exec.get("interactiveMode").and_then(Value::as_str);
    if mode.is_some_and(|mode| !MODES.contains(&mode)) {
        exec.remove("interactiveMode");
    }
}

/// The inner objects with this name, in the entries of a list.
fn inner<'a>(
    root: &'a mut Map<String, Value>,
    list: &str,
    name: &'a str,
) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    let entries = root.get_mut(list).and_then(Value::as_array_mut);
    let entries = entries.into_iter().flatten();
    entries.filter_map(move |entry| entry.get_mut(name)?.as_object_mut())
}

/// Refuses two entries with one name, as client-go does.
fn distinct(entries: Option<&Value>, list: &str) -> Result<(), String> {
    let mut names = std::collections::HashSet::new();
    for entry in entries.and_then(Value::as_array).into_iter().flatten() {
        let name = entry["name"].as_str().unwrap_or_default();
        if !names.insert(name) {
            return Err(format!("two of its {list} have the name {name:?}"));
        }
    }
    Ok(())
}

fn object(
    found: &mut Map<String, Value>,
    fields: Fields,
    at: &str,
    folder: &Path,
) -> Result<(), String> {
    for (name, form) in fields {
        let at = if at.is_empty() {
            (*name).to_owned()
        } else {
            format!("{at}.{name}")
        };
        let Some(value) = found.get_mut(*name) else {
            continue;
        };
        field(value, *form, &at, folder)?;
        let is_absent = match value {
            Value::Null => true,
            Value::String(text) => text.is_empty() && *name != "name",
            _ => false,
        };
        if is_absent {
            found.remove(*name);
        }
    }
    Ok(())
}

fn field(value: &mut Value, form: Form, at: &str, folder: &Path) -> Result<(), String> {
    if value.is_null() {
        return Ok(());
    }
    let expected = |what: &str| Err(format!("expected {what} as its {at}"));
    match (form, value) {
        (Form::Text, Value::String(_)) | (Form::Flag, Value::Bool(_)) => Ok(()),
        (Form::Text, _) => expected("a text (numbers take quotation marks)"),
        (Form::Flag, _) => expected("true or false"),
        (Form::Path, Value::String(path)) => {
            begin_at(folder, path);
            Ok(())
        }
        (Form::Path, _) => expected("a path"),
        (Form::Command, Value::String(command)) => {
            if command.contains(std::path::MAIN_SEPARATOR) {
                begin_at(folder, command);
            }
            Ok(())
        }
        (Form::Command, _) => expected("a command"),
        (Form::Data, Value::String(data)) => {
            // Go's decoder ignores line breaks.
            data.retain(|character| !matches!(character, '\r' | '\n'));
            match STANDARD.decode(&*data) {
                Ok(_) => Ok(()),
                Err(_) => expected("base64"),
            }
        }
        (Form::Data, _) => expected("base64"),
        (Form::Texts, Value::Array(texts)) => {
            for text in texts {
                text_of(text, at)?;
            }
            Ok(())
        }
        (Form::Texts, _) => expected("a list of texts"),
        (Form::TextsByName, Value::Object(texts)) => {
            texts.values_mut().try_for_each(|text| text_of(text, at))
        }
        (Form::TextsByName, _) => expected("texts by names"),
        (Form::ListsByName, Value::Object(lists)) => {
            lists.retain(|_, list| !list.is_null());
            lists
                .values_mut()
                .try_for_each(|list| field(list, Form::Texts, at, folder))
        }
        (Form::ListsByName, _) => expected("lists of texts by names"),
        (Form::Objects(fields), Value::Array(entries)) => {
            for entry in entries {
                if entry.is_null() {
                    *entry = Value::Object(Map::new());
                }
                let name = entry["name"].as_str().map(|name| format!("{at} {name:?}"));
                let at = name.as_deref().unwrap_or(at);
                field(entry, Form::Object(fields), at, folder)?;
            }
            Ok(())
        }
        (Form::Objects(_), _) => expected("a list"),
        (Form::Object(fields), Value::Object(found)) => object(found, fields, at, folder),
        (Form::Object(_), _) => expected("an object"),
    }
}

/// Checks for a text; client-go reads null in a list as an empty text.
fn text_of(value: &mut Value, at: &str) -> Result<(), String> {
    if value.is_null() {
        *value = "".into();
    }
    field(value, Form::Text, at, Path::new(""))
}

/// Makes a relative path absolute.
fn begin_at(folder: &Path, path: &mut String) {
    if !path.is_empty() {
        *path = folder.join(&*path).to_string_lossy().into_owned();
    }
}
