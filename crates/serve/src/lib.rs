//! The monitoring server: home page, health, readiness, metrics, and the frame into which every part of the product puts
//! its own section.
//!
//! This crate never runs a stage and never opens a lake. The dashboard only reads, but for `POST /shutdown` on the admin port,
//! which calls what the binary handed in, for logging a browser in and out,
//! and for what somebody deletes who is logged in. What the API writes, it writes through the namespace that it was handed. What it shows is passed in: a part implements
//! [`Section`], reports to [`Readiness`], and registers its metrics with the registry given to [`ShellBuilder::metrics`].
//! A section therefore cannot hurt the server: one that hangs or panics becomes a red card.
//!
//! | file | what it holds |
//! |---|---|
//! | `shell.rs` | what the binary builds and starts |
//! | `server.rs`, `server/`, `stall.rs`, `timer.rs` | accept loop, connection limits, TLS, slow clients |
//! | `guard.rs`, `guard/` | what every request must pass and every answer carries |
//! | `routes.rs` | which address shows what |
//! | `section.rs`, `subpage.rs`, `visit.rs`, `sparkline.rs` | what a part of the product hands in: cards, a page, pages below it |
//! | `content.rs`, `content/` | what its pages are made of: panels, tables, links, bars, graphs over time, heat maps, trees of JSON |
//! | `status.rs`, `home.rs`, `page.rs` | gathering, home page, layout |
//! | `notice.rs` | red banners at the top of every page |
//! | `api.rs`, `api/` | the interface for programs: the objects of users |
//! | `login.rs`, `objects_page.rs` | logging a browser in and out, and the objects of who is logged in |
//! | `admin.rs` | the admin port: its page, and the one route that writes |
//! | `health.rs`, `metrics.rs`, `asset.rs` | `/healthz` and `/readyz`, `/metrics`, `/assets` |

mod admin;
mod api;
mod asset;
mod content;
mod guard;
mod health;
mod home;
mod login;
mod metrics;
mod notice;
mod objects_page;
mod page;
mod routes;
mod section;
mod server;
mod shell;
mod sparkline;
mod stall;
mod status;
mod subpage;
mod timer;
mod visit;

pub use api::{ApiParts, ApiSlot, ServedLakes, encode_component};
pub use content::{
    Bars, Cell, Content, Curve, Facts, Figures, HeatMap, Hint, Links, Panel, Plot, Table, Tally,
    Tree, clean, span,
};
pub use guard::Verbatim;
pub use health::{Check, Readiness};
pub use maud::Markup;
pub use notice::Notices;
pub use section::{Card, Section, State};
pub use server::{Audience, ListenError, TlsError, TlsFiles};
pub use shell::{Identity, NextStep, Shell, ShellBuilder};
pub use visit::{Address, Answer, Asked, Visited};
