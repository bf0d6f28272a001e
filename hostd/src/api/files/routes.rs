//! The routes of files, for the table of all routes.

use super::{
    super::{
        route::{
            RequiredAccess::{Own, Read, Signature, Write},
            Route,
        },
        route_params::PAGE,
    },
    archive, content, entries, links,
    params::{ANYWHERE, FOLLOW_LINK, FORMAT, FROM_TO, LIST, MODE, PATH, RECURSIVE, SEARCH, SELECT, WRITE},
    signed, tree, watch,
};
use hyper::Method;
use protocol::api::{
    FileLinkCreate, FileLinkCreated, FileLinkView, FilePage, FileView, FilesWritten, SearchView, UnpackView,
    WriteFiles,
};

const BYTES: &str = "application/octet-stream";

pub fn all() -> Vec<Route> {
    [single(), bytes(), trees(), signed_urls()].into_iter().flatten().collect()
}

fn single() -> Vec<Route> {
    vec![
        Route::new(Method::GET, "/v1/sandboxes/{id}/files/stat", Read, entries::stat)
            .operation("statFile", "Get a file, directory or link; a sleeping sandbox stays asleep, as with every route of files")
            .query(PATH)
            .query(ANYWHERE)
            .query(FOLLOW_LINK)
            .returns::<FileView>(200),
        Route::new(Method::POST, "/v1/sandboxes/{id}/files/mkdir", Write, entries::mkdir)
            .operation("makeDirectory", "Make a directory, and those above it; 200 where it is there already")
            .query(PATH)
            .query(ANYWHERE)
            .query(MODE)
            .returns::<FileView>(200)
            .returns::<FileView>(201),
        Route::new(Method::POST, "/v1/sandboxes/{id}/files/move", Write, entries::rename)
            .operation("moveFile", "Move a file, directory or link")
            .query(FROM_TO)
            .query(ANYWHERE)
            .returns::<FileView>(200),
        Route::new(Method::POST, "/v1/sandboxes/{id}/files/copy", Write, entries::copy)
            .operation("copyFile", "Copy a file, a link, or a directory with all that is in it")
            .query(FROM_TO)
            .query(ANYWHERE)
            .returns::<FileView>(200),
        Route::new(Method::POST, "/v1/sandboxes/{id}/files/write-many", Write, entries::write_many)
            .operation("writeFiles", "Write many files, each at once; the first that fails ends the call")
            .json_body::<WriteFiles>()
            .returns::<FilesWritten>(200),
    ]
}

fn bytes() -> Vec<Route> {
    let path = "/v1/sandboxes/{id}/files/content";
    vec![
        Route::new(Method::GET, path, Read, content::read)
            .operation("readFile", "Read a file; `Range`, `If-Range` and `If-None-Match` apply")
            .query(PATH)
            .query(ANYWHERE)
            .returns_media(200, BYTES)
            .returns_media(206, BYTES)
            .returns_media(304, ""),
        Route::new(Method::HEAD, path, Read, content::head)
            .operation("headFile", "Get size, tag, type and mode of a file as headers")
            .query(PATH)
            .query(ANYWHERE)
            .returns_media(200, ""),
        Route::new(Method::PUT, path, Write, content::write)
            .operation("writeFile", "Write a file at once: its readers see the old content or the new. `If-Match` writes only what was read, `If-None-Match: *` only a new file")
            .query(PATH)
            .query(ANYWHERE)
            .query(WRITE)
            .streamed_body()
            .audited()
            .returns::<FileView>(200)
            .returns::<FileView>(201),
        Route::new(Method::DELETE, path, Write, entries::delete)
            .operation("deleteFile", "Delete a file, a link or a directory; `If-Match` applies")
            .query(PATH)
            .query(ANYWHERE)
            .query(RECURSIVE)
            .returns_media(204, ""),
    ]
}

fn trees() -> Vec<Route> {
    let path = "/v1/sandboxes/{id}/files/archive";
    vec![
        Route::new(Method::GET, "/v1/sandboxes/{id}/files", Read, tree::list)
            .operation("listFiles", "List a directory, or a tree, in the order of the paths")
            .query(PATH)
            .query(ANYWHERE)
            .query(LIST)
            .query(SELECT)
            .returns::<FilePage>(200),
        Route::new(Method::GET, "/v1/sandboxes/{id}/files/search", Read, tree::search)
            .operation("searchFiles", "Find files by name, lines by content, or both")
            .query(PATH)
            .query(SEARCH)
            .query(SELECT)
            .returns::<SearchView>(200),
        Route::new(Method::GET, path, Read, archive::download)
            .operation("downloadArchive", "Read a tree as an archive, without FIFOs, sockets and devices")
            .query(PATH)
            .query(FORMAT)
            .query(SELECT)
            .returns_media(200, "application/x-tar")
            .returns_media(200, "application/gzip")
            .returns_media(200, "application/zip"),
        Route::new(Method::PUT, path, Write, archive::upload)
            .operation("uploadArchive", "Unpack an archive into a directory. Extended attributes, set-id bits, devices and names that lead out of the workspace are left out")
            .query(PATH)
            .query(FORMAT)
            .streamed_body()
            .audited()
            .returns::<UnpackView>(200),
        Route::new(Method::GET, "/v1/sandboxes/{id}/files/watch", Read, watch::watch)
            .operation("watchFiles", "Changes of a tree as server-sent events: `ready`, `created`, `modified`, `deleted`, `moved`, and `overflow` where changes were lost and the tree must be listed again")
            .query(PATH)
            .query(ANYWHERE)
            .query(RECURSIVE)
            .headers(watch::LAST_EVENT_ID)
            .returns_sse("FileChangeView"),
    ]
}

fn signed_urls() -> Vec<Route> {
    vec![
        Route::new(Method::POST, "/v1/sandboxes/{id}/file-links", Own, links::create)
            .operation("createFileLink", "Create a URL that reads or writes one file without a token; the only response that contains its signature")
            .json_body::<FileLinkCreate>()
            .rejects_idempotency_key()
            .returns::<FileLinkCreated>(201),
        Route::new(Method::GET, "/v1/sandboxes/{id}/file-links", Read, links::list)
            .operation("listFileLinks", "List signed URLs, newest first, without their signatures")
            .query(PAGE)
            .returns_page::<FileLinkView>(200),
        Route::new(Method::DELETE, "/v1/sandboxes/{id}/file-links/{file_link}", Own, links::revoke)
            .operation("revokeFileLink", "Revoke a signed URL")
            .returns_media(204, ""),
        Route::new(Method::GET, "/v1/sandboxes/{id}/file-links/{file_link}/content", Signature, signed::read)
            .operation("readSignedFile", "Read the file of a signed URL")
            .query(signed::SIGNED)
            .returns_media(200, BYTES)
            .returns_media(206, BYTES)
            .returns_media(304, ""),
        Route::new(Method::PUT, "/v1/sandboxes/{id}/file-links/{file_link}/content", Signature, signed::write)
            .operation("writeSignedFile", "Write the file of a signed URL")
            .query(signed::SIGNED)
            .streamed_body()
            .audited()
            .returns::<FileView>(200)
            .returns::<FileView>(201),
    ]
}
