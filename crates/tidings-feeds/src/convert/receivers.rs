//! Receivers of kubernetes-event-exporter, as receivers of feeds.
//!
//! Invariant: no secret is in what is written. Its place is a file, which is named.

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};

use super::environment::{expanded, has_variable};
use super::findings::Notes;
use super::layout;
use super::tree::Node;
use crate::encode::elasticsearch::Index;
use crate::encode::loki::{Label, Labels};
use crate::encode::webhook::Template;

/// Kinds of receivers that feeds do not have, each with what to do.
const WITHOUT_FEED: [(&str, &str); 16] = [
    ("kafka", COLLECTOR),
    ("kinesis", COLLECTOR),
    ("firehose", COLLECTOR),
    ("sns", COLLECTOR),
    ("sqs", COLLECTOR),
    ("pubsub", COLLECTOR),
    ("eventbridge", COLLECTOR),
    ("syslog", COLLECTOR),
    (
        "bigquery",
        "seal the archive to a bucket (`--objects gs://…`): BigQuery reads its Parquet",
    ),
    ("slack", ALERTS),
    ("teams", ALERTS),
    ("opsgenie", ALERTS),
    ("opscenter", ALERTS),
    ("prometheus", "the archive has metrics of events"),
    (
        "pipe",
        "feeds write to files and standard output, not to pipes",
    ),
    ("inMemory", "it is for tests of kubernetes-event-exporter"),
];
/// Paths of standard output.
const STDOUT: [&str; 3] = ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];
const COLLECTOR: &str =
    "feeds do not have it: send OTLP to an OpenTelemetry collector, and from there";
const ALERTS: &str = "feeds do not have it: alert on the metrics of events with Alertmanager";

/// A receiver as a feed has it: its members, in order.
pub(super) type Members = Vec<(&'static str, Value)>;

/// Returns the members of a feed for a receiver; `None` if feeds have none like it. `feed` is the
/// name of the feed, for the names of files with secrets.
pub(super) fn receiver(
    receiver: &Node,
    path: &str,
    feed: &str,
    notes: &mut Notes,
) -> Option<Members> {
    let mut found = None;
    for (kind, node) in receiver.members() {
        let path = format!("{path}.{kind}");
        let mut reader = Reader {
            node,
            path: &path,
            feed,
            notes,
        };
        let members = match kind.as_str() {
            "name" => continue,
            "stdout" => Some(reader.stdout()),
            "file" => reader.file(),
            "webhook" => reader.webhook(),
            "elasticsearch" | "opensearch" => reader.elasticsearch(),
            "loki" => reader.loki(),
            other => {
                let known = WITHOUT_FEED.iter().find(|(name, _)| *name == other);
                let why = known.map_or("kubernetes-event-exporter has no such receiver", |it| it.1);
                let why = format!("no feed is written: {why}");
                notes.add(node.line, &path, &why);
                continue;
            }
        };
        found = found.or(members);
    }
    found
}

/// Reads one receiver.
struct Reader<'a> {
    node: &'a Node,
    path: &'a str,
    feed: &'a str,
    notes: &'a mut Notes,
}

/// Credentials that a URL had.
struct Login {
    username: String,
    /// The member of the receiver that had the URL.
    member: String,
}

