//! The rules an API server holds events to, one place: the server refuses by them, a recorder keeps within them.
//!
//! They are kube-apiserver's (`pkg/apis/core/validation/events.go`, `k8s.io/apimachinery/pkg/api/validation`,
//! `.../pkg/util/validation`): lengths count bytes, and which rules apply depends on the API version of the *request*.
//! The functions see plain borrowed values, so that any representation of an event can be checked without being copied.

mod quote;

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;

use quote::go_json_string;
pub use quote::{go_quote, is_printable};

/// Longest message of an event with an eventTime, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 1024;
/// Longest reason, action and reportingInstance of an event with an eventTime, in bytes.
pub const WORD_BYTES_MAX: usize = 128;
/// Longest name of a DNS subdomain, in bytes.
pub const DNS1123_SUBDOMAIN_BYTES_MAX: usize = 253;
/// Longest DNS label, in bytes.
pub const DNS1123_LABEL_BYTES_MAX: usize = 63;
/// Longest name part of a qualified name and longest label value, in bytes.
pub const LABEL_BYTES_MAX: usize = 63;
/// Largest sum of all annotation keys and values, in bytes.
pub const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

/// Which API version a request was made in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestVersion {
    /// `v1`: the lenient rules.
    CoreV1,
    /// `events.k8s.io/v1`: the strict ones on top.
    EventsV1,
}

/// A reason for refusing a field, in the words of `k8s.io/apimachinery/pkg/util/validation/field`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// `FieldValueRequired`
    Required,
    /// `FieldValueInvalid`
    Invalid,
    /// `FieldValueForbidden`
    Forbidden,
    /// `FieldValueTooLong`
    TooLong,
    /// `FieldValueNotSupported`
    NotSupported,
}

impl Cause {
    /// The reason as a Status cause carries it.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::NotSupported => "FieldValueNotSupported",
        }
    }
}

/// A field that was refused, and why. Its `Display` is what a Status cause carries as its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// The path, e.g. `involvedObject.namespace`.
    pub field: String,
    /// The class of the error.
    pub cause: Cause,
    /// The refused value as printed, for [`Cause::Invalid`] and [`Cause::NotSupported`].
    pub value: String,
    /// What is accepted; may be empty.
    pub detail: String,
}

impl FieldError {
    /// An invalid value.
    pub fn invalid(field: impl Into<String>, value: &str, detail: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            cause: Cause::Invalid,
            value: go_quote(value),
            detail: detail.into(),
        }
    }

    /// A value that must be given.
    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            cause: Cause::Required,
            value: String::new(),
            detail: detail.into(),
        }
    }

    fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            cause: Cause::Forbidden,
            value: String::new(),
            detail: detail.into(),
        }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cause {
            Cause::Required => f.write_str("Required value")?,
            Cause::Invalid => write!(f, "Invalid value: {}", self.value)?,
            Cause::Forbidden => f.write_str("Forbidden")?,
            Cause::TooLong => f.write_str("Too long")?,
            Cause::NotSupported => write!(f, "Unsupported value: {}", self.value)?,
        }
        if self.detail.is_empty() {
            Ok(())
        } else {
            write!(f, ": {}", self.detail)
        }
    }
}

/// The seven fields of an `ObjectReference`: kind, namespace, name, uid, apiVersion, resourceVersion, fieldPath.
pub type ReferenceFields<'a> = [&'a str; 7];

/// The fields of an event that rules look at. Unset strings are empty.
#[derive(Clone, Debug, Default)]
pub struct EventFields<'a> {
    /// The metadata.
    pub metadata: MetadataFields<'a>,
    /// `involvedObject`.
    pub involved_object: ReferenceFields<'a>,
    /// `related`.
    pub related: Option<ReferenceFields<'a>>,
    /// `reason`.
    pub reason: &'a str,
    /// `message`.
    pub message: &'a str,
    /// `source.component` and `source.host`.
    pub source: [&'a str; 2],
    /// `firstTimestamp`.
    pub first_timestamp: Option<Timestamp>,
    /// `lastTimestamp`.
    pub last_timestamp: Option<Timestamp>,
    /// `count`.
    pub count: i32,
    /// `type`.
    pub event_type: &'a str,
    /// `eventTime`.
    pub event_time: Option<Timestamp>,
    /// `series`: its count and lastObservedTime.
    pub series: Option<(i32, Option<Timestamp>)>,
    /// `action`.
    pub action: &'a str,
    /// `reportingComponent`, called reportingController in events.k8s.io.
    pub reporting_controller: &'a str,
    /// `reportingInstance`.
    pub reporting_instance: &'a str,
}

