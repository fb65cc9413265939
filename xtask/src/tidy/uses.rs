//! The crates with the uses among their files. Each file is read once, as tokens.
//!
//! A file uses another if it names an item that is defined there. A re-export is not a use: a name
//! that is imported through it leads to the file that defines it. Declarations of modules are not
//! uses either, nor are names in tests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::source::{SourceFile, normal};

/// For each file the files that it uses, each with a used name.
pub(super) type Uses = BTreeMap<PathBuf, BTreeMap<PathBuf, String>>;

/// A library or program.
pub(super) struct Crate {
    /// The folder of its root file.
    pub(super) sources: PathBuf,
    pub(super) uses: Uses,
}

/// All crates but those of the peers that are measured, and what hinders reading the others.
pub(super) fn crates(files: &[SourceFile]) -> (Vec<Crate>, Vec<String>) {
    let texts = files.iter().map(|file| (file.path.as_path(), &*file.text));
    let texts: BTreeMap<_, _> = texts.collect();
    let (mut crates, mut problems) = (Vec::new(), Vec::new());
    for root in texts.keys().copied().filter(|path| is_root(path)) {
        match uses(&texts, root) {
            Ok(uses) => crates.push(Crate {
                sources: root.parent().unwrap_or(root).to_path_buf(),
                uses,
            }),
            Err(problem) => problems.push(problem),
        }
    }
    (crates, problems)
}

/// Whether this is the root file of a library or program.
fn is_root(path: &Path) -> bool {
    let names: Vec<_> = path.iter().filter_map(|name| name.to_str()).collect();
    let Some(src) = names.iter().rposition(|name| *name == "src") else {
        return false;
    };
    let is_root = match names.get(src + 1..).unwrap_or_default() {
        ["lib.rs" | "main.rs"] | ["bin", _, "main.rs"] => true,
        ["bin", _] => path.extension().is_some_and(|kind| kind == "rs"),
        _ => false,
    };
    is_root && !path.starts_with("benches/peers")
}

/// A path as names.
type Names = Vec<String>;

/// A module before names are resolved.
#[derive(Default)]
struct Module {
    file: PathBuf,
    /// The names of the items that the module defines, except for modules.
    items: BTreeSet<String>,
    children: BTreeSet<String>,
    /// Imported names, with the paths they stand for.
    imports: BTreeMap<String, Names>,
    globs: Vec<Names>,
    /// All paths that the module names, including imports.
    paths: BTreeSet<Names>,
}

/// The modules of a crate by their paths from its root.
type Modules = BTreeMap<Names, Module>;

fn uses(texts: &BTreeMap<&Path, &str>, root: &Path) -> Result<Uses, String> {
    let modules = Modules::new();
    let mut reader = Reader { texts, modules };
    reader.file(root, root.parent().unwrap_or(root), &[])?;
    let modules = reader.modules;
    let mut uses = Uses::new();
    for (path, module) in &modules {
        let used = uses.entry(module.file.clone()).or_default();
        for named in &module.paths {
            let target = resolve(&modules, path, named, 0);
            if let Some(file) = target.filter(|file| *file != module.file) {
                used.entry(file).or_insert_with(|| named.join("::"));
            }
        }
    }
    Ok(uses)
}

/// The file that defines the item at `path`, as named in `module`; `None` if it is in another
/// crate, or is a module.
fn resolve(modules: &Modules, module: &[String], path: &[String], depth: usize) -> Option<PathBuf> {
    // Re-exports may form a cycle.
    if depth > 16 {
        return None;
    }
    let here = modules.get(module)?;
    let (first, rest) = path.split_first()?;
    match first.as_str() {
        "crate" => return resolve(modules, &[], rest, depth),
        "self" => return resolve(modules, module, rest, depth),
        "super" => return resolve(modules, module.split_last()?.1, rest, depth),
        _ => {}
    }
    if here.children.contains(first) {
        let child = [module, std::slice::from_ref(first)].concat();
        if let Some(found) = resolve(modules, &child, rest, depth) {
            return Some(found);
        }
    }
    if here.items.contains(first) {
        return Some(here.file.clone());
    }
    let through = |prefix: &[String], rest: &[String]| {
        resolve(modules, module, &[prefix, rest].concat(), depth + 1)
    };
    if let Some(import) = here.imports.get(first) {
        return through(import, rest);
    }
    here.globs.iter().find_map(|glob| through(glob, path))
}

