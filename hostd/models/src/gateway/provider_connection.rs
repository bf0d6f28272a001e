//! A connection to a provider, with TLS or without.

use super::{base_url::Origin, limits::HEAD_MAX_BYTES};
use bytes::Bytes;
use hostd_net::{
    http1::{ExchangeError, Http1Connection},
    outbound::{OutboundConnector, OutboundError},
};
use http_body_util::Full;
use hyper::client::conn::http1::Builder;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;

pub type ProviderStream = Either<TcpStream, TlsStream<TcpStream>>;
/// Requests are in memory whole, so nothing waits for the write window.
pub type ProviderConnection = Http1Connection<ProviderStream, Full<Bytes>>;

#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    #[error(transparent)]
    OutboundConnector(#[from] OutboundError),
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
}

pub async fn open(
    connector: &OutboundConnector,
    origin: &Origin,
) -> Result<ProviderConnection, ConnectionError> {
    let stream = connector.connect(&origin.host, origin.port, |_| true).await?;
    let stream = if origin.secure {
        Either::Right(connector.connect_tls(&origin.host, stream).await?)
    } else {
        Either::Left(stream)
    };
    let opened = Http1Connection::handshake(stream, Builder::new().max_header_size(HEAD_MAX_BYTES)).await;
    Ok(opened.map_err(ExchangeError::from)?)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{connection_pool::ProviderConnectionPool, provider_client::ProviderBody},
        *,
    };
    use hostd_net::{
        http1::two_piece_server::{self, BODY, check_kept_is_no_slower},
        outbound::DnsResolver,
    };
    use hyper::Request;

    #[tokio::test]
    async fn a_response_in_two_pieces_takes_no_longer_on_a_kept_connection() {
        let server = two_piece_server::start().await.expect("a server");
        let connector = OutboundConnector::with_resolver(DnsResolver::fixed(|_| Vec::new()));
        let origin = Origin { secure: false, host: server.ip().to_string(), port: server.port() };
        check_kept_is_no_slower(async |kept: Option<Box<ProviderConnection>>| {
            let mut connection = match kept {
                Some(connection) => connection,
                None => Box::new(open(&connector, &origin).await.expect("a connection")),
            };
            let request = Request::get("/").header("host", "provider").body(Full::default());
            let response = connection.send(request.expect("a request")).await.expect("a response");
            let pool = ProviderConnectionPool::default();
            let mut body = ProviderBody::new(response.into_body(), connection, origin.clone(), pool.clone());
            assert_eq!(body.collect(BODY.len()).await.as_deref(), Some(BODY.as_bytes()));
            pool.take(&origin).expect("the connection was returned")
        })
        .await;
    }
}
