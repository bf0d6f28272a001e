//! The manners of the API: errors, names, documents, images, and how hostd starts or refuses to.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Method, Request};
use protocol::api::{ApiErrorCode, MemoryLevel, ProblemCode};
use serde_json::{Value, json};
use std::os::unix::fs::symlink;
use std::path::Path;
use tests::launch::{directory, program};
use tests::{Caller, Hostd, Reply};
use tokio::process::Command;

async fn ask(caller: &Caller, method: &str, path: &str, body: &str) -> Result<Reply> {
    caller.send(Method::from_bytes(method.as_bytes())?, path, Bytes::copy_from_slice(body.as_bytes())).await
}

#[tokio::test]
async fn every_refusal_is_json_with_a_code_and_a_request_id() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    use ApiErrorCode::{InvalidRequest, MethodNotAllowed, NotFound, Unauthorized, Unsupported};
    let table = [
        ("GET", "/", "", 404, NotFound, None),
        ("GET", "/v1/nothing", "", 404, NotFound, None),
        ("GET", "/v1/sandboxes/", "", 404, NotFound, None),
        ("GET", "/v1/sandboxes/not-an-id", "", 404, NotFound, None),
        ("GET", "/v1/sandboxes/%2e%2e%2f", "", 404, NotFound, None),
        ("GET", "/v1/sandboxes/%ff", "", 404, NotFound, None),
        ("DELETE", "/v1/sandboxes", "", 405, MethodNotAllowed, None),
        ("FROB", "/v1/sandboxes", "", 405, MethodNotAllowed, None),
        ("POST", "/v1/sandboxes", "{", 400, InvalidRequest, None),
        ("POST", "/v1/sandboxes", "[]", 400, InvalidRequest, None),
        ("POST", "/v1/sandboxes", "null", 400, InvalidRequest, None),
        ("POST", "/v1/sandboxes", r#"{"nmae": 1}"#, 400, InvalidRequest, Some("nmae")),
        ("POST", "/v1/sandboxes", r#"{"limits": {"memory": 1}}"#, 400, InvalidRequest, Some("limits.memory")),
        (
            "POST",
            "/v1/sandboxes",
            r#"{"limits": {"memory_mb": 1}}"#,
            400,
            InvalidRequest,
            Some("limits.memory_mb"),
        ),
        ("POST", "/v1/sandboxes", r#"{"ports": [70000]}"#, 400, InvalidRequest, Some("ports[0]")),
        ("POST", "/v1/sandboxes", r#"{"ttl": "soon"}"#, 400, InvalidRequest, Some("ttl")),
        ("POST", "/v1/sandboxes?wiat=1", "{}", 400, InvalidRequest, Some("wiat")),
        ("POST", "/v1/sandboxes?wait=x", "{}", 400, InvalidRequest, Some("wait")),
        ("GET", "/v1/sandboxes?limit=0", "", 400, InvalidRequest, Some("limit")),
        ("GET", "/v1/sandboxes?limit=1&limit=2", "", 400, InvalidRequest, Some("limit")),
        ("GET", "/v1/sandboxes?status=well", "", 400, InvalidRequest, Some("status")),
        ("POST", "/v1/sandboxes", r#"{"driver": "lima"}"#, 422, Unsupported, Some("driver")),
        ("POST", "/v1/sandboxes", r#"{"image": "standard"}"#, 422, Unsupported, Some("image")),
        ("POST", "/v1/sandboxes", r#"{"network": "open"}"#, 422, Unsupported, Some("network")),
        (
            "POST",
            "/v1/sandboxes",
            r#"{"limits": {"disk_mb": 5}}"#,
            400,
            InvalidRequest,
            Some("limits.disk_mb"),
        ),
        ("POST", "/v1/tokens", r#"{"tenant": "a b", "principal": "c"}"#, 400, InvalidRequest, Some("tenant")),
    ];
    for (method, path, body, status, code, field) in table {
        let reply = ask(&operator, method, path, body).await?;
        let error = reply.error().with_context(|| format!("{method} {path} {body}"))?;
        let as_told = (reply.status, error.code, error.detail.field.as_deref());
        ensure!(
            as_told == (status, code, field),
            "{method} {path} {body}: {} {}",
            reply.status,
            reply.text()
        );
        ensure!(reply.headers["content-type"] == "application/json" && !error.message.is_empty());
        ensure!(reply.headers["x-request-id"].len() == 26, "{:?}", reply.headers);
    }
    let anonymous = operator.with_token(None).get("/v1/sandboxes").await?;
    ensure!(
        anonymous.code()? == Unauthorized
            && anonymous.headers["www-authenticate"].to_str()?.starts_with("Bearer")
    );
    ensure!(operator.get("/v1/sandboxes?all=1").await?.expect::<Value>(200)?["items"] == json!([]));
    Ok(())
}

#[tokio::test]
async fn what_a_driver_cannot_do_is_refused_with_what_it_can() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    for (body, supported, why) in [
        (json!({"driver": "lima"}), &["oci"][..], "virtual machines"),
        (json!({"driver": "nonsense"}), &["oci"], "no driver nonsense"),
        (json!({"network": "open"}), &["none", "proxy"], "network"),
    ] {
        let error = operator.post("/v1/sandboxes", &body).await?.error()?;
        let supports = supported.iter().all(|name| error.detail.supported.iter().any(|found| found == name));
        ensure!(error.code == ApiErrorCode::Unsupported && supports, "{error:?}");
        ensure!(error.message.contains(why), "{error:?}");
    }
    Ok(())
}

#[tokio::test]
async fn the_document_is_the_committed_one_and_every_get_of_it_answers() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let served = operator.get("/openapi.json").await?;
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/openapi.json");
    ensure!(served.body == std::fs::read(&committed)?, "docs/openapi.json is old");
    let spec = json!({"services": [{"name": "web", "command": "echo hello; exec sleep 1000"}]});
    let id = operator.create(&spec).await?;
    operator
        .post(&format!("/v1/sandboxes/{id}/execs"), &json!({"id": "e", "shell": "git init --quiet"}))
        .await?;
    let task = json!({"id": "t", "prompt": "x", "command": ["true"]});
    operator.post(&format!("/v1/sandboxes/{id}/tasks"), &task).await?.expect::<Value>(202)?;
    operator.until(&format!("/v1/sandboxes/{id}/tasks/t"), |task| !task["result"].is_null()).await?;
    let budget = json!({"requests": 1, "per": "total"});
    operator
        .put(&format!("/v1/sandboxes/{id}/files/content?path=f"), &json!("x"))
        .await?
        .expect::<Value>(201)?;
    operator.put("/v1/budgets/someone", &budget).await?.expect::<Value>(200)?;
    let root = directory()?;
    busybox(&root.path().join("root"))?;
    let image = json!({"name": "default", "path": root.path().join("root")});
    operator.post("/v1/images", &image).await?.expect::<Value>(201)?;
    let taken = operator.post(&format!("/v1/sandboxes/{id}/snapshots"), &json!({})).await?;
    let snapshot = taken.expect::<Value>(201)?["id"].as_str().context("an id")?.to_owned();
    operator.until(&format!("/v1/snapshots/{snapshot}"), |view| !view["content"].is_null()).await?;
    let hook = operator.post("/v1/webhooks", &json!({"url": "https://127.0.0.1:1/"})).await?;
    let hook = hook.expect::<Value>(201)?["id"].as_str().context("an id")?.to_owned();
    let names =
        [("{id}", id.as_str()), ("{exec}", "e"), ("{task}", "t"), ("{service}", "web"), ("{port}", "1")];
    let more = [("{file_link}", id.as_str()), ("{snapshot}", &snapshot), ("{webhook}", &hook)];
    let names = [&names[..], &more, &[("{name}", "default"), ("{tenant}", "someone")]].concat();
    let document: Value = served.json()?;
    for (path, methods) in document["paths"].as_object().context("paths")? {
        let Some(get) = methods.get("get") else { continue };
        let real = names.iter().fold(path.clone(), |real, (name, value)| real.replace(name, value));
        let real = match path.rsplit("/files/").next() {
            Some("content") => format!("{real}?path=f"),
            Some("search") => format!("{real}?name=f"),
            Some("watch") => format!("{real}?path=none"),
            _ => real,
        };
        // A page instead of a stream that never ends.
        let request =
            Request::get(&real).header("accept", "application/json").body(Full::new(Bytes::new()))?;
        let reply = operator.call(request).await?;
        // Output of a command is in its events, and there is no warm agent and no pull.
        let other = match path.rsplit('/').next() {
            Some("log") if path.contains("/tasks/") => Some(409),
            Some("warm" | "{pull}") => Some(404),
            // A stream that would not end, of a directory that is not there.
            Some("watch") => Some(404),
            Some("content") if path.contains("/file-links/") => Some(401),
            _ => None,
        };
        if let Some(status) = other {
            ensure!(reply.status == status, "{path}: {}", reply.text());
            continue;
        }
        if get["responses"].get("101").is_some() {
            ensure!(reply.status == 400, "{path}: {}", reply.text());
            continue;
        }
        ensure!(reply.status == 200, "{path}: {} {}", reply.status, reply.text());
        let kinds = get["responses"]["200"]["content"].as_object().context("content")?;
        let kind = reply.headers["content-type"].to_str()?.split(';').next().unwrap_or_default();
        let page = kind == "application/json";
        ensure!(kinds.contains_key(kind) || page && path == "/v1/events", "{path} gives {kind}");
    }
    Ok(())
}

#[tokio::test]
async fn host_drivers_metrics_and_health_tell_what_is_there() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let anonymous = operator.with_token(None);
    ensure!(anonymous.get("/healthz").await?.expect::<Value>(200)? == json!({"status": "ok"}));
    let ready: Value = anonymous.get("/readyz").await?.expect(200)?;
    // The level of memory is that of the machine.
    let memory = serde_json::from_value::<MemoryLevel>(ready["memory"].clone());
    ensure!(memory.is_ok() && ready == json!({"status": "ready", "memory": ready["memory"]}), "{ready}");
    operator.create(&json!({})).await?;
    let host: Value = operator.get("/v1/host").await?.expect(200)?;
    ensure!(host["sandboxes"] == json!({"running": 1}) && host["default_driver"] == "oci", "{host}");
    for field in
        ["cpus", "memory_total_bytes", "memory_available_bytes", "disk_total_bytes", "hostd_rss_bytes"]
    {
        ensure!(host[field].as_u64().is_some_and(|n| n > 0), "{field} of {host}");
    }
    let drivers: Value = operator.get("/v1/drivers").await?.expect(200)?;
    let items = drivers["items"].as_array().context("items")?;
    let driver = |name| {
        items.iter().find(|driver| driver["name"] == name).with_context(|| format!("{name} is listed"))
    };
    let oci = driver("oci")?;
    ensure!(oci["usable"] == true && oci["present"] == true && oci["default"] == true, "{drivers}");
    ensure!(oci["capabilities"]["networks"] == json!(["none", "proxy"]), "{drivers}");
    let docker = driver("docker")?;
    ensure!(docker["default"] == false && docker.get("unsupported").is_none(), "{drivers}");
    for name in ["kubernetes", "podman", "lima", "firecracker"] {
        let other = driver(name)?;
        ensure!(other["unsupported"] == true && other["usable"] == false, "{other}");
        ensure!(other["missing"][0].as_str().is_some_and(|why| !why.is_empty()), "{other}");
    }
    let stale: Value = operator.get("/v1/host/stale").await?.expect(200)?;
    ensure!(stale["items"] == json!([]), "{stale}");
    let metrics = operator.get("/metrics").await?;
    ensure!(metrics.headers["content-type"].to_str()?.starts_with("application/openmetrics-text"));
    let text = metrics.text();
    for line in [
        "slipway_sandboxes{status=\"running\",driver=\"oci\"} 1",
        "slipway_api_requests_total{method=\"POST\",route=\"/v1/sandboxes\",status=\"201\"} 1",
        "slipway_sandbox_launch_duration_seconds_count{driver=\"oci\"} 1",
        "slipway_driver_up{driver=\"oci\"} 1",
    ] {
        ensure!(text.lines().any(|found| found == line), "{line} in {text}");
    }
    Ok(())
}

#[tokio::test]
async fn requests_under_other_names_and_from_other_sites_are_refused() -> Result<()> {
    let hostd = Hostd::start_with(&[("SLIPWAY_API_HOSTS", "slip.example")]).await?;
    let operator = hostd.operator()?;
    let here = hostd.url().trim_start_matches("http://").to_owned();
    let table = [
        (here.as_str(), None, 200),
        ("localhost", None, 200),
        ("SLIP.example:443", None, 200),
        ("evil.example", None, 403),
        ("localhost.evil.example", None, 403),
        ("10.1.2.3", None, 403),
        (&here, Some(format!("http://{here}")), 200),
        (&here, Some("https://slip.example".to_owned()), 200),
        (&here, Some("http://localhost:1".to_owned()), 403),
        (&here, Some("http://127.0.0.1:1".to_owned()), 403),
        (&here, Some("https://evil.example".to_owned()), 403),
        (&here, Some("null".to_owned()), 403),
    ];
    for (host, origin, status) in table {
        for path in ["/v1/sandboxes", "/healthz", "/nothing"] {
            let mut request = Request::get(path).header("host", host);
            if let Some(origin) = &origin {
                request = request.header("origin", origin);
            }
            let reply = operator.call(request.body(Full::new(Bytes::new()))?).await?;
            let expected = if status == 200 && path == "/nothing" { 404 } else { status };
            ensure!(reply.status == expected, "{host} {origin:?} {path}: {} {}", reply.status, reply.text());
        }
    }
    Ok(())
}

/// A root with a static busybox and nothing else.
fn busybox(root: &Path) -> Result<()> {
    std::fs::create_dir_all(root.join("bin"))?;
    std::fs::copy("/bin/busybox", root.join("bin/busybox"))?;
    for applet in ["sh", "cat", "echo", "ls", "id"] {
        symlink("busybox", root.join("bin").join(applet))?;
    }
    std::fs::write(root.join("made-by"), "a test\n")?;
    Ok(())
}

#[tokio::test]
async fn a_directory_and_an_archive_become_images_that_sandboxes_run() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let dir = directory()?;
    let (root, archive) = (dir.path().join("root"), dir.path().join("root.tar.gz"));
    busybox(&root)?;
    let packed = Command::new("tar").arg("-czf").arg(&archive).arg("-C").arg(&root).arg(".").status().await?;
    ensure!(packed.success());
    for (name, source) in [("from-dir", &root), ("from-tar", &archive)] {
        let image: Value =
            operator.post("/v1/images", &json!({"name": name, "path": source})).await?.expect(201)?;
        ensure!(
            image["name"] == name && image["size_bytes"].as_u64().is_some_and(|n| n > 100_000),
            "{image}"
        );
        let id = operator.create(&json!({"image": name})).await?;
        ensure!(operator.sandbox(&id).await?["image"] == name);
        let printed = operator.prints(&id, "cat /made-by; id -u; echo x > file; cat file").await?;
        ensure!(printed == "a test\n1000\nx\n", "{printed}");
        let exec = operator.shell(&id, "echo x > /made-by").await?;
        ensure!(exec["exit"]["code"] != 0, "the root can be written: {exec}");
    }
    let page: Value = operator.get("/v1/images").await?.expect(200)?;
    let names: Vec<&Value> =
        page["items"].as_array().context("items")?.iter().map(|image| &image["name"]).collect();
    ensure!(names == ["from-dir", "from-tar"], "{page}");
    Ok(())
}

#[tokio::test]
async fn an_image_that_is_wrong_taken_or_missing_is_refused_and_nothing_is_left_of_it() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let dir = directory()?;
    let (root, garbage) = (dir.path().join("root"), dir.path().join("garbage.tar"));
    busybox(&root)?;
    std::fs::write(&garbage, vec![7; 10_000])?;
    operator.post("/v1/images", &json!({"name": "taken", "path": root})).await?.expect::<Value>(201)?;
    let table = [
        (json!({"name": "taken", "path": root}), 422),
        (json!({"name": "host", "path": root}), 422),
        (json!({"name": "../up", "path": root}), 422),
        (json!({"name": "x", "path": "relative"}), 400),
        (json!({"name": "x", "path": "/there/is/none"}), 422),
        (json!({"name": "x", "path": garbage}), 422),
        (json!({"name": "x"}), 400),
    ];
    for (body, status) in table {
        let reply = operator.post("/v1/images", &body).await?;
        ensure!(reply.status == status, "{body}: {} {}", reply.status, reply.text());
        reply.error()?;
    }
    let page: Value = operator.get("/v1/images").await?.expect(200)?;
    ensure!(page["items"].as_array().map(Vec::len) == Some(1), "{page}");
    ensure!(operator.delete("/v1/images/none").await?.status == 404);
    Ok(())
}

#[tokio::test]
async fn removing_an_image_never_takes_the_root_from_a_sandbox() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let dir = directory()?;
    busybox(&dir.path().join("root"))?;
    let body = json!({"name": "used", "path": dir.path().join("root")});
    operator.post("/v1/images", &body).await?.expect::<Value>(201)?;
    let id = operator.create(&json!({"image": "used"})).await?;
    let reply = operator.delete("/v1/images/used").await?;
    ensure!([204, 409].contains(&reply.status), "{} {}", reply.status, reply.text());
    ensure!(operator.prints(&id, "cat /made-by").await? == "a test\n", "its root is gone");
    operator.delete(&format!("/v1/sandboxes/{id}")).await?.expect::<Value>(200)?;
    if reply.status == 409 {
        ensure!(operator.delete("/v1/images/used").await?.status == 204);
    }
    let gone = operator.post("/v1/sandboxes", &json!({"image": "used"})).await?;
    let problem = gone.error()?.detail.problem.map(|problem| problem.code);
    ensure!(problem == Some(ProblemCode::ImageMissing), "{}", gone.text());
    Ok(())
}

/// How hostd ends with these variables and what it says.
async fn ends(variables: &[(&str, &str)], before: &[&str]) -> Result<(Option<i32>, String)> {
    let hostd = program("hostd")?;
    let mut words = before.to_vec();
    words.push(hostd.to_str().context("its path")?);
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).env("SLIPWAY_CONFIG", "/dev/null").env("SLIPWAY_API_BIND", "127.0.0.1:0");
    command.env("SLIPWAY_PREVIEW_BIND", "127.0.0.1:0").envs(variables.iter().copied()).kill_on_drop(true);
    let output =
        tokio::time::timeout(tests::sandbox::PATIENCE, command.output()).await.context("it serves")??;
    Ok((output.status.code(), String::from_utf8(output.stderr)?))
}

