use super::*;
use proptest::prelude::*;

/// Kind, text, and whether the line continues.
fn events(facts: &[TaskFact]) -> Vec<(TextKind, String, bool)> {
    let of = |fact: &TaskFact| {
        let kind = if matches!(fact, TaskFact::Message(_)) { TextKind::Message } else { TextKind::Thought };
        let (TaskFact::Message(text) | TaskFact::Thought(text)) = fact else { panic!("{fact:?}") };
        (kind, text.text.clone(), text.partial)
    };
    facts.iter().map(of).collect()
}

fn line(text: &str) -> (TextKind, String, bool) {
    (TextKind::Message, text.to_owned(), false)
}

fn piece(text: &str) -> (TextKind, String, bool) {
    (TextKind::Message, text.to_owned(), true)
}

fn thought(text: &str) -> (TextKind, String, bool) {
    (TextKind::Thought, text.to_owned(), false)
}

#[test]
fn lines_are_emitted_as_they_end() {
    let mut joiner = LineJoiner::new();
    assert_eq!(events(&joiner.push(TextKind::Message, "Hel", 0)), []);
    assert_eq!(events(&joiner.push(TextKind::Message, "lo\n\nwor", 10)), [line("Hello"), line("")]);
    assert_eq!(joiner.next_wake(), Some(110));
    assert_eq!(events(&joiner.tick(109)), []);
    assert_eq!(events(&joiner.tick(110)), [piece("wor")]);
    assert_eq!(joiner.next_wake(), None);
    assert_eq!(events(&joiner.push(TextKind::Message, "ld", 200)), []);
    assert_eq!(events(&joiner.flush()), [line("ld")]);
    assert_eq!(events(&joiner.flush()), []);
}

#[test]
fn a_line_emitted_in_pieces_is_ended_even_where_nothing_is_left() {
    let mut joiner = LineJoiner::new();
    joiner.push(TextKind::Message, "half", 0);
    assert_eq!(events(&joiner.tick(100)), [piece("half")]);
    assert_eq!(events(&joiner.flush()), [line("")]);
}

#[test]
fn another_kind_of_text_ends_a_line() {
    let mut joiner = LineJoiner::new();
    joiner.push(TextKind::Thought, "hm", 0);
    assert_eq!(events(&joiner.push(TextKind::Message, "so", 0)), [thought("hm")]);
    assert_eq!(events(&joiner.push(TextKind::Thought, "well\n", 0)), [line("so"), thought("well")]);
    assert_eq!(events(&joiner.flush()), []);
}

#[test]
fn a_long_line_comes_in_pieces_that_fit() {
    let mut joiner = LineJoiner::new();
    let facts = events(&joiner.push(TextKind::Message, &"é".repeat(TASK_LINE_MAX_BYTES), 0));
    assert_eq!(facts.len(), 2);
    assert!(facts.iter().all(|(_, text, partial)| *partial && text.len() <= TASK_LINE_MAX_BYTES));
    assert_eq!(
        events(&joiner.push(TextKind::Message, &"x".repeat(PIECE_BYTES), 0)).len(),
        1,
        "not held back"
    );
    assert_eq!(events(&joiner.push(TextKind::Message, "x", 0)).len(), 0);
}

#[test]
fn the_final_message_is_the_last_one_that_is_not_blank() {
    for (said, last) in [
        (vec!["a", "b"], Some("ab")),
        (vec!["first", "|", "second\nline"], Some("second\nline")),
        (vec!["first", "|", " \n"], Some("first")),
        (vec!["first", "_", "second"], Some("first\nsecond")),
        (vec!["first\n", "_", "second"], Some("first\nsecond")),
        (vec!["first", "~", "second"], Some("first\nsecond")),
        (vec!["first", "|", "~"], Some("first")),
        (vec!["~"], None),
        (vec![], None),
    ] {
        let mut joiner = LineJoiner::new();
        for text in &said {
            match *text {
                "|" => joiner.flush(),
                "_" => joiner.pause(),
                "~" => joiner.push(TextKind::Thought, "hm", 0),
                text => joiner.push(TextKind::Message, text, 0),
            };
        }
        joiner.flush();
        assert_eq!(joiner.final_message().as_deref(), last, "{said:?}");
    }
}

