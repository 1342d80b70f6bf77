//! Inputs of any size, to see whether time grows as they do.

/// A `.properties` file of so many entries: comments, continued lines, escapes and repeats.
pub(crate) fn properties(entries: usize) -> String {
    let mut text = String::from("# made to measure\n");
    for n in 0..entries {
        let line = match n % 4 {
            0 => format!("value.deserializer.part{n}.key=some value of entry {n}\n"),
            1 => format!("  topic.{n} : orders, \\\n      payments, \\\n      refunds\n"),
            2 => format!("client\\ id.{n} = caf\\u00e9\\t{n}\n! a comment\n"),
            _ => format!("repeated.{} = {n}\n", n % 8),
        };
        text.push_str(&line);
    }
    text
}

/// A list of so many longs as Kafka's `ListSerializer` writes it: without lengths.
pub(crate) fn longs(entries: u32) -> Vec<u8> {
    let mut bytes = vec![0];
    bytes.extend(0_u32.to_be_bytes());
    bytes.extend(entries.to_be_bytes());
    for n in 0..entries {
        bytes.extend(i64::from(n).to_be_bytes());
    }
    bytes
}

/// A list of so many strings: each with its length.
pub(crate) fn strings(entries: u32) -> Vec<u8> {
    let mut bytes = vec![1];
    bytes.extend(entries.to_be_bytes());
    for n in 0..entries {
        let entry = format!("entry {n:06}");
        bytes.extend((entry.len() as u32).to_be_bytes());
        bytes.extend(entry.as_bytes());
    }
    bytes
}

/// A JSON array of so many objects.
pub(crate) fn json(entries: usize) -> String {
    let object = |n: usize| {
        format!(
            r#"{{"id":{},"name":"entry {n:06}","price":12.5}}"#,
            100_000 + n
        )
    };
    format!(
        "[{}]",
        (0..entries).map(object).collect::<Vec<_>>().join(",")
    )
}