#[tokio::test]
async fn wrong_configuration_is_exit_64_and_one_line_that_names_the_key() -> Result<()> {
    let dir = directory()?;
    let data = dir.path().join("data").display().to_string();
    let file = dir.path().join("slipway.toml");
    std::fs::write(&file, "idle = 3\n")?;
    let table = [
        ("SLIPWAY_API_BIND", "nine", "SLIPWAY_API_BIND"),
        ("SLIPWAY_DATA_DIR", "relative", "SLIPWAY_DATA_DIR"),
        ("SLIPWAY_DRIVER", "lima", "SLIPWAY_DRIVER"),
        ("SLIPWAY_DRIVER", "podman", "SLIPWAY_DOCKER_SOCKET"),
        ("SLIPWAY_DOCKER_SOCKET", "tcp://127.0.0.1:2375", "SLIPWAY_DOCKER_SOCKET"),
        ("SLIPWAY_AUTH", "maybe", "SLIPWAY_AUTH"),
        ("SLIPWAY_IDLE_SECONDS", "0", "SLIPWAY_IDLE_SECONDS"),
        ("SLIPWAY_OCI_RUNTIME", "/there/is/none", "SLIPWAY_OCI_RUNTIME"),
        ("SLIPWAY_RUNTIMED", "/there/is/none", "SLIPWAY_RUNTIMED"),
        ("SLIPWAY_CONFIG", "/there/is/none", "SLIPWAY_CONFIG"),
        ("SLIPWAY_CONFIG", &file.display().to_string(), "idle"),
    ];
    for (key, value, named) in table {
        let (code, said) = ends(&[("SLIPWAY_DATA_DIR", data.as_str()), (key, value)], &[]).await?;
        let line = said.lines().last().unwrap_or_default();
        ensure!(code == Some(64) && line.contains(named), "{key}={value}: {code:?} {said}");
    }
    let open =
        [("SLIPWAY_DATA_DIR", data.as_str()), ("SLIPWAY_AUTH", "off"), ("SLIPWAY_API_BIND", "0.0.0.0:0")];
    let (code, said) = ends(&open, &[]).await?;
    ensure!(code == Some(64) && said.contains("SLIPWAY_AUTH"), "{code:?} {said}");
    let tls = [
        ("SLIPWAY_DATA_DIR", data.as_str()),
        ("SLIPWAY_PREVIEW_TLS_CERT", "/there/is/none"),
        ("SLIPWAY_PREVIEW_TLS_KEY", "/there/is/none"),
    ];
    let (code, said) = ends(&tls, &[]).await?;
    let named = "SLIPWAY_PREVIEW_TLS_CERT: /there/is/none cannot be read";
    ensure!(code == Some(64) && said.contains(named), "{code:?} {said}");
    Ok(())
}

