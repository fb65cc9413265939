//! The file of an archive's feeds (`tidings archive --feeds`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_saphyr::Spanned;
use tidings_core::filter::Filter;
use tidings_core::validate::check_dns1123_label;
use tidings_feeds::encode::clickhouse::{ClickHouse, Table};
use tidings_feeds::encode::elasticsearch::{Elasticsearch, ElasticsearchOptions, Index, Mode};
use tidings_feeds::encode::loki::{Labels, Line, Loki, LokiOptions};
use tidings_feeds::encode::otlp::{Names, Otlp};
use tidings_feeds::encode::webhook::{Template, Webhook};
use tidings_feeds::{
    Conditions, Connection, Credentials, FEEDS_MAX, FeedOptions, FileOptions, Form, From,
    NAME_LEN_MAX, ReceiverOptions,
};

use crate::{times, values};

/// Maximum period of `every`: it is well within the bounds of the backlog.
const EVERY_MAX: Duration = Duration::from_secs(86_400);

/// Headers whose values are secrets.
const SECRETS: [&str; 6] = [
    "api-key",
    "authorization",
    "cookie",
    "proxy-authorization",
    "x-api-key",
    "x-vault-token",
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    feeds: Vec<Spanned<Feed>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Feed {
    name: String,
    #[serde(default, deserialize_with = "from")]
    from: From,
    #[serde(default, deserialize_with = "filter")]
    filter: Filter,
    #[serde(default)]
    r#match: Conditions,
    #[serde(default, deserialize_with = "every")]
    every: Option<Duration>,
    connection: Option<ConnectionSetting>,
    stdout: Option<Stdout>,
    metrics: Option<Stdout>,
    file: Option<FileSetting>,
    webhook: Option<WebhookSetting>,
    loki: Option<LokiSetting>,
    otlp: Option<OtlpSetting>,
    elasticsearch: Option<ElasticsearchSetting>,
    clickhouse: Option<ClickHouseSetting>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stdout {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileSetting {
    path: PathBuf,
    #[serde(default, deserialize_with = "bytes")]
    rotate: Option<u64>,
    keep: Option<u32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WebhookSetting {
    #[serde(deserialize_with = "url")]
    url: Uri,
    #[serde(default)]
    form: WebhookForm,
    #[serde(default, deserialize_with = "body")]
    body: Option<Template>,
    secret_file: Option<PathBuf>,
}

#[derive(Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum WebhookForm {
    #[default]
    Batch,
    Single,
    Template,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LokiSetting {
    #[serde(deserialize_with = "url")]
    url: Uri,
    tenant: Option<String>,
    #[serde(default)]
    labels: Labels,
    #[serde(default)]
    line: Line,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OtlpSetting {
    #[serde(deserialize_with = "url")]
    url: Uri,
    #[serde(default)]
    names: Names,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ElasticsearchSetting {
    #[serde(deserialize_with = "url")]
    url: Uri,
    #[serde(default)]
    index: Index,
    #[serde(default)]
    mode: Mode,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClickHouseSetting {
    #[serde(deserialize_with = "url")]
    url: Uri,
    #[serde(default)]
    table: Table,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ConnectionSetting {
    ca: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    insecure_skip_verify: Option<String>,
    #[serde(default, deserialize_with = "proxy")]
    proxy: Option<Uri>,
    #[serde(default, deserialize_with = "timeout")]
    timeout: Option<Duration>,
    compression: Option<Compression>,
    token_file: Option<PathBuf>,
    api_key_file: Option<PathBuf>,
    username: Option<String>,
    password_file: Option<PathBuf>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    header_files: BTreeMap<String, PathBuf>,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Compression {
    Gzip,
    None,
}

fn from<'de, D: Deserializer<'de>>(value: D) -> Result<From, D::Error> {
    match String::deserialize(value)?.as_str() {
        "now" => Ok(From::Now),
        "oldest" => Ok(From::Oldest),
        ago => times::positive_duration(ago).map(From::Ago).map_err(|_| {
            let accepted = "expected now, oldest, or a duration such as 7d";
            D::Error::custom(format_args!("from: {accepted}"))
        }),
    }
}

fn filter<'de, D: Deserializer<'de>>(value: D) -> Result<Filter, D::Error> {
    let filter = String::deserialize(value)?.parse();
    filter.map_err(|why| D::Error::custom(format_args!("filter: {why}")))
}

fn body<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Template>, D::Error> {
    let found = Template::parse(&String::deserialize(value)?);
    found.map(Some).map_err(D::Error::custom)
}

fn duration<'de, D: Deserializer<'de>>(value: D, key: &str) -> Result<Option<Duration>, D::Error> {
    let found = times::duration_of_seconds(&String::deserialize(value)?);
    let found = found.map_err(|why| D::Error::custom(format_args!("{key}: {why}")))?;
    Ok(Some(found))
}

fn timeout<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Duration>, D::Error> {
    duration(value, "timeout")
}

fn every<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Duration>, D::Error> {
    let found = duration(value, "every")?;
    if found.is_some_and(|every| every > EVERY_MAX) {
        return Err(D::Error::custom("every: expected at most 1d"));
    }
    Ok(found)
}

fn bytes<'de, D: Deserializer<'de>>(value: D) -> Result<Option<u64>, D::Error> {
    let found = values::bytes(&String::deserialize(value)?);
    let found = found.ok().filter(|bytes| *bytes >= 1 << 20);
    let found = found.ok_or_else(|| D::Error::custom("rotate: expected at least 1Mi"))?;
    Ok(Some(found as u64))
}

fn url<'de, D: Deserializer<'de>>(value: D) -> Result<Uri, D::Error> {
    let text = String::deserialize(value)?;
    let url = text.parse::<Uri>().ok();
    let is_http = |url: &Uri| matches!(url.scheme_str(), Some("http" | "https"));
    let url = url.filter(|url| is_http(url) && url.host().is_some());
    let url = url.ok_or_else(|| D::Error::custom("url: expected one at http:// or https://"))?;
    let has_login = url.authority().is_some_and(|it| it.as_str().contains('@'));
    if has_login {
        let why = "url: a password is given by passwordFile of connection";
        return Err(D::Error::custom(why));
    }
    Ok(url)
}

fn proxy<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Uri>, D::Error> {
    let found = tidings_connect::proxy::of_kubeconfig(&String::deserialize(value)?);
    let found = found.map_err(|why| D::Error::custom(format_args!("proxy: {why}")))?;
    Ok(Some(found))
}

/// Returns a path without symbolic links, as far as it exists.
fn resolved(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    path.canonicalize()
        .unwrap_or_else(|_| match (path.parent(), path.file_name()) {
            (Some(folder), Some(name)) => resolved(folder).join(name),
            _ => path,
        })
}

/// Parses a file of feeds in YAML or JSON. Relative paths begin at `folder`, that of the file. No
/// feed may write a file in the archive's data folder, or that of another feed.
///
/// # Errors
/// The error, with its line in the file.
pub fn parse(text: &str, folder: &Path, data_dir: &Path) -> Result<Vec<FeedOptions>, String> {
    let file: File =
        serde_saphyr::from_str(text).map_err(|error| error.without_snippet().to_string())?;
    let (mut names, mut files) = (BTreeSet::new(), BTreeSet::new());
    let mut feeds = Vec::new();
    for entry in file.feeds {
        let line = entry.referenced.line();
        let name = entry.value.name.clone();
        let wrong = |why: String| format!("line {line}: feed {name:?}: {why}");
        if !check_dns1123_label(&name).is_empty() || name.len() > NAME_LEN_MAX {
            return Err(wrong(format!(
                "expected a name of lower-case letters, digits and '-', at most {NAME_LEN_MAX}"
            )));
        }
        if !names.insert(name.clone()) {
            return Err(wrong("there is another feed with this name".to_owned()));
        }
        if names.len() > FEEDS_MAX {
            return Err(wrong(format!("an archive has at most {FEEDS_MAX} feeds")));
        }
        let feed = entry.value.options(folder).map_err(&wrong)?;
        let is_metrics = |feed: &FeedOptions| matches!(feed.receiver, ReceiverOptions::Metrics);
        if is_metrics(&feed) && feeds.iter().any(is_metrics) {
            return Err(wrong("there is another feed with metrics".to_owned()));
        }
        if let ReceiverOptions::File(file) = &feed.receiver {
            let path = resolved(&file.path);
            let shown = file.path.display();
            if path.starts_with(resolved(data_dir)) {
                return Err(wrong(format!("file: {shown} is in the data folder")));
            }
            if !files.insert(path) {
                return Err(wrong(format!("file: another feed writes {shown}")));
            }
        }
        feeds.push(feed);
    }
    Ok(feeds)
}

impl Feed {
    fn options(self, folder: &Path) -> Result<FeedOptions, String> {
        let at = |path: PathBuf| folder.join(path);
        let mut all: Vec<ReceiverOptions> = Vec::new();
        if self.stdout.is_some() {
            all.push(ReceiverOptions::Stdout);
        }
        if self.metrics.is_some() {
            all.push(ReceiverOptions::Metrics);
        }
        if let Some(file) = self.file {
            all.push(ReceiverOptions::File(FileOptions {
                path: at(file.path),
                rotate: file.rotate.unwrap_or(100 << 20),
                keep: file.keep.unwrap_or(5),
            }));
        }
        let mut http = Vec::new();
        let mut signature = None;
        if let Some(webhook) = self.webhook {
            let form = match (webhook.form, webhook.body) {
                (WebhookForm::Batch, None) => Webhook::Batch,
                (WebhookForm::Single, None) => Webhook::Single,
                (WebhookForm::Template, Some(template)) => Webhook::Template(template),
                (WebhookForm::Template, None) => {
                    return Err("webhook: form: template needs a body".to_owned());
                }
                (_, Some(_)) => return Err("webhook: body needs form: template".to_owned()),
            };
            signature = webhook.secret_file.map(at);
            http.push((webhook.url, false, Form::Webhook(form)));
        }
        if let Some(loki) = self.loki {
            let options = LokiOptions {
                tenant: loki
                    .tenant
                    .map(|tenant| header("tenant", &tenant))
                    .transpose()?,
                labels: loki.labels,
                line: loki.line,
            };
            http.push((loki.url, true, Form::Loki(Loki::new(options))));
        }
        if let Some(otlp) = self.otlp {
            http.push((otlp.url, true, Form::Otlp(Otlp::new(otlp.names))));
        }
        if let Some(ElasticsearchSetting { url, index, mode }) = self.elasticsearch {
            if mode == Mode::Latest && index.is_dated() {
                let why = "mode: latest needs an index without a date: an event that is seen on two \
                           days would have a document for each";
                return Err(why.to_owned());
            }
            let encoder = Elasticsearch::new(ElasticsearchOptions { index, mode });
            http.push((url, true, Form::Elasticsearch(encoder)));
        }
        if let Some(ClickHouseSetting { url, table }) = self.clickhouse {
            http.push((url, true, Form::ClickHouse(ClickHouse::new(table))));
        }
        let has_http = !http.is_empty();
        if self.connection.is_some() && !has_http {
            return Err("connection is for receivers with a URL".to_owned());
        }
        let setting = self.connection.unwrap_or_default();
        if all.len() + http.len() != 1 {
            return Err(
                "expected one receiver: stdout, metrics, file, webhook, loki, otlp, elasticsearch or clickhouse"
                    .to_owned(),
            );
        }
        if let Some((url, is_compressed, form)) = http.pop() {
            let mut connection = setting.connection(url, is_compressed, folder)?;
            connection.signature = signature;
            all.push(ReceiverOptions::Http(Box::new(connection), form));
        }
        // There is one.
        let receiver = all.pop().unwrap_or(ReceiverOptions::Stdout);
        let mut options = FeedOptions::new(&self.name, receiver);
        (options.from, options.every) = (self.from, self.every);
        (options.filter, options.conditions) = (self.filter, self.r#match);
        Ok(options)
    }
}

fn header(key: &str, text: &str) -> Result<HeaderValue, String> {
    let value = HeaderValue::try_from(text);
    // The value may be a secret.
    value.map_err(|_| format!("{key}: a value has characters that no header can have"))
}

fn header_name(key: &str, name: &str) -> Result<HeaderName, String> {
    let found = HeaderName::try_from(name);
    found.map_err(|_| format!("connection: {key}: {name:?} is no name of a header"))
}

impl ConnectionSetting {
    fn connection(
        self,
        url: Uri,
        is_compressed: bool,
        folder: &Path,
    ) -> Result<Connection, String> {
        let at = |path: PathBuf| folder.join(path);
        let mut found = Connection::new(url);
        found.certificate = match (self.certificate, self.key) {
            (Some(certificate), Some(key)) => Some((at(certificate), at(key))),
            (None, None) => None,
            _ => return Err("connection: certificate and key are given together".to_owned()),
        };
        if let Some(host) = self.insecure_skip_verify {
            let expected = found.url.host().unwrap_or_default();
            if host != expected {
                return Err(format!(
                    "connection: insecureSkipVerify: expected the host whose certificate is not verified: {expected}"
                ));
            }
            found.insecure_skip_verify = true;
        }
        let mut all = Vec::new();
        all.extend(self.token_file.map(|path| Credentials::Token(at(path))));
        all.extend(self.api_key_file.map(|path| Credentials::ApiKey(at(path))));
        match (self.username, self.password_file) {
            (None, None) => {}
            (Some(name), Some(path)) => all.push(Credentials::Password(name, at(path))),
            _ => return Err("connection: username and passwordFile are given together".to_owned()),
        }
        if all.len() > 1 {
            return Err(
                "connection: expected one of tokenFile, apiKeyFile, and username with passwordFile"
                    .to_owned(),
            );
        }
        found.credentials = all.pop().unwrap_or_default();
        found.ca = self.ca.map(at);
        found.proxy = self.proxy;
        found.timeout = self.timeout.unwrap_or(found.timeout);
        found.gzip = self
            .compression
            .map_or(is_compressed, |it| it == Compression::Gzip);
        let mut headers = HeaderMap::new();
        for (name, text) in self.headers {
            let name = header_name("headers", &name)?;
            if SECRETS.contains(&name.as_str()) {
                return Err(format!(
                    "connection: headers: {name} is a secret: name its file in headerFiles"
                ));
            }
            headers.insert(name, header("headers", &text)?);
        }
        found.headers = headers;
        for (name, path) in self.header_files {
            let name = header_name("headerFiles", &name)?;
            found.header_files.push((name, at(path)));
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Vec<FeedOptions>, String> {
        parse(text, Path::new("/etc/tidings"), Path::new("/data/archive"))
    }

    #[test]
    fn feeds_are_read() {
        let feeds = parsed(
            "feeds:
- name: lines
  from: 7d
  every: 5m
  filter: 'type:Warning -reason:BackOff'
  match: {namespace: 'shop-*', not: {reason: [Pulled, Pulling]}}
  file: {path: events.jsonl, rotate: 10Mi, keep: 2}
- name: hook
  webhook: {url: 'https://hook.example/in?x=1', form: single, secretFile: secret}
  connection: {tokenFile: token, insecureSkipVerify: hook.example, headers: {X-A: b}}
- name: loki
  loki: {url: 'http://loki:3100/loki/api/v1/push', tenant: ops, labels: {env: {text: prod}, reason: reason}}
- name: old
  loki: {url: 'http://loki:3100/loki/api/v1/push', labels: alloy, line: json}
- name: otel
  otlp: {url: 'https://otel:4318', names: k8sevents}
- name: es
  elasticsearch: {url: 'https://es:9200', index: events, mode: latest}
- name: ch
  clickhouse: {url: 'https://ch:8443', table: events}
- name: out
  stdout: {}
",
        );
        let feeds = feeds.unwrap();
        assert_eq!(feeds.len(), 8);
        assert_eq!(feeds[0].from, From::Ago(Duration::from_secs(7 * 86_400)));
        assert_eq!(feeds[0].every, Some(Duration::from_secs(300)));
        let ReceiverOptions::File(file) = &feeds[0].receiver else {
            panic!("{feeds:?}");
        };
        assert_eq!(file.path, Path::new("/etc/tidings/events.jsonl"));
        let ReceiverOptions::Http(connection, Form::Webhook(form)) = &feeds[1].receiver else {
            panic!("{feeds:?}");
        };
        assert!(
            matches!(form, Webhook::Single) && connection.insecure_skip_verify && !connection.gzip
        );
        assert_eq!(
            connection.signature.as_deref(),
            Some(Path::new("/etc/tidings/secret"))
        );
    }

    /// Checks the errors of feeds. Columns: a feed, its line and the key in the error.
    fn check_errors(cases: &[(&str, &str, &str)]) {
        for (feed, line, key) in cases {
            let why = parsed(&format!("feeds:\n{feed}\n")).unwrap_err();
            assert!(why.contains(line) && why.contains(key), "{feed}: {why}");
        }
    }

    #[test]
    fn errors_name_the_line_and_the_key() {
        check_errors(&[
            ("- name: a\n  stdout: {}\n  fliter: x", "line 4", "fliter"),
            (
                "- name: a\n  stdout: {}\n  every: soon",
                "line 4",
                "every: expected a duration",
            ),
            (
                "- name: a\n  stdout: {}\n  filter: 'raeson:x'",
                "line 4",
                "filter",
            ),
            (
                "- name: a\n  file: {path: x, rotate: 1Gi, kepe: 3}",
                "line 3",
                "kepe",
            ),
            ("- name: a\n  every: 2d\n  stdout: {}", "line 3", "every"),
            ("- name: a\n  from: later\n  stdout: {}", "line 3", "from"),
            (
                "- name: a\n  stdout: {}\n  match: {reasn: x}",
                "line 4",
                "unknown field `reasn`",
            ),
            (
                "- name: a\n  stdout: {}\n  match:\n    not: {type: warning}",
                "line 5",
                "type \"warning\": expected Normal or Warning",
            ),
            ("- name: A\n  stdout: {}", "line 2", "\"A\""),
            (
                "- name: a\n  stdout: {}\n- name: a\n  stdout: {}",
                "line 4",
                "another",
            ),
            ("- name: a", "line 2", "one receiver"),
            (
                "- name: a\n  stdout: {}\n  file: {path: x}",
                "line 2",
                "one receiver",
            ),
            (
                "- name: a\n  file: {path: x/y}\n- name: b\n  file: {path: /etc/tidings/x/./y}",
                "line 4",
                "another feed writes",
            ),
            (
                "- name: a\n  file: {path: /data/archive/feeds/x}",
                "line 2",
                "data folder",
            ),
            (
                "- name: a\n  metrics: {}\n- name: b\n  metrics: {}",
                "line 4",
                "another feed with metrics",
            ),
        ]);
    }

    #[test]
    fn errors_about_a_server_name_the_line_and_the_key() {
        let url = "url: 'https://a.example'";
        check_errors(&[
            (
                "- name: a\n  stdout: {}\n  connection: {ca: x}",
                "line 2",
                "connection",
            ),
            ("- name: a\n  webhook: {url: 'ftp://x'}", "line 3", "url"),
            (
                "- name: a\n  webhook: {url: 'https://a', form: template}",
                "line 2",
                "needs a body",
            ),
            (
                "- name: a\n  webhook:\n    url: https://a\n    form: template\n    body: '{{ event.acton }}'",
                "line 6",
                "the body has event.acton, which is no field: expected action",
            ),
            (
                "- name: a\n  webhook: {url: 'https://u:p@x'}",
                "line 3",
                "passwordFile",
            ),
            (
                &format!(
                    "- name: a\n  webhook: {{{url}}}\n  connection: {{insecureSkipVerify: b}}"
                ),
                "line 2",
                "a.example",
            ),
            (
                &format!(
                    "- name: a\n  webhook: {{{url}}}\n  connection: {{tokenFile: b, apiKeyFile: c}}"
                ),
                "line 2",
                "one of tokenFile",
            ),
            (
                &format!(
                    "- name: a\n  webhook: {{{url}}}\n  connection: {{headers: {{authorization: x}}}}"
                ),
                "line 2",
                "headerFiles",
            ),
            (
                &format!(
                    "- name: a\n  webhook: {{{url}}}\n  connection: {{headers: {{X-API-Key: x}}}}"
                ),
                "line 2",
                "headerFiles",
            ),
            (
                &format!(
                    "- name: a\n  elasticsearch: {{{url}, index: 'a-{{yyyy}}', mode: latest}}"
                ),
                "line 2",
                "without a date",
            ),
            (
                &format!("- name: a\n  loki: {{{url}, labels: grafana}}"),
                "line 3",
                "grafana",
            ),
            (
                &format!("- name: a\n  loki:\n    {url}\n    labels: {{env: prod}}"),
                "line 5",
                "unknown variant `prod`",
            ),
            (
                &format!("- name: a\n  webhook: {{{url}}}\n  connection: {{timeout: soon}}"),
                "line 4",
                "timeout: expected a duration",
            ),
            (
                &format!(
                    "- name: a\n  webhook: {{{url}}}\n  connection: {{headerFiles: {{a b: c}}}}"
                ),
                "line 2",
                "headerFiles: \"a b\"",
            ),
        ]);
    }
}
