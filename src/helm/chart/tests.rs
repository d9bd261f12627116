use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;

use flate2::{Compression, write::GzEncoder};
use serde_json::json;

use super::*;
use crate::error_chain::chain;
use crate::record::sha256_hex;
use crate::scenario::ValuesChoice;

/// A folder with what a test needs, and another one to work in.
struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let bench = Self { folder };
        bench.write(
            "chart/Chart.yaml",
            "name: k8s-aibom\nversion: 1.3.0\nappVersion: v1.3.0\n",
        );
        bench.write(
            "chart/templates/a.yaml",
            "kind: Role\nmetadata: {name: a}\n",
        );
        bench.write("chart/crds/b.yaml", &definition("b.example.org"));
        bench.write(
            "chart/crds/a.yaml",
            &format!(
                "{}---\n{}",
                definition("a1.example.org"),
                definition("a2.example.org")
            ),
        );
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("written");
    }

    fn pack(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        let encoder = GzEncoder::new(File::create(&path).expect("created"), Compression::fast());
        let mut builder = tar::Builder::new(encoder);
        builder
            .append_dir_all("k8s-aibom", self.path("chart"))
            .expect("packed");
        builder
            .into_inner()
            .and_then(GzEncoder::finish)
            .expect("written");
        path
    }

    async fn open(&self, name: &str, values: ValuesChoice) -> Result<Chart, ChartError> {
        let source = ChartSource::Path {
            path: self.path(name),
        };
        Chart::open(&ChartPlan { source, values }, &self.path("work")).await
    }
}

fn definition(name: &str) -> String {
    format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: {name}\nspec:\n  versions:\n    - {{name: v1, served: true, storage: true, schema: {{openAPIV3Schema: {{type: object}}}}}}\n"
    )
}

fn names(chart: &Chart) -> Vec<String> {
    let named = chart.crds().iter();
    named
        .map(|crd| {
            crd["metadata"]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        })
        .collect()
}

fn rendered(objects: Vec<Value>) -> Rendered {
    Rendered {
        objects,
        values: json!({"b": 1, "a": 2}),
    }
}

fn deployment() -> Value {
    json!({
        "kind": "Deployment", "metadata": {"name": "c", "namespace": "n"},
        "spec": {"template": {"spec": {"containers": [{"image": "ghcr.io/a:v1"}]}}},
    })
}

