//! Names: Java's spellings of a class, and the nearest valid spelling of a wrong word.

/// A class name in the one form that all its spellings share: `$` and `.` are equal, and KIP-873's
/// `deserialization` package is Kafka's `serialization`.
pub(crate) fn normal_class(name: &str) -> String {
    name.replace('$', ".")
        .replace(".deserialization.", ".serialization.")
}

/// What follows the last `.` or `$`.
pub(crate) fn simple_class(name: &str) -> &str {
    name.rsplit(['.', '$']).next().unwrap_or(name)
}

/// Whether `written` names the class `full`: in full, or by its simple name alone.
pub(crate) fn is_class(written: &str, full: &str) -> bool {
    if written.contains(['.', '$']) {
        normal_class(written) == normal_class(full)
    } else {
        written == simple_class(full)
    }
}

/// `AesGcmDeserializer` → `aes-gcm`; `HTTPKeyDeserializer` → `http-key`.
pub(crate) fn kebab(class: &str) -> String {
    let simple = simple_class(class);
    let stem = class_stem(simple);
    let characters: Vec<char> = stem.chars().collect();
    let mut name = String::new();
    for (index, character) in characters.iter().enumerate() {
        let before = index
            .checked_sub(1)
            .and_then(|before| characters.get(before));
        let after = characters.get(index + 1);
        let starts_word = character.is_uppercase()
            && before.is_some_and(|before| {
                !before.is_uppercase() || after.is_some_and(|after| after.is_lowercase())
            });
        if starts_word {
            name.push('-');
        }
        name.extend(character.to_lowercase());
    }
    name
}

/// A simple class name without its `Deserializer`, `Serializer` or `Serde`.
fn class_stem(simple: &str) -> &str {
    ["Deserializer", "Serializer", "Serde"]
        .iter()
        .find_map(|suffix| simple.strip_suffix(suffix).filter(|stem| !stem.is_empty()))
        .unwrap_or(simple)
}

/// The kebab name that a wrong class name likely means: an ending that is a slip of `Deserializer`
/// or `Serializer` is dropped too.
pub(crate) fn likely_kebab(class: &str) -> String {
    let name = kebab(class);
    match name.rsplit_once('-') {
        Some((stem, end)) if is_slip(end, "deserializer") || is_slip(end, "serializer") => {
            stem.to_owned()
        }
        _ => name,
    }
}

/// How many characters of a word are compared.
const LONGEST: usize = 128;

/// How near two words are, from 0 to 1; words are cut to a bounded length first.
fn nearness(a: &str, b: &str) -> f64 {
    let cut = |text: &str| text.chars().take(LONGEST).collect::<String>();
    strsim::normalized_damerau_levenshtein(&cut(a), &cut(b))
}

/// Whether two words can be a slip apart, by how often they have each character: much cheaper than
/// their nearness, and right to refuse. A slip changes no more than one character for another.
fn may_be_slip(a: &str, b: &str) -> bool {
    let mut counts = [0_i32; 64];
    let mut lengths = (0, 0);
    for (text, step, length) in [(a, 1, &mut lengths.0), (b, -1, &mut lengths.1)] {
        for character in text.chars().take(LONGEST) {
            let place = u32::from(character) as usize % counts.len();
            if let Some(count) = counts.get_mut(place) {
                *count += step;
            }
            *length += 1;
        }
    }
    let sum = |sign: i32| {
        counts
            .iter()
            .map(|count| (count * sign).max(0))
            .sum::<i32>()
    };
    4 * sum(1).max(sum(-1)) <= lengths.0.max(lengths.1)
}

/// The candidates from the nearest to the farthest.
pub(crate) fn by_nearness<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Vec<&'a str> {
    let mut ranked: Vec<_> = candidates
        .into_iter()
        .map(|candidate| (nearness(word, candidate), candidate))
        .collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    ranked.dedup_by(|a, b| a.1 == b.1);
    ranked.into_iter().map(|(_, candidate)| candidate).collect()
}

/// The candidate that `word` most likely means, if any is near enough to be a slip.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let near = candidates
        .into_iter()
        .filter(|candidate| may_be_slip(word, candidate));
    by_nearness(word, near)
        .into_iter()
        .next()
        .filter(|best| is_slip(word, best))
}

/// Whether `word` is `meant` with a slip or two: a twentieth of them in long words, two letters in
/// short ones.
pub(crate) fn is_slip(word: &str, meant: &str) -> bool {
    may_be_slip(word, meant) && nearness(word, meant) >= 0.75
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_has_many_spellings() {
        let full = "org.apache.kafka.common.serialization.RetryDeserializer.ExponentialBackoff";
        for written in [
            "org.apache.kafka.common.deserialization.RetryDeserializer.ExponentialBackoff",
            "org.apache.kafka.common.serialization.RetryDeserializer$ExponentialBackoff",
            "ExponentialBackoff",
        ] {
            assert!(is_class(written, full), "{written}");
        }
        assert!(!is_class("com.example.ExponentialBackoff", full));
    }

    #[test]
    fn a_class_gives_its_part_a_name() {
        assert_eq!(kebab("com.example.AesGcmDeserializer"), "aes-gcm");
        assert_eq!(kebab("com.example.Outer$HTTPKeySerializer"), "http-key");
        assert_eq!(kebab("Deserializer"), "deserializer");
    }

    #[test]
    fn the_nearest_word_is_a_slip_away_or_not_at_all() {
        let keys = ["key.deserializer", "value.deserializer", "group.id"];
        assert_eq!(nearest("key.deseriailzer", keys), Some("key.deserializer"));
        assert_eq!(nearest("my.own.key", keys), None);
    }

    #[test]
    fn no_slip_is_refused_for_its_characters() {
        let words = [
            "retry",
            "rerty",
            "rety",
            "retrry",
            "rett",
            "r",
            "",
            "retry.deserializer.backoff",
            "rerty.deseriailzer.bakcoff",
            "tretry.deserializer.backof",
            "\u{e9}\u{e9}t\u{e9}",
        ];
        for a in words {
            for b in words {
                assert!(may_be_slip(a, b) || nearness(a, b) < 0.75, "{a} {b}");
            }
        }
    }
}
