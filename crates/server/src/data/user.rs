//! [`DataUser`]: whose session it is, for what belongs to users.

use std::sync::Arc;

/// The user of a session. External tables belong to who made them: they and superusers may drop and replace them.
#[derive(Clone)]
pub struct DataUser {
    name: Arc<str>,
    is_superuser: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl std::fmt::Debug for DataUser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DataUser({})", self.name)
    }
}

impl DataUser {
    /// The user of this name. Whether it may do everything is asked each time: rights change while sessions go on.
    pub fn new(name: &str, is_superuser: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        DataUser {
            name: name.into(),
            is_superuser: Arc::new(is_superuser),
        }
    }

    pub(crate) fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    /// Whether what this one has made is its own, or as good as that.
    pub(crate) fn owns(&self, maker: Option<&str>) -> bool {
        maker == Some(&*self.name) || (self.is_superuser)()
    }
}
