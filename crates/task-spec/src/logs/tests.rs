use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::*;

const LARGE: Rotation = Rotation {
    max_bytes: 1 << 20,
    keep: 2,
};

/// One message of an engine's log.
#[derive(Clone, Debug)]
struct Message {
    source: LogSource,
    second: u32,
    text: String,
}

fn message(source: LogSource, second: u32, text: &str) -> Message {
    Message {
        source,
        second,
        text: text.to_owned(),
    }
}

fn out(second: u32, text: &str) -> Message {
    message(LogSource::Stdout, second, text)
}

fn err(second: u32, text: &str) -> Message {
    message(LogSource::Stderr, second, text)
}

fn stamp(second: u32) -> String {
    format!(
        "2026-11-30T18:{:02}:{:02}.000000000Z",
        second / 60,
        second % 60
    )
}

fn time(second: u32) -> EngineTime {
    EngineTime::parse(&stamp(second)).unwrap()
}

fn frame(message: &Message) -> LogFrame {
    LogFrame {
        source: message.source,
        data: format!("{} {}", stamp(message.second), message.text).into(),
        continues: false,
    }
}

fn open(dir: &Path, position: &LogPosition, rotation: Rotation) -> LogCapture {
    let handle = longshore_sandbox::dirs::open(dir).unwrap();
    LogCapture::open(&handle, None, rotation, position).unwrap()
}

/// What an engine that has kept these messages sends for these options.
fn play(capture: &mut LogCapture, log: &[Message]) -> Vec<Gap> {
    let since = capture.options().since;
    capture.reopened().unwrap();
    let mut gaps = Vec::new();
    for message in log {
        if since.is_none_or(|since| time(message.second) >= since) {
            gaps.extend(capture.take(&frame(message)));
        }
    }
    gaps
}

fn read(dir: &Path, name: &str) -> String {
    fs::read_to_string(dir.join(name)).unwrap_or_default()
}

#[test]
fn dx8_the_streams_are_separate_and_without_times() {
    let dir = tempfile::tempdir().unwrap();
    let mut capture = open(dir.path(), &LogPosition::default(), LARGE);
    let gaps = play(
        &mut capture,
        &[out(1, "out\n"), err(1, "err\n"), out(2, "more\n")],
    );
    assert_eq!(gaps, []);
    assert_eq!(read(dir.path(), "stdout"), "out\nmore\n");
    assert_eq!(read(dir.path(), "stderr"), "err\n");
}

#[test]
fn a_stream_that_broke_off_goes_on_without_loss_or_doubling() {
    let dir = tempfile::tempdir().unwrap();
    let log = [
        out(1, "a"),
        out(1, "b"),
        err(1, "x"),
        out(1, "c"),
        out(2, "d"),
    ];
    for cut in 0..=log.len() {
        let dir = dir.path().join(cut.to_string());
        fs::create_dir(&dir).unwrap();
        let mut capture = open(&dir, &LogPosition::default(), LARGE);
        play(&mut capture, &log[..cut]);
        // Twice, the second time for nothing.
        for _ in 0..2 {
            assert_eq!(play(&mut capture, &log), [], "cut at {cut}");
        }
        assert_eq!(
            (read(&dir, "stdout"), read(&dir, "stderr")),
            ("abcd".to_owned(), "x".to_owned()),
            "{cut}"
        );
    }
}

#[test]
fn what_was_written_after_the_recorded_position_is_taken_back_and_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let log = [
        out(1, "a"),
        err(1, "x"),
        out(2, "b"),
        out(2, "c"),
        err(3, "y"),
        out(4, "d"),
    ];
    let mut capture = open(dir.path(), &LogPosition::default(), LARGE);
    play(&mut capture, &log[..3]);
    let position = capture.position();
    for message in &log[3..5] {
        assert_eq!(capture.take(&frame(message)), None);
    }
    drop(capture);
    let json = serde_json::to_string(&position).unwrap();
    let mut capture = open(dir.path(), &serde_json::from_str(&json).unwrap(), LARGE);
    assert_eq!(play(&mut capture, &log), []);
    assert_eq!(read(dir.path(), "stdout"), "abcd");
    assert_eq!(read(dir.path(), "stderr"), "xy");
}

