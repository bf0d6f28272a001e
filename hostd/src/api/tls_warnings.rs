//! Warnings about the encryption of listeners: in `GET /v1/host`, and in the log at start.

use super::Settings;
use hostd_core::rfc3339;
use hostd_net::tls::{CertificateStatus, Tls, Validity, ValidityState, unix_seconds};
use std::{net::SocketAddr, time::SystemTime};

impl Settings {
    /// The warning about an API that other machines can reach without TLS. It is served all the same: the network may
    /// be private, or a proxy on another machine may add TLS.
    pub fn clear_text_warning(&self) -> Option<String> {
        clear_text(self.bind, self.encrypted)
    }

    pub(super) fn tls_warnings(&self) -> Vec<String> {
        let now_s = unix_seconds(SystemTime::now());
        let certificates =
            self.certificates.iter().map(Tls::status).flat_map(|status| certificate(&status, now_s));
        self.clear_text_warning().into_iter().chain(certificates).collect()
    }
}

fn clear_text(bind: SocketAddr, encrypted: bool) -> Option<String> {
    let is_exposed = !encrypted && !bind.ip().to_canonical().is_loopback();
    is_exposed.then(|| {
        format!(
            "the API on {bind} is not encrypted: tokens and files can be read on the network; set SLIPWAY_API_TLS_CERT \
             and SLIPWAY_API_TLS_KEY (slipway tls init makes a pair), or bind loopback behind a proxy"
        )
    })
}

fn certificate(status: &CertificateStatus, now_s: i64) -> Vec<String> {
    let CertificateStatus { listener, path, validity, rejected, .. } = status;
    let path = path.display();
    let date = |time_s: i64| rfc3339(u64::try_from(time_s).unwrap_or(0).saturating_mul(1000));
    let about_time = validity.and_then(|validity| {
        let Validity { not_before_s, not_after_s } = validity;
        let fault = match validity.state(now_s) {
            ValidityState::Valid => return None,
            ValidityState::NotYetValid => format!("is not valid before {}", date(not_before_s)),
            ValidityState::ExpiresSoon => format!("expires at {}; renew it", date(not_after_s)),
            ValidityState::Expired => format!("expired at {}; clients refuse it", date(not_after_s)),
        };
        Some(format!("the TLS certificate of the {listener} listener, {path}, {fault}"))
    });
    let about_change = rejected.as_ref().map(|why| {
        format!(
            "the changed TLS certificate of the {listener} listener is not used, the one before is: {why}"
        )
    });
    about_time.into_iter().chain(about_change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::api::CertificateFingerprint;

    #[test]
    fn an_api_that_others_can_reach_needs_tls() {
        for (bind, encrypted, expected) in [
            ("127.0.0.1:9090", false, false),
            ("[::1]:9090", false, false),
            ("[::ffff:127.0.0.1]:9090", false, false),
            ("0.0.0.0:9090", false, true),
            ("[::]:9090", false, true),
            ("10.0.0.7:9090", false, true),
            ("0.0.0.0:9090", true, false),
        ] {
            assert_eq!(
                clear_text(bind.parse().unwrap(), encrypted).is_some(),
                expected,
                "{bind} {encrypted}"
            );
        }
    }

    #[test]
    fn a_certificate_out_of_its_time_or_not_loaded_is_a_warning() {
        let mut status = CertificateStatus {
            listener: "api",
            path: "/tls/api.crt".into(),
            fingerprint: CertificateFingerprint([0; 32]),
            validity: Some(Validity { not_before_s: 1_000_000_000, not_after_s: 1_000_001_000 }),
            rejected: None,
        };
        for (now_s, expected) in [
            (1_000_000_500, None),
            (999_999_999, Some("is not valid before 2001-09-09T01:46:40.000Z")),
            (1_000_000_950, Some("expires at 2001-09-09T02:03:20.000Z; renew it")),
            (1_000_001_001, Some("expired at 2001-09-09T02:03:20.000Z; clients refuse it")),
        ] {
            let expected = expected
                .map(|fault| format!("the TLS certificate of the api listener, /tls/api.crt, {fault}"));
            assert_eq!(certificate(&status, now_s).first(), expected.as_ref(), "{now_s}");
        }
        status.rejected = Some("SLIPWAY_API_TLS_CERT: it is torn".to_owned());
        assert_eq!(
            certificate(&status, 1_000_000_500),
            ["the changed TLS certificate of the api listener is not used, the one before is: \
              SLIPWAY_API_TLS_CERT: it is torn"]
        );
    }
}
