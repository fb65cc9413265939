//! The uses among the files of a crate.
//!
//! A file uses another if it names an item that is defined there. A re-export is not a use: a name
//! that is imported through it leads to the file that defines it. Declarations of modules are not
//! uses either, nor are names in tests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::visit::Visit;

use super::source::{SourceFile, normal};

/// The files of a crate with their uses.
#[derive(Default)]
pub(super) struct Uses {
    /// For each file the files that it uses, each with a used name.
    pub(super) arrows: BTreeMap<PathBuf, BTreeMap<PathBuf, String>>,
}

/// The crates, each with its root file.
pub(super) fn roots(files: &[SourceFile]) -> Vec<(String, PathBuf)> {
    files
        .iter()
        .filter(|file| !file.path.starts_with("benches/peers"))
        .filter_map(|file| Some((package_of_root(&file.path)?, file.path.clone())))
        .collect()
}

/// The folder of the package that has this root file of a library or program.
fn package_of_root(path: &Path) -> Option<String> {
    let names: Vec<_> = path
        .iter()
        .map(|name| name.to_str().unwrap_or_default())
        .collect();
    let src = names.iter().rposition(|name| *name == "src")?;
    let (before, within) = names.split_at(src);
    let is_root = match within {
        ["src", "lib.rs" | "main.rs"] | ["src", "bin", _, "main.rs"] => true,
        ["src", "bin", _] => path.extension().is_some_and(|extension| extension == "rs"),
        _ => false,
    };
    is_root.then(|| before.last().copied().unwrap_or_default().to_owned())
}

/// The path of a module from the root of its crate, as names.
type ModulePath = Vec<String>;

/// A module before names are resolved.
#[derive(Default)]
struct Module {
    file: PathBuf,
    /// The names of the items that the module defines, except for modules.
    items: BTreeSet<String>,
    children: BTreeSet<String>,
    /// Imported names, with the paths they stand for.
    imports: BTreeMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
    /// All paths that the module names, including imports.
    paths: BTreeSet<Vec<String>>,
}

struct Reader<'a> {
    files: &'a [SourceFile],
    modules: BTreeMap<ModulePath, Module>,
}

impl Uses {
    pub(super) fn read(files: &[SourceFile], root: &Path) -> Result<Self, String> {
        let mut reader = Reader {
            files,
            modules: BTreeMap::new(),
        };
        reader.file(root, &[], true)?;
        let modules = reader.modules;
        let mut arrows: BTreeMap<PathBuf, BTreeMap<PathBuf, String>> = BTreeMap::new();
        for (path, module) in &modules {
            let used = arrows.entry(module.file.clone()).or_default();
            for named in &module.paths {
                let target = resolve(&modules, path, named, 0);
                if let Some(file) = target.filter(|file| *file != module.file) {
                    used.entry(file).or_insert_with(|| named.join("::"));
                }
            }
        }
        Ok(Self { arrows })
    }
}

/// The file that defines the item at `path`, as named in `module`; `None` if it is in another
/// crate, or is a module.
fn resolve(
    modules: &BTreeMap<ModulePath, Module>,
    module: &[String],
    path: &[String],
    depth: usize,
) -> Option<PathBuf> {
    // Re-exports may form a cycle.
    if depth > 16 {
        return None;
    }
    let (first, rest) = path.split_first()?;
    match first.as_str() {
        "crate" => resolve_in(modules, &[], rest, depth),
        "self" => resolve_in(modules, module, rest, depth),
        "super" => {
            let (_, parent) = module.split_last()?;
            if rest.first().is_some_and(|name| name == "super") {
                resolve(modules, parent, rest, depth)
            } else {
                resolve_in(modules, parent, rest, depth)
            }
        }
        _ => {
            let here = modules.get(module)?;
            let known = here.children.contains(first)
                || here.items.contains(first)
                || here.imports.contains_key(first)
                || !here.globs.is_empty();
            known.then(|| resolve_in(modules, module, path, depth))?
        }
    }
}

