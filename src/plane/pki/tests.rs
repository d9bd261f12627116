use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use tempfile::TempDir;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::pem::parse_x509_pem;

use super::*;

/// A day, in seconds.
const DAY: u64 = 86_400;

fn created() -> (TempDir, Pki) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let pki = Pki::create(&dir.path().join("pki"), &PkiOptions::default()).expect("a new PKI");
    (dir, pki)
}

/// Parses a certificate file and hands it to the check, since what is parsed borrows the file.
fn with_cert<T>(path: &Path, check: impl FnOnce(&X509Certificate<'_>) -> T) -> T {
    let text = fs::read(path).expect("a certificate file");
    let (_, block) = parse_x509_pem(&text).expect("PEM");
    check(&block.parse_x509().expect("a certificate"))
}

fn subject(path: &Path) -> String {
    with_cert(path, |cert| cert.subject().to_string())
}

fn names(path: &Path) -> Vec<String> {
    with_cert(path, |cert| {
        let Some(names) = cert.subject_alternative_name().expect("at most one") else {
            return Vec::new();
        };
        let text = |name: &GeneralName<'_>| match name {
            GeneralName::DNSName(name) => (*name).to_owned(),
            GeneralName::IPAddress(bytes) => {
                let octets: [u8; 4] = (*bytes).try_into().expect("IPv4");
                Ipv4Addr::from(octets).to_string()
            }
            other => panic!("unexpected name {other}"),
        };
        names.value.general_names.iter().map(text).collect()
    })
}

/// Checks that the authority signed the certificate and that both key identifiers agree.
fn assert_issued(authority: &Authority, leaf: &Path) {
    with_cert(authority.cert(), |ca| {
        with_cert(leaf, |leaf| {
            assert_eq!(leaf.issuer(), ca.subject());
            leaf.verify_signature(Some(ca.public_key()))
                .expect("the authority's signature");
            let (mut subject_key, mut authority_key) = (None, None);
            for extension in ca.extensions() {
                if let ParsedExtension::SubjectKeyIdentifier(id) = extension.parsed_extension() {
                    subject_key = Some(id.0);
                }
            }
            for extension in leaf.extensions() {
                if let ParsedExtension::AuthorityKeyIdentifier(id) = extension.parsed_extension() {
                    authority_key = id.key_identifier.as_ref().map(|id| id.0);
                }
            }
            assert!(subject_key.is_some());
            assert_eq!(subject_key, authority_key);
            assert!(leaf.validity().not_after <= ca.validity().not_after);
        });
    });
}

fn pairs(pki: &Pki) -> [(&Authority, &Pair, bool); 6] {
    [
        (pki.server_ca(), pki.apiserver(), true),
        (pki.client_ca(), pki.kubelet_client(), false),
        (pki.client_ca(), pki.admin(), false),
        (pki.client_ca(), pki.controller_manager(), false),
        (pki.client_ca(), pki.scheduler(), false),
        (pki.front_proxy_ca(), pki.front_proxy_client(), false),
    ]
}

fn assert_leaf(authority: &Authority, pair: &Pair, serves: bool) {
    assert_issued(authority, pair.cert());
    with_cert(pair.cert(), |cert| {
        let usage = cert.key_usage().expect("at most one").expect("one");
        assert!(usage.critical);
        assert!(usage.value.digital_signature());
        assert!(!usage.value.key_cert_sign());
        let purpose = cert.extended_key_usage().expect("at most one");
        let purpose = purpose.expect("one").value;
        assert_eq!(purpose.server_auth, serves);
        assert_eq!(purpose.client_auth, !serves);
        assert!(!cert.is_ca());
        let key = rcgen::KeyPair::from_pem(pair.key_pem()).expect("its key");
        let spki = rcgen::PublicKeyData::subject_public_key_info(&key);
        assert_eq!(cert.public_key().raw, spki);
    });
    assert_eq!(
        fs::read_to_string(pair.cert()).expect("its file"),
        pair.cert_pem()
    );
    assert_eq!(
        fs::read_to_string(pair.key()).expect("its file"),
        pair.key_pem()
    );
}

#[test]
fn every_certificate_has_its_issuer_and_its_one_purpose() {
    let (_dir, pki) = created();
    for (authority, pair, serves) in pairs(&pki) {
        assert_leaf(authority, pair, serves);
    }
    for authority in [pki.server_ca(), pki.client_ca(), pki.front_proxy_ca()] {
        assert_issued(authority, authority.cert());
        with_cert(authority.cert(), |cert| {
            let constraints = cert.basic_constraints().expect("at most one");
            let constraints = constraints.expect("one");
            assert!(constraints.critical && constraints.value.ca);
            assert_eq!(constraints.value.path_len_constraint, Some(0));
            let usage = cert.key_usage().expect("at most one").expect("one");
            assert!(usage.value.key_cert_sign());
        });
    }
}

