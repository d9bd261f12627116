//! The language as a whole: what is found in broken files, the schema, the shipped plan, any text.

use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;

const KNOWN: Known<'_> = Known {
    checks: &["CFG-03", "CFG-04", "CRD-02", "DAT-03", "UPG-14"],
    mixes: &["vllm-replicas-0"],
};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).expect("a text")
}

/// The fixtures: name and text.
fn fixtures() -> Vec<(String, String)> {
    let entries = std::fs::read_dir(folder("fixtures/scenarios")).expect("the fixtures");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut found: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|ending| ending == "yaml"))
        .map(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            (name.expect("UTF-8").to_owned(), text(&path))
        })
        .collect();
    found.sort();
    found
}

fn judge(name: &str, text: &str) -> Result<Scenario, Findings> {
    read(name, text, &Base::Folder("/scenarios".into()), &KNOWN)
}

fn findings(name: &str, text: &str) -> Findings {
    judge(name, text).map_or_else(|found| found, |scenario| scenario.warnings)
}

fn shipped_plan(name: &str) -> Plan {
    let shipped = shipped().iter().find(|shipped| shipped.name == name);
    let source = Source::from(shipped.expect("it is shipped"));
    source.read(&KNOWN).expect("a scenario").plan
}

/// Compares with a file, or writes it anew when that is asked for.
fn is_as_written_down(path: &Path, shown: &str) {
    if std::env::var_os("AIBOM_QUAL_WRITE_DOWN").is_some() {
        std::fs::write(path, shown).expect("a file");
    }
    assert_eq!(shown, text(path), "{}", path.display());
}

#[test]
fn findings_of_broken_files_are_as_written_down() {
    let mut rules = std::collections::BTreeSet::new();
    for (name, text) in fixtures() {
        let found = findings(&name, &text);
        rules.extend(found.list.iter().map(|finding| finding.rule));
        let path = folder("fixtures/scenarios").join(&name);
        let end = if found.list.is_empty() { "" } else { "\n" };
        is_as_written_down(&path.with_extension("findings"), &format!("{found}{end}"));
    }
    assert_eq!(rules.into_iter().collect::<Vec<_>>(), Rule::ALL);
}

#[test]
fn five_mistakes_are_five_findings() {
    let (name, text) = fixtures()
        .into_iter()
        .find(|(name, _)| name == "five-mistakes.yaml")
        .expect("the fixture");
    let found = judge(&name, &text).expect_err("it is broken");
    let rules: Vec<Rule> = found.list.iter().map(|finding| finding.rule).collect();
    let expected = [
        Rule::UnknownKey,
        Rule::BadValue,
        Rule::UnknownChart,
        Rule::WrongType,
        Rule::NoSuchRevision,
    ];
    assert_eq!(rules, expected, "{found}");
}

#[test]
fn the_schema_is_as_written_down() {
    let shown = serde_json::to_string_pretty(&schema()).expect("JSON");
    is_as_written_down(&folder("docs/scenario.schema.json"), &format!("{shown}\n"));
}

/// Rules that a JSON Schema can express.
const OF_SHAPE: [Rule; 7] = [
    Rule::UnknownKey,
    Rule::MissingKey,
    Rule::WrongType,
    Rule::BadValue,
    Rule::BadName,
    Rule::StepShape,
    Rule::ChartPlace,
];

#[test]
fn an_editor_and_the_linter_agree_on_shapes() {
    let validator = jsonschema::validator_for(&schema()).expect("a schema");
    for (name, text) in fixtures() {
        // YAML that the language leaves out is read by editors.
        let found = findings(&name, &text);
        let left_out = [Rule::Syntax, Rule::DuplicateKey, Rule::UnsupportedYaml];
        if found.list.iter().any(|one| left_out.contains(&one.rule)) {
            continue;
        }
        let value: serde_json::Value = serde_yaml::from_str(&text).expect("YAML");
        let broken = found.list.iter().any(|one| OF_SHAPE.contains(&one.rule));
        // The one value that is out of the schema's reach: a word which is no mix.
        let broken = broken && name != "step-order.yaml";
        assert_eq!(validator.is_valid(&value), !broken, "{name}:\n{found}");
    }
    for shipped in shipped() {
        let value: serde_json::Value = serde_yaml::from_str(shipped.text).expect("YAML");
        assert!(validator.is_valid(&value), "{}", shipped.name);
    }
}

