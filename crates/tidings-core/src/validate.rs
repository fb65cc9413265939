//! The API server's rules for events.
//!
//! The server refuses events that break these rules, and recorders make only events that follow
//! them.
//!
//! The rules are kube-apiserver's (`pkg/apis/core/validation/events.go`,
//! `k8s.io/apimachinery/pkg/api/validation`, `.../pkg/util/validation`). Lengths count bytes. Which
//! rules apply depends on the API version of the *request*. The functions take plain borrowed
//! values, so that any representation of an event can be checked without a copy. Their cost is in
//! proportion to the input, and their output is bounded ([`FieldErrors`]).

mod bounded;
mod errors;
mod quote;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};

use jiff::Timestamp;

pub use bounded::{bounded_text, json_len, text_within};
pub use errors::{Cause, FieldError, FieldErrors};
use quote::JsonString;
pub use quote::{Quoted, go_quote, is_printable};

/// Maximum length of the message of an event with an eventTime, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 1024;
/// Maximum length of reason, action and reportingInstance of an event with an eventTime, in bytes.
pub const WORD_BYTES_MAX: usize = 128;
/// Maximum length of a DNS subdomain, in bytes.
pub const DNS1123_SUBDOMAIN_BYTES_MAX: usize = 253;
/// Maximum length of a DNS label, in bytes.
pub const DNS1123_LABEL_BYTES_MAX: usize = 63;
/// Maximum length of a qualified name's name part and of a label value, in bytes.
pub const LABEL_BYTES_MAX: usize = 63;
/// Maximum sum of the lengths of all annotation keys and values, in bytes.
pub const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

/// The API version that a request was made in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestVersion {
    /// `v1`: the lenient rules.
    CoreV1,
    /// `events.k8s.io/v1`: the strict rules as well.
    EventsV1,
}

/// The seven fields of an `ObjectReference`: kind, namespace, name, uid, apiVersion,
/// resourceVersion, fieldPath.
pub type ReferenceFields<'a> = [&'a str; 7];

/// The fields of an event that the rules check. Unset strings are empty.
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

/// The fields of an object's metadata that the rules check. Unset strings are empty.
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

/// Checks the rules for creating an event. Those of [`validate_metadata`] come after them. Source:
/// `ValidateEventCreate`.
pub fn validate_create(event: &EventFields<'_>, version: RequestVersion) -> FieldErrors {
    let mut errors = common_rules(event, version);
    if version == RequestVersion::CoreV1 {
        return errors;
    }
    errors.append(validate_metadata(
        &event.metadata,
        NameRule::Dns1123Subdomain,
    ));
    unqualified_finalizers(&event.metadata, &mut errors);
    series_rules(event, &mut errors);
    if event.event_time.is_none() {
        errors.push(|| FieldError::required("eventTime", ""));
    }
    if !matches!(event.event_type, "Normal" | "Warning") {
        let detail = format_args!("has invalid value: {}", event.event_type);
        errors.push(|| FieldError::invalid("type", "", detail));
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

/// Checks the rules for changing an event. Those of [`validate_metadata_update`] come before them.
/// Source: `ValidateEventUpdate`. As there, `reason` is checked twice.
pub fn validate_update(
    new: &EventFields<'_>,
    old: &EventFields<'_>,
    version: RequestVersion,
) -> FieldErrors {
    let mut errors = common_rules(new, version);
    if version == RequestVersion::CoreV1 {
        return errors;
    }
    errors.append(validate_metadata_update(&new.metadata, &old.metadata));
    unqualified_finalizers(&new.metadata, &mut errors);
    if new.series != old.series {
        series_rules(new, &mut errors);
    }
    let [new, old] = [new, old].map(immutable_fields);
    let changed = new.into_iter().zip(old).filter(|(new, old)| new != old);
    for ((field, value), _) in changed {
        errors.push(|| FieldError::invalid_as(field, value, IMMUTABLE));
    }
    errors
}

/// A value that no update through events.k8s.io may change, printed as in upstream's errors.
#[derive(PartialEq)]
enum Immutable<'a> {
    Text(&'a str),
    Number(i32),
    /// A time as it is stored, to the second; the next to the microsecond.
    Time(Option<Timestamp>),
    MicroTime(Option<Timestamp>),
    Source([&'a str; 2]),
    Reference(Option<ReferenceFields<'a>>),
}

impl Display for Immutable<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "{}", Quoted(text)),
            Self::Number(number) => write!(f, "{number}"),
            Self::Time(Some(time)) => write!(f, "\"{time:.0}\""),
            Self::MicroTime(Some(time)) => write!(f, "\"{time:.6}\""),
            Self::Source([component, host]) => {
                print_members(f, [("Component", component), ("Host", host)])
            }
            Self::Reference(Some(fields)) => {
                let names = [
                    "Kind",
                    "Namespace",
                    "Name",
                    "UID",
                    "APIVersion",
                    "ResourceVersion",
                    "FieldPath",
                ];
                print_members(f, names.into_iter().zip(fields))
            }
            Self::Time(None) | Self::MicroTime(None) | Self::Reference(None) => f.write_str("null"),
        }
    }
}

/// Prints texts as the members of a JSON object.
fn print_members<'a>(
    f: &mut Formatter<'_>,
    members: impl IntoIterator<Item = (&'static str, &'a &'a str)>,
) -> fmt::Result {
    for (place, (name, value)) in members.into_iter().enumerate() {
        let before = if place == 0 { '{' } else { ',' };
        write!(f, "{before}\"{name}\":{}", JsonString(value))?;
    }
    f.write_str("}")
}

fn immutable_fields<'a>(event: &EventFields<'a>) -> [(&'static str, Immutable<'a>); 14] {
    use Immutable::{MicroTime, Number, Reference, Source, Text, Time};
    [
        ("involvedObject", Reference(Some(event.involved_object))),
        ("reason", Text(event.reason)),
        ("message", Text(event.message)),
        ("source", Source(event.source)),
        ("firstTimestamp", Time(event.first_timestamp)),
        ("lastTimestamp", Time(event.last_timestamp)),
        ("count", Number(event.count)),
        ("reason", Text(event.reason)),
        ("type", Text(event.event_type)),
        ("eventTime", MicroTime(event.event_time)),
        ("action", Text(event.action)),
        ("related", Reference(event.related)),
        ("reportingController", Text(event.reporting_controller)),
        ("reportingInstance", Text(event.reporting_instance)),
    ]
}

