use jiff::Timestamp;

use super::*;

const EVIL: &str = "\"><script>alert(1)</script>\u{1b}[2J\u{202e}x";

#[test]
fn hostile_text_stays_text_in_every_part() {
    let panel = Panel::new("x", EVIL, State::Bad)
        .aside(EVIL)
        .note(EVIL)
        .part(&Figures::new().figure("Due", EVIL, State::Good))
        .part(&Hint::new(EVIL, EVIL))
        .part(
            &Table::new("T", ["A", "B", "C", "D", "E", "F"])
                .row(vec![
                    Cell::text(EVIL),
                    Cell::code(EVIL),
                    Cell::command(EVIL),
                    Cell::prose(EVIL),
                    Cell::state(State::Bad, EVIL),
                    Cell::page("feeds", EVIL),
                ])
                .of(3, EVIL),
        )
        .beside(
            &Bars::new(EVIL, "").bar(EVIL, EVIL, 1, 1),
            &Facts::new(EVIL).fact(EVIL, EVIL),
        )
        .part(&Curve::new(EVIL, vec![1.0, 2.0]).value(EVIL, EVIL))
        .part(
            &Plot::new(EVIL, EVIL)
                .values_are(EVIL)
                .points([(Timestamp::UNIX_EPOCH, 1.0)])
                .failed(Timestamp::UNIX_EPOCH, EVIL)
                .target(2.0, EVIL),
        )
        .part(&Plot::new(EVIL, "").empty(EVIL))
        .part(&HeatMap::new(EVIL, [EVIL]).row(
            EVIL,
            vec![Tally {
                failed: 1,
                ..Tally::default()
            }],
        ))
        .part(&HeatMap::new(EVIL, [EVIL]).empty(EVIL));
    let page = Content::new(EVIL, EVIL).panel(panel).finish().into_string();
    assert!(!page.contains("<script"), "{page}");
    assert!(page.contains("&lt;script&gt;"), "{page}");
    let cells = page.split("<tbody>").nth(1).unwrap();
    let cells = cells.split("</tbody>").next().unwrap();
    assert_eq!(cells.matches("�[2J�x").count(), 6, "{cells}");
    assert!(!cells.contains("<a "), "{cells}");
    for figure in page.split("<figure").skip(1) {
        let figure = figure.split("</figure>").next().unwrap();
        assert!(figure.contains("�[2J�x"), "{figure}");
    }
    assert!(!page.contains(['\u{1b}', '\u{202e}']), "{page}");
    assert!(!page.contains(" style="), "{page}");
}

#[test]
fn a_table_is_bounded_and_says_what_is_left_out() {
    let mut table = Table::new("T", ["N"]).empty("Nobody.");
    assert!(table.render().into_string().contains("Nobody."));
    for number in 0..80 {
        table = table.row(vec![Cell::number(number)]);
    }
    let drawn = table.clone().of(1_234, "cannery x").render().into_string();
    assert_eq!(drawn.matches("<td").count(), Table::ROWS_MAX);
    assert!(
        drawn.contains("and 1184 more; see all with <code>cannery x</code>"),
        "{drawn}"
    );
    assert!(!table.of(50, "x").render().into_string().contains("more"));
}

#[test]
fn a_reason_has_room_and_a_name_leads_to_its_page() {
    let reason = format!("cannot put `a`: {}", "x".repeat(700));
    let row = vec![Cell::page("feeds", "vbb"), Cell::prose(&reason)];
    let drawn = Table::new("T", ["F", "R"]).row(row).render().into_string();
    assert!(
        drawn.contains(r#"<a href="/feeds/vbb"><code>vbb</code></a>"#),
        "{drawn}"
    );
    assert!(
        drawn.contains(&format!("<code>a</code>: {}</span>", "x".repeat(700))),
        "{drawn}"
    );
}

#[test]
fn several_panels_are_linked_from_the_top() {
    let one = Content::new("T", "").panel(Panel::new("a", "A", State::Good));
    assert!(!one.finish().into_string().contains("<nav"));
    let two = one.panel(Panel::new("b", "B", State::Warn));
    let page = two.finish().into_string();
    assert!(
        page.contains(r##"<a href="#b">"##) && page.contains(r#"id="b""#),
        "{page}"
    );
}
