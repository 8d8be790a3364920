//! The README's blocks of code. A comment before a block, `<!-- run -->`, says what is to be done with it.

/// A marked block.
pub struct Block {
    /// What the comment says.
    pub mark: String,
    /// What is between the fences.
    pub text: String,
}

/// A file of the project.
pub fn read(path: &str) -> String {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The README's marked blocks, in their order.
pub fn marked_blocks() -> Vec<Block> {
    let readme = read("README.md");
    let mut lines = readme.lines();
    let mut blocks = Vec::new();
    while let Some(line) = lines.next() {
        let Some(mark) = line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->")) else {
            continue;
        };
        let fence = lines.next().unwrap_or_default();
        assert!(fence.starts_with("```"), "after {line} comes {fence:?}, no block");
        let text: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        blocks.push(Block {
            mark: mark.to_owned(),
            text: text.join("\n"),
        });
    }
    blocks
}

/// The one block with this mark.
pub fn block(mark: &str) -> String {
    let mut found = marked_blocks().into_iter().filter(|block| block.mark == mark);
    let block = found
        .next()
        .unwrap_or_else(|| panic!("README.md has no block marked {mark}"));
    assert!(found.next().is_none(), "README.md has two blocks marked {mark}");
    block.text
}
