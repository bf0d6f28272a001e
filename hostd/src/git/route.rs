//! The requests of git that the gateway knows, by method, path and query alone. Pure.

use super::{failure::GitFailure, grants::GitAccess};
use hyper::{Method, Uri};

const PREFIX: &str = "/git/";
pub const REPOSITORY: &str = "repo.git";

/// A service of a git server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GitService {
    UploadPack,
    ReceivePack,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GitRequest {
    /// Asks for the refs of the repository.
    Refs(GitService),
    /// Fetches or pushes.
    Call(GitService),
}

impl GitService {
    pub fn name(self) -> &'static str {
        match self {
            Self::UploadPack => "git-upload-pack",
            Self::ReceivePack => "git-receive-pack",
        }
    }

    pub fn of_name(name: &str) -> Option<Self> {
        [Self::UploadPack, Self::ReceivePack].into_iter().find(|service| service.name() == name)
    }

    /// Checks that an operation is for this service.
    pub fn check(self, access: &GitAccess) -> Result<(), GitFailure> {
        let of_access = match access {
            GitAccess::Fetch => Self::UploadPack,
            GitAccess::Push { .. } => Self::ReceivePack,
        };
        match self == of_access {
            true => Ok(()),
            false => Err(GitFailure::Denied(format!("this grant does not allow {}", self.name()))),
        }
    }
}

impl GitRequest {
    /// Returns the path and query below the path of a repository.
    pub fn target(self) -> String {
        match self {
            Self::Refs(service) => format!("/info/refs?service={}", service.name()),
            Self::Call(service) => format!("/{}", service.name()),
        }
    }

    pub fn method(self) -> Method {
        match self {
            Self::Refs(_) => Method::GET,
            Self::Call(_) => Method::POST,
        }
    }

    /// Returns the content type of the response of a git server.
    pub fn response_type(self) -> String {
        match self {
            Self::Refs(service) => format!("application/x-{}-advertisement", service.name()),
            Self::Call(service) => format!("application/x-{}-result", service.name()),
        }
    }

    pub fn service(self) -> GitService {
        let (Self::Refs(service) | Self::Call(service)) = self;
        service
    }
}

/// Returns the token and the request.
pub fn route<'a>(method: &Method, uri: &'a Uri) -> Option<(&'a str, GitRequest)> {
    let (token, rest) = uri.path().strip_prefix(PREFIX)?.split_once('/')?;
    let rest = rest.strip_prefix(REPOSITORY)?.strip_prefix('/')?;
    let request = match (rest, uri.query()) {
        ("info/refs", Some(query)) => {
            GitRequest::Refs(query.strip_prefix("service=").and_then(GitService::of_name)?)
        }
        (service, None) => GitRequest::Call(GitService::of_name(service)?),
        (_, Some(_)) => return None,
    };
    (request.method() == method).then_some((token, request))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostd_core::BranchName;

    #[test]
    fn only_the_requests_of_smart_http_are_known() {
        use GitRequest::{Call, Refs};
        use GitService::{ReceivePack, UploadPack};
        let table = [
            ("GET", "/git/t/repo.git/info/refs?service=git-upload-pack", Some(Refs(UploadPack))),
            ("GET", "/git/t/repo.git/info/refs?service=git-receive-pack", Some(Refs(ReceivePack))),
            ("POST", "/git/t/repo.git/git-upload-pack", Some(Call(UploadPack))),
            ("POST", "/git/t/repo.git/git-receive-pack", Some(Call(ReceivePack))),
            ("POST", "/git/t/repo.git/info/refs?service=git-upload-pack", None),
            ("GET", "/git/t/repo.git/git-upload-pack", None),
            ("GET", "/git/t/repo.git/info/refs", None),
            ("GET", "/git/t/repo.git/info/refs?service=git-upload-pack&x=1", None),
            ("GET", "/git/t/repo.git/info/refs?service=git-upload-archive", None),
            ("POST", "/git/t/repo.git/git-upload-pack?x", None),
            ("POST", "/git/t/other.git/git-upload-pack", None),
            ("POST", "/git/t/repo.git/../git-upload-pack", None),
            ("GET", "/git/t/repo.git/HEAD", None),
            ("GET", "/git/t/repo.git/objects/info/packs", None),
            ("GET", "/git/t", None),
        ];
        for (method, uri, expected) in table {
            let uri: Uri = uri.parse().expect(uri);
            let found = route(&method.parse().expect("a method"), &uri);
            assert_eq!(found, expected.map(|request| ("t", request)), "{method} {uri}");
        }
    }

    #[test]
    fn an_access_opens_its_service_only() {
        let push = GitAccess::Push { branch: BranchName::parse("main").expect("a name") };
        for (service, access, expected) in [
            (GitService::UploadPack, &GitAccess::Fetch, true),
            (GitService::ReceivePack, &GitAccess::Fetch, false),
            (GitService::ReceivePack, &push, true),
            (GitService::UploadPack, &push, false),
        ] {
            assert_eq!(service.check(access).is_ok(), expected, "{service:?} {access:?}");
        }
    }
}