fn resolve_in(
    modules: &BTreeMap<ModulePath, Module>,
    module: &[String],
    path: &[String],
    depth: usize,
) -> Option<PathBuf> {
    let here = modules.get(module)?;
    let (first, rest) = path.split_first()?;
    if here.children.contains(first) {
        let child = [module, std::slice::from_ref(first)].concat();
        if let Some(found) = resolve_in(modules, &child, rest, depth) {
            return Some(found);
        }
    }
    if here.items.contains(first) {
        return Some(here.file.clone());
    }
    if let Some(import) = here.imports.get(first) {
        let whole = [import.as_slice(), rest].concat();
        return resolve(modules, module, &whole, depth + 1);
    }
    here.globs.iter().find_map(|glob| {
        let whole = [glob.as_slice(), path].concat();
        resolve(modules, module, &whole, depth + 1)
    })
}

impl Reader<'_> {
    fn file(&mut self, file: &Path, path: &[String], owns_folder: bool) -> Result<(), String> {
        let Some(source) = self.files.iter().find(|source| source.path == file) else {
            return Err(format!(
                "{}: a module whose file is not there",
                file.display()
            ));
        };
        let parsed = syn::parse_file(&source.text)
            .map_err(|error| format!("{}: {error}", file.display()))?;
        let folder = file.parent().unwrap_or(Path::new("")).to_path_buf();
        let folder = if owns_folder {
            folder
        } else {
            folder.join(file.file_stem().unwrap_or_default())
        };
        self.items(file, &folder, path, &parsed.items)
    }

    fn items(
        &mut self,
        file: &Path,
        folder: &Path,
        path: &[String],
        items: &[syn::Item],
    ) -> Result<(), String> {
        let mut module = Module {
            file: file.to_path_buf(),
            ..Module::default()
        };
        let mut children = Vec::new();
        for item in items {
            if is_for_tests(item) {
                continue;
            }
            match item {
                syn::Item::Mod(child) => {
                    module.children.insert(child.ident.to_string());
                    children.push(child);
                }
                syn::Item::Use(import) => {
                    let mut prefix = Vec::new();
                    imports(&import.tree, &mut prefix, &mut module);
                    if matches!(import.vis, syn::Visibility::Inherited) {
                        // Only imports that the module itself uses are uses.
                        let mut named = Vec::new();
                        leaves(&import.tree, &mut Vec::new(), &mut named);
                        module.paths.extend(named);
                    }
                }
                _ => {
                    module.items.extend(defined(item));
                    Names(&mut module.paths).visit_item(item);
                }
            }
        }
        self.modules.insert(path.to_vec(), module);
        for child in children {
            let name = child.ident.to_string();
            let child_path = [path, std::slice::from_ref(&name)].concat();
            if let Some((_, items)) = &child.content {
                self.items(file, &folder.join(&name), &child_path, items)?;
            } else if let Some(named) = path_attribute(child) {
                self.file(&normal(&folder.join(named)), &child_path, false)?;
            } else {
                let flat = folder.join(format!("{name}.rs"));
                let is_flat = self.files.iter().any(|source| source.path == flat);
                let nested = folder.join(&name).join("mod.rs");
                self.file(if is_flat { &flat } else { &nested }, &child_path, !is_flat)?;
            }
        }
        Ok(())
    }
}

/// The file named by `#[path = "…"]`.
fn path_attribute(module: &syn::ItemMod) -> Option<String> {
    module.attrs.iter().find_map(|attribute| {
        let syn::Meta::NameValue(pair) = &attribute.meta else {
            return None;
        };
        let syn::Expr::Lit(literal) = &pair.value else {
            return None;
        };
        match &literal.lit {
            syn::Lit::Str(text) if pair.path.is_ident("path") => Some(text.value()),
            _ => None,
        }
    })
}

fn is_for_tests(item: &syn::Item) -> bool {
    let attributes = match item {
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Const(item) => &item.attrs,
        _ => return false,
    };
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .parse_args_with(|input: syn::parse::ParseStream<'_>| {
                    let condition: proc_macro2::TokenStream = input.parse()?;
                    let condition = condition.to_string();
                    Ok(condition == "test" || condition.starts_with("all (test"))
                })
                .unwrap_or(false)
    })
}