const IMMUTABLE: &str = "field is immutable";

/// Checks the rules of both versions for creating and changing an event.
fn common_rules(event: &EventFields<'_>, version: RequestVersion) -> FieldErrors {
    let mut errors = FieldErrors::default();
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
            errors.push(mismatch);
        }
    } else {
        if involved.is_empty() && !matches!(namespace, "default" | "kube-system") {
            errors.push(mismatch);
        }
        let controller = match version {
            RequestVersion::CoreV1 => "reportingComponent",
            RequestVersion::EventsV1 => "reportingController",
        };
        if event.reporting_controller.is_empty() {
            errors.push(|| FieldError::required(controller, ""));
        }
        let name = event.reporting_controller;
        refuse_each(&mut errors, controller, name, check_qualified_name(name));
        let words = [
            ("reportingInstance", event.reporting_instance),
            ("action", event.action),
            ("reason", event.reason),
        ];
        for (field, value) in words {
            if value.is_empty() {
                errors.push(|| FieldError::required(field, ""));
            }
            length_rule(field, value, WORD_BYTES_MAX, &mut errors);
        }
        length_rule("message", event.message, MESSAGE_BYTES_MAX, &mut errors);
    }
    let complaints = check_dns1123_subdomain(namespace);
    refuse_each(&mut errors, "namespace", namespace, complaints);
    errors
}

/// Refuses a field once for each complaint about its value.
fn refuse_each(errors: &mut FieldErrors, field: &str, value: &str, complaints: Vec<String>) {
    for complaint in complaints {
        errors.push(|| FieldError::invalid(field, value, complaint));
    }
}

fn length_rule(field: &str, value: &str, max: usize, errors: &mut FieldErrors) {
    if value.len() > max {
        let detail = format_args!("can have at most {max} characters");
        errors.push(|| FieldError::invalid(field, "", detail));
    }
}

fn series_rules(event: &EventFields<'_>, errors: &mut FieldErrors) {
    let Some((count, last_observed_time)) = event.series else {
        return;
    };
    if count < 2 {
        errors.push(|| FieldError::invalid("series.count", "", "should be at least 2"));
    }
    if last_observed_time.is_none() {
        errors.push(|| FieldError::required("series.lastObservedTime", ""));
    }
}

/// The rule for an object's name.
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

    /// Complaints about a generateName, which is the beginning of a name.
    fn check_base(self, base: &str) -> Vec<String> {
        match self {
            Self::PathSegment if matches!(base, "." | "..") => Vec::new(),
            Self::PathSegment => check_path_segment_name(base),
            Self::Dns1123Subdomain => check_dns1123_subdomain(&mask_trailing_dash(base)),
        }
    }
}

