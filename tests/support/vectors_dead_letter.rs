//! Runs one case of `dlq-headers.json` through the public API.

use kafka_chain::dead_letter::{
    DeadLetterInfo, DeadLetters, Dialect, Encoding, Fact, Field, Originals,
};
use kafka_chain::{Headers, Timestamp};
use serde_json::{Value as Json, json};

/// Runs `case`; the error says what was expected and what came.
///
/// A situation is built as the case's framework behaves unless told otherwise: origin headers are
/// appended, and Streams starts from no headers.
pub(crate) fn run(case: &Json) -> Result<(), String> {
    let (input, expect) = (&case["input"], &case["expect"]);
    let got = match text(&input["op"])? {
        "encode_header" => encode(input)?,
        "decode_header" => decode(input)?,
        "build_headers" => return build(input, expect),
        op => return Err(format!("unknown operation {op}")),
    };
    if *expect == got {
        Ok(())
    } else {
        Err(format!("expected {expect}, got {got}"))
    }
}

fn encode(input: &Json) -> Result<Json, String> {
    let dialect = dialect(&input["scheme"])?;
    let field = field(text(&input["field"])?)?;
    let header = dialect
        .header(field)
        .ok_or("the dialect has no such header")?;
    let value = match &input["value"] {
        Json::Null => None,
        value => header.encoding.encode(&fact(header.encoding, value)?),
    };
    Ok(json!({
        "name": header.name,
        "encoding": header.encoding.as_str(),
        "value_hex": value.map(|bytes| hex(&bytes)),
    }))
}

fn decode(input: &Json) -> Result<Json, String> {
    let name = text(&input["name"])?.as_bytes();
    let header = Dialect::ALL
        .into_iter()
        .find_map(|dialect| dialect.header_named(name))
        .ok_or("no dialect has this header")?;
    let value = bytes(&input["value_hex"])?;
    let value = match header.decode(value.as_deref()) {
        None => Json::Null,
        Some(Fact::Text(text)) => text.into(),
        Some(Fact::Number(number)) if header.encoding == Encoding::I32 => number.into(),
        Some(Fact::Number(number)) => number.to_string().into(),
    };
    Ok(json!({ "value": value }))
}

fn build(input: &Json, expect: &Json) -> Result<(), String> {
    let dialect = dialect(&input["scheme"])?;
    let mut letters = DeadLetters::new()
        .dialects([dialect])
        .originals(Originals::Append);
    if dialect == Dialect::Streams {
        letters = letters.without_own_headers();
    }
    let mut info = DeadLetterInfo::new();
    let situation = input["situation"].as_object().ok_or("no situation")?;
    // A situation that has coordinates has no others.
    if !situation.keys().any(|name| name.starts_with("original_")) {
        info.set(Field::Topic, "orders");
        info.set(Field::Partition, 3);
        info.set(Field::Offset, 42);
    }
    info.set(Field::ExceptionClass, "java.lang.IllegalStateException");
    info.set(Field::Message, "boom");
    info.set(Field::Trace, "java.lang.IllegalStateException: boom\n");
    let mut own = Headers::new();
    let mut timestamp = Timestamp::NotAvailable;
    for (name, value) in situation {
        match name.as_str() {
            "append_original_headers" if value == false => {
                letters = letters.originals(Originals::First);
            }
            "context_headers_enabled" if value == false => letters = letters.dialects([]),
            "append_original_headers" | "context_headers_enabled" => {}
            "existing" => {
                for header in value.as_array().ok_or("existing is no list")? {
                    own.push(
                        text(&header["name"])?.to_owned(),
                        bytes(&header["value_hex"])?,
                    );
                }
            }
            "record_timestamp" => timestamp = Timestamp::CreateTime(number(value)?),
            "key_deserialization_failed" if value == true => info.set(Field::Part, "key"),
            "value_deserialization_failed" if value == true => info.set(Field::Part, "value"),
            "key_deserialization_failed" | "value_deserialization_failed" => {}
            "original_partition" | "original_offset" => info.set(field(name)?, number(value)?),
            name => {
                let field = match name {
                    "exception" => Field::ExceptionClass,
                    "cause" => Field::CauseClass,
                    "cause_message" => Field::CauseMessage,
                    name => field(name)?,
                };
                match value {
                    Json::Null => drop(info.remove(field)),
                    value => info.set(field, text(value)?),
                }
            }
        }
    }
    let headers = letters.headers(own.view(), &info);
    let producer = letters
        .timestamp_of(timestamp)
        .map(|millis| millis.to_string());
    for (name, expected) in expect.as_object().ok_or("nothing is expected")? {
        let agrees = match name.as_str() {
            "producer_record_timestamp" => *expected == json!(producer),
            "header_order" => *expected == names(&headers),
            "present" => list(expected)?
                .iter()
                .all(|name| !with_name(&headers, name).is_empty()),
            "absent" => list(expected)?
                .iter()
                .all(|name| with_name(&headers, name).is_empty()),
            "headers_with_name" => list(expected)?.iter().all(|header| {
                let same = |other: &&Json| other["name"] == header["name"];
                let all: Vec<_> = list(expected).into_iter().flatten().filter(same).collect();
                with_name(&headers, &header["name"])
                    .iter()
                    .collect::<Vec<_>>()
                    == all
            }),
            other => return Err(format!("unknown expectation {other}")),
        };
        if !agrees {
            return Err(format!(
                "expected {name} {expected}, got timestamp {producer:?} and {}",
                shown(&headers)
            ));
        }
    }
    Ok(())
}