/// The names that an item defines in its module.
fn defined(item: &syn::Item) -> Option<String> {
    let ident = match item {
        syn::Item::Const(item) => &item.ident,
        syn::Item::Enum(item) => &item.ident,
        syn::Item::Fn(item) => &item.sig.ident,
        syn::Item::Macro(item) => item.ident.as_ref()?,
        syn::Item::Static(item) => &item.ident,
        syn::Item::Struct(item) => &item.ident,
        syn::Item::Trait(item) => &item.ident,
        syn::Item::TraitAlias(item) => &item.ident,
        syn::Item::Type(item) => &item.ident,
        syn::Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

/// Adds the names that a `use` imports to the module.
fn imports(tree: &syn::UseTree, prefix: &mut Vec<String>, module: &mut Module) {
    let mut note = |name: &str, alias: String, prefix: &[String]| {
        let mut path = prefix.to_vec();
        if name != "self" {
            path.push(name.to_owned());
        }
        module.imports.insert(alias, path);
    };
    match tree {
        syn::UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            imports(&path.tree, prefix, module);
            prefix.pop();
        }
        syn::UseTree::Name(name) => {
            let name = name.ident.to_string();
            let alias = if name == "self" {
                prefix.last().cloned().unwrap_or_default()
            } else {
                name.clone()
            };
            note(&name, alias, prefix);
        }
        syn::UseTree::Rename(rename) => {
            note(&rename.ident.to_string(), rename.rename.to_string(), prefix);
        }
        syn::UseTree::Glob(_) => module.globs.push(prefix.clone()),
        syn::UseTree::Group(group) => {
            for tree in &group.items {
                imports(tree, prefix, module);
            }
        }
    }
}

/// All paths of a `use`.
fn leaves(tree: &syn::UseTree, prefix: &mut Vec<String>, named: &mut Vec<Vec<String>>) {
    match tree {
        syn::UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            leaves(&path.tree, prefix, named);
            prefix.pop();
        }
        syn::UseTree::Name(name) => {
            named.push([prefix.as_slice(), &[name.ident.to_string()]].concat());
        }
        syn::UseTree::Rename(rename) => {
            named.push([prefix.as_slice(), &[rename.ident.to_string()]].concat());
        }
        syn::UseTree::Glob(_) => {}
        syn::UseTree::Group(group) => {
            for tree in &group.items {
                leaves(tree, prefix, named);
            }
        }
    }
}

/// Collects the paths in code, including those in arguments of macros.
struct Names<'a>(&'a mut BTreeSet<Vec<String>>);

impl<'ast> Visit<'ast> for Names<'_> {
    fn visit_item_mod(&mut self, _: &'ast syn::ItemMod) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            let names = path.segments.iter().map(|part| part.ident.to_string());
            self.0.insert(names.collect());
        }
        syn::visit::visit_path(self, path);
    }

    fn visit_item_use(&mut self, import: &'ast syn::ItemUse) {
        let mut named = Vec::new();
        leaves(&import.tree, &mut Vec::new(), &mut named);
        self.0.extend(named);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.visit_path(&call.path);
        self.tokens(call.tokens.clone());
    }
}

impl Names<'_> {
    /// Arguments of macros are not parsed: names joined by `::` are paths.
    fn tokens(&mut self, tokens: proc_macro2::TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                proc_macro2::TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.0.insert(std::mem::take(&mut path));
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                proc_macro2::TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
                other => {
                    self.0.insert(std::mem::take(&mut path));
                    colons = 0;
                    if let proc_macro2::TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        self.0.insert(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_and_each_program_of_a_package_begin_somewhere() {
        for (path, expected) in [
            ("crates/tidings/src/lib.rs", Some("tidings")),
            ("xtask/src/main.rs", Some("xtask")),
            ("benches/src/bin/store.rs", Some("benches")),
            (
                "crates/tidings-cli/src/bin/tidings/main.rs",
                Some("tidings-cli"),
            ),
            ("crates/tidings-cli/src/bin/tidings/clock.rs", None),
            ("crates/tidings/src/recorder.rs", None),
            ("crates/tidings/tests/memory.rs", None),
        ] {
            assert_eq!(
                package_of_root(Path::new(path)).as_deref(),
                expected,
                "{path}"
            );
        }
    }
}
