//! [`Screen`]: what is on the screen, and what keys and news do to it. Pure.

use std::time::Duration;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::grid::{Grid, Order};
use super::view::View;
use super::watcher::News;

/// What a key leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The end.
    Quit,
    /// Another picture.
    Draw,
    /// The same.
    Nothing,
}

/// What is on the screen.
pub struct Screen {
    /// Where the server is.
    pub place: String,
    /// Time between two looks.
    pub interval: Duration,
    /// The view that is shown.
    pub view: View,
    /// The newest one, while the display is paused.
    newest: Option<View>,
    /// Whether it is.
    pub paused: bool,
    /// Why there is nothing new, and when it is tried again.
    pub lost: Option<(String, Duration)>,
    /// Number of the table that keys are for.
    pub selected: usize,
    /// How each is sorted.
    pub orders: Vec<Order>,
    /// Rows of the selected table that have been scrolled away.
    pub offset: usize,
}

impl Screen {
    /// With nothing to show yet.
    pub fn new(place: &str, interval: Duration) -> Self {
        Self {
            place: place.to_owned(),
            interval,
            view: View::default(),
            newest: None,
            paused: false,
            lost: None,
            selected: 0,
            orders: Vec::new(),
            offset: 0,
        }
    }

    /// Takes what the watcher found.
    pub fn news(&mut self, news: News) {
        match news {
            News::View(view) => {
                self.lost = None;
                if self.paused {
                    self.newest = Some(*view);
                } else {
                    self.show(*view);
                }
            }
            News::Lost { why, pause } => self.lost = Some((why, pause)),
        }
    }

    fn show(&mut self, view: View) {
        self.orders.resize(view.grids.len(), Order::default());
        self.selected = self.selected.min(view.grids.len().saturating_sub(1));
        self.view = view;
    }

    /// The tables, each sorted as it was asked for.
    pub fn tables(&self) -> Vec<Grid> {
        let mut grids = self.view.grids.clone();
        for (grid, order) in grids.iter_mut().zip(&self.orders) {
            grid.sort(*order);
        }
        grids
    }

