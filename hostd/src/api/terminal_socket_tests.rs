use super::*;
use protocol::TerminalFrameHeader;
use tokio::{
    io::{AsyncWriteExt as _, DuplexStream, duplex},
    time::Instant,
};
use tokio_tungstenite::tungstenite::protocol::Role;

const BUFFER_BYTES: usize = 1 << 20;

async fn pair() -> (WebSocketStream<DuplexStream>, WebSocketStream<DuplexStream>) {
    let (server, client) = duplex(BUFFER_BYTES);
    (accept(server).await, WebSocketStream::from_raw_socket(client, Role::Client, None).await)
}

#[tokio::test(start_paused = true)]
async fn messages_are_parsed_or_rejected() {
    let invalid = |input: &ViewerInput| matches!(input, ViewerInput::Closed(SocketEnd::InvalidMessage(_)));
    let (mut server, mut client) = pair().await;
    for (message, expected) in [
        (Message::binary("ls\n"), Some(ViewerInput::Keys(Bytes::from_static(b"ls\n")))),
        (
            Message::text(r#"{"resize":{"cols":91,"rows":17}}"#),
            Some(ViewerInput::Resize(TtySize { cols: 91, rows: 17 })),
        ),
        (Message::text("{}"), None),
        (Message::text(r#"{"resize":{"cols":-1,"rows":17}}"#), None),
        (Message::text(r#"{"resize":{"cols":1,"rows":17,"x":1}}"#), None),
    ] {
        client.send(message.clone()).await.unwrap();
        let input = next_input(&mut server).await;
        match expected {
            Some(expected) => assert_eq!(input, expected),
            None => assert!(invalid(&input), "{message:?}: {input:?}"),
        }
    }
    client.send(Message::binary(vec![0; VIEWER_MESSAGE_MAX_BYTES + 1])).await.unwrap();
    assert_eq!(next_input(&mut server).await, ViewerInput::Closed(SocketEnd::MessageTooLarge));
}

#[tokio::test(start_paused = true)]
async fn a_viewer_that_answers_pings_stays_and_a_silent_one_is_disconnected() {
    let (mut server, mut client) = pair().await;
    let answers = async {
        for _ in 0..4 {
            tokio::time::sleep(Duration::from_millis(limits::WEBSOCKET_PING_MS)).await;
            client.send(Message::Pong(Bytes::new())).await.unwrap();
        }
        std::future::pending::<()>().await;
    };
    let started = Instant::now();
    let input = tokio::select! {
        input = next_input(&mut server) => input,
        () = answers => unreachable!(),
    };
    assert_eq!(input, ViewerInput::Closed(SocketEnd::Silent));
    let expected = 4 * limits::WEBSOCKET_PING_MS + limits::WEBSOCKET_SILENT_MAX_MS;
    assert_eq!(started.elapsed().as_millis() / 100, u128::from(expected / 100));
}

#[tokio::test(start_paused = true)]
async fn positions_are_sent_where_they_jump_and_pings_come_in_between() {
    let (mut server, mut client) = pair().await;
    let (mut runtimed, inside) = duplex(BUFFER_BYTES);
    let shown = tokio::spawn(async move { send_frames(TerminalFrames::new(inside), &mut server).await });
    for (at, text) in [(5, "abc"), (8, "de"), (100, "f")] {
        runtimed.write_all(&TerminalFrameHeader { at, length: text.len() as u32 }.to_bytes()).await.unwrap();
        runtimed.write_all(text.as_bytes()).await.unwrap();
    }
    let position = |at: u64| Message::text(format!("{{\"position\":{at}}}"));
    let mut pings = 0;
    for expected in
        [position(5), Message::binary("abc"), Message::binary("de"), position(100), Message::binary("f")]
    {
        let mut message = client.next().await.unwrap().unwrap();
        while message.is_ping() {
            message = client.next().await.unwrap().unwrap();
        }
        assert_eq!(message, expected);
    }
    while pings < 3 {
        assert!(client.next().await.unwrap().unwrap().is_ping());
        pings += 1;
    }
    drop(runtimed);
    assert_eq!(shown.await.unwrap(), SocketEnd::OutputEnded);
}

#[tokio::test]
async fn a_close_frame_is_answered() {
    let (mut server, mut client) = pair().await;
    client.close(None).await.unwrap();
    assert_eq!(next_input(&mut server).await, ViewerInput::Closed(SocketEnd::Disconnected));
    let closing = async { close(server, &SocketEnd::Disconnected).await };
    let input = async { assert!(client.next().await.unwrap().unwrap().is_close()) };
    tokio::join!(closing, input);
}

#[tokio::test]
async fn a_close_frame_has_a_code_and_a_reason_that_fits() {
    for (ended, code) in [
        (SocketEnd::OutputEnded, CloseCode::Normal),
        (SocketEnd::ShuttingDown, CloseCode::Away),
        (SocketEnd::InvalidMessage("ä".repeat(200)), CloseCode::Policy),
    ] {
        let (server, mut client) = pair().await;
        let closing = async { close(server, &ended).await };
        let input = async {
            let Message::Close(Some(frame)) = client.next().await.unwrap().unwrap() else {
                panic!("no close")
            };
            assert_eq!(frame.code, code);
            assert!(frame.reason.len() <= websocket::REASON_MAX_BYTES);
            while client.next().await.is_some() {}
        };
        tokio::join!(closing, input);
    }
}