#[tokio::test]
async fn without_authentication_everybody_on_this_machine_is_the_operator() -> Result<()> {
    let hostd = Hostd::start_with(&[("SLIPWAY_AUTH", "off")]).await?;
    let anybody = Caller::tcp(hostd.url(), None);
    anybody.create(&json!({})).await?;
    anybody.get("/v1/host").await?.expect::<Value>(200)?;
    Ok(())
}

#[tokio::test]
async fn a_second_hostd_on_the_same_data_is_refused_and_the_first_goes_on() -> Result<()> {
    let hostd = Hostd::start().await?;
    let data = hostd.data().display().to_string();
    let (code, said) = ends(&[("SLIPWAY_DATA_DIR", &data)], &[]).await?;
    ensure!(code == Some(64) && said.contains("SLIPWAY_DATA_DIR"), "{code:?} {said}");
    hostd.operator()?.create(&json!({})).await?;
    Ok(())
}

#[tokio::test]
async fn hostd_says_that_it_must_be_root() -> Result<()> {
    let dir = directory()?;
    let data = dir.path().join("data").display().to_string();
    let user = ["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups", "--"];
    let (code, said) = ends(&[("SLIPWAY_DATA_DIR", &data)], &user).await?;
    ensure!(code == Some(64) && said.contains("root"), "{code:?} {said}");
    Ok(())
}

#[tokio::test]
async fn sandboxes_outlive_a_hostd_that_is_told_to_stop() -> Result<()> {
    let mut hostd = Hostd::start().await?;
    let id = hostd.operator()?.create(&json!({})).await?;
    let init = hostd.init(&id)?;
    nix::sys::signal::kill(hostd.pid()?, nix::sys::signal::Signal::SIGTERM)?;
    let status = hostd.ended().await?;
    ensure!(status.success(), "{status}: {}", hostd.said());
    hostd.crash().await?;
    ensure!(hostd.init(&id)? == init && hostd.operator()?.sandbox(&id).await?["attempt"] == 1);
    ensure!(hostd.operator()?.prints(&id, "echo on").await? == "on\n");
    Ok(())
}