fn shown(headers: &Headers) -> Json {
    headers
        .iter()
        .map(|(name, value)| {
            json!({
                "name": String::from_utf8_lossy(name),
                "value_hex": value.map(|bytes| hex(bytes)),
            })
        })
        .collect()
}

fn names(headers: &Headers) -> Json {
    headers
        .iter()
        .map(|(name, _)| json!(String::from_utf8_lossy(name)))
        .collect()
}

fn with_name(headers: &Headers, name: &Json) -> Vec<Json> {
    let all = shown(headers);
    let all = all.as_array().cloned().unwrap_or_default();
    all.into_iter()
        .filter(|header| header["name"] == *name)
        .collect()
}

fn list(json: &Json) -> Result<&Vec<Json>, String> {
    json.as_array().ok_or_else(|| format!("{json} is no list"))
}

fn dialect(scheme: &Json) -> Result<Dialect, String> {
    Dialect::from_name(text(scheme)?).ok_or_else(|| format!("unknown scheme {scheme}"))
}

fn field(name: &str) -> Result<Field, String> {
    Ok(match name {
        "original_topic" => Field::Topic,
        "original_partition" => Field::Partition,
        "original_offset" => Field::Offset,
        "original_timestamp" => Field::Timestamp,
        "original_timestamp_type" => Field::TimestampType,
        "consumer_group" => Field::Group,
        "exception" => Field::Exception,
        "exception_class" => Field::ExceptionClass,
        "exception_cause_class" => Field::CauseClass,
        "exception_message" => Field::Message,
        "exception_stacktrace" => Field::Trace,
        "key_exception_class" => Field::KeyExceptionClass,
        "key_exception_message" => Field::KeyMessage,
        "key_exception_stacktrace" => Field::KeyTrace,
        "delivery_attempt" => Field::DeliveryAttempt,
        "retry_attempts" => Field::RetryAttempts,
        "retry_original_timestamp" => Field::RetryOriginalTimestamp,
        "retry_backoff_timestamp" => Field::RetryDueTimestamp,
        "key_deserialization_exception" => Field::KeyDeserializationException,
        "value_deserialization_exception" => Field::ValueDeserializationException,
        "connector_name" => Field::ConnectorName,
        "task_id" => Field::TaskId,
        "stage" => Field::ConnectStage,
        "executing_class" => Field::ExecutingClass,
        other => return Err(format!("unknown field {other}")),
    })
}

fn fact(encoding: Encoding, value: &Json) -> Result<Fact, String> {
    Ok(match encoding {
        Encoding::Utf8 => Fact::from(text(value)?),
        _ => Fact::from(number(value)?),
    })
}

fn text(json: &Json) -> Result<&str, String> {
    json.as_str().ok_or_else(|| format!("{json} is no text"))
}

fn number(json: &Json) -> Result<i64, String> {
    let text = || json.as_str()?.parse().ok();
    json.as_i64()
        .or_else(text)
        .ok_or_else(|| format!("{json} is no number"))
}

fn bytes(json: &Json) -> Result<Option<Vec<u8>>, String> {
    let Some(hex) = json.as_str() else {
        return Ok(None);
    };
    let digits: Option<Vec<u8>> = hex
        .chars()
        .map(|digit| digit.to_digit(16)?.try_into().ok())
        .collect();
    let digits = digits.ok_or_else(|| format!("{json} is no hexadecimal"))?;
    Ok(Some(
        digits
            .chunks(2)
            .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit))
            .collect(),
    ))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
