use super::*;
use protocol::PieceHead;
use tokio::{
    io::{AsyncWriteExt as _, DuplexStream, duplex},
    time::Instant,
};

const BUFFER_BYTES: usize = 1 << 20;

async fn pair() -> (WebSocketStream<DuplexStream>, WebSocketStream<DuplexStream>) {
    let (server, client) = duplex(BUFFER_BYTES);
    (accept(server).await, WebSocketStream::from_raw_socket(client, Role::Client, None).await)
}

#[tokio::test(start_paused = true)]
async fn what_is_said_is_understood_or_refused() {
    let strange = |heard: &Heard| matches!(heard, Heard::End(Ended::Strange(_)));
    let (mut server, mut client) = pair().await;
    for (message, expected) in [
        (Message::binary("ls\n"), Some(Heard::Typed(Bytes::from_static(b"ls\n")))),
        (
            Message::text(r#"{"resize":{"cols":91,"rows":17}}"#),
            Some(Heard::Resize(TtySize { cols: 91, rows: 17 })),
        ),
        (Message::text("{}"), None),
        (Message::text(r#"{"resize":{"cols":-1,"rows":17}}"#), None),
        (Message::text(r#"{"resize":{"cols":1,"rows":17,"x":1}}"#), None),
    ] {
        client.send(message.clone()).await.unwrap();
        let heard = hear(&mut server).await;
        match expected {
            Some(expected) => assert_eq!(heard, expected),
            None => assert!(strange(&heard), "{message:?}: {heard:?}"),
        }
    }
    client.send(Message::binary(vec![0; VIEWER_MESSAGE_MAX_BYTES + 1])).await.unwrap();
    assert_eq!(hear(&mut server).await, Heard::End(Ended::TooLarge));
}

#[tokio::test(start_paused = true)]
async fn one_who_answers_pings_stays_and_a_silent_one_does_not() {
    let (mut server, mut client) = pair().await;
    let answers = async {
        for _ in 0..4 {
            tokio::time::sleep(Duration::from_millis(limits::VIEWER_PING_MS)).await;
            client.send(Message::Pong(Bytes::new())).await.unwrap();
        }
        std::future::pending::<()>().await;
    };
    let started = Instant::now();
    let heard = tokio::select! {
        heard = hear(&mut server) => heard,
        () = answers => unreachable!(),
    };
    assert_eq!(heard, Heard::End(Ended::Silent));
    let expected = 4 * limits::VIEWER_PING_MS + limits::VIEWER_SILENT_MAX_MS;
    assert_eq!(started.elapsed().as_millis() / 100, u128::from(expected / 100));
}

#[tokio::test(start_paused = true)]
async fn positions_are_told_where_they_jump_and_pings_come_in_between() {
    let (mut server, mut client) = pair().await;
    let (mut runtimed, inside) = duplex(BUFFER_BYTES);
    let shown = tokio::spawn(async move { show(Pieces::new(inside), &mut server).await });
    for (at, text) in [(5, "abc"), (8, "de"), (100, "f")] {
        runtimed.write_all(&PieceHead { at, length: text.len() as u32 }.to_bytes()).await.unwrap();
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
    assert_eq!(shown.await.unwrap(), Ended::Shown);
}

#[tokio::test]
async fn one_who_leaves_is_let_go_in_order() {
    let (mut server, mut client) = pair().await;
    client.close(None).await.unwrap();
    assert_eq!(hear(&mut server).await, Heard::End(Ended::Left));
    let parting = async { part(server, &Ended::Left).await };
    let heard = async { assert!(client.next().await.unwrap().unwrap().is_close()) };
    tokio::join!(parting, heard);
}

#[tokio::test]
async fn a_farewell_has_a_code_and_a_reason_that_fits() {
    for (ended, code) in [
        (Ended::Shown, CloseCode::Normal),
        (Ended::ShuttingDown, CloseCode::Away),
        (Ended::Strange("ä".repeat(200)), CloseCode::Policy),
    ] {
        let (server, mut client) = pair().await;
        let parting = async { part(server, &ended).await };
        let heard = async {
            let Message::Close(Some(frame)) = client.next().await.unwrap().unwrap() else {
                panic!("no close")
            };
            assert_eq!(frame.code, code);
            assert!(frame.reason.len() <= REASON_MAX_BYTES);
            while client.next().await.is_some() {}
        };
        tokio::join!(parting, heard);
    }
}
