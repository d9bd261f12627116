//! How the object that describes a workload is called, and by whom it is owned.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::sha256;
use super::workload::Workload;

/// A name may be this long, in bytes, before it is cut and told apart by a hash.
const LONGEST_PLAIN: usize = 240;
/// Digits of the hash that follows a cut name.
const HASH_DIGITS: usize = 12;

/// The AIBOM's name for a workload: `apps-deployment-web`.
///
/// The core group, empty or spelled `core`, adds no prefix.
#[must_use]
pub fn aibom(group: &str, kind: &str, name: &str) -> String {
    let base = format!("{}-{name}", kind.to_lowercase());
    let full = match group {
        "" | "core" => base,
        _ => format!("{}-{base}", group.to_lowercase().replace('.', "-")),
    };
    if full.len() <= LONGEST_PLAIN {
        return full;
    }
    // The hash keeps the case of group and kind; only the readable part is lower-cased.
    let hash = sha256::hex(format!("{group}/{kind}/{name}").as_bytes());
    let kept = full[..full.floor_char_boundary(LONGEST_PLAIN)].trim_end_matches(['-', '.']);
    format!("{kept}-{}", &hash[..HASH_DIGITS])
}

/// The one owner of an AIBOM: its workload, as controller.
#[must_use]
pub fn owner(workload: &Workload<'_>) -> OwnerReference {
    OwnerReference {
        api_version: workload.kind.api_version(),
        kind: workload.kind.kind.to_owned(),
        name: workload.name.to_owned(),
        uid: workload.uid.to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}
