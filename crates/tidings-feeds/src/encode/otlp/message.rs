//! The protobuf messages of OTLP logs, as far as they are written and read here.
//!
//! Numbers are those of `opentelemetry/proto/{collector/logs,logs,common,resource}/v1`.

use prost::{Message, Oneof};

/// `ExportLogsServiceRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct ExportLogsServiceRequest {
    /// The log records of each resource.
    #[prost(message, repeated, tag = "1")]
    pub resource_logs: Vec<ResourceLogs>,
}

/// `ExportLogsServiceResponse`.
#[derive(Clone, PartialEq, Message)]
pub struct ExportLogsServiceResponse {
    /// What was not accepted.
    #[prost(message, optional, tag = "1")]
    pub partial_success: Option<ExportLogsPartialSuccess>,
}

/// `ExportLogsPartialSuccess`.
#[derive(Clone, PartialEq, Message)]
pub struct ExportLogsPartialSuccess {
    /// How many log records were rejected.
    #[prost(int64, tag = "1")]
    pub rejected_log_records: i64,
    /// Why; without rejected log records, a warning.
    #[prost(string, tag = "2")]
    pub error_message: String,
}

/// `ResourceLogs`.
#[derive(Clone, PartialEq, Message)]
pub struct ResourceLogs {
    /// The resource.
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    /// Its log records, by scope.
    #[prost(message, repeated, tag = "2")]
    pub scope_logs: Vec<ScopeLogs>,
}

/// `Resource`.
#[derive(Clone, PartialEq, Message)]
pub struct Resource {
    /// What is known of the resource.
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
}

/// `ScopeLogs`.
#[derive(Clone, PartialEq, Message)]
pub struct ScopeLogs {
    /// What made the log records.
    #[prost(message, optional, tag = "1")]
    pub scope: Option<InstrumentationScope>,
    /// The log records.
    #[prost(message, repeated, tag = "2")]
    pub log_records: Vec<LogRecord>,
}

/// `InstrumentationScope`.
#[derive(Clone, PartialEq, Message)]
pub struct InstrumentationScope {
    /// The name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The version.
    #[prost(string, tag = "2")]
    pub version: String,
}

/// `LogRecord`.
#[derive(Clone, PartialEq, Message)]
pub struct LogRecord {
    /// When it happened, in nanoseconds since 1970.
    #[prost(fixed64, tag = "1")]
    pub time_unix_nano: u64,
    /// The severity: 9 is INFO, 13 is WARN; 0 is unknown.
    #[prost(int32, tag = "2")]
    pub severity_number: i32,
    /// The severity in the source's word.
    #[prost(string, tag = "3")]
    pub severity_text: String,
    /// The text.
    #[prost(message, optional, tag = "5")]
    pub body: Option<AnyValue>,
    /// What is known of the log record.
    #[prost(message, repeated, tag = "6")]
    pub attributes: Vec<KeyValue>,
    /// When it was observed, in nanoseconds since 1970.
    #[prost(fixed64, tag = "11")]
    pub observed_time_unix_nano: u64,
}

/// `KeyValue`.
#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    /// The name.
    #[prost(string, tag = "1")]
    pub key: String,
    /// The value.
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

/// `AnyValue`.
#[derive(Clone, PartialEq, Message)]
pub struct AnyValue {
    /// The value.
    #[prost(oneof = "Value", tags = "1, 3")]
    pub value: Option<Value>,
}

/// The values of an [`AnyValue`] that are used here.
#[derive(Clone, PartialEq, Oneof)]
pub enum Value {
    /// A text.
    #[prost(string, tag = "1")]
    Text(String),
    /// An integer.
    #[prost(int64, tag = "3")]
    Integer(i64),
}

impl KeyValue {
    /// Makes an attribute with a text.
    pub fn text(key: &str, text: &str) -> Self {
        Self::new(key, Value::Text(text.to_owned()))
    }

    /// Makes an attribute with an integer.
    pub fn integer(key: &str, integer: i64) -> Self {
        Self::new(key, Value::Integer(integer))
    }

    fn new(key: &str, value: Value) -> Self {
        Self {
            key: key.to_owned(),
            value: Some(AnyValue { value: Some(value) }),
        }
    }
}
