//! The checked-in custom resource definitions are what the types make.
//!
//! `AIBOM_QUAL_UPDATE=1 cargo test --test crds` writes them anew; without it they are compared.

use std::fs;
use std::path::PathBuf;

use aibom_qual::controller::api::crd::{file, file_name};
use aibom_qual::controller::api::release::{ApiKind, RELEASES};

#[test]
fn the_files_are_what_the_types_make() {
    let update = std::env::var_os("AIBOM_QUAL_UPDATE").is_some();
    let charts = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("charts");
    let mut stale = Vec::new();
    for release in &RELEASES {
        let folder = charts.join(release.chart).join("crds");
        let mut names: Vec<String> = Vec::new();
        for kind in ApiKind::ALL {
            let name = file_name(kind);
            let path = folder.join(&name);
            let wanted = file(kind, release).expect("a definition");
            if update {
                fs::create_dir_all(&folder).expect("the folder of the definitions");
                fs::write(&path, &wanted).expect("the definition is written");
            } else if fs::read_to_string(&path).ok().as_deref() != Some(wanted.as_str()) {
                stale.push(path.display().to_string());
            }
            names.push(name);
        }
        let entries = fs::read_dir(&folder).expect("the folder of the definitions");
        for entry in entries {
            let name = entry.expect("an entry").file_name();
            if !names.iter().any(|known| name == known.as_str()) {
                stale.push(folder.join(name).display().to_string());
            }
        }
    }
    assert_eq!(
        stale,
        Vec::<String>::new(),
        "run `AIBOM_QUAL_UPDATE=1 cargo test --test crds` and look at the difference"
    );
}
