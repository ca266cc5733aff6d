//! A [`Screen`] on a terminal of any size.
//!
//! ```text
//! corun 0.1.0  127.0.0.1:6432                       every 1 s
//! rate     ...
//! mean     ...
//! clients  ...
//! servers  ...
//! 1 Pools (2)  2 Databases (1)  ...
//! the tables below each other where all fit, otherwise the selected one
//! q quit  tab table  ...
//! ```

use ratatui::Frame as Target;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use unicode_width::UnicodeWidthStr;

use super::grid::Grid;
use super::screen::Screen;
use super::units;
use super::view::View;

/// The smallest terminal with something on it to read.
const SMALLEST: (u16, u16) = (20, 4);

const KEYS: &str = "q quit  tab table  ←→ sort  r reverse  ↑↓ scroll  p pause";

/// Draws it.
pub fn draw(target: &mut Target<'_>, screen: &Screen) {
    let area = target.area();
    let lines = if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        vec![Line::raw("too small")]
    } else {
        lines(screen, usize::from(area.width), usize::from(area.height))
    };
    for (line, y) in lines.into_iter().zip(area.y..area.bottom()) {
        target.render_widget(Paragraph::new(line), Rect::new(area.x, y, area.width, 1));
    }
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn lines(screen: &Screen, width: usize, height: usize) -> Vec<Line<'static>> {
    let grids = screen.tables();
    let mut lines = vec![title(screen, width)];
    for line in &screen.view.summary {
        let style = match line.is_warning {
            true => Style::new().fg(Color::Yellow),
            false => Style::new(),
        };
        lines.push(Line::from(vec![
            Span::styled(format!("{:<8} ", line.name), bold()),
            Span::styled(line.text.clone(), style),
        ]));
    }
    lines.push(tabs(&screen.view, screen.selected));
    // The last line is for the keys, or for what is wrong.
    let room = height.saturating_sub(lines.len() + 1);
    let shown = || {
        let all = grids.iter().enumerate();
        all.filter(|(at, _)| screen.view.is_shown(*at))
    };
    let all: usize = shown().map(|(_, grid)| 2 + grid.rows.len()).sum();
    if all <= room {
        let blank = all + shown().count() <= room;
        for (at, grid) in shown() {
            if blank {
                lines.push(Line::default());
            }
            let style = if at == screen.selected {
                bold().add_modifier(Modifier::UNDERLINED)
            } else {
                bold()
            };
            lines.push(Line::styled(grid.title, style));
            table(&mut lines, grid, screen, at, width, usize::MAX);
        }
    } else if let Some(grid) = grids.get(screen.selected) {
        table(&mut lines, grid, screen, screen.selected, width, room);
    }
    lines.truncate(height - 1);
    lines.resize(height - 1, Line::default());
    lines.push(footer(screen, width));
    lines
}

/// Heading and rows of a table, within `room` lines; the selected one scrolls.
fn table(lines: &mut Vec<Line<'static>>, grid: &Grid, screen: &Screen, at: usize, width: usize, room: usize) {
    let (head, rows) = grid.lines(width, screen.orders[at]);
    lines.push(Line::styled(head, Style::new().add_modifier(Modifier::DIM)));
    let shown = room.saturating_sub(1);
    // Not beyond the last full page.
    let offset = if at == screen.selected {
        screen.offset.min(rows.len().saturating_sub(shown))
    } else {
        0
    };
    let below = rows.len().saturating_sub(offset + shown);
    let mut rows: Vec<String> = rows.into_iter().skip(offset).take(shown).collect();
    if below > 0
        && let Some(last) = rows.last_mut()
    {
        *last = format!("... {} more", below + 1);
    }
    lines.extend(rows.into_iter().map(Line::raw));
}

fn title(screen: &Screen, width: usize) -> Line<'static> {
    let left = format!("{}  {}", screen.view.title, screen.place);
    let right = if screen.paused {
        "paused".to_owned()
    } else {
        format!("every {} s", screen.interval.as_secs_f64())
    };
    let blanks = width.saturating_sub(left.width() + right.width());
    let style = if screen.paused {
        Style::new().fg(Color::Yellow)
    } else {
        Style::new()
    };
    Line::from(vec![
        Span::styled(left, bold()),
        Span::raw(" ".repeat(blanks.max(1))),
        Span::styled(right, style),
    ])
}

