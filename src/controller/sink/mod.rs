//! Places outside the cluster that every document is sent to.
//!
//! A [`SinkSet`] is what a configuration asked for, ready to deliver; only a [`webhook`] exists. The
//! [`guard`] keeps documents away from internal addresses, [`retry`] decides how often a delivery is
//! tried, and [`secret`] reads credentials and never shows them. A sink that fails is told in the
//! AIBOM's status and fails nothing else (`controller.md` E.10 and M).

pub mod guard;
pub mod retry;
pub mod secret;
pub mod webhook;

use std::sync::Arc;

use futures_util::future::join_all;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue};
use hyper::body::Bytes;

use super::detect::Category;
use super::document::Document;
use super::status::SinkOutcome;
use super::workload::Workload;
use webhook::Webhook;

/// The sinks of one configuration, in its order; clones are handles to the same ones.
#[derive(Clone, Debug, Default)]
pub struct SinkSet(Arc<[Webhook]>);

impl FromIterator<Webhook> for SinkSet {
    fn from_iter<I: IntoIterator<Item = Webhook>>(sinks: I) -> Self {
        Self(sinks.into_iter().collect())
    }
}

impl SinkSet {
    /// Whether documents go nowhere.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sends a document to all sinks at once. What each made of it stands in configured order.
    pub async fn deliver(&self, delivery: &Delivery<'_>) -> Vec<SinkOutcome> {
        if self.is_empty() {
            return Vec::new();
        }
        let bytes = Bytes::from(delivery.document.bytes.clone());
        let headers = delivery.headers();
        let each = self.0.iter().map(|sink| sink.deliver(&bytes, &headers));
        join_all(each).await
    }
}

/// A document on its way, with what its receiver is told about it.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'a> {
    /// The document.
    pub document: &'a Document,
    /// What it describes.
    pub workload: &'a Workload<'a>,
    /// The published category.
    pub category: Category,
    /// Version text of the running controller: `v1.3.0`.
    pub controller_version: &'a str,
    /// Content type of the request.
    pub content_type: &'static str,
}

impl Delivery<'_> {
    fn headers(&self) -> HeaderMap {
        let Self {
            document, workload, ..
        } = self;
        let hash = format!("sha256:{}", document.sha256);
        let pairs = [
            (CONTENT_TYPE, self.content_type),
            (own("x-aibom-document-hash"), &hash),
            (own("x-aibom-workload-kind"), workload.kind.kind),
            (own("x-aibom-workload-namespace"), workload.namespace),
            (own("x-aibom-workload-name"), workload.name),
            (own("x-aibom-workload-category"), self.category.as_str()),
            (own("x-aibom-controller-version"), self.controller_version),
        ];
        // Names of Kubernetes are ASCII, so that every value can stand in a header.
        let pairs = pairs
            .into_iter()
            .filter_map(|(name, value)| Some((name, HeaderValue::from_str(value).ok()?)));
        pairs.collect()
    }
}

const fn own(name: &'static str) -> HeaderName {
    HeaderName::from_static(name)
}