impl EventFields<'_> {
    fn involved_namespace(&self) -> &str {
        self.involved_object[1]
    }
}

/// The fields of an object's metadata that rules look at. Unset strings are empty.
#[derive(Clone, Debug, Default)]
pub struct MetadataFields<'a> {
    /// `name`.
    pub name: &'a str,
    /// `generateName`.
    pub generate_name: &'a str,
    /// `namespace`.
    pub namespace: &'a str,
    /// `uid`.
    pub uid: &'a str,
    /// `generation`.
    pub generation: i64,
    /// `labels`.
    pub labels: Option<&'a BTreeMap<String, String>>,
    /// `annotations`.
    pub annotations: Option<&'a BTreeMap<String, String>>,
    /// `ownerReferences`: apiVersion, kind, name, uid; controller and blockOwnerDeletion.
    pub owner_references: Vec<([&'a str; 4], [Option<bool>; 2])>,
    /// `finalizers`.
    pub finalizers: &'a [String],
    /// `deletionTimestamp` and `deletionGracePeriodSeconds`.
    pub deletion: (Option<Timestamp>, Option<i64>),
}

/// The rules for creating an event, but for those of [`validate_metadata`], which come after them.
///
/// Source: `ValidateEventCreate`.
pub fn validate_create(event: &EventFields<'_>, version: RequestVersion) -> Vec<FieldError> {
    let mut errors = common_rules(event, version);
    if version == RequestVersion::CoreV1 {
        return errors;
    }
    errors.extend(validate_metadata(
        &event.metadata,
        NameRule::Dns1123Subdomain,
    ));
    errors.extend(unqualified_finalizers(&event.metadata));
    errors.extend(series_rules(event));
    if event.event_time.is_none() {
        errors.push(FieldError::required("eventTime", ""));
    }
    if !matches!(event.event_type, "Normal" | "Warning") {
        errors.push(FieldError::invalid(
            "type",
            "",
            format!("has invalid value: {}", event.event_type),
        ));
    }
    let must_be_unset = [
        ("firstTimestamp", event.first_timestamp.is_some()),
        ("lastTimestamp", event.last_timestamp.is_some()),
        ("count", event.count != 0),
        ("source", event.source != ["", ""]),
    ];
    let set = must_be_unset.into_iter().filter(|(_, set)| *set);
    errors.extend(set.map(|(field, _)| FieldError::invalid(field, "", "needs to be unset")));
    errors
}

/// The rules for changing an event, but for those of [`validate_metadata_update`], which come before them.
///
/// Source: `ValidateEventUpdate`. As there, `reason` is checked twice.
pub fn validate_update(
    new: &EventFields<'_>,
    old: &EventFields<'_>,
    version: RequestVersion,
) -> Vec<FieldError> {
    let mut errors = common_rules(new, version);
    if version == RequestVersion::CoreV1 {
        return errors;
    }
    errors.extend(validate_metadata_update(&new.metadata, &old.metadata));
    errors.extend(unqualified_finalizers(&new.metadata));
    if new.series != old.series {
        errors.extend(series_rules(new));
    }
    let [new, old] = [new, old].map(immutable_fields);
    let changed = new.into_iter().zip(old).filter(|(new, old)| new != old);
    errors.extend(changed.map(|((field, value), _)| FieldError {
        value,
        ..FieldError::invalid(field, "", IMMUTABLE)
    }));
    errors
}

/// What no update through events.k8s.io may change, each printed as upstream prints the refused value.
fn immutable_fields(event: &EventFields<'_>) -> [(&'static str, String); 14] {
    let time =
        |time: Option<Timestamp>| time.map_or("null".into(), |time| format!("\"{time:.0}\""));
    let micro_time = event
        .event_time
        .map_or("null".into(), |time| format!("\"{time:.6}\""));
    let [component, host] = event.source.map(go_json_string);
    let related = event.related.as_ref().map_or("null".into(), reference);
    [
        ("involvedObject", reference(&event.involved_object)),
        ("reason", go_quote(event.reason)),
        ("message", go_quote(event.message)),
        (
            "source",
            format!("{{\"Component\":{component},\"Host\":{host}}}"),
        ),
        ("firstTimestamp", time(event.first_timestamp)),
        ("lastTimestamp", time(event.last_timestamp)),
        ("count", event.count.to_string()),
        ("reason", go_quote(event.reason)),
        ("type", go_quote(event.event_type)),
        ("eventTime", micro_time),
        ("action", go_quote(event.action)),
        ("related", related),
        ("reportingController", go_quote(event.reporting_controller)),
        ("reportingInstance", go_quote(event.reporting_instance)),
    ]
}

