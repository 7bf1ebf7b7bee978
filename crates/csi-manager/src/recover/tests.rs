use super::*;

fn hash(byte: u8) -> LaunchHash {
    LaunchHash::from([byte; 32])
}

fn facts(listed: Listed, held: Held, wanted: Option<LaunchHash>) -> Facts {
    Facts {
        listed,
        held,
        wanted,
        environment: None,
        mounted: false,
    }
}

#[test]
fn every_combination_of_facts_has_its_row() {
    let (today, other) = (hash(1), hash(2));
    let held = [
        Held::Missing,
        Held::Empty,
        Held::Damaged,
        Held::Hash(today),
        Held::Hash(other),
    ];
    for wanted in [None, Some(today)] {
        for held in held {
            // Rows 13 and 12.
            assert_eq!(
                decide(&facts(Listed::No, held, wanted)),
                Verdict::CleanFiles
            );
            assert_eq!(
                decide(&facts(Listed::WithoutPid, held, wanted)),
                Verdict::AwaitEnd
            );
            let running = decide(&facts(Listed::Running, held, wanted));
            if held == Held::Hash(today) && wanted.is_some() {
                // Row 7.
                assert_eq!(running, Verdict::Keep);
            } else {
                // Rows 6, 8, 9, 10, 11.
                assert!(
                    matches!(running, Verdict::Stop(_)),
                    "{held:?} {wanted:?}: {running:?}"
                );
            }
        }
    }
}

#[test]
fn without_a_directory_only_an_id_of_today_is_touched() {
    let today = hash(1);
    for listed in [Listed::WithoutPid, Listed::Running] {
        let stray = decide(&facts(listed, Held::NoDirectory, None));
        assert!(matches!(stray, Verdict::Stray(_)), "{stray:?}");
    }
    let mut found = facts(Listed::Running, Held::NoDirectory, Some(today));
    assert!(matches!(decide(&found), Verdict::Stop(_)));
    found.environment = Some(hash(2));
    assert!(matches!(decide(&found), Verdict::Stop(_)));
    found.environment = Some(today);
    assert_eq!(decide(&found), Verdict::Adopt);
    let ending = facts(Listed::WithoutPid, Held::NoDirectory, Some(today));
    assert_eq!(decide(&ending), Verdict::AwaitEnd);
}

#[test]
fn nothing_is_stopped_while_something_is_mounted() {
    let today = hash(1);
    for held in [
        Held::Missing,
        Held::Empty,
        Held::Damaged,
        Held::Hash(hash(2)),
        Held::NoDirectory,
    ] {
        let mut found = facts(Listed::Running, held, Some(today));
        found.mounted = true;
        assert!(matches!(decide(&found), Verdict::StopLater(_)), "{held:?}");
    }
    let mut kept = facts(Listed::Running, Held::Hash(today), Some(today));
    kept.mounted = true;
    assert_eq!(decide(&kept), Verdict::Keep);
}

#[test]
fn a_container_whose_record_is_lost_is_adopted_when_it_tells_that_it_is_todays() {
    let today = hash(1);
    for held in [Held::Missing, Held::Empty, Held::Damaged] {
        for (environment, wanted, adopted) in [
            (Some(today), Some(today), true),
            (Some(hash(2)), Some(today), false),
            (Some(today), None, false),
        ] {
            let mut found = facts(Listed::Running, held, wanted);
            found.environment = environment;
            let verdict = decide(&found);
            assert_eq!(verdict == Verdict::Adopt, adopted, "{held:?}: {verdict:?}");
        }
    }
    // A record that can be read is believed.
    let mut other = facts(Listed::Running, Held::Hash(hash(2)), Some(today));
    other.environment = Some(today);
    assert!(matches!(decide(&other), Verdict::Stop(_)));
}