struct Reader<'a> {
    texts: &'a BTreeMap<&'a Path, &'a str>,
    modules: Modules,
}

impl Reader<'_> {
    /// Reads a file, which has its modules in `folder`.
    fn file(&mut self, file: &Path, folder: &Path, path: &[String]) -> Result<(), String> {
        let name = file.display();
        let text = self.texts.get(file);
        let text = text.ok_or_else(|| format!("{name}: a module whose file is not there"))?;
        let tokens: TokenStream = text.parse().map_err(|error| format!("{name}: {error}"))?;
        self.module((file, folder), path, tokens)
    }

    fn module(
        &mut self,
        (file, folder): (&Path, &Path),
        path: &[String],
        tokens: TokenStream,
    ) -> Result<(), String> {
        let mut module = Module {
            file: file.to_path_buf(),
            ..Module::default()
        };
        let mut children = Vec::new();
        for item in items(tokens) {
            if item.is_for_tests() {
                continue;
            }
            let body = item.body.iter().cloned();
            let first = item.words().next();
            match first.as_deref() {
                Some("mod") => {
                    let name = item.words().nth(1).unwrap_or_default();
                    module.children.insert(name.clone());
                    children.push((name, item));
                }
                Some("use") => {
                    let mut found = Vec::new();
                    imports(&mut body.skip(1), &[], &mut found);
                    for (alias, named) in found {
                        if alias == "*" {
                            module.globs.push(named);
                            continue;
                        }
                        // Of imports, only those that the module itself uses are uses.
                        if !item.is_public {
                            module.paths.insert(named.clone());
                        }
                        module.imports.insert(alias, named);
                    }
                }
                _ => {
                    module.items.extend(item.defined());
                    let attributes = item.attributes.iter().cloned();
                    paths(attributes.chain(body), &mut module.paths);
                }
            }
        }
        self.modules.insert(path.to_vec(), module);
        for (name, item) in children {
            let below = folder.join(&name);
            let child = [path, &[name]].concat();
            if let Some(TokenTree::Group(content)) = item.body.last() {
                let content = content.stream();
                self.module((file, &below), &child, content)?;
            } else if let Some(named) = item.attribute("path=\"") {
                let file = normal(&folder.join(named.trim_end_matches('"')));
                self.file(&file, &file.with_extension(""), &child)?;
            } else {
                let flat = below.with_extension("rs");
                let nested = below.join("mod.rs");
                let is_flat = self.texts.contains_key(&*flat);
                let file = if is_flat { &flat } else { &nested };
                self.file(file, &below, &child)?;
            }
        }
        Ok(())
    }
}

/// An item of a module.
#[derive(Default)]
struct Item {
    attributes: Vec<TokenTree>,
    is_public: bool,
    /// The rest, up to its semicolon (without it) or its braces.
    body: Vec<TokenTree>,
}

/// Words before the name of an item that they define.
const DEFINING: &str =
    "async const enum extern fn macro_rules mut static struct trait type union unsafe";

impl Item {
    /// The words outside groups.
    fn words(&self) -> impl Iterator<Item = String> {
        self.body.iter().filter_map(word)
    }

    /// The name that the item defines in its module.
    fn defined(&self) -> Option<String> {
        let is_defining = |word: &String| DEFINING.split(' ').any(|it| it == word);
        self.words().next().filter(is_defining)?;
        self.words().find(|word| !is_defining(word))
    }

    /// What follows `start` in the attribute that begins so, without blanks.
    fn attribute(&self, start: &str) -> Option<String> {
        self.attributes.iter().find_map(|token| {
            let mut text = match token {
                TokenTree::Group(group) => group.stream().to_string(),
                _ => return None,
            };
            text.retain(|character| !character.is_whitespace());
            text.strip_prefix(start).map(str::to_owned)
        })
    }

    fn is_for_tests(&self) -> bool {
        let condition = self.attribute("cfg(");
        condition.is_some_and(|it| it == "test)" || it.starts_with("all(test"))
    }
}

fn word(token: &TokenTree) -> Option<String> {
    match token {
        TokenTree::Ident(word) => Some(word.to_string()),
        _ => None,
    }
}

fn is_mark(token: Option<&TokenTree>, mark: char) -> bool {
    matches!(token, Some(TokenTree::Punct(it)) if it.as_char() == mark)
}

