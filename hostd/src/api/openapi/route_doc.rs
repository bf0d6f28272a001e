//! What the OpenAPI document says about one route, and how types get into it.

use protocol::api::Page;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{Ref, RefOr, Schema},
};

/// The schemas of all types that were mentioned, by name.
pub type Schemas = Vec<(String, RefOr<Schema>)>;
/// Mentions a type: adds what it is made of, and gives the reference to it.
pub type SchemaFn = fn(&mut Schemas) -> RefOr<Schema>;

#[derive(Default)]
pub struct RouteDoc {
    /// What generated clients call it: `createSandbox`.
    pub id: &'static str,
    pub summary: &'static str,
    pub request: Option<SchemaFn>,
    pub responses: Vec<ResponseDoc>,
}

/// One answer. A status may have several, each with a media type of its own.
pub struct ResponseDoc {
    pub status: u16,
    /// Empty where there is no body.
    pub kind: &'static str,
    /// The type where the answer is JSON.
    pub schema_fn: Option<SchemaFn>,
}

pub fn schema_of<T: ToSchema>(schemas: &mut Schemas) -> RefOr<Schema> {
    T::schemas(schemas);
    let name = T::name().into_owned();
    schemas.push((name.clone(), <T as PartialSchema>::schema()));
    RefOr::Ref(Ref::from_schema_name(name))
}

/// Each kind of list by a name of its own: to the generator all of them are `Page`, and would be taken for one.
pub fn page_of<T: ToSchema>(schemas: &mut Schemas) -> RefOr<Schema> {
    schema_of::<T>(schemas);
    Page::<T>::schemas(schemas);
    let name = format!("{}Page", T::name());
    schemas.push((name.clone(), <Page<T> as PartialSchema>::schema()));
    RefOr::Ref(Ref::from_schema_name(name))
}
