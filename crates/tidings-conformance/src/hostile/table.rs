//! The table of hostile input, `hostile/kinds.yaml`, and the scripts of its kinds.
//!
//! Texts in the table are templates. `{word}` is a text of the table's `words`, `{ns}` a new
//! namespace. `‹n*text›` is the text n times, `‹n,text›` the same with commas between; the number
//! of each is `#` (from 0), `#>` (from 1), `#<` (backwards), `#+` (from n), `#/3` or `#%3`.
//! `‹4|a¦b›` is one of these, by the number. `#~` is a long text that does not compress, and `#s`
//! the identifier of an HTTP/2 stream, `#S` that of the next.

use std::collections::BTreeMap;
use std::slice;
use std::sync::LazyLock;

use serde::Deserialize;

use super::script::{Act, Ask, AtOnce, Script};
use crate::error::Result;

/// Maximum resident memory of a server with its defaults, whatever is requested at once.
pub(super) const RESIDENT_MAX: u64 = 384 << 20;
/// The beginning of an HTTP/2 connection: the preface and empty settings.
const PREFACE: &str = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// Words may have words in them.
const DEPTH: usize = 3;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    words: BTreeMap<String, String>,
    lists: BTreeMap<String, Vec<String>>,
    pub(super) kinds: Vec<Kind>,
}

impl Table {
    pub(super) fn read() -> Result<Self> {
        Ok(serde_saphyr::from_str(include_str!(
            "../../hostile/kinds.yaml"
        ))?)
    }
}

/// A kind of hostile input, with its sizes and bounds.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Kind {
    pub(super) name: String,
    /// The largest size.
    largest: Option<usize>,
    parts: Vec<usize>,
    growth_max: Option<f64>,
    alone: bool,
    /// Whether the hostile requests are sent to an archive. The events that they need are first
    /// written to the server that the archive follows.
    pub(super) archive: bool,
    /// Whether its events are larger than what the store caches anyway. A table answers each of
    /// them twice.
    large: bool,
    // What is sent: requests one after the other, bytes, connections, or requests at once.
    ask: Option<Template>,
    asks: Vec<Template>,
    bytes: Option<String>,
    http2: Option<String>,
    connections: Option<String>,
    /// Of these requests each is sent in turn; none for null.
    read: Vec<Option<Template>>,
    /// Requests whose answers are not read: a quarter of the size if others are read.
    unread: Vec<Option<Template>>,
    then: Vec<Template>,
    /// What prepares the server.
    after: Vec<Template>,
}

/// Requests. Without anything else, one creates a plain event.
#[derive(Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Template {
    /// A method and a target.
    send: Option<String>,
    /// The query of a list of the namespace.
    list: Option<String>,
    /// The content type of a body, or a short name of it. Patches change the plain event.
    r#type: Option<String>,
    body: Option<String>,
    /// Whether the letters of the body are its bytes.
    latin: bool,
    /// Whether a body of protobuf is an event's metadata.
    in_metadata: bool,
    // Parts of the event that is sent. The last two begin with a comma.
    name: Option<String>,
    metadata: Option<String>,
    fields: Option<String>,
    headers: BTreeMap<String, String>,
    /// As many headers as the size.
    many: BTreeMap<String, String>,
    anonymous: bool,
    times: Option<String>,
    /// The list whose members are `{each}`.
    each: Option<String>,
    /// Another namespace.
    r#in: Option<String>,
}

impl Kind {
    pub(super) fn largest(&self) -> usize {
        self.largest.unwrap_or(40)
    }

    /// The sizes that are sent, as parts of the largest.
    pub(super) fn parts(&self) -> &[usize] {
        if !self.parts.is_empty() {
            &self.parts
        } else if self.is_at_once() {
            &[1]
        } else if self.large {
            &[2, 1]
        } else {
            &[64, 16, 4, 1]
        }
    }

    /// Maximum factor by which processor time grows when the size grows four-fold.
    pub(super) fn growth_max(&self) -> f64 {
        self.growth_max.unwrap_or(6.0)
    }

    /// Maximum bytes of an answer without an error: one event of the maximum stored size, with
    /// every byte escaped.
    pub(super) fn answer_max(&self) -> u64 {
        if self.large { 160 << 20 } else { 10 << 20 }
    }

    /// Whether each round needs a server of its own, since events of other rounds would be counted
    /// too.
    pub(super) fn is_alone(&self) -> bool {
        self.alone || self.is_at_once()
    }

