//! What the API promises: every operation, with every status that it answers. The document is made from this table, and a debug
//! build holds every answer against it.

use http::{Method, StatusCode};

/// Who may use an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Everybody.
    Anybody,
    /// Who has a credential.
    User,
}

/// A method of a route.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    /// The route, with its parameters in braces.
    pub(super) path: &'static str,
    pub(super) method: Method,
    pub(super) summary: &'static str,
    pub(super) access: Access,
    /// What it answers besides [`EVERYWHERE`].
    pub(super) statuses: &'static [u16],
}

/// What any operation may answer: a query that cannot be read, no credential, one that does not do, nothing there, a body that
/// nobody reads, another host, too large a header, a mistake in the program, too much to do, and no room.
pub(super) const EVERYWHERE: [u16; 10] = [400, 401, 403, 404, 413, 421, 431, 500, 503, 507];

const LIST: &[u16] = &[200];
const READ: &[u16] = &[200, 206, 304, 412, 416];
const PUT: &[u16] = &[204, 408, 412];
const DELETE: &[u16] = &[204, 412];
const ASKED_FIRST: &[u16] = &[204];

/// Every operation.
pub(super) fn operations() -> Vec<Operation> {
    let reading = |path, access, summaries: [&'static str; 2], statuses| {
        [Method::GET, Method::HEAD]
            .into_iter()
            .zip(summaries)
            .map(move |(method, summary)| Operation {
                path,
                method,
                summary,
                access,
                statuses,
            })
    };
    let areas = ["List the areas of a user", "Say that a user is a directory"];
    let in_lake = [
        "Read an object of the lake",
        "Describe an object of the lake",
    ];
    let mut operations: Vec<Operation> = reading("/{user}", Access::User, areas, LIST)
        .chain(reading("/lake/{key}", Access::User, in_lake, READ))
        .collect();
    for (root, entry, access) in [
        ("/{user}/stor", "/{user}/stor/{path}", Access::User),
        ("/{user}/public", "/{user}/public/{path}", Access::Anybody),
        ("/{user}/jobs", "/{user}/jobs/{path}", Access::User),
    ] {
        let at_root = [
            "List the directory of an area",
            "Say that an area is a directory",
        ];
        let below = [
            "Read an object, or list a directory",
            "Describe an object or a directory",
        ];
        operations.extend(reading(root, access, at_root, LIST));
        operations.extend(reading(entry, access, below, READ));
        for path in [root, entry] {
            let mut add = |method, summary, access, statuses| {
                operations.push(Operation {
                    path,
                    method,
                    summary,
                    access,
                    statuses,
                });
            };
            let put = "Put an object, make a directory or a link, or change headers";
            add(Method::PUT, put, Access::User, PUT);
            let delete = "Delete an object or an empty directory";
            add(Method::DELETE, delete, Access::User, DELETE);
            if access == Access::Anybody {
                let first = "Say to a browser what pages of other origins may do";
                add(Method::OPTIONS, first, Access::Anybody, ASKED_FIRST);
            }
        }
    }
    operations
}

/// Whether a route may answer that to a method; a method that it does not know is 405.
pub(super) fn is_promised(path: &str, method: &Method, status: StatusCode) -> bool {
    let status = status.as_u16();
    let all = operations();
    let mut here = all.iter().filter(|operation| operation.path == path);
    let known = here.find(|operation| operation.method == *method);
    EVERYWHERE.contains(&status)
        || known.map_or(status == 405, |operation| {
            operation.statuses.contains(&status)
        })
}

#[cfg(test)]
mod tests {
    use super::super::route::ApiRoute;
    use super::*;

    #[test]
    fn every_route_has_the_operations_that_it_knows() {
        for path in [
            "/ann",
            "/ann/stor",
            "/ann/stor/a",
            "/ann/public",
            "/ann/public/a/b",
            "/ann/jobs",
            "/ann/jobs/1",
            "/lake/autoload/x",
        ] {
            let route = ApiRoute::parse(path).unwrap();
            let mut known = route.methods().to_vec();
            let mut promised: Vec<Method> = operations()
                .into_iter()
                .filter(|operation| operation.path == route.template())
                .map(|operation| operation.method)
                .collect();
            known.sort_by_key(ToString::to_string);
            promised.sort_by_key(ToString::to_string);
            assert_eq!(known, promised, "{path}");
        }
    }

    #[test]
    fn another_method_is_405_and_nothing_is_a_redirect() {
        let is = |method: &str, status| {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            is_promised(
                "/{user}/stor/{path}",
                &method,
                StatusCode::from_u16(status).unwrap(),
            )
        };
        assert!(is("GET", 206) && is("GET", 503) && is("PATCH", 405));
        assert!(!is("GET", 405) && !is("GET", 302) && !is("PATCH", 200) && !is("PUT", 200));
    }
}