#[test]
fn a_shipped_scenario_leads_where_its_name_says() {
    let plan = shipped_plan("v1.3-to-v1.5");
    assert_eq!(
        (&*plan.release, &*plan.namespace),
        ("k8s-aibom", "k8s-aibom-system")
    );
    assert_eq!(lint(&plan, &KNOWN), []);
    let embedded = |version: &str| ChartSource::Embedded {
        version: version.to_owned(),
    };
    let sources: Vec<_> = plan.charts.values().map(|chart| &chart.source).collect();
    assert_eq!(sources, [&embedded("1.3.0"), &embedded("1.5.1")]);
    let outlook: Vec<_> = plan
        .outlook()
        .into_iter()
        .map(|after| {
            let name = |chart: Option<ChartName>| chart.map(|name| name.0);
            (
                name(after.chart),
                after.revision,
                after.target,
                name(after.crds),
                after.aiboms,
            )
        })
        .collect();
    let from = || Some("from".to_owned());
    let to = || Some("to".to_owned());
    assert_eq!(
        outlook,
        [
            (None, None, None, None, 0),
            (from(), Some(1), None, from(), 1),
            (from(), Some(1), None, from(), 1002),
            (to(), Some(2), None, from(), 1002),
            (to(), Some(2), None, from(), 1002),
            (from(), Some(3), Some(1), from(), 1002),
            (from(), Some(3), None, to(), 1002),
            (to(), Some(4), None, to(), 1002),
            (from(), Some(5), Some(3), to(), 1002),
            (None, None, None, None, 0),
        ]
    );
}

#[test]
fn a_plan_is_linted_again_after_a_command_line_changed_it() {
    let plan = shipped_plan("v1.3-to-v1.5");
    let overrides = Overrides {
        charts: vec![
            "from=charts/x".parse().expect("a chart"),
            "to=charts/x".parse().expect("a chart"),
        ],
        window: Some("120s".parse().expect("a length")),
        workloads: Some(0),
        ..Overrides::default()
    };
    let changed = plan.clone().with(&overrides).expect("a plan");
    let complaints = lint(&changed, &KNOWN);
    let shown: Vec<String> = complaints.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            "error[S018]: spec.workloads.count: the step `load` has nothing to make: `count` is 0",
            "error[S016]: spec.steps[4].upgrade.chart: `from` and `to` are the same chart with the \
             same values",
            "warning[S015]: spec.steps[5].steady.window: a window of 120 s is too short to prove \
             anything",
        ]
    );
    assert!(refused(&complaints));
    // Other values make another test of the same chart.
    let overrides = Overrides {
        charts: overrides.charts,
        values: vec!["to=aicr".parse().expect("values")],
        ..Overrides::default()
    };
    let changed = plan.clone().with(&overrides).expect("a plan");
    assert_eq!(lint(&changed, &KNOWN), []);
}

#[test]
fn a_command_line_cannot_change_what_is_not_there() {
    let mut plan = shipped_plan("v1.3-to-v1.5");
    let with = |plan: &Plan, overrides: &Overrides| {
        let error = plan.clone().with(overrides).expect_err("an error");
        format!("{error}; {}", error.hint().unwrap_or_default())
    };
    let overrides = Overrides {
        values: vec!["form=aicr".parse().expect("values")],
        ..Overrides::default()
    };
    assert_eq!(
        with(&plan, &overrides),
        "--values: the scenario `v1.3-to-v1.5` has no chart `form`; did you mean `from`?"
    );
    plan.steps
        .retain(|step| !matches!(step, Step::Load | Step::Steady { .. }));
    let window = Overrides {
        window: Some("15m".parse().expect("a length")),
        ..Overrides::default()
    };
    assert!(with(&plan, &window).contains("has no step `steady`"));
    let workloads = Overrides {
        workloads: Some(10),
        ..Overrides::default()
    };
    assert!(with(&plan, &workloads).contains("has no step `load`"));
}