/// A reference as Go prints its internal type.
fn reference(fields: &ReferenceFields<'_>) -> String {
    let names = [
        "Kind",
        "Namespace",
        "Name",
        "UID",
        "APIVersion",
        "ResourceVersion",
        "FieldPath",
    ];
    let members: Vec<String> = names
        .iter()
        .zip(fields)
        .map(|(name, value)| format!("\"{name}\":{}", go_json_string(value)))
        .collect();
    format!("{{{}}}", members.join(","))
}

const IMMUTABLE: &str = "field is immutable";

/// What holds for both versions, for creating and for changing.
fn common_rules(event: &EventFields<'_>, version: RequestVersion) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let namespace = event.metadata.namespace;
    let involved = event.involved_namespace();
    let mismatch = || {
        FieldError::invalid(
            "involvedObject.namespace",
            involved,
            "does not match event.namespace",
        )
    };

    if event.event_time.is_none() {
        let expected = if involved.is_empty() {
            matches!(namespace, "" | "default")
        } else {
            involved == namespace
        };
        if !expected {
            errors.push(mismatch());
        }
    } else {
        if involved.is_empty() && !matches!(namespace, "default" | "kube-system") {
            errors.push(mismatch());
        }
        let controller = match version {
            RequestVersion::CoreV1 => "reportingComponent",
            RequestVersion::EventsV1 => "reportingController",
        };
        if event.reporting_controller.is_empty() {
            errors.push(FieldError::required(controller, ""));
        }
        for complaint in check_qualified_name(event.reporting_controller) {
            errors.push(FieldError::invalid(
                controller,
                event.reporting_controller,
                complaint,
            ));
        }
        let words = [
            ("reportingInstance", event.reporting_instance),
            ("action", event.action),
            ("reason", event.reason),
        ];
        for (field, value) in words {
            if value.is_empty() {
                errors.push(FieldError::required(field, ""));
            }
            errors.extend(length_rule(field, value, WORD_BYTES_MAX));
        }
        errors.extend(length_rule("message", event.message, MESSAGE_BYTES_MAX));
    }
    for complaint in check_dns1123_subdomain(namespace) {
        errors.push(FieldError::invalid("namespace", namespace, complaint));
    }
    errors
}

fn length_rule(field: &str, value: &str, max: usize) -> Option<FieldError> {
    (value.len() > max)
        .then(|| FieldError::invalid(field, "", format!("can have at most {max} characters")))
}

fn series_rules(event: &EventFields<'_>) -> Vec<FieldError> {
    let Some((count, last_observed_time)) = event.series else {
        return Vec::new();
    };
    let mut errors = Vec::new();
    if count < 2 {
        errors.push(FieldError::invalid(
            "series.count",
            "",
            "should be at least 2",
        ));
    }
    if last_observed_time.is_none() {
        errors.push(FieldError::required("series.lastObservedTime", ""));
    }
    errors
}

/// What an object's name has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// One segment of a URL path ([`check_path_segment_name`]): the rule of core/v1 events.
    PathSegment,
    /// A DNS subdomain ([`check_dns1123_subdomain`]): the rule of events.k8s.io.
    Dns1123Subdomain,
}

impl NameRule {
    fn check(self, name: &str) -> Vec<String> {
        match self {
            Self::PathSegment => check_path_segment_name(name),
            Self::Dns1123Subdomain => check_dns1123_subdomain(name),
        }
    }

    /// What is wrong with the beginning of names.
    fn check_base(self, base: &str) -> Vec<String> {
        match self {
            Self::PathSegment if matches!(base, "." | "..") => Vec::new(),
            Self::PathSegment => check_path_segment_name(base),
            Self::Dns1123Subdomain => check_dns1123_subdomain(&mask_trailing_dash(base)),
        }
    }
}