fn tabs(view: &View, selected: usize) -> Line<'static> {
    let mut spans = Vec::new();
    for (at, grid) in view.grids.iter().enumerate().filter(|(at, _)| view.is_shown(*at)) {
        let style = if at == selected {
            Style::new().add_modifier(Modifier::REVERSED)
        } else {
            Style::new()
        };
        spans.push(Span::styled(
            format!(" {} {} ({}) ", at + 1, grid.title, grid.rows.len()),
            style,
        ));
    }
    Line::from(spans)
}

fn footer(screen: &Screen, width: usize) -> Line<'static> {
    match &screen.lost {
        None => Line::styled(KEYS, Style::new().add_modifier(Modifier::DIM)),
        Some((why, pause)) => {
            let tail = format!("; trying again in {}", units::time(*pause));
            let room = width.saturating_sub(tail.width());
            let why: String = why.chars().take(room).collect();
            Line::styled(
                format!("{why}{tail}"),
                Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
            )
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use corun_model::cache::locality::Locality;
    use corun_model::server_status::{
        CacheStatus, QueryState, QueueStatus, QueuedQuery, ServerStatus, SessionStatus, SlowStatement,
        Slowdown,
    };
    use corun_pooler::admin::{
        CohortRow, CoreRow, HostRow, KeyRow, PoolRow, QueueRow, RangeRow, SlowdownRow, SplitRow, TotalsRow,
    };
    use corun_pooler::watch::Sample;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::pooler::Frame;
    use super::super::server::Moment;
    use super::super::watcher::News;
    use super::*;

    fn sample(seconds: u64, pools: usize) -> Sample {
        let count = seconds * 12_000;
        Sample {
            at: Duration::from_secs(seconds),
            version: "corun 0.1.0".to_owned(),
            stats: vec![TotalsRow {
                database: "shop".to_owned(),
                server_assignment_count: count,
                xact_count: count,
                query_count: count * 2,
                bytes_received: count * 100,
                bytes_sent: count * 400,
                xact_time: count * 850,
                query_time: count * 800,
                wait_time: count * 120,
                ..TotalsRow::default()
            }],
            pools: (0..pools)
                .map(|number| PoolRow {
                    database: "shop".to_owned(),
                    user: format!("user{number}"),
                    cl_active: if number == 0 { 50 } else { 0 },
                    cl_waiting: if number == 0 { 12 } else { 0 },
                    sv_active: 10,
                    maxwait_us: 1_500,
                    pool_mode: "transaction".to_owned(),
                    ..PoolRow::default()
                })
                .collect(),
            cores: (0..2)
                .map(|core| CoreRow {
                    core,
                    cpu: Some(core),
                    clients: 31,
                    servers: 5,
                    backends_bound: 5,
                    xact_count: count / 2,
                    query_count: count,
                    cohort_count: count / 2,
                    ..CoreRow::default()
                })
                .collect(),
            cohorts: (0..2)
                .map(|core| CohortRow {
                    core,
                    database: "shop".to_owned(),
                    user: "user0".to_owned(),
                    query_count: count / 2,
                    cohort_count: count / 4,
                    state: "on".to_owned(),
                    ..CohortRow::default()
                })
                .collect(),
            hosts: vec![HostRow {
                database: "shop".to_owned(),
                host: "127.0.0.1".to_owned(),
                port: 5432,
                role: "primary".to_owned(),
                state: "up".to_owned(),
                servers: 10,
                ..HostRow::default()
            }],
            ..Sample::default()
        }
    }

    /// A proxy with something to do.
    pub fn busy() -> Frame {
        Frame::of("127.0.0.1:6432", sample(2, 1), Some(&sample(1, 1)))
    }

    fn screen(pools: usize) -> Screen {
        let mut screen = Screen::new("127.0.0.1:6432", Duration::from_secs(1));
        let frame = Frame::of("127.0.0.1:6432", sample(2, pools), Some(&sample(1, pools)));
        screen.news(News::View(Box::new(frame.view())));
        screen
    }

    fn drawn(screen: &Screen, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        terminal.draw(|target| draw(target, screen)).expect("drawn");
        let buffer = terminal.backend().buffer();
        let row = |y| -> String { (0..width).map(|x| buffer[(x, y)].symbol()).collect() };
        (0..height).map(|y| row(y).trim_end().to_owned()).collect()
    }

    #[test]
    fn everything_fits_on_a_usual_terminal() {
        let lines = drawn(&screen(1), 80, 24);
        let expected = "\
corun 0.1.0  127.0.0.1:6432                                            every 1 s
rate     12,000 tps, 24,000 qps, 1.1 MB/s in, 4.6 MB/s out
mean     query 400 µs, transaction 850 µs, wait 120 µs; longest wait 1.5 ms
clients  50 active, 12 waiting
servers  10 active, 0 idle, 0 used, 0 busy (reset, login, cancel)
 1 Pools (1)  2 Databases (1)  3 Cores (2)  4 Cohorts (2)  5 Hosts (1)
Pools
database  user   clients  waiting  longest  servers  idle  used  busy  mode
shop      user0       50       12   1.5 ms       10     0     0     0  transact…
Databases
database     tps     qps   query    xact    wait    in/s   out/s
shop      12,000  24,000  400 µs  850 µs  120 µs  1.1 MB  4.6 MB
Cores
loop  cpu  clients  queue  backends  active  bound    tps     qps  awake  cohort
   0    0       31      0         5       0      5  6,000  12,000      -    50 %
   1    1       31      0         5       0      5  6,000  12,000      -    50 %
Cohorts
loop  database  user   queue  queued/s  cohort
   0  shop      user0      0     6,000    50 %
   1  shop      user0      0     6,000    50 %
Hosts
database  host            role     state  lag  behind  backends  failures
shop      127.0.0.1:5432  primary  up       -       -        10         0
q quit  tab table  ←→ sort  r reverse  ↑↓ scroll  p pause";
        assert_eq!(lines.join("\n"), expected);
    }

    #[test]
    fn nothing_is_seen_of_cohorts_that_are_off() {
        let mut frame = busy();
        let (mut earlier, mut later) = (sample(1, 1), sample(2, 1));
        for row in earlier.cohorts.iter_mut().chain(&mut later.cohorts) {
            row.state = "off".to_owned();
        }
        let mut screen = screen(1);
        let off = Frame::of("127.0.0.1:6432", later, Some(&earlier));
        screen.news(News::View(Box::new(off.view())));
        let lines = drawn(&screen, 80, 24).join("\n");
        assert!(!lines.to_lowercase().contains("cohort"), "{lines}");
        assert!(lines.contains(" 3 Cores (2)  5 Hosts (1)"), "{lines}");
        // Where they are on in one queue, the others are not shown.
        frame.sample.cohorts[0].state = "off".to_owned();
        screen.news(News::View(Box::new(frame.view())));
        let lines = drawn(&screen, 80, 24).join("\n");
        assert!(lines.contains(" 4 Cohorts (1)"), "{lines}");
    }

    /// The same with ranges and a split.
    pub fn keyed() -> Frame {
        let sample = |seconds| {
            let mut sample = sample(seconds, 1);
            sample.ranges = (0..2)
                .map(|worker| RangeRow {
                    name: "customer".to_owned(),
                    database: "shop".to_owned(),
                    worker,
                    cpu: Some(worker),
                    from: (worker == 1).then(|| "5000".to_owned()),
                    query_count: seconds * (worker + 1) * 1000,
                    state: "on".to_owned(),
                    ..RangeRow::default()
                })
                .collect();
            sample.keys = vec![KeyRow {
                name: "customer".to_owned(),
                database: "shop".to_owned(),
                query_count: seconds * 3000,
                overflow_count: seconds * 300,
                move_count: 2,
                ..KeyRow::default()
            }];
            sample.splits = vec![SplitRow {
                name: "best_seller".to_owned(),
                database: "shop".to_owned(),
                key: "item.i_id".to_owned(),
                split_count: seconds * 20,
                whole_count: seconds * 5,
                parts: 2,
                whole_us: Some(40_000),
                split_us: Some(21_000),
                ..SplitRow::default()
            }];
            sample
        };
        Frame::of("127.0.0.1:6432", sample(2), Some(&sample(1)))
    }

    #[test]
    fn ranges_and_splits_are_seen_where_there_are_any() {
        let mut screen = screen(1);
        screen.news(News::View(Box::new(keyed().view())));
        let lines = drawn(&screen, 100, 40).join("\n");
        let expected = "\
Ranges
range     database  worker  cpu  from    qps  share  overflow  moves  ranges
customer  shop           0    0        1,000   33 %      10 %      2  on
customer  shop           1    1  5000  2,000   67 %      10 %      2  on

Splits
split        database  key        parts/s  whole/s  parts  in parts  whole
best_seller  shop      item.i_id       20      5.0      2     21 ms  40 ms";
        assert!(lines.contains(expected), "{lines}");
        assert!(lines.contains(" 6 Ranges (2)  7 Splits (1)"), "{lines}");
    }

    /// The same with a query that runs and one that waits for it.
    pub fn queueing() -> Frame {
        let mut sample = sample(2, 1);
        let waits = QueueRow {
            client: 7,
            database: "shop".to_owned(),
            user: "user0".to_owned(),
            state: "waiting".to_owned(),
            class: "weak".to_owned(),
            form: "planned".to_owned(),
            waited_us: 120_000,
            ..QueueRow::default()
        };
        let runs = QueueRow {
            client: 3,
            state: "running".to_owned(),
            class: "moderate".to_owned(),
            table_bytes: 7 << 20,
            waited_us: 0,
            ran_us: Some(800_000),
            cpu: Some(1),
            workers: Some(2),
            why: "free".to_owned(),
            ..waits.clone()
        };
        sample.queue = vec![runs, waits];
        let all = ["strong", "moderate", "weak"];
        let pairs = all.iter().flat_map(|class| all.map(|beside| (*class, beside)));
        sample.slowdowns = pairs
            .map(|(class, beside)| SlowdownRow {
                class: class.to_owned(),
                beside: beside.to_owned(),
                percent: if (class, beside) == ("moderate", "weak") {
                    131
                } else {
                    100
                },
                cache_bytes: 14 << 20,
                policy: "sls".to_owned(),
                partition: "none".to_owned(),
            })
            .collect();
        Frame::of("127.0.0.1:6432", sample, None)
    }

    #[test]
    fn the_queue_and_its_classes_are_seen_where_there_is_one() {
        let mut screen = screen(1);
        screen.news(News::View(Box::new(queueing().view())));
        let lines = drawn(&screen, 100, 40).join("\n");
        let expected = "\
Queue
state    class     tables  database  user   client  cpu  workers  waited     ran  form     why
running  moderate  7.0 MB  shop      user0       3    1        2    0 µs  800 ms  planned  free
waiting  weak         0 B  shop      user0       7    -        -  120 ms       -  planned

Classes
class     beside strong  moderate   weak    cache  policy  partition
strong            100 %     100 %  100 %  14.0 MB  sls     none
moderate          100 %     100 %  131 %  14.0 MB  sls     none
weak              100 %     100 %  100 %  14.0 MB  sls     none";
        assert!(lines.contains(expected), "{lines}");
        assert!(lines.contains(" 8 Queue (2)  9 Classes (3)"), "{lines}");
    }

    /// A SQL server with one that runs and one that waits.
    pub fn serving() -> Moment {
        let session = |pid, state: &str, statement: &str| SessionStatus {
            pid,
            user: "ann".to_owned(),
            database: "shop".to_owned(),
            state: state.to_owned(),
            connected_s: 60.0,
            statement_s: Some(1.5),
            statement: statement.to_owned(),
            ..SessionStatus::default()
        };
        let runs = QueuedQuery {
            id: 12,
            state: QueryState::Running,
            class: Some(Locality::Moderate),
            cpus: "0-1".to_owned(),
            seconds: Some(1.5),
            why: "alone in its cache".to_owned(),
            pid: Some(2),
            ..QueuedQuery::default()
        };
        let waits = QueuedQuery {
            id: 13,
            state: QueryState::Waiting,
            class: Some(Locality::Weak),
            seconds: Some(0.25),
            overtaken: 1,
            pid: Some(3),
            ..QueuedQuery::default()
        };
        let status = ServerStatus {
            program: "corun-sql".to_owned(),
            version: "0.1.0".to_owned(),
            uptime_s: 100.0,
            sessions: vec![
                session(1, "idle", "show queue"),
                session(
                    2,
                    "active",
                    "select count(*)\nfrom lineitem join orders on l_orderkey = o_orderkey",
                ),
                session(3, "active", "select 1"),
            ],
            queue: Some(QueueStatus {
                policy: "sls".to_owned(),
                queries: vec![runs, waits],
                slowdowns: vec![Slowdown {
                    victim: Locality::Moderate,
                    corunner: Locality::Weak,
                    factor: 1.31,
                }],
                ..QueueStatus::default()
            }),
            slow: vec![SlowStatement {
                ago_s: 30.0,
                seconds: 2.5,
                user: "ann".to_owned(),
                sqlstate: Some("57014".to_owned()),
                statement: "select pg_sleep(100)".to_owned(),
                ..SlowStatement::default()
            }],
            caches: vec![CacheStatus {
                name: "L3".to_owned(),
                bytes: Some(14 << 20),
                count: 1,
                cpus: 2,
                mechanism: "the coordinator".to_owned(),
            }],
            ..ServerStatus::default()
        };
        let mut moment = Moment {
            earlier: Some((status.clone(), Duration::from_secs(2))),
            status,
        };
        moment.status.statements.completed = 20;
        moment.status.statements.seconds = 8.0;
        moment
    }

    #[test]
    fn a_sql_server_fits_on_a_usual_terminal() {
        let mut screen = Screen::new("127.0.0.1:9100", Duration::from_secs(1));
        screen.news(News::View(Box::new(serving().view())));
        let lines = drawn(&screen, 80, 24);
        let expected = "\
corun-sql 0.1.0  127.0.0.1:9100                                        every 1 s
rate     10 statements/s, 0 rows/s, 0 B/s out
mean     statement 400 ms, of which in the queue 0 µs; failed 0, cancelled 0
queue    1 running, 1 waiting, 0 short; policy sls
sessions 2 active, 0 of 0; memory 0 B, process 0 B
 1 Sessions (3)  2 Queue (2)  3 Classes (3)  4 Shared (2)  5 Slow (1)  6 Caches
pid  user  database  state     for  class     cpus  statement
  2  ann   shop      active  1.5 s  moderate  0-1   select count(*) from lineit…";
        let first: Vec<&str> = lines.iter().take(8).map(String::as_str).collect();
        assert_eq!(first.join("\n"), expected);
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:?}");
    }

    #[test]
    fn where_not_all_fits_the_selected_table_has_the_room() {
        let mut screen = screen(40);
        let lines = drawn(&screen, 80, 24);
        assert!(lines[6].starts_with("database  user"), "{}", lines.join("\n"));
        assert_eq!(lines[22], "... 25 more");
        screen.offset = 30;
        let lines = drawn(&screen, 80, 24);
        assert!(lines[22].contains("user39"), "{}", lines.join("\n"));
        screen.selected = 4;
        let lines = drawn(&screen, 80, 24);
        assert!(lines[7].contains("127.0.0.1:5432"), "{}", lines.join("\n"));
    }

    #[test]
    fn a_lost_connection_and_a_pause_are_seen() {
        let mut screen = screen(1);
        screen.paused = true;
        screen.news(News::Lost {
            why: "cannot connect to 127.0.0.1:6432: Connection refused".to_owned(),
            pause: Duration::from_secs(2),
        });
        let lines = drawn(&screen, 80, 24);
        assert!(lines[0].ends_with("paused"), "{}", lines[0]);
        assert_eq!(
            lines[23],
            "cannot connect to 127.0.0.1:6432: Connection refused; trying again in 2.0 s"
        );
        assert!(
            lines[1].contains("12,000 tps"),
            "what was known stays: {}",
            lines[1]
        );
    }

    #[test]
    fn every_size_can_be_drawn() {
        let screen = screen(3);
        for (width, height) in [
            (0, 0),
            (1, 1),
            (19, 50),
            (20, 4),
            (20, 5),
            (30, 8),
            (40, 12),
            (200, 3),
            (300, 90),
        ] {
            let lines = drawn(&screen, width, height);
            assert_eq!(lines.len(), usize::from(height));
        }
        assert_eq!(drawn(&screen, 19, 5)[0], "too small");
    }
}
