//! One certificate authority: made, or kept from an earlier start, and what it signs.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData as _, SanType,
    SerialNumber,
};
use time::OffsetDateTime;

use super::error::{AuthorityName, PkiError, Unusable};
use super::{Pair, PkiOptions};
use crate::host::files::{self, PUBLIC, SECRET, write_atomic};

/// A certificate authority with its key.
pub struct Authority {
    name: AuthorityName,
    pair: Pair,
    not_before: DateTime<Utc>,
    issuer: Issuer<'static, KeyPair>,
}

/// What a certificate is for.
pub(super) enum Purpose {
    /// Serving TLS under these names and addresses.
    Serve(Vec<SanType>),
    /// Being known to a server as the certificate's subject.
    Identify,
}

/// A certificate to sign.
pub(super) struct Leaf<'a> {
    /// The start of its file names.
    pub(super) stem: &'a str,
    /// Its common name: the user name that Kubernetes sees.
    pub(super) common_name: &'a str,
    /// Its organization: the group that Kubernetes sees.
    pub(super) organization: Option<&'a str>,
    pub(super) purpose: Purpose,
}

impl Authority {
    /// The certificate's file.
    #[must_use]
    pub fn cert(&self) -> &Path {
        self.pair.cert()
    }

    /// The key's file.
    #[must_use]
    pub fn key(&self) -> &Path {
        self.pair.key()
    }

    /// The certificate.
    #[must_use]
    pub fn cert_pem(&self) -> &str {
        self.pair.cert_pem()
    }

    /// The end of its validity.
    #[must_use]
    pub fn not_after(&self) -> DateTime<Utc> {
        self.pair.not_after()
    }

    /// Makes a new authority and writes its files.
    pub(super) fn create(
        dir: &Path,
        name: AuthorityName,
        options: &PkiOptions,
    ) -> Result<Self, PkiError> {
        let what = || format!("the {name} certificate authority");
        let not_before = options.not_before();
        let not_after = options.end(options.ca_validity)?;
        let mut params = CertificateParams::default();
        params.not_before = date(not_before)?;
        params.not_after = date(not_after)?;
        params.serial_number = Some(serial()?);
        params.distinguished_name = DistinguishedName::new();
        let common_name = format!("aibom-qual-{}", name.stem());
        params
            .distinguished_name
            .push(DnType::CommonName, common_name);
        // It signs leaves, never another authority.
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyCertSign,
        ];
        params.use_authority_key_identifier_extension = true;

        let key = new_key(what)?;
        let cert = params.self_signed(&key).map_err(|source| PkiError::Make {
            what: what(),
            source,
        })?;
        let pair = Pair::write(dir, name.stem(), cert.pem(), &key, not_after)?;
        Ok(Self {
            name,
            pair,
            not_before,
            issuer: Issuer::new(params, key),
        })
    }

    /// Takes over the authority whose files lie in the folder.
    pub(super) fn load(
        dir: &Path,
        name: AuthorityName,
        now: DateTime<Utc>,
    ) -> Result<Self, PkiError> {
        Self::try_load(dir, name, now).map_err(|source| PkiError::Authority { name, source })
    }

    fn try_load(dir: &Path, name: AuthorityName, now: DateTime<Utc>) -> Result<Self, Unusable> {
        let (cert, key_path) = pair_paths(dir, name.stem());
        let cert_pem = read(&cert)?;
        let key = load_key(&key_path)?;
        let damaged = |reason: String| Unusable::Damaged {
            path: cert.clone(),
            reason,
        };
        let (_, block) = x509_parser::pem::parse_x509_pem(cert_pem.as_bytes())
            .map_err(|error| damaged(error.to_string()))?;
        let x509 = block
            .parse_x509()
            .map_err(|error| damaged(error.to_string()))?;
        if !x509.is_ca() {
            return Err(damaged("its certificate is not an authority's".to_owned()));
        }
        if x509.public_key().raw != key.subject_public_key_info() {
            return Err(Unusable::WrongKey(key_path));
        }
        let at = |time: x509_parser::time::ASN1Time| {
            DateTime::from_timestamp(time.timestamp(), 0)
                .ok_or_else(|| damaged("its validity is out of range".to_owned()))
        };
        let not_before = at(x509.validity().not_before)?;
        let not_after = at(x509.validity().not_after)?;
        if now < not_before {
            return Err(Unusable::NotYetValid(not_before));
        }
        if now >= not_after {
            return Err(Unusable::Expired(not_after));
        }
        let key_pem = key.serialize_pem();
        let issuer =
            Issuer::from_ca_cert_pem(&cert_pem, key).map_err(|error| damaged(error.to_string()))?;
        Ok(Self {
            name,
            pair: Pair {
                cert,
                key: key_path,
                cert_pem,
                key_pem,
                not_after,
            },
            not_before,
            issuer,
        })
    }

    /// Signs a certificate for a new key and writes both. It never outlives the authority.
    pub(super) fn issue(
        &self,
        dir: &Path,
        leaf: Leaf<'_>,
        options: &PkiOptions,
    ) -> Result<Pair, PkiError> {
        let what = || format!("the certificate {}", leaf.stem);
        let not_before = options.not_before().max(self.not_before);
        let not_after = options.end(options.leaf_validity)?.min(self.not_after());
        let mut params = CertificateParams::default();
        params.not_before = date(not_before)?;
        params.not_after = date(not_after)?;
        params.serial_number = Some(serial()?);
        params.distinguished_name = DistinguishedName::new();
        if let Some(organization) = leaf.organization {
            params
                .distinguished_name
                .push(DnType::OrganizationName, organization);
        }
        params
            .distinguished_name
            .push(DnType::CommonName, leaf.common_name);
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![match leaf.purpose {
            Purpose::Serve(_) => ExtendedKeyUsagePurpose::ServerAuth,
            Purpose::Identify => ExtendedKeyUsagePurpose::ClientAuth,
        }];
        if let Purpose::Serve(names) = &leaf.purpose {
            params.subject_alt_names.clone_from(names);
        }
        params.use_authority_key_identifier_extension = true;

        let key = new_key(what)?;
        let cert = params
            .signed_by(&key, &self.issuer)
            .map_err(|source| PkiError::Make {
                what: what(),
                source,
            })?;
        Pair::write(dir, leaf.stem, cert.pem(), &key, not_after)
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority")
            .field("name", &self.name)
            .field("pair", &self.pair)
            .finish_non_exhaustive()
    }
}