#[test]
fn output_that_the_engine_threw_away_is_a_gap_told_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut capture = open(dir.path(), &LogPosition::default(), LARGE);
    play(&mut capture, &[out(1, "a")]);
    let gap = Gap {
        after: time(1),
        before: Some(time(30)),
    };
    assert_eq!(play(&mut capture, &[out(30, "z"), out(31, "!")]), [gap]);
    assert_eq!(read(dir.path(), "stdout"), "az!");
    assert_eq!(play(&mut capture, &[out(30, "z"), out(31, "!")]), []);
    capture.reopened().unwrap();
    let gone = Gap {
        after: time(31),
        before: None,
    };
    assert_eq!(capture.ended(), Some(gone), "nothing is left of it");
    assert_eq!(capture.ended(), None);
}

#[test]
fn a_message_in_pieces_is_written_or_passed_over_as_a_whole() {
    let dir = tempfile::tempdir().unwrap();
    let mut capture = open(dir.path(), &LogPosition::default(), LARGE);
    let piece = |text: &str| LogFrame {
        source: LogSource::Stdout,
        data: text.to_owned().into(),
        continues: true,
    };
    for _ in 0..2 {
        capture.reopened().unwrap();
        for piece in [
            frame(&out(1, "first,")),
            piece("2026-11-30T18:00:09Z second,"),
            piece("third\n"),
        ] {
            capture.take(&piece);
        }
    }
    assert_eq!(
        read(dir.path(), "stdout"),
        "first,2026-11-30T18:00:09Z second,third\n"
    );
}

#[test]
fn a_long_message_that_is_cut_off_is_taken_back_and_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut begin = frame(&out(2, ""));
    let padding = "b".repeat(MAX_FRAME - begin.data.len());
    begin.data = [&begin.data[..], padding.as_bytes()].concat().into();
    let end = LogFrame {
        source: LogSource::Stdout,
        data: "end".to_owned().into(),
        continues: true,
    };
    let expected = format!("a{padding}end");
    let mut capture = open(dir.path(), &LogPosition::default(), LARGE);
    capture.take(&frame(&out(1, "a")));
    capture.take(&begin);
    let position = capture.position();
    // The stream breaks off ..
    capture.reopened().unwrap();
    for piece in [&frame(&out(1, "a")), &begin, &end] {
        capture.take(piece);
    }
    assert_eq!(read(dir.path(), "stdout"), expected);
    // .. or we die.
    let mut capture = open(dir.path(), &position, LARGE);
    for piece in [&frame(&out(1, "a")), &begin, &end] {
        capture.take(piece);
    }
    assert_eq!(read(dir.path(), "stdout"), expected);
}

#[test]
fn output_without_times_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let mut capture = open(dir.path(), &LogPosition::default(), LARGE);
    let frame = LogFrame {
        source: LogSource::Stderr,
        data: "docker says no\n".to_owned().into(),
        continues: false,
    };
    assert_eq!(capture.take(&frame), None);
    assert_eq!(read(dir.path(), "stderr"), "docker says no\n");
}

#[test]
fn a_position_is_due_after_a_rotation_and_after_much_output() {
    let dir = tempfile::tempdir().unwrap();
    let small = Rotation {
        max_bytes: 10,
        keep: 2,
    };
    let mut capture = open(dir.path(), &LogPosition::default(), small);
    capture.take(&frame(&out(1, "123456")));
    assert!(!capture.is_due());
    capture.take(&frame(&out(2, "123456")));
    assert!(capture.is_due(), "rotated");
    capture.position();
    assert!(!capture.is_due());
    let mut capture = open(dir.path(), &LogPosition::default(), LARGE);
    let large = "x".repeat(60 << 10);
    let mut written = 0;
    while !capture.is_due() {
        capture.take(&frame(&err(written, &large)));
        written += 1;
        assert!(written < 1000);
    }
    assert!(written > 2);
}