#[test]
fn the_apiserver_serves_under_the_names_that_clients_use() {
    let (_dir, pki) = created();
    assert_eq!(
        names(pki.apiserver().cert()),
        [
            "localhost",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
            "127.0.0.1",
            "10.0.0.1",
        ]
    );
}

#[test]
fn identities_are_those_that_bootstrap_rbac_knows() {
    let (_dir, pki) = created();
    let identities = [
        (pki.admin(), "O=system:masters, CN=aibom-qual-admin"),
        (
            pki.kubelet_client(),
            "O=system:masters, CN=apiserver-kubelet-client",
        ),
        (
            pki.controller_manager(),
            "CN=system:kube-controller-manager",
        ),
        (pki.scheduler(), "CN=system:kube-scheduler"),
        (pki.front_proxy_client(), "CN=front-proxy-client"),
    ];
    for (pair, expected) in identities {
        assert_eq!(subject(pair.cert()), expected);
        assert!(names(pair.cert()).is_empty());
    }
}

#[test]
fn a_node_gets_a_serving_certificate_and_an_identity() {
    let (_dir, pki) = created();
    let node = pki
        .issue_node("node-1.example", &PkiOptions::default())
        .expect("certificates of a node");
    assert_leaf(pki.server_ca(), &node.serving, true);
    assert_leaf(pki.client_ca(), &node.client, false);
    assert_eq!(names(node.serving.cert()), ["node-1.example", "127.0.0.1"]);
    assert_eq!(
        subject(node.client.cert()),
        "O=system:nodes, CN=system:node:node-1.example"
    );
}

#[test]
fn a_node_name_cannot_leave_the_folder() {
    let (_dir, pki) = created();
    for name in ["", "../x", "A", "a..b", "-a", "a-", "a/b", "a\n"] {
        let error = pki.issue_node(name, &PkiOptions::default());
        assert!(matches!(error, Err(PkiError::NodeName(_))), "{name:?}");
    }
}

#[test]
fn secrets_are_private_and_certificates_are_not() {
    let (_dir, pki) = created();
    let mode = |path: &Path| {
        let data = fs::metadata(path).expect("it exists");
        data.permissions().mode() & 0o7777
    };
    assert_eq!(mode(pki.dir()), 0o700);
    for entry in fs::read_dir(pki.dir()).expect("a folder") {
        let path = entry.expect("an entry").path();
        let expected = match path.extension().and_then(|e| e.to_str()) {
            Some("key") => 0o600,
            Some("crt" | "pub") => 0o644,
            _ => panic!("unexpected file {}", path.display()),
        };
        assert_eq!(mode(&path), expected, "{}", path.display());
    }
}

#[test]
fn serial_numbers_are_all_different_and_positive() {
    let (_dir, pki) = created();
    let certs = pairs(&pki).map(|(_, pair, _)| pair.cert());
    let authorities = [pki.server_ca(), pki.client_ca(), pki.front_proxy_ca()];
    let all = certs.into_iter().chain(authorities.map(Authority::cert));
    let serials: BTreeSet<Vec<u8>> = all
        .map(|path| with_cert(path, |cert| cert.raw_serial().to_vec()))
        .inspect(|serial| assert!(serial.len() == 16 && serial[0] < 0x80))
        .collect();
    assert_eq!(serials.len(), 9);
}

#[test]
fn the_service_account_public_key_is_the_private_one_s() {
    let (_dir, pki) = created();
    let text = |path: &Path| fs::read_to_string(path).expect("a key file");
    let key = rcgen::KeyPair::from_pem(&text(pki.service_account_private_key())).expect("a key");
    let public = text(pki.service_account_public_key());
    assert!(public.starts_with("-----BEGIN PUBLIC KEY-----\n"));
    assert_eq!(public, key.public_key_pem());
}

