use super::{
    super::{IMAGE_MANIFEST_TYPES, INDEX_TYPES},
    *,
};
use proptest::prelude::*;

const CONFIG_TYPE: &str = "application/vnd.oci.image.config.v1+json";
const LAYER_TYPE: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

fn descriptor(media_type: &str, size: u64) -> String {
    format!(r#"{{"mediaType":"{media_type}","digest":"{}","size":{size}}}"#, Digest::of(b"x"))
}

fn image(config: &str, layers: &[String]) -> String {
    format!(r#"{{"schemaVersion":2,"config":{config},"layers":[{}]}}"#, layers.join(","))
}

#[test]
fn images_and_indexes_of_oci_and_docker_are_parsed() {
    let layer = descriptor(LAYER_TYPE, 7);
    let whole = image(&descriptor(CONFIG_TYPE, 3), &[layer.clone(), layer]);
    for delivered in [None, Some(IMAGE_MANIFEST_TYPES[0]), Some(IMAGE_MANIFEST_TYPES[1]), Some("text/plain")]
    {
        let parsed = ManifestDocument::parse(whole.as_bytes(), delivered).expect("valid");
        let ManifestDocument::Image(manifest) = parsed else { panic!("{delivered:?}: {parsed:?}") };
        assert_eq!((manifest.config.size, manifest.layers.len()), (3, 2));
    }
    let index = format!(
        r#"{{"schemaVersion":2,"mediaType":"{}","manifests":[
        {{"mediaType":"{}","digest":"{digest}","size":9,"platform":{{"os":"linux","architecture":"arm64","variant":"v8"}}}},
        {{"mediaType":"{}","digest":"{digest}","size":9,"platform":null,"annotations":{{"a":"b"}}}}]}}"#,
        INDEX_TYPES[1],
        IMAGE_MANIFEST_TYPES[1],
        INDEX_TYPES[0],
        digest = Digest::of(b"x"),
    );
    let parsed =
        ManifestDocument::parse(index.as_bytes(), Some(&format!("{}; charset=utf-8", INDEX_TYPES[1])));
    let Ok(ManifestDocument::Index(entries)) = parsed else { panic!("{parsed:?}") };
    assert_eq!(entries[0].platform.as_ref().map(ToString::to_string).as_deref(), Some("linux/arm64/v8"));
    assert_eq!((&entries[1].platform, entries[1].annotations["a"].as_str()), (&None, "b"));
}

#[test]
fn a_document_that_cannot_be_used_is_refused_with_the_reason() {
    let config = descriptor(CONFIG_TYPE, 3);
    let layer = descriptor(LAYER_TYPE, 7);
    let table: [(String, Option<&str>, &str); 15] = [
        ("".into(), None, "its manifest is not valid: EOF"),
        ("{}".into(), None, "its manifest is not valid: missing field `schemaVersion`"),
        (r#"{"schemaVersion":1,"fsLayers":[]}"#.into(), None, "it is in the old format of Docker (schema 1)"),
        (
            image(&config, &[]),
            Some("application/vnd.docker.distribution.manifest.v1+prettyjws"),
            "it is in the old",
        ),
        (r#"{"schemaVersion":2}"#.into(), None, "it is not an image but an unknown document"),
        (r#"{"schemaVersion":2,"mediaType":"a/b"}"#.into(), None, "it is not an image but a/b"),
        (
            format!(r#"{{"schemaVersion":2,"config":{config},"manifests":[]}}"#),
            None,
            "its manifest says both",
        ),
        (image(&config, &[]), Some(INDEX_TYPES[0]), "its manifest says both"),
        (
            r#"{"schemaVersion":2,"layers":[]}"#.into(),
            None,
            "its manifest is not valid: it names no configuration",
        ),
        (
            image(&descriptor("application/vnd.cncf.helm.config.v1+json", 3), &[]),
            None,
            "it is not an image but app",
        ),
        (
            image(&config, &[descriptor("application/vnd.in-toto+json", 3)]),
            None,
            "one of its layers is application/v",
        ),
        (image(&descriptor(CONFIG_TYPE, CONFIG_MAX_BYTES + 1), &[]), None, "its configuration has more than"),
        (image(&config, &[descriptor(LAYER_TYPE, u64::MAX)]), None, "its largest layer has more than"),
        (image(&config, &vec![layer; LAYERS_MAX + 1]), None, "it has more than 128 layers"),
        (
            image(&config, &[config.replace("sha256", "sha512")]),
            None,
            "its manifest is not valid: its digest uses sha512",
        ),
    ];
    for (text, delivered, expected) in table {
        let error = ManifestDocument::parse(text.as_bytes(), delivered).expect_err(&text).to_string();
        assert!(error.starts_with(expected), "{error}");
    }
    let large = vec![b' '; usize::try_from(MANIFEST_MAX_BYTES).expect("small") + 1];
    let error = ManifestDocument::parse(&large, None).expect_err("too large").to_string();
    assert_eq!(error, "its manifest has more than 4194304 bytes");
}

#[test]
fn a_manifest_and_its_configuration_have_the_same_number_of_layers() {
    let whole = image(&descriptor(CONFIG_TYPE, 3), &[descriptor(LAYER_TYPE, 7)]);
    let Ok(ManifestDocument::Image(manifest)) = ManifestDocument::parse(whole.as_bytes(), None) else {
        panic!("an image")
    };
    let config = |count| ImageConfig { diff_ids: vec![Digest::of(b""); count], ..ImageConfig::default() };
    assert_eq!(manifest.check_config(&config(1)), Ok(()));
    assert_eq!(manifest.check_config(&config(2)), Err(ManifestError::LayerCount { layers: 1, diff_ids: 2 }));
}

proptest! {
    #[test]
    fn no_document_breaks_the_parser(
        document in r#"\{("schemaVersion":[0-3],|"mediaType":"[a-z./+]{0,9}",|"layers":(null|\[\]|\[1\]),|"manifests":(\[\]|\{\}),){0,4}"config":(null|\{\})\}"#,
        delivered in proptest::option::of("[ -~]{0,60}"),
    ) {
        let _ = ManifestDocument::parse(document.as_bytes(), delivered.as_deref());
        let _ = ImageConfig::parse(document.as_bytes());
    }

    #[test]
    fn no_bytes_break_the_parser(bytes: Vec<u8>) {
        let _ = ManifestDocument::parse(&bytes, None);
        let _ = ImageConfig::parse(&bytes);
    }
}
