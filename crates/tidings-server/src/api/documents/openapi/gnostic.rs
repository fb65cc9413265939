//! Writes OpenAPI v2 as gnostic's protobuf message (`openapiv2/OpenAPIv2.proto`), which is the only
//! form that kubectl requests. It supports only the members that the server's documents have.

use serde_json::Value;
use tidings_core::wire::put_varint;

/// The operations of a path, with their field numbers.
const OPERATIONS: [(u32, &str); 5] = [
    (2, "get"),
    (3, "put"),
    (4, "post"),
    (5, "delete"),
    (8, "patch"),
];

/// The bytes of a document.
pub(in crate::api) fn encode(document: &Value) -> Vec<u8> {
    let info = |it: &Value| {
        let info = Message::default().text(1, &it["title"]);
        info.text(2, &it["version"])
    };
    Message::default()
        .text(1, &document["swagger"])
        .one(2, &document["info"], info)
        .one(8, &document["paths"], |it| named(2, it, path))
        .one(9, &document["definitions"], |it| named(1, it, schema))
        .0
}

fn path(it: &Value) -> Message {
    let put = |path: Message, (number, verb): (u32, &str)| path.one(number, &it[verb], operation);
    let operations = OPERATIONS.into_iter().fold(Message::default(), put);
    operations.each(9, &it["parameters"], parameter)
}

fn operation(it: &Value) -> Message {
    Message::default()
        .texts(6, &it["produces"])
        .texts(7, &it["consumes"])
        .each(8, &it["parameters"], parameter)
        .one(9, &it["responses"], |it| named(1, it, response))
        .extensions(13, it)
}

fn parameter(it: &Value) -> Message {
    let parameter = match it["in"].as_str() {
        Some("body") => Message::default()
            .text(2, &it["name"])
            .text(3, &it["in"])
            .flag(4, &it["required"])
            .one(5, &it["schema"], schema)
            .within(1),
        Some("path") => simple(it, [5, 19]).within(4).within(2),
        _ => simple(it, [6, 20]).within(3).within(2),
    };
    parameter.within(1)
}

/// A parameter of the path or the query. The two differ in the field numbers of their type and of
/// `uniqueItems`.
fn simple(it: &Value, [type_of, unique_items]: [u32; 2]) -> Message {
    Message::default()
        .flag(1, &it["required"])
        .text(2, &it["in"])
        .text(3, &it["description"])
        .text(4, &it["name"])
        .text(type_of, &it["type"])
        .flag(unique_items, &it["uniqueItems"])
}

fn response(it: &Value) -> Message {
    Message::default()
        .text(1, &it["description"])
        .one(2, &it["schema"], |it| schema(it).within(1))
        .within(1)
}

fn schema(it: &Value) -> Message {
    Message::default()
        .text(1, &it["$ref"])
        .text(2, &it["format"])
        .text(4, &it["description"])
        .texts(19, &it["required"])
        .one(21, &it["additionalProperties"], |it| schema(it).within(1))
        .one(22, &it["type"], |it| Message::default().text(1, it))
        .one(23, &it["items"], |it| schema(it).within(1))
        .one(25, &it["properties"], |it| named(1, it, schema))
        .extensions(31, it)
}

/// A message for the members of an object, each a message of its name and value.
fn named(number: u32, members: &Value, write: impl Fn(&Value) -> Message) -> Message {
    let members = members.as_object().into_iter().flatten();
    members.fold(Message::default(), |message, (name, value)| {
        message.member(number, name, &write(value))
    })
}

/// A message to which fields are appended. A member that is missing in the JSON is not written.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn bytes(mut self, number: u32, bytes: &[u8]) -> Self {
        // The wire type of bytes, texts and messages is 2.
        put_varint(u64::from((number << 3) | 2), &mut self.0);
        put_varint(bytes.len() as u64, &mut self.0);
        self.0.extend_from_slice(bytes);
        self
    }

    fn text(self, number: u32, text: &Value) -> Self {
        match text.as_str() {
            Some(text) => self.bytes(number, text.as_bytes()),
            None => self,
        }
    }

    fn texts(self, number: u32, texts: &Value) -> Self {
        let texts = texts.as_array().into_iter().flatten();
        texts.fold(self, |message, text| message.text(number, text))
    }

    fn flag(mut self, number: u32, flag: &Value) -> Self {
        if flag.as_bool() == Some(true) {
            // The wire type of numbers is 0.
            put_varint(u64::from(number << 3), &mut self.0);
            put_varint(1, &mut self.0);
        }
        self
    }

    fn one(self, number: u32, value: &Value, write: impl Fn(&Value) -> Self) -> Self {
        if value.is_null() {
            return self;
        }
        self.bytes(number, &write(value).0)
    }

    fn each(self, number: u32, values: &Value, write: impl Fn(&Value) -> Self) -> Self {
        let values = values.as_array().into_iter().flatten();
        values.fold(self, |message, value| message.one(number, value, &write))
    }

    /// The members whose names begin with `x-`. Their values are YAML, which JSON is, too.
    fn extensions(self, number: u32, members: &Value) -> Self {
        let members = members.as_object().into_iter().flatten();
        let extensions = members.filter(|(name, _)| name.starts_with("x-"));
        extensions.fold(self, |message, (name, value)| {
            let any = Self::default().bytes(2, value.to_string().as_bytes());
            message.member(number, name, &any)
        })
    }

    fn member(self, number: u32, name: &str, value: &Self) -> Self {
        let member = Self::default().bytes(1, name.as_bytes());
        self.bytes(number, &member.bytes(2, &value.0).0)
    }

    /// A message with this one as its only field.
    fn within(self, number: u32) -> Self {
        Self::default().bytes(number, &self.0)
    }
}