    /// Whether it is many requests at once: these are judged by resident memory alone, and some of
    /// the requests may be told to come back later.
    pub(super) fn is_at_once(&self) -> bool {
        !self.read.is_empty() || !self.unread.is_empty()
    }

    /// Makes the script for a size, in a new namespace.
    pub(super) fn script(&self, table: &Table, size: usize, namespace: &str) -> Script {
        let maker = Maker {
            table,
            size,
            namespace,
        };
        let all = |templates: &[Template]| -> Vec<Ask> {
            templates.iter().flat_map(|it| maker.asks(it)).collect()
        };
        let latin = |text: &str| latin(&maker.text(text, None, "", namespace));
        let act = if self.is_at_once() {
            let unread = if self.read.is_empty() { size } else { size / 4 };
            Act::AtOnce(AtOnce {
                unread: maker.in_turn(unread, &self.unread),
                then: all(&self.then),
                read: maker.in_turn(size, &self.read),
            })
        } else if let Some(bytes) = &self.bytes {
            Act::Bytes(None, latin(bytes))
        } else if let Some(frames) = &self.http2 {
            Act::Bytes(Some(b"h2"), latin(&format!("{PREFACE}{frames}")))
        } else if let Some(connections) = &self.connections {
            Act::Connections(size, connections == "idle")
        } else {
            let asks = self.ask.as_ref().map_or(&*self.asks, slice::from_ref);
            Act::Requests(all(asks))
        };
        Script {
            before: all(&self.after),
            act,
        }
    }
}

/// Makes the requests of one script.
struct Maker<'a> {
    table: &'a Table,
    size: usize,
    namespace: &'a str,
}

impl Maker<'_> {
    fn text(&self, template: &str, number: Option<usize>, each: &str, namespace: &str) -> String {
        let mut text = template.to_owned();
        for _ in 0..DEPTH {
            for (word, meaning) in &self.table.words {
                text = text.replace(&format!("{{{word}}}"), meaning);
            }
        }
        text = text.replace("{each}", each).replace("{ns}", namespace);
        if let Some(number) = number {
            text = numbered(&text, number, self.size);
        }
        expanded(&text, self.size)
    }

    fn asks(&self, template: &Template) -> Vec<Ask> {
        let none = [String::new()];
        let list = template.each.as_ref();
        let list = list.and_then(|list| self.table.lists.get(list));
        let list = list.map_or(&none[..], |list| list);
        let times = template.times.as_ref().map(|it| counted(it, self.size));
        let numbers = (0..times.unwrap_or(1)).map(|number| times.map(|_| number));
        numbers
            .flat_map(|number| {
                list.iter()
                    .map(move |each| self.ask(template, number, each))
            })
            .collect()
    }

    fn in_turn(&self, count: usize, of: &[Option<Template>]) -> Vec<Ask> {
        let numbers = (0..count).filter_map(|number| {
            let template = of.get(number % of.len().max(1))?.as_ref()?;
            Some(self.ask(template, Some(number / of.len()), ""))
        });
        numbers.collect()
    }

    fn ask(&self, template: &Template, number: Option<usize>, each: &str) -> Ask {
        let namespace = template.r#in.as_ref().map_or_else(
            || self.namespace.to_owned(),
            |it| self.text(it, number, each, self.namespace),
        );
        let fill = |text: &str| self.text(text, number, each, &namespace);
        let kind = template.r#type.as_deref();
        let (media, is_patch) = media(kind.unwrap_or("json"));
        let send = match (&template.send, &template.list) {
            (Some(send), _) => fill(send),
            (None, Some(query)) => fill(&format!("GET {{events}}?{query}")),
            _ if is_patch => fill("PATCH {one}?fieldManager=hostile"),
            _ => fill("POST {events}"),
        };
        let (method, target) = send.split_once(' ').unwrap_or_default();
        let parts = [&template.name, &template.metadata, &template.fields];
        let is_plain = template.send.is_none() && template.list.is_none();
        let body = match &template.body {
            Some(body) => Some(fill(body)),
            None if is_plain || parts.iter().any(|it| it.is_some()) => {
                let [name, metadata, fields] = parts.map(|it| it.as_deref().map(fill));
                Some(event(
                    &namespace,
                    &name.unwrap_or_else(|| "web.1".to_owned()),
                    &metadata.unwrap_or_default(),
                    &fields.unwrap_or_default(),
                ))
            }
            None => None,
        };
        let mut headers: Vec<_> = (template.headers.iter())
            .map(|(name, value)| (name.clone(), fill(value)))
            .collect();
        for number in 0..self.size {
            for (name, value) in &template.many {
                headers.push((numbered(name, number, self.size), fill(value)));
            }
        }
        if body.is_some() {
            headers.push(("content-type".to_owned(), fill(media)));
        }
        let mut body = match body {
            Some(body) if template.latin || kind == Some("protobuf") => latin(&body),
            body => body.unwrap_or_default().into_bytes(),
        };
        if template.in_metadata {
            body = field(1, &body);
        }
        if kind == Some("protobuf") {
            body = enveloped(&body);
        }
        Ask {
            method: method.to_owned(),
            target: target.to_owned(),
            headers,
            has_token: !template.anonymous,
            body: body.into(),
        }
    }
}