#[test]
fn validity_begins_before_now_and_ends_when_asked() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let now = DateTime::from_timestamp(1_600_000_000, 0).expect("a date");
    let options = PkiOptions {
        now,
        not_before_skew: Duration::from_secs(60),
        ca_validity: Duration::from_secs(7_200),
        leaf_validity: Duration::from_secs(10),
        ..PkiOptions::default()
    };
    let pki = Pki::create(dir.path(), &options).expect("a PKI of the past");
    with_cert(pki.admin().cert(), |cert| {
        assert_eq!(cert.validity().not_before.timestamp(), 1_600_000_000 - 60);
        assert_eq!(cert.validity().not_after.timestamp(), 1_600_000_010);
    });
    assert_eq!(pki.admin().not_after().timestamp(), 1_600_000_010);
    assert_eq!(pki.server_ca().not_after().timestamp(), 1_600_007_200);
}

#[test]
fn no_certificate_outlives_its_authority() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let options = PkiOptions {
        ca_validity: Duration::from_secs(60),
        ..PkiOptions::default()
    };
    let pki = Pki::create(dir.path(), &options).expect("a short-lived PKI");
    assert_eq!(pki.admin().not_after(), pki.client_ca().not_after());
}

#[test]
fn a_date_that_no_certificate_can_express_is_an_error() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    for days in [4_000_000, u64::MAX / DAY] {
        let options = PkiOptions {
            ca_validity: Duration::from_secs(days * DAY),
            ..PkiOptions::default()
        };
        let error = Pki::create(dir.path(), &options).expect_err("out of range");
        assert!(matches!(error, PkiError::Date(_)), "{error}");
    }
}

#[test]
fn renewal_keeps_authorities_and_tokens_and_replaces_the_rest() {
    let (_dir, old) = created();
    let later = PkiOptions {
        now: Utc::now() + chrono::TimeDelta::days(400),
        ..PkiOptions::default()
    };
    let kept = [
        old.server_ca().cert(),
        old.server_ca().key(),
        old.client_ca().cert(),
        old.client_ca().key(),
        old.front_proxy_ca().cert(),
        old.front_proxy_ca().key(),
        old.service_account_private_key(),
        old.service_account_public_key(),
    ];
    let read = |path: &Path| fs::read(path).expect("a file");
    let before = kept.map(read);
    let new = Pki::renew(old.dir(), &later).expect("a renewed PKI");
    assert_eq!(kept.map(read), before);
    for ((authority, pair, serves), (_, replaced, _)) in pairs(&new).into_iter().zip(pairs(&old)) {
        assert_leaf(authority, pair, serves);
        assert_ne!(pair.cert_pem(), replaced.cert_pem());
        assert_ne!(pair.key_pem(), replaced.key_pem());
        assert!(pair.not_after() > replaced.not_after());
    }
    assert_eq!(names(new.apiserver().cert()), names(old.apiserver().cert()));
}

/// Renews after the folder was tampered with, and expects this reason for the server authority.
fn refused(tamper: impl FnOnce(&Pki), options: &PkiOptions) -> Unusable {
    let (_dir, pki) = created();
    tamper(&pki);
    match Pki::renew(pki.dir(), options).expect_err("an authority is unusable") {
        PkiError::Authority {
            name: AuthorityName::Server,
            source,
        } => source,
        other => panic!("unexpected error {other}"),
    }
}

#[test]
fn renewal_says_why_an_authority_cannot_be_kept() {
    let now = PkiOptions::default;
    let remove = |pki: &Pki| fs::remove_file(pki.server_ca().key()).expect("removed");
    assert!(matches!(refused(remove, &now()), Unusable::Missing(_)));

    let spoil = |pki: &Pki| fs::write(pki.server_ca().cert(), "text").expect("written");
    assert!(matches!(refused(spoil, &now()), Unusable::Damaged { .. }));

    let swap = |pki: &Pki| {
        fs::copy(pki.client_ca().key(), pki.server_ca().key()).expect("copied");
    };
    assert!(matches!(refused(swap, &now()), Unusable::WrongKey(_)));

    let leaf = |pki: &Pki| {
        fs::copy(pki.apiserver().cert(), pki.server_ca().cert()).expect("copied");
        fs::copy(pki.apiserver().key(), pki.server_ca().key()).expect("copied");
    };
    assert!(matches!(refused(leaf, &now()), Unusable::Damaged { .. }));

    let at = |days| PkiOptions {
        now: Utc::now() + chrono::TimeDelta::days(days),
        ..PkiOptions::default()
    };
    assert!(matches!(refused(|_| {}, &at(3_700)), Unusable::Expired(_)));
    assert!(matches!(refused(|_| {}, &at(-1)), Unusable::NotYetValid(_)));
}

#[test]
fn debug_shows_no_key() {
    let (_dir, pki) = created();
    assert!(!format!("{pki:?}").contains("PRIVATE"));
}