    /// Takes a key.
    pub fn key(&mut self, key: KeyEvent) -> Next {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c' | 'd') => Next::Quit,
                KeyCode::Char('l') => Next::Draw,
                _ => Next::Nothing,
            };
        }
        if self.view.grids.is_empty() {
            return match key.code {
                KeyCode::Char('q') | KeyCode::Esc => Next::Quit,
                _ => Next::Nothing,
            };
        }
        let tables = self.view.grids.len();
        let rows = || self.view.grids[self.selected].rows.len();
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Next::Quit,
            KeyCode::Char('p' | ' ') => self.pause(),
            KeyCode::Tab => self.select(1),
            KeyCode::BackTab => self.select(tables - 1),
            KeyCode::Char(digit @ '1'..='9') => {
                let at = digit as usize - '1' as usize;
                if self.view.is_shown(at) {
                    self.select(at + tables - self.selected);
                }
            }
            KeyCode::Left => self.sort_by(false),
            KeyCode::Right => self.sort_by(true),
            KeyCode::Char('r') => {
                let order = &mut self.orders[self.selected];
                order.ascending = !order.ascending;
            }
            KeyCode::Up => self.offset = self.offset.saturating_sub(1),
            KeyCode::Down => self.offset = (self.offset + 1).min(rows().saturating_sub(1)),
            KeyCode::PageUp => self.offset = self.offset.saturating_sub(10),
            KeyCode::PageDown => self.offset = (self.offset + 10).min(rows().saturating_sub(1)),
            KeyCode::Home => self.offset = 0,
            _ => return Next::Nothing,
        }
        Next::Draw
    }

    fn pause(&mut self) {
        self.paused = !self.paused;
        if let Some(view) = self.newest.take() {
            self.show(view);
        }
    }

    fn select(&mut self, further: usize) {
        let tables = self.view.grids.len();
        self.selected = (self.selected + further) % tables;
        // The first one always is.
        while !self.view.is_shown(self.selected) {
            self.selected = (self.selected + further) % tables;
        }
        self.offset = 0;
    }

    /// Sorts by the next column, or the one before; beyond the last there is the console's own order.
    fn sort_by(&mut self, next: bool) {
        let headings = self.view.grids[self.selected].headings;
        let columns = headings.len();
        let order = &mut self.orders[self.selected];
        // Place 0 is no column.
        let at = order.column.map_or(0, |column| column + 1);
        let at = (at + if next { 1 } else { columns }) % (columns + 1);
        let column = at.checked_sub(1);
        let number = column.is_some_and(|column| headings[column].1);
        // Names from the first, numbers from the largest.
        *order = Order {
            column,
            ascending: !number,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::pooler::Frame;
    use corun_pooler::watch::Sample;

    fn frame(seconds: u64) -> News {
        let sample = Sample {
            version: seconds.to_string(),
            ..Sample::default()
        };
        News::View(Box::new(Frame::of("here", sample, None).view()))
    }

    fn press(screen: &mut Screen, code: KeyCode) -> Next {
        screen.key(KeyEvent::new(code, KeyModifiers::NONE))
    }

    #[test]
    fn a_paused_display_stays_and_then_shows_the_newest() {
        let mut screen = Screen::new("here", Duration::from_secs(1));
        screen.news(frame(1));
        assert_eq!(press(&mut screen, KeyCode::Char('p')), Next::Draw);
        screen.news(frame(2));
        screen.news(frame(3));
        assert_eq!(screen.view.title, "1");
        press(&mut screen, KeyCode::Char('p'));
        assert_eq!((screen.view.title.as_str(), screen.paused), ("3", false));
    }

    #[test]
    fn a_lost_connection_is_told_until_there_is_a_frame() {
        let mut screen = Screen::new("here", Duration::from_secs(1));
        screen.news(frame(1));
        screen.news(News::Lost {
            why: "gone".to_owned(),
            pause: Duration::from_secs(2),
        });
        assert_eq!(screen.lost, Some(("gone".to_owned(), Duration::from_secs(2))));
        assert_eq!(screen.view.title, "1");
        screen.news(frame(2));
        assert_eq!(screen.lost, None);
    }

    #[test]
    fn keys_choose_tables_and_columns() {
        let mut screen = Screen::new("here", Duration::from_secs(1));
        screen.news(frame(1));
        // Those without rows of cohorts, hosts, ranges, splits and a queue are passed over.
        for _ in 0..3 {
            press(&mut screen, KeyCode::Tab);
        }
        assert_eq!(screen.selected, 0);
        press(&mut screen, KeyCode::BackTab);
        assert_eq!(screen.selected, 2);
        press(&mut screen, KeyCode::Char('7'));
        assert_eq!(screen.selected, 2);
        press(&mut screen, KeyCode::Char('2'));
        assert_eq!(screen.selected, 1);
        press(&mut screen, KeyCode::Right);
        let order = |screen: &Screen| screen.orders[1];
        assert_eq!(
            order(&screen),
            Order {
                column: Some(0),
                ascending: true
            }
        );
        press(&mut screen, KeyCode::Right);
        assert_eq!(
            order(&screen),
            Order {
                column: Some(1),
                ascending: false
            }
        );
        press(&mut screen, KeyCode::Char('r'));
        assert!(order(&screen).ascending);
        press(&mut screen, KeyCode::Left);
        press(&mut screen, KeyCode::Left);
        assert_eq!(order(&screen).column, None);
        press(&mut screen, KeyCode::Left);
        assert_eq!(order(&screen).column, Some(7));
        assert_eq!(press(&mut screen, KeyCode::Char('z')), Next::Nothing);
        assert_eq!(press(&mut screen, KeyCode::Down), Next::Draw);
        assert_eq!(screen.offset, 0, "there are no rows");
        assert_eq!(press(&mut screen, KeyCode::Char('q')), Next::Quit);
        assert_eq!(
            screen.key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)),
            Next::Quit
        );
    }
}
