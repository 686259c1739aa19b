//! Lakes and databases in pairs.

mod memory_and_file {
    use std::sync::Arc;

    use object_store::memory::InMemory;

    use crate::world::World;

    async fn open() -> World {
        World::new(Arc::new(InMemory::new()), None, ())
    }

    crate::conformance::suite!(open);
    crate::recovery::suite!(open);
}

mod disk_and_file {
    use std::sync::Arc;

    use cannery_lake::DiskStore;
    use cannery_runtime::{RealDisk, Rng};

    use crate::world::World;

    async fn open() -> World {
        let folder = tempfile::tempdir().unwrap();
        let store = DiskStore::new(Arc::new(RealDisk), folder.path(), Rng::from_os());
        World::new(Arc::new(store), None, folder)
    }

    crate::conformance::suite!(open);
    crate::recovery::suite!(open);
}

#[cfg(feature = "real-servers")]
pub(crate) mod servers {
    use std::sync::{Arc, Weak};

    use cannery_runtime::Rng;
    use cannery_testkit::postgres::Postgres;
    use cannery_testkit::s3::S3Server;
    use object_store::aws::{AmazonS3Builder, S3ConditionalPut};
    use tokio::sync::Mutex;

    use crate::world::World;

    /// One of each for all tests that run at the same time; the last one to end takes them along.
    static SERVERS: Mutex<Weak<(Postgres, S3Server)>> = Mutex::const_new(Weak::new());

    async fn servers() -> Arc<(Postgres, S3Server)> {
        let mut shared = SERVERS.lock().await;
        if let Some(servers) = shared.upgrade() {
            return servers;
        }
        let (postgres, s3) = futures::future::join(Postgres::start(), S3Server::moto()).await;
        let servers = Arc::new((postgres.unwrap(), s3.unwrap()));
        *shared = Arc::downgrade(&servers);
        servers
    }

    pub(crate) async fn open() -> World {
        let servers = servers().await;
        let database = async || {
            let name = format!("objects_{}", Rng::from_os().id());
            servers.0.create_database(&name).await.unwrap()
        };
        let addresses = [database().await, database().await];
        let access = servers.1.access();
        let store = AmazonS3Builder::new()
            .with_endpoint(&access.endpoint)
            .with_region(&access.region)
            .with_bucket_name(&access.bucket)
            .with_access_key_id(&access.key_id)
            .with_secret_access_key(&access.secret)
            .with_allow_http(true)
            .with_conditional_put(S3ConditionalPut::ETagMatch)
            .build()
            .unwrap();
        World::new(Arc::new(store), Some(addresses), servers)
    }

    crate::conformance::suite!(open);
    crate::recovery::suite!(open);
}
