//! Tables of accepted and refused flag values.

use super::*;

#[test]
fn a_variable_has_a_value_or_is_passed_on() {
    let own = |name: &str| (name == "HOME").then(|| "/root".to_owned());
    let good = [("A=1", ("A", "1")), ("A=", ("A", "")), ("A=b=c", ("A", "b=c")), ("HOME", ("HOME", "/root"))];
    for (text, (name, value)) in good {
        assert_eq!(env_from(text, own), Ok((name.to_owned(), value.to_owned())), "{text}");
    }
    for bad in ["", "=1", "NOT_SET", "A B=1"] {
        assert!(env_from(bad, own).is_err(), "{bad}");
    }
}

#[test]
fn a_file_of_variables_may_have_comments_and_quotes() {
    let text = "# a comment\n\nA=1\nexport B=\"two words\"\nC='x=y'\n  D=#no comment\n";
    let map = env_file(text).expect("a good file");
    let pairs: Vec<String> = map.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(pairs, ["A=1", "B=two words", "C=x=y", "D=#no comment"]);
    assert_eq!(env_file("A=1\n=2\n").map_err(|error| error.starts_with("line 2: ")), Err(true));
}

#[test]
fn sizes_have_units() {
    for (text, expected) in
        [("512", 512), ("512m", 512), ("2g", 2048), ("2GiB", 2048), ("1t", 1 << 20), ("64MB", 64)]
    {
        assert_eq!(megabytes(text), Ok(expected), "{text}");
    }
    for bad in ["", "0", "m", "-1", "1.5g", "10k", "99999999999999999t"] {
        assert!(megabytes(bad).is_err(), "{bad}");
    }
}

#[test]
fn times_have_units() {
    for (text, expected) in [("90", 90.0), ("1.5s", 1.5), ("15m", 900.0), ("500ms", 0.5), ("2h", 7200.0)] {
        assert_eq!(seconds(text), Ok(expected), "{text}");
    }
    for bad in ["", "0", "-1", "s", "inf", "NaN", "1d2"] {
        assert!(seconds(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_scope_has_the_key_that_its_kind_needs() {
    let parsed = scope("agent-run:42:a").expect("a good scope");
    assert_eq!((parsed.kind.as_str(), parsed.key.map(String::from)), ("agent-run", Some("42:a".to_owned())));
    assert_eq!(scope("shared-project-user").map(|scope| scope.key), Ok(None));
    for bad in ["", "agent-run", "agent-run:", "shared-project-user:x", "other:x", "custom:a b"] {
        assert!(scope(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_service_is_fields_with_commas_between() {
    let web = service("name=web,command=npm run dev,port=3000").expect("a good service");
    assert_eq!((web.name.as_str(), web.command.as_str(), web.port), ("web", "npm run dev", Some(3000)));
    let full = "name=api,command=echo a,b=c,d,env.LEVEL=1,2,cwd=x,depends_on=db,depends_on=web,health=/ok,restart=never";
    let api = service(full).expect("a good service");
    assert_eq!(api.command, "echo a,b=c,d");
    assert_eq!(api.env.get("LEVEL").map(String::as_str), Some("1,2"));
    assert_eq!(api.depends_on.len(), 2);
    assert_eq!(api.health, Some(Health::of(HealthCheck::Http("/ok".to_owned()))));
    assert_eq!(api.restart, RestartPolicy::Never);
    for bad in [
        "",
        "web",
        "name=web",
        "command=x",
        "name=../x,command=x",
        "name=a,command=x,port=70000",
        "name=a,command=x,health=?",
    ] {
        assert!(service(bad).is_err(), "{bad}");
    }
}
