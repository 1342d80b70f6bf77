//! The real services that `scripts/test` starts.
#![allow(dead_code, unreachable_pub, reason = "each test takes what it needs")]

/// The address of Apache Kafka, or `None` after saying so. With `CI` set there is no excuse.
pub fn kafka() -> Option<String> {
    service("KAFKA_BOOTSTRAP_SERVERS", "Kafka")
}

/// The URL of Redis, or `None` after saying so. With `CI` set there is no excuse.
pub fn redis() -> Option<String> {
    service("REDIS_URL", "Redis")
}

fn service(variable: &str, name: &str) -> Option<String> {
    match std::env::var(variable) {
        Ok(value) if !value.is_empty() => Some(value),
        _ if std::env::var_os("CI").is_some() => panic!("{variable} is not set"),
        _ => {
            println!("SKIPPED: {variable} is not set (scripts/test starts {name})");
            None
        }
    }
}
