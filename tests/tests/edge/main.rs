//! Previews: the edge, real dev servers, real proxies and a real browser.

mod api_browser;
mod api_proxies;
mod edge;
mod edge_load;
mod error_pages;
mod preview_access;
mod preview_browser;
mod preview_links;
mod preview_servers;
mod preview_wake;
mod proxies;
