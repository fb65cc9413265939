//! Decodes and encodes managedFields (`managedfields/internal/managedfields.go`, `capmanagers.go`).

use std::collections::BTreeMap;

use k8s_pb::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry, Time};

use super::changes::Changes;
use super::set::FieldSet;
use super::writer::Writer;

/// Maximum managers by update; beyond it the oldest are merged into one.
const UPDATE_MANAGERS_MAX: usize = 10;
/// Name of the manager that the oldest ones are merged into.
const OLD_UPDATES: &str = "ancient-changes";

/// The operation of a manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// A manager. The API version is not part of the identity of one that applies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Manager {
    pub(super) name: String,
    pub(super) operation: Operation,
    /// The API version of an update; empty for an apply.
    api_version: String,
    subresource: String,
}

impl Manager {
    pub(super) fn new(name: &str, operation: Operation, api_version: &str) -> Self {
        Self {
            name: if name.is_empty() { "unknown" } else { name }.to_owned(),
            operation,
            api_version: match operation {
                Operation::Apply => String::new(),
                Operation::Update => api_version.to_owned(),
            },
            subresource: String::new(),
        }
    }

    /// The manager's name in messages about conflicts.
    pub(super) fn describe(&self) -> String {
        let subresource = match self.subresource.as_str() {
            "" => String::new(),
            name => format!(" with subresource {name:?}"),
        };
        let version = match self.operation {
            Operation::Apply => String::new(),
            Operation::Update => format!(" using {}", self.api_version),
        };
        format!("{:?}{subresource}{version}", self.name)
    }
}

/// The fields that a manager owns.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) set: FieldSet,
    /// The API version whose field names the set has.
    pub(super) api_version: String,
    pub(super) time: Option<Time>,
}

/// All managers of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Managed(pub(super) BTreeMap<Manager, Entry>);

impl Managed {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads managedFields.
    ///
    /// # Errors
    ///
    /// The reason why they cannot be read.
    pub(super) fn decode(entries: &[ManagedFieldsEntry]) -> Result<Self, String> {
        let decoded = entries.iter().enumerate().map(|(index, entry)| {
            let operation = match entry.operation() {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                _ => return Err("operation must be `Apply` or `Update`".to_owned()),
            };
            if entry.api_version().is_empty() {
                return Err("apiVersion must not be empty".to_owned());
            }
            let wrong_type = |what: &str| Err(format!("{what} in managed fields entry {index}"));
            match entry.fields_type() {
                "FieldsV1" => {}
                "" => return wrong_type("missing fieldsType"),
                other => return wrong_type(&format!("invalid fieldsType {other:?}")),
            }
            let fields = entry.fields_v1.as_ref();
            let set = match fields.map(FieldsV1::raw) {
                None | Some([]) => FieldSet::default(),
                Some(raw) => FieldSet::from_json(raw)
                    .map_err(|error| format!("error decoding set: {error}"))?,
            };
            let manager = Manager {
                name: entry.manager().to_owned(),
                subresource: entry.subresource().to_owned(),
                ..Manager::new("", operation, entry.api_version())
            };
            let entry = Entry {
                set,
                api_version: entry.api_version().to_owned(),
                time: entry.time,
            };
            Ok((manager, entry))
        });
        decoded.collect::<Result<_, _>>().map(Self)
    }

    /// The managers as managedFields, in upstream's order: applies first, then by time and name.
    pub(super) fn encode(&self) -> Vec<ManagedFieldsEntry> {
        let mut entries: Vec<(&Manager, &Entry)> = self.0.iter().collect();
        entries.sort_by_key(|(manager, entry)| {
            let seconds = entry.time.and_then(|time| time.seconds).unwrap_or(0);
            (manager.operation, seconds, *manager)
        });
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let encode = |(manager, entry): (&Manager, &Entry)| ManagedFieldsEntry {
            manager: text(&manager.name),
            operation: text(manager.operation.name()),
            api_version: text(&entry.api_version),
            time: entry.time,
            fields_type: text("FieldsV1"),
            fields_v1: Some(FieldsV1 {
                raw: Some(entry.set.to_json()),
            }),
            subresource: text(&manager.subresource),
        };
        entries.into_iter().map(encode).collect()
    }

    /// Removes managers whose fields are of another API version.
    pub(super) fn keep_version(&mut self, api_version: &str) {
        self.0.retain(|_, entry| entry.api_version == api_version);
    }

    /// Removes changed fields from all managers, and then managers without fields.
    pub(super) fn take(&mut self, changes: &Changes) {
        self.0.retain(|_, entry| {
            entry.set.subtract(&changes.written);
            entry.set.subtract(&changes.removed);
            !entry.set.is_empty()
        });
    }

    /// Adds fields to a manager, with the writer's time.
    pub(super) fn add(&mut self, manager: Manager, set: &FieldSet, writer: Writer<'_>) {
        let entry = self.0.entry(manager).or_insert_with(|| Entry {
            set: FieldSet::default(),
            api_version: writer.api.api_version().to_owned(),
            time: None,
        });
        entry.set.unite(set);
        entry.time = Some(writer.now);
    }

    /// Merges the oldest managers by update into one, until their number is within the limit. All
    /// must be of one API version.
    pub(super) fn cap(&mut self) {
        let is_update = |manager: &&Manager| manager.operation == Operation::Update;
        let count = self.0.keys().filter(is_update).count();
        let surplus = count.saturating_sub(UPDATE_MANAGERS_MAX);
        if surplus == 0 {
            return;
        }
        let mut oldest: Vec<Manager> = self.0.keys().filter(is_update).cloned().collect();
        oldest.sort_by_key(|manager| {
            let time = self.0.get(manager).and_then(|entry| entry.time);
            let seconds = time.and_then(|time| time.seconds).unwrap_or(0);
            (seconds, manager.clone())
        });
        // The merged manager takes the place of one of them, so one more than the surplus is
        // merged.
        let oldest = oldest.iter().take(surplus + 1);
        let merged = oldest.filter_map(|manager| self.0.remove(manager));
        let merged = merged.reduce(|mut merged, entry| {
            merged.set.unite(&entry.set);
            merged.time = entry.time;
            merged
        });
        if let Some(merged) = merged {
            let bucket = Manager::new(OLD_UPDATES, Operation::Update, &merged.api_version);
            let entry = self.0.entry(bucket).or_insert_with(|| merged.clone());
            entry.set.unite(&merged.set);
            entry.time = merged.time;
        }
    }
}
