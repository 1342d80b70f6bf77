//! The command line of the main job.

/// What was asked for.
#[derive(Debug)]
pub struct Arguments {
    pub bootstrap_servers: Option<String>,
    pub properties: Option<String>,
    pub records: usize,
}

const USAGE: &str = "\
usage: consumer_pipeline [--bootstrap-servers HOST:PORT] [--properties FILE] [--records N]
  --bootstrap-servers  a Kafka cluster; without it an embedded broker is started
  --properties         another chain than examples/consumer.properties
  --records            how many sample orders, from 1 to 1000000; 10000 unless given";

impl Arguments {
    pub fn read(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut arguments = Arguments {
            bootstrap_servers: None,
            properties: None,
            records: 10_000,
        };
        while let Some(word) = words.next() {
            let mut value = || {
                words
                    .next()
                    .ok_or_else(|| format!("{word} needs a value\n{USAGE}"))
            };
            match word.as_str() {
                "--bootstrap-servers" => arguments.bootstrap_servers = Some(value()?),
                "--properties" => arguments.properties = Some(value()?),
                "--records" => {
                    arguments.records = value()?
                        .parse()
                        .ok()
                        .filter(|records| (1..=1_000_000).contains(records))
                        .ok_or_else(|| format!("--records is from 1 to 1000000\n{USAGE}"))?;
                }
                "--help" | "-h" => return Err(USAGE.to_owned()),
                _ => return Err(format!("`{word}` is not an option\n{USAGE}")),
            }
        }
        Ok(arguments)
    }

    /// What tells the topics of this run from those of others on a cluster; none is needed on a
    /// broker that lives as long as the run.
    pub fn run_name(&self) -> Option<String> {
        self.bootstrap_servers.as_ref()?;
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Some(since.map_or_else(|_| "0".to_owned(), |since| since.as_millis().to_string()))
    }
}
