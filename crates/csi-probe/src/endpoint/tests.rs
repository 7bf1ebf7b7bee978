use super::*;

#[test]
fn each_form_is_read() {
    let tcp = |host: &str, port| Endpoint::Tcp {
        host: host.into(),
        port,
    };
    for (text, want, shown) in [
        (
            "unix:///a/b.sock",
            Endpoint::Unix("/a/b.sock".into()),
            "unix:///a/b.sock",
        ),
        (
            "unix:/a/b.sock",
            Endpoint::Unix("/a/b.sock".into()),
            "unix:///a/b.sock",
        ),
        (
            "unix:b.sock",
            Endpoint::Unix("b.sock".into()),
            "unix:b.sock",
        ),
        (
            "/a/b.sock",
            Endpoint::Unix("/a/b.sock".into()),
            "unix:///a/b.sock",
        ),
        (
            "./b.sock",
            Endpoint::Unix("./b.sock".into()),
            "unix:./b.sock",
        ),
        ("b.sock", Endpoint::Unix("b.sock".into()), "unix:b.sock"),
        (
            "tcp://localhost:50051",
            tcp("localhost", 50051),
            "tcp://localhost:50051",
        ),
        ("tcp://10.0.0.1:1", tcp("10.0.0.1", 1), "tcp://10.0.0.1:1"),
        ("tcp://[::1]:80", tcp("::1", 80), "tcp://[::1]:80"),
    ] {
        let endpoint: Endpoint = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(endpoint, want, "{text}");
        assert_eq!(endpoint.to_string(), shown, "{text}");
        assert_eq!(shown.parse::<Endpoint>().unwrap(), want, "{text}");
    }
}

#[test]
fn what_is_wrong_is_said_with_a_form_that_would_do() {
    for (text, hint) in [
        ("unix://csi/csi.sock", Some("unix:///csi/csi.sock")),
        ("unix://csi.sock", Some("unix:///csi.sock")),
        ("UNIX:///a.sock", Some("unix:///a.sock")),
        ("file:///a.sock", Some("unix:///a.sock")),
        ("uds://a.sock", Some("unix:///a.sock")),
        ("http://host:80/", Some("tcp://host:80")),
        ("tcp:host:80", Some("tcp://host:80")),
        ("host:80", Some("tcp://host:80")),
        ("tcp://::1:80", Some("tcp://[::1]:80")),
        ("tcp://:80", Some("tcp://localhost:80")),
        ("/run/csi/", Some("/run/csi/csi.sock")),
        (" /a.sock", Some("/a.sock")),
        ("", Some("unix:///path/to/csi.sock")),
        ("unix://", None),
        ("unix:", None),
        ("unix-abstract:a", None),
        ("@a", None),
        ("tcp://host", None),
        ("tcp://host:0", None),
        ("tcp://host:65536", None),
        ("tcp://host:80/path", None),
        ("tcp://ho st:80", None),
        ("vsock://2:1", None),
        ("/a\0b", None),
    ] {
        match text.parse::<Endpoint>() {
            Err(error @ ProbeError::InvalidEndpoint { .. }) => {
                let line = error.to_string();
                assert!(!line.contains('\n'));
                match hint {
                    Some(form) => {
                        assert!(line.ends_with(&format!("; did you mean {form}?")), "{line}");
                    }
                    None => assert!(!line.contains("did you mean"), "{line}"),
                }
            }
            other => panic!("{text:?}: {other:?}"),
        }
    }
}

#[test]
fn a_hint_that_is_a_whole_endpoint_parses() {
    for text in [
        "unix://csi/csi.sock",
        "http://host:80/",
        "tcp://::1:80",
        "/run/csi/",
    ] {
        let Err(ProbeError::InvalidEndpoint {
            did_you_mean: Some(form),
            ..
        }) = text.parse::<Endpoint>()
        else {
            panic!("{text}");
        };
        form.parse::<Endpoint>().unwrap();
    }
}

#[test]
fn a_path_of_107_bytes_is_taken_and_one_more_is_refused() {
    let fits = format!("/{}", "a".repeat(SUN_PATH_MAX - 1));
    assert!(fits.parse::<Endpoint>().is_ok());
    let long = format!("unix://{fits}b");
    match long.parse::<Endpoint>() {
        Err(error @ ProbeError::PathTooLong { length: 108, .. }) => {
            assert!(error.to_string().contains("107"), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn versions_are_read_and_written() {
    use crate::ApiVersion;
    for version in [ApiVersion::V0, ApiVersion::V1] {
        assert_eq!(version.to_string().parse::<ApiVersion>().unwrap(), version);
        assert_eq!(version.other().other(), version);
    }
    let error = "v2".parse::<ApiVersion>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "unknown CSI API version \"v2\": write v0 or v1"
    );
}
