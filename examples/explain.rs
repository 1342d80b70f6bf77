//! Shows a properties file as it will be understood: `cargo run --example explain -- FILE`.
//!
//! Prints each chain as a tree, each value with its source, the client's settings, warnings and
//! lints; or, exiting 1, all mistakes of the file at once. Secrets are redacted.
//!
//! The types of an application are not known here: name their classes after the file, alone for
//! a stand-in of bytes (`com.example.VaultDeserializer`) or with the type that they are like
//! (`com.example.VaultDeserializer=aes-gcm`). The class of KIP-873's example has a stand-in already.

use kafka_chain::codecs::BytesCodec;
use kafka_chain::config::Registry;
use std::process::ExitCode;

const KIP873_CLASS: &str = "com.example.DecryptionDeserializer";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(file) = arguments.next().filter(|word| word != "--help") else {
        eprintln!("usage: explain FILE [CLASS…] [CLASS=TYPE…]");
        return ExitCode::from(2);
    };
    let stand_in =
        |registry: Registry, class: &str| registry.with_deserializer(class, |_| Some(BytesCodec));
    let mut registry = stand_in(Registry::builtin(), KIP873_CLASS);
    for class in arguments {
        registry = match class.split_once('=') {
            Some((class, type_name)) => registry.with_alias(class, type_name),
            None => stand_in(registry, &class),
        };
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
