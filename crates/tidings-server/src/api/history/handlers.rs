//! An archive's own resources: the versions of an event, the coverage of a followed cluster, its
//! counts by hour and reason, an export of all versions, and pending versions.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use k8s_pb::api::core::v1::Event;
use k8s_pb::apimachinery::pkg::apis::meta::v1::ListMeta;
use tidings_history::{
    Answer as HistoryAnswer, Count, Counts, ENDED_AFTER, ENDED_AT, Ended, ExportLine, ExportPart,
    OBSERVED_AT, Pending, Rules, Version, timestamp,
};
use tidings_store::{CountsRequest, UnixMillis};

use crate::admission::retention::RetentionRules;
use crate::api::health;
use crate::api::read::ListWriter;
use crate::api::request::Call;
use crate::api::request::{encoded, table_rows};
use crate::api::server::ApiServer;
use crate::api::server::Followed;
use crate::http::continuation::Continuation;
use crate::http::list_options::ListOptions;
use crate::http::negotiate::{Answer, Form, Media};
use crate::http::params;
use crate::http::request::RequestInfo;
use crate::http::status::Status;
use crate::http::stored::Key;
use tidings_api::codec;

/// Maximum versions in a page, and the default.
const VERSIONS_MAX: usize = 500;
/// The prefix of continue tokens of versions; tokens of events have a key in its place.
const AFTER: &str = "versions/";
/// The prefix of continue tokens of exports and counts.
const PLACE: &str = "export/";
const COUNTED: &str = "counts/";
/// The prefix of continue tokens of what rules would end.
const EXAMINED: &str = "outlook/";
/// Counts in a page.
const COUNTS_MAX: usize = 5000;

/// GET of the versions of an event, newest first.
pub(crate) async fn versions(
    State(server): State<Arc<ApiServer>>,
    call: Call,
) -> Result<Response, Status> {
    let followed = followed(&server)?;
    let form = call.form(Answer::List)?;
    let options = ListOptions::parse(call.api, &call.info.query, false)?;
    if options.watch || !options.selector.is_empty() {
        return Err(Status::bad_request(
            "the versions of an event are neither watched nor selected",
        ));
    }
    let after = options.continue_token.as_deref();
    let after = after.map(|token| read_after(token, &server));
    let limit = options.limit.unwrap_or(VERSIONS_MAX).min(VERSIONS_MAX);
    let key = call.key();
    let revision = server.store.revision();
    let page = followed
        .history
        .versions(key.bytes(), after.transpose()?, limit)
        .await?
        .ok_or_else(|| Status::not_found(call.api, &key.name))?;
    let more = page.more;
    let meta = ListMeta {
        resource_version: Some(revision.to_string()),
        r#continue: more.map(|after| token(AFTER, &after.to_string(), &server)),
        ..ListMeta::default()
    };
    // Only the first page contains the newest version.
    let ended = page.ended.filter(|_| options.continue_token.is_none());
    let body = write(&server, &call, form, &meta, (page.versions, ended))?;
    Ok(encoded(StatusCode::OK, form.media, body))
}

/// Encodes the answer. Only one version is decoded at a time.
fn write(
    server: &ApiServer,
    call: &Call,
    form: Form,
    meta: &ListMeta,
    (versions, ended): (Vec<Version>, Option<Ended>),
) -> Result<Vec<u8>, Status> {
    let key = call.key();
    let rows = table_rows(call, form, server.clock.now())?;
    let mut writer = ListWriter::new(call.api, form, rows);
    let mut items_len = 0;
    if form.media == Media::Protobuf {
        for (at, version) in versions.iter().enumerate() {
            let ended = ended.filter(|_| at == 0);
            items_len += writer.item_len(&as_observed(&key, version, ended)?)?;
        }
    }
    let mut body = Vec::with_capacity(versions.len() * 1024 + 512);
    writer.write_start(meta, items_len, &mut body)?;
    for (at, version) in versions.into_iter().enumerate() {
        let ended = ended.filter(|_| at == 0);
        writer.write_item(&as_observed(&key, &version, ended)?, &mut body)?;
    }
    writer.write_end(meta, &mut body)?;
    Ok(body)
}

