//! The command line of the redrive.

use kafka_chain::redrive::{Filter, Redrive, RedriveBuilder, To};
use kafka_chain::transport::Settings;

const USAGE: &str = "\
usage: redrive [--bootstrap-servers HOST:PORT]                  a demonstration
       redrive DEAD-LETTER-TOPIC JOB [options]
  --bootstrap-servers HOST:PORT   the cluster; localhost:9092 unless given. The demonstration
                                  without it is on an embedded broker
  --client FILE                   client settings by librdkafka's names: security.protocol, sasl, ssl
  --dry-run                       tells what would be done and changes nothing
which dead letters (an option that repeats takes any of its values):
  --kind KIND                     decrypt, schema ..., or the class of a Java exception
  --stage STAGE                   a stage that the error passed
  --fingerprint HASH              as in kafka-chain-fingerprint
  --partition N                   of the topic the records came from
  --since TIME --until TIME       given up in this time: 2026-06-01T12:00:00Z, or epoch milliseconds
where to:
  --to source|retry|auto          source: every group gets it again; retry: only the group that gave
                                  it up; auto (unless given): retry where that topic exists
  --group GROUP                   the group of --to retry, whatever headers say
  --allow PATTERN                 topics that may be written to, * is anything; of X.dead-letter
                                  these are X and X.*.retry unless given
  --parking TOPIC                 for those redriven too often; DEAD-LETTER-TOPIC.parking unless given
  --most-redrives N               how often is not too often; 3 unless given
  --new-timestamps                the time of now, not that of the originals
how fast:
  --rate N                        records a second at most
  --batch N                       records of a transaction at most; 500 unless given

A job that is run again goes on where it was and repeats nothing. Its name stands for its filter.";

/// What was asked for.
#[derive(Debug)]
pub struct Arguments {
    pub bootstrap_servers: Option<String>,
    pub client: Option<String>,
    pub dry_run: bool,
    /// Topic and job; none for the demonstration.
    pub what: Option<(String, String)>,
    filter: Filter,
    /// Options of a redrive, in their order.
    options: Vec<(String, String)>,
}

impl Arguments {
    pub fn read(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut arguments = Arguments {
            bootstrap_servers: None,
            client: None,
            dry_run: false,
            what: None,
            filter: Filter::new(),
            options: Vec::new(),
        };
        let mut plain = Vec::new();
        while let Some(word) = words.next() {
            if !word.starts_with("--") && word != "-h" {
                plain.push(word);
                continue;
            }
            let mut value = || {
                let value = words.next();
                value.ok_or_else(|| format!("{word} needs a value\n{USAGE}"))
            };
            let filter = arguments.filter.clone();
            match word.as_str() {
                "--help" | "-h" => return Err(USAGE.to_owned()),
                "--bootstrap-servers" => arguments.bootstrap_servers = Some(value()?),
                "--client" => arguments.client = Some(value()?),
                "--dry-run" => arguments.dry_run = true,
                "--kind" => arguments.filter = filter.kind(value()?),
                "--stage" => arguments.filter = filter.stage(value()?),
                "--fingerprint" => arguments.filter = filter.fingerprint(value()?),
                "--partition" => arguments.filter = filter.partition(number(&word, &value()?)?),
                "--since" => arguments.filter = filter.since(instant(&word, &value()?)?),
                "--until" => arguments.filter = filter.until(instant(&word, &value()?)?),
                "--new-timestamps" => arguments.options.push((word, String::new())),
                "--to" | "--group" | "--allow" | "--parking" | "--most-redrives" | "--rate"
                | "--batch" => {
                    let value = value()?;
                    arguments.options.push((word, value));
                }
                _ => return Err(format!("`{word}` is not an option\n{USAGE}")),
            }
        }
        let mut plain = plain.into_iter();
        arguments.what = match (plain.next(), plain.next(), plain.next()) {
            (None, None, None) => None,
            (Some(topic), Some(job), None) => Some((topic, job)),
            _ => return Err(format!("a dead-letter topic and a job, please\n{USAGE}")),
        };
        Ok(arguments)
    }

    /// The redrive that was asked for.
    pub fn redrive(
        &self,
        settings: &Settings,
        topic: &str,
        job: &str,
    ) -> Result<RedriveBuilder, String> {
        let mut redrive = Redrive::builder(settings, topic, job).filter(self.filter.clone());
        for (option, value) in &self.options {
            redrive = match option.as_str() {
                "--to" => redrive.to(match value.as_str() {
                    "source" => To::Source,
                    "retry" => To::Retry,
                    "auto" => To::Auto,
                    _ => return Err(format!("--to is source, retry or auto\n{USAGE}")),
                }),
                "--group" => redrive.group(value),
                "--allow" => redrive.allow(value),
                "--parking" => redrive.parking(value),
                "--most-redrives" => redrive.most_redrives(number(option, value)?),
                "--rate" => redrive.rate(number(option, value)?),
                "--batch" => redrive.batch(number(option, value)?),
                _ => redrive.new_timestamps(),
            };
        }
        Ok(redrive)
    }
}

fn number<N: std::str::FromStr>(option: &str, value: &str) -> Result<N, String> {
    let number = value.parse();
    number.map_err(|_| format!("{option} is a number, not `{value}`\n{USAGE}"))
}

fn instant(option: &str, value: &str) -> Result<i64, String> {
    let millis = value.parse().ok().or_else(|| utc(value));
    millis.ok_or_else(|| {
        format!("{option} is a time as 2026-06-01T12:00:00Z, not `{value}`\n{USAGE}")
    })
}

/// Epoch milliseconds of `YYYY-MM-DDTHH:MM:SSZ`.
fn utc(text: &str) -> Option<i64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let numbers = |text: &str, separator| -> Option<Vec<i64>> {
        text.split(separator)
            .map(|part| {
                part.bytes()
                    .all(|b| b.is_ascii_digit())
                    .then(|| part.parse().ok())?
            })
            .collect()
    };
    let (date, time) = (numbers(date, '-')?, numbers(time, ':')?);
    let ([year, month, day], [hour, minute, second]) = (date.as_slice(), time.as_slice()) else {
        return None;
    };
    let fits = (1970..=9999).contains(year)
        && (1..=12).contains(month)
        && (1..=31).contains(day)
        && *hour < 24
        && *minute < 60
        && *second < 60;
    // A year that begins in March ends with the leap day.
    let year = if *month > 2 { *year } else { year - 1 };
    let days =
        year * 365 + year / 4 - year / 100 + year / 400 + (153 * ((month + 9) % 12) + 2) / 5 + day
            - 719_469;
    fits.then_some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1000)
}
