//! The charts that come with this program, so that an installed one needs no checkout.

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Embedded {
    /// Its version.
    pub version: &'static str,
    /// Its files: paths with `/` below its folder, and their texts.
    pub files: &'static [(&'static str, &'static str)],
}

macro_rules! chart {
    ($version:literal, $($file:literal),+ $(,)?) => {
        Embedded {
            version: $version,
            files: &[$((
                $file,
                include_str!(concat!("../../charts/", $version, "/", $file)),
            )),+],
        }
    };
}

/// All of them, oldest first.
pub const CHARTS: [Embedded; 4] = [
    chart!(
        "1.2.0",
        "Chart.yaml",
        "crds/aibom.k8saibom.dev_aibomcontrollerconfigs.yaml",
        "crds/aibom.k8saibom.dev_aiboms.yaml",
        "templates/_helpers.tpl",
        "templates/clusterrole.yaml",
        "templates/clusterrolebinding.yaml",
        "templates/config.yaml",
        "templates/deployment.yaml",
        "templates/namespace-role.yaml",
        "templates/serviceaccount.yaml",
        "values.yaml",
    ),
    chart!(
        "1.3.0",
        "Chart.yaml",
        "crds/aibom.k8saibom.dev_aibomcontrollerconfigs.yaml",
        "crds/aibom.k8saibom.dev_aiboms.yaml",
        "templates/_helpers.tpl",
        "templates/clusterrole.yaml",
        "templates/clusterrolebinding.yaml",
        "templates/config.yaml",
        "templates/deployment.yaml",
        "templates/namespace-role.yaml",
        "templates/serviceaccount.yaml",
        "values.yaml",
    ),
    chart!(
        "1.5.1",
        "Chart.yaml",
        "crds/aibom.k8saibom.dev_aibomcontrollerconfigs.yaml",
        "crds/aibom.k8saibom.dev_aiboms.yaml",
        "templates/_helpers.tpl",
        "templates/clusterrole.yaml",
        "templates/clusterrolebinding.yaml",
        "templates/config.yaml",
        "templates/deployment.yaml",
        "templates/namespace-role.yaml",
        "templates/serviceaccount.yaml",
        "values.yaml",
    ),
    chart!(
        "1.6.0",
        "Chart.yaml",
        "crds/aibom.k8saibom.dev_aibomcontrollerconfigs.yaml",
        "crds/aibom.k8saibom.dev_aiboms.yaml",
        "templates/_helpers.tpl",
        "templates/clusterrole.yaml",
        "templates/clusterrolebinding.yaml",
        "templates/config.yaml",
        "templates/deployment.yaml",
        "templates/metrics.yaml",
        "templates/namespace-role.yaml",
        "templates/serviceaccount.yaml",
        "values.yaml",
    ),
];

/// The chart of this version.
#[must_use]
pub fn chart(version: &str) -> Option<&'static Embedded> {
    CHARTS.iter().find(|chart| chart.version == version)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// The files below a folder, by paths with `/`, sorted.
    fn files(folder: &Path, below: &str) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().and_then(|name| name.to_str());
            let name = format!("{below}{}", name.expect("text"));
            if path.is_dir() {
                found.extend(files(&path, &format!("{name}/")));
            } else {
                found.push((name, fs::read_to_string(&path).expect("text")));
            }
        }
        found.sort();
        found
    }

    #[test]
    fn they_are_the_charts_of_the_repository() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("charts");
        let entries = fs::read_dir(&folder).expect("a folder");
        let mut versions: Vec<String> = entries
            .map(|entry| entry.expect("an entry"))
            .filter(|entry| entry.path().is_dir())
            .map(|entry| entry.file_name().into_string().expect("text"))
            .collect();
        versions.sort();
        assert_eq!(versions, CHARTS.map(|chart| chart.version));
        for chart in CHARTS {
            let embedded: Vec<(String, String)> = chart
                .files
                .iter()
                .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
                .collect();
            assert_eq!(
                embedded,
                files(&folder.join(chart.version), ""),
                "{}",
                chart.version
            );
        }
    }
}
