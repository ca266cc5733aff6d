//! Relations as files: how many pages each level of them has, and which page of its level a page is.
//!
//! Read from the data folder, whose layout is that of PostgreSQL 10 to 18: a page is 8 KiB, the last sixteen bytes of a B-tree's page have its
//! level.
//!
//! Not here: what a buffer holds; that is the server's memory.

use std::path::Path;

use corun_cachesim::private_caches::recording::{Block, Relation};

use lab_core::error::BenchError;

const PAGE: usize = 8192;
/// Where the level stands in a page of a B-tree.
const LEVEL_AT: usize = PAGE - 8;
/// The page of a B-tree that is no part of the tree.
const META_LEVEL: u32 = 99;
/// Levels of a tree; more is a file that is none.
const LEVELS_MAX: u32 = 16;

/// A relation and its file.
#[derive(Clone, Debug)]
pub struct File {
    /// Its name.
    pub name: String,
    /// Number of its file.
    pub node: u32,
    /// Whether it is a B-tree.
    pub is_index: bool,
    /// Its page's levels and places in these.
    pages: Vec<(u32, u32)>,
}

impl File {
    /// Reads the file of a relation in the folder of its database.
    pub fn read(folder: &Path, name: &str, node: u32, is_index: bool) -> Result<File, BenchError> {
        let path = folder.join(node.to_string());
        let bytes = std::fs::read(&path)
            .map_err(|source| BenchError::io(format!("could not read {}", path.display()), source))?;
        let mut seen: Vec<(u32, u32)> = Vec::new();
        let mut pages = Vec::new();
        for (at, page) in bytes.chunks_exact(PAGE).enumerate() {
            let level = match (is_index, at) {
                (false, _) => 0,
                (true, 0) => META_LEVEL,
                (true, _) => {
                    let mut level = [0; 4];
                    level.copy_from_slice(&page[LEVEL_AT..LEVEL_AT + 4]);
                    u32::from_le_bytes(level).min(LEVELS_MAX)
                }
            };
            let place = match seen.iter_mut().find(|(known, _)| *known == level) {
                Some((_, count)) => {
                    *count += 1;
                    *count - 1
                }
                None => {
                    seen.push((level, 1));
                    0
                }
            };
            pages.push((level, place));
        }
        Ok(File {
            name: name.to_owned(),
            node,
            is_index,
            pages,
        })
    }

    /// The page of a tree's root, if this is a tree.
    pub fn root(&self) -> Option<u32> {
        let tree = self
            .pages
            .iter()
            .enumerate()
            .filter(|(_, (level, _))| *level <= LEVELS_MAX);
        let root = tree.max_by_key(|(_, (level, _))| *level)?;
        (self.is_index && root.1.0 > 0).then_some(root.0 as u32)
    }
}

/// Levels of all files, and where each page of each is among them.
#[derive(Clone, Debug, Default)]
pub struct Levels {
    /// As recordings have them.
    pub relations: Vec<Relation>,
}

impl Levels {
    /// The levels of these files.
    pub fn of(files: &[File]) -> Levels {
        let mut levels = Levels::default();
        for file in files {
            for &(level, _) in &file.pages {
                levels.count(file, level);
            }
        }
        levels
    }

    fn count(&mut self, file: &File, level: u32) {
        match self.position(file, level) {
            Some(at) => self.relations[at].pages += 1,
            None => self.relations.push(Relation {
                name: file.name.clone(),
                level,
                pages: 1,
            }),
        }
    }

    fn position(&self, file: &File, level: u32) -> Option<usize> {
        let known = |relation: &Relation| relation.name == file.name && relation.level == level;
        self.relations.iter().position(known)
    }

    /// A page of a file; `None` if the file has no page there.
    pub fn block(&self, file: &File, page: u32) -> Option<Block> {
        let &(level, place) = file.pages.get(page as usize)?;
        Some(Block {
            relation: self.position(file, level)? as u32,
            page: place,
        })
    }
}