/// The rules for the metadata of any new object.
///
/// Source: `ValidateObjectMeta`.
pub fn validate_metadata(metadata: &MetadataFields<'_>, name_rule: NameRule) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !metadata.generate_name.is_empty() {
        for complaint in name_rule.check_base(metadata.generate_name) {
            errors.push(FieldError::invalid(
                "metadata.generateName",
                metadata.generate_name,
                complaint,
            ));
        }
    }
    if metadata.name.is_empty() {
        errors.push(FieldError::required(
            "metadata.name",
            "name or generateName is required",
        ));
    } else {
        for complaint in name_rule.check(metadata.name) {
            errors.push(FieldError::invalid(
                "metadata.name",
                metadata.name,
                complaint,
            ));
        }
    }
    if metadata.namespace.is_empty() {
        errors.push(FieldError::required("metadata.namespace", ""));
    } else {
        for complaint in check_dns1123_label(metadata.namespace) {
            errors.push(FieldError::invalid(
                "metadata.namespace",
                metadata.namespace,
                complaint,
            ));
        }
    }
    if metadata.generation < 0 {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError {
            value: metadata.generation.to_string(),
            ..FieldError::invalid("metadata.generation", "", detail)
        });
    }
    errors.extend(label_and_owner_rules(metadata));
    errors.extend(finalizer_rules(metadata));
    errors
}

/// A dash at the end of a generateName is none at the end of the name.
fn mask_trailing_dash(base: &str) -> String {
    match base.strip_suffix('-') {
        Some(stem) if !stem.is_empty() => {
            let mut masked: String = stem.to_owned();
            masked.pop();
            masked.push('a');
            masked
        }
        _ => base.to_owned(),
    }
}

/// The rules for changing the metadata of any object, which come on top of [`validate_metadata`]'s. What breaks rules of
/// both is named twice, as upstream does.
///
/// Source: `ValidateObjectMetaAccessorUpdate`.
pub fn validate_metadata_update(
    new: &MetadataFields<'_>,
    old: &MetadataFields<'_>,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let added: Vec<&String> = new
        .finalizers
        .iter()
        .filter(|finalizer| !old.finalizers.contains(finalizer))
        .collect();
    if old.deletion.0.is_some() && !added.is_empty() {
        errors.push(FieldError::forbidden(
            "metadata.finalizers",
            format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                added
                    .iter()
                    .map(|finalizer| go_quote(finalizer))
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
        ));
    }
    let compared = [
        ("metadata.name", new.name, old.name),
        ("metadata.namespace", new.namespace, old.namespace),
    ];
    let changed = compared.into_iter().filter(|(_, new, old)| new != old);
    errors.extend(changed.map(|(field, new, _)| FieldError::invalid(field, new, IMMUTABLE)));
    if new.uid != old.uid {
        // A type of its own to Go, which prints it as JSON.
        errors.push(FieldError {
            value: go_json_string(new.uid),
            ..FieldError::invalid("metadata.uid", "", IMMUTABLE)
        });
    }
    let (time, grace) = new.deletion;
    if time != old.deletion.0 {
        errors.push(FieldError {
            value: time.map_or("null".into(), |time| format!("\"{time:.0}\"")),
            ..FieldError::invalid("metadata.deletionTimestamp", "", IMMUTABLE)
        });
    }
    if grace != old.deletion.1 {
        errors.push(FieldError {
            value: grace.map_or("null".into(), |seconds| seconds.to_string()),
            ..FieldError::invalid("metadata.deletionGracePeriodSeconds", "", IMMUTABLE)
        });
    }
    errors.extend(label_and_owner_rules(new));
    errors
}

fn label_and_owner_rules(metadata: &MetadataFields<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in metadata.labels.into_iter().flatten() {
        for complaint in check_qualified_name(key) {
            errors.push(FieldError::invalid("metadata.labels", key, complaint));
        }
        for complaint in check_label_value(value) {
            errors.push(FieldError::invalid("metadata.labels", value, complaint));
        }
    }
    let mut annotations_len = 0;
    for (key, value) in metadata.annotations.into_iter().flatten() {
        // Keys of annotations may be written in any case.
        for complaint in check_qualified_name(&key.to_lowercase()) {
            errors.push(FieldError::invalid("metadata.annotations", key, complaint));
        }
        annotations_len += key.len() + value.len();
    }
    if annotations_len > ANNOTATIONS_BYTES_MAX {
        errors.push(FieldError {
            field: "metadata.annotations".into(),
            cause: Cause::TooLong,
            value: String::new(),
            detail: format!("may not be more than {ANNOTATIONS_BYTES_MAX} bytes"),
        });
    }
    errors.extend(owner_rules(&metadata.owner_references));
    errors
}

type Owner<'a> = ([&'a str; 4], [Option<bool>; 2]);

