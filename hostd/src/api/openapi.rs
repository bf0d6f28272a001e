//! The OpenAPI document, written from the table of routes and the types: it cannot name a route that is
//! not there, or leave one out.

use super::{
    doc::{Schemas, schema_of},
    older::OlderError,
    route::{Needs, Repeats, Route, Takes},
    routes,
};
use hyper::Method;
use protocol::api::ApiErrorBody;
use utoipa::openapi::{
    Components, ContentBuilder, HttpMethod, Info, OpenApi, OpenApiBuilder, PathItem, Paths, RefOr, Required,
    ResponseBuilder, Schema, SecurityRequirement,
    path::{Operation, OperationBuilder, Parameter, ParameterBuilder, ParameterIn},
    request_body::RequestBodyBuilder,
    schema::{Object, ObjectBuilder, Type},
    security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
};

const BEARER: &str = "bearer";

/// The document as it is committed: indented, with a newline at its end.
pub fn openapi_json() -> String {
    let json = document().to_pretty_json().unwrap_or_default();
    format!("{json}\n")
}

fn document() -> OpenApi {
    let mut schemas = Schemas::new();
    let error = schema_of::<ApiErrorBody>(&mut schemas);
    let mut paths = Paths::new();
    for route in routes::all() {
        let operation = operation(&route, &error, &mut schemas);
        let item = PathItem::new(method(&route.method), operation);
        let known = paths.paths.get_mut(route.path);
        match known {
            Some(known) => known.merge_operations(item),
            None => drop(paths.paths.insert(route.path.to_owned(), item)),
        }
    }
    let mut components = Components::new();
    components.schemas.extend(schemas);
    let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    components.add_security_scheme(BEARER, SecurityScheme::Http(scheme));
    let mut info = Info::new("Slipway", env!("CARGO_PKG_VERSION"));
    info.description = Some(
        "Sandboxes for coding agents and the apps they build. Every error is an ApiErrorBody; every answer has \
         x-request-id."
            .to_owned(),
    );
    OpenApiBuilder::new().info(info).paths(paths).components(Some(components)).build()
}

fn operation(route: &Route, error: &RefOr<Schema>, schemas: &mut Schemas) -> Operation {
    let mut operation = OperationBuilder::new()
        .summary(Some(route.doc.summary))
        .description(Some(format!("Needs {}.", route.needs.words())))
        .operation_id(Some(operation_id(route)))
        .tag(if route.older { "older" } else { tag(route.path) });
    for parameter in parameters(route) {
        operation = operation.parameter(parameter);
    }
    if let Some(body) = body(route, schemas) {
        operation = operation.request_body(Some(body));
    }
    for (status, kind, mention) in &route.doc.answers {
        let mut response = ResponseBuilder::new().description(words(*status));
        if let Some(mention) = mention {
            response = response.content(*kind, ContentBuilder::new().schema(Some(mention(schemas))).build());
        } else if !kind.is_empty() {
            response = response.content(*kind, ContentBuilder::new().schema(Some(text())).build());
        }
        operation = operation.response(status.to_string(), response.build());
    }
    let error = if route.older { schema_of::<OlderError>(schemas) } else { error.clone() };
    let refusal = ContentBuilder::new().schema(Some(error)).build();
    let refusal =
        ResponseBuilder::new().description("Refused or failed").content("application/json", refusal);
    operation = operation.response("default", refusal.build());
    if route.needs != Needs::Nothing {
        operation = operation.security(SecurityRequirement::new::<_, [&str; 0], _>(BEARER, []));
    }
    operation.build()
}

fn body(route: &Route, schemas: &mut Schemas) -> Option<utoipa::openapi::request_body::RequestBody> {
    let (kind, schema) = match (route.takes, route.doc.request) {
        (Takes::Nothing, _) | (Takes::Json, None) => return None,
        (Takes::Json, Some(mention)) => ("application/json", mention(schemas)),
        (Takes::Stream, _) => ("application/octet-stream", text().into()),
    };
    let content = ContentBuilder::new().schema(Some(schema)).build();
    Some(RequestBodyBuilder::new().content(kind, content).build())
}

fn parameters(route: &Route) -> Vec<Parameter> {
    let named = |name: &str, place, description: &str| {
        let required = if place == ParameterIn::Path { Required::True } else { Required::False };
        let description = Some(description).filter(|text| !text.is_empty());
        ParameterBuilder::new()
            .name(name)
            .parameter_in(place)
            .required(required)
            .description(description)
            .schema(Some(text()))
            .build()
    };
    let in_path = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let mut all: Vec<Parameter> = in_path.map(|name| named(name, ParameterIn::Path, "")).collect();
    all.extend(route.query.iter().map(|(name, text)| named(name, ParameterIn::Query, text)));
    if route.repeats == Repeats::ByKey {
        let text = "The same key with the same body does this once and gets the same answer, for a day";
        all.push(named("Idempotency-Key", ParameterIn::Header, text));
    }
    all
}

fn text() -> Object {
    ObjectBuilder::new().schema_type(Type::String).build()
}

/// `POST /v1/sandboxes/{id}/start` is `post_sandboxes_id_start`; `GET /sandboxes` is `older_get_sandboxes`.
fn operation_id(route: &Route) -> String {
    let path = route.path.trim_start_matches("/v1").replace(['{', '}'], "").replace('.', "_");
    let older = if route.older { "older_" } else { "" };
    format!("{older}{}{}", route.method.as_str().to_ascii_lowercase(), path.replace('/', "_"))
}

/// The last plural of a path names its resource.
fn tag(path: &'static str) -> &'static str {
    let mut parts = path.trim_start_matches("/v1").split('/').filter(|part| !part.is_empty());
    let first = parts.next().unwrap_or("host");
    match path.split('/').nth(4) {
        Some(part @ ("execs" | "services" | "terminals" | "events" | "preview-links")) => part,
        _ => first,
    }
}

fn words(status: u16) -> &'static str {
    match status {
        101 => "The connection is a byte stream now",
        201 => "Made",
        202 => "It goes on; ask again",
        204 => "Done",
        _ => "As asked for",
    }
}

fn method(method: &Method) -> HttpMethod {
    match *method {
        Method::POST => HttpMethod::Post,
        Method::PUT => HttpMethod::Put,
        Method::PATCH => HttpMethod::Patch,
        Method::DELETE => HttpMethod::Delete,
        _ => HttpMethod::Get,
    }
}