impl Reader<'_> {
    fn note(&mut self, name: &str, why: &str) {
        if let Some(node) = self.node.get(name) {
            self.notes
                .add(node.line, &format!("{}.{name}", self.path), why);
        }
    }

    fn text(&mut self, name: &str) -> Option<String> {
        let node = self.node.get(name)?;
        let text = expanded(node, &format!("{}.{name}", self.path), self.notes);
        (!text.is_empty()).then_some(text)
    }

    /// Names the file of a secret, which is not in what is written.
    fn secret(&mut self, name: &str) -> Option<Value> {
        self.node.get(name).filter(|node| !node.text().is_empty())?;
        let file = format!("{}-{}", self.feed, name.to_ascii_lowercase());
        self.note(
            name,
            &format!("write the secret into the file {file} beside the feeds"),
        );
        Some(json!(file))
    }

    /// Splits the credentials off the URL that the member `name` has, which a feed's URL must not
    /// have. Returns the rest of the URL, and the credentials.
    fn without_login(&mut self, name: &str, url: String) -> (String, Option<Login>) {
        let (scheme, rest) = url.split_at(url.find("://").map_or(0, |at| at + "://".len()));
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let Some((login, _)) = rest[..end].rsplit_once('@') else {
            return (url, None);
        };
        let bare = format!("{scheme}{}", &rest[login.len() + 1..]);
        let login = login.split_once(':');
        let Some((username, _)) = login.filter(|(_, password)| !password.is_empty()) else {
            let why = "the name in the URL is not taken over: without a password it may be a \
                       secret itself";
            self.note(name, why);
            return (bare, None);
        };
        let username = percent_decode_str(username).decode_utf8_lossy();
        let login = Login {
            username: username.into_owned(),
            member: name.to_owned(),
        };
        (bare, Some(login))
    }

    /// Adds the credentials of a URL, unless a header has others.
    fn login(&mut self, login: Option<Login>, connection: &mut Map<String, Value>) {
        let Some(Login { username, member }) = login else {
            return;
        };
        let headers = connection.get("headerFiles").and_then(Value::as_object);
        let is_authorization = |name: &String| name.eq_ignore_ascii_case("authorization");
        if headers.is_some_and(|headers| headers.keys().any(is_authorization)) {
            let why = "the password in the URL is not taken over: the header Authorization is used";
            return self.note(&member, why);
        }
        let file = format!("{}-password", self.feed);
        let why = format!(
            "write the password of the URL, without its %-encoding, into the file {file} beside \
             the feeds"
        );
        self.note(&member, &why);
        connection.insert("username".to_owned(), username.into());
        connection.insert("passwordFile".to_owned(), file.into());
    }

    /// Notes members that other code does not read, and what holds for most receivers.
    fn note_others(&mut self, read: &[&str]) {
        for (name, node) in self.node.members() {
            let why = match name.as_str() {
                name if read.contains(&name) => continue,
                "layout" => {
                    "not taken over: only webhooks have templates, and every record has all \
                     fields of the event"
                }
                "deDot" if !node.is_true() => continue,
                "deDot" => "not needed: labels are no fields of their own",
                _ => "not taken over",
            };
            self.note(name, why);
        }
    }

    fn stdout(&mut self) -> Members {
        self.note_others(&[]);
        vec![("stdout", json!({}))]
    }

    fn file(&mut self) -> Option<Members> {
        const ROTATION: [&str; 3] = ["maxsize", "maxbackups", "maxage"];
        self.note_others(&["path", ROTATION[0], ROTATION[1], ROTATION[2]]);
        let path = self.text("path")?;
        if STDOUT.contains(&path.as_str()) {
            for name in ROTATION {
                self.note(name, "not needed: standard output is not rotated");
            }
            return Some(vec![("stdout", json!({}))]);
        }
        if path.starts_with("/dev/") || path.starts_with("/proc/") {
            let why = "no feed is written: feeds write to regular files and standard output";
            self.note("path", why);
            return None;
        }
        self.note(
            "maxage",
            "not taken over: rotated files are kept by their number (`keep`)",
        );
        let mut file = Map::new();
        file.insert("path".to_owned(), path.into());
        let node = self.node;
        let number = |name: &str| node.get(name)?.text().parse::<u32>().ok();
        // Both write files of 100 MB if nothing is said.
        if let Some(megabytes) = number("maxsize").filter(|size| *size > 0) {
            file.insert("rotate".to_owned(), format!("{megabytes}Mi").into());
        }
        if let Some(keep) = number("maxbackups").filter(|keep| *keep > 0) {
            file.insert("keep".to_owned(), keep.into());
        } else {
            let line = node.get("maxbackups").unwrap_or(node).line;
            let why = "without a number all rotated files stay there; here five do: see `keep`";
            self.notes
                .add(line, &format!("{}.maxbackups", self.path), why);
        }
        Some(vec![("file", file.into())])
    }

    fn webhook(&mut self) -> Option<Members> {
        self.note_others(&["endpoint", "headers", "tls", "layout"]);
        let url = self.text("endpoint")?;
        let (url, login) = self.without_login("endpoint", url);
        let body = if let Some(layout) = self.node.get("layout") {
            layout::template(layout, &format!("{}.layout", self.path), self.notes)
        } else {
            let why = "the body is the event, without clusterName, and without labels, \
                       annotations and owners of its object";
            self.note("endpoint", why);
            "{{ event }}".to_owned()
        };
        if let Err(why) = Template::parse(&body) {
            self.note("layout", &format!("no feed is written: {why}"));
            return None;
        }
        let webhook = json!({"url": url, "form": "template", "body": body});
        let mut connection = self.tls(&url);
        self.headers(&mut connection);
        self.login(login, &mut connection);
        Some(with_connection("webhook", webhook, connection))
    }

    fn elasticsearch(&mut self) -> Option<Members> {
        self.note("type", "not needed: types ended with Elasticsearch 7");
        self.note_others(&[
            "hosts",
            "username",
            "password",
            "apiKey",
            "headers",
            "useEventID",
            "index",
            "indexFormat",
            "tls",
            "type",
            "cloudID",
        ]);
        let hosts = self.node.get("hosts").map_or(&[][..], Node::items);
        let Some(host) = hosts.first() else {
            let why = "no feed is written: it needs the URL of the cluster, as in `url:`";
            let name = if self.node.get("cloudID").is_some() {
                "cloudID"
            } else {
                ""
            };
            let path = format!("{}.{name}", self.path);
            self.notes
                .add(self.node.line, path.trim_end_matches('.'), why);
            return None;
        };
        let url = expanded(host, &format!("{}.hosts[0]", self.path), self.notes);
        let (url, login) = self.without_login("hosts", url);
        if hosts.len() > 1 {
            self.note(
                "hosts",
                "a feed has one URL: name a balancer, or take the first as here",
            );
        }
        self.note("cloudID", "not taken over: the URL of the cluster is used");
        let mut receiver = Map::from_iter([("url".to_owned(), json!(url))]);
        let format = self
            .text("indexFormat")
            .map(|text| (date_of(&text), "indexFormat"));
        if format.is_some() {
            self.note("index", "not taken over: indexFormat is used");
        }
        let index = format.or(self.text("index").map(|text| (text, "index")));
        let mut is_dated = false;
        if let Some((index, name)) = index {
            if let Ok(parsed) = Index::parse(&index) {
                is_dated = parsed.is_dated();
                receiver.insert("index".to_owned(), index.into());
            } else {
                let why = format!("{index:?} is no index of a feed: kubernetes-events is used");
                self.note(name, &why);
            }
        }
        if self.node.get("useEventID").is_some_and(Node::is_true) {
            if is_dated {
                let why = "not taken over: an event would have a document in the index of each day";
                self.note("useEventID", why);
            } else {
                receiver.insert("mode".to_owned(), "latest".into());
            }
        }
        let mut connection = self.tls(&url);
        if login.is_some() {
            // Clients of Elasticsearch prefer the URL's.
            for name in ["apiKey", "username", "password"] {
                self.note(name, "not taken over: the URL has a name and a password");
            }
        } else if let Some(file) = self.secret("apiKey") {
            connection.insert("apiKeyFile".to_owned(), file);
            self.note("password", "not taken over: the apiKey is used");
        } else if let Some(name) = self.text("username") {
            connection.insert("username".to_owned(), name.into());
            let file = self.secret("password");
            let file = file.unwrap_or_else(|| json!(format!("{}-password", self.feed)));
            connection.insert("passwordFile".to_owned(), file);
        }
        self.headers(&mut connection);
        self.login(login, &mut connection);
        Some(with_connection(
            "elasticsearch",
            receiver.into(),
            connection,
        ))
    }

    fn loki(&mut self) -> Option<Members> {
        self.note_others(&["url", "headers", "streamLabels", "tls"]);
        let url = self.text("url")?;
        let (url, login) = self.without_login("url", url);
        // Lines have the event's fields, not its JSON; both are objects.
        let mut loki = Map::from_iter([
            ("url".to_owned(), json!(url)),
            ("line".to_owned(), "json".into()),
        ]);
        let mut labels = Map::new();
        let mut named = std::collections::BTreeMap::new();
        let stream = self.node.get("streamLabels").map_or(&[][..], Node::members);
        for (name, node) in stream {
            let path = format!("{}.streamLabels.{name}", self.path);
            let text = expanded(node, &path, self.notes);
            let field = match text.replace([' ', '{', '}'], "").as_str() {
                _ if !text.contains("{{") => None,
                ".InvolvedObject.Namespace" | ".Namespace" => Some(("namespace", Label::Namespace)),
                ".InvolvedObject.Kind" => Some(("kind", Label::Kind)),
                ".Reason" => Some(("reason", Label::Reason)),
                ".Type" => Some(("type", Label::Type)),
                ".Source.Component" => Some(("controller", Label::Controller)),
                ".Source.Host" => Some(("node", Label::Node)),
                ".ClusterName" => Some(("cluster", Label::Cluster)),
                _ => {
                    let why = format!("not taken over: no label of a feed is like {text}");
                    self.notes.add(node.line, &path, &why);
                    continue;
                }
            };
            let (value, label) = match field {
                Some((field, label)) => {
                    let why = "kubernetes-event-exporter sends the template itself; here the label \
                               has the event's value";
                    self.notes.add(node.line, &path, why);
                    (json!(field), label)
                }
                None => (json!({"text": text}), Label::Text(text)),
            };
            labels.insert(name.clone(), value);
            named.insert(name.clone(), label);
        }
        match Labels::list(named) {
            Ok(_) => {
                loki.insert("labels".to_owned(), labels.into());
            }
            Err(why) if !stream.is_empty() => {
                self.note("streamLabels", &format!("not taken over: {why}"));
            }
            Err(_) => {
                let why = "without streamLabels Loki has taken nothing; the labels of \
                           k8s-monitoring are used";
                self.note("url", why);
            }
        }
        let mut connection = self.tls(&url);
        self.headers(&mut connection);
        self.login(login, &mut connection);
        // The tenant is a setting of its own.
        if let Some(Value::Object(headers)) = connection.get_mut("headers") {
            let name = headers
                .keys()
                .find(|name| name.eq_ignore_ascii_case("x-scope-orgid"));
            let tenant = name.cloned().and_then(|name| headers.remove(&name));
            loki.extend(tenant.map(|tenant| ("tenant".to_owned(), tenant)));
            if headers.is_empty() {
                connection.remove("headers");
            }
        }
        Some(with_connection("loki", loki.into(), connection))
    }

    /// Returns the settings of a connection for `tls`.
    fn tls(&mut self, url: &str) -> Map<String, Value> {
        let mut connection = Map::new();
        let Some(tls) = self.node.get("tls") else {
            return connection;
        };
        for (name, node) in tls.members() {
            let path = format!("{}.tls.{name}", self.path);
            let text = expanded(node, &path, self.notes);
            if text.is_empty() {
                continue;
            }
            match name.as_str() {
                "caFile" => connection.insert("ca".to_owned(), text.into()),
                "certFile" => connection.insert("certificate".to_owned(), text.into()),
                "keyFile" => connection.insert("key".to_owned(), text.into()),
                "insecureSkipVerify" if text != "true" => None,
                "insecureSkipVerify" => {
                    let host = url.parse::<http::Uri>().ok();
                    let host = host.as_ref().and_then(http::Uri::host).unwrap_or_default();
                    connection.insert("insecureSkipVerify".to_owned(), host.into())
                }
                _ => {
                    self.notes.add(node.line, &path, "not taken over");
                    None
                }
            };
        }
        connection
    }

    /// Adds headers. Those that may have secrets are in files.
    fn headers(&mut self, connection: &mut Map<String, Value>) {
        let (mut headers, mut files) = (Map::new(), Map::new());
        for (name, node) in self.node.get("headers").map_or(&[][..], Node::members) {
            let lower = name.to_ascii_lowercase();
            let words = ["auth", "cookie", "key", "token", "secret", "password"];
            if has_variable(node.text()) || words.iter().any(|word| lower.contains(word)) {
                let file = format!("{}-{lower}", self.feed);
                let path = format!("{}.headers.{name}", self.path);
                let why = format!("write the header's value into the file {file} beside the feeds");
                self.notes.add(node.line, &path, &why);
                files.insert(name.clone(), file.into());
            } else {
                headers.insert(name.clone(), node.text().into());
            }
        }
        for (name, map) in [("headers", headers), ("headerFiles", files)] {
            if !map.is_empty() {
                connection.insert(name.to_owned(), map.into());
            }
        }
    }
}

fn with_connection(kind: &'static str, receiver: Value, connection: Map<String, Value>) -> Members {
    let mut members = vec![(kind, receiver)];
    if !connection.is_empty() {
        members.push(("connection", connection.into()));
    }
    members
}

/// Returns an index whose date in braces is in Go's form with the form of feeds.
fn date_of(format: &str) -> String {
    let Some((before, rest)) = format.split_once('{') else {
        return format.to_owned();
    };
    let Some((date, after)) = rest.split_once('}') else {
        return format.to_owned();
    };
    let date = date
        .replace("2006", "yyyy")
        .replace("01", "MM")
        .replace("02", "dd");
    format!("{before}{{{date}}}{after}")
}