/// The event with its resourceVersion at the source, and with the times at which it was received
/// and ended.
fn as_observed(key: &Key, version: &Version, ended: Option<Ended>) -> Result<Event, Status> {
    let mut event = codec::decode_stored(&version.event, 0)
        .map_err(|why| Status::damaged(&key.bytes(), &why))?;
    let metadata = event.metadata.get_or_insert_default();
    metadata.resource_version = Some(version.number.to_string());
    let times = [
        (OBSERVED_AT, Some(version.observed_at)),
        (ENDED_AT, ended.map(|ended| ended.at)),
        (ENDED_AFTER, ended.and_then(|ended| ended.after)),
    ];
    for (name, time) in times {
        if let Some(time) = time.map(timestamp) {
            let time = format!("{time:.3}");
            metadata.annotations.insert(name.into(), time);
        }
    }
    Ok(event)
}

/// Makes a continue token of this store for a kind of list.
fn token(what: &str, after: &str, server: &ApiServer) -> String {
    server.continue_token(None, format!("{what}{after}"))
}

/// Reads a continue token of this kind of list.
fn read_token(token: &str, what: &str, server: &ApiServer) -> Result<String, Status> {
    let continuation = Continuation::decode_for(token, server.store_identity())?;
    let after = continuation.after.strip_prefix(what);
    after.map(str::to_owned).ok_or_else(|| {
        let what = what.trim_end_matches('/');
        Status::bad_request(format!("invalid continue token: it is not one of {what}"))
    })
}

fn read_after(token: &str, server: &ApiServer) -> Result<u64, Status> {
    let after = read_token(token, AFTER, server)?;
    after
        .parse()
        .map_err(|_| Status::bad_request("invalid continue token: it names no version"))
}

/// The hour and the reason of the last count that was returned.
fn read_counted(token: &str, server: &ApiServer) -> Result<(UnixMillis, String), Status> {
    let after = read_token(token, COUNTED, server)?;
    let counted = after
        .split_once('/')
        .and_then(|(hour, reason)| Some((UnixMillis(hour.parse().ok()?), reason.to_owned())));
    counted.ok_or_else(|| Status::bad_request("invalid continue token: it names no count"))
}

/// GET /coverage, of the whole cluster or of the namespace for which the request was authorized.
pub(crate) async fn coverage(
    State(server): State<Arc<ApiServer>>,
    Extension(info): Extension<Arc<RequestInfo>>,
) -> Result<Response, Status> {
    let namespace = info.asked_namespace();
    let namespace = namespace.filter(|namespace| !namespace.is_empty());
    coverage_of(&server, namespace, &info).await
}

/// The coverage of a namespace, or of the whole cluster, also with what the request's rules of
/// retention would end of a page of events.
pub(in crate::api) async fn coverage_of(
    server: &ApiServer,
    namespace: Option<&str>,
    info: &RequestInfo,
) -> Result<Response, Status> {
    let cluster = followed(server)?;
    let rules = info.query.get(params::RULES);
    let rules = rules.map(|rules| read_rules(rules, &cluster.name));
    let rules = rules.transpose()?;
    if rules.is_some() && namespace.is_some() {
        let why = "rules of retention are examined for a whole cluster, without a namespace";
        return Err(Status::bad_request(why));
    }
    let history = &cluster.history;
    let mut coverage = history.coverage(namespace.map(str::to_owned)).await?;
    if namespace.is_none() {
        coverage.problem = health::problem_of(&history.following());
    }
    if let Some(rules) = rules {
        let place = info.query.get(params::CONTINUE);
        let place = place.map(|place| read_token(place, EXAMINED, server));
        if let Some(page) = history.outlook(rules, place.transpose()?).await? {
            coverage.would_end = Some(page.outlook);
            let more = page.more;
            coverage.would_end_continue = more.map(|place| token(EXAMINED, &place, server));
        }
    }
    let answer = serde_json::to_value(HistoryAnswer::Coverage(coverage));
    let mut json = format!("{:#}", answer.map_err(Status::internal)?);
    json.push('\n');
    Ok(encoded(StatusCode::OK, Media::Json, json.into_bytes()))
}

/// Reads rules of retention for a cluster.
fn read_rules(text: &str, cluster: &str) -> Result<Rules, Status> {
    let rules = RetentionRules::parse(text);
    let rules = rules.map_err(|error| Status::bad_request(format!("rules: {error}")))?;
    let rules = rules.of_cluster(cluster);
    Ok(Arc::new(move |stored| {
        let event = codec::decode_stored(stored, 0).ok()?;
        rules.rule(&event)
    }))
}