/// The content type with this short name, and whether it is that of a patch.
fn media(name: &str) -> (&str, bool) {
    match name {
        "json" => ("application/json", false),
        "yaml" => ("application/yaml", false),
        "protobuf" => ("application/vnd.kubernetes.protobuf", false),
        "apply" => ("application/apply-patch+yaml", true),
        "merge" => ("application/merge-patch+json", true),
        "strategic" => ("application/strategic-merge-patch+json", true),
        "json-patch" => ("application/json-patch+json", true),
        other => (other, false),
    }
}

fn event(namespace: &str, name: &str, metadata: &str, fields: &str) -> String {
    format!(
        "{{\"apiVersion\":\"v1\",\"kind\":\"Event\",\"metadata\":{{\"name\":\"{name}\",\"namespace\":\"{namespace}\"{metadata}}},\
         \"involvedObject\":{{\"kind\":\"Pod\",\"namespace\":\"{namespace}\",\"name\":\"web\"}},\"reason\":\"BackOff\",\"type\":\"Normal\"{fields}}}"
    )
}

/// Fills in the number of a repetition.
fn numbered(text: &str, number: usize, count: usize) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('#') {
        filled.push_str(before);
        let mut letters = behind.chars();
        let sign = letters.next().unwrap_or_default();
        rest = letters.as_str();
        let value = match sign {
            '>' => number + 1,
            '<' => count - 1 - number,
            '+' => count + number,
            '/' | '%' => {
                let end = rest.find(|letter: char| !letter.is_ascii_digit());
                let (by, after) = rest.split_at(end.unwrap_or(rest.len()));
                rest = after;
                let by = by.parse::<usize>().unwrap_or(1);
                if sign == '/' {
                    number / by
                } else {
                    number % by
                }
            }
            's' | 'S' => {
                // A client's identifiers are odd.
                let stream = 2 * (number + usize::from(sign == 'S')) + 1;
                filled.extend((stream as u32).to_be_bytes().map(char::from));
                continue;
            }
            '~' => {
                // No two texts are alike.
                let (first, second) = NOISE.split_at(number * 1_000);
                filled.extend([second, first]);
                continue;
            }
            _ => {
                rest = behind;
                number
            }
        };
        filled.push_str(&value.to_string());
    }
    filled + rest
}

/// Repeats what is to be repeated.
fn expanded(text: &str, size: usize) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('‹') {
        filled.push_str(before);
        let (inner, after) = split_at_end(behind);
        rest = after;
        let is_count = |letter: char| letter.is_ascii_digit() || "n/+-".contains(letter);
        let (count, inner) = inner.split_at(inner.find(|it| !is_count(it)).unwrap_or(0));
        let count = counted(count, size);
        let (sign, inner) = inner.split_at(inner.len().min(1));
        if sign == "|" {
            let all: Vec<_> = inner.split('¦').collect();
            filled.push_str(all[count % all.len()]);
            continue;
        }
        let comma = if sign == "," { "," } else { "" };
        if inner.contains('#') {
            for number in 0..count {
                filled.push_str(&expanded(&numbered(inner, number, count), size));
                filled.push_str(comma);
            }
        } else {
            filled.push_str(&(expanded(inner, size) + comma).repeat(count));
        }
        if count > 0 && !comma.is_empty() {
            filled.pop();
        }
    }
    filled + rest
}

/// Splits a text at the bracket that closes the one before it.
fn split_at_end(text: &str) -> (&str, &str) {
    let mut depth = 0_usize;
    for (at, letter) in text.char_indices() {
        match letter {
            '‹' => depth += 1,
            '›' if depth == 0 => return (&text[..at], &text[at + letter.len_utf8()..]),
            '›' => depth -= 1,
            _ => {}
        }
    }
    (text, "")
}