fn items(tokens: TokenStream) -> Vec<Item> {
    let mut items = Vec::new();
    let mut item = Item::default();
    for token in tokens {
        let is_group =
            |kind| matches!(&token, TokenTree::Group(group) if group.delimiter() == kind);
        if item.body.is_empty() {
            let last = item.attributes.last();
            let in_attribute = is_mark(last, '#') || is_mark(last, '!');
            if in_attribute || is_mark(Some(&token), '#') {
                item.attributes.push(token);
                continue;
            }
            let is_pub = word(&token).is_some_and(|word| word == "pub");
            if is_pub || item.is_public && is_group(Delimiter::Parenthesis) {
                item.is_public = true;
                continue;
            }
        }
        let is_end = is_mark(Some(&token), ';');
        let is_use = item.words().next().is_some_and(|word| word == "use");
        let is_body = is_group(Delimiter::Brace) && !is_use;
        if !is_end {
            item.body.push(token);
        }
        if is_end || is_body {
            items.push(std::mem::take(&mut item));
        }
    }
    items
}

/// Finds the imports of a `use` in the tokens after that word, each with its name here. The
/// name of a glob is `*`.
fn imports(
    tokens: &mut dyn Iterator<Item = TokenTree>,
    prefix: &[String],
    found: &mut Vec<(String, Names)>,
) {
    let mut path = prefix.to_vec();
    // A group has its own names.
    let mut name = None;
    let mut is_alias = false;
    for token in tokens {
        match &token {
            TokenTree::Ident(word) if word == "as" => is_alias = true,
            TokenTree::Ident(word) if is_alias => name = Some(word.to_string()),
            TokenTree::Ident(word) => {
                if word != "self" || path.is_empty() {
                    path.push(word.to_string());
                }
                name = path.last().cloned();
            }
            TokenTree::Group(group) => {
                imports(&mut group.stream().into_iter(), &path, found);
                name = None;
            }
            TokenTree::Punct(mark) if mark.as_char() == ';' => break,
            TokenTree::Punct(mark) if mark.as_char() == '*' => name = Some("*".to_owned()),
            TokenTree::Punct(mark) if mark.as_char() == ',' => {
                let path = std::mem::replace(&mut path, prefix.to_vec());
                found.extend(name.take().map(|name| (name, path)));
                is_alias = false;
            }
            _ => {}
        }
    }
    found.extend(name.map(|name| (name, path)));
}

/// Adds the paths in code: names joined by `::`. Names of fields and methods are none.
fn paths(tokens: impl Iterator<Item = TokenTree>, paths: &mut BTreeSet<Names>) {
    let mut tokens = tokens.peekable();
    let mut path = Names::new();
    // The marks since the last name.
    let mut marks = String::new();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(mark) => {
                marks.push(mark.as_char());
                continue;
            }
            // In a type, `use<'a>` imports nothing.
            TokenTree::Ident(word) if word == "use" && !is_mark(tokens.peek(), '<') => {
                let mut found = Vec::new();
                imports(&mut tokens, &[], &mut found);
                found.retain(|(name, _)| name != "*");
                paths.extend(found.into_iter().map(|(_, path)| path));
            }
            TokenTree::Ident(word) => {
                if marks != "::" {
                    paths.insert(std::mem::take(&mut path));
                }
                let is_member = marks.ends_with('.') && !marks.ends_with("..");
                let continues_a_type = marks.ends_with("::") && path.is_empty();
                if !is_member && !continues_a_type {
                    path.push(word.to_string());
                }
            }
            TokenTree::Group(group) => {
                paths.insert(std::mem::take(&mut path));
                self::paths(group.stream().into_iter(), paths);
            }
            TokenTree::Literal(_) => _ = paths.insert(std::mem::take(&mut path)),
        }
        marks.clear();
    }
    paths.insert(path);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_and_each_program_of_a_package_begin_somewhere() {
        for (path, expected) in [
            ("crates/tidings/src/lib.rs", true),
            ("xtask/src/main.rs", true),
            ("benches/src/bin/store.rs", true),
            ("crates/tidings-cli/src/bin/tidings/main.rs", true),
            ("crates/tidings-cli/src/bin/tidings/clock.rs", false),
            ("crates/tidings/src/recorder.rs", false),
            ("crates/tidings/tests/memory.rs", false),
            ("benches/peers/kube-rs/src/main.rs", false),
        ] {
            assert_eq!(is_root(Path::new(path)), expected, "{path}");
        }
    }
}
