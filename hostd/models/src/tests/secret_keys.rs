use super::{Dialect, ModelsFixture, id, label, provider};
use crate::{CallRefusal, ModelsError};
use hostd_store::{SecretWrite, Secrets};
use protocol::api::{ProviderSpec, SecretName};

const FIRST: &str = "sk-of-a-secret-first";
const SECOND: &str = "sk-of-a-secret-second";

impl ModelsFixture {
    async fn set_secret(&self, value: &str) {
        let (tenant, name) = (label("default"), SecretName::parse("key").expect("a name"));
        let write =
            SecretWrite { tenant: &tenant, name: &name, value, updated_by: "root".to_owned(), now_ms: 7 };
        Secrets::new(self.store.clone(), self.dir.path()).put(write).await.expect("set");
        self.models.reload_keys().await.expect("read");
    }

    async fn remove_secret(&self) {
        let name = SecretName::parse("key").expect("a name");
        assert!(self.store.remove_secret(&label("default"), &name).await.expect("removed"));
        self.models.reload_keys().await.expect("read");
    }
}

fn referring() -> ProviderSpec {
    let key_from = Some("secret:key".parse().expect("a reference"));
    ProviderSpec { key: None, key_from, ..provider("") }
}

#[tokio::test]
async fn a_running_task_uses_the_newest_secret_and_is_told_which_one_is_missing() {
    let fixture = ModelsFixture::new().await;
    let early = fixture.models.put_provider("openai", &referring()).await;
    assert!(matches!(early, Err(ModelsError::Invalid { field: "key_from", .. })), "there is no secret yet");
    fixture.set_secret(FIRST).await;
    fixture.models.put_provider("openai", &referring()).await.expect("a good provider");
    let (task, key) = fixture.task("t1", None).await;
    let (_open, _) = fixture.open(&task);
    let grant = fixture.models.authenticate(&id(1), &key).expect("good");
    let key_of_a_call = || {
        let target = grant.target(Dialect::Openai, "large")?;
        Ok::<_, CallRefusal>(target.provider.key.as_ref().map(|key| key.0.as_str().to_owned()))
    };
    assert_eq!(key_of_a_call(), Ok(Some(FIRST.to_owned())));
    fixture.set_secret(SECOND).await;
    assert_eq!(key_of_a_call(), Ok(Some(SECOND.to_owned())));
    fixture.set_secret("no key, but a sentence").await;
    assert!(key_of_a_call().is_err_and(|error| error.to_string().contains("secret:key is not the key")));
    fixture.remove_secret().await;
    let missing = key_of_a_call().expect_err("it is gone").to_string();
    assert!(missing.contains("there is no secret key in tenant default"), "{missing}");
    // Also after a restart; a key of its own replaces the reference.
    let fixture = fixture.restarted().await;
    assert!(fixture.models.providers(None)[0].problem.is_some());
    fixture.models.put_provider("openai", &provider(FIRST)).await.expect("changed");
    let configured = &fixture.models.providers(None)[0];
    assert!(configured.problem.is_none() && configured.record.key_from.is_none());
}
