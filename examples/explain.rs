//! Shows a properties file as it will be understood: `cargo run --example explain -- FILE`.
//!
//! Prints each chain as a tree, each value with its source, the client's settings, warnings and
//! lints; or, exiting 1, all mistakes of the file at once. Secrets are redacted. The classes of a
//! file's own types are not known here: name them after the file, as `CLASS=TYPE`
//! (`com.example.DecryptionDeserializer=aes-gcm`).

use kafka_chain::config::Registry;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(file) = arguments.next() else {
        eprintln!("usage: explain FILE [CLASS=TYPE…]");
        return ExitCode::from(2);
    };
    // The class that KIP-873 writes in its example, and this project in examples/.
    let mut registry =
        Registry::builtin().with_alias("com.example.DecryptionDeserializer", "aes-gcm");
    for alias in arguments {
        let Some((class, type_name)) = alias.split_once('=') else {
            eprintln!("`{alias}` is not CLASS=TYPE");
            return ExitCode::from(2);
        };
        registry = registry.with_alias(class, type_name);
    }
    match registry.load(&file) {
        Ok(configuration) => {
            print!("{}", configuration.explain());
            ExitCode::SUCCESS
        }
        Err(report) => {
            eprintln!("{report}");
            ExitCode::FAILURE
        }
    }
}