/// Checks the rules for the metadata of any new object. Source: `ValidateObjectMeta`.
pub fn validate_metadata(metadata: &MetadataFields<'_>, name_rule: NameRule) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let (name, base) = (metadata.name, metadata.generate_name);
    if !base.is_empty() {
        let complaints = name_rule.check_base(base);
        refuse_each(&mut errors, "metadata.generateName", base, complaints);
    }
    if name.is_empty() {
        let detail = "name or generateName is required";
        errors.push(|| FieldError::required("metadata.name", detail));
    } else {
        refuse_each(&mut errors, "metadata.name", name, name_rule.check(name));
    }
    let namespace = metadata.namespace;
    if namespace.is_empty() {
        errors.push(|| FieldError::required("metadata.namespace", ""));
    } else {
        let complaints = check_dns1123_label(namespace);
        refuse_each(&mut errors, "metadata.namespace", namespace, complaints);
    }
    if metadata.generation < 0 {
        let detail = "must be greater than or equal to 0";
        let refused = metadata.generation;
        errors.push(|| FieldError::invalid_as("metadata.generation", refused, detail));
    }
    label_and_owner_rules(metadata, &mut errors);
    finalizer_rules(metadata, &mut errors);
    errors
}

/// Replaces a dash at the end of a generateName, which is not the end of the name.
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

/// Checks the rules for changing an object's metadata, besides those of [`validate_metadata`]. A
/// value that breaks rules of both is reported twice, as upstream does. Source:
/// `ValidateObjectMetaAccessorUpdate`.
pub fn validate_metadata_update(new: &MetadataFields<'_>, old: &MetadataFields<'_>) -> FieldErrors {
    let mut errors = FieldErrors::default();
    if old.deletion.0.is_some() {
        let known: BTreeSet<&String> = old.finalizers.iter().collect();
        let added = || new.finalizers.iter().filter(|one| !known.contains(one));
        if added().next().is_some() {
            let list = Joined(", ", || added().map(|one| Quoted(one)));
            let detail = format_args!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{list}}}"
            );
            errors.push(|| FieldError::forbidden("metadata.finalizers", detail));
        }
    }
    let compared = [
        ("metadata.name", new.name, old.name),
        ("metadata.namespace", new.namespace, old.namespace),
    ];
    for (field, new, _) in compared.into_iter().filter(|(_, new, old)| new != old) {
        errors.push(|| FieldError::invalid(field, new, IMMUTABLE));
    }
    if new.uid != old.uid {
        // Go has a type for the uid, which it prints as JSON.
        errors.push(|| FieldError::invalid_as("metadata.uid", JsonString(new.uid), IMMUTABLE));
    }
    let (time, grace) = new.deletion;
    if time != old.deletion.0 {
        let time = Immutable::Time(time);
        errors.push(|| FieldError::invalid_as("metadata.deletionTimestamp", time, IMMUTABLE));
    }
    if grace != old.deletion.1 {
        let grace = grace.map_or("null".into(), |seconds| seconds.to_string());
        errors.push(|| {
            FieldError::invalid_as("metadata.deletionGracePeriodSeconds", grace, IMMUTABLE)
        });
    }
    label_and_owner_rules(new, &mut errors);
    errors
}

fn label_and_owner_rules(metadata: &MetadataFields<'_>, errors: &mut FieldErrors) {
    for (key, value) in metadata.labels.into_iter().flatten() {
        refuse_each(errors, "metadata.labels", key, check_qualified_name(key));
        refuse_each(errors, "metadata.labels", value, check_label_value(value));
    }
    let mut annotations_len = 0;
    for (key, value) in metadata.annotations.into_iter().flatten() {
        // Keys of annotations may be written in any case.
        let complaints = check_qualified_name(&key.to_lowercase());
        refuse_each(errors, "metadata.annotations", key, complaints);
        annotations_len += key.len() + value.len();
    }
    if annotations_len > ANNOTATIONS_BYTES_MAX {
        let detail = format_args!("may not be more than {ANNOTATIONS_BYTES_MAX} bytes");
        errors.push(|| FieldError::new("metadata.annotations", Cause::TooLong, "", detail));
    }
    owner_rules(&metadata.owner_references, errors);
}

type Owner<'a> = ([&'a str; 4], [Option<bool>; 2]);