impl Pair {
    /// The key goes first: a certificate without its key is useless, a key without a certificate is
    /// replaced by the next start.
    fn write(
        dir: &Path,
        stem: &str,
        cert_pem: String,
        key: &KeyPair,
        not_after: DateTime<Utc>,
    ) -> Result<Self, PkiError> {
        let (cert, key_path) = pair_paths(dir, stem);
        let key_pem = key.serialize_pem();
        write_atomic(&key_path, key_pem.as_bytes(), SECRET)?;
        write_atomic(&cert, cert_pem.as_bytes(), PUBLIC)?;
        Ok(Self {
            cert,
            key: key_path,
            cert_pem,
            key_pem,
            not_after,
        })
    }
}

/// Certificate and key. Not `with_extension`: a node's name may hold dots.
fn pair_paths(dir: &Path, stem: &str) -> (PathBuf, PathBuf) {
    (
        dir.join(format!("{stem}.crt")),
        dir.join(format!("{stem}.key")),
    )
}

/// A new P-256 key.
pub(super) fn new_key(what: impl Fn() -> String) -> Result<KeyPair, PkiError> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(|source| PkiError::Make {
        what: format!("the key of {}", what()),
        source,
    })
}

/// A P-256 key from its file.
pub(super) fn load_key(path: &Path) -> Result<KeyPair, Unusable> {
    KeyPair::from_pkcs8_pem_and_sign_algo(&read(path)?, &PKCS_ECDSA_P256_SHA256).map_err(|error| {
        Unusable::Damaged {
            path: path.to_owned(),
            reason: error.to_string(),
        }
    })
}

fn read(path: &Path) -> Result<String, Unusable> {
    files::read_text(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Unusable::Missing(path.to_owned()),
        io::ErrorKind::InvalidData => Unusable::Damaged {
            path: path.to_owned(),
            reason: "it is not text".to_owned(),
        },
        _ => Unusable::File(error),
    })
}

/// 126 random bits: the top bit would make the number negative, a zero byte at the start would make
/// it shorter.
fn serial() -> Result<SerialNumber, PkiError> {
    let mut bytes = [0; 16];
    rustls::crypto::ring::default_provider()
        .secure_random
        .fill(&mut bytes)
        .map_err(|_| PkiError::Random)?;
    bytes[0] = (bytes[0] & 0x7f) | 0x40;
    Ok(SerialNumber::from_slice(&bytes))
}

fn date(at: DateTime<Utc>) -> Result<OffsetDateTime, PkiError> {
    OffsetDateTime::from_unix_timestamp(at.timestamp()).map_err(|_| PkiError::Date(at))
}
