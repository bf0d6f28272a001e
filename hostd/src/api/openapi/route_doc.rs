//! Documentation of one route, and the schemas of the types it refers to.

use protocol::api::Page;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{Ref, RefOr, Schema},
};

/// The schemas of all referenced types, by name.
pub type Schemas = Vec<(String, RefOr<Schema>)>;
/// Adds the schemas of a type, and returns the reference to it.
pub type SchemaFn = fn(&mut Schemas) -> RefOr<Schema>;

#[derive(Default)]
pub struct RouteDoc {
    /// The operation id, which names the method of generated clients: `createSandbox`.
    pub id: &'static str,
    pub summary: &'static str,
    pub request: Option<SchemaFn>,
    pub responses: Vec<ResponseDoc>,
}

/// A response. A status may have several, each with a media type of its own.
pub struct ResponseDoc {
    pub status: u16,
    /// The media type; empty where there is no body.
    pub kind: &'static str,
    /// The type of a JSON response.
    pub schema_fn: Option<SchemaFn>,
    /// The name of the schema of each message of a stream.
    pub item: Option<&'static str>,
}

pub fn schema_of<T: ToSchema>(schemas: &mut Schemas) -> RefOr<Schema> {
    T::schemas(schemas);
    let name = T::name().into_owned();
    schemas.push((name.clone(), <T as PartialSchema>::schema()));
    RefOr::Ref(Ref::from_schema_name(name))
}

/// Names each page type after its items: the schema generator calls all of them `Page` and would merge them.
pub fn page_of<T: ToSchema>(schemas: &mut Schemas) -> RefOr<Schema> {
    schema_of::<T>(schemas);
    Page::<T>::schemas(schemas);
    let name = format!("{}Page", T::name());
    schemas.push((name.clone(), <Page<T> as PartialSchema>::schema()));
    RefOr::Ref(Ref::from_schema_name(name))
}