#[test]
fn of_a_long_final_message_the_end_is_kept() {
    let mut joiner = LineJoiner::new();
    for _ in 0..FINAL_MESSAGE_MAX_BYTES {
        joiner.push(TextKind::Message, "éé\n", 0);
        assert!(joiner.last_message.text.len() <= 2 * FINAL_MESSAGE_MAX_BYTES);
    }
    joiner.push(TextKind::Message, "end", 0);
    let last = joiner.final_message().expect("there is one");
    assert!(last.ends_with("éé\nend"));
    assert!((FINAL_MESSAGE_MAX_BYTES - 4..=FINAL_MESSAGE_MAX_BYTES).contains(&last.len()));
}

#[derive(Debug, Clone)]
enum Step {
    Push(bool, String),
    Wait(u64),
    Flush,
}

fn step() -> impl Strategy<Value = Step> {
    let text = prop_oneof![
        8 => "[a-zé🦀\n]{0,12}",
        1 => (PIECE_BYTES - 3..PIECE_BYTES + 3).prop_map(|length| "ü".repeat(length)),
        1 => (TASK_LINE_MAX_BYTES - 3..TASK_LINE_MAX_BYTES + 3).prop_map(|length| "x".repeat(length)),
    ];
    prop_oneof![
        6 => (any::<bool>(), text).prop_map(|(thought, text)| Step::Push(thought, text)),
        2 => (0u64..150).prop_map(Step::Wait),
        1 => Just(Step::Flush),
    ]
}

/// The expected lines, as if all text arrived at once.
fn expected(steps: &[Step]) -> Vec<(TextKind, String)> {
    let mut lines: Vec<(TextKind, String)> = Vec::new();
    let mut open = false;
    for step in steps {
        match step {
            Step::Wait(_) => {}
            Step::Flush => open = false,
            Step::Push(thought, text) => {
                let kind = if *thought { TextKind::Thought } else { TextKind::Message };
                for piece in text.split_inclusive('\n') {
                    if !open || lines.last().is_none_or(|(last, _)| *last != kind) {
                        lines.push((kind, String::new()));
                    }
                    let line = &mut lines.last_mut().expect("one was pushed").1;
                    line.push_str(piece.strip_suffix('\n').unwrap_or(piece));
                    open = !piece.ends_with('\n');
                }
            }
        }
    }
    lines
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn no_character_is_lost_doubled_or_moved(steps in prop::collection::vec(step(), 0..40)) {
        let mut joiner = LineJoiner::new();
        let (mut facts, mut now) = (Vec::new(), 0);
        for step in &steps {
            match step {
                Step::Push(thought, text) => {
                    let kind = if *thought { TextKind::Thought } else { TextKind::Message };
                    facts.extend(joiner.push(kind, text, now));
                }
                Step::Wait(ms) => {
                    now += ms;
                    facts.extend(joiner.tick(now));
                }
                Step::Flush => facts.extend(joiner.flush()),
            }
            prop_assert!(joiner.next_wake().is_none_or(|at| at > now || at + 150 > now));
            prop_assert!(joiner.open.len() < PIECE_BYTES);
        }
        facts.extend(joiner.flush());
        let (mut lines, mut line) = (Vec::new(), String::new());
        for (kind, text, partial) in events(&facts) {
            prop_assert!(text.len() <= TASK_LINE_MAX_BYTES);
            line.push_str(&text);
            if !partial {
                lines.push((kind, std::mem::take(&mut line)));
            }
        }
        prop_assert_eq!(lines, expected(&steps));
    }
}
