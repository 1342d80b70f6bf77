//! The floors of `docs/architecture.md`: a file imports lower floors and, on its own floor, only
//! siblings in its own folder. And what is absent: who may name rdkafka, redis and unsafe.

use std::fs;
use std::path::{Path, PathBuf};

/// The floor of a file or module path below `src`, such as `config/node.rs` or `backoff`.
fn floor(path: &str) -> u8 {
    let path = path.trim_end_matches(".rs").trim_end_matches("/mod");
    let mut parts = path.split('/');
    let (first, rest) = (parts.next().unwrap_or(""), parts.next());
    match (first, rest) {
        ("lib" | "builtin", _) => 7,
        ("forwarder" | "redrive" | "scheduler", _) => 6,
        ("pipeline", _) => 5,
        // In a plug-in folder `mod.rs` is the contract and its files are parts.
        ("backoff" | "delay" | "transport", None) => 2,
        ("decorators" | "codecs" | "backoff" | "dead_letter" | "delay" | "transport", _) => 4,
        ("config", _) => 3,
        (
            "answer" | "component" | "stage" | "deserializer" | "serializer" | "matcher" | "clock",
            None,
        ) => 2,
        (
            "properties" | "record" | "headers" | "payload" | "value" | "error" | "status"
            | "outcome" | "tree" | "metric",
            _,
        ) => 1,
        _ => panic!("`{path}` has no floor: give it one here and in docs/architecture.md"),
    }
}

fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

fn sources() -> Vec<(String, String)> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    walk(&root, &mut found);
    found.sort();
    let name = |path: &Path| {
        path.strip_prefix(&root)
            .unwrap()
            .to_string_lossy()
            .replace('\\', "/")
    };
    found
        .iter()
        .map(|path| (name(path), fs::read_to_string(path).unwrap()))
        .collect()
}

/// The code of a file: without comments, and without its inline tests, which may import anything.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let tests = text.find("#[cfg(test)]\nmod ").unwrap_or(text.len());
    text[..tests]
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.split("//").next().unwrap_or("")))
}

/// The module paths that a line takes from the crate: `crate::backoff::SharedBackoff` →
/// `backoff/SharedBackoff`.
fn imports(line: &str) -> Vec<String> {
    line.match_indices("crate::")
        .filter(|(at, _)| !line[..*at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
        .map(|(at, found)| {
            let rest = &line[at + found.len()..];
            let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
            rest[..end.unwrap_or(rest.len())]
                .trim_end_matches(':')
                .replace("::", "/")
        })
        .filter(|path| !path.is_empty())
        .collect()
}

/// The file that a module path leads to, as far as it names modules.
fn module_of(path: &str, files: &[(String, String)]) -> String {
    let exists = |module: &str| {
        files
            .iter()
            .any(|(name, _)| name == &format!("{module}.rs") || name == &format!("{module}/mod.rs"))
    };
    let mut module = String::new();
    for part in path.split('/') {
        let deeper = if module.is_empty() {
            part.to_owned()
        } else {
            format!("{module}/{part}")
        };
        if !exists(&deeper) {
            break;
        }
        module = deeper;
    }
    module
}

#[test]
fn a_file_imports_lower_floors_and_its_own_folder_only() {
    let files = sources();
    assert!(files.len() > 20, "the walk found the sources");
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for (name, text) in &files {
        if floor(name) == 7 {
            continue;
        }
        for (line, code) in code(text) {
            assert!(
                !code.contains("crate::{"),
                "{name}:{line}: one `use` a module, please"
            );
            for path in imports(code) {
                let module = module_of(&path, &files);
                if module.is_empty() {
                    // The crate root's re-exports stand on the roof.
                    wrong.push(format!(
                        "{name}:{line}: imports `crate::{path}` from the roof"
                    ));
                    continue;
                }
                seen += 1;
                let (own, theirs) = (floor(name), floor(&module));
                let own_folder = name.trim_end_matches(".rs").trim_end_matches("/mod");
                let room = |path: &str| path.split('/').next().map(str::to_owned);
                let sibling = folder(name) == folder(&module)
                    || module.starts_with(&format!("{own_folder}/"))
                    || (name.contains('/') && room(name) == room(&module));
                // The contracts stand side by side, whether in a file or as a folder's `mod.rs`.
                let sibling = sibling || own == 2;
                if theirs > own || (theirs == own && !sibling) {
                    wrong.push(format!(
                        "{name}:{line}: floor {own} imports `{module}` of floor {theirs}"
                    ));
                }
            }
        }
    }
    assert!(seen > 100, "the grep found the imports: {seen}");
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn foreign_names_stay_in_their_rooms() {
    let mut wrong = Vec::new();
    for (name, text) in sources() {
        for (line, code) in code(&text) {
            let may_not = |word: &str, allowed: bool| {
                let found = code.match_indices(word).any(|(at, _)| {
                    let before = code[..at].chars().next_back();
                    !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '"' || c == '.')
                });
                found && !allowed
            };
            let kafka = name.starts_with("transport/kafka/");
            for (word, allowed) in [
                ("rdkafka::", kafka),
                ("rdkafka_sys::", kafka),
                ("redis::", name.starts_with("delay/redis")),
                ("redb::", name.starts_with("delay/embedded")),
                ("unsafe ", name.starts_with("transport/kafka/ffi")),
                ("unsafe{", name.starts_with("transport/kafka/ffi")),
            ] {
                if may_not(word, allowed) {
                    wrong.push(format!("{name}:{line}: names `{}`", word.trim()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// `config/` knows contracts and no part; parts know no other part.
#[test]
fn parts_name_no_other_part() {
    let rooms = ["decorators", "codecs", "dead_letter", "delay", "transport"];
    let files = sources();
    for (name, text) in &files {
        let own = name.split('/').next().unwrap_or("");
        if floor(name) != 4 && own != "config" {
            continue;
        }
        for (line, code) in code(text) {
            for path in imports(code) {
                let room = path.split('/').next().unwrap_or("");
                let contract = floor(&module_of(&path, &files)) <= 2;
                assert!(
                    room == own || contract || !rooms.contains(&room),
                    "{name}:{line}: imports the part `{path}`"
                );
            }
        }
    }
}