/// The number of a size and of other numbers: `20+n`, `n/2`, `n-1`.
fn counted(text: &str, size: usize) -> usize {
    let number = |text: &str| text.parse::<usize>().unwrap_or(size);
    let term = |term: &str| {
        let (term, less) = term.split_once('-').unwrap_or((term, "0"));
        let (term, part) = term.split_once('/').unwrap_or((term, "1"));
        (number(term) / number(part)).saturating_sub(number(less))
    };
    text.split('+').map(term).sum()
}

/// The bytes of letters up to U+00FF.
fn latin(text: &str) -> Vec<u8> {
    debug_assert!(text.chars().all(|letter| letter <= '\u{ff}'), "{text}");
    text.chars().map(|letter| letter as u8).collect()
}

/// Encodes a length-delimited field of a protobuf message.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut message = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length >= 0x80 {
        message.push(length as u8 | 0x80);
        length >>= 7;
    }
    message.push(length as u8);
    message.extend_from_slice(bytes);
    message
}

/// Wraps an encoded event in `runtime.Unknown`.
fn enveloped(event: &[u8]) -> Vec<u8> {
    let kind = [field(1, b"v1"), field(2, b"Event")].concat();
    [b"k8s\0".to_vec(), field(1, &kind), field(2, event)].concat()
}

/// A text of nearly the maximum size that does not compress well.
static NOISE: LazyLock<String> = LazyLock::new(|| {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut letter = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'a' + (state >> 33) as u8 % 26)
    };
    (0..1_400_000).map(|_| letter()).collect()
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_filled_in() {
        for (template, expected) in [
            ("‹n*ab›", "ababab"),
            ("[‹n,\"#\"›]", "[\"0\",\"1\",\"2\"]"),
            ("‹n-1*a#>: ‹#*.›,#<,#+›", "a1: ,1,2a2: .,0,3"),
            ("‹1+n,‹#|a¦b›#/2#%2›", "a00,b01,a10,b11"),
            ("‹n/2*‹2*x››", "xx"),
        ] {
            assert_eq!(expanded(template, 3), expected, "{template}");
        }
        assert_eq!(latin(&numbered("#s#S", 63, 64)), b"\0\0\0\x7f\0\0\0\x81");
    }

    #[test]
    fn every_kind_has_a_name_of_its_own_and_a_script() {
        let table = Table::read().expect("the table can be read");
        let mut names = std::collections::BTreeSet::new();
        for kind in &table.kinds {
            assert!(names.insert(&kind.name), "{}", kind.name);
            let sent = kind.ask.iter().chain(&kind.asks).chain(&kind.then);
            let at_once = kind.read.iter().chain(&kind.unread).flatten();
            for list in sent
                .chain(&kind.after)
                .chain(at_once)
                .flat_map(|it| &it.each)
            {
                assert!(table.lists.contains_key(list), "{}: {list}", kind.name);
            }
            let Script { before, act } = kind.script(&table, 8, "shop");
            if let Some(connections) = &kind.connections {
                let is_known = ["idle", "one after the other"].contains(&&**connections);
                assert!(is_known, "{}", kind.name);
            }
            let asks = match act {
                Act::Requests(asks) => asks,
                Act::AtOnce(asks) => [asks.read, asks.unread, asks.then].concat(),
                Act::Bytes(_, bytes) => {
                    assert!(!has_placeholder(&bytes), "{}", kind.name);
                    continue;
                }
                Act::Connections(..) => continue,
            };
            assert!(!asks.is_empty(), "{}", kind.name);
            let mut last_size = 0;
            for ask in asks.iter().chain(&before) {
                let left = ask.target.contains(['‹', '{', '#']);
                assert!(!left && ask.request("t").is_ok(), "{}", kind.name);
                // Repetitions of a long body take long, and differ by their numbers only.
                let size = std::mem::replace(&mut last_size, ask.body.len());
                let is_known = size == last_size && size > 20_000;
                assert!(is_known || !has_placeholder(&ask.body), "{}", kind.name);
            }
        }
        assert_eq!(names.len(), 188);
    }

    /// Whether a bracket, the number of a repetition, or a word such as `{ns}` is left.
    fn has_placeholder(sent: &[u8]) -> bool {
        let sent = String::from_utf8_lossy(sent);
        let mut words = sent.split('{').skip(1).filter_map(|it| it.split_once('}'));
        let is_word = |word: &str| {
            !word.is_empty() && word.chars().all(|letter| letter.is_ascii_alphanumeric())
        };
        let mut signs = ['‹', '›', '¦', '#'].into_iter();
        signs.any(|sign| sent.contains(sign)) || words.any(|(word, _)| is_word(word))
    }
}