#[test]
fn a_plan_says_all_that_its_file_does() {
    let plan = judge(
        "valid.yaml",
        &text(&folder("fixtures/scenarios/valid.yaml")),
    );
    let plan = plan.expect("a scenario").plan;
    let to = &plan.charts[&ChartName("to".to_owned())];
    let digest = format!("sha256:{}", "0123456789abcdef".repeat(4));
    assert_eq!(
        to.source,
        ChartSource::Oci {
            repository: "ghcr.io/example/charts/k8s-aibom".to_owned(),
            version: Some("1.5.1".to_owned()),
            digest: Some(digest),
        }
    );
    let values = PathBuf::from("/scenarios/own/values.yaml");
    assert_eq!(to.values, ValuesChoice::File { path: values });
    assert_eq!(plan.workloads.rate.map(std::num::NonZeroU32::get), Some(50));
    assert_eq!(plan.workloads.mix, "vllm-replicas-0");
    assert_eq!(plan.steps[4], Step::Hold { seconds: 90 });
    let expected = serde_json::json!({
        "discovery": {"namespaceSelector": {"matchLabels": {"on": "true"}}},
        "limits": [1, 2.5, null],
    });
    assert_eq!(plan.steps[8], Step::Config { spec: expected });
    assert_eq!(plan.expectations[1].expect, Expect::Pass);
    // What is on record reads back as the same plan.
    let json = serde_json::to_string(&plan).expect("JSON");
    assert_eq!(serde_json::from_str::<Plan>(&json).expect("a plan"), plan);
}

/// Whether a position lies in the text, or right behind one of its lines.
fn inside(text: &str, at: Position) -> bool {
    let mut lines: Vec<&str> = text.lines().collect();
    if lines.is_empty() {
        lines.push("");
    }
    let line = at.line.checked_sub(1).and_then(|line| lines.get(line));
    line.is_some_and(|line| (1..=line.chars().count() + 1).contains(&at.column))
}

fn holds_for(text: &str) {
    for finding in findings("any", text).list {
        assert!(inside(text, finding.at), "{finding:?} in {text:?}");
    }
}

proptest! {
    #[test]
    fn any_text_is_judged(text in any::<String>()) {
        holds_for(&text);
    }

    #[test]
    fn any_yaml_like_text_is_judged(text in r#"([ \n\t\r]{0,3}[-:?{}\[\],&*!|>'"%#~a-c0-9.]{0,4}){0,40}"#) {
        holds_for(&text);
    }

    /// Every cut and every change of one character of a real file.
    #[test]
    fn any_damaged_file_is_judged(
        which in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        cut in any::<bool>(),
        other in any::<char>(),
    ) {
        let fixtures = fixtures();
        let (_, text) = which.get(&fixtures);
        let chars: Vec<char> = text.chars().collect();
        if !chars.is_empty() {
            let at = at.index(chars.len());
            let mut damaged: String = chars[..at].iter().collect();
            if !cut {
                damaged.push(other);
                damaged.extend(&chars[at + 1..]);
            }
            holds_for(&damaged);
        }
    }

    /// A line that is lost is a file that is refused or still a scenario, and says so in its place.
    #[test]
    fn any_lost_line_is_judged(which in any::<prop::sample::Index>(), lost in any::<prop::sample::Index>()) {
        let fixtures = fixtures();
        let (_, text) = which.get(&fixtures);
        let lines: Vec<&str> = text.lines().collect();
        if !lines.is_empty() {
            let lost = lost.index(lines.len());
            let kept = lines.iter().enumerate().filter(|(index, _)| *index != lost);
            let kept: Vec<&str> = kept.map(|(_, line)| *line).collect();
            holds_for(&kept.join("\n"));
        }
    }
}