#[test]
fn what_is_gathered_is_bounded_and_written_by_all_that_looks_at_the_files() {
    let dir = tempfile::tempdir().unwrap();
    let mut capture = open(dir.path(), &LogPosition::default(), LARGE);
    capture.gather(&frame(&out(1, "one")));
    assert!(capture.has_gathered());
    assert_eq!(read(dir.path(), "stdout"), "");
    capture.position();
    assert_eq!(read(dir.path(), "stdout"), "one");
    capture.gather(&frame(&out(2, "two")));
    capture.reopened().unwrap();
    assert_eq!(read(dir.path(), "stdout"), "onetwo");
    capture.gather(&frame(&err(3, "three")));
    assert_eq!(capture.ended(), None);
    assert_eq!(read(dir.path(), "stderr"), "three");
    let line = "x".repeat(1000);
    for second in 10..10 + 70 {
        capture.gather(&frame(&out(second, &line)));
    }
    let written = read(dir.path(), "stdout").len();
    assert!(written > GATHERED_MAX, "{written}");
    assert!(capture.has_gathered());
    capture.flush();
    assert!(!capture.has_gathered());
    assert_eq!(read(dir.path(), "stdout").len(), 6 + 70 * 1000);
}

#[derive(Clone, Debug)]
enum Op {
    /// So many more messages arrive at once.
    Arrive(u8),
    /// Nothing arrives for a while.
    Pause,
    /// The engine's stream breaks off.
    Break,
    Record,
    /// We die and begin again from the last record.
    Die,
}

proptest! {
    /// Whatever breaks and dies, each message is in its file once and in order.
    #[test]
    fn no_message_is_lost_or_doubled(
        seconds in prop::collection::vec((any::<bool>(), 0u32..2), 1..60),
        ops in prop::collection::vec(
            prop_oneof![4 => (1u8..9).prop_map(Op::Arrive), 2 => Just(Op::Pause), 1 => Just(Op::Break), 1 => Just(Op::Record), 1 => Just(Op::Die)],
            0..40,
        ),
        max_bytes in 8u64..200,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let rotation = Rotation { max_bytes, keep: 99 };
        let mut second = 0;
        let log: Vec<_> = seconds
            .iter()
            .enumerate()
            .map(|(number, (to_stdout, later))| {
                second += later;
                let source = if *to_stdout { LogSource::Stdout } else { LogSource::Stderr };
                message(source, second, &format!("<{number}>"))
            })
            .collect();
        let mut record = LogPosition::default();
        let mut capture = open(dir.path(), &record, rotation);
        // Before anything exists there is something to go back to.
        record = capture.position();
        let mut since = capture.options().since;
        let mut sent = 0;
        for op in ops.into_iter().chain([Op::Arrive(255), Op::Pause]) {
            match op {
                Op::Arrive(count) => {
                    for message in log.iter().skip(sent).take(count.into()) {
                        if since.is_none_or(|since| time(message.second) >= since) {
                            prop_assert_eq!(capture.gather(&frame(message)), None);
                            if capture.is_due() {
                                record = capture.position();
                            }
                        }
                        sent += 1;
                    }
                }
                Op::Pause => capture.flush(),
                Op::Break => {
                    since = capture.options().since;
                    capture.reopened().unwrap();
                    sent = 0;
                }
                Op::Record => record = capture.position(),
                Op::Die => {
                    capture = open(dir.path(), &record, rotation);
                    since = capture.options().since;
                    sent = 0;
                }
            }
        }
        for (source, name) in [(LogSource::Stdout, "stdout"), (LogSource::Stderr, "stderr")] {
            let expected: String = log.iter().filter(|it| it.source == source).map(|it| it.text.as_str()).collect();
            let mut found = String::new();
            for n in (1..=99).rev() {
                found.push_str(&read(dir.path(), &format!("{name}.{n}")));
            }
            found.push_str(&read(dir.path(), name));
            prop_assert_eq!(found, expected);
        }
    }
}