/// GET /counts: the number of events last seen in each hour for each reason, the latest hour first.
pub(crate) async fn counts(
    State(server): State<Arc<ApiServer>>,
    Extension(info): Extension<Arc<RequestInfo>>,
) -> Result<Response, Status> {
    let query = &info.query;
    let after = query.get(params::CONTINUE);
    let after = after
        .map(|token| read_counted(token, &server))
        .transpose()?;
    let request = CountsRequest {
        since: query.moment(params::SINCE)?,
        until: query.moment(params::UNTIL)?,
        after,
        limit: COUNTS_MAX,
    };
    let page = server.store.counts(request).await?;
    let more = page.counts.last().filter(|_| page.more).map(|last| {
        let after = format!("{}/{}", last.hour.0, last.reason);
        token(COUNTED, &after, &server)
    });
    let counts = page.counts.into_iter().map(|count| Count {
        hour: count.hour,
        reason: count.reason,
        events: count.records,
    });
    let cluster = followed(&server)?;
    let answer = HistoryAnswer::Counts(Counts {
        cluster: cluster.name.clone(),
        counted: cluster.history.capabilities().counted,
        counts: counts.collect(),
        r#continue: more,
    });
    let answer = serde_json::to_value(answer).map_err(Status::internal)?;
    let json = answer.to_string().into_bytes();
    Ok(encoded(StatusCode::OK, Media::Json, json))
}

/// GET /export: a page of all stored versions, or of those of a namespace or a time, as JSON Lines.
/// Its last line has the place of the next page, or says that there is none.
pub(crate) async fn export(
    State(server): State<Arc<ApiServer>>,
    Extension(info): Extension<Arc<RequestInfo>>,
) -> Result<Response, Status> {
    let exported = followed(&server)?;
    if !exported.history.capabilities().export {
        return Err(Status::unexported(&exported.name));
    }
    let query = &info.query;
    let from = query.get(params::FROM).map(|from| format!("0/{from}"));
    let place = match query.get(params::CONTINUE) {
        Some(token) => Some(read_token(token, PLACE, &server)?),
        None => from,
    };
    let part = ExportPart {
        namespace: info
            .asked_namespace()
            .filter(|it| !it.is_empty())
            .map(str::to_owned),
        since: query.moment(params::SINCE)?,
        until: query.moment(params::UNTIL)?,
    };
    let page = exported.history.export(place, part).await?;
    let wrong = "from is the namespace and the name of an event of what is exported, as \
                 shop/web-0.17a3f0c1";
    let page = page.ok_or_else(|| Status::bad_request(wrong))?;
    let mut lines = page.lines;
    if let Some(more) = page.more {
        let r#continue = token(PLACE, &more, &server);
        ExportLine::Continue { r#continue }.write(&mut lines);
    }
    let form = [(header::CONTENT_TYPE, "application/jsonl")];
    Ok((form, lines).into_response())
}

/// GET /waiting: pending versions, as a Parquet file.
pub(crate) async fn waiting(
    State(server): State<Arc<ApiServer>>,
    Extension(info): Extension<Arc<RequestInfo>>,
) -> Result<Response, Status> {
    let asked = followed(&server)?;
    let entry = |parameter| {
        let number = info.query.get(parameter).map(str::parse);
        let wrong = |_| Status::bad_request("from and to are numbers of entries of a journal");
        number.transpose().map_err(wrong)
    };
    let from = entry(params::FROM)?.unwrap_or(0);
    let to = entry(params::TO)?;
    let pending = match &asked.pending {
        Some(pending) => pending.pending(from, to).await?,
        None => Pending::NotSealed,
    };
    match pending {
        Pending::File(file) => {
            let form = [(header::CONTENT_TYPE, "application/vnd.apache.parquet")];
            Ok((form, file).into_response())
        }
        Pending::Sealed => {
            let why = "Some of these versions are sealed: the newest manifest says up to which.";
            Err(Status::expired(why, None))
        }
        _ => Err(Status::not_sealed(&asked.name)),
    }
}

fn followed(server: &ApiServer) -> Result<&Followed, Status> {
    server.followed.as_ref().ok_or_else(Status::no_such_path)
}
