//! Values of the Java client's keys as librdkafka takes them. No error quotes a value.

fn whole_number(value: &str) -> Result<i64, String> {
    value
        .trim()
        .parse()
        .map_err(|_| "a whole number is expected".to_owned())
}

/// -1 is the system's default in Java, 0 in librdkafka.
pub(super) fn buffer_bytes(value: &str) -> Result<String, String> {
    whole_number(value).map(|bytes| if bytes == -1 { 0 } else { bytes }.to_string())
}

/// Rounded up: librdkafka takes at least 1.
pub(super) fn bytes_to_kbytes(value: &str) -> Result<String, String> {
    match whole_number(value)? {
        bytes if bytes >= 0 => Ok(((bytes / 1024) + i64::from(bytes % 1024 != 0))
            .max(1)
            .to_string()),
        _ => Err("a number of bytes cannot be negative".to_owned()),
    }
}

/// Java's `none` makes a missing offset an error; librdkafka calls that `error`.
pub(super) fn offset_reset(value: &str) -> Result<String, String> {
    match value.trim().to_ascii_lowercase() {
        none if none == "none" => Ok("error".to_owned()),
        by if by.starts_with("by_duration") => {
            Err("librdkafka has no by_duration; use earliest or latest".to_owned())
        }
        other => Ok(other),
    }
}

pub(super) fn lower_case(value: &str) -> Result<String, String> {
    Ok(value.trim().to_ascii_lowercase())
}

pub(super) fn assignors(value: &str) -> Result<String, String> {
    let names: Vec<&str> = value
        .split(',')
        .map(|class| match class.trim() {
            "org.apache.kafka.clients.consumer.RangeAssignor" | "range" => Ok("range"),
            "org.apache.kafka.clients.consumer.RoundRobinAssignor" | "roundrobin" => {
                Ok("roundrobin")
            }
            "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
            | "cooperative-sticky" => Ok("cooperative-sticky"),
            _ => Err("librdkafka has range, roundrobin and cooperative-sticky only".to_owned()),
        })
        .collect::<Result<_, _>>()?;
    if names.contains(&"cooperative-sticky") && names.len() > 1 {
        return Err(
            "librdkafka cannot mix cooperative-sticky with others; name it alone once \
                    every member of the group supports it"
                .to_owned(),
        );
    }
    Ok(names.join(","))
}

pub(super) fn partitioner(class: &str) -> Result<String, String> {
    match class.trim() {
        // The default of the Java client is the default of every producer here.
        "" | "null" | "org.apache.kafka.clients.producer.internals.DefaultPartitioner" => {
            Ok("murmur2_random".to_owned())
        }
        _ => Err("a Java class cannot run here; librdkafka's setting is partitioner".to_owned()),
    }
}

pub(super) fn ciphers(value: &str) -> Result<String, String> {
    if value
        .split([',', ':'])
        .any(|name| name.trim().starts_with("TLS_"))
    {
        return Err(
            "librdkafka expects OpenSSL's names of TLS 1.2 suites, divided by colons".to_owned(),
        );
    }
    Ok(value.to_owned())
}

pub(super) fn endpoint_identification(value: &str) -> Result<String, String> {
    match value.trim() {
        "" => Ok("none".to_owned()),
        other => Ok(other.to_ascii_lowercase()),
    }
}

pub(super) fn keystore(path: &str) -> Result<String, String> {
    if path.trim().to_ascii_lowercase().ends_with(".jks") {
        return Err(
            "librdkafka reads PKCS#12 keystores, not JKS; convert it, or use \
                    ssl.certificate.location and ssl.key.location with PEM files"
                .to_owned(),
        );
    }
    Ok(path.to_owned())
}

#[cfg(test)]
mod tests {
    use crate::transport::{JavaKey, java_key};

    fn converted(name: &str, value: &str) -> (&'static str, Result<String, String>) {
        match java_key(name) {
            Some(JavaKey::Converted(to, convert)) => (to, convert(value)),
            other => panic!("{name}: {other:?}"),
        }
    }

    #[test]
    fn units_and_names_of_values_are_converted() {
        let cases = [
            (
                "buffer.memory",
                "33554432",
                "queue.buffering.max.kbytes",
                "32768",
            ),
            ("buffer.memory", "1", "queue.buffering.max.kbytes", "1"),
            ("buffer.memory", "1025", "queue.buffering.max.kbytes", "2"),
            ("send.buffer.bytes", "-1", "socket.send.buffer.bytes", "0"),
            ("auto.offset.reset", "latest", "auto.offset.reset", "latest"),
            ("group.protocol", "CONSUMER", "group.protocol", "consumer"),
            ("ssl.endpoint.identification.algorithm", "", "", "none"),
            (
                "partition.assignment.strategy",
                "org.apache.kafka.clients.consumer.RangeAssignor, \
                 org.apache.kafka.clients.consumer.RoundRobinAssignor",
                "partition.assignment.strategy",
                "range,roundrobin",
            ),
        ];
        for (name, value, to, result) in cases {
            let (key, converted) = converted(name, value);
            assert!(to.is_empty() || key == to, "{name}");
            assert_eq!(converted.as_deref(), Ok(result), "{name}");
        }
        for (name, value) in [
            ("buffer.memory", "-1"),
            ("buffer.memory", "much"),
            ("auto.offset.reset", "by_duration:PT1H"),
            (
                "partition.assignment.strategy",
                "org.apache.kafka.clients.consumer.StickyAssignor",
            ),
            ("partition.assignment.strategy", "range,cooperative-sticky"),
            ("ssl.keystore.location", "/etc/client.JKS"),
            ("ssl.cipher.suites", "TLS_AES_256_GCM_SHA384"),
            (
                "partitioner.class",
                "org.apache.kafka.clients.producer.RoundRobinPartitioner",
            ),
        ] {
            assert!(converted(name, value).1.is_err(), "{name}={value}");
        }
    }
}