/// Source: `validateOwnerReference`, `ValidateOwnerReferences`.
fn owner_rules(owners: &[Owner<'_>]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut controller: Option<String> = None;
    for owner in owners {
        let ([api_version, kind, name, uid], [is_controller, _]) = owner;
        let mut refuse = |field: &str, value: String, detail: String| {
            let field = format!("metadata.ownerReferences{field}");
            errors.push(FieldError {
                value,
                ..FieldError::invalid(field, "", detail)
            });
        };
        let version = match api_version.split_once('/') {
            None => api_version,
            Some((_, version)) if !version.contains('/') => version,
            Some(_) => "",
        };
        if version.is_empty() {
            let detail = "version must not be empty";
            refuse(".apiVersion", go_quote(api_version), detail.into());
        }
        for (field, value) in [(".kind", kind), (".name", name), (".uid", uid)] {
            if value.is_empty() {
                refuse(field, go_quote(value), "must not be empty".into());
            }
        }
        if (*api_version, *kind) == ("v1", "Event") {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            refuse("", print_owner(owner), detail.into());
        }
        if *is_controller == Some(true) {
            let this = format!("{kind}/{name}");
            match &controller {
                None => controller = Some(this),
                Some(first) => {
                    let all: Vec<String> = owners.iter().map(print_owner).collect();
                    refuse(
                        "",
                        format!("[{}]", all.join(",")),
                        format!(
                            "Only one reference can have Controller set to true. Found \"true\" in references for {first} \
                             and {this}"
                        ),
                    );
                }
            }
        }
    }
    errors
}

/// An owner as JSON.
fn print_owner((texts, flags): &Owner<'_>) -> String {
    let names = ["apiVersion", "kind", "name", "uid"];
    let texts = names.iter().zip(texts);
    let texts = texts.map(|(name, value)| format!("\"{name}\":{}", go_json_string(value)));
    let flags = ["controller", "blockOwnerDeletion"].iter().zip(flags);
    let flags = flags.filter_map(|(name, flag)| Some(format!("\"{name}\":{}", (*flag)?)));
    let members: Vec<String> = texts.chain(flags).collect();
    format!("{{{}}}", members.join(","))
}

fn finalizer_rules(metadata: &MetadataFields<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for finalizer in metadata.finalizers {
        for complaint in check_qualified_name(finalizer) {
            errors.push(FieldError::invalid(
                "metadata.finalizers",
                finalizer,
                complaint,
            ));
        }
    }
    let has = |name: &str| {
        metadata
            .finalizers
            .iter()
            .any(|finalizer| finalizer == name)
    };
    if has("orphan") && has("foregroundDeletion") {
        let all: Vec<String> = metadata
            .finalizers
            .iter()
            .map(|finalizer| go_json_string(finalizer))
            .collect();
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError {
            value: format!("[{}]", all.join(",")),
            ..FieldError::invalid("metadata.finalizers", "", detail)
        });
    }
    errors
}

/// What events.k8s.io asks of finalizers on top: a domain, or a name of Kubernetes' own.
///
/// Source: `validateKubeFinalizerName`.
fn unqualified_finalizers(metadata: &MetadataFields<'_>) -> Vec<FieldError> {
    let places = metadata.finalizers.iter().enumerate();
    places
        .filter(|(_, finalizer)| {
            !finalizer.contains('/')
                && !["kubernetes", "orphan", "foregroundDeletion"].contains(&finalizer.as_str())
        })
        .map(|(place, finalizer)| {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            FieldError::invalid(format!("metadata.finalizers[{place}]"), finalizer, detail)
        })
        .collect()
}

/// Complaints about a name that only has to be one segment of a URL path: core/v1 events have no other rule.
///
/// ```
/// use tidings_core::validate::check_path_segment_name;
///
/// assert!(check_path_segment_name("Web.17a0").is_empty());
/// assert_eq!(check_path_segment_name("a/b"), ["may not contain '/'"]);
/// ```
pub fn check_path_segment_name(name: &str) -> Vec<String> {
    if matches!(name, "." | "..") {
        return vec![format!("may not be '{name}'")];
    }
    let has = |character: &char| name.contains(*character);
    ['/', '%']
        .iter()
        .filter(|c| has(c))
        .map(|character| format!("may not contain '{character}'"))
        .collect()
}

