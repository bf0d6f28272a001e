//! The error pages of visitors that are not admitted, and the redirect that takes a pass out of an address.

use super::{AccessDenied, HeaderAuthError};
use hostd_core::ErrorPage;
use hyper::{
    Response, StatusCode,
    header::{CACHE_CONTROL, HeaderValue, LOCATION, REFERRER_POLICY, SET_COOKIE},
};
use protocol::api::ApiErrorCode;

impl AccessDenied {
    pub fn error_page(self) -> ErrorPage {
        let (code, title) = match self {
            Self::NoPass => (ApiErrorCode::Unauthorized, "This preview is private"),
            Self::InvalidPass => (ApiErrorCode::Unauthorized, "This link does not open the preview"),
            Self::OtherPreview => (ApiErrorCode::Forbidden, "This link is for another preview"),
            Self::Expired => (ApiErrorCode::Unauthorized, "This link has expired"),
            Self::Revoked => (ApiErrorCode::Unauthorized, "This link was revoked"),
            Self::UseHeader => (ApiErrorCode::InvalidRequest, "A link only opens pages"),
            Self::OtherSite => (ApiErrorCode::Forbidden, "This page is of another site"),
        };
        let page = ErrorPage::new(code, title, sentence(&self.to_string()));
        match self {
            Self::UseHeader | Self::OtherSite => page,
            Self::NoPass | Self::InvalidPass | Self::OtherPreview | Self::Expired | Self::Revoked => {
                page.advise("Ask the owner of the sandbox for a link to this preview.")
            }
        }
    }
}

impl HeaderAuthError {
    pub fn error_page(&self) -> ErrorPage {
        let (code, title) = match self {
            Self::Unauthorized => (ApiErrorCode::Unauthorized, "This needs a token"),
            Self::Forbidden => (ApiErrorCode::Forbidden, "This token may not do that"),
            Self::NotFound => (ApiErrorCode::NotFound, "There is no such sandbox here"),
            Self::PassInAddress => (ApiErrorCode::InvalidRequest, "A link only opens pages"),
            Self::Malformed(_) => (ApiErrorCode::InvalidRequest, "This request is malformed"),
            Self::Store(_) => {
                let text = "hostd cannot read its database; try again in a moment.";
                return ErrorPage::new(
                    ApiErrorCode::DriverUnavailable,
                    "This preview cannot be checked now",
                    text,
                );
            }
        };
        ErrorPage::new(code, title, sentence(&self.to_string()))
    }
}

/// The redirect that takes a pass out of the address. Neither caches nor `Referer` headers keep the address.
pub fn redirect(location: &str, cookie: Option<HeaderValue>) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::SEE_OTHER;
    let headers = response.headers_mut();
    // The location was part of a parsed URI, so it is a valid header value.
    let location = HeaderValue::from_str(location).unwrap_or_else(|_| HeaderValue::from_static("/"));
    headers.insert(LOCATION, location);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    if let Some(cookie) = cookie {
        headers.insert(SET_COOKIE, cookie);
    }
    response
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| format!("{}{}.", first.to_uppercase(), letters.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_has_its_code_and_says_what_to_do() {
        let table = [
            (AccessDenied::NoPass, 401, true),
            (AccessDenied::InvalidPass, 401, true),
            (AccessDenied::OtherPreview, 403, true),
            (AccessDenied::Expired, 401, true),
            (AccessDenied::Revoked, 401, true),
            (AccessDenied::UseHeader, 400, false),
            (AccessDenied::OtherSite, 403, false),
        ];
        for (denied, status, advised) in table {
            let page = denied.error_page();
            assert_eq!((page.status, !page.advice.is_empty()), (status, advised), "{denied:?}");
            assert!(!page.text.contains(&page.title), "said twice: {}", page.text);
            assert!(page.text.starts_with(char::is_uppercase) && page.text.ends_with('.'), "{}", page.text);
        }
    }

    #[test]
    fn a_redirect_leaves_no_trace_of_the_pass() {
        let response = redirect("/a?b=c", Some(HeaderValue::from_static("x=y")));
        let header = |name| response.headers().get(name).map(|value| value.to_str().unwrap_or_default());
        assert_eq!((response.status(), header(LOCATION)), (StatusCode::SEE_OTHER, Some("/a?b=c")));
        assert_eq!((header(CACHE_CONTROL), header(REFERRER_POLICY)), (Some("no-store"), Some("no-referrer")));
        assert_eq!(header(SET_COOKIE), Some("x=y"));
        assert!(!redirect("/", None).headers().contains_key(SET_COOKIE));
    }
}
