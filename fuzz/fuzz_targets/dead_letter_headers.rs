#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| kafka_chain_fuzz::run("dead_letter_headers", input));