/// Checks the rules for owners. Source: `validateOwnerReference`, `ValidateOwnerReferences`.
fn owner_rules(owners: &[Owner<'_>], errors: &mut FieldErrors) {
    let mut controller = None;
    for owner in owners {
        let ([api_version, kind, name, uid], [is_controller, _]) = *owner;
        let version = match api_version.split_once('/') {
            None => api_version,
            Some((_, version)) if !version.contains('/') => version,
            Some(_) => "",
        };
        if version.is_empty() {
            let detail = "version must not be empty";
            let field = "metadata.ownerReferences.apiVersion";
            errors.push(|| FieldError::invalid(field, api_version, detail));
        }
        for (field, value) in [(".kind", kind), (".name", name), (".uid", uid)] {
            if value.is_empty() {
                let field = || format!("metadata.ownerReferences{field}");
                errors.push(|| FieldError::invalid(field(), value, "must not be empty"));
            }
        }
        if (api_version, kind) == ("v1", "Event") {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            let field = "metadata.ownerReferences";
            errors.push(|| FieldError::invalid_as(field, PrintedOwner(owner), detail));
        }
        if is_controller == Some(true) {
            let Some((first_kind, first_name)) = controller else {
                controller = Some((kind, name));
                continue;
            };
            let detail = format_args!(
                "Only one reference can have Controller set to true. Found \"true\" in references for \
                 {first_kind}/{first_name} and {kind}/{name}"
            );
            let all = Joined(",", || owners.iter().map(PrintedOwner));
            let all = format_args!("[{all}]");
            errors.push(|| FieldError::invalid_as("metadata.ownerReferences", all, detail));
        }
    }
}

/// Prints an owner as JSON.
struct PrintedOwner<'a>(&'a Owner<'a>);

impl Display for PrintedOwner<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let ([api_version, kind, name, uid], flags) = self.0;
        for (before, value) in [
            ("{\"apiVersion\":", api_version),
            (",\"kind\":", kind),
            (",\"name\":", name),
            (",\"uid\":", uid),
        ] {
            write!(f, "{before}{}", JsonString(value))?;
        }
        for (name, flag) in ["controller", "blockOwnerDeletion"].iter().zip(flags) {
            if let Some(flag) = flag {
                write!(f, ",\"{name}\":{flag}")?;
            }
        }
        f.write_str("}")
    }
}

/// Prints the items that a function returns, with a separator between them.
struct Joined<F>(&'static str, F);

impl<I: Iterator<Item: Display>, F: Fn() -> I> Display for Joined<F> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (place, item) in (self.1)().enumerate() {
            if place > 0 {
                f.write_str(self.0)?;
            }
            write!(f, "{item}")?;
        }
        Ok(())
    }
}

fn finalizer_rules(metadata: &MetadataFields<'_>, errors: &mut FieldErrors) {
    for finalizer in metadata.finalizers {
        let complaints = check_qualified_name(finalizer);
        refuse_each(errors, "metadata.finalizers", finalizer, complaints);
    }
    let has = |name: &str| {
        metadata
            .finalizers
            .iter()
            .any(|finalizer| finalizer == name)
    };
    if has("orphan") && has("foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        let all = Joined(",", || {
            metadata.finalizers.iter().map(|one| JsonString(one))
        });
        let all = format_args!("[{all}]");
        errors.push(|| FieldError::invalid_as("metadata.finalizers", all, detail));
    }
}

/// Checks the further rule of events.k8s.io for finalizers: a domain, or one of Kubernetes' own
/// names. Source: `validateKubeFinalizerName`.
fn unqualified_finalizers(metadata: &MetadataFields<'_>, errors: &mut FieldErrors) {
    for (place, finalizer) in metadata.finalizers.iter().enumerate() {
        let own = ["kubernetes", "orphan", "foregroundDeletion"];
        if !finalizer.contains('/') && !own.contains(&finalizer.as_str()) {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            let field = || format!("metadata.finalizers[{place}]");
            errors.push(|| FieldError::invalid(field(), finalizer, detail));
        }
    }
}

/// Complaints about a name that only has to be one segment of a URL path: core/v1 events have no
/// other rule.
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

/// Complaints about a DNS-1123 label, such as a namespace. A label has at most 63 bytes of
/// `[a-z0-9]([-a-z0-9]*[a-z0-9])?`.
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

/// Complaints about a DNS-1123 subdomain, such as most names: at most 253 bytes, labels joined by
/// dots.
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

/// Whether `name` is a DNS-1123 subdomain; [`check_dns1123_subdomain`] says why not. As in
/// Kubernetes, a part between dots may be longer than 63 bytes.
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

/// Complaints about a qualified name, such as a label key: an optional DNS subdomain and a slash,
/// then at most 63 bytes of letters, digits, `-`, `_` and `.` that start and end with a letter or
/// digit.
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

/// Complaints about a label's value. It may be empty, or has at most 63 bytes of letters, digits,
/// `-`, `_` and `.`, and starts and ends with a letter or digit.
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

/// Kubernetes' words for the unit of lengths. `k8s.io/apimachinery/pkg/util/validation` uses the
/// first for names, `pkg/api/validate/content` the second for keys and labels.
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
