//! How mistakes are collected and printed.

use kafka_chain::properties::{MAX_PROBLEMS, Origin, Problem, Report};

use super::parse;

#[test]
fn a_report_is_sorted_and_has_each_problem_once() {
    let mut report = Report::new();
    report.push(Problem::new("no origin"));
    for line in [12, 2, 12] {
        let problem = Problem::new("no part reads this key")
            .key("retry.deseriailzer.delegate")
            .at(&Origin::line("b.properties", line))
            .suggest("retry.deserializer.delegate");
        report.push(problem);
    }
    report.extend([Problem::new("bad\nvalue").at(&Origin::line("a.properties", 99))]);
    report.push(Problem::new("whole file").at(&Origin::file("b.properties")));
    assert_eq!(report.len(), 5);
    assert_eq!(format!("{report:?}"), report.to_string());
    assert_eq!(
        report.to_string(),
        "5 mistakes in the configuration:\n  \
         a.properties:99: bad\\nvalue\n  \
         b.properties: whole file\n  \
         b.properties:2: retry.deseriailzer.delegate: no part reads this key; did you mean \
         retry.deserializer.delegate?\n  \
         b.properties:12: retry.deseriailzer.delegate: no part reads this key; did you mean \
         retry.deserializer.delegate?\n  \
         no origin"
    );
    assert_eq!(Report::new().into_result(7), Ok(7));
    assert!(report.into_result(7).is_err());
}

#[test]
fn reports_and_warnings_are_bounded() {
    let report: Report = (0..MAX_PROBLEMS + 5)
        .map(|i| Problem::new(i.to_string()))
        .collect();
    assert_eq!(
        (report.len(), report.iter().count()),
        (MAX_PROBLEMS + 5, MAX_PROBLEMS)
    );
    assert!(report.to_string().ends_with("\n  ... and 5 more"));
    let mut all = Report::from(Problem::new("one more"));
    all.append(report);
    assert_eq!(
        (all.len(), all.iter().count()),
        (MAX_PROBLEMS + 6, MAX_PROBLEMS)
    );
    assert_eq!(
        parse(&"a\n".repeat(MAX_PROBLEMS + 9)).warnings().len(),
        MAX_PROBLEMS
    );
}