#[tokio::test]
async fn a_folder_is_copied_once_and_told_of_as_it_is() {
    let bench = Bench::new();
    let chart = bench.open("chart", ValuesChoice::ChartDefault).await;
    let chart = chart.expect("a chart");
    assert_eq!(
        names(&chart),
        ["a1.example.org", "a2.example.org", "b.example.org"]
    );
    assert_eq!(chart.values_file(), None);
    // What happens to the source afterwards does not matter.
    bench.write("chart/Chart.yaml", "name: other\nversion: 9.9.9\n");
    let copy = fs::read_to_string(chart.path().join("Chart.yaml")).expect("a copy");
    assert!(copy.contains("1.3.0"), "{copy}");

    let record = chart
        .record(&rendered(vec![
            json!({"kind": "Role", "metadata": {"name": "a"}}),
            deployment(),
        ]))
        .expect("a record");
    assert_eq!(
        (
            record.name.as_str(),
            record.version.as_str(),
            record.app_version.as_str()
        ),
        ("k8s-aibom", "1.3.0", "v1.3.0")
    );
    assert_eq!(record.source, bench.path("chart").display().to_string());
    assert_eq!(record.image, "ghcr.io/a:v1");
    assert_eq!(record.objects, ["Role a", "Deployment n/c"]);
    assert_eq!(record.values, "chart-default");
    assert_eq!(record.values_sha256, sha256_hex(br#"{"a":2,"b":1}"#));
    assert_eq!(record.oci_digest, None);
    let version = &record.crds["a2.example.org"]["v1"];
    assert!(version.served && version.storage);
    assert_eq!(version.schema_sha256, sha256_hex(br#"{"type":"object"}"#));
}

#[tokio::test]
async fn an_archive_is_installed_as_it_is() {
    let bench = Bench::new();
    for name in ["k8s-aibom-1.3.0.tgz", "k8s-aibom.tar.gz"] {
        let archive = bench.pack(name);
        let chart = bench.open(name, ValuesChoice::ChartDefault).await;
        let chart = chart.expect("a chart");
        let bytes = fs::read(&archive).expect("an archive");
        assert_eq!(fs::read(chart.path()).expect("a copy"), bytes);
        assert_eq!(chart.sha256, sha256_hex(&bytes));
        assert_eq!(names(&chart).len(), 3);
        assert!(chart.probe().join(VALUES_TEMPLATE).is_file());
    }
}

#[tokio::test]
async fn an_embedded_chart_is_the_one_of_the_repository() {
    let bench = Bench::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/1.6.0");
    let open = async |source| {
        let plan = ChartPlan {
            source,
            values: ValuesChoice::Aicr,
        };
        Chart::open(&plan, &bench.path("work"))
            .await
            .expect("a chart")
    };
    let version = "1.6.0".to_owned();
    let embedded = open(ChartSource::Embedded { version }).await;
    let from_folder = open(ChartSource::Path { path: folder }).await;
    assert_eq!(embedded.sha256, from_folder.sha256);
    assert_eq!(embedded.crds(), from_folder.crds());
    assert_eq!(embedded.source(), "embedded 1.6.0");
    assert_eq!(embedded.version(), "1.6.0");
    assert_ne!(embedded.path(), from_folder.path());
    let values = embedded.values_file().expect("a file");
    let values = fs::read_to_string(values).expect("text");
    assert_eq!(values, "readiness:\n  strictConfig: true\n");

    let plan = ChartPlan {
        source: ChartSource::Embedded {
            version: "9.9.9".to_owned(),
        },
        values: ValuesChoice::ChartDefault,
    };
    let error = Chart::open(&plan, &bench.path("work")).await;
    let error = error.expect_err("there is none");
    assert!(matches!(error, ChartError::NotEmbedded { .. }), "{error}");
}

#[tokio::test]
async fn values_of_the_user_are_copied_for_nobody_else_to_read() {
    let bench = Bench::new();
    bench.write("my.yaml", "no: [broken");
    let path = bench.path("my.yaml");
    let file = |path: &Path| ValuesChoice::File {
        path: path.to_owned(),
    };
    let chart = bench.open("chart", file(&path)).await.expect("a chart");
    let copy = chart.values_file().expect("a file");
    assert_ne!(copy, path);
    assert_eq!(fs::read_to_string(copy).expect("text"), "no: [broken");
    let mode = fs::metadata(copy)
        .expect("it is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(chart.values, path.display().to_string());

    let missing = bench.path("none.yaml");
    let error = bench
        .open("chart", file(&missing))
        .await
        .expect_err("there is none");
    let words = chain(&error);
    assert!(
        words.contains("none.yaml") && words.contains("No such file"),
        "{words}"
    );
}

#[tokio::test]
async fn what_is_no_chart_is_refused() {
    let bench = Bench::new();
    let refused = async |name: &str| {
        let opened = bench.open(name, ValuesChoice::ChartDefault).await;
        let error = opened.expect_err("refused");
        (chain(&error), error.hint())
    };
    let (words, hint) = refused("nowhere").await;
    assert!(words.starts_with("there is no chart at "), "{words}");
    assert!(hint.is_some());

    bench.write("a.zip", "words");
    let (words, _) = refused("a.zip").await;
    assert!(
        words.ends_with("a.zip is neither a folder nor a .tgz archive"),
        "{words}"
    );

    bench.write("a.tgz", "words");
    let (words, hint) = refused("a.tgz").await;
    assert!(words.contains("is not a gzipped tar archive"), "{words}");
    assert_eq!(hint.as_deref(), Some("make one by `helm package`"));

    bench.write("empty/README.md", "words");
    let (words, _) = refused("empty").await;
    assert!(words.ends_with("empty has no Chart.yaml"), "{words}");

    bench.write("chart/Chart.yaml", "name: k8s-aibom\nversion: 1.10\n");
    let (words, _) = refused("chart").await;
    assert!(words.ends_with("has no text under `version`"), "{words}");

    bench.write("chart/Chart.yaml", "name: k8s-aibom\nversion: 1.10.0\n");
    bench.write(
        "chart/crds/a.yaml",
        "kind: List\napiVersion: v1\nitems: []\n",
    );
    let (words, hint) = refused("chart").await;
    assert!(
        words.ends_with("crds/a.yaml holds a List of v1 where a definition is expected"),
        "{words}"
    );
    assert!(hint.is_some());

    bench.write("chart/crds/a.yaml", "");
    bench.write("chart/charts/sub-1.0.0.tgz", "words");
    let (words, _) = refused("chart").await;
    assert!(
        words.contains("holds the archive charts/sub-1.0.0.tgz"),
        "{words}"
    );
}

#[tokio::test]
async fn one_deployment_is_expected() {
    let bench = Bench::new();
    let chart = bench.open("chart", ValuesChoice::ChartDefault).await;
    let chart = chart.expect("a chart");
    for objects in [vec![], vec![deployment(), deployment()]] {
        let count = objects.len();
        let error = chart.record(&rendered(objects)).expect_err("refused");
        assert!(
            error
                .to_string()
                .contains(&format!("renders {count} Deployments")),
            "{error}"
        );
    }
}

#[test]
fn computed_values_are_read_from_what_helm_renders() {
    let rendered = "---\n# Source: k8s-aibom/templates/aibom-qual-values.yaml\naibomQualValues: \"{\\\"a\\\":\\\"\\\\u003cx\\\\u003e: \\\\\\\"y\\\\\\\"\\\",\\\"n\\\":511}\"\n\n";
    assert_eq!(
        Chart::values_in(rendered).expect("values"),
        json!({"a": "<x>: \"y\"", "n": 511})
    );
    let error = Chart::values_in("---\n").expect_err("none");
    assert_eq!(error, "helm did not render them");
    assert!(Chart::values_in("aibomQualValues: {}\n").is_err());
}