/// Complaints about a DNS-1123 label, such as a namespace: at most 63 bytes of `[a-z0-9]([-a-z0-9]*[a-z0-9])?`.
pub fn check_dns1123_label(value: &str) -> Vec<String> {
    let mut complaints = too_long(value, DNS1123_LABEL_BYTES_MAX, NAME_UNIT);
    if !is_lowercase_label(value) {
        complaints.push(if value.split('.').all(is_lowercase_label) {
            "must not contain dots".into()
        } else {
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end \
             with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
                .into()
        });
    }
    complaints
}

/// Complaints about a DNS-1123 subdomain, such as most names: at most 253 bytes, labels joined by dots.
///
/// ```
/// use tidings_core::validate::check_dns1123_subdomain;
///
/// assert!(check_dns1123_subdomain("web-0.17a0c3").is_empty());
/// assert_eq!(check_dns1123_subdomain("Web").len(), 1);
/// ```
pub fn check_dns1123_subdomain(value: &str) -> Vec<String> {
    subdomain_complaints(value, NAME_UNIT)
}

fn subdomain_complaints(value: &str, unit: &str) -> Vec<String> {
    if is_dns1123_subdomain(value) {
        return Vec::new();
    }
    let mut complaints = too_long(value, DNS1123_SUBDOMAIN_BYTES_MAX, unit);
    if !value.split('.').all(is_lowercase_label) {
        complaints.push(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start \
             and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                .into(),
        );
    }
    complaints
}

/// Whether `name` is a DNS-1123 subdomain; [`check_dns1123_subdomain`] says why not. As in Kubernetes, a part between dots
/// may be longer than 63 bytes.
pub fn is_dns1123_subdomain(name: &str) -> bool {
    name.len() <= DNS1123_SUBDOMAIN_BYTES_MAX && name.split('.').all(is_lowercase_label)
}

fn is_lowercase_label(value: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    !value.is_empty()
        && value.bytes().all(|byte| inner(byte) || byte == b'-')
        && !value.starts_with('-')
        && !value.ends_with('-')
}

/// Complaints about a qualified name, such as a label key: an optional DNS subdomain and a slash, then at most 63 bytes
/// of letters, digits, `-`, `_` and `.` that start and end with a letter or digit.
///
/// ```
/// use tidings_core::validate::check_qualified_name;
///
/// assert!(check_qualified_name("example.com/controller").is_empty());
/// assert_eq!(check_qualified_name("").len(), 2);
/// ```
pub fn check_qualified_name(value: &str) -> Vec<String> {
    const FORM: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
        alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
        '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    let mut complaints = Vec::new();
    let name = match value.split_once('/') {
        None => value,
        Some((_, name)) if name.contains('/') => {
            return vec![format!(
                "a valid label key {FORM} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
        Some((prefix, name)) => {
            if prefix.is_empty() {
                complaints.push("prefix part must be non-empty".into());
            } else {
                complaints.extend(
                    subdomain_complaints(prefix, KEY_UNIT)
                        .into_iter()
                        .map(|c| format!("prefix part {c}")),
                );
            }
            name
        }
    };
    if name.is_empty() {
        complaints.push("name part must be non-empty".into());
    }
    complaints.extend(
        too_long(name, LABEL_BYTES_MAX, KEY_UNIT)
            .into_iter()
            .map(|complaint| format!("name part {complaint}")),
    );
    if !is_label_text(name) {
        complaints.push(format!("name part {FORM}"));
    }
    complaints
}

/// Complaints about a label's value: empty, or at most 63 bytes of letters, digits, `-`, `_` and `.` that start and end
/// with a letter or digit.
pub fn check_label_value(value: &str) -> Vec<String> {
    let mut complaints = too_long(value, LABEL_BYTES_MAX, KEY_UNIT);
    if !value.is_empty() && !is_label_text(value) {
        complaints.push(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start \
             and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
             validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
                .into(),
        );
    }
    complaints
}

fn is_label_text(value: &str) -> bool {
    let bytes = value.as_bytes();
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    ends(bytes.first())
        && ends(bytes.last())
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

/// What Kubernetes calls the bytes of names (`k8s.io/apimachinery/pkg/util/validation`), and those of keys and labels
/// (`pkg/api/validate/content`).
const NAME_UNIT: &str = "characters";
const KEY_UNIT: &str = "bytes";

fn too_long(value: &str, max: usize, unit: &str) -> Vec<String> {
    if value.len() > max {
        vec![format!("must be no more than {max} {unit}")]
    } else {
        Vec::new()
    }
}

#[cfg(test)]
mod tests;
